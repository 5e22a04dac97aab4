"""Formulas that tie parameters to promises, both ways. docs/guarantees/ proves them; they look at no data.

Words: `per_user` = m items a user may keep, `scale` = λ of discrete Laplace noise, p = e^(-1/λ); "publish iff noisy
≥ T". Whatever decides a promise is evaluated in interval arithmetic and rounded to the safe side.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, expm1, floor, inf, log, log1p, nextafter
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt

from searchveil.errors import InputError
from searchveil.privacy.guarantee import Neighbours
from searchveil.privacy.intervals import Interval, Intervals, context, exactly

Floats = npt.NDArray[np.float64]

SMALLEST_SCALE = 0.01
LARGEST_SCALE = 20_000.0  # the noise tables grow with the scale; a scale beyond this hides any count worth publishing


FAR = 1_000  # so many scales beyond a threshold the tail is below any positive float, times any number of items
SMALLEST = nextafter(0.0, 1.0)


def check_scale(scale: float) -> None:
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InputError(
            f"the noise scale {scale:g} is outside {SMALLEST_SCALE:g} … {LARGEST_SCALE:g}",
            parameter="epsilon",
            instead="choose an epsilon nearer to 1 or other items per user",
        )


def scale_for(epsilon: float, changes: int) -> float:
    """The smallest floating-point λ with changes/λ ≤ ε, exactly: plain division may round to the wrong side.

    ε is taken both as the float it is and as the decimal it prints as, which is what a ledger adds up.
    """
    scale = changes / epsilon
    check_scale(scale)
    smallest = min(Fraction(epsilon), Fraction(repr(float(epsilon))))
    while Fraction(scale) * smallest < changes:
        scale = nextafter(scale, inf)
    return scale


def epsilon_of(scale: float, changes: int) -> float:
    """The smallest floating-point ε with changes/λ ≤ ε."""
    epsilon = changes / scale
    while Fraction(scale) * Fraction(epsilon) < changes:
        epsilon = nextafter(epsilon, inf)
    return epsilon


def equal_share(delta: float, parts: int) -> float:
    """The largest float of which `parts` together are at most δ."""
    share = delta / parts
    return share if parts * Fraction(share) <= Fraction(delta) else nextafter(share, 0.0)


def changed_counts(per_user: int, neighbours: Neighbours) -> int:
    """By how much the counts of neighbouring logs can differ in total."""
    return per_user if neighbours == "add-remove" else 2 * per_user


def tail(scale: float, t: int) -> float:
    """P(η ≥ t) for discrete Laplace noise of this scale."""
    p = exp(-1 / scale)
    return exp(-t / scale) / (1 + p) if t >= 0 else 1 - exp(-(1 - t) / scale) / (1 + p)


def _tail_interval(iv: Intervals, scale: float, t: int) -> Interval:
    p = iv.exp(-1 / iv.mpf(scale))
    return p**t / (1 + p) if t >= 0 else 1 - p ** (1 - t) / (1 + p)


def _upper(interval: Interval) -> float:
    """A float that is at least the interval's upper end."""
    return nextafter(float(interval.b), inf)


def _some_of(q: Interval, n: int) -> Interval:
    """1 − (1−q)^n as an interval: the probability that at least one of n independent events happens."""
    return 1 - (1 - q) ** n


def smallest_integer(start: int, holds: Callable[[int], bool]) -> int:
    """The smallest integer near `start` from which a monotone condition holds; `start` is off by rounding at most."""
    while not holds(start):
        start += 1
    while holds(start - 1):
        start -= 1
    return start


# --- (ε,δ)-differential privacy of thresholded counts: `approximate`, ours ---


def approximate_delta(scale: float, per_user: int, threshold: int, first_threshold: int = 1) -> float:
    """The exact δ: some item that one user alone lifts over the first threshold is published."""
    if threshold < first_threshold:
        return 1.0
    if (threshold - first_threshold) / scale > FAR:
        return SMALLEST
    iv = _intervals_for(scale, threshold)
    return min(1.0, _upper(_some_of(_tail_interval(iv, scale, threshold - first_threshold), per_user)))


def approximate_threshold(scale: float, delta: float, per_user: int, first_threshold: int = 1) -> int:
    """The smallest T whose δ is within the one asked for."""
    p = exp(-1 / scale)
    allowed = -expm1(log1p(-delta) / per_user)
    start = first_threshold + max(0, ceil(-scale * log(allowed * (1 + p))))

    def holds(threshold: int) -> bool:
        return threshold >= first_threshold and approximate_delta(scale, per_user, threshold, first_threshold) <= delta

    return smallest_integer(start, holds)


# --- ZEALOUS as published ---


def probabilistic_threshold_continuous(
    scale: float, delta: float, per_user: int, users: int, first_threshold: int
) -> float:
    """τ' of Theorem 3 for continuous noise, to compare with the paper."""
    ratio_bound = -scale * log(2 - 2 * exp(-1 / scale))
    return first_threshold + max(ratio_bound, -scale * log(2 * delta * first_threshold / (users * per_user)))


def probabilistic_threshold(scale: float, delta: float, per_user: int, users: int, first_threshold: int) -> int | None:
    """The smallest T for discrete noise: q ≤ min(1−p, 1−(1−δ)^(1/⌊Um/τ⌋)); None if no item can reach τ."""
    most_items = users * per_user // first_threshold
    if most_items == 0:
        return None

    def holds(threshold: int) -> bool:
        if threshold < first_threshold:
            return False
        iv = _intervals_for(scale, threshold)
        q = _tail_interval(iv, scale, threshold - first_threshold)
        unpublished_ratio = 1 - iv.exp(-1 / iv.mpf(scale))
        return bool(q.b <= unpublished_ratio.a) and _upper(_some_of(q, most_items)) <= delta

    start = floor(probabilistic_threshold_continuous(scale, delta, per_user, users, first_threshold))
    return smallest_integer(max(start, first_threshold), holds)


def best_first_threshold(scale: float, delta: float, per_user: int, users: int) -> tuple[int, int]:
    """(τ, T) with the smallest T. The paper's τ = ⌈λ⌉ is not always best: near λ, rounding decides."""
    continuous = {
        first: probabilistic_threshold_continuous(scale, delta, per_user, users, first)
        for first in range(1, min(2 * ceil(scale) + 2, users * per_user) + 1)
    }
    close = min(continuous.values()) + 2
    pairs = [
        (threshold, first)
        for first in continuous
        if continuous[first] <= close
        and (threshold := probabilistic_threshold(scale, delta, per_user, users, first)) is not None
    ]
    threshold, first = min(pairs)
    return first, threshold


def published_threshold(scale: float, delta: float, per_user: int) -> float:
    """τ' of Theorem 2 of Götz et al. (erratum Z1) and K of Korolova et al.: δ = (d/2)·e^((d−K)/b), continuous noise."""
    return per_user - scale * log(2 * delta / per_user)


def indistinguishable_threshold(scale: float, delta: float, per_user: int) -> int:
    """T = ⌊τ'⌋ + 1 of Theorem 2, raised where rounding τ' down would let the exact δ pass the bound."""
    threshold = max(1, floor(published_threshold(scale, delta, per_user)) + 1)
    while approximate_delta(scale, per_user, threshold) > delta:
        threshold += 1
    return threshold


# --- Korolova et al. ---


def turning_point(scale: float) -> float:
    """K from which a higher threshold no longer lowers the published ε: the larger part of α is then e^(1/b)."""
    return 1 - scale * log(2 * (1 - exp(-1 / scale)))


def occurrences_delta(scale: float, per_user: int, threshold: int) -> float:
    """The exact δ when one user may add up to `per_user` to one count: max(1 − (1−q₁)^d, q_d).

    Spreading or heaping is worst as long as no user alone reaches the threshold; below that nothing is promised.
    """
    if threshold < per_user:
        return 1.0
    if (threshold - per_user) / scale > FAR:
        return SMALLEST
    iv = _intervals_for(scale, threshold)
    spread = _some_of(_tail_interval(iv, scale, threshold - 1), per_user)
    heaped = _tail_interval(iv, scale, threshold - per_user)
    return min(1.0, max(_upper(spread), _upper(heaped)))


def occurrences_threshold(scale: float, delta: float, per_user: int) -> int:
    p = exp(-1 / scale)
    heaped = per_user + ceil(-scale * log(delta * (1 + p)))
    spread = 1 + ceil(-scale * log(-expm1(log1p(-delta) / per_user) * (1 + p)))
    start = max(1, per_user, heaped, spread)
    return smallest_integer(start, lambda t: t >= 1 and occurrences_delta(scale, per_user, t) <= delta)


# --- Sampling ---


def poisson_mean(chance: Fraction) -> float:
    """The largest float b, or the one below it, with 1 − e^(−b) ≤ chance: a Poisson count that is so likely above 0."""
    intervals = context(1_300)  # a chance may be as small as floats are
    appears_not = exactly(intervals, 1 - chance)
    mean = nextafter(float((-intervals.log(appears_not)).a), 0.0)
    while not intervals.exp(-intervals.mpf(mean)).a >= appears_not.b:
        mean = nextafter(mean, 0.0)
    return mean


# --- What to expect, from public knowledge ---


TYPICALLY_HELD = 25  # different queries of a user of web search, on average
MOST_ASSUMED = 100_000_000  # more items than any log has, and few enough to add up
BEND = 5_000  # the rank at which popularity begins to fall faster
_QUANTILES = 32  # of users by how many items they have
_DEVIATIONS = np.linspace(-4, 4, 41)  # at which a number of holders is looked at


@dataclass(frozen=True)
class Assumption:
    """A public guess at how items are shared. Nothing here may be read off the private log.

    `exponent` says how fast popularity falls: the k-th most common item is searched in proportion to k^-exponent, so
    that 0.73 makes the tenth 5.4 times and 1 makes it 10 times rarer than the first. From rank BEND on to the last of
    `items` it falls by `tail` instead. `alone` is the part of a user's items that nobody else has. `held` is how many
    different items a user has on average, and `spread` how unequal users are: the standard deviation of the logarithm
    of that number, 0 if all are alike. The defaults describe queries of web search (the AOL log, the demo log); a pure
    power law of exponent 1 is exponent=1,tail=1,alone=0.
    """

    users: int
    items: int = 10_000_000
    exponent: float = 0.73
    tail: float = 1.06
    alone: float = 0.64
    held: int = TYPICALLY_HELD
    spread: float = 1.25

    def __post_init__(self) -> None:
        for name, value in (("users", self.users), ("items", self.items), ("held", self.held)):
            if not 1 <= value <= MOST_ASSUMED:
                raise InputError(
                    f"the assumption's {name} must lie between 1 and {MOST_ASSUMED:,}, not {value}", parameter=name
                )
        for name, number, least, most in (
            ("exponent", self.exponent, 0.01, 10),
            ("tail", self.tail, 0.01, 10),
            ("alone", self.alone, 0, 0.99),
            ("spread", self.spread, 0, 3),
        ):
            if not least <= number <= most:
                raise InputError(
                    f"the assumption's {name} must lie between {least} and {most}, not {number:g}", parameter=name
                )
        if self.held > self.items:
            raise InputError(
                f"the assumption's users hold {self.held} items, and there are {self.items}", parameter="held"
            )

    @classmethod
    def of(cls, texts: Mapping[str, Any]) -> "Assumption":
        """From texts by name, as a form or the command line has them."""
        known = {name: float if kind is float else int for name, kind in get_type_hints(cls).items()}
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in known:
                raise InputError(f"no '{name}'; there are {', '.join(known)}", parameter=name)
            try:
                values[name] = known[name](text)
            except ValueError:
                raise InputError(f"{name} must be a number, not '{text}'", parameter=name, value=text) from None
        return cls(**values)

    @cached_property
    def popularity(self) -> tuple[Floats, Floats]:
        """(shares, numbers): so many items that each have this share of the searches. Far ranks are taken together."""
        single = min(BEND, self.items)
        ends = np.unique(np.rint(np.geomspace(single, self.items, 1000))).astype(np.float64)
        starts, ends = ends[:-1] + 0.5, ends[1:] + 0.5
        power = 1 - self.tail
        mass = np.log(ends / starts) if power == 0 else (ends**power - starts**power) / power
        meeting = float(BEND) ** (self.tail - self.exponent)
        numbers = np.concatenate([np.ones(single), ends - starts])
        first = np.arange(1, single + 1, dtype=np.float64) ** -self.exponent
        shares = np.concatenate([first, meeting * mass / (ends - starts)])
        return shares / (shares * numbers).sum(), numbers

    @cached_property
    def activity(self) -> tuple[Floats, Floats]:
        """(held, searches) of equally many users each: items, and the searches that come to the shared ones of them."""
        from scipy.special import ndtri  # which takes longer to load than NumPy

        places = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        held = np.exp(self.spread * places)
        held = np.clip(held * self.held / held.mean(), 1, 0.95 * self.items)
        shared = held * (1 - self.alone)
        shares, numbers = self.popularity
        low, high = shared.copy(), np.full(_QUANTILES, 1e4 * self.items)
        for _ in range(50):
            middle = np.sqrt(low * high)
            found = -np.expm1(-middle[:, None] * shares) @ numbers
            low, high = np.where(found < shared, middle, low), np.where(found < shared, high, middle)
        return held, high

    def expected_counts(self, per_user: int) -> Floats:
        """Users expected to keep an item of each of `popularity`, when at most `per_user` of a user's are kept."""
        held, searches = self.activity
        holding = -np.expm1(-searches[:, None] * self.popularity[0])
        counts: Floats = self.users * (holding * np.minimum(1, per_user / held)[:, None]).mean(0)
        return counts

    def expected_published(self, per_user: int, scale: float, threshold: int, first_threshold: int = 1) -> float:
        """Items expected to pass. How many keep an item varies from log to log like a normal number of that mean."""
        weights = np.exp(-(_DEVIATIONS**2) / 2)
        means = self.expected_counts(per_user)[:, None]
        counts = np.rint(means + np.sqrt(means) * _DEVIATIONS)
        gap = threshold - counts
        p = exp(-1 / scale)
        passing = np.where(
            gap >= 0, np.exp(-np.abs(gap) / scale) / (1 + p), 1 - np.exp(-(1 + np.abs(gap)) / scale) / (1 + p)
        )
        passing[counts < first_threshold] = 0.0
        return float((passing @ (weights / weights.sum())) @ self.popularity[1])


def best_per_user(
    epsilon: float,
    delta: float,
    assumption: Assumption,
    neighbours: Neighbours = "add-remove",
    candidates: Iterable[int] = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 45, 70, 100, 150, 200, 300),
) -> int:
    """How many items per user publish the most, under a public assumption: more items, more counts, more noise."""

    def published(per_user: int) -> float:
        scale = scale_for(epsilon, changed_counts(per_user, neighbours))
        return assumption.expected_published(per_user, scale, approximate_threshold(scale, delta, per_user))

    return max((m for m in candidates if m / epsilon <= LARGEST_SCALE / 2), key=published)


def _intervals_for(scale: float, threshold: int) -> Intervals:
    """Enough bits that (1−q)^n keeps a q as tiny as this threshold makes it."""
    return context(256 + ceil(1.45 * threshold / scale))  # 1.45 > 1/ln 2
