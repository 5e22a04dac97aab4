"""Commands of several hosts at once, forked from a Python that has loaded everything (see `forked`).

Each is a process of its own, which can be killed and can fill its disk. What goes wrong in one is a fault by name.
"""

import atexit
import ctypes
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from searchveil.collab.simulate import same_modules

LIMIT = 280  # seconds after which a command hangs, on a machine however slow
Fault = tuple[str, ...]  # a function of this file and what it is called with


class Fork:
    """A command that runs; as a Popen, as far as anybody here needs one."""

    def __init__(
        self, argv: Sequence[str], folder: Path, streams: Sequence[Path], *, fault: Fault = (), **environment: str
    ) -> None:
        self._code, self._pid = (streams[0].with_suffix(f".{end}") for end in ("code", "pid"))
        self.returncode: int | None = None
        for path in (self._code, self._pid):
            path.unlink(missing_ok=True)
        asked = {
            "argv": ["searchveil", *argv],
            "folder": str(folder),
            "streams": list(map(str, streams)),
            "limit": LIMIT,
        }
        asked |= {"environment": {**os.environ, **environment}, "fault": fault}
        server = _server().stdin
        assert server is not None
        print(json.dumps([asked, str(self._pid), str(self._code)]), file=server, flush=True)

    @property
    def pid(self) -> int:
        return int(_awaited(self._pid))

    def poll(self) -> int | None:
        if self.returncode is None and self._code.exists():
            self.returncode = int(_awaited(self._code))
        return self.returncode

    def wait(self, timeout: float = LIMIT) -> int:
        until = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < until, "a command hangs"
            time.sleep(0.02)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)


def _awaited(path: Path) -> str:
    until = time.monotonic() + LIMIT
    while not (path.exists() and (said := path.read_text()).endswith("\n")):
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.01)
    return said


@cache
def _server() -> "subprocess.Popen[str]":
    environment = os.environ | same_modules()
    started = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, env=environment, encoding="utf-8")
    atexit.register(started.communicate)
    return started


# --- faults, in the process that they befall --------------------------------------------------------------------------


def killed_at(phase: str) -> None:
    """Of a party as it comes to a phase; of the coordinator as a message of it arrives."""
    _at(phase, lambda: os.kill(os.getpid(), signal.SIGKILL))


def slow_at(phase: str, seconds: str) -> None:
    _at(phase, lambda: time.sleep(float(seconds)))


def full_disk_at(phase: str, size: str = "2500") -> None:
    """No file can grow beyond so many bytes from here on."""
    _at(phase, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size))))


def _at(phase: str, happens: Any) -> None:
    from searchveil.collab.coordinator import Coordinator
    from searchveil.collab.transcript import Transcript

    begin, store = Transcript.phase, Coordinator._store

    def begun(self: Any, name: str) -> None:
        if name == phase and "coordinator" not in sys.argv:
            happens()
        begin(self, name)

    def stored(self: Any, header: Any, message: bytes) -> None:
        if header.phase == phase:
            happens()
        store(self, header, message)

    Transcript.phase, Coordinator._store = begun, stored  # type: ignore[method-assign]


def tells_its_package(path: str) -> None:
    import searchveil

    Path(path).write_text(str(searchveil.__file__))


def within(namespace: str) -> None:
    """In a network of its own."""
    with Path("/run/netns", namespace).open() as entry:
        if ctypes.CDLL(None, use_errno=True).setns(entry.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")


def within_and_slow_at(namespace: str, phase: str, seconds: str) -> None:
    within(namespace)
    slow_at(phase, seconds)


# --- the server -------------------------------------------------------------------------------------------------------


def _serve() -> None:
    import importlib
    import pkgutil

    from forked import HEAVY, become

    import searchveil

    names = [module.name for module in pkgutil.walk_packages(searchveil.__path__, "searchveil.")]
    for name in [*HEAVY, *(name for name in names if not name.endswith("__main__"))]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what no child looks at stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            _watch(become, *json.loads(line))
    os._exit(0)


def _watch(become: Any, asked: Mapping[str, Any], pid: str, code: str) -> None:
    """A process that writes down how the command ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        fault, *given = asked["fault"] or ("",)
        sys.argv = asked["argv"]
        if fault:
            globals()[fault](*given)
        become(**{name: value for name, value in asked.items() if name != "fault"})
    Path(pid).write_text(f"{child}\n")
    _, status = os.waitpid(child, 0)
    Path(code).write_text(f"{os.waitstatus_to_exitcode(status)}\n")
    os._exit(0)


if __name__ == "__main__":
    _serve()
