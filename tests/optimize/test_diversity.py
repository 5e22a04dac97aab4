"""As many different pairs as possible: SPE as published, and what beats it."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest
from click_logs import example, logs, random_log
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.optimize.certify import LogOf, violated
from searchveil.optimize.diversity import Distinct, best_within, branch_and_bound, greedy, lp_rounding, spe
from searchveil.optimize.program import ClickCounts
from searchveil.optimize.solution import Solution

LN2 = LogOf(Fraction(2))
LIMITS = [LN2, LogOf(Fraction(5)), LogOf(Fraction(4, 3))]
WAYS: list[Callable[[ClickCounts, float | LogOf], Solution]] = [
    spe,
    greedy,
    lambda counts, b: lp_rounding(counts, b, 1),
    lambda counts, b: branch_and_bound(counts, b, 1),
    lambda counts, b: best_within(counts, b, 1),
]


def private(counts: ClickCounts, x: np.ndarray[tuple[int], np.dtype[np.int64]], b: float | LogOf) -> bool:
    return len(violated(counts, "multinomial", x, b)) == 0


def spe_one_by_one(counts: ClickCounts, b: float | LogOf) -> list[int]:
    """The published loop, literally."""
    clicks = counts.matrix.toarray()
    largest = [max(Fraction(int(c), int(c - h)) for h in clicks[:, i]) for i, c in enumerate(counts.totals)]
    x = np.ones(counts.pairs, np.int64)
    while not private(counts, x, b):
        x[max((i for i in range(counts.pairs) if x[i]), key=lambda i: (largest[i], -i))] = 0
    return x.tolist()


@given(logs(), st.sampled_from(LIMITS))
def test_spe_is_the_published_loop(counts: ClickCounts, b: LogOf) -> None:
    assert spe(counts, b).x.tolist() == spe_one_by_one(counts, b)


def test_spe_is_the_published_loop_on_more_users() -> None:
    counts = random_log(1, users=200, pairs=200)
    for b in (LN2, log(2), 4.0):
        assert spe(counts, b).x.tolist() == spe_one_by_one(counts, b)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(logs(), st.sampled_from(LIMITS))
def test_small_programs_are_solved(counts: ClickCounts, b: LogOf) -> None:
    choices = (np.array(x) for x in product((0, 1), repeat=counts.pairs))
    best = max(x.sum() for x in choices if private(counts, x, b))
    for solution in (best_within(counts, b, 2), branch_and_bound(counts, b, 2), lp_rounding(counts, b, 2)):
        assert solution.objective == best <= solution.upper_bound
    assert spe(counts, b).objective <= best
    assert greedy(counts, b).objective <= best


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("b", [LN2, log(2), 0.01, 5.0])
def test_every_solution_is_private_and_within_its_bound(
    way: Callable[[ClickCounts, float | LogOf], Solution], b: float | LogOf
) -> None:
    counts = random_log(2, users=150, pairs=200)
    solution = way(counts, b)
    x = np.asarray(solution.x, np.int64)
    assert private(counts, x, b)
    assert set(x.tolist()) <= {0, 1}
    assert solution.objective == x.sum() <= solution.upper_bound
    assert solution.upper_bound <= counts.users * float(b)


@pytest.mark.slow
def test_the_default_is_near_branch_and_bound_and_far_above_spe() -> None:
    counts = random_log(3, users=1200, pairs=1000)
    found = best_within(counts, LN2, 4).objective
    assert found >= 0.95 * branch_and_bound(counts, LN2, 4).objective
    assert found >= 1.05 * greedy(counts, LN2).objective
    assert found >= 3 * spe(counts, LN2).objective


def test_the_example_of_the_paper() -> None:
    """At ln 2 only google fits. User 083 has room for all three from ln 39/22 + ln 4/3 + ln 7/2 on, to the digit."""
    assert best_within(example(), LN2, 1).x.tolist() == [1, 0, 0]
    everything = Fraction(39, 22) * Fraction(4, 3) * Fraction(7, 2)
    assert best_within(example(), LogOf(everything), 1).objective == 3
    assert best_within(example(), LogOf(everything - Fraction(1, 10**12)), 1).objective == 2


def test_no_pair_fits() -> None:
    for way in WAYS:
        assert way(example(), 1e-3).objective == 0


def test_nothing_to_choose() -> None:
    nothing = ClickCounts.of([], [], [])
    for way in WAYS:
        assert way(nothing, 1.0).objective == 0


@given(st.floats(-3, 3), st.floats(-2, 3), st.floats(0.01, 3), st.floats(0.1, 4))
def test_distinct_answers_as_an_objective_must(price: float, v: float, step: float, most: float) -> None:
    grid = np.append(np.linspace(0, 6, 6001), [1.0])
    worth = np.minimum(grid, 1)
    distinct = Distinct()
    (moved,) = distinct.prox(np.array([v]), np.array([step]))
    reached = min(moved, 1) - (moved - v) ** 2 / (2 * step)
    assert moved >= 0
    assert reached >= (worth - (grid - v) ** 2 / (2 * step)).max() - 1e-9
    (answer,) = distinct.best_response(np.array([price]), np.array([most]))
    allowed = np.append(grid[grid <= most], most)
    assert 0 <= answer <= most
    assert min(answer, 1) - price * answer >= (np.minimum(allowed, 1) - price * allowed).max() - 1e-9
