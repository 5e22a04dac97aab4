"""Average count difference, after the release's counts are rescaled to the original's total.

The average is over all items of the original, published or not, so it pays for what is missing and for what is wrong.
`relative` has it as a share of the original's average count: 0 for a faithful copy, 1 for a release of nothing, and
nearly 2 for a release of little, on which rescaling heaps the weight of all the rest.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.measures.compare import in_both, joint_of
from searchveil.lab.view import View


@dataclass(frozen=True)
class CountDifference:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        figures: dict[str, float] = {}
        for table in in_both(original, release):
            joint = joint_of(original, release, table)
            counted = joint.of_original
            if not len(counted.items):
                continue
            rescaled = joint.original_total * joint.release_shares[joint.original > 0]
            difference = float((np.abs(counted.original - rescaled) * counted.items).sum())
            figures[table] = difference / float(counted.items.sum())
            figures[f"{table}.relative"] = difference / joint.original_total
        return figures
