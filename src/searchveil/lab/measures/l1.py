"""Average L1 (Götz et al. 2011): by how much relative frequencies of the original's top j differ, on average.

The paper's own. A release without any of the top j is at a distance of their mean frequency, which may be less than
that of one with most of them and larger shares for each: read it beside the coverage.

A release that counts nothing has no frequencies, and no distance: one of all zeros would flatter it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.measures.compare import RANKS, Top, at_ranks
from searchveil.lab.view import View


@dataclass(frozen=True)
class L1:
    needs: ClassVar[tuple[str, ...]] = ()

    ranks: tuple[int, ...] = RANKS

    def measure(self, original: View, release: View) -> dict[str, float]:
        return at_ranks(original, release, self.ranks, average_l1)


def average_l1(top: Top) -> float | None:
    if not top.release_total:
        return None
    return float(np.abs(top.original_shares - top.release_shares).mean())
