"""Releases outlive page and server: what was paid and written is told truly, whoever was killed when.

Each release here halts itself at a line of its own, so nothing depends on who is quicker.
"""

import html
import os
import signal
from pathlib import Path

import pytest
from commandline import PLENTY, crowd_log, entries, new_ledger, run_anew
from serving import Serving, halt, halted, runs_of, serving, state_of, until

pytestmark = pytest.mark.slow

READING, PAYING, PAID = "after … reading the log", "after … paying", "after … paid"
PAID_UNSAID = "before … paid"  # the ledger has it, and nobody was told


def begun(studio: Serving, log: str = "crowd.csv") -> str:
    answer = studio.confirm(studio.drafted(log))
    assert answer.status_code == 303, answer.text
    run: str = answer.headers["location"]
    return run


@pytest.mark.parametrize("when", [READING, PAYING, PAID_UNSAID, PAID])
def test_server_and_release_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    crowd_log(tmp_path)
    halt(monkeypatch, when)
    first = Serving(tmp_path).enter()
    begun(first)
    pid = halted(tmp_path)
    first.end(signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    with serving(tmp_path) as again:
        home = again.get("/")
        assert "not finished" in home
        run = again.get(f"/runs/{runs_of(tmp_path)[0].parent.name}")
        assert 'data-state="died"' in run
        paid = when in (PAID, PAID_UNSAID)
        assert ("paid, not written" in home) == paid, "the ledger's entry says so, too"
        if when == PAID:
            assert "Paid, as entry 1 of account.sqlite" in run
            assert "What was paid stays paid" in run
        elif when == PAID_UNSAID:
            assert "Nothing was paid" not in run
            assert "account.sqlite has entry 1, which nothing was written for: it may be of this release" in run
        else:
            assert "Nothing was paid and nothing was written" in run
        if paid:
            assert [entry.status for entry in entries(tmp_path / "account.sqlite")] == ["reserved"]
        else:
            assert not (tmp_path / "account.sqlite").exists() or not entries(tmp_path / "account.sqlite")


def test_a_release_goes_on_when_its_server_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its ledger pays for no other meanwhile, whichever server asks."""
    crowd_log(tmp_path)
    halt(monkeypatch, PAID)
    first = Serving(tmp_path).enter()
    run = begun(first)
    pid = halted(tmp_path)
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


def test_two_studios_pay_for_one_release_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd_log(tmp_path)
    new_ledger(tmp_path)
    halt(monkeypatch, PAYING)
    with serving(tmp_path) as one, serving(tmp_path) as other:
        draft = one.drafted("crowd.csv", ledger="account.sqlite", out="one")
        waiting = other.drafted("crowd.csv", ledger="account.sqlite", out="other")
        assert one.confirm(draft).status_code == 303
        pid = halted(tmp_path)
        assert "another release is being paid from this ledger just now" in other.confirm(waiting).text
        os.kill(pid, signal.SIGCONT)
        until(lambda: "Being made" not in one.get("/"))
    assert [entry.out for entry in entries(tmp_path / "account.sqlite")] == [str(tmp_path / "one")]


def test_a_command_that_pays_meanwhile_leaves_too_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is asked for again at the moment of payment, by the ledger itself."""
    crowd_log(tmp_path)
    halt(monkeypatch, READING)
    with serving(tmp_path) as studio:
        run = begun(studio)
        pid = halted(tmp_path)
        quick = [*PLENTY[:2], "--epsilon", "18", "--delta", "1e-6", "--ledger", "account.sqlite",
                 "--budget-epsilon", "20", "--budget-delta", "1e-4"]  # fmt: skip
        done = run_anew(tmp_path, "release", "crowd.csv", *quick, "--out", "quick", PYTHONPATH="")
        assert done.code == 0, done.err
        os.kill(pid, signal.SIGCONT)
        until(lambda: 'data-state="refused"' in studio.get(run))
        page = html.unescape(studio.get(run))
        assert "budget refused: asked ε = 5" in page
        assert "Nothing was paid and nothing was written" in page
    assert [entry.out for entry in entries(tmp_path / "account.sqlite")] == [str(tmp_path / "quick")]


@pytest.mark.parametrize("when", [READING, PAYING])
def test_cancelled_before_payment_nothing_is_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    crowd_log(tmp_path)
    halt(monkeypatch, when)
    with serving(tmp_path) as studio:
        run = begun(studio)
        pid = halted(tmp_path)
        assert "/cancel" in studio.get(run)
        os.kill(pid, signal.SIGTERM)  # as the button does, but known to be there before it goes on
        os.kill(pid, signal.SIGCONT)
        assert studio.post(f"{run}/cancel", {}).status_code == 303
        until(lambda: 'data-state="running"' not in studio.get(run))
        page = studio.get(run)
        assert "Nothing was paid from account.sqlite" in page
        assert "stopped by SIGTERM" in page
        assert not (tmp_path / "out").exists()
        assert not (tmp_path / "account.sqlite").exists() or not entries(tmp_path / "account.sqlite")


def test_what_is_paid_for_is_not_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd_log(tmp_path)
    halt(monkeypatch, PAID)
    with serving(tmp_path) as studio:
        run = begun(studio)
        pid = halted(tmp_path)
        assert studio.post(f"{run}/cancel", {}).status_code == 303
        os.kill(pid, signal.SIGCONT)
        until(lambda: 'data-state="done"' in studio.get(run))
    assert (tmp_path / "out" / "guarantee.json").is_file()


def test_the_studio_answers_and_ends_while_a_release_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd_log(tmp_path)
    halt(monkeypatch, READING)
    first = Serving(tmp_path).enter()
    run = begun(first)
    pid = halted(tmp_path)
    page = first.save(first.new_draft(), "promise", {"epsilon": "3", "delta": "1e-6"})
    assert "(3, 1e-06)-differentially private" in page
    code, out, err = first.end()
    assert (code, err) == (0, "")
    assert out.endswith("The studio has ended.\n")
    os.kill(pid, signal.SIGCONT)
    with serving(tmp_path) as again:
        until(lambda: 'data-state="done"' in again.get(run))
    assert len(entries(tmp_path / "account.sqlite")) == 1


def test_what_looks_at_the_log_for_a_page_ends_with_a_killed_studio(tmp_path: Path) -> None:
    """Private figures are worked out for nobody, and what they were kept in is removed by the next command."""
    (tmp_path / "slow.csv").write_text("user,query\n" + "".join(f"{n % 9999},q{n % 977}\n" for n in range(2_000_000)))
    studio = Serving(tmp_path).enter()
    draft = studio.new_draft()
    studio.save(draft, "log", {"log": "slow.csv"})
    jobs = list((tmp_path / "scratch").glob("searchveil-*/*/pid"))
    pids = [int(path.read_text()) for path in jobs]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    studio.end(signal.SIGKILL)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not any(is_there(pid) for pid in pids))
    assert [(path.parent / "out").read_text() for path in jobs] == [""] * len(jobs)
    with serving(tmp_path):
        assert len(list((tmp_path / "scratch").glob("searchveil-*"))) == 1, "that of the studio that runs now"


def is_there(pid: int) -> bool:
    try:
        return state_of(pid) != "Z"
    except FileNotFoundError:
        return False
