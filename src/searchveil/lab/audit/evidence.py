"""What many releases say about one canary: scores of a release, an event chosen on some, a bound proved on others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import beta

from searchveil.lab.audit.scenes import Canary, Key, Watched
from searchveil.lab.estimate import epsilon_proved
from searchveil.privacy import rounding

PSEUDONYMS = {"user", "position", "rank", "time"}  # columns that are no part of what is published of an item
CAUTION = 0.2  # a frequent event is taken for as rare as leaves it this chance to be seen so often
GRID = 2.0**-53  # the uniform numbers that floating-point samplers start from are multiples of it


def published_counts(tables: Mapping[str, pa.Table]) -> dict[Key, float]:
    """Every published item with its count; where rows have none, the number of rows."""
    counts: dict[Key, float] = {}
    for table in tables.values():
        texts = [name for name in table.column_names if name != "count" and name not in PSEUDONYMS]
        for row in table.to_pylist():
            key: Key = sum((_texts(row[name]) for name in texts), ())
            counts[key] = row["count"] if "count" in row else counts.get(key, 0) + 1
    return counts


def _texts(cell: Any) -> Key:
    return tuple(map(str, cell)) if isinstance(cell, list) else (str(cell),)


@dataclass(frozen=True)
class View:
    """What the auditor sees of one release when looking for one canary."""

    counts: Mapping[Key, float]
    watched: Sequence[Watched]
    in_her_place: Sequence[Watched]  # the items of who is there without her; none under add-remove
    most: int  # how much one user may add to a count
    scale: float

    def _summed(self, score: Callable[[Watched, float | None], float]) -> float:
        def total(items: Sequence[Watched]) -> float:
            return sum(score(item, self.counts.get(item.key)) for item in items)

        return total(self.watched) - total(self.in_her_place)

    def appeared(self) -> float:
        return sum(item.key in self.counts for item in self.watched)

    def above(self) -> float:
        """Of one count each, the most telling score: Laplace noise has one ratio above and one below the change."""
        return self._summed(lambda item, count: count is not None and count >= item.others + 1)

    def excess(self) -> float:
        """The same where she may have added more than one to a count."""
        return self._summed(
            lambda item, count: -self.most if count is None else max(-self.most, min(self.most, count - item.others))
        )

    def total(self) -> float:
        return self._summed(lambda item, count: count or 0)

    def digits(self) -> float:
        """Which true counts the last digits speak for, if noise is a double (Mironov 2012): a log-likelihood ratio."""

        def score(item: Watched, count: float | None) -> float:
            if count is None or not isfinite(count) or float(count).is_integer():
                return 0
            with_her, without = (ways_to_reach(count, item.others + one, self.scale) for one in (1, 0))
            return log((with_her + 0.1) / (without + 0.1))

        return self._summed(score)


SCORES: dict[str, tuple[str, Callable[[View], float]]] = {
    "appeared": ("of her items that came out", View.appeared),
    "above": ("of her items above the count of the others", View.above),
    "excess": ("her items' counts beyond those of the others, cut off at what one user may add", View.excess),
    "total": ("her items' counts in all", View.total),
    "digits": ("the last digits of her items' counts, as evidence for her", View.digits),
}


def ways_to_reach(value: float, count: int, scale: float) -> int:
    """For how many u of the grid `count` plus or minus scale·ln(u), rounded as doubles are, is exactly this value.

    On average as many as the density says, whatever the count; but from the wrong count often none.
    """
    noise = value - count
    nearest = round(exp(-abs(noise) / scale) / GRID)
    near = (steps * GRID for steps in range(nearest - 12, nearest + 13))
    sign = -1 if noise > 0 else 1
    return sum(value == count + sign * (scale * log(u)) for u in near if 0 < u <= 1)


@dataclass(frozen=True)
class Event:
    """A score at least, or at most, so much; looked for in releases with her, or in releases without her."""

    score: str
    cut: float
    at_least: bool
    with_her: bool  # in which of the two it is the more frequent

    def seen(self, scores: Mapping[str, float]) -> bool:
        return scores[self.score] >= self.cut if self.at_least else scores[self.score] <= self.cut

    def __str__(self) -> str:
        return f"{SCORES[self.score][0]}: {'at least' if self.at_least else 'at most'} {self.cut:g}"


@dataclass(frozen=True)
class Runs:
    """The scores of releases of one canary, with her and without her."""

    present: Sequence[Mapping[str, float]]
    absent: Sequence[Mapping[str, float]]

    def shares(self, event: Event) -> tuple[int, int, int, int]:
        """How often the event is seen where it should be frequent and where rare, each with its number of runs."""
        often, seldom = (self.present, self.absent) if event.with_her else (self.absent, self.present)
        return sum(map(event.seen, often)), len(often), sum(map(event.seen, seldom)), len(seldom)


def choose(runs: Runs, delta: float) -> Event:
    """The event that would prove most if later runs had its shares, taken with some caution: these runs are few."""
    best, most = Event("appeared", 1, at_least=True, with_her=True), -inf
    if not runs.present or not runs.absent:
        return best
    for score in SCORES:
        values = [np.sort([scores[score] for scores in side]) for side in (runs.present, runs.absent)]
        cuts = np.unique(np.concatenate(values))
        for at_least in (True, False):
            present, absent = (
                len(side) - np.searchsorted(side, cuts) if at_least else np.searchsorted(side, cuts, "right")
                for side in values
            )
            for with_her, often, seldom in ((True, present, absent), (False, absent, present)):
                low = beta.ppf(CAUTION, np.maximum(often, 1e-9), often.max() - often + 1)
                promise = np.log(np.maximum(low - delta, 1e-9) / ((seldom + 0.5) / (seldom.max() + 1)))
                place = int(np.argmax(promise))
                if promise[place] > most:
                    best, most = Event(score, float(cuts[place]), at_least, with_her), float(promise[place])
    return best


@dataclass(frozen=True)
class Finding:
    """What the releases prove about one canary."""

    canary: str
    what: str
    event: str
    with_her: bool
    seen: int
    runs: int
    seen_by_neighbour: int
    runs_of_neighbour: int
    epsilon_at_least: float

    @classmethod
    def of(cls, canary: Canary, event: Event, proving: Runs, delta: float, error: float) -> "Finding":
        counted = proving.shares(event)
        return cls(
            canary.name, canary.what, str(event), event.with_her, *counted, epsilon_proved(*counted, delta, error)
        )

    def __str__(self) -> str:
        first, second = ("with", "without") if self.with_her else ("without", "with")
        proved = rounding.at_least(self.epsilon_at_least, 3)
        return (
            f"{self.canary} ({self.what}): {self.event} in {self.seen} of {self.runs} releases {first} her, "
            f"{self.seen_by_neighbour} of {self.runs_of_neighbour} {second}: ε ≥ {proved}"
        )
