"""What many releases say about one canary: scores of a release, an event chosen on some, a bound proved on others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, inf, isfinite, log
from operator import eq, ge, le
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from searchveil.lab.audit.scenes import Canary
from searchveil.lab.estimate import epsilon_proved, lower_end, upper_end
from searchveil.privacy import rounding

PSEUDONYMS = {"user", "position", "rank", "time"}  # columns that are no part of what is published of an item
# A frequent event is taken for as rare, a rare one for as frequent, as leaves it this chance to be seen as it was.
CAUTION = 0.05
Floats = npt.NDArray[np.float64]
GRID = 2.0**-53  # the uniform numbers that floating-point samplers start from are multiples of it


Key = tuple[str, ...]  # an item as it is published: the table it is in, and its texts, column by column


@dataclass(frozen=True)
class Watched:
    """An item whose published count tells of the canary, and how many others hold it."""

    key: Key
    others: int


def published_counts(tables: Mapping[str, pa.Table], columns: Sequence[str] = ()) -> dict[Key, float]:
    """Every published item with its count, in the order of the rows; where rows have none, the number of rows.

    `columns` are the item's own, part of what is published of it whatever they are called.
    """
    pseudonyms = PSEUDONYMS.difference(columns)
    counts: dict[Key, float] = {}
    for called, table in tables.items():
        measured: list[str] = [
            name for name in ("count", "score") if name in table.column_names and name not in columns
        ]
        if measured:
            numbers: list[Any] = table[measured[0]].to_pylist()
            counts.update(zip(_keys(called, table.drop_columns(measured)), numbers, strict=True))
        else:
            for key in _keys(called, table.select([n for n in table.column_names if n not in pseudonyms])):
                counts[key] = counts.get(key, 0) + 1
    return counts


def _keys(called: str, texts: pa.Table) -> list[Key]:
    columns = [[_texts(cell) for cell in column.to_pylist()] for column in texts.columns]
    return [(called, *chain.from_iterable(cells)) for cells in zip(*columns, strict=True)]


def _texts(cell: Any) -> Key:
    return tuple(map(str, cell)) if isinstance(cell, list) else (str(cell),)


@dataclass(frozen=True)
class Observation:
    """What the auditor sees of one release when looking for one canary."""

    counts: Mapping[Key, float]
    watched: Sequence[Watched]
    in_her_place: Sequence[Watched]  # the items of who is there without her; none under add-remove
    beside: Sequence[Watched]  # items that no canary has
    most: int  # how much one user may add to a count
    scale: float
    moved: Sequence[Watched] = ()  # items of others, where their weight goes when she comes

    def _summed(self, score: Callable[[Watched, float | None], float]) -> float:
        def total(items: Sequence[Watched]) -> float:
            return sum(score(item, self.counts.get(item.key)) for item in items)

        return total(self.watched) - total(self.in_her_place)

    def appeared(self) -> float:
        return sum(item.key in self.counts for item in self.watched)

    def appeared_elsewhere(self) -> float:
        return sum(item.key in self.counts for item in self.moved)

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

    def difference(self) -> float:
        """The same against an item that she has no part in: a noise that both share hides nothing."""
        compared = {item.key[0]: self.counts[item.key] - item.others for item in self.beside if item.key in self.counts}
        seen = [item for item in self.watched if item.key in self.counts and item.key[0] in compared]
        ahead = (self.counts[item.key] - item.others - compared[item.key[0]] for item in seen)
        return sum(max(-self.most, min(self.most, by)) for by in ahead)

    def order(self) -> float:
        """How many items that she has no part in her items' rows come before, less how many they come after."""
        places = {key: place for place, key in enumerate(self.counts)}
        compared = [item.key for item in self.beside if item.key in places]
        pairs = ((item.key, other) for item in self.watched if item.key in places for other in compared)
        return sum(1 if places[key] < places[other] else -1 for key, other in pairs if key[0] == other[0])

    def digits(self) -> float:
        """Which true counts the last digits speak for, if noise is a double (Mironov 2012): a log-likelihood ratio."""

        def score(item: Watched, count: float | None) -> float:
            if count is None or not isfinite(count) or float(count).is_integer():
                return 0
            with_her, without = (ways_to_reach(count, item.others + one, self.scale) for one in (1, 0))
            return log((with_her + 0.1) / (without + 0.1))

        return self._summed(score)


SCORES: dict[str, tuple[str, Callable[[Observation], float]]] = {
    "appeared": ("of her items that came out", Observation.appeared),
    "elsewhere": ("of the items where others' weights go that came out", Observation.appeared_elsewhere),
    "above": ("of her items above the count of the others", Observation.above),
    "excess": ("her items' counts beyond those of the others, cut off at what one user may add", Observation.excess),
    "total": ("her items' counts in all", Observation.total),
    "difference": (
        "her items' counts beyond those of the others, less that of an item she does not have",
        Observation.difference,
    ),
    "order": ("items she does not have in rows after hers, less those in rows before", Observation.order),
    "digits": ("the last digits of her items' counts, as evidence for her", Observation.digits),
}

# What a score tells, as an event says it. Methods with scenes of their own have a score of their own beside these.
TOLD = {name: told for name, (told, _) in SCORES.items()} | {"evidence": "what the noisy numbers say for her"}


def ways_to_reach(value: float, count: int, scale: float) -> int:
    """For how many u of the grid `count` plus or minus scale·ln(u), rounded as doubles are, is exactly this value.

    On average as many as the density says, whatever the count; but from the wrong count often none.
    """
    noise = value - count
    nearest = round(exp(-abs(noise) / scale) / GRID)
    near = (steps * GRID for steps in range(nearest - 12, nearest + 13))
    sign = -1 if noise > 0 else 1
    return sum(value == count + sign * (scale * log(u)) for u in near if 0 < u <= 1)


Comparison = Literal["at least", "at most", "exactly"]
COMPARISONS: dict[Comparison, Callable[[float, float], bool]] = {"at least": ge, "at most": le, "exactly": eq}


@dataclass(frozen=True)
class Event:
    """A score at least, at most or exactly so much; looked for in releases with her, or in releases without her."""

    score: str
    comparison: Comparison
    cut: float
    with_her: bool  # in which of the two it is the more frequent

    def seen(self, scores: Mapping[str, float]) -> bool:
        return COMPARISONS[self.comparison](scores[self.score], self.cut)

    def __str__(self) -> str:
        return f"{TOLD[self.score]}: {self.comparison} {self.cut:g}"


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
    best, most = Event("appeared", "at least", 1, with_her=True), -inf
    if not runs.present or not runs.absent:
        return best
    for score in runs.present[0]:
        present, absent = (np.sort([scores[score] for scores in side]) for side in (runs.present, runs.absent))
        values = np.unique(np.concatenate([present, absent]))
        for comparison in COMPARISONS:
            cuts = values if comparison == "exactly" else _between(values)
            both = _times_seen(present, cuts, comparison), _times_seen(absent, cuts, comparison)
            for with_her in (True, False):
                often, seldom = both if with_her else both[::-1]
                n_often, n_seldom = (len(present), len(absent)) if with_her else (len(absent), len(present))
                low, high = lower_end(often, n_often, CAUTION), upper_end(seldom, n_seldom, CAUTION)
                proved = np.log(np.maximum(low - delta, 1e-9) / high)
                place = int(np.argmax(proved))
                if proved[place] > most:
                    best, most = Event(score, comparison, float(cuts[place]), with_her), float(proved[place])
    return best


def _between(values: Floats) -> Floats:
    """Cuts half way between the values, whole numbers as they are.

    A cut at the least value that these few runs had with her would lose as many later runs with her as lie below.
    """
    whole = bool((values == np.floor(values)).all())
    return values if whole or len(values) < 2 else (values[1:] + values[:-1]) / 2


def _times_seen(values: Floats, cuts: Floats, comparison: Comparison) -> Any:
    """How many of the sorted values compare so with each cut."""
    below, up_to = np.searchsorted(values, cuts, "left"), np.searchsorted(values, cuts, "right")
    return {"at least": len(values) - below, "at most": up_to, "exactly": up_to - below}[comparison]


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
