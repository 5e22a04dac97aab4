"""Noise that several parties add together: exact shares, the tail of their sum, and the threshold that it needs.

A geometric number is a sum of n independent negative binomial numbers of shape 1/n, and discrete Laplace noise is the
difference of two geometric ones. So n parties that each add NB(1/n) − NB(1/n) add discrete Laplace noise together, and
none of them knows it. If c of r parties may take their own shares off again, n = r − c makes the rest enough; all r
together then add more, by which the threshold is calibrated (docs/collab.md proves both).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from math import ceil, inf, nextafter

from searchveil.privacy import calibrate
from searchveil.privacy.intervals import context, exactly, scaled
from searchveil.privacy.noise import DiscreteLaplace, Distribution, Integers, Source, bounds_from_zero


@dataclass(frozen=True)
class NegativeBinomial(Distribution):
    """P(X = j) = Γ(shape + j)/(Γ(shape)·j!)·(1−p)^shape·p^j with p = exp(-1/scale), j = 0, 1, …"""

    scale: float
    shape: Fraction

    @lru_cache(maxsize=8)  # noqa: B019 (a frozen value object; a handful is alive at a time)
    def bounds(self, bits: int) -> tuple[int, list[int], list[int]]:
        return bounds_from_zero(self._probabilities, bits)

    def _probabilities(self, working: int) -> Iterator[tuple[int, int]]:
        iv = context(working + 32)
        p = iv.exp(-1 / iv.mpf(self.scale))
        p_low, p_high = scaled(p, working)
        low, high = scaled(iv.exp(exactly(iv, self.shape) * iv.log(1 - p)), working)
        times, over = self.shape.numerator, self.shape.denominator
        for j in count():
            yield low, high
            # The next probability is this one times p·(shape + j)/(j + 1), rounded outwards.
            up, down = times + j * over, over * (j + 1)
            low = ((low * p_low) >> working) * up // down
            high = -((-(((high * p_high) >> working) + 1) * up) // down)


@dataclass(frozen=True)
class NoiseShare:
    """One of `parts` shares that add up to discrete Laplace noise of this scale."""

    scale: float
    parts: int

    @property
    def half(self) -> NegativeBinomial:
        return NegativeBinomial(self.scale, Fraction(1, self.parts))

    def sample(self, n: int, source: Source) -> Integers:
        """n independent draws."""
        return self.half.sample(n, source) - self.half.sample(n, source)


def sum_tail(scale: float, parties: int, collusion: int, t: int, bits: int = 192) -> tuple[int, int]:
    """Bounds of P(Z ≥ t)·2^bits, t ≥ 0, where Z is the sum of the shares of all parties.

    Z = X − Y with X and Y negative binomial of shape parties/(parties − collusion), so P(Z ≥ t) is the sum over y of
    P(Y = y)·P(X ≥ t + y). What lies beyond the table is bounded by its last entry.
    """
    table = NegativeBinomial(scale, Fraction(parties, parties - collusion))
    _, lower, upper = table.bounds(bits)
    one, last = 1 << bits, len(lower) - 1
    low = high = 0
    for y in range(len(lower)):
        at_least = t + y - 1  # P(X ≥ t + y) = 1 − P(X ≤ t + y − 1)
        if at_least < 0:
            tail_low = tail_high = one
        else:
            tail_low = max(0, one - upper[at_least]) if at_least <= last else 0
            tail_high = one - lower[min(at_least, last)]
        before_low, before_high = (lower[y - 1], upper[y - 1]) if y else (0, 0)
        low += max(0, lower[y] - before_high) * tail_low
        high += (upper[y] - before_low) * tail_high
    beyond = one - lower[last]
    return low >> bits, min(one, (high >> bits) + 1 + beyond)


def joint_delta(scale: float, per_user: int, parties: int, collusion: int, threshold: int) -> float:
    """δ for who sees the released items: one of the items of one user alone is published.

    An upper bound as a float, within rounding of the exact 1 − (1 − q)^m.
    """
    if threshold < 1:
        return 1.0
    bits = 192
    while True:
        low, high = sum_tail(scale, parties, collusion, threshold - 1, bits)
        if high - low <= low >> 40 or bits > 4096:  # relative to the tail itself, the bounds agree
            break
        bits *= 2
    iv = context(bits + 64)
    q = exactly(iv, Fraction(high, 1 << bits))
    return min(1.0, nextafter(float((1 - (1 - q) ** per_user).b), inf))


def joint_threshold(scale: float, delta: float, per_user: int, parties: int, collusion: int) -> int:
    """The smallest T whose δ is within the one asked for, when all parties' shares are added."""
    low, high = 0, calibrate.approximate_threshold(scale, delta, per_user)
    while joint_delta(scale, per_user, parties, collusion, high) > delta:
        low, high = high, high + max(1, high // 2, ceil(scale))
    while high - low > 1:
        middle = (low + high) // 2
        if joint_delta(scale, per_user, parties, collusion, middle) > delta:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class Padding:
    """How many dummies hide a size: discrete Laplace noise around `shift`, and never fewer than none.

    Two such numbers are drawn for each party, one for what only other parties see and one for what the coordinator
    sees as well. One user changes the two sizes by at most `per_user` together, so that both cost `epsilon` once.
    """

    epsilon: float
    delta: float
    per_user: int

    @property
    def scale(self) -> float:
        return calibrate.scale_for(self.epsilon, self.per_user)

    @property
    def shift(self) -> int:
        """The smallest s with 2·P(η ≥ s + 1 − m) ≤ δ: what cutting off at none may show (docs/collab.md)."""
        half = calibrate.equal_share(self.delta, 2)
        return calibrate.approximate_threshold(self.scale, half, 1) + self.per_user - 2

    def sample(self, source: Source) -> int:
        return max(0, self.shift + int(DiscreteLaplace(self.scale).sample(1, source)[0]))
