"""How many items have each count, and whether the release keeps the shape of that distribution.

Counts of searches fall off like a power. The exponent of each side is the most likely one of a power law on the whole
numbers from its smallest count on: that of the original is a property of the log, counted as the release counts. No log
is a pure power law, and a release has no counts below its threshold, so beside the two stands what to expect:
`exponent_expected` is the original's over as many of its most frequent items as the release has.
"""

from dataclasses import dataclass
from math import log
from typing import ClassVar

from scipy.optimize import minimize_scalar
from scipy.special import zeta

from searchveil.lab.measures.compare import in_both
from searchveil.lab.view import View

FLATTEST_AND_STEEPEST = (1.0 + 1e-6, 30.0)  # among which the exponent is looked for

Distribution = list[tuple[int, int]]  # (count, how many items have it), by ascending count


@dataclass(frozen=True)
class CountDistribution:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        figures: dict[str, float] = {}
        for table in in_both(original, release):
            before, after = distribution(original, table), distribution(release, table)
            for side, counts in (("original", before), ("release", after)):
                figures[f"{table}.items_{side}"] = sum(number for _, number in counts)
                figures[f"{table}.total_{side}"] = sum(count * number for count, number in counts)
                if (slope := exponent(counts)) is not None:
                    figures[f"{table}.exponent_{side}"] = slope
            expected = exponent(most_frequent(before, int(figures[f"{table}.items_release"])))
            if expected is not None:
                figures[f"{table}.exponent_expected"] = expected
        return figures


def distribution(view: View, table: str) -> Distribution:
    counts = view.tables[table]
    rows = view.engine.fetch(counts.group_by("count").agg(items=counts.count())).sort_by("count")
    return list(zip(rows["count"].to_pylist(), rows["items"].to_pylist(), strict=True))  # type: ignore[arg-type]


def most_frequent(counts: Distribution, items: int) -> Distribution:
    """The counts of at least so many items, from the top; all items of the same count or none."""
    taken, kept = 0, []
    for count, number in reversed(counts):
        if taken >= items:
            break
        kept.append((count, number))
        taken += number
    return kept[::-1]


def exponent(counts: Distribution) -> float | None:
    """The likeliest a of P(count) = count^−a / ζ(a, smallest); None with fewer than two different counts to fit."""
    positive = [(count, number) for count, number in counts if count > 0]
    if len(positive) < 2:
        return None
    smallest, items = positive[0][0], sum(number for _, number in positive)
    mean_log = sum(number * log(count) for count, number in positive) / items

    def unlikelihood(a: float) -> float:
        return log(zeta(a, smallest)) + a * mean_log

    return float(minimize_scalar(unlikelihood, bounds=FLATTEST_AND_STEEPEST, method="bounded").x)
