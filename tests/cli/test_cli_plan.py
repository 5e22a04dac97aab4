"""`searchveil plan` says what a release would promise: the numbers of the papers, and nothing touched."""

from math import exp, floor, log
from pathlib import Path
from typing import Any

import pytest
from commandline import SCRATCH, assert_refused, demo_log, entries, everything_in, new_ledger, run, succeed

from searchveil.log.summary import WARNING

ONE = ("--method", "zealous", "--epsilon", "1", "--delta", "1e-6")
GUARANTEE = {"notion", "epsilon", "delta", "unit", "neighbours", "assumed_public", "unprotected", "caveats"}


def plan(folder: Path, *arguments: str | Path) -> dict[str, Any]:
    planned: dict[str, Any] = succeed(folder, "plan", *arguments, "--json").json
    assert set(planned["guarantee"]) >= GUARANTEE
    assert "rows" not in planned
    assert "out" not in planned
    return planned


def tail(scale: float, distance: int) -> float:
    """P(η ≥ distance) for discrete Laplace noise and a distance that is not negative."""
    return exp(-distance / scale) / (1 + exp(-1 / scale))


@pytest.mark.parametrize(("held", "told"), [("1", "of 1 item each"), ("10", "of 10 items each")])
def test_items_are_counted_in_words(tmp_path: Path, held: str, told: str) -> None:
    assume = ("--assume", f"users=3000,held={held}")
    assert told in succeed(tmp_path, "plan", "--epsilon", "1", "--delta", "1e-6", *assume).out


def test_the_default_calibration(tmp_path: Path) -> None:
    planned = plan(tmp_path, *ONE, "--per-user", "2")
    assert set(planned) == {"method", "item", "counts", "parameters", "guarantee", "noise_below", "needed_users"}
    assert planned["needed_users"] == {"users": 375, "held": 25}  # 30 of those who keep it, 2 of 25 items each
    assert (planned["method"], planned["item"]) == ("zealous", "query")
    assert planned["parameters"] == {
        "per_user": 2,
        "noise_scale": 2.0,
        "first_threshold": 1,
        "second_threshold": 30,
    }
    guarantee = planned["guarantee"]
    assert (guarantee["notion"], guarantee["epsilon"], guarantee["delta"]) == ("approximate", 1, 1e-6)
    assert (guarantee["unit"], guarantee["neighbours"]) == ("user", "add-remove")
    assert guarantee["assumed_public"] == ["that the log has at least two users"]
    assert guarantee["unprotected"] == guarantee["caveats"] == []
    assert everything_in(tmp_path) == {SCRATCH}


def test_replacing_a_user_needs_more(tmp_path: Path) -> None:
    planned = plan(tmp_path, *ONE, "--per-user", "2", "--neighbours", "replace-one")
    assert (planned["parameters"]["noise_scale"], planned["parameters"]["second_threshold"]) == (4.0, 57)
    assert planned["guarantee"]["neighbours"] == "replace-one"


def test_the_probabilistic_notion_of_half_a_million_users(tmp_path: Path) -> None:
    planned = plan(tmp_path, *ONE, "--per-user", "2", "--notion", "probabilistic", "--users", "500000")
    scale, users, per_user, delta = 4.0, 500_000, 2, 1e-6

    def holds(threshold: int, first: int) -> bool:
        q = tail(scale, threshold - first)
        return q <= 1 - exp(-1 / scale) and q * (users * per_user // first) <= -log(1 - delta)

    best = next(t for t in range(1, 1000) if any(holds(t, first) for first in range(1, t + 1)))
    parameters = planned["parameters"]
    assert parameters["noise_scale"] == scale
    assert parameters["second_threshold"] == best
    assert holds(best, parameters["first_threshold"])
    assert parameters["users"] == users
    guarantee = planned["guarantee"]
    assert (guarantee["notion"], guarantee["neighbours"]) == ("probabilistic", "replace-one")
    assert any("500000 users" in public for public in guarantee["assumed_public"])
    assert any("post-processing" in caveat for caveat in guarantee["caveats"])


def test_the_indistinguishable_notion(tmp_path: Path) -> None:
    planned = plan(tmp_path, *ONE, "--per-user", "2", "--notion", "indistinguishable")
    assert planned["parameters"]["second_threshold"] == floor(2 - 4 * log(2e-6 / 2)) + 1 == 58
    assert planned["parameters"]["first_threshold"] == 1
    assert planned["guarantee"]["notion"] == "indistinguishable"


def test_korolova_exact_and_published(tmp_path: Path) -> None:
    exact = plan(tmp_path, *ONE, "--method", "korolova")
    assert exact["parameters"] == {"queries_per_user": 5, "noise_scale": 5.0, "second_threshold": 76}
    published = plan(tmp_path, *ONE, "--method", "korolova", "--variant", "published")
    assert published["parameters"]["noise_scale"] == 10.0
    assert published["parameters"]["second_threshold"] == floor(5 - 10 * log(2e-6 / 5)) + 2 == 154
    assert exact["item"] == published["item"] == "query"


@pytest.mark.parametrize(("method", "item"), [("k-query", "query"), ("k-session", "session"), ("k-keyword", "keyword")])
def test_k_anonymity_promises_no_differential_privacy(tmp_path: Path, method: str, item: str) -> None:
    planned = plan(tmp_path, "--method", method, "--k", "7")
    assert (planned["method"], planned["item"], planned["parameters"]) == (method, item, {"k": 7})
    assert planned["guarantee"]["notion"] == "none"
    assert planned["guarantee"]["epsilon"] is None
    assert "NOT differentially private" in succeed(tmp_path, "plan", "--method", method).out


def test_a_log_or_a_number_of_users(tmp_path: Path) -> None:
    asked = (*ONE, "--per-user", "2", "--notion", "probabilistic")
    before = demo_log().read_bytes()
    of_log, of_number = plan(tmp_path, demo_log(), *asked), plan(tmp_path, "--users", "250", *asked)
    assert of_log == of_number
    assert of_log["parameters"]["users"] == 250
    assert demo_log().read_bytes() == before
    assert everything_in(tmp_path) == {SCRATCH}


def test_a_plan_has_no_budget_to_touch(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    assert_refused(run(tmp_path, "plan", *ONE, "--ledger", ledger), "--ledger")
    assert entries(ledger) == ()


def test_what_to_expect_under_a_public_guess(tmp_path: Path) -> None:
    guess = "items=10000,exponent=1,tail=1,alone=0,held=20"
    few = plan(tmp_path, *ONE, "--per-user", "2", "--assume", f"users=10000,{guess}")
    many = plan(tmp_path, *ONE, "--per-user", "2", "--users", "1000000", "--assume", guess)
    assert few["parameters"]["second_threshold"] == many["parameters"]["second_threshold"] == 30
    assert 0 < few["expected_rows"] < many["expected_rows"] <= 10_000
    told = succeed(tmp_path, "plan", *ONE, "--per-user", "2", "--assume", f"users=10000,{guess}").out
    assert f"about {few['expected_rows']:,.0f} items" in told


@pytest.mark.slow
def test_a_log_of_few_items_per_user_is_told_which_method_to_take(tmp_path: Path) -> None:
    guess = "users=20000,items=300000,exponent=1,tail=1,alone=0,held=2,spread=0.5"
    asked = ("--epsilon", "1", "--delta", "1e-6", "--assume", guess)
    planned = plan(tmp_path, "--method", "weighted", *asked)
    assert planned["instead"]["method"] == "votes(epsilon=1.0, delta=1e-06)"
    assert planned["instead"]["expected_rows"] > planned["expected_rows"]
    told = succeed(tmp_path, "plan", "--method", "weighted", *asked).out
    assert f"With --method votes: about {planned['instead']['expected_rows']:,.0f}." in told
    guess = "users=65000,items=1000000,exponent=1,tail=1,alone=0,held=1,spread=0"
    lone = plan(tmp_path, "--counts", "none", *asked[:-1], guess)
    assert "--guide-share 0" in lone["instead"]["type"]
    assert plan(tmp_path, *asked[:-1], "users=65000,held=1")["instead"]["type"] == "--method votes"


@pytest.mark.slow
def test_the_number_of_items_from_a_public_guess(tmp_path: Path) -> None:
    guess = "items=1000,exponent=1,tail=1,alone=0,held=20"
    expected = {}
    for per_user in ("auto", "1", "5", "20"):
        planned = plan(tmp_path, *ONE, "--per-user", per_user, "--assume", f"users=100000,{guess}")
        expected[per_user] = planned["expected_rows"]
    assert expected["auto"] >= max(expected.values())


def test_people_read_both_ways_to_write_the_threshold(tmp_path: Path) -> None:
    told = succeed(tmp_path, "plan", *ONE, "--per-user", "2").out
    shown = {line[:45].strip(): line[45:].strip() for line in told.splitlines() if line.startswith("  ")}
    assert any(name.startswith("second threshold") and value == "30" for name, value in shown.items())
    assert "29 (publish iff noisy > τ')" in told
    assert "The release is (1, 1e-06)-differentially private" in told


@pytest.mark.slow
def test_figures_of_a_private_log_are_called_private(tmp_path: Path) -> None:
    for asked in (("--sampler", "poisson", "--delta", "0.5"), ("--wanted-size", "5")):
        told = run(tmp_path, "plan", demo_log(), "--method", "sampling", *asked)
        assert told.code == 0
        assert told.said == [f"searchveil: {WARNING}"]
        assert plan(tmp_path, demo_log(), "--method", "sampling", *asked)["warning"] == WARNING
    individual = ("--method", "sampling", "--epsilon", "1", "--delta", "0.5")
    assert "warning" not in plan(tmp_path, "--users", "250", *individual)
    assert "limit" in plan(tmp_path, "--users", "250", *individual)
    assert "limit" not in plan(tmp_path, demo_log(), *individual), "it tells nothing of a log"


@pytest.mark.slow
def test_what_is_printed_is_not_below_what_is_promised(tmp_path: Path) -> None:
    told = succeed(tmp_path, "plan", "--epsilon", "1.0000004", "--delta", "1.0000004e-3").out
    assert "(1.00001, 0.00100001)-differentially private" in told


@pytest.mark.slow
def test_weighted_is_the_default(tmp_path: Path) -> None:
    planned = plan(tmp_path, "--epsilon", "1", "--delta", "1e-6", "--assume", "users=3000,held=10")
    assert planned["method"] == "weighted"
    assert {"sigma", "threshold", "rounds", "candidates_per_user", "count_share"} <= set(planned["parameters"])
    assert planned["parameters"]["threshold"] == pytest.approx(28.45, abs=0.1)
    # More than the threshold's worth of weight, and far fewer than 28.4·√10, which equal weights in one round need.
    assert 28 < planned["needed_users"]["users"] < 60
    assert planned["needed_users"]["held"] == 10
    assert planned["expected_rows"] > 0
    told = succeed(tmp_path, "plan", "--epsilon", "1", "--delta", "1e-6").out
    assert "comes out with probability ½ if about" in told


def test_a_guess_is_for_methods_that_it_knows(tmp_path: Path) -> None:
    asked = ("plan", "--method", "korolova", "--epsilon", "1", "--delta", "1e-6", "--assume", "users=3000")
    assert_refused(run(tmp_path, *asked), "--assume", "korolova")
    assert_refused(run(tmp_path, "plan", *ONE, "--assume", "users=3000,spread=7"), "spread", "0 and 3")


@pytest.mark.slow
def test_weighted_of_a_tiny_delta_gets_an_answer(tmp_path: Path) -> None:
    """Tails of the first rounds are so far out that computing them would take minutes."""
    planned = plan(tmp_path, "--epsilon", "1", "--delta", "1e-300")
    assert planned["needed_users"]["users"] > planned["parameters"]["threshold"] > 1000


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("weighted", "if about 12 sessions hold it, of 25 items each"),
        ("safelog-session", "if 14 sessions have it in their first 3 queries."),
    ],
)
def test_a_plan_speaks_of_whom_the_log_tells_apart(tmp_path: Path, method: str, told: str) -> None:
    (tmp_path / "log.csv").write_text("session,query\ns1,news\ns2,news\n")
    asked = ("--method", method, "--epsilon", "4", "--delta", "1e-5")
    shown = succeed(tmp_path, "plan", "log.csv", "--column", "user=session", *asked).out
    assert told in shown
    assert "users" not in shown.replace("at least two users", "").replace("counts               users", "")
    without = succeed(tmp_path, "plan", *asked).out
    assert "users h" in without
    assert "A user is whom the log tells apart." in without
