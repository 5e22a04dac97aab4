"""The privacy condition: who sits exactly on the limit, who a hair beyond it, and what no solver gets away with."""

from fractions import Fraction
from math import floor, inf, log, nan, nextafter

import mpmath
import numpy as np
import pytest
from click_logs import example, logs, random_log
from hypothesis import given
from hypothesis import strategies as st

from searchveil.errors import InputError
from searchveil.optimize.certify import (
    LOG_ROUNDINGS,
    UNITS,
    LogOf,
    exposure_above,
    limit,
    quantize,
    repair,
    round_down,
    violated,
)
from searchveil.optimize.program import ClickCounts, Integers, Sampler

LN2 = LogOf(Fraction(2))
SAMPLERS: list[Sampler] = ["multinomial", "poisson"]
draws = st.lists(st.integers(0, 40), min_size=6, max_size=6)


def of_two(mine: int, yours: int) -> ClickCounts:
    return ClickCounts.of([0, 1], [0, 0], [mine, yours])


def exactly(counts: ClickCounts, sampler: Sampler, x: Integers, user: int) -> mpmath.mpf:
    """A user's exposure to 300 bits."""
    held = counts.matrix.toarray()[user].tolist()
    drawn = [(n, h, c) for n, h, c in zip(x.tolist(), held, counts.totals.tolist(), strict=True) if n and h]
    with mpmath.workprec(300):
        if sampler == "poisson":
            return mpmath.fsum(w * h / mpmath.mpf(c) for w, h, c in drawn) / UNITS
        return mpmath.fsum(n * mpmath.log(mpmath.mpf(c) / (c - h)) for n, h, c in drawn)


def test_ln_2_is_allowed_where_the_limit_is_ln_2() -> None:
    """Its nearest float is below it, and the one after that above."""
    once = np.array([1])
    assert violated(of_two(1, 1), "multinomial", once, LN2).tolist() == []
    assert violated(of_two(1, 1), "multinomial", once, log(2)).tolist() == [0, 1]
    assert violated(of_two(1, 1), "multinomial", once, nextafter(log(2), 1)).tolist() == []
    assert violated(of_two(1, 1), "multinomial", once, LogOf(2 - Fraction(1, 10**30))).tolist() == [0, 1]


def test_several_pairs_can_meet_the_limit_exactly_together() -> None:
    """3/2 · 4/3 = 2."""
    counts = ClickCounts.of([0, 1, 0, 2], [0, 0, 1, 1], [1, 2, 1, 3])
    assert 0 not in violated(counts, "multinomial", np.array([1, 1]), LN2)
    assert 0 in violated(counts, "multinomial", np.array([1, 1]), log(2))


def test_a_poisson_amount_may_meet_the_limit_exactly_and_not_exceed_it() -> None:
    amounts = np.array([UNITS])
    assert violated(of_two(3, 1), "poisson", amounts, 0.75).tolist() == []
    assert violated(of_two(3, 1), "poisson", amounts + 1, 0.75).tolist() == [0]
    assert violated(of_two(3, 1), "poisson", amounts, nextafter(0.75, 0)).tolist() == [0]


def test_a_poisson_amount_next_to_a_logarithm() -> None:
    below = floor(float(LN2) * UNITS * 2)
    assert violated(of_two(1, 1), "poisson", np.array([below]), LN2).tolist() == []
    assert violated(of_two(1, 1), "poisson", np.array([below + 1]), LN2).tolist() == [0, 1]


def test_a_third_is_no_float() -> None:
    """3·(1/3) is 1 exactly, though 1/3 is rounded."""
    amounts = np.array([3 * UNITS])
    assert violated(of_two(1, 2), "poisson", amounts, 2.0).tolist() == []
    assert violated(of_two(1, 2), "poisson", amounts, nextafter(2.0, 0)).tolist() == [1]


def test_the_figure_of_the_paper_shows_no_private_setting() -> None:
    """Its counts for google, book and car price would need b ≥ 17.3, for user 083."""
    shown = np.array([20, 3, 4])
    assert violated(example(), "multinomial", shown, 17.3).tolist() == [2]
    assert violated(example(), "multinomial", shown, 17.4).tolist() == []


def test_a_pair_of_one_user_is_never_drawn() -> None:
    counts = ClickCounts.of([0, 0, 1], [0, 1, 1], [5, 1, 1])
    assert violated(counts, "multinomial", np.array([0, 1]), 1.0).tolist() == []
    assert violated(counts, "multinomial", np.array([1, 0]), 1e29).tolist() == [0]
    assert repair(counts, "multinomial", np.array([4, 1]), 1.0).tolist() == [0, 1]


def test_logarithms_are_within_their_stated_error() -> None:
    held = [1, 1, 2, 3, 7, 8, 9, 10**6, 2**40, 2**49, 2**49 - 1, 999_999]
    other = [1, 2, 1, 2**20, 1, 1, 1, 1, 3, 1, 1, 1]
    counts = ClickCounts.of(
        [*range(len(held)), *range(len(held), 2 * len(held))], [*range(len(held))] * 2, held + other
    )
    above = exposure_above(counts, "multinomial").toarray()
    for pair, (mine, yours) in enumerate(zip(held, other, strict=True)):
        with mpmath.workprec(200):
            true = mpmath.log(mpmath.mpf(mine + yours) / yours)
            assert abs(mpmath.mpf(float(above[pair, pair])) / true - 1) < LOG_ROUNDINGS * 2.0**-53


@pytest.mark.slow
@given(logs(), draws, st.sampled_from(SAMPLERS), st.integers(-3, 3), st.data())
def test_the_verdict_is_right_a_few_floats_around_the_limit(
    counts: ClickCounts, amounts: list[int], sampler: Sampler, floats: int, data: st.DataObject
) -> None:
    x = np.array(amounts[: counts.pairs]) * (1 if sampler == "multinomial" else UNITS // 7)
    user = data.draw(st.integers(0, counts.users - 1))
    b = float(exactly(counts, sampler, x, user))
    for _ in range(abs(floats)):
        b = nextafter(b, inf if floats > 0 else 0)
    if b > 0:
        assert (user in violated(counts, sampler, x, b)) == (exactly(counts, sampler, x, user) > b)


@pytest.mark.slow
@given(logs(), draws)
def test_the_verdict_is_right_at_exact_ties(counts: ClickCounts, amounts: list[int]) -> None:
    x = np.array(amounts[: counts.pairs])
    held = counts.matrix.toarray()
    for user in range(counts.users):
        product = Fraction(1)
        for n, h, c in zip(x.tolist(), held[user].tolist(), counts.totals.tolist(), strict=True):
            product *= Fraction(c, c - h) ** n
        if product > 1:
            assert user not in violated(counts, "multinomial", x, LogOf(product))
            assert user in violated(counts, "multinomial", x, LogOf(product - Fraction(1, 10**90)))


@pytest.mark.slow
@given(logs(), draws, st.sampled_from(SAMPLERS), st.sampled_from([LN2, log(2), 0.01, 5.0]))
def test_repair_lowers_until_nobody_is_violated(
    counts: ClickCounts, amounts: list[int], sampler: Sampler, b: float | LogOf
) -> None:
    x = np.array(amounts[: counts.pairs]) * (1 if sampler == "multinomial" else UNITS // 3)
    repaired = repair(counts, sampler, x, b)
    assert (repaired <= x).all()
    assert (repaired >= 0).all()
    assert violated(counts, sampler, repaired, b).tolist() == []
    assert (repair(counts, sampler, repaired, b) == repaired).all()
    if not len(violated(counts, sampler, x, b)):
        assert (repaired == x).all()


@given(logs(), draws, st.floats(0.01, 5))
def test_no_private_output_is_larger_than_users_times_b(counts: ClickCounts, amounts: list[int], b: float) -> None:
    """Since −ln(1 − s) ≥ s, a draw uses up at least 1 of what all users together may be exposed by."""
    assert repair(counts, "multinomial", np.array(amounts[: counts.pairs]), b).sum() <= counts.users * b
    assert (
        repair(counts, "poisson", quantize(np.array(amounts[: counts.pairs], float)), b).sum()
        <= counts.users * b * UNITS
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("b", [LN2, log(2), 3.0])
def test_a_tampered_answer_is_caught_and_repaired(sampler: Sampler, b: float | LogOf) -> None:
    counts = random_log(3)
    unit = 1 if sampler == "multinomial" else UNITS
    honest = repair(counts, sampler, np.full(counts.pairs, unit), b)
    for tampered in (honest + unit, honest * 10**6, np.where(np.arange(counts.pairs) == 5, 10**9, honest)):
        assert len(violated(counts, sampler, tampered, b))
        repaired = repair(counts, sampler, tampered, b)
        assert len(violated(counts, sampler, repaired, b)) == 0
        assert repaired.sum() > 0


def test_one_draw_too_many_costs_one_draw() -> None:
    """User 0 is exposed by 2 ln 4/3 + ln 3/2; without the last, the more exposing one, she is within ln 2."""
    counts = ClickCounts.of([0, 1, 2, 3, 0, 4, 5], [0, 0, 0, 0, 1, 1, 1], [1] * 7)
    assert violated(counts, "multinomial", np.array([2, 1]), log(2)).tolist() == [0]
    assert repair(counts, "multinomial", np.array([2, 1]), log(2)).tolist() == [2, 0]


def test_repair_of_poisson_amounts_loses_next_to_nothing() -> None:
    counts = random_log(4)
    x = np.full(counts.pairs, 0.3)
    b = float((counts.exposure("poisson") @ x).max()) * (1 - 1e-12)
    lost = 1 - repair(counts, "poisson", quantize(x), b).sum() / quantize(x).sum()
    assert lost < 1e-8


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([1, -1, 0]), "pair 1 has -1"),
        (np.array([0.5, 0.0, 0.0]), "must be integers"),
        (np.array([nan, 0.0, 0.0]), "must be integers"),
        (np.array([1, 1]), "3 pairs"),
    ],
)
def test_amounts_that_are_none(x: Integers, message: str) -> None:
    with pytest.raises(InputError, match=message):
        violated(example(), "multinomial", x, 1.0)
    with pytest.raises(InputError, match=message):
        repair(example(), "multinomial", x, 1.0)


@pytest.mark.parametrize("x", [nan, inf, -1e-9, 2.0**30])
def test_counts_that_no_solver_should_say(x: float) -> None:
    for way in (quantize, round_down):
        with pytest.raises(InputError, match="must lie in"):
            way(np.array([1.0, x]))


@pytest.mark.parametrize("b", [0.0, -1.0, nan, inf, 1e300, LogOf(Fraction(1))])
def test_limits_that_limit_nothing(b: float | LogOf) -> None:
    with pytest.raises(InputError, match="positive number"):
        violated(example(), "multinomial", np.zeros(3, np.int64), b)


@given(st.floats(0, 1000))
def test_quantizing_rounds_down(x: float) -> None:
    (w,) = quantize(np.array([x])).tolist()
    assert Fraction(w, UNITS) <= Fraction(x) < Fraction(w + 1, UNITS)


def test_rounding_down_forgives_a_hair() -> None:
    assert round_down(np.array([0.9999999, 0.999, 2.0])).tolist() == [1, 0, 2]


def test_the_limit_of_epsilon_and_delta() -> None:
    assert limit(1.0, 0.5) == LN2
    assert limit(0.5, 0.5) == 0.5
    assert limit(log(2), 0.5) == log(2)  # a float below ln 2
    assert limit(nextafter(log(2), 1), 0.5) == LN2
    assert limit(100.0, 0.9) == LogOf(Fraction(10))  # the float 0.9 is a little more
    assert float(limit(1.0, 1e-6)) == pytest.approx(-np.log1p(-1e-6), rel=1e-15)


def test_nobody_is_violated_in_an_empty_log() -> None:
    nothing = ClickCounts.of([], [], [])
    assert repair(nothing, "multinomial", np.zeros(0, np.int64), 1.0).tolist() == []
    assert repair(nothing, "poisson", np.zeros(0, np.int64), 1.0).tolist() == []
