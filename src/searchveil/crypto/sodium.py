"""libsodium as the package rbcl has it, without the file that its import leaves behind."""

import tempfile
from contextlib import suppress
from pathlib import Path

import rbcl

__all__ = ["rbcl"]


def _remove_copy() -> None:
    """The package unpacks its library into a temporary file on every import and leaves it there. It is loaded now."""
    copy = Path(str(getattr(rbcl._sodium, "_name", "")))
    if copy.suffix == ".so" and copy.parent == Path(tempfile.gettempdir()):
        with suppress(OSError):
            copy.unlink()


_remove_copy()
