"""Running the real command, and looking at what it said and left behind."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from forked import fork_server

from searchveil.log.demo import write_demo
from searchveil.privacy.ledger import Entry, Ledger

COMMAND = str(Path(sys.executable).with_name("searchveil"))
LIMIT = 280  # seconds after which a command hangs, on a machine however slow
SCRATCH = "scratch"  # the folder for temporary files, inside the one where a command runs


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON object; anything else on it is a mistake."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def said(self) -> list[str]:
        """The lines on standard error that do not tell of progress."""
        return [line for line in self.err.splitlines() if not line.startswith("… ")]


def run(folder: Path, *arguments: str | Path) -> Outcome:
    """The command in this folder, in a process that need not load everything first."""
    argv = [COMMAND, *map(str, arguments)]
    return Outcome(*fork_server().run(argv, folder, environment(folder), LIMIT))


def run_anew(folder: Path, *arguments: str | Path, limit: Callable[[], None] | None = None, **env: str) -> Outcome:
    """The command as people start it; `limit` is called in the new process before it begins. These may run at once."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        cwd=folder,
        env=environment(folder) | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
        preexec_fn=limit,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def succeed(folder: Path, *arguments: str | Path) -> Outcome:
    outcome = run(folder, *arguments)
    assert outcome.code == 0, outcome.err
    assert outcome.said == []
    return outcome


def start(folder: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=_heed_interrupts,
    )


def _heed_interrupts() -> None:
    """Tests that run in the background ignore Ctrl-C or the end of a terminal, and what they start inherits that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def environment(folder: Path) -> dict[str, str]:
    """No terminal, a plain locale, and temporary files where a test can see whether any stay."""
    scratch = folder / SCRATCH
    scratch.mkdir(exist_ok=True)
    odd = ("PYTHON", "LC_", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name == "PYTHONPATH" or not name.startswith(odd)}
    return kept | {"TMPDIR": str(scratch), "LANG": "C.UTF-8", "COLUMNS": "80"}


def assert_refused(outcome: Outcome, *says: str, code: int = 2) -> None:
    """One line that says what is wrong, and nothing else."""
    assert "Traceback" not in outcome.err, outcome.err
    assert outcome.code == code, outcome
    assert len(outcome.said) == 1, outcome.err
    line = outcome.said[0]
    assert line.startswith("searchveil: ")
    for words in says:
        assert words in line, line
    assert outcome.out == ""


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@cache
def demo_log(users: int = 250, suffix: str = ".tsv") -> Path:
    """A demo log that the tests share and only read."""
    folder = Path(tempfile.mkdtemp(prefix="searchveil-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_demo(folder / f"log{suffix}", users=users, seed=1).path


def crowd_log(folder: Path, *, users: int = 4, queries: int = 5, length: int = 8) -> Path:
    """A log in which every user searched the same queries, long ones if asked, so that a release knows what to hold."""
    lines = ["user,query"]
    for number in range(queries):
        text = f"{number:08x}" if length == 8 else os.urandom(length).hex()
        lines += [f"{user},{text}" for user in range(users)]
    path = folder / "crowd.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# With so large an ε the noise is almost nothing: what three users share is published, whatever the draw.
PLENTY = ("--method", "zealous", "--epsilon", "100", "--delta", "1e-6")


def new_ledger(folder: Path, epsilon: float = 1e6, delta: float = 0.5) -> Path:
    return Ledger.open(folder / "account.sqlite", budget_epsilon=epsilon, budget_delta=delta).path


def entries(ledger: Path) -> tuple[Entry, ...]:
    return Ledger.open(ledger).spent().entries
