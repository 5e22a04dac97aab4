"""Signals, and what a run leaves in the temporary folder: nothing, or nothing for long."""

import gc
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from searchveil.engine.duckdb import DuckDBEngine
from searchveil.scratch import Scratch, remove_dead

pytestmark = pytest.mark.slow

LIMIT = 250  # seconds after which something hangs

AT_WORK = """
import sys, time
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.scratch import Scratch
from searchveil.stopping import end_cleanly
from searchveil.atomic import keep_private

end_cleanly(grace=float(sys.argv[2]))
keep_private()
copies = Scratch()
(copies.path / "clean-1.txt").write_text("a private row")
engine = DuckDBEngine(threads=1)
engine.sql("create temp table staged as select range as i from range(100000)")
if sys.argv[1] == "native":  # what neither looks for signals nor lets an exception through
    while True:
        try:
            print("working", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            pass
print("working", flush=True)
if sys.argv[1] == "query":
    engine.sql("select sum(hash(a.i, b.i)) from staged a, staged b, staged c")
else:
    time.sleep(600)
"""


def _heed_signals() -> None:
    """A shell without job control, or nohup, starts what runs in the background with these ignored."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def at_work(scratch: Path, doing: str, grace: float = 60) -> subprocess.Popen[str]:
    """A process with a copy of rows and an engine in its temporary folder."""
    running = subprocess.Popen(
        [sys.executable, "-c", AT_WORK, doing, str(grace)],
        env=os.environ | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=_heed_signals,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "working\n"
    return running


def end(running: subprocess.Popen[str], number: int) -> int:
    running.send_signal(number)
    running.communicate(timeout=LIMIT)
    return running.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU])
def test_every_signal_that_can_be_caught_leaves_nothing(tmp_path: Path, number: int) -> None:
    running = at_work(tmp_path, "waiting")
    assert len(list(tmp_path.rglob("clean-1.txt"))) == 1
    assert end(running, number) != 0
    assert list(tmp_path.iterdir()) == []


def test_a_long_query_is_no_reason_to_wait(tmp_path: Path) -> None:
    assert end(at_work(tmp_path, "query"), signal.SIGTERM) != 0
    assert list(tmp_path.iterdir()) == []


def test_what_never_looks_for_signals_is_ended_after_the_grace(tmp_path: Path) -> None:
    assert end(at_work(tmp_path, "native", grace=0.5), signal.SIGTERM) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_is_swept_by_the_next_and_a_live_one_is_not(tmp_path: Path) -> None:
    alive, dead = at_work(tmp_path, "waiting"), at_work(tmp_path, "waiting")
    before = set(tmp_path.iterdir())
    assert end(dead, signal.SIGKILL) == -signal.SIGKILL
    assert set(tmp_path.iterdir()) == before, "nobody can clean up after that"
    (tmp_path / "searchveil-not-ours").mkdir()  # without a lock: it may be about to get one
    next_one = at_work(tmp_path, "waiting")
    left = set(tmp_path.iterdir())
    assert len(before & left) == 2, "those of the live one"
    assert all((folder / "lock").exists() for folder in before & left)
    assert end(alive, signal.SIGTERM) != 0
    assert end(next_one, signal.SIGTERM) != 0
    assert [path.name for path in tmp_path.iterdir()] == ["searchveil-not-ours"]


def test_what_is_written_while_a_folder_is_removed_goes_with_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as something is left the lock is there too, or nobody would ever remove it."""
    dead = tmp_path / "searchveil-dead"
    (dead / "engine").mkdir(parents=True)
    for name in ("aaa", "lock", "zzz"):
        (dead / name).touch()
    remove = shutil.rmtree

    def remove_slowly(path: str, ignore_errors: bool) -> None:
        remove(path, ignore_errors)
        if dead in Path(path).parents:  # others remove theirs meanwhile
            (dead / "late").write_text("a private row")

    with monkeypatch.context() as slow:
        slow.setattr("searchveil.scratch.shutil.rmtree", remove_slowly)
        remove_dead(tmp_path)
    assert {path.name for path in dead.iterdir()} == {"late", "lock"}
    remove_dead(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_temporary_folder_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    for folder in (mine, shared):
        folder.mkdir()
    (mine / "lock").touch()
    (shared / "searchveil-link").symlink_to(mine)
    Scratch(shared).close()
    assert (mine / "lock").exists()
    assert [path.name for path in shared.iterdir()] == ["searchveil-link"]


def test_all_that_a_run_makes_is_for_its_owner_only(tmp_path: Path) -> None:
    running = at_work(tmp_path, "waiting")
    modes = {path.relative_to(tmp_path).name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    folders = {path.name for path in tmp_path.rglob("*") if path.is_dir()}
    assert end(running, signal.SIGTERM) != 0
    assert {"clean-1.txt", "engine.duckdb", "lock"} <= set(modes)
    assert {name: oct(mode) for name, mode in modes.items()} == {
        name: oct(0o700 if name in folders else 0o600) for name in modes
    }


def test_a_folder_ends_with_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    engine = DuckDBEngine()
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    engine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_lives_as_long_as_somebody_means_to_close_it(tmp_path: Path) -> None:
    close = Scratch(tmp_path).close
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    close()
    assert list(tmp_path.iterdir()) == []


def test_nohup_is_heeded(tmp_path: Path) -> None:
    program = (
        "import os, signal, time\n"
        "from searchveil.stopping import end_cleanly\n"
        "end_cleanly(grace=0)\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "time.sleep(0.3)\n"
        "print('still here')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        encoding="utf-8",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        timeout=LIMIT,
    )
    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr


STARTING = """
import os, signal, subprocess, sys, time
from searchveil.stopping import end_cleanly, held_back

end_cleanly(grace=60)
try:
    with held_back():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2); print('done')"])
        time.sleep(0.2)
        os.killpg(0, signal.SIGINT)  # the keyboard reaches the whole group
        time.sleep(0.2)
        print("whole", flush=True)
except KeyboardInterrupt:
    child.wait()
    print("interrupted", child.returncode)
"""


def test_what_must_not_be_interrupted_is_interrupted_afterwards(tmp_path: Path) -> None:
    began = subprocess.Popen(
        [sys.executable, "-c", STARTING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    out, err = began.communicate(timeout=LIMIT)
    assert out.split("\n") == ["whole", "done", "interrupted 0", ""], err
    assert err == ""


MAKING = """
import os, signal, sys
from searchveil.scratch import Scratch
from searchveil.stopping import end_cleanly

real, place = getattr(os, sys.argv[1]), os.environ["TMPDIR"]


def stopped_after(path, *arguments, **named):
    done = real(path, *arguments, **named)
    if str(path).startswith(place):
        signal.raise_signal(signal.SIGTERM)
    return done


end_cleanly(grace=60)
setattr(os, sys.argv[1], stopped_after)
try:
    Scratch()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("call", ["open", "mkdir"])
def test_a_signal_while_a_folder_is_made_leaves_nothing(tmp_path: Path, call: str) -> None:
    """Python tries out the temporary folder with a file (open); then ours is made (mkdir) and locked (open)."""
    done = subprocess.run(
        [sys.executable, "-c", MAKING, call],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
    assert list(tmp_path.iterdir()) == []
