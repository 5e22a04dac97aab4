"""Concave objectives by chords, from below, a known distance away: the cross-check of the concave solver.

So the appendix of the paper has KL. Between neighbouring points a chord stands in for the objective.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, log1p

import numpy as np

from searchveil.optimize.first_order import Packing
from searchveil.optimize.objectives import Objective
from searchveil.optimize.piecewise import _slopes, by_pieces
from searchveil.optimize.program import ClickCounts, Reals, Sampler


@dataclass(frozen=True)
class Piecewise:
    """The optimum with chords in place of the objective. The true one is at least that, and at most `error` above."""

    x: Reals
    objective: float
    error: float


def piecewise(
    counts: ClickCounts,
    sampler: Sampler,
    objective: Objective,
    b: float,
    *,
    total: float | None = None,
    ratio: float = 1.1,
) -> Piecewise:
    """Chords between the counts where 1 + x has grown by the ratio, so that a logarithm rises by as much on each."""
    exposure = counts.exposure(sampler)
    most = Packing.of(exposure, b).most
    steps = ceil(log1p(most.max(initial=0)) / log(ratio))
    points = [np.minimum(ratio**step - 1, most) for step in range(1, steps)]
    x, value, _ = by_pieces(exposure, b, objective, most, points, total)
    return Piecewise(x, value, error_of(objective, most, points))


def error_of(objective: Objective, most: Reals, points: list[Reals]) -> float:
    """Summed over pairs, the largest distance between curve and chord: where the curve is as steep as the chord."""
    worst = np.zeros_like(most)
    for left, right in pairwise([np.zeros_like(most), *points, most]):
        slope = _slopes(objective, left, right)
        steepest = objective.best_response(slope, most)
        above = objective.values(steepest) - objective.values(left) - slope * (steepest - left)
        worst = np.where(right > left, np.maximum(worst, above), worst)
    return float(worst.sum())
