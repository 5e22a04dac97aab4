"""What a solver hands back: an answer, and a proof of how far from the best it can be."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from searchveil.optimize.program import Integers, Reals

NEGLIGIBLE = 1e-9  # of a tuple, or of the share of one: the rounding of bounds, not something to gain


@dataclass(frozen=True)
class Solution:
    """A feasible x. No feasible x of the program that was solved does better than `upper_bound`."""

    x: Reals | Integers
    objective: float
    upper_bound: float  # by weak duality, or a solver's own bound
    solver: str  # for people: "HiGHS interior point", "first order", "greedy"
    seconds: float
    undrawn: float = 0.0  # what no draw at all is worth: less than 0 for an objective that is a distance

    def among(self, pairs: Integers, of: int, elsewhere: float) -> "Solution":
        """The same for all pairs of a log, of which these were solved for; the others, not drawn, are worth that."""
        x: Any = np.zeros(of, self.x.dtype)
        x[pairs] = self.x
        return replace(
            self,
            x=x,
            objective=self.objective + elsewhere,
            upper_bound=self.upper_bound + elsewhere,
            undrawn=self.undrawn + elsewhere,
        )

    @property
    def gap(self) -> float:
        """How much better an answer could at most be, as a share of the largest value in sight.

        A bound near 0 is no measure by itself: an objective that is a distance ends there, and a gap relative to it
        would say 1 of an answer that leaves nothing to gain. It is then a share of where that objective starts.
        """
        missing = self.upper_bound - self.objective
        if missing <= NEGLIGIBLE:
            return 0.0
        return missing / max(abs(self.upper_bound), abs(self.objective), abs(self.undrawn))
