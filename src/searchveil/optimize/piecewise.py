"""Concave objectives as linear programs: each pair's count in pieces, every next one worth less than the one before.

Exact where the objective is made of lines (size, frequent).
"""

from itertools import pairwise
from typing import Any

import numpy as np

from searchveil.optimize import highs
from searchveil.optimize.objectives import Objective
from searchveil.optimize.program import Reals


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
