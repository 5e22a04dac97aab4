"""`searchveil sweep` as people run it: stopped and gone on with, piped, with a cell that fails."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commandline import LIMIT, SCRATCH, assert_refused, demo_log, run, start, succeed

pytestmark = pytest.mark.slow

MEASURED = "measures = ['coverage']\n"
DEMO = MEASURED + "[log]\nusers = 200\n"
# More cells than can be done before a sweep is stopped, on a machine however busy.
MANY = f"repeats = 500\n{DEMO}[[mechanism]]\nmethod = 'k-query'\nk = [2, 3, 4, 5, 6, 7, 8, 9]\n"


def experiment(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def until(true: Any, what: str) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def workers_of(pid: int) -> list[int]:
    lines = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children_of(pid)}
    return [child for child, line in lines.items() if b"spawn_main" in line]


def is_importing(pid: int) -> bool:
    return "numpy" in Path(f"/proc/{pid}/maps").read_text()  # one of the first


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_killed_it_goes_on_where_it_was(tmp_path: Path) -> None:
    file, cells = experiment(tmp_path, MANY), tmp_path / "out" / "cells"
    running = start(tmp_path, "sweep", file, "--out", "out", "--workers", "1")
    until(lambda: len(list(cells.glob("*.json"))) >= 2, "two cells are done in time")
    children = children_of(running.pid)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    until(lambda: not any(map(is_running, children)), "processes stop when their parent is gone")
    assert list((tmp_path / SCRATCH).iterdir()) == [], "and leave no copy of the log"
    finished = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(finished) >= 2
    assert not (tmp_path / "out" / "results.parquet").exists()

    repeats = len(finished) // 8 + 1  # all repeats that were begun
    experiment(tmp_path, MANY.replace("repeats = 500", f"repeats = {repeats}"))
    outcome = succeed(tmp_path, "sweep", file, "--out", "out", "--workers", "1", "--json").json
    assert (outcome["cells"], outcome["kept"], outcome["failed"]) == (8 * repeats, len(finished), {})
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "what was done is not done again"
    results = pq.read_table(tmp_path / "out" / "results.parquet")
    assert len(set(results["cell"].to_pylist())) == 8 * repeats


def test_the_keyboard_stops_it_and_its_processes(tmp_path: Path) -> None:
    file = experiment(tmp_path, MANY)
    running = start(tmp_path, "sweep", file, "--out", "out", "--workers", "1")
    until(lambda: any((tmp_path / "out" / "cells").glob("*.json")) or running.poll() is not None, "a cell is done")
    children = children_of(running.pid)
    os.kill(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=LIMIT)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert children
    until(lambda: not any(map(is_running, children)), "processes stop with it")


def test_the_keyboard_while_its_processes_start_is_no_traceback(tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to all processes at once, and a new one has nothing but Python's own answer to it."""
    running = start(tmp_path, "sweep", experiment(tmp_path, MANY), "--out", "out", "--workers", "2")
    until(lambda: any(map(is_importing, workers_of(running.pid))), "a process was started")
    children = workers_of(running.pid)
    for child in children:
        os.kill(child, signal.SIGINT)
    until(lambda: any((tmp_path / "out" / "cells").glob("*.json")), "they go on: it is the parent that stops them")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=LIMIT)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    until(lambda: not any(map(is_running, children)), "processes stop with it")
    assert list((tmp_path / SCRATCH).iterdir()) == []


def test_a_signal_in_the_middle_of_a_cell_leaves_no_copy_of_the_log(tmp_path: Path) -> None:
    os.symlink(demo_log(2000), tmp_path / "log.tsv")
    slow = (
        "[[mechanism]]\nmethod = 'sampling'\nsampler = 'poisson'\ndelta = 0.5\nobjective = 'diversity'\nseconds = 600\n"
    )
    file = experiment(tmp_path, "repeats = 500\n" + MEASURED + "[log]\npath = 'log.tsv'\n" + slow)
    running = start(tmp_path, "sweep", file, "--out", "out", "--workers", "1")
    scratch = tmp_path / SCRATCH
    until(lambda: workers_of(running.pid) and any(scratch.glob("*/*/engine.duckdb")), "a cell was begun")
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=LIMIT)
    assert running.returncode == 128 + signal.SIGTERM, err
    assert "Traceback" not in err
    assert list(scratch.iterdir()) == []


def test_a_failed_cell_is_shown_and_is_exit_code_1(tmp_path: Path) -> None:
    text = DEMO + "[[mechanism]]\nmethod = 'k-query'\n[[mechanism]]\nmethod = 'zealous'\nlabel = 'too low'\n"
    text += "epsilon = 1\ndelta = 1e-6\nthreshold = 2\n[[chart]]\ny = 'coverage/query@10'\nx = 'k'\n"
    file = experiment(tmp_path, text)
    outcome = run(tmp_path, "sweep", file, "--workers", "1")
    assert outcome.code == 1
    assert "Failed: too low: the threshold 2 is infeasible" in outcome.out
    assert "2 cells, 0 of them from before, 1 failed: experiment-results/results.parquet" in outcome.out
    assert re.search(r"coverage/query@10\nk +5\nk-query +0\.\d+\n", outcome.out), "what could be done is shown"
    assert "… cells: 100 %" in outcome.err.splitlines()
    assert (tmp_path / "experiment-results" / "chart-1.svg").exists()
    again = run(tmp_path, "sweep", file, "--workers", "1", "--json")
    assert again.code == 1, "a failure is tried again, not remembered as done"
    assert again.json["kept"] == 1
    assert list(again.json["failed"]) == ["too low"]


def test_a_log_of_ones_own_comes_with_the_warning(tmp_path: Path) -> None:
    os.symlink(demo_log(), tmp_path / "log.tsv")
    file = experiment(tmp_path, MEASURED + "[log]\npath = 'log.tsv'\n[[mechanism]]\nmethod = 'k-query'\n")
    outcome = succeed(tmp_path, "sweep", file, "--out", "out")
    assert "not covered by the guarantee" in outcome.out
    assert not [path.name for path in (tmp_path / "out").rglob("*.parquet") if path.name != "results.parquet"]


def test_a_wrong_file_is_one_line_before_any_work(tmp_path: Path) -> None:
    file = experiment(tmp_path, DEMO + "[[mechanism]]\nmethod = 'zeal'\n")
    assert_refused(
        run(tmp_path, "sweep", file, "--out", "out"),
        "experiment.toml:4: [[mechanism]] 1",
        "there are weighted, votes",
    )
    assert_refused(run(tmp_path, "sweep", "gone.toml"), "gone.toml", "cannot be read")
    assert_refused(run(tmp_path, "sweep", experiment(tmp_path, MANY), "--workers", "0"), "--workers must be at least 1")
    assert not (tmp_path / "out").exists()
