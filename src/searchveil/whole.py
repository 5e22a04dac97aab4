"""A file or a folder that is there whole or not at all."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A hidden name beside `path` to write to; it becomes `path` if all goes well, and is gone otherwise."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        with suppress(OSError):
            partial.unlink()


def write_whole(path: Path, text: str) -> None:
    """What was there before is replaced."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
