"""KL divergence as Götz et al. 2011 have it: of the original's j most frequent items alone, in nats.

The paper's own measure, kept for comparison with it; the headline is the Jensen-Shannon divergence. KL prefers tiny
releases: what is missing stands for half an occurrence (below), which is much beside the small counts of a tiny release
and little beside the large ones of a good one, so three queries may score better than nine hundred.

Both are taken as distributions over these j items. One that the release lacks would make the divergence infinite and
say no more than the coverage does: it stands for half an occurrence, which costs, but within reason. A release whose
counts are the original's times any factor has divergence 0; one that has none of these items has no divergence, for
half an occurrence each would pass for even odds.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.measures.compare import RANKS, Top, at_ranks
from searchveil.lab.view import View

OF_A_MISSING_ITEM = 0.5


@dataclass(frozen=True)
class KL:
    needs: ClassVar[tuple[str, ...]] = ()

    ranks: tuple[int, ...] = RANKS

    def measure(self, original: View, release: View) -> dict[str, float]:
        return at_ranks(original, release, self.ranks, divergence)


def divergence(top: Top) -> float | None:
    if not top.release.any():
        return None
    counts = np.maximum(top.release, OF_A_MISSING_ITEM)
    p, q = top.original / top.original.sum(), counts / counts.sum()
    return max(0.0, float(np.sum(p * np.log(p / q))))  # rounding may leave less than nothing
