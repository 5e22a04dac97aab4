"""Work on the log: commands of searchveil, each a process of its own, whose folder tells how far it is.

A job outlives the server. Its process holds a lock file, which the system unlocks when it ends, however it ends: so a
server that was started anew tells jobs that still run from those that ended without a word.
"""

import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from searchveil.errors import InputError

State = Literal["running", "done", "refused", "died"]
STEP = "… "
PAID = re.compile(r"^… paid, as entry (\d+) of ", re.MULTILINE)
REFUSED = "searchveil: "
LOCK = "lock"
NAME = re.compile(r"[0-9a-f]{16}")

_children: dict[str, "subprocess.Popen[bytes]"] = {}  # of this server, whose exit it must fetch


@dataclass(frozen=True)
class Job:
    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @cached_property
    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.folder / "job.json").read_text("utf-8"))
        return record

    @property
    def command(self) -> list[str]:
        """What follows `searchveil` on the command line."""
        return list(self._record["command"])

    @property
    def started(self) -> str:
        return str(self._record["started"])

    @property
    def about(self) -> Mapping[str, Any]:
        """What its page needs to know: the ledger, the folder, the log."""
        return dict(self._record["about"])

    @property
    def state(self) -> State:
        if self._is_running:
            return "running"
        if self.result is not None:
            return "done"
        return "refused" if self.complaint else "died"

    @property
    def steps(self) -> list[str]:
        return [line.removeprefix(STEP) for line in self._said.splitlines() if line.startswith(STEP)]

    @property
    def entry(self) -> int | None:
        """The ledger's entry that paid for it, as soon as it is paid."""
        found = PAID.search(self._said)
        return None if found is None else int(found.group(1))

    @property
    def result(self) -> dict[str, Any] | None:
        """What it printed at its end."""
        try:
            found = json.loads(self._text("out"))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    @property
    def complaint(self) -> str:
        """Why it ended without a result, in its own words."""
        lines = [line for line in self._said.splitlines() if not line.startswith(STEP)]
        return lines[-1].removeprefix(REFUSED) if lines and lines[-1].startswith(REFUSED) else ""

    def stop(self) -> None:
        """Ask it to end."""
        if self._is_running:
            with suppress(ProcessLookupError, ValueError, OSError):
                os.kill(int(self._text("pid")), signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Until it ends, if this server started it."""
        child = _children.get(str(self.folder))
        if child is not None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(seconds)

    @property
    def _is_running(self) -> bool:
        child = _children.get(str(self.folder))
        if child is not None and child.poll() is not None:
            _children.pop(str(self.folder), None)
            if child.stdin is not None:
                child.stdin.close()
        return is_locked(self.folder / LOCK)

    @property
    def _said(self) -> str:
        return self._text("err")

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text("utf-8", errors="replace")
        except OSError:
            return ""


def start(
    place: Path,
    command: Sequence[str],
    root: Path,
    about: Mapping[str, Any],
    *,
    alone: Path | None = None,
    outlives: bool = True,
) -> Job:
    """Run the command in `root`; its records go to a new folder in `place`.

    `alone` is a lock file of which one job at a time may be the owner. What does not outlive this server ends with it.
    """
    held = [] if alone is None else [_locked(alone)]
    folder = place / secrets.token_hex(8)
    folder.mkdir(mode=0o700, parents=True)
    try:
        held.append(_locked(folder / LOCK))
        started = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"command": list(command), "started": started, "about": dict(about)}
        (folder / "job.new").write_text(json.dumps(record, ensure_ascii=False), "utf-8")
        (folder / "job.new").rename(folder / "job.json")  # whole or not at all, whenever this server is killed
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            child = subprocess.Popen(
                [sys.executable, "-m", "searchveil" if outlives else "searchveil.studio.following", *command],
                cwd=root,
                env=os.environ | {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL if outlives else subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,  # a Ctrl-C is for the server
                pass_fds=held,
            )
        (folder / "pid").write_text(str(child.pid), "utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)
    _children[str(folder)] = child
    return Job(folder)


def jobs_in(place: Path) -> list[Job]:
    """The newest first."""
    folders = place.iterdir() if place.is_dir() else ()
    found = [Job(folder) for folder in folders if NAME.fullmatch(folder.name) and (folder / "job.json").is_file()]
    return sorted(found, key=lambda job: (job.started, job.id), reverse=True)


def job_named(place: Path, id: str) -> Job | None:
    folder = place / id
    return Job(folder) if NAME.fullmatch(id) and (folder / "job.json").is_file() else None


def is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: several may look at once
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked(path: Path) -> int:
    """A descriptor that holds the lock, and so does every process that inherits it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(
            "another release is being paid from this ledger just now",
            parameter="ledger",
            instead="wait until it is done; the page of releases shows it",
        ) from None
    return descriptor


def as_typed(command: Sequence[str]) -> str:
    """The whole command line, to copy."""
    return shlex.join(["searchveil", *command])
