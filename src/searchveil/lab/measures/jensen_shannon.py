"""Jensen-Shannon divergence of the release from the original over the items of both, in bits: 0 alike, 1 disjoint.

The headline among the distances of frequencies. Each side is a distribution over all items that either has; both are
held against their mean, so nothing is infinite and no count has to be made up for what a release lacks. A release
that tells more of the log comes nearer to it: one with the log's own frequencies, cut to items that hold a share s of
the log, is at a distance that depends on s alone and falls with it. One that counts nothing has nothing in common with
the log: 1.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.measures.compare import Counts, Joint, in_both, joint_of
from searchveil.lab.view import View


@dataclass(frozen=True)
class JensenShannon:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        joints = {table: joint_of(original, release, table) for table in in_both(original, release)}
        return {table: divergence(joint) for table, joint in joints.items() if joint.original_total}


def divergence(joint: Joint) -> float:
    if not joint.release_total:
        return 1.0
    p, q = joint.original_shares, joint.release_shares
    bits = (_from_mean(p, q, joint.items) + _from_mean(q, p, joint.items)) / 2
    return min(max(bits, 0.0), 1.0)  # but for rounding it is


def _from_mean(shares: Counts, others: Counts, items: Counts) -> float:
    """Σ p log₂ p/((p+q)/2), nothing where p is 0."""
    there = shares > 0
    p, q = shares[there], others[there]
    return float(np.sum(items[there] * p * np.log2(2 * p / (p + q))))
