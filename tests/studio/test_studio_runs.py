"""Releases outlive page and server: what was paid and written is told truly, whoever was killed when."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from commandline import crowd_log, entries
from serving import Serving, runs_of, serving, until

pytestmark = pytest.mark.slow


def large_log(folder: Path) -> Path:
    """One whose release takes long enough to be stopped in the middle, however fast the machine is."""
    rows = "".join(f"{user},q{user % 977} {number % 31}\n" for user in range(20_000) for number in range(30))
    (folder / "large.csv").write_text("user,query\n" + rows)
    return folder / "large.csv"


def pid_of(folder: Path) -> int:
    (run,) = runs_of(folder)
    return int((run.parent / "pid").read_text())


def said_in(folder: Path) -> str:
    (run,) = runs_of(folder)
    return (run.parent / "err").read_text("utf-8")


def stopped_when(folder: Path, word: str) -> int:
    """Halt the process of the release as soon as it has said this."""
    until(lambda: runs_of(folder) and (runs_of(folder)[0].parent / "pid").exists())
    until(lambda: word in said_in(folder))
    os.kill(pid_of(folder), signal.SIGSTOP)
    return pid_of(folder)


def begun(studio: Serving, log: str) -> str:
    answer = studio.confirm(studio.drafted(log))
    assert answer.status_code == 303, answer.text
    run: str = answer.headers["location"]
    return run


@pytest.mark.parametrize("paid", [False, True], ids=["before payment", "after payment"])
def test_server_and_release_killed(tmp_path: Path, paid: bool) -> None:
    large_log(tmp_path)
    first = Serving(tmp_path).enter()
    begun(first, "large.csv")
    pid = stopped_when(tmp_path, "… paid" if paid else "… reading the log")
    first.end(signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    with serving(tmp_path) as again:
        home = again.get("/")
        assert "not finished" in home
        run = again.get(f"/runs/{runs_of(tmp_path)[0].parent.name}")
        assert 'data-state="died"' in run
        if paid:
            assert "Paid, as entry 1 of account.sqlite" in run
            assert "What was paid stays paid" in run
            assert "paid, not written" in home, "the ledger's entry says so, too"
            assert entries(tmp_path / "account.sqlite")[0].status == "reserved"
        else:
            assert "Nothing was paid and nothing was written" in run
            assert not (tmp_path / "account.sqlite").exists() or not entries(tmp_path / "account.sqlite")


def test_a_release_goes_on_when_its_server_is_killed(tmp_path: Path) -> None:
    """And its ledger pays for no other meanwhile, whichever server asks."""
    large_log(tmp_path)
    crowd_log(tmp_path)
    first = Serving(tmp_path).enter()
    run = begun(first, "large.csv")
    pid = stopped_when(tmp_path, "… paid")
    first.end(signal.SIGKILL)
    with serving(tmp_path) as again:
        page = again.get(run)
        assert 'data-state="running"' in page
        assert "/cancel" not in page, "it is paid for"
        assert "running" in again.get("/")
        other = again.confirm(again.drafted("crowd.csv", ledger="account.sqlite", out="other"))
        assert "another release is being paid from this ledger just now" in other.text
        os.kill(pid, signal.SIGCONT)
        until(lambda: 'data-state="done"' in again.get(run))
        assert (tmp_path / "out" / "guarantee.json").is_file()
        assert 'href="/results?folder=out"' in again.get("/")
    (entry,) = entries(tmp_path / "account.sqlite")
    assert (entry.status, entry.out) == ("written", str(tmp_path / "out"))


def test_cancelled_before_payment_nothing_is_paid(tmp_path: Path) -> None:
    large_log(tmp_path)
    with serving(tmp_path) as studio:
        run = begun(studio, "large.csv")
        pid = stopped_when(tmp_path, "… reading the log")
        assert "/cancel" in studio.get(run)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        assert studio.post(f"{run}/cancel", {}).status_code == 303
        until(lambda: 'data-state="running"' not in studio.get(run))
        page = studio.get(run)
        told = entries(tmp_path / "account.sqlite") if (tmp_path / "account.sqlite").exists() else ()
        assert ("Nothing was paid from account.sqlite" in page) == (not told), "whatever was quicker, the page is right"
        assert not (tmp_path / "out").exists()
        assert "stopped by SIGTERM" in page


def test_the_studio_answers_and_ends_while_a_release_runs(tmp_path: Path) -> None:
    large_log(tmp_path)
    first = Serving(tmp_path).enter()
    run = begun(first, "large.csv")
    pid = stopped_when(tmp_path, "… reading the log")
    page = first.save(first.new_draft(), "promise", {"epsilon": "3", "delta": "1e-6"})
    assert "(3, 1e-06)-differentially private" in page
    code, out, err = first.end()
    assert (code, err) == (0, "")
    assert out.endswith("The studio has ended.\n")
    os.kill(pid, signal.SIGCONT)
    with serving(tmp_path) as again:
        until(lambda: 'data-state="done"' in again.get(run))
    assert len(entries(tmp_path / "account.sqlite")) == 1
