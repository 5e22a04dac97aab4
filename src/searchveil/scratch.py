"""Temporary folders for copies of private rows: for their owner only, and gone with the process that made them.

A folder holds a lock file that its process keeps locked, and the system unlocks when that process ends, however it
ends. So a later run can tell the folders of dead runs from those of live ones, and removes them.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from types import TracebackType

from searchveil import stopping

PREFIX = "searchveil-"
LOCK = "lock"

_live: set[Path] = set()  # folders of this process
_swept: set[Path] = set()  # where this process has looked for those of dead ones


class Scratch:
    """A folder (0700) that lives until it is closed, its object is forgotten, or the process ends."""

    def __init__(self, parent: str | Path | None = None) -> None:
        with stopping.held_back():  # what is made must be known as ours before a signal may end this process
            place = Path(tempfile.gettempdir() if parent is None else parent).absolute()
            if place not in _swept:
                _swept.add(place)
                remove_dead(place)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            _live.add(self.path)
            # Locked before it has its name: whoever finds a lock file that is not locked may remove the folder.
            unnamed = self.path / f"{LOCK}.new"
            lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            with suppress(OSError):  # a file system without locks: then nobody else can lock it either
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unnamed.rename(self.path / LOCK)
            self._end = weakref.finalize(self, _remove, self.path, lock)  # also when Python ends

    def close(self) -> None:
        self._end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove(folder: Path, lock: int) -> None:
    _remove_lock_last(folder)
    _live.discard(folder)
    os.close(lock)


def remove_live() -> None:
    """The folders of this process, when it must end at once."""
    for folder in list(_live):
        _remove_lock_last(folder)


def _remove_lock_last(folder: Path) -> None:
    """A folder without its lock file is nobody's to remove: where something is left, the lock stays for a later run.

    What still writes into the folder can make files faster than they are removed, and this process may be killed here.
    """
    with suppress(OSError):
        for entry in [entry for entry in os.scandir(folder) if entry.name != LOCK]:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        if os.listdir(folder) == [LOCK]:
            os.unlink(folder / LOCK)
        os.rmdir(folder)  # refused where something is left


stopping.before_ending.append(remove_live)


def remove_dead(place: Path) -> None:
    """The folders that dead processes of the same user left in this place."""
    with suppress(OSError):
        for folder in [Path(entry) for entry in os.scandir(place) if entry.name.startswith(PREFIX)]:
            with suppress(OSError):
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    found = folder.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or folder in _live:
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where its process lives
        _remove_lock_last(folder)
    finally:
        os.close(lock)
