"""Frequent pairs of query and url (Hong et al. 2012): which of them stay frequent, and how far their supports move.

The support of a pair is its share of all clicks on pairs of two users or more; a pair is frequent from a support s on.
Precision is the share of the release's frequent pairs that the original has as frequent ones, recall the share of the
original's that the release has; `distance` sums what the supports of the original's frequent pairs differ by.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.measures.shared_clicks import joint_of_shared, shared_clicks
from searchveil.lab.view import View


@dataclass(frozen=True)
class FrequentPairs:
    """Each s is one in so many clicks; those without a frequent pair in the original are left out."""

    needs: ClassVar[tuple[str, ...]] = ("click",)

    one_in: tuple[int, ...] = (1000, 750, 500, 250, 100)

    def measure(self, original: View, release: View) -> dict[str, float]:
        shared = original.engine.stage(shared_clicks(original))
        joint = joint_of_shared(original, shared, release.tables["click"])
        before, after = joint.original_shares, joint.release_shares
        figures: dict[str, float] = {}
        for one_in in self.one_in:
            frequent, still = before >= 1 / one_in, after >= 1 / one_in
            there, here, both = (float(joint.items[which].sum()) for which in (frequent, still, frequent & still))
            if not there:
                continue
            figures[f"recall@1/{one_in}"] = both / there
            figures[f"distance@1/{one_in}"] = float((np.abs(before - after) * joint.items)[frequent].sum())
            if here:
                figures[f"precision@1/{one_in}"] = both / here
        return figures
