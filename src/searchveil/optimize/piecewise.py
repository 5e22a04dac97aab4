"""Concave objectives as linear programs: each pair's count in pieces, every next one worth less than the one before.

Exact where the objective is made of lines (size, frequent). Where it bends everywhere (KL, as in the appendix of the
paper; diversity) chords stand in for it, from below, and how far below is known: a cross-check of the concave solver.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, log1p
from typing import Any

import numpy as np

from searchveil.optimize import highs
from searchveil.optimize.first_order import Packing
from searchveil.optimize.objectives import Objective
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
    return Piecewise(x, value, _error(objective, most, points))


def by_pieces(
    exposure: Any, b: float, objective: Objective, most: Reals, points: list[Reals], total: float | None
) -> tuple[Reals, float, float]:
    """x, what it is worth with straight lines between 0, the points and most, and an upper bound of that."""
    everyone = np.arange(len(most))
    pairs, slopes, widths = [], [], []
    for left, right in pairwise([np.zeros_like(most), *points, most]):
        real = right > left
        pairs.append(everyone[real])
        slopes.append(_slopes(objective, left, right)[real])
        widths.append((right - left)[real])
    pair, slope, width = (np.concatenate(parts) for parts in (pairs, slopes, widths))
    pieces, value, bound = highs.linear_program(slope, exposure.tocsc()[:, pair], b, width, total)
    nothing = objective.value(np.zeros_like(most))
    x: Reals = np.bincount(pair, pieces, minlength=len(most)).astype(np.float64)
    return x, nothing + value, nothing + bound


def _slopes(objective: Objective, left: Reals, right: Reals) -> Reals:
    width = np.where(right > left, right - left, 1)
    return (objective.values(right) - objective.values(left)) / width


def _error(objective: Objective, most: Reals, points: list[Reals]) -> float:
    """Summed over pairs, the largest distance between curve and chord: where the curve is as steep as the chord."""
    worst = np.zeros_like(most)
    for left, right in pairwise([np.zeros_like(most), *points, most]):
        slope = _slopes(objective, left, right)
        steepest = objective.best_response(slope, most)
        above = objective.values(steepest) - objective.values(left) - slope * (steepest - left)
        worst = np.where(right > left, np.maximum(worst, above), worst)
    return float(worst.sum())
