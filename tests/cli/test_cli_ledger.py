"""A ledger on the command line: what is paid is recorded, what is not covered is refused with exit code 3."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commandline import assert_refused, crowd_log, entries, new_ledger, run, run_anew, succeed

HALF = ("--method", "zealous", "--epsilon", "0.5", "--delta", "5e-7")


@pytest.mark.slow
def test_two_halves_fit_and_a_third_does_not(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path), tmp_path / "account.sqlite"
    budget = ("--ledger", ledger, "--budget-epsilon", "1", "--budget-delta", "1e-6")
    succeed(tmp_path, "release", log, *HALF, "--out", "first", *budget)
    succeed(tmp_path, "release", log, *HALF, "--out", "second", "--ledger", ledger)
    refused = run(tmp_path, "release", log, *HALF, "--out", "third", "--ledger", ledger, "--json")
    assert_refused(refused, "budget refused", "ε = 0.5", "already spent ε = 1", "budget ε = 1", code=3)
    assert not (tmp_path / "third").exists()

    told = succeed(tmp_path, "ledger", "account.sqlite", "--json").json
    assert {name: told["budget"][name] for name in ("epsilon", "delta", "neighbours", "composition")} == {
        "epsilon": 1,
        "delta": 1e-6,
        "neighbours": "add-remove",
        "composition": "basic",
    }
    assert (told["spent"]["basic"]["epsilon"], told["spent"]["basic"]["delta"]) == (1, 1e-6)
    assert told["spent"]["best"]["epsilon"] <= 1
    assert [entry["status"] for entry in told["entries"]] == ["written", "written"]
    assert [Path(entry["out"]) for entry in told["entries"]] == [tmp_path / "first", tmp_path / "second"]
    assert [entry["method"] for entry in told["entries"]] == ["zealous", "zealous"]
    assert told["entries"][0]["guarantee"]["epsilon"] == 0.5
    assert told["entries"][0]["parameters"]["per_user"] == 5

    shown = succeed(tmp_path, "ledger", "account.sqlite").out
    assert "budget  (1, 1e-06), add-remove, basic composition" in shown
    assert "spent   (1, 1e-06)" in shown
    assert str(tmp_path / "second") in shown


def test_a_ledger_never_pays_for_k_anonymity(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    refused = run(tmp_path, "release", crowd_log(tmp_path), "--method", "k-query", "--out", "out", "--ledger", ledger)
    assert_refused(refused, "without differential privacy", code=3)
    assert entries(ledger) == ()
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_budget_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path), new_ledger(tmp_path, epsilon=1, delta=1e-6)
    succeed(tmp_path, "release", log, *HALF, "--out", "first", "--ledger", ledger)
    more = ("--ledger", ledger, "--budget-epsilon", "2", "--budget-delta", "1e-6")
    assert_refused(run(tmp_path, "release", log, *HALF, "--out", "out", *more), "opened with --budget-epsilon 1, not 2")
    assert len(entries(ledger)) == 1


@pytest.mark.slow
def test_a_refused_first_release_leaves_the_budget_to_be_chosen(tmp_path: Path) -> None:
    log = crowd_log(tmp_path)
    small = ("--ledger", "own", "--budget-epsilon", "0.1", "--budget-delta", "1e-6")
    assert_refused(run(tmp_path, "release", log, *HALF, "--out", "out", *small), "budget refused", code=3)
    enough = ("--ledger", "own", "--budget-epsilon", "1", "--budget-delta", "1e-6")
    succeed(tmp_path, "release", log, *HALF, "--out", "out", *enough)


@pytest.mark.slow
def test_the_ledger_of_another_log_does_not_pay(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path), new_ledger(tmp_path)
    succeed(tmp_path, "release", log, *HALF, "--out", "first", "--ledger", ledger)
    renamed = log.rename(tmp_path / "renamed.csv")
    succeed(tmp_path, "release", renamed, *HALF, "--out", "second", "--ledger", ledger)
    with renamed.open("a") as file:
        file.write("newcomer,weather\n")
    asked = ("release", renamed, *HALF, "--out", "third", "--ledger", ledger)
    assert_refused(run(tmp_path, *asked), "account of another log", "--same-log")
    assert not (tmp_path / "third").exists()
    assert len(entries(ledger)) == 2
    succeed(tmp_path, *asked, "--same-log")
    assert_refused(run(tmp_path, "release", renamed, "--same-log", *HALF, "--out", "out"), "add --ledger")


@pytest.mark.slow
def test_replace_one_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    log, asked = crowd_log(tmp_path), (*HALF, "--notion", "indistinguishable")
    add_remove = new_ledger(tmp_path, epsilon=1, delta=1e-6)
    refused = run(tmp_path, "release", log, *asked, "--out", "out", "--ledger", add_remove)
    assert_refused(refused, "--budget-neighbours replace-one")
    assert entries(add_remove) == ()
    own = ("--ledger", "own", "--budget-epsilon", "1", "--budget-delta", "1e-6", "--budget-neighbours", "replace-one")
    succeed(tmp_path, "release", log, *asked, "--out", "out", *own)
    assert [entry.epsilon for entry in entries(tmp_path / "own")] == [0.5]


def test_advice_about_the_neighbours_can_be_followed(tmp_path: Path) -> None:
    """What the refusal tells people to type must not be refused in turn."""
    log, ledger, asked = crowd_log(tmp_path), new_ledger(tmp_path), (*HALF, "--notion", "probabilistic")
    refused = run(tmp_path, "release", log, *asked, "--out", "out", "--ledger", ledger)
    assert_refused(refused)
    if "add --neighbours add-remove" in refused.said[0]:
        followed = run(
            tmp_path, "release", log, *asked, "--neighbours", "add-remove", "--out", "out", "--ledger", ledger
        )
        assert followed.code == 0, followed.said


@pytest.mark.slow
def test_two_commands_at_once_cannot_overspend(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path), new_ledger(tmp_path, epsilon=1, delta=1e-5)
    asked = ("release", log, "--epsilon", "0.6", "--delta", "1e-6", "--ledger", ledger)
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda number: run_anew(tmp_path, *asked, "--out", f"out-{number}"), range(3)))
    assert sorted(outcome.code for outcome in outcomes) == [0, 3, 3]
    assert [entry.status for entry in entries(ledger)] == ["written"]
    assert sum((tmp_path / f"out-{number}").exists() for number in range(3)) == 1


@pytest.mark.slow
def test_of_two_commands_with_one_output_the_loser_pays_nothing(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path), new_ledger(tmp_path)
    asked = ("release", log, *HALF, "--ledger", ledger, "--out", "out")
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda _: run_anew(tmp_path, *asked), range(3)))
    assert sorted(outcome.code for outcome in outcomes) == [0, 2, 2]
    for outcome in outcomes:
        if outcome.code:
            assert (
                outcome.said[-1].endswith("choose another --out or remove it first")
                or "nothing was paid" in outcome.err
            )
    assert [entry.status for entry in entries(ledger)] == ["written"]


def test_what_is_not_a_ledger_is_refused(tmp_path: Path) -> None:
    log = crowd_log(tmp_path)
    (tmp_path / "empty").touch()
    assert_refused(run(tmp_path, "ledger", "missing"), "there is no ledger missing", "--budget-epsilon")
    assert_refused(run(tmp_path, "ledger", log), "not a ledger")
    assert_refused(run(tmp_path, "ledger", tmp_path), "ledger")
    assert_refused(run(tmp_path, "ledger", "empty"), "ledger empty")
    assert (tmp_path / "empty").stat().st_size == 0


@pytest.mark.slow
def test_what_is_spent_is_rounded_up_and_what_there_was_down(tmp_path: Path) -> None:
    budget = ("--ledger", "l", "--budget-epsilon", "2.0000004", "--budget-delta", "1e-2")
    asked = ("--epsilon", "1.0000004", "--delta", "1.0000004e-3", "--out", "out")
    succeed(tmp_path, "release", crowd_log(tmp_path), *asked, *budget)
    shown = succeed(tmp_path, "ledger", "l").out
    assert "budget  (2, 0.01)" in shown
    assert "spent   (1.00001, 0.00100001) by adding up" in shown
    assert shown.count("(1.00001, 0.00100001)") == 2, "of the entry as well"


@pytest.mark.slow
def test_sessions_and_users_have_ledgers_of_their_own(tmp_path: Path) -> None:
    rows = [f"c{client},s{client}-{visit},weather" for client in range(4) for visit in range(3)]
    (tmp_path / "visits.csv").write_text("\n".join(["customer,session_id,query", *rows]) + "\n")
    ledger, asked = new_ledger(tmp_path), ("release", "visits.csv", *HALF, "--ledger", "account.sqlite")
    succeed(tmp_path, *asked, "--column", "user=session_id", "--out", "per-session")
    assert "one session's whole history" in (tmp_path / "per-session" / "README.md").read_text()
    refused = run(tmp_path, *asked, "--column", "user=customer", "--out", "per-customer")
    assert_refused(refused, "counts per session", "--ledger")
    assert [entry.guarantee.unit for entry in entries(ledger)] == ["session"]


@pytest.mark.slow
def test_the_mu_of_weighted_releases_is_shown(tmp_path: Path) -> None:
    log, asked = crowd_log(tmp_path), ("--method", "weighted", "--epsilon", "1", "--delta", "1e-6", "--ledger", "l")
    budget = ("--budget-epsilon", "2", "--budget-delta", "1e-5", "--budget-composition", "gaussian")
    succeed(tmp_path, "release", log, *asked, "--out", "first", *budget)
    succeed(tmp_path, "release", log, *asked, "--out", "second")
    shown = succeed(tmp_path, "ledger", "l").out
    assert "budget  (2, 1e-05), add-remove, gaussian composition" in shown
    assert "μ = 0.329086 and δ = 7.48732e-07 outside, by adding up μ² and δ" in shown
    assert shown.count("(1, 1e-06), μ = 0.232699 and δ = 3.74366e-07 outside") == 2
