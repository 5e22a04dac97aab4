"""A studio as people start it: a process of its own in a folder of its own, asked over HTTP or by a browser."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from commandline import start

LIMIT = 240  # seconds after which something hangs, on a machine however slow
Form = Mapping[str, Any]


class Serving:
    """A running studio, and a browser that was let in."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.process = start(folder, "studio", *arguments, "--no-browser")
        self.address = self.link = ""
        self.next_link()
        self.http = httpx.Client(base_url=self.address, timeout=LIMIT)

    def next_link(self) -> str:
        """The link that the terminal shows next."""
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, ""):
            if "/enter?token=" in line:
                self.link = line.split()[-1]
                parts = urlsplit(self.link)
                self.address = f"{parts.scheme}://{parts.netloc}"
                return self.link
        raise AssertionError(self.process.stderr and self.process.stderr.read())

    def enter(self) -> "Serving":
        assert self.http.get(self.link).status_code == 200
        self.next_link()
        return self

    @property
    def form_token(self) -> str:
        found = re.search(r'name="form_token" value="([^"]+)"', self.get("/"))
        assert found is not None
        return found.group(1)

    def get(self, path: str, status: int = 200, **query: Any) -> str:
        answer = self.http.get(path, params=query or None)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, form: Form, *, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """As a page of the studio sends it."""
        said = {"origin": self.address, **(headers or {})}
        return self.http.post(path, data={"form_token": self.form_token, **form}, headers=said)

    def save(self, draft: str, step: str, form: Form) -> str:
        """What a form's own answer shows, as htmx asks for it."""
        answer = self.post(f"{draft}/{step}", form, headers={"hx-request": "true"})
        assert answer.status_code == 200, answer.text
        return answer.text

    def new_draft(self) -> str:
        answer = self.post("/drafts", {})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].rpartition("/")[0]

    def drafted(self, log: str, *, ledger: str = "new", epsilon: str = "5", out: str = "out", **given: str) -> str:
        """A draft that only waits for its confirmation."""
        draft = self.new_draft()
        self.save(draft, "log", {"log": log})
        until(lambda: "How it is read" in self.get(f"{draft}/log"))
        self.save(draft, "what", {"method": "zealous", **given})
        self.save(draft, "promise", {"epsilon": epsilon, "delta": "1e-6"})
        budget = {"budget_epsilon": "20", "budget_delta": "1e-4", "new_ledger": "account.sqlite"}
        self.save(draft, "budget", {"ledger": ledger, "out": out, "table": "parquet", **budget})
        return draft

    def confirm(self, draft: str, word: str = "5") -> httpx.Response:
        found = re.search(r'name="fingerprint" value="([0-9a-f]+)"', self.get(f"{draft}/budget"))
        assert found is not None, "nothing can be confirmed there"
        return self.post(f"{draft}/release", {"fingerprint": found.group(1), "confirm": word})

    def released(self, draft: str, word: str = "5") -> str:
        """The page of a release that was confirmed, when it is done."""
        answer = self.confirm(draft, word)
        assert answer.status_code == 303, answer.text
        run: str = answer.headers["location"]
        until(lambda: 'data-state="running"' not in self.get(run))
        return run

    def end(self, how: int = signal.SIGTERM) -> tuple[int, str, str]:
        self.http.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, err


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Serving]:
    made = Serving(folder, *arguments).enter()
    try:
        yield made
    finally:
        made.end()
        stop_runs(folder)


def runs_of(folder: Path) -> list[Path]:
    return sorted((folder / ".searchveil-studio").glob("*/job.json"))


def pid_of(folder: Path) -> int:
    (run,) = runs_of(folder)
    return int((run.parent / "pid").read_text())


def halt(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Releases of studios that are started from now on stop there: "after" or "before" a line that they write."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("halting")))
    monkeypatch.setenv("HALT", when)


def halted(folder: Path) -> int:
    """The process of the release, once it has stopped itself (see halting/)."""
    until(lambda: runs_of(folder) and (runs_of(folder)[0].parent / "pid").exists())
    pid = pid_of(folder)
    until(lambda: state_of(pid) == "T")
    return pid


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def stop_runs(folder: Path) -> None:
    """The releases that go on without their studio."""
    for run in runs_of(folder):
        with suppress(OSError, ValueError):
            os.kill(int((run.parent / "pid").read_text()), signal.SIGKILL)


def until(holds: Callable[[], object]) -> None:
    """Wait for it; nothing is asserted about how long it takes, short of hanging. Asking takes a fifth of the time."""
    ends = time.monotonic() + LIMIT
    while True:
        begun = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        assert now < ends, "waited in vain"
        time.sleep(min(1.0, max(0.05, 4 * (now - begun))))
