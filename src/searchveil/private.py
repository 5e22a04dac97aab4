"""Databases for their owner alone: keys, a person's searches and the account of a log are in them."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote

from searchveil.errors import InputError

BESIDE = ("", "-wal", "-shm", "-journal")  # what SQLite puts beside a database holds parts of it


def make_private(path: Path) -> None:
    """An empty file, if there is none. What SQLite puts beside it later is as the file is."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def close_to_others(path: Path, *, group: bool = False) -> None:
    """Take from others what they may do with a database, and say so; that its `group` may use it may be meant.

    To be called once it is known for one of ours: nobody wants this of a file that was named by mistake.
    """
    others = 0o007 if group else 0o077
    files = [path.with_name(path.name + end) for end in BESIDE]
    open_to_others = [file for file in files if file.is_file() and file.stat().st_mode & others]
    if not open_to_others:
        return
    try:
        for file in open_to_others:
            file.chmod(file.stat().st_mode & 0o7777 & ~others)
    except OSError as error:
        raise InputError(
            f"others on this machine may read or write {path}, which is private, and that cannot be changed: "
            f"{error.strerror}",
            instead=f"let its owner type: chmod {'o' if group else 'go'}= {quote(str(path))}",
        ) from error
    kept = not any(file.stat().st_mode & others for file in open_to_others)
    said = "now they may not" if kept else "this file system keeps no permissions: move it to one that does"
    with suppress(OSError):
        print(f"searchveil: others on this machine could read or write {path}; {said}", file=sys.stderr)
