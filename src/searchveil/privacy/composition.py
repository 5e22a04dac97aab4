"""What several releases of one log cost together.

`basic` adds up. It stays valid when the numbers of a later release are chosen after looking at the earlier ones
(Rogers, Roth, Ullman and Vadhan 2016: the sums are a privacy filter). `optimal` is the exact composition of (ε,δ) pairs
(Kairouz, Oh and Viswanath 2015; Murtagh and Vadhan 2016), computed by dp-accounting: smaller, but proved only for a
list of pairs that was fixed before the first release was seen. `gaussian` adds up μ² and the δ outside of it, for all
releases: those without a μ are given one (docs/guarantees.md#composition).
"""

import logging
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import inf, nextafter, sqrt
from typing import Literal, NamedTuple

from searchveil.privacy.gaussian import delta_of, epsilon_of
from searchveil.privacy.guarantee import Guarantee

Composition = Literal["basic", "gaussian", "pld"]

GRID = 100_000  # losses are rounded up to a hundred-thousandth of Σε, so the bound costs the same at every scale
LARGEST_SUM = 500.0  # e^Σε must stay a finite number; nothing worth refining lies beyond
DELTA_SLACK = 1e-11  # above the rounding error of the Fourier transforms, so that the bound is never too small
EPSILON_SLACK = 1e-9  # likewise; a sum below it has nothing left to refine

ROOT_OF_HALF_PI = Fraction(12533141373155003, 10**16)  # rounded up


class Cost(NamedTuple):
    epsilon: Fraction
    delta: Fraction


class GaussianCost(NamedTuple):
    """μ-Gaussian differential privacy outside of an event of probability δ."""

    squared_mu: Fraction
    delta: Fraction

    @property
    def mu(self) -> float:
        """The smallest float near the root whose decimal is not below it."""
        root = nextafter(sqrt(float(self.squared_mu)), 0.0)
        while decimal(root) ** 2 < self.squared_mu:
            root = nextafter(root, inf)
        return root

    @property
    def _sigma(self) -> float:
        """1/μ, not above it."""
        sigma = 1 / sqrt(float(self.squared_mu))
        while Fraction(sigma) ** 2 * self.squared_mu > 1:
            sigma = nextafter(sigma, 0.0)
        return sigma

    def delta_at(self, epsilon: float) -> Fraction:
        """δ(ε) of the Gaussian part alone, rounded up, for the decimal that this ε stands for."""
        if not self.squared_mu:
            return Fraction(0)
        return Fraction(delta_of(self._sigma, _not_above(decimal(epsilon))))

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε that holds at this δ."""
        left = decimal(delta) - self.delta
        if left <= 0 or not self.squared_mu:
            return 0.0 if left >= 0 and not self.squared_mu else inf
        return epsilon_of(self._sigma, _not_above(left))


def decimal(number: float) -> Fraction:
    """The number a person reads: the shortest decimal that stands for this float, as an exact fraction.

    A guarantee is a claim made in decimals: somebody typed 0.1, and 0.1 is what the release prints and publishes. The
    float in between is a rounding of that claim, not the claim. Adding the claims exactly makes ten times 0.1 equal to
    1; adding floats makes it 0.9999999999999999, and adding what the floats stand for makes it a little more than 1.
    """
    return Fraction(repr(float(number)))


def not_below(exact: Fraction) -> float:
    """The float nearest to an exact number whose decimal is not below it."""
    number = float(exact)
    return number if decimal(number) >= exact else nextafter(number, inf)


def _not_above(exact: Fraction) -> float:
    """A float that is, as the number it holds, not above an exact one."""
    number = float(exact)
    return number if Fraction(number) <= exact else nextafter(number, 0.0)


def basic(guarantees: Iterable[Guarantee]) -> Cost:
    """(Σε, Σδ), exactly."""
    guarantees = _comparable(guarantees)
    return Cost(
        sum((decimal(one.epsilon) for one in guarantees), Fraction(0)),
        sum((decimal(one.delta) for one in guarantees), Fraction(0)),
    )


def gaussian(guarantees: Iterable[Guarantee]) -> GaussianCost:
    """(Σμ², Σδ), exactly. An (ε,δ) without a μ counts as μ = ε·√(π/2) outside of an event of probability δ."""
    parts = [
        (ROOT_OF_HALF_PI * decimal(one.epsilon), decimal(one.delta))
        if one.mu is None
        else (decimal(one.mu), decimal(one.mu_delta))
        for one in _comparable(guarantees)
    ]
    return GaussianCost(sum((mu * mu for mu, _ in parts), Fraction(0)), sum((delta for _, delta in parts), Fraction(0)))


def optimal(guarantees: Iterable[Guarantee], delta: float) -> float:
    """The smallest of the valid ε at this δ: the sum, Gaussian and optimal composition; infinite if δ covers none."""
    guarantees = _comparable(guarantees)
    total = basic(guarantees)
    added = not_below(total.epsilon) if total.delta <= decimal(delta) else inf
    if len(guarantees) < 2 or not EPSILON_SLACK < total.epsilon <= LARGEST_SUM or delta <= DELTA_SLACK:
        return added
    found = [added, _by_privacy_loss(guarantees, float(total.epsilon), delta)]
    if known := [one for one in guarantees if one.mu is not None]:
        rest = [one for one in guarantees if one.mu is None]
        found += [gaussian(guarantees).epsilon_at(delta)]
        found += [_by_privacy_loss(rest, float(total.epsilon), delta, gaussian(known))] if rest else []
    return min(found)


def _by_privacy_loss(
    guarantees: Sequence[Guarantee], total: float, delta: float, beside: GaussianCost | None = None
) -> float:
    """Every pair is replaced by the worst mechanism that satisfies it, rounded upwards on a grid of privacy losses.

    `beside` is one Gaussian mechanism more; the δ outside of it is taken from the one that is asked for.
    """
    delta -= DELTA_SLACK + (float(beside.delta) if beside else 0.0)
    if delta <= 0:
        return inf
    with _quiet():
        # Imported here because it takes a second, which nobody who only adds up should wait for.
        from dp_accounting.pld import common, privacy_loss_distribution  # type: ignore[import-untyped, unused-ignore]

        composed = privacy_loss_distribution.identity(total / GRID)
        alike = Counter((each.epsilon, each.delta) for each in guarantees)
        for (epsilon, its_delta), times in sorted(alike.items()):
            pair = common.DifferentialPrivacyParameters(epsilon, its_delta)
            one = privacy_loss_distribution.from_privacy_parameters(pair, total / GRID)
            composed = composed.compose(one.self_compose(times))
        if beside is not None:
            noise = privacy_loss_distribution.from_gaussian_mechanism(
                (1 - 1e-12) / beside.mu, value_discretization_interval=total / GRID
            )
            composed = composed.compose(noise)
        return float(composed.get_epsilon_for_delta(delta)) + EPSILON_SLACK


def _comparable(guarantees: Iterable[Guarantee]) -> Sequence[Guarantee]:
    guarantees = tuple(guarantees)
    if not all(one.is_private for one in guarantees):
        raise ValueError("a release without differential privacy has no finite cost")
    if len({(one.unit, one.neighbours) for one in guarantees}) > 1:
        raise ValueError("guarantees about different units or neighbours do not add up")
    return guarantees


@contextmanager
def _quiet() -> Iterator[None]:
    """dp-accounting may warn and log while it works; neither says anything about the answer."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
