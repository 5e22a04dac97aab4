"""Integer counts against brute force, against branch and bound, and against the floor they start from."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import log, nan

import numpy as np
import pytest
from click_logs import example, logs, random_log
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from searchveil.errors import InputError
from searchveil.optimize.certify import LogOf, round_down, violated
from searchveil.optimize.highs import integer_program
from searchveil.optimize.integers import Program, drawable, fill, round_down_and_fill, whole_draws
from searchveil.optimize.objectives import KL, Frequent, Objective, Size
from searchveil.optimize.program import ClickCounts
from searchveil.optimize.solution import Solution
from searchveil.optimize.solve import relax

LN2 = LogOf(Fraction(2))
SLACK = 1e-9


def rounded(
    counts: ClickCounts, objective: Objective, b: float | LogOf, seconds: float, total: int | None = None
) -> Solution:
    relaxed = Solution(np.zeros(counts.pairs), 0.0, np.inf, "nothing", 0.0)
    return round_down_and_fill(counts, relaxed, objective, b, seconds=seconds, total=total)


def best_by_force(counts: ClickCounts, objective: Objective, b: float | LogOf, total: int | None = None) -> float:
    program = Program.of(counts, objective, b)
    assume(np.prod(program.most + 1.0) <= 300)
    choices = [np.array(x) for x in product(*(range(most + 1) for most in program.most.tolist()))]
    private = [x for x in choices if not len(violated(counts, "multinomial", x, b))]
    return max(objective.value(x.astype(np.float64)) for x in private if total is None or x.sum() <= total)


def nothing_more_fits(program: Program, x: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    for pair in np.flatnonzero(x < program.most):
        more = x.copy()
        more[pair] += 1
        if (program.slack(more) >= 0).all():
            return False
    return True


@settings(max_examples=40, deadline=None)
@given(logs(), st.sampled_from([LN2, LogOf(Fraction(3)), LogOf(Fraction(3, 2))]))
def test_the_size_of_small_programs_is_the_best(counts: ClickCounts, b: LogOf) -> None:
    solution = rounded(counts, Size(), b, seconds=5)
    assert solution.objective == solution.x.sum() == best_by_force(counts, Size(), b)
    assert violated(counts, "multinomial", np.asarray(solution.x, np.int64), b).tolist() == []


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(logs(), st.integers(1, 4))
def test_kl_of_small_programs_is_the_best_of_at_most_that_total(counts: ClickCounts, total: int) -> None:
    objective = KL.of(counts)
    solution = rounded(counts, objective, LogOf(Fraction(3)), seconds=5, total=total)
    assert solution.x.sum() <= total
    assert solution.objective == pytest.approx(best_by_force(counts, objective, LogOf(Fraction(3)), total), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(logs(), st.integers(1, 4), st.sampled_from([0.05, 0.3]))
def test_frequent_of_small_programs_is_nearly_the_best(counts: ClickCounts, total: int, support: float) -> None:
    """The total is worth a little too, which may cost a thousandth."""
    objective = Frequent.of(counts, support, total)
    solution = rounded(counts, objective, LogOf(Fraction(3)), seconds=5, total=total)
    assert solution.x.sum() <= total
    assert solution.objective == pytest.approx(best_by_force(counts, objective, LogOf(Fraction(3)), total), abs=1e-3)


@pytest.mark.slow
@given(logs(), st.floats(0.05, 6), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_filling_keeps_what_is_there_and_leaves_no_room(counts: ClickCounts, b: float, start: list[int]) -> None:
    program = Program.of(counts, Size(), b)
    x = np.minimum(start[: counts.pairs], program.most)
    if (program.slack(x) >= 0).all():
        filled = fill(program, x)
        assert (filled >= x).all()
        assert (program.slack(filled) >= -SLACK).all()
        assert nothing_more_fits(program, filled)


@pytest.mark.slow
@given(logs(), st.floats(0.05, 6))
def test_no_output_is_larger_than_users_times_b(counts: ClickCounts, b: float) -> None:
    assert rounded(counts, Size(), b, seconds=0).objective <= counts.users * b


@pytest.mark.parametrize("b", [LN2, log(2), 3.0])
def test_many_rounds_of_filling_leave_no_room_either(b: float | LogOf) -> None:
    counts = random_log(1, users=300, pairs=400)
    program = Program.of(counts, Size(), b)
    filled = fill(program, np.zeros(counts.pairs, np.int64))
    assert (program.slack(filled) >= -SLACK).all()
    assert nothing_more_fits(program, filled)


def test_the_example_of_the_paper() -> None:
    """At b = ln 2 google may be drawn once, and no other pair: each of those has a user with more than half of it."""
    counts = example()
    solution = round_down_and_fill(counts, relax(counts, "multinomial", Size(), LN2), Size(), LN2, seconds=1)
    assert solution.x.tolist() == [1, 0, 0]
    assert solution.upper_bound >= solution.objective == 1


@pytest.mark.slow
@pytest.mark.parametrize("b", [LN2, log(2)])
def test_nearly_as_much_as_branch_and_bound_and_far_more_than_the_floor(b: float | LogOf) -> None:
    counts = random_log(2, users=500, pairs=700)
    relaxed = relax(counts, "multinomial", Size(), b)
    solution = round_down_and_fill(counts, relaxed, Size(), b, seconds=3)
    program = Program.of(counts, Size(), b)
    limit = program.limit - program.margin
    found = integer_program(np.ones(counts.pairs), program.rows, limit, program.most.astype(float), seconds=4)[1]
    assert violated(counts, "multinomial", np.asarray(solution.x, np.int64), b).tolist() == []
    assert solution.objective >= 0.95 * found
    assert solution.objective >= 1.1 * round_down(relaxed.x).sum()
    assert solution.objective <= relaxed.upper_bound == solution.upper_bound


def test_a_total_makes_rivals_of_pairs_that_share_no_user() -> None:
    """Two pairs of 6 and 9 clicks fit, and only one draw is asked for: filling takes what exposes the least."""
    clicks = [[1, 0, 0], [0, 3, 1], [1, 0, 1], [0, 0, 1], [0, 3, 3], [0, 0, 3]]
    counts = ClickCounts(sparse.csr_array(np.array(clicks)))
    solution = rounded(counts, KL.of(counts), LogOf(Fraction(3)), seconds=5, total=1)
    assert solution.x.tolist() == [0, 0, 1]
    assert solution.objective == pytest.approx(9 * log(2), rel=1e-12)


def test_a_count_may_move_further_than_one_step() -> None:
    """Steps of four units end at 5 and 14."""
    counts = ClickCounts(sparse.csr_array(np.array([[2, 2], [2, 2], [3, 2], [2, 1]])))
    assert rounded(counts, Size(), LogOf(Fraction(900)), seconds=5).x.tolist() == [0, 20]


def test_ties_with_the_limit_are_worth_having() -> None:
    """Two users who clicked a pair once each are exposed by exactly ln 2."""
    counts = ClickCounts.of([0, 1, 2, 3], [0, 0, 1, 1], [1, 1, 1, 1])
    assert rounded(counts, Size(), LN2, seconds=0).x.tolist() == [1, 1]
    assert rounded(counts, Size(), log(2), seconds=0).x.tolist() == [0, 0]


@pytest.mark.slow
def test_searching_never_loses_what_filling_had() -> None:
    counts = random_log(5, users=200, pairs=250)
    for objective, total in ((Size(), None), (KL.of(counts), 30), (Frequent.of(counts, 0.01, 30), 30)):
        relaxed = relax(counts, "multinomial", objective, 1.5, total=total)
        filled = round_down_and_fill(counts, relaxed, objective, 1.5, seconds=0, total=total)
        searched = round_down_and_fill(counts, relaxed, objective, 1.5, seconds=1, total=total)
        assert searched.objective >= filled.objective
        assert searched.objective <= searched.upper_bound + SLACK
        assert total is None or searched.x.sum() <= total


@pytest.mark.slow
def test_the_bound_is_that_of_fewer_draws_where_the_total_is_out_of_reach() -> None:
    """The largest fractional outputs please KL less than smaller ones: the relaxation at that total bounds nothing."""
    counts = random_log(6, users=100, pairs=120)
    total = int(0.98 * relax(counts, "multinomial", Size(), 4.0).objective)
    objective = KL.of(counts)
    relaxed = relax(counts, "multinomial", objective, 4.0, total=total)
    solution = round_down_and_fill(counts, relaxed, objective, 4.0, seconds=1, total=total)
    assert solution.x.sum() < total
    assert relaxed.upper_bound <= solution.upper_bound
    assert solution.objective <= solution.upper_bound


LIMITS = [LN2, log(2), 0.4, LogOf(Fraction(3))]


@settings(max_examples=40, deadline=None)
@given(logs(), st.sampled_from(LIMITS))
def test_the_bound_over_drawable_pairs_is_one_for_all(counts: ClickCounts, b: float | LogOf) -> None:
    solution = whole_draws(counts, Size(), b, seconds=0)
    assert solution.objective == solution.x.sum() <= best_by_force(counts, Size(), b) <= solution.upper_bound + SLACK
    assert violated(counts, "multinomial", np.asarray(solution.x, np.int64), b).tolist() == []


def test_pairs_that_allow_no_whole_draw_do_not_take_room_from_others() -> None:
    counts = random_log(2, users=500, pairs=700)
    assert len(drawable(counts, LN2)) < counts.pairs
    everything = relax(counts, "multinomial", Size(), LN2)
    loose = round_down_and_fill(counts, everything, Size(), LN2, seconds=0)
    tight = whole_draws(counts, Size(), LN2, seconds=0)
    assert tight.upper_bound < loose.upper_bound
    assert tight.objective >= loose.objective


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_pairs_that_are_not_drawn_count_where_they_should_have_been(share: float) -> None:
    """A total beyond what whole draws can reach, but not fractions, is a ceiling; F-UMP misses undrawn pairs."""
    counts = random_log(3, users=200, pairs=250)
    fits = [relax(some, "multinomial", Size(), 0.4) for some in (counts, counts.only(drawable(counts, 0.4)))]
    total = int(share * fits[0].objective)
    assert (total > fits[1].upper_bound) == (share == 0.99)
    objectives: list[Objective] = [KL.of(counts), Frequent.of(counts, 0.01, total)]
    for objective in objectives:
        solution = whole_draws(counts, objective, 0.4, seconds=0, total=total)
        assert solution.x.sum() <= total
        assert solution.objective == pytest.approx(objective.value(solution.x.astype(np.float64)), rel=1e-12)
        assert solution.objective <= solution.upper_bound + SLACK
    with pytest.raises(InputError, match="does not fit"):
        whole_draws(counts, KL.of(counts), 0.4, seconds=0, total=int(2 * fits[0].upper_bound))


def test_where_no_pair_may_be_drawn_nothing_is() -> None:
    solution = whole_draws(example(), Size(), 0.01, seconds=0)
    assert solution.x.tolist() == [0, 0, 0]
    assert solution.objective == solution.upper_bound == 0
    with pytest.raises(InputError, match="does not fit"):
        whole_draws(example(), KL.of(example()), 0.01, seconds=0, total=1)


def test_counts_have_ceilings_of_their_own_if_asked() -> None:
    counts = random_log(7)
    relaxed = relax(counts, "multinomial", Size(), 5.0)
    most = np.arange(counts.pairs) % 2
    solution = round_down_and_fill(counts, relaxed, Size(), 5.0, seconds=0, most=most)
    assert (solution.x <= most).all()
    assert solution.x.sum() > 0


@pytest.mark.parametrize("tampering", [nan, -1.0, np.inf])
def test_a_tampered_relaxation_is_refused(tampering: float) -> None:
    relaxed = relax(example(), "multinomial", Size(), 1.0)
    tampered = np.append(relaxed.x[:2], tampering)
    with pytest.raises(InputError, match="must lie in"):
        round_down_and_fill(example(), replace(relaxed, x=tampered), Size(), 1.0, seconds=0)


def test_a_relaxation_that_is_not_private_is_brought_back() -> None:
    counts = random_log(8)
    relaxed = relax(counts, "multinomial", Size(), 2.0)
    solution = round_down_and_fill(counts, replace(relaxed, x=relaxed.x * 1000), Size(), 2.0, seconds=0)
    assert violated(counts, "multinomial", np.asarray(solution.x, np.int64), 2.0).tolist() == []
    assert solution.objective > 0


def test_a_negative_total_is_refused() -> None:
    with pytest.raises(InputError, match="must not be negative"):
        rounded(example(), Size(), 1.0, seconds=0, total=-1)


def test_nothing_to_choose() -> None:
    nothing = ClickCounts.of([], [], [])
    assert rounded(nothing, Size(), 1.0, seconds=1).objective == 0
