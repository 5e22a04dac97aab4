"""The noise is exactly what it says: against exact probabilities, against rigorous bounds, and against opendp.

Every statistical test has a fixed key, so it never fails by chance on unchanged code; a change of the code draws anew
and then raises a false alarm with probability at most FALSE_ALARM.
"""

import os
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, permutations
from math import comb, exp, floor, log, sqrt

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed import keyed
from scipy.stats import chi2, norm

from searchveil.privacy.noise import (
    DiscreteLaplace,
    Distribution,
    Geometric,
    Integers,
    Poisson,
    Source,
    _Table,
    binomial,
    poisson_arrivals,
)

FALSE_ALARM = 1e-6
SCALES = [0.2, 0.5, 1.0, 5.0, 40.0, 500.0]
Probability = Callable[[int], float]


def laplace(scale: float) -> Probability:
    p = exp(-1 / scale)
    return lambda t: (1 - p) / (1 + p) * p ** abs(t)


def geometric(scale: float) -> Probability:
    p = exp(-1 / scale)
    return lambda j: (1 - p) * p**j if j >= 0 else 0.0


def poisson(mean: float) -> Probability:
    return lambda j: float(mpmath.exp(-mean) * mpmath.mpf(mean) ** j / mpmath.factorial(j)) if j >= 0 else 0.0


def agrees(draws: Integers, probability: Probability) -> bool:
    """Chi-square against exact probabilities; neighbouring values share a cell until 20 draws are expected in it."""
    n = len(draws)
    low, high = int(draws.min()), int(draws.max())
    seen = np.bincount(draws - low, minlength=high - low + 1)
    cells: list[tuple[float, float]] = []
    expected, observed = 0.0, 0.0
    for value in range(low, high + 1):
        expected, observed = expected + n * probability(value), observed + float(seen[value - low])
        if expected >= 20:
            cells.append((expected, observed))
            expected, observed = 0.0, 0.0
    # Everything outside what was seen, and the unfinished last cell, are one cell.
    cells.append((max(n - sum(e for e, _ in cells), 1e-9), observed))
    if cells[-1][0] < 20 and len(cells) > 1:
        (e1, o1), (e2, o2) = cells.pop(), cells.pop()
        cells.append((e1 + e2, o1 + o2))
    statistic = sum((o - e) ** 2 / e for e, o in cells)
    return len(cells) > 1 and float(chi2.sf(statistic, len(cells) - 1)) > FALSE_ALARM


# --- the sampler against exact probabilities --------------------------------------------------------------------------


def test_the_chi_square_test_sees_a_scale_that_is_four_percent_off() -> None:
    draws = DiscreteLaplace(5.0).sample(200_000, keyed(b"power"))
    assert agrees(draws, laplace(5.0))
    assert not agrees(draws, laplace(5.2))
    assert not agrees(draws + 1, laplace(5.0))


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_has_its_distribution(scale: float) -> None:
    assert agrees(DiscreteLaplace(scale).sample(400_000, keyed(b"laplace %g" % scale)), laplace(scale))


@pytest.mark.parametrize("scale", SCALES)
def test_geometric_has_its_distribution(scale: float) -> None:
    assert agrees(Geometric(scale).sample(400_000, keyed(b"geometric %g" % scale)), geometric(scale))


@pytest.mark.parametrize("mean", [0.01, 0.5, 1.0, 7.3, 60.0])
def test_poisson_has_its_distribution(mean: float) -> None:
    assert agrees(Poisson(mean).sample(400_000, keyed(b"poisson %g" % mean)), poisson(mean))


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_is_unbiased_with_its_variance(scale: float) -> None:
    n = 400_000
    draws = DiscreteLaplace(scale).sample(n, keyed(b"moments %g" % scale)).astype(float)
    p = exp(-1 / scale)
    variance = 2 * p / (1 - p) ** 2
    far = float(norm.isf(FALSE_ALARM / 2))
    assert abs(draws.mean()) < far * sqrt(variance / n)
    fourth = float(np.mean(draws**4))
    assert abs(np.mean(draws**2) - variance) < far * sqrt((fourth - variance**2) / n)


@pytest.mark.parametrize("word_bits", [2, 3, 5, 8, 12])
@pytest.mark.parametrize(
    ("distribution", "probability"),
    [
        (DiscreteLaplace(0.5), laplace(0.5)),
        (DiscreteLaplace(3.0), laplace(3.0)),
        (Geometric(0.5), geometric(0.5)),
        (Geometric(3.0), geometric(3.0)),
        (Poisson(1.0), poisson(1.0)),
    ],
    ids=lambda value: str(value) if isinstance(value, Distribution) else "exact",
)
def test_short_words_give_the_same_distribution_because_more_bits_decide(
    distribution: Distribution, probability: Probability, word_bits: int
) -> None:
    """With few bits nearly every draw is undecided at first: the path that 64 bits take once in 10^17 draws."""
    table = _Table(distribution, word_bits)
    assert agrees(table.draw(6_000, keyed(b"short words %d" % word_bits)), probability)


def test_with_short_words_the_closer_look_does_decide_most_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    closely = _Table._decide

    def counted(self: _Table, word: int, source: Source) -> int:
        nonlocal looks
        looks += 1
        return closely(self, word, source)

    monkeypatch.setattr(_Table, "_decide", counted)
    _Table(DiscreteLaplace(3.0), 3).draw(1_000, keyed(b"looks"))
    assert looks > 900
    looks = 0
    _Table(DiscreteLaplace(3.0), 64).draw(100_000, keyed(b"looks"))
    assert looks == 0


def test_draws_in_several_batches_are_one_stream() -> None:
    many = DiscreteLaplace(2.0).sample((1 << 20) + 1_000, keyed(b"batches"))
    assert len(many) == (1 << 20) + 1_000
    assert many.dtype == np.int64
    assert agrees(many, laplace(2.0))
    assert list(many[:100]) == list(DiscreteLaplace(2.0).sample(100, keyed(b"batches")))


def test_no_draws_are_no_draws() -> None:
    assert len(DiscreteLaplace(2.0).sample(0, keyed(b"none"))) == 0


@pytest.mark.parametrize("scale", [0.7, 4.0, 30.0])
def test_opendps_exact_sampler_and_ours_draw_alike(scale: float) -> None:
    """A two-sample chi-square. opendp takes no seed, so this may fail by chance: once in 10^9 runs."""
    n = 20_000
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    theirs = np.array(dp.m.make_laplace(*space, scale=scale)([0] * n), dtype=np.int64)
    ours = DiscreteLaplace(scale).sample(n, keyed(b"opendp %g" % scale))
    p = exp(-1 / scale)
    edges = sorted({floor(-scale * log(share * (1 + p))) for share in np.linspace(0.02, 0.5, 12)})
    cuts = np.array([-edge for edge in reversed(edges)] + [edge + 1 for edge in edges]) - 0.5
    table = np.array([np.bincount(np.searchsorted(cuts, draws), minlength=len(cuts) + 1) for draws in (theirs, ours)])
    table = table[:, table.sum(axis=0) > 0]
    statistic = ((table[0] - table[1]) ** 2 / table.sum(axis=0)).sum()
    assert float(chi2.sf(statistic, table.shape[1] - 1)) > 1e-9


# --- the bounds against an independent computation --------------------------------------------------------------------


def exact_distribution_function(distribution: Distribution) -> Callable[[int], mpmath.mpf]:
    """P(X ≤ k) at mpmath's working precision, from closed forms or a direct sum: nothing of the code under test."""
    if isinstance(distribution, Poisson):
        mean = mpmath.mpf(distribution.mean)
        return lambda k: mpmath.exp(-mean) * mpmath.fsum(mean**j / mpmath.factorial(j) for j in range(k + 1))
    assert isinstance(distribution, DiscreteLaplace | Geometric)
    p = mpmath.exp(-1 / mpmath.mpf(distribution.scale))
    if isinstance(distribution, Geometric):
        return lambda k: 1 - p ** (k + 1)
    return lambda k: 1 - p ** (k + 1) / (1 + p) if k >= 0 else p**-k / (1 + p)


BOUNDED = [
    *(DiscreteLaplace(scale) for scale in (0.01, 0.2, 1.0, 7.3, 60.0)),
    *(Geometric(scale) for scale in (0.01, 0.2, 1.0, 7.3, 60.0)),
    *(Poisson(mean) for mean in (0.01, 1.0, 7.3)),
]


@pytest.mark.parametrize("bits", [2, 7, 64, 128])
@pytest.mark.parametrize("distribution", BOUNDED, ids=str)
def test_the_bounds_hold_and_are_tight(distribution: Distribution, bits: int) -> None:
    with mpmath.workprec(600):
        exactly = exact_distribution_function(distribution)
        first, lower, upper = distribution.bounds(bits)
        assert len(lower) == len(upper) > 0
        for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
            true = exactly(first + i) * mpmath.mpf(2) ** bits
            assert low <= true <= high
            assert high - low <= 2, "so that a closer look is rare"
    assert all(a <= b for a, b in pairwise(lower)), "the search in the table needs an order"
    assert all(a <= b for a, b in pairwise(upper))


@pytest.mark.parametrize("bits", [2, 7, 64, 128])
@pytest.mark.parametrize("distribution", BOUNDED, ids=str)
def test_no_word_is_taken_for_the_first_value_that_may_stand_for_a_smaller_one(
    distribution: Distribution, bits: int
) -> None:
    first, lower, upper = distribution.bounds(bits)
    if isinstance(distribution, Geometric | Poisson):
        assert first == 0
    else:
        assert lower[0] == 0
    assert lower[-1] < 1 << bits <= upper[-1], "nor for the last that may stand for a larger one"


@pytest.mark.parametrize("t", [0, 1, 5, 80])
@pytest.mark.parametrize("scale", [0.2, 1.0, 37.5])
@pytest.mark.parametrize("bits", [3, 64, 300])
def test_the_bounds_of_the_tail_hold(scale: float, t: int, bits: int) -> None:
    low, high = DiscreteLaplace(scale).tail(t, bits)
    with mpmath.workprec(1200):
        p = mpmath.exp(-1 / mpmath.mpf(scale))
        assert low <= p**t / (1 + p) * mpmath.mpf(2) ** bits <= high
    assert high - low <= 1


def test_the_excess_over_any_threshold_is_geometric_of_the_same_scale() -> None:
    assert DiscreteLaplace(7.5).excess == Geometric(7.5)
    draws = DiscreteLaplace(3.0).sample(400_000, keyed(b"no memory"))
    for t in (0, 4):
        assert agrees(draws[draws >= t] - t, geometric(3.0))


# --- counting events --------------------------------------------------------------------------------------------------


def of(probability: Fraction) -> Callable[[int], tuple[int, int]]:
    """Tight bounds of a rational probability."""
    return lambda bits: (
        floor(probability * 2**bits),
        -floor(-probability * 2**bits),
    )


def loosely(probability: Fraction, by_bits: int) -> Callable[[int], tuple[int, int]]:
    """Bounds that leave the last bits open, more so than the guard bits can hide: they straddle digits."""

    def bounds(bits: int) -> tuple[int, int]:
        slack = 1 << by_bits
        return max(0, floor(probability * 2**bits) - slack), floor(probability * 2**bits) + slack

    return bounds


def binomial_probability(n: int, q: Fraction) -> Probability:
    return lambda k: float(comb(n, k) * q**k * (1 - q) ** (n - k)) if 0 <= k <= n else 0.0


@pytest.mark.parametrize("n", [1, 2, 7, 70])
@pytest.mark.parametrize("q", [Fraction(1, 3), Fraction(1, 50), Fraction(99, 100), Fraction(1, 2), Fraction(5, 8)])
def test_binomial_has_its_distribution(n: int, q: Fraction) -> None:
    source = keyed(b"binomial %d" % n)
    draws = np.array([binomial(n, of(q), source) for _ in range(4_000)])
    assert agrees(draws, binomial_probability(n, q))


# One third is 0.010101…, and 2^-70/3 beside a half is 0.1000…000101… or 0.0111…1110…: the bounds agree on no digit, or
# on few, until they are asked for many. (The probabilities of the noise are irrational, so their digits never end.)
@pytest.mark.parametrize(
    "probability",
    [
        loosely(Fraction(1, 3), 100),
        loosely(Fraction(1, 3), 190),
        loosely(Fraction(1, 2) + Fraction(1, 3 * 2**70), 130),
        loosely(Fraction(1, 2) - Fraction(1, 3 * 2**140), 70),
        loosely(Fraction(1, 4) + Fraction(1, 3 * 2**200), 64),
    ],
)
def test_binomial_asks_again_where_the_bounds_straddle_a_digit(probability: Callable[[int], tuple[int, int]]) -> None:
    low, high = probability(4096)
    q = Fraction(low + high, 2 * 2**4096)
    source = keyed(b"straddling")
    draws = np.array([binomial(5, probability, source) for _ in range(4_000)])
    assert agrees(draws, binomial_probability(5, q))


def test_the_digits_beyond_a_straddled_one_decide_rightly() -> None:
    """A probability of 1/2 ± 2^-70/3 read through bounds that agree on nothing at first is still told from 1/2.

    The coin starts with 69 zeros after its first digit: only a stream that begins so goes deep, so one is made.
    """

    class Prepared(Source):
        """Every event draws the bits of 1/2 exactly: 1, 0, 0, 0, …"""

        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

        def ones(self, n: int) -> int:
            self.asked += 1
            return n if self.asked == 1 else 0

    above = loosely(Fraction(1, 2) + Fraction(1, 3 * 2**70), 130)
    below = loosely(Fraction(1, 2) - Fraction(1, 3 * 2**70), 130)
    assert binomial(9, above, Prepared()) == 9
    assert binomial(9, below, Prepared()) == 0


def test_binomial_of_nothing_or_of_the_impossible_is_nothing() -> None:
    assert binomial(0, of(Fraction(1, 2)), keyed(b"n")) == 0
    assert binomial(1_000_000, of(Fraction(1, 2**120)), keyed(b"n")) == 0


def test_binomial_of_a_million_rare_events_has_the_right_mean() -> None:
    q = Fraction(1, 1000)
    source = keyed(b"million")
    draws = np.array([binomial(1_000_000, of(q), source) for _ in range(50)])
    standard_error = sqrt(1_000_000 * float(q * (1 - q)) / len(draws))
    assert abs(draws.mean() - 1000) < float(norm.isf(FALSE_ALARM / 2)) * standard_error


# --- the source of bits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130])
def test_ones_counts_fair_coins(n: int) -> None:
    source = keyed(b"ones %d" % n)
    draws = np.array([source.ones(n) for _ in range(4_000)])
    assert agrees(draws, binomial_probability(n, Fraction(1, 2)))


def test_ones_of_many_coins_in_several_batches() -> None:
    n = 64 * (1 << 20) + 5
    far = float(norm.isf(FALSE_ALARM / 2))
    assert abs(keyed(b"batches").ones(n) - n / 2) < far * sqrt(n) / 2
    assert keyed(b"none").ones(0) == 0


@given(n=st.integers(1, 700))
@settings(deadline=None)
def test_bits_are_within_their_length(n: int) -> None:
    source = keyed(b"bits")
    drawn = [source.bits(n) for _ in range(20)]
    assert all(0 <= value < 1 << n for value in drawn)
    assert n < 60 or max(value.bit_length() for value in drawn) > n - 20


def test_bits_and_words_are_uniform() -> None:
    source = keyed(b"uniform")
    assert agrees(np.array([source.bits(3) for _ in range(8_000)]), lambda v: 1 / 8 if 0 <= v < 8 else 0.0)
    words = source.words(50_000)
    for shift in (0, 30, 61):
        values = ((words >> np.uint64(shift)) & np.uint64(7)).astype(np.int64)
        assert agrees(values, lambda v: 1 / 8 if 0 <= v < 8 else 0.0)


@pytest.mark.parametrize("end", [1, 2, 3, 7, 1000, 2**33 + 5, 3 << 61])
def test_integers_below_an_end_are_uniform(end: int) -> None:
    """In eight equal parts where there are as many; three times 2^61 makes a third of the words be drawn again."""
    drawn = keyed(b"below %d" % end).below(np.full(80_000, end, np.int64))
    assert drawn.min() >= 0
    assert drawn.max() < end
    parts = min(end, 8)
    cells = [int(part) for part in (drawn.astype(object) * parts // end)]
    edges = [-(-part * end // parts) for part in range(parts + 1)]
    shares = [(high - low) / end for low, high in pairwise(edges)]
    assert agrees(np.array(cells), lambda part: shares[part] if 0 <= part < parts else 0.0) or parts == 1


def test_orders_are_uniform_permutations() -> None:
    source = keyed(b"order")
    places = {order: i for i, order in enumerate(permutations(range(3)))}
    drawn = np.array([places[tuple(source.order(3).tolist())] for _ in range(12_000)])
    assert agrees(drawn, lambda i: 1 / 6 if 0 <= i < 6 else 0.0)
    assert sorted(source.order(1000).tolist()) == list(range(1000))


@pytest.mark.slow
def test_arrivals_are_independent_poisson_counts() -> None:
    """Each place has its distribution, and two places together theirs."""
    source, unit = keyed(b"arrivals"), 2**32
    weights = np.array([unit // 2, 0, 3 * unit, unit // 4 + 1])
    counts = np.array([np.bincount(poisson_arrivals(weights, unit, source), minlength=4) for _ in range(20_000)])
    assert not counts[:, 1].any()
    for place in (0, 2, 3):
        assert agrees(counts[:, place], poisson(weights[place] / unit))
    assert agrees(counts[:, 0] + counts[:, 2], poisson(3.5)), "the sum of independent ones"
    assert len(poisson_arrivals(np.zeros(0, np.int64), unit, source)) == 0
    assert len(poisson_arrivals(np.zeros(3, np.int64), unit, source)) == 0


def test_seeds_and_keys_have_their_size() -> None:
    source = keyed(b"sizes")
    assert all(0 <= source.seed() < 1 << 63 for _ in range(100))
    keys = {source.key() for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 64 and int(key, 16) >= 0 for key in keys)


def test_a_key_fixes_the_stream_and_no_key_means_a_fresh_one() -> None:
    assert list(keyed(b"same").words(8)) == list(keyed(b"same").words(8))
    assert list(keyed(b"one").words(8)) != list(keyed(b"two").words(8))
    assert list(Source().words(8)) != list(Source().words(8))


def test_a_source_goes_on_and_never_repeats() -> None:
    source = keyed(b"on")
    together = list(keyed(b"on").words(20))
    assert list(source.words(12)) + list(source.words(8)) == together
    assert len(set(together)) == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_source_refuses_to_cross_a_fork() -> None:
    """The child would draw the parent's noise again: with both outputs at hand, the noise cancels."""
    source = keyed(b"fork")
    source.words(1)
    answer, question = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run in here
        try:
            source.words(1)
            os.write(question, b"drew")
        except RuntimeError as refusal:
            os.write(question, str(refusal).encode())
        finally:
            os._exit(0)
    os.close(question)
    os.waitpid(child, 0)
    with os.fdopen(answer, "rb") as said:
        assert b"must not cross a fork" in said.read()
    source.words(1)


@pytest.mark.parametrize("key", [b"", b"short", bytes(31), bytes(33)])
def test_a_key_that_is_easy_to_guess_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, not {len(key)}"):
        Source(key)
