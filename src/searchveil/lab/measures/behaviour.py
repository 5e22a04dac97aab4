"""How far users of a synthetic log behave as those of the original: total variation of what they do."""

from dataclasses import dataclass
from typing import ClassVar

from searchveil.lab.behaviour import DISTRIBUTIONS
from searchveil.lab.view import View

Shares = dict[int, float]


@dataclass(frozen=True)
class Behaviour:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        shared = [name for name in DISTRIBUTIONS if original.has(name) and release.has(name)]
        return {name: total_variation(shares(original, name), shares(release, name)) for name in shared}


def shares(view: View, name: str) -> Shares:
    """Each value's share of all, in the order of values."""
    rows = view.engine.fetch(view.tables[name]).sort_by("value").to_pylist()
    total = sum(row["count"] for row in rows)
    return {int(row["value"]): row["count"] / total for row in rows}


def total_variation(first: Shares, second: Shares) -> float:
    """The part of one that must be moved to make the other."""
    return sum(abs(first.get(value, 0.0) - second.get(value, 0.0)) for value in first.keys() | second.keys()) / 2
