"""Gaussian differential privacy: the account inside a release, and the formulas that tie it to (ε,δ).

A measurement is a vector of integers, one entry for each item of a domain, to which a user adds a vector of bounded
Euclidean length; rounded Gaussian noise is added to every entry. Measurements may depend on the outcomes of earlier
ones. Each spends a share of one μ²; together they are μ-GDP (Dong, Roth and Su 2019), which is (ε, δ(ε))-differential
privacy for every ε. docs/guarantees.md#gaussian-account proves what is used here.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, exp, inf, nextafter, sqrt

from searchveil.errors import InputError
from searchveil.privacy import normal
from searchveil.privacy.guarantee import Neighbours
from searchveil.privacy.intervals import context, exactly
from searchveil.privacy.noise import Integers, RoundedGaussian, Source

LARGEST_EPSILON = 100.0  # what is promised at a smaller ε holds at a larger one; e^ε must stay a finite number


class GaussianAccount:
    """What a release may still measure. `sigma` = 1/μ; shares of μ² are spent and never come back.

    A measurement's `squared_length` bounds Σv² of what one user adds. With replace-one neighbours the difference of
    two such vectors counts; as no entry is negative, its squared length is at most the sum of the two.
    """

    def __init__(self, sigma: float, neighbours: Neighbours) -> None:
        self._squared_mu = 1 / Fraction(sigma) ** 2
        self._lengths = 1 if neighbours == "add-remove" else 2
        self._left = Fraction(1)

    def variance(self, squared_length: int, share: Fraction) -> Fraction:
        """The variance of the noise of a measurement that spends this share."""
        return self._lengths * squared_length / (share * self._squared_mu)

    def spend(self, *, squared_length: int, share: Fraction) -> RoundedGaussian:
        """The noise of one measurement, paid for: a draw of its own for every entry, wherever the entries are.

        The caller vouches that no user adds more than `squared_length` allows.
        """
        if not 0 < share <= self._left:
            raise ValueError(f"a share of {share} was asked for and {self._left} is left: the promise would be broken")
        self._left -= share
        return RoundedGaussian(self.variance(squared_length, share))

    def measure(self, totals: Integers, *, squared_length: int, share: Fraction, source: Source) -> Integers:
        """The totals of one measurement with noise, where they are all here."""
        noisy = self.spend(squared_length=squared_length, share=share).sample(len(totals), source)
        noisy += totals  # in place: there may be ten million
        return noisy


def delta_of(sigma: float, epsilon: float) -> float:
    """δ(ε) of 1/σ-GDP, rounded up: Φ(1/(2σ) − εσ) − e^ε Φ(−1/(2σ) − εσ)."""
    intervals = context(_bits_for(epsilon * sigma + 1 / (2 * sigma)))
    middle, half = intervals.mpf(epsilon) * sigma, 1 / (2 * intervals.mpf(sigma))
    kept = normal.upper_tail(intervals, middle - half)
    paid = intervals.exp(epsilon) * normal.upper_tail(intervals, middle + half)
    return min(1.0, nextafter(float((kept - paid).b), inf))


def epsilon_of(sigma: float, delta: float) -> float:
    """The smallest ε, to nine digits and never below it, at which 1/σ-GDP has this δ; infinite if above the largest."""
    if delta_of(sigma, 0.0) <= delta:
        return 0.0
    if _about(sigma, LARGEST_EPSILON) > delta:
        return inf
    low, high = 0.0, LARGEST_EPSILON
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _about(sigma, middle) > delta else (low, middle)
    while delta_of(sigma, high) > delta:
        high = high * (1 + 1e-10) + 1e-12
    return high


def most_likely(probability: float, mu: float) -> float:
    """How likely an event of this probability can be on a neighbouring log, at most: Φ(Φ⁻¹(p) + μ), rounded up."""
    if probability <= 0:
        return 0.0
    from scipy.special import ndtri  # which takes longer to load than NumPy, and few methods need it

    z = -float(ndtri(probability))
    if mu > z + 40:  # certain, but for less than a float can tell
        return 1.0
    intervals = context(_bits_for(abs(z) + mu))
    while normal.upper_tail(intervals, intervals.mpf(z)).a < probability:
        z -= 1e-12 * max(1.0, abs(z))
    return min(1.0, nextafter(float(normal.upper_tail(intervals, intervals.mpf(z) - mu).b), inf))


def sigma_for(epsilon: float, delta: float) -> float:
    """The smallest σ, to nine digits and never below it, with which 1/σ-GDP gives (ε,δ)."""
    epsilon = min(epsilon, LARGEST_EPSILON)
    return _smallest(lambda sigma: _about(sigma, epsilon), lambda sigma: delta_of(sigma, epsilon), delta)


def _about(sigma: float, epsilon: float) -> float:
    """`delta_of` in floats."""
    middle, half = epsilon * sigma, 1 / (2 * sigma)
    return _below(half - middle) - exp(epsilon) * _below(-half - middle)


def _below(z: float) -> float:
    """P(Z < z) in floats."""
    from scipy.special import ndtr

    return float(ndtr(z))


def crossing_probability(threshold: float, variances: Sequence[Fraction]) -> float:
    """Σ_r P(N(0, v_r) ≥ threshold), rounded up: how likely noise alone reaches a threshold at one of many looks."""
    nearest = threshold / sqrt(float(max(variances)))
    if nearest > 40:  # each tail is below e^(−40²/2), and all of them together below any positive float
        return nextafter(0.0, inf)
    intervals = context(_bits_for(sqrt(nearest**2 + 100)))
    total = intervals.mpf(0)
    for variance in variances:
        distance = intervals.mpf(threshold) / intervals.sqrt(exactly(intervals, variance))
        if threshold**2 > (nearest**2 + 100) * float(variance):
            total += intervals.exp(-distance * distance / 2)  # a bound: a tail so far out adds nothing that counts
        else:
            total += normal.upper_tail(intervals, distance)
    return nextafter(float(total.b), inf)


def crossing_threshold(probability: float, variances: Sequence[Fraction]) -> float:
    """The smallest threshold, to nine digits and never below it, that noise alone reaches at most so likely."""
    deviations = [sqrt(float(variance)) for variance in variances]

    def about(threshold: float) -> float:
        return sum(_below(-threshold / deviation) for deviation in deviations)

    return _smallest(about, lambda threshold: crossing_probability(threshold, variances), probability)


def _smallest(about: Callable[[float], float], exactly: Callable[[float], float], limit: float) -> float:
    """The smallest positive x with f(x) ≤ limit for a falling f: found in floats, then proved, raised where needed."""
    low, high = 0.0, 1.0
    while about(high) > limit:
        low, high = high, 2 * high
        if high > 1e9:
            raise InputError("no noise is enough for these parameters; choose a larger epsilon or delta")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if about(middle) > limit else (low, middle)
    x = high
    while exactly(x) > limit:
        x *= 1 + 1e-10
    return float(x)


def _bits_for(x: float) -> int:
    """Enough that a tail as small as e^(−x²/2) keeps 64 bits."""
    return 128 + ceil(0.73 * x * x)
