"""What a solver hands back: an answer, and a proof of how far from the best it can be."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from searchveil.optimize.program import Integers, Reals


@dataclass(frozen=True)
class Solution:
    """A feasible x. No feasible x of the program that was solved does better than `upper_bound`."""

    x: Reals | Integers
    objective: float
    upper_bound: float  # by weak duality, or a solver's own bound
    solver: str  # for people: "HiGHS interior point", "first order", "greedy"
    seconds: float

    def among(self, pairs: Integers, of: int, elsewhere: float) -> "Solution":
        """The same for all pairs of a log, of which these were solved for; the others, not drawn, are worth that."""
        x: Any = np.zeros(of, self.x.dtype)
        x[pairs] = self.x
        return replace(self, x=x, objective=self.objective + elsewhere, upper_bound=self.upper_bound + elsewhere)

    @property
    def gap(self) -> float:
        """How much better an answer could at most be, as a share of the bound or of the answer, whichever is larger."""
        missing = self.upper_bound - self.objective
        return missing / max(abs(self.upper_bound), abs(self.objective)) if missing else 0.0
