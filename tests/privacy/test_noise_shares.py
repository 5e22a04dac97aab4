"""Shares of noise: each is exact, together they are discrete Laplace noise, and T is the smallest that keeps δ."""

from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
import pytest
from scipy import stats

from searchveil.privacy import calibrate
from searchveil.privacy.noise import Source
from searchveil.privacy.noise_shares import (
    NegativeBinomial,
    NoiseShare,
    Padding,
    joint_delta,
    joint_threshold,
    sum_tail,
)

FALSE_ALARM = 1e-6  # for each chi-square test below, with a fixed key: it fails always or never


def key(number: int) -> Source:
    return Source(number.to_bytes(32, "big"))


def pmf(scale: float, shape: float, size: int) -> Any:
    return stats.nbinom(shape, 1 - exp(-1 / scale)).pmf(np.arange(size))


@pytest.mark.parametrize(("scale", "parts"), [(0.4, 1), (1.0, 2), (5.0, 3), (40.0, 7)])
def test_the_table_encloses_the_distribution(scale: float, parts: int) -> None:
    first, lower, upper = NegativeBinomial(scale, Fraction(1, parts)).bounds(64)
    known = np.cumsum(pmf(scale, 1 / parts, len(lower)))
    assert first == 0
    assert all(low <= high for low, high in zip(lower, upper, strict=True))
    assert max(high - low for low, high in zip(lower, upper, strict=True)) <= 4
    np.testing.assert_allclose(np.array(lower, float) / 2**64, known, atol=1e-12)


def test_a_share_of_one_part_is_a_geometric_number() -> None:
    """The same table as the geometric distribution's closed form, to the last bits."""
    _, lower, upper = NegativeBinomial(3.0, Fraction(1)).bounds(64)
    for j in (0, 1, 10, 50):
        exact = 1 - Fraction(exp(-(j + 1) / 3))
        assert lower[j] - 2**14 <= exact * 2**64 <= upper[j] + 2**14  # the float's own rounding


@pytest.mark.parametrize(("scale", "parts"), [(1.5, 2), (5.0, 3), (0.5, 4)])
def test_the_sum_of_all_shares_is_discrete_laplace_noise(scale: float, parts: int) -> None:
    n = 200_000
    share = NoiseShare(scale, parts)
    total = sum(share.sample(n, key(10 * parts + party)) for party in range(parts))
    _assert_discrete_laplace(np.asarray(total), scale)


def test_the_shares_of_honest_parties_are_enough_without_those_of_c_others() -> None:
    parties, collusion, scale = 4, 2, 2.0
    share = NoiseShare(scale, parties - collusion)
    honest = sum(share.sample(200_000, key(77 + party)) for party in range(parties - collusion))
    _assert_discrete_laplace(np.asarray(honest), scale)


def test_a_share_too_little_is_told_apart() -> None:
    """The test above can fail: with shares for r parties, r − c of them are not discrete Laplace noise."""
    parties, collusion, scale = 4, 2, 2.0
    share = NoiseShare(scale, parties)
    honest = sum(share.sample(200_000, key(77 + party)) for party in range(parties - collusion))
    with pytest.raises(AssertionError):
        _assert_discrete_laplace(np.asarray(honest), scale)


@pytest.mark.parametrize(("parties", "epsilon"), [(2, 3.83), (3, 2.47)])
def test_without_a_collusion_bound_a_party_faces_too_little_noise(parties: int, epsilon: float) -> None:
    """c = 0, m = 5, ε = 1: what is left when one takes its own share off, by the probabilities of the others'."""
    numbers = np.arange(400)
    one = stats.nbinom.pmf(numbers, 1 / parties, 1 - exp(-1 / 5))
    left = np.ones(1)
    for _ in range(parties - 1):
        left = np.convolve(left, np.convolve(one, one[::-1]))
    middle = len(left) // 2
    ratio = left[middle : middle + 40] / left[middle + 1 : middle + 41]
    assert 5 * np.log(ratio).max() == pytest.approx(epsilon, abs=0.005)


def _assert_discrete_laplace(drawn: Any, scale: float) -> None:
    p, n = exp(-1 / scale), len(drawn)
    most = int(scale * log(n / 50)) + 1  # every cell expects some 50 or more
    values = np.arange(-most, most + 1)
    inside = (1 - p) / (1 + p) * p ** np.abs(values)
    expected = n * np.concatenate([[p ** (most + 1) / (1 + p)], inside, [p ** (most + 1) / (1 + p)]])
    observed = np.bincount(np.clip(drawn, -most - 1, most + 1) + most + 1, minlength=2 * most + 3)
    assert stats.chisquare(observed, expected * n / expected.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("parties", "collusion", "scale", "t"), [(2, 1, 2.0, 9), (3, 0, 1.0, 4), (5, 3, 4.0, 0)])
def test_the_tail_of_the_sum_is_that_of_a_convolution(parties: int, collusion: int, scale: float, t: int) -> None:
    one_side = pmf(scale, parties / (parties - collusion), 800)
    survival = 1 - np.concatenate([[0.0], np.cumsum(one_side)])
    known = sum(one_side[y] * survival[min(t + y, 800)] for y in range(800))
    low, high = sum_tail(scale, parties, collusion, t)
    assert 0 <= high - low <= 2**40
    assert low / 2**192 == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize(
    ("parties", "thresholds"), [(2, [76, 87]), (3, [76, 82, 96])], ids=["two parties", "three parties"]
)
def test_thresholds_are_the_known_ones(parties: int, thresholds: list[int]) -> None:
    scale = calibrate.scale_for(1, 5)
    found = [joint_threshold(scale, 1e-6, 5, parties, collusion) for collusion in range(parties)]
    assert found == thresholds
    assert found[0] == calibrate.approximate_threshold(scale, 1e-6, 5)
    for collusion, threshold in enumerate(found):
        assert joint_delta(scale, 5, parties, collusion, threshold) <= 1e-6
        assert joint_delta(scale, 5, parties, collusion, threshold - 1) > 1e-6


def test_a_tiny_delta_is_kept() -> None:
    threshold = joint_threshold(1.0, 1e-60, 1, 3, 1)
    assert joint_delta(1.0, 1, 3, 1, threshold) <= 1e-60 < joint_delta(1.0, 1, 3, 1, threshold - 1)


@pytest.mark.parametrize(("epsilon", "delta", "per_user"), [(0.5, 1e-3, 2), (1.0, 1e-6, 5)])
def test_padding_hides_one_user_by_exact_enumeration(epsilon: float, delta: float, per_user: int) -> None:
    """Both sizes for every way in which one user may change them: the hockey-stick divergence is at most δ."""
    padding = Padding(epsilon, delta, per_user)
    size = 2 * padding.shift + 40 * int(padding.scale + 1)
    draws = np.arange(-padding.shift - size, size)
    p = exp(-1 / padding.scale)
    mass = (1 - p) / (1 + p) * p ** np.abs(draws)
    dummies = np.bincount(np.maximum(0, padding.shift + draws), weights=mass, minlength=3 * size)[: 2 * size]
    worst = 0.0
    for ring in range(per_user + 1):
        few = [dummies, dummies]
        many = [np.concatenate([np.zeros(k), dummies])[: 2 * size] for k in (ring, per_user - ring)]
        for one, other in ((few, many), (many, few)):
            joint = np.outer(one[0], one[1]) - exp(epsilon) * np.outer(other[0], other[1])
            worst = max(worst, float(np.maximum(joint, 0).sum()))
    assert 0 < worst <= delta * (1 + 1e-9)
    assert worst > delta / 20  # and it is not hidden at any price
