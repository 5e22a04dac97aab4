"""SafeLog (Zhang 2017, chapters 3 and 4): the numbers of the thesis, by the formulas and by `plan --json`."""

import json
import sys
from math import e, exp, log
from typing import Any

import pytest

from searchveil.cli import answer
from searchveil.privacy import calibrate, safelog

TABLE_3_8 = [(1, 0.43), (2, 0.85), (4, 1.71), (10, 4.27), (80, 34.18)]  # q_f = c_f and ε, at K = b = 10
TABLE_3_10 = [(6.0, 8.08), (11.0, 20.25), (39.5, 119.33), (24.75, 63.76), (3.0, 2.70)]  # b and its turning point
TABLE_4_4 = [  # l_s, l_q, b, K, and the published ε and δ
    (1, 3, 1.0, 10.0, 8.00, 4.96e-3),
    (1, 3, 1.0, 20.0, 8.00, 2.25e-7),
    (1, 3, 3.0, 30.0, 2.67, 3.44e-4),
    (1, 4, 2.0, 30.0, 11.00, 4.12e-4),
    (2, 3, 2.0, 30.0, 8.00, 6.68e-5),
]
PRINTED = 0.005  # two digits after the point
PRINTED_DELTA = 0.003  # three digits, of which the last is sometimes cut instead of rounded


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`searchveil plan … --json`, read back."""

    def planned(*arguments: object) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["searchveil", "plan", *map(str, arguments), "--json"])
        with pytest.raises(SystemExit) as done:
            answer()
        said = capsys.readouterr()
        assert (done.value.code, said.err) == (0, "")
        record: dict[str, Any] = json.loads(said.out)
        return record

    return planned


# --- chapter 3: A_Click -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("items", "epsilon"), TABLE_3_8)
def test_table_3_8(items: int, epsilon: float, plan: Any) -> None:
    assert safelog.click_epsilon(items, items, 10, 10) == pytest.approx(epsilon, abs=PRINTED)
    how = ("--method", "safelog-click", "--queries-per-user", items, "--clicks-per-user", items)
    record = plan(*how, "--noise-scale", 10, "--above", 10)
    assert record["paper_epsilon"] == pytest.approx(epsilon, abs=PRINTED)
    assert record["guarantee"]["epsilon"] == pytest.approx(2 * items / 10), (
        "ours pays once for queries, once for clicks"
    )


@pytest.mark.parametrize(("scale", "threshold"), TABLE_3_10)
def test_table_3_10_the_turning_points(scale: float, threshold: float) -> None:
    assert calibrate.turning_point(scale) == pytest.approx(threshold, abs=PRINTED)
    at = calibrate.turning_point(scale)
    assert safelog.alpha(scale, at) == pytest.approx(exp(1 / scale), rel=1e-12)
    assert safelog.alpha(scale, at + 1) == pytest.approx(exp(1 / scale), rel=1e-12), "a higher K changes nothing"
    assert safelog.alpha(scale, at - 0.1) > exp(1 / scale) * (1 + 1e-6), "a lower one costs"


@pytest.mark.parametrize(
    ("epsilon", "queries", "row"), [(0.5, 1, 0), (1, 3, 1), (2, 20, 2), (4, 25, 3), (1, 1, 4)], ids=str
)
def test_table_3_10_is_what_is_recommended(epsilon: float, queries: int, row: int, plan: Any) -> None:
    """Its ε column is (4q_f - 1)/b, so b follows from ε and q_f, and K is b's turning point."""
    scale, threshold = TABLE_3_10[row]
    how = ("--method", "safelog-click", "--epsilon", epsilon, "--delta", 1e-6, "--queries-per-user", queries)
    paper = plan(*how, "--recommend")["recommended"]["paper"]
    assert paper["noise_scale"] == pytest.approx(scale)
    assert paper["threshold"] == pytest.approx(threshold, abs=PRINTED)


def test_theorem_1_gives_less_than_table_3_10_prints(plan: Any) -> None:
    """The row "ε = 1, q_f = 3": 3·3/11 without the unprinted transitions."""
    assert safelog.click_epsilon(3, 3, 11, 20.25) == pytest.approx(9 / 11, abs=1e-6)
    how = ("--method", "safelog-click", "--queries-per-user", 3, "--clicks-per-user", 3)
    record = plan(*how, "--noise-scale", 11, "--above", 20.25)
    assert record["paper_epsilon"] == pytest.approx(0.818, abs=5e-4)
    assert (4 * 3 - 1) / 11 == 1


@pytest.mark.parametrize("coverage", [1.0, 0.9, 0.5, 1e-3])
def test_the_papers_epsilon_grows_as_the_pool_covers_less(coverage: float, plan: Any) -> None:
    """ln α = 1/b - ln p_g beyond the turning point: q_f times that more, and never a word in our own guarantee."""
    how = ("--method", "safelog-click", "--queries-per-user", 3, "--clicks-per-user", 2)
    at = (*how, "--noise-scale", 11, "--above", 40)
    record, covered = plan(*at, "--pool-coverage", coverage), plan(*at)
    assert covered["paper_epsilon"] == pytest.approx((3 + 3 + 2) / 11)
    assert record["paper_epsilon"] == pytest.approx((3 + 3 + 2) / 11 - 3 * log(coverage))
    assert record["guarantee"] == covered["guarantee"]


def test_a_low_threshold_hides_what_the_coverage_costs() -> None:
    """α is a maximum: at K = 1 its second form is 2, which a p_g down to e^(1/b)/2 does not exceed."""
    assert safelog.alpha(10, 1) == 2
    assert safelog.alpha(10, 1, exp(0.1) / 2) == pytest.approx(2)
    assert safelog.alpha(10, 1, exp(0.1) / 4) == pytest.approx(4)


# --- chapter 4: A_Session ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sessions", "queries", "scale", "threshold", "epsilon", "delta"), TABLE_4_4)
def test_table_4_4(
    sessions: int, queries: int, scale: float, threshold: float, epsilon: float, delta: float, plan: Any
) -> None:
    changes = safelog.subsequences(sessions, queries)
    assert safelog.session_epsilon(changes, scale, threshold) == pytest.approx(epsilon, abs=PRINTED)
    assert safelog.session_delta(changes, scale, threshold) == pytest.approx(delta, rel=PRINTED_DELTA)

    how = ("--method", "safelog-session", "--sessions-per-user", sessions, "--queries-per-session", queries)
    record = plan(*how, "--noise-scale", scale, "--above", threshold)
    assert record["paper_epsilon"] == pytest.approx(epsilon, abs=PRINTED)
    assert record["paper_delta"] == pytest.approx(delta, rel=PRINTED_DELTA)

    p = exp(-1 / scale)
    q_1 = p**threshold / (1 + p)  # noisy > K with a count of one
    assert record["guarantee"]["epsilon"] == pytest.approx(changes / scale)
    assert record["guarantee"]["delta"] == pytest.approx(1 - (1 - q_1) ** changes, rel=1e-6)


@pytest.mark.parametrize(
    ("sessions", "queries", "changes"), [(1, 2, 1), (1, 3, 4), (1, 4, 11), (2, 3, 8), (1, 12, 4083), (5, 5, 130)]
)
def test_how_many_subsequences_a_user_can_have(sessions: int, queries: int, changes: int) -> None:
    assert safelog.subsequences(sessions, queries) == changes


def test_sessions_with_four_clicks_cost_twice_what_the_thesis_quotes(plan: Any) -> None:
    how = ("--method", "safelog-session", "--sessions-per-user", 1, "--queries-per-session", 3)
    record = plan(*how, "--noise-scale", 1, "--above", 20, "--clicks-per-user", 4)
    assert record["paper_epsilon"] == pytest.approx(16)
    assert record["paper_delta"] == pytest.approx(4.5e-7, rel=0.001)
    q_1 = e**-20 / (1 + e**-1)
    assert record["guarantee"]["epsilon"] == 8, "part 1 and part 2 at Δf/b = l/b = 4"
    assert record["guarantee"]["delta"] == pytest.approx(8 * q_1, rel=1e-6)
