"""Optimal partition selection: the recursion against closed forms and against the promise itself."""

from fractions import Fraction
from itertools import pairwise
from math import exp, log
from typing import Any

import mpmath
import pytest

from searchveil.errors import InputError
from searchveil.privacy.naming import NamingChance


def chances(epsilon: float, delta: float) -> list[Any]:
    chance = NamingChance(Fraction(epsilon), Fraction(delta))
    return [mpmath.mpf(chance.bounds(n, 400)[0]) / 2**400 for n in range(chance.certain)] + [mpmath.mpf(1)]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-6), (3.0, 1e-10), (0.5, 0.3), (1e-3, 0.01)])
def test_every_step_is_within_the_promise_and_uses_it_up(epsilon: float, delta: float) -> None:
    with mpmath.workprec(400):
        found, times = chances(epsilon, delta), mpmath.exp(epsilon)
        assert found[0] == 0
        steps = list(pairwise(found))
        excess = [max(after - times * before, (1 - before) - times * (1 - after)) for before, after in steps]
        assert all(before < after for before, after in steps)
        assert max(excess) <= delta * (1 + mpmath.mpf(2) ** -300)
        # All but the last step, which ends at 1, could not be longer.
        assert min(excess[:-1]) >= delta * (1 - mpmath.mpf(2) ** -300)


def test_the_closed_form_below_one_half() -> None:
    epsilon, delta = 1.0, 1e-6
    for n, chance in enumerate(chances(epsilon, delta)[:13]):
        assert chance == pytest.approx(delta * (exp(n * epsilon) - 1) / (exp(epsilon) - 1), rel=1e-12)


def test_the_turning_point_of_the_paper() -> None:
    """Below n* = 1 + ⌊ln((e^ε + 2δ − 1)/(δ(e^ε + 1)))/ε⌋ the chance grows by e^ε, from there on towards 1."""
    epsilon, delta = 1.0, 1e-6
    turning = 1 + int(log((exp(epsilon) + 2 * delta - 1) / (delta * (exp(epsilon) + 1))) / epsilon)
    found = chances(epsilon, delta)
    fast = [after - (exp(epsilon) * before + delta) for before, after in pairwise(found)]
    assert all(abs(gap) < 1e-12 for gap in fast[:turning])
    assert fast[turning] < -0.1
    assert (turning, NamingChance(Fraction(1), Fraction(delta)).needed(0.5)) == (14, 14)


def test_bounds_agree_however_many_bits_are_asked_for() -> None:
    chance = NamingChance(Fraction(1, 3), Fraction(1, 1000))
    for n in range(chance.certain):
        low, high = chance.bounds(n, 200)
        coarse_low, coarse_high = chance.bounds(n, 64)
        assert low <= high <= low + 1
        assert coarse_low <= low >> 136 <= coarse_high


def test_too_little_noise_is_refused_in_time() -> None:
    with pytest.raises(InputError, match="more than 32,768 users"):
        NamingChance(Fraction(1, 10**9), Fraction(1, 10**9)).needed(0.5)
