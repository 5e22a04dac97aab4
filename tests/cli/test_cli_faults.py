"""Full disks, interrupts, kills and broken pipes: all or nothing, and the budget never comes back."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import (
    COMMAND,
    LIMIT,
    PLENTY,
    SCRATCH,
    assert_refused,
    crowd_log,
    demo_log,
    entries,
    environment,
    everything_in,
    new_ledger,
    run,
    run_anew,
    start,
    succeed,
)

pytestmark = pytest.mark.slow

# Whatever two users share.
EVERYTHING = ("--method", "zealous", "--epsilon", "50000", "--delta", "1e-6", "--per-user", "1000")
ONE = ("--epsilon", "1", "--delta", "1e-6")
KEEPING = "… keeping up to"  # the first thing a release says after it has paid


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for a folder and next to nothing in it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("making a small disk takes the right to mount one")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_nothing_and_the_budget_spent(tmp_path: Path, full_disk: Path) -> None:
    log, ledger = crowd_log(tmp_path), new_ledger(tmp_path)
    outcome = run(tmp_path, "release", log, *PLENTY, "--out", full_disk / "out", "--ledger", ledger)
    assert_refused(outcome, "No space left on device", "stays spent")
    assert list(full_disk.iterdir()) == []
    assert [entry.status for entry in entries(ledger)] == ["reserved"]


def test_a_file_limit_leaves_nothing_and_the_budget_spent(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path, users=8, queries=1000, length=300), new_ledger(tmp_path)
    before = everything_in(tmp_path) | {SCRATCH}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    asked = ("release", log, *EVERYTHING, "--ledger", ledger, "--table", "csv")
    assert_refused(run_anew(tmp_path, *asked, "--out", "out", limit=limit), "File too large", "stays spent")
    assert everything_in(tmp_path) == before
    assert [entry.status for entry in entries(ledger)] == ["reserved"]

    succeed(tmp_path, *asked, "--out", "out")  # without the limit the same command works, and pays again
    assert [entry.status for entry in entries(ledger)] == ["reserved", "written"]


def test_a_full_disk_under_a_demo_log_leaves_nothing(tmp_path: Path, full_disk: Path) -> None:
    assert_refused(run(tmp_path, "demo", "--users", "50", "--out", full_disk / "log.tsv"), "No space left on device")
    assert list(full_disk.iterdir()) == []


def test_results_that_cannot_be_printed_are_an_error(tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [COMMAND, "plan", "--epsilon", "1", "--delta", "1e-6"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            encoding="utf-8",
        )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("searchveil: ")


def release_until(folder: Path, log: Path, ledger: Path, words: str) -> subprocess.Popen[str]:
    """A release that has just said these words."""
    running = start(folder, "release", log, "--method", "zealous", *ONE, "--out", "out", "--ledger", ledger)
    assert running.stderr is not None
    for line in running.stderr:
        if words in line:
            return running
    raise AssertionError(f"it ended without saying {words}")


def test_killed_after_paying_the_budget_is_spent_and_nothing_appears(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    running = release_until(tmp_path, demo_log(2000), ledger, KEEPING)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert [(entry.status, entry.epsilon, entry.out) for entry in entries(ledger)] == [("reserved", 1.0, None)]
    assert not (tmp_path / "out").exists()
    shown = succeed(tmp_path, "ledger", ledger).out
    assert "spent   (1, 1e-06)" in shown
    assert "reserved, not written" in shown


def interrupt(running: subprocess.Popen[str]) -> str:
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert "Traceback" not in err, err
    assert running.returncode == 130, err
    assert out == ""
    return err


def test_interrupted_while_reading_nothing_is_paid(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    before = everything_in(tmp_path) | {SCRATCH}
    err = interrupt(release_until(tmp_path, demo_log(2000), ledger, "… reading"))
    assert entries(ledger) == ()
    assert everything_in(tmp_path) == before
    said = [line for line in err.splitlines() if not line.startswith("… ")]
    assert len(said) == 1, "people who press Ctrl-C want to know whether anything was published"
    assert said[0].startswith("searchveil: ")
    assert "nothing was published" in said[0]


def test_interrupted_after_paying_the_budget_is_spent_and_nothing_appears(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    before = everything_in(tmp_path) | {SCRATCH}
    interrupt(release_until(tmp_path, demo_log(2000), ledger, KEEPING))
    assert [entry.status for entry in entries(ledger)] == ["reserved"]
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("words", ["… reading", KEEPING])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals, words: str) -> None:
    """A line without an end and a stray return make the reader copy the log: the copy must not stay either."""
    ledger, log = new_ledger(tmp_path), tmp_path / "log.tsv"
    log.write_bytes(demo_log(2000).read_bytes() + b"\n\n")
    before = everything_in(tmp_path) | {SCRATCH}
    running = release_until(tmp_path, log, ledger, words)
    running.send_signal(number)
    out, err = running.communicate()
    assert running.returncode == 128 + number, err
    (said,) = [line for line in err.splitlines() if not line.startswith("… ")]
    assert said.startswith(f"searchveil: stopped by {number.name}; nothing was published")
    assert out == ""
    assert everything_in(tmp_path) == before


def test_a_release_that_is_there_is_not_denied(tmp_path: Path) -> None:
    """A signal that comes when the folder is in its place, and the command has only to put its things away."""
    program = (
        "import os, signal\n"
        "import searchveil.engine.duckdb as engine\n"
        "from searchveil.cli import main\n"
        "engine.DuckDBEngine.close = lambda self: os.kill(os.getpid(), signal.SIGTERM)\n"
        "main()\n"
    )
    asked = ("release", str(crowd_log(tmp_path)), *PLENTY, "--out", "out")
    done = subprocess.run(
        [sys.executable, "-c", program, *asked],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert (tmp_path / "out" / "guarantee.json").exists()
    assert done.stderr.splitlines()[-1] == "searchveil: stopped by SIGTERM after out was written completely"


def test_outputs_have_the_usual_permissions_and_the_ledger_has_not(tmp_path: Path) -> None:
    def shared() -> None:
        os.umask(0o002)

    asked = ("release", crowd_log(tmp_path), *PLENTY, "--out", "out")
    budget = ("--ledger", "own", "--budget-epsilon", "200", "--budget-delta", "0.1")
    assert run_anew(tmp_path, *asked, *budget, limit=shared).code == 0
    assert oct((tmp_path / "out").stat().st_mode)[-3:] == "775"
    assert oct((tmp_path / "out" / "data.parquet").stat().st_mode)[-3:] == "664"
    assert oct((tmp_path / "own").stat().st_mode)[-3:] == "600"


INTERRUPTED_ENGINE = """
import sys
import searchveil.engine.duckdb as engine
import searchveil.log.readers.staging as staging
from searchveil.cli import main

def interrupted(*arguments):
    raise RuntimeError("Query interrupted")

def run(self, statement):
    return interrupted() if statement.startswith("create temp table") else before(self, statement)

if sys.argv.pop(1) == "reading":
    before, staging.Parser.run = staging.Parser.run, run
else:
    engine.DuckDBEngine.stage = interrupted
main()
"""


@pytest.mark.parametrize("during", ["reading", "releasing"])
def test_interrupted_inside_the_engine_it_stops_the_same_way(tmp_path: Path, during: str) -> None:
    """DuckDB answers Ctrl-C with this exception of its own. When it looks for one is up to it, so it is raised here."""
    asked = ("release", str(crowd_log(tmp_path)), "--epsilon", "1", "--delta", "1e-6", "--out", "out")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_ENGINE, during, *asked],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 130, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("json_or_not", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_goes_away_is_no_accident(tmp_path: Path, json_or_not: tuple[str, ...]) -> None:
    running = start(tmp_path, "inspect", crowd_log(tmp_path), *json_or_not)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    err = running.stderr.read()
    running.stderr.close()
    running.wait()
    assert [line for line in err.splitlines() if not line.startswith("… ")] == []


def test_head_takes_the_first_line(tmp_path: Path) -> None:
    line = f"'{COMMAND}' inspect '{crowd_log(tmp_path)}' | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, encoding="utf-8", env=environment(tmp_path))
    assert done.stdout.count("\n") == 1
    assert "no guarantee" in done.stdout
    assert all(said.startswith("… ") for said in done.stderr.splitlines()), done.stderr


def test_an_output_without_greek_letters_is_no_crash(tmp_path: Path) -> None:
    outcome = run_anew(tmp_path, "plan", "--epsilon", "1", "--delta", "1e-6", PYTHONIOENCODING="ascii")
    assert "Traceback" not in outcome.err, outcome.err
    assert outcome.code == 0


def test_a_closed_error_stream_does_not_matter(tmp_path: Path) -> None:
    """Services may run a command without one. Progress is then lost, and a refusal must not land among the results."""
    command = f"'{COMMAND}' inspect '{crowd_log(tmp_path)}' --json 2>&-"
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, encoding="utf-8", env=environment(tmp_path))
    assert done.returncode == 0
    assert done.stdout.startswith("{")
    command = f"'{COMMAND}' plan --epsilon 0 --delta 1e-6 --json 2>&-"
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, encoding="utf-8", env=environment(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
