"""`relax` chooses a solver; whichever it is, the answer is feasible and bounded."""

from fractions import Fraction
from itertools import combinations
from math import inf, log, nan

import numpy as np
import pytest
from click_logs import example, random_log

from searchveil.errors import InputError
from searchveil.optimize import solve
from searchveil.optimize.certify import LogOf
from searchveil.optimize.integers import whole_draws
from searchveil.optimize.objectives import KL, Diversity, Frequent, Objective, Size
from searchveil.optimize.program import ClickCounts, Sampler
from searchveil.optimize.solution import Solution
from searchveil.optimize.solve import relax


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
def test_the_example_of_the_paper_against_all_vertices(sampler: Sampler) -> None:
    """Three users and three pairs: a vertex is where three of the six constraints are tight."""
    rows = np.vstack([example().exposure(sampler).toarray(), -np.eye(3)])
    right = np.array([1.0, 1, 1, 0, 0, 0])
    choices = [list(tight) for tight in combinations(range(6), 3)]
    corners = [np.linalg.solve(rows[c], right[c]) for c in choices if np.linalg.matrix_rank(rows[c]) == 3]
    best = max(x.sum() for x in corners if (rows @ x <= right + 1e-12).all())
    found = relax(example(), sampler, Size(), 1.0)
    assert found.objective == pytest.approx(best)
    assert found.upper_bound == pytest.approx(best)


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
def test_the_size_is_proportional_to_b(sampler: Sampler) -> None:
    one, three = (relax(random_log(4), sampler, Size(), b).objective for b in (0.2, 0.6))
    assert three == pytest.approx(3 * one, rel=1e-6)


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
@pytest.mark.parametrize("kind", ["size", "frequent"])
def test_both_solvers_agree(sampler: Sampler, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = random_log(5, users=150, pairs=200)
    total = None if kind == "size" else 0.6 * relax(counts, sampler, Size(), log(2)).objective
    objective: Objective = Size() if total is None else Frequent.of(counts, 0.005, total)
    by_highs = relax(counts, sampler, objective, log(2))
    monkeypatch.setattr(solve, "SMALL", 0)
    by_steps = relax(counts, sampler, objective, log(2), tolerance=1e-4)
    assert (by_highs.solver, by_steps.solver) == ("HiGHS interior point", "first order")
    for one, other in ((by_highs, by_steps), (by_steps, by_highs)):
        assert one.objective <= other.upper_bound
    scale = max(abs(by_highs.upper_bound), abs(objective.value(np.zeros(counts.pairs))))
    assert abs(by_highs.objective - by_steps.objective) <= 1e-4 * scale
    for found in (by_highs, by_steps):
        assert (counts.exposure(sampler) @ found.x).max() <= log(2)
        assert total is None or found.x.sum() == pytest.approx(total)


def test_recall_of_frequent_pairs_rises_with_b() -> None:
    """The F-UMP's distance falls as b grows, to 0 where every frequent pair can have its share."""
    counts = random_log(6)
    total = 0.95 * relax(counts, "poisson", Size(), 0.2).objective
    values = [relax(counts, "poisson", Frequent.of(counts, 0.02, total), b).objective for b in (0.2, 0.4, 0.8, 50.0)]
    assert (np.diff(values) >= -1e-12).all()
    assert values[0] < -1e-3
    assert values[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_a_total_at_the_very_limit_is_reached_and_one_beyond_is_refused() -> None:
    counts = random_log(7)
    best = relax(counts, "poisson", Size(), 1.0).objective
    found = relax(counts, "poisson", KL.of(counts), 1.0, total=best * (1 - 1e-9))
    assert found.x.sum() == pytest.approx(best)
    with pytest.raises(InputError, match="does not fit: with this b it can be"):
        relax(counts, "poisson", KL.of(counts), 1.0, total=best * 1.001)


def test_the_limit_may_be_an_exact_logarithm() -> None:
    by_float, exact = (relax(example(), "multinomial", Size(), b).objective for b in (log(2), LogOf(Fraction(2))))
    assert exact == pytest.approx(by_float)


@pytest.mark.parametrize("b", [0.0, -1.0, nan, inf])
def test_limits_that_make_no_sense_are_refused(b: float) -> None:
    with pytest.raises(InputError, match="must be a positive number"):
        relax(example(), "poisson", Size(), b)


@pytest.mark.parametrize("total", [0.0, -3.0, nan])
def test_totals_that_make_no_sense_are_refused(total: float) -> None:
    with pytest.raises(InputError, match="output size must be above 0"):
        relax(example(), "poisson", KL.of(example()), 1.0, total=total)


def test_an_objective_with_a_total_of_its_own_does_not_take_another() -> None:
    objective = Frequent.of(example(), 0.1, 0.5)
    assert relax(example(), "poisson", objective, 1.0).x.sum() == pytest.approx(0.5)
    with pytest.raises(InputError, match=r"output of 0\.5, not 0\.6"):
        relax(example(), "poisson", objective, 1.0, total=0.6)


def test_a_pair_of_one_user_is_refused() -> None:
    lonely = ClickCounts.of([0, 0, 1], [0, 1, 1], [3, 1, 1])
    with pytest.raises(InputError, match="only one user"):
        relax(lonely, "multinomial", Size(), 1.0)


def test_an_empty_log_gives_an_empty_answer() -> None:
    nothing = ClickCounts.of([], [], [])
    for objective in (Size(), Diversity()):
        found = relax(nothing, "poisson", objective, 1.0)
        assert (len(found.x), found.objective, found.upper_bound, found.gap) == (0, 0, 0, 0)
    with pytest.raises(InputError, match="there is no pair that may be drawn"):
        relax(nothing, "poisson", KL.of(nothing), 1.0, total=1.0)


def test_gaps() -> None:
    def gap(objective: float, upper_bound: float) -> float:
        return Solution(np.zeros(1), objective, upper_bound, "none", 0.0).gap

    assert gap(9.0, 10.0) == pytest.approx(0.1)
    assert gap(-0.3, -0.2) == pytest.approx(1 / 3)
    assert gap(0.0, 0.0) == 0
    assert gap(-1.0, 0.0) == 1
    assert gap(-1.0, 1e-12) == pytest.approx(1)


def test_a_gap_is_no_share_of_a_bound_that_is_only_rounding() -> None:
    def gap(objective: float, upper_bound: float, undrawn: float) -> float:
        return Solution(np.zeros(1), objective, upper_bound, "none", 0.0, undrawn).gap

    assert gap(0.0, 2e-13, 0.0) == 0
    assert gap(-1e-16, 2e-13, -0.9) == 0
    assert gap(-0.003, 2e-13, -0.9) == pytest.approx(1 / 300)  # of the distance there was to go


@pytest.mark.parametrize("sampler", ["poisson", "multinomial"])
def test_frequent_pairs_that_are_all_met_leave_no_gap(sampler: Sampler) -> None:
    """Two pairs of four users each with their shares of an output of 2: it fits, so the distance is 0."""
    counts = ClickCounts.of([0, 1, 2, 3, 0, 1, 2, 3], [0, 0, 0, 0, 1, 1, 1, 1], [1] * 8)
    objective = Frequent.of(counts, 0.1, 2.0)
    if sampler == "poisson":
        found = relax(counts, sampler, objective, 5.0)
    else:
        found = whole_draws(counts, objective, 5.0, seconds=0.1)
    assert found.objective == pytest.approx(0, abs=1e-9)
    assert found.gap == 0
