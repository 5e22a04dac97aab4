"""How many items have each count, and whether the release keeps the shape of that distribution.

Counts of searches fall off like a power: the exponent is estimated by maximum likelihood, in the usual approximation
for whole numbers, from the counts that reach a smallest one. A release has no counts below its threshold, so the
original's exponent is taken over as many of its most frequent items as the release has.
"""

from dataclasses import dataclass
from math import log
from typing import ClassVar

from searchveil.lab.measures.compare import in_both
from searchveil.lab.view import View

Distribution = list[tuple[int, int]]  # (count, how many items have it), by ascending count


@dataclass(frozen=True)
class CountDistribution:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        figures: dict[str, float] = {}
        for table in in_both(original, release):
            released = distribution(release, table)
            items = sum(number for _, number in released)
            for side, counts in (("original", distribution(original, table)), ("release", released)):
                figures[f"{table}.items_{side}"] = sum(number for _, number in counts)
                figures[f"{table}.total_{side}"] = sum(count * number for count, number in counts)
                if (slope := exponent(most_frequent(counts, items))) is not None:
                    figures[f"{table}.exponent_{side}"] = slope
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
    """1 + n / Σ ln(count / (smallest − ½)); None where there are fewer than two different counts to fit."""
    positive = [(count, number) for count, number in counts if count > 0]
    if len(positive) < 2:
        return None
    smallest = positive[0][0] - 0.5
    return 1 + sum(number for _, number in positive) / sum(number * log(count / smallest) for count, number in positive)
