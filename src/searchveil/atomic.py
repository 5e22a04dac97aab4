"""Atomic writes: a file or a folder is there completely or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

written: list[Path] = []  # what this process has put in its place, for whoever must say so after an interrupt
_usual_umask: int | None = None  # what outputs are made with, where everything else is made for the owner only


def keep_private() -> None:
    """From now on all this process makes is for its owner only, but for the outputs, which get the usual permissions.

    For a whole process: an engine's threads write files of their own at any time.
    """
    global _usual_umask
    _usual_umask = os.umask(0o077)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A hidden name beside `path` to write to; it becomes `path` if all goes well, and is gone otherwise."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    ready = False
    try:
        yield partial
        _open_up(partial)
        ready = True
        partial.replace(path)
    finally:
        if ready and not os.path.lexists(partial):
            written.append(path)
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        with suppress(OSError):
            partial.unlink()


def write_atomically(path: Path, text: str) -> None:
    """What was there before is replaced."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _open_up(made: Path) -> None:
    if _usual_umask is None:
        return
    for path in [made, *(made.rglob("*") if made.is_dir() else ())]:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_usual_umask)
