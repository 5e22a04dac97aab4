"""What several releases of one log cost together.

`basic` adds up. It stays valid when the numbers of a later release are chosen after looking at the earlier ones
(Rogers, Roth, Ullman and Vadhan 2016: the sums are a privacy filter). `optimal` is the exact composition of (ε,δ) pairs
(Kairouz, Oh and Viswanath 2015; Murtagh and Vadhan 2016), computed by dp-accounting: smaller, but proved only for a
list of pairs that was fixed before the first release was seen.
"""

import logging
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import inf, nextafter
from typing import NamedTuple

from searchveil.privacy.guarantee import Guarantee

GRID = 100_000  # losses are rounded up to a hundred-thousandth of Σε, so the bound costs the same at every scale
LARGEST_SUM = 500.0  # e^Σε must stay a finite number; nothing worth refining lies beyond
DELTA_SLACK = 1e-11  # above the rounding error of the Fourier transforms, so that the bound is never too small
EPSILON_SLACK = 1e-9  # likewise; a sum below it has nothing left to refine


class Cost(NamedTuple):
    epsilon: Fraction
    delta: Fraction


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


def basic(guarantees: Iterable[Guarantee]) -> Cost:
    """(Σε, Σδ), exactly."""
    guarantees = _comparable(guarantees)
    return Cost(
        sum((decimal(one.epsilon) for one in guarantees), Fraction(0)),
        sum((decimal(one.delta) for one in guarantees), Fraction(0)),
    )


def optimal(guarantees: Iterable[Guarantee], delta: float) -> float:
    """The smaller of two valid ε at this δ, the sum and the optimal composition; infinite when δ covers neither."""
    guarantees = _comparable(guarantees)
    total = basic(guarantees)
    added = not_below(total.epsilon) if total.delta <= decimal(delta) else inf
    if len(guarantees) < 2 or not EPSILON_SLACK < total.epsilon <= LARGEST_SUM or delta <= DELTA_SLACK:
        return added
    return min(added, _by_privacy_loss(guarantees, float(total.epsilon), delta))


def _by_privacy_loss(guarantees: Sequence[Guarantee], total: float, delta: float) -> float:
    """Every pair is replaced by the worst mechanism that satisfies it, rounded upwards on a grid of privacy losses."""
    with _quiet():
        # Imported here because it takes a second, which nobody who only adds up should wait for.
        from dp_accounting.pld import common, privacy_loss_distribution  # type: ignore[import-untyped, unused-ignore]

        composed = privacy_loss_distribution.identity(total / GRID)
        alike = Counter((each.epsilon, each.delta) for each in guarantees)
        for (epsilon, its_delta), times in sorted(alike.items()):
            pair = common.DifferentialPrivacyParameters(epsilon, its_delta)
            one = privacy_loss_distribution.from_privacy_parameters(pair, total / GRID)
            composed = composed.compose(one.self_compose(times))
        return float(composed.get_epsilon_for_delta(delta - DELTA_SLACK)) + EPSILON_SLACK


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
