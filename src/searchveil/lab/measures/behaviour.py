"""How far users of a synthetic log behave as those of the original: total variation of what they do.

Beside it the overlap of their steps from one query to the next, where 1 is the same: most are one user's own.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.behaviour import DISTRIBUTIONS, TRANSITIONS
from searchveil.lab.measures.compare import joint_of, top_items
from searchveil.lab.view import View

Shares = dict[int, float]
SHOWN = 50  # transitions in a picture


@dataclass(frozen=True)
class Behaviour:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        shared = [name for name in DISTRIBUTIONS if original.has(name) and release.has(name)]
        figures = {name: total_variation(shares(original, name), shares(release, name)) for name in shared}
        if shared and original.has("transition") and release.has("transition"):
            both = joint_of(original, release, "transition")
            figures[TRANSITIONS] = float((np.minimum(both.original_shares, both.release_shares) * both.items).sum())
        return figures


Picture = dict[str, list[list[float]]]  # of either side: values with their shares


def pictures(original: View, release: View) -> dict[str, Picture]:
    """Every figure of the measure, as it is on either side."""
    drawn: dict[str, Picture] = {}
    sides = {"original": original, "release": release}
    for name in Behaviour().measure(original, release):
        if name == TRANSITIONS:
            top = top_items(original, release, "transition", SHOWN)
            of_sides = zip(sides, (top.original_shares, top.release_shares), strict=True)
            drawn[name] = {side: [[i, float(x)] for i, x in enumerate(found, 1)] for side, found in of_sides}
        else:
            drawn[name] = {side: [list(point) for point in shares(view, name).items()] for side, view in sides.items()}
    return drawn


def shares(view: View, name: str) -> Shares:
    """Each value's share of all, in the order of values."""
    rows = view.engine.fetch(view.tables[name]).sort_by("value").to_pylist()
    total = sum(row["count"] for row in rows)
    return {int(row["value"]): row["count"] / total for row in rows}


def total_variation(first: Shares, second: Shares) -> float:
    """The part of one that must be moved to make the other."""
    return sum(abs(first.get(value, 0.0) - second.get(value, 0.0)) for value in first.keys() | second.keys()) / 2
