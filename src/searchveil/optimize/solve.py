"""The relaxation of every program of this room, by the solver that suits its size and shape."""

import time
from typing import Any

import numpy as np

from searchveil.errors import InputError
from searchveil.optimize import first_order
from searchveil.optimize.certify import Limit, check_limit
from searchveil.optimize.first_order import Packing
from searchveil.optimize.objectives import Objective, Size
from searchveil.optimize.piecewise import by_pieces
from searchveil.optimize.program import ClickCounts, Reals, Sampler
from searchveil.optimize.solution import Solution
from searchveil.progress import Progress, silent

SMALL = 50_000  # non-zeros up to which HiGHS takes about a second, and gives a vertex, whose floor keeps more
TOLERANCE = 1e-3  # the gap at which the first-order method may stop


def relax(
    counts: ClickCounts,
    sampler: Sampler,
    objective: Objective,
    b: Limit,
    *,
    total: float | None = None,
    largest: Reals | None = None,
    tolerance: float = TOLERANCE,
    progress: Progress = silent,
) -> Solution:
    """Real counts x ≥ 0, of that total if given, that maximise the objective with nobody exposed by more than b.

    Who already has feasible counts of at least that total can save the time to find some: `largest`.

    Feasible up to the rounding of floats, which `certify` then removes; the upper bound holds in spite of rounding.
    """
    started = time.perf_counter()
    total = _total_of(objective, total)
    check_limit(b)
    b = float(b)
    if not counts.pairs:
        return _of_nothing(objective, total)
    if np.bincount(counts.matrix.indices, minlength=counts.pairs).min() < 2:
        raise InputError("a pair that only one user clicked cannot be sampled: count the clicks with click_counts")
    exposure = counts.exposure(sampler)
    if total is not None and (largest is None or largest.sum() < total):
        progress("how large can the output be?")
        largest = _largest(counts, sampler, b, total, tolerance, progress)
    progress(f"solving for {counts.users:,} users and {counts.pairs:,} pairs")
    small = exposure.nnz <= SMALL
    kinks = objective.kinks(Packing.of(exposure, b).most) if small else None
    if kinks is None:
        found = first_order.solve(
            exposure, b, objective, tolerance=tolerance, total=total, largest=largest, progress=progress
        )
    else:
        found = _by_highs(exposure, b, objective, kinks, total, largest)
    undrawn = objective.value(np.zeros(counts.pairs))
    return Solution(found.x, found.objective, found.upper_bound, found.solver, time.perf_counter() - started, undrawn)


def _total_of(objective: Objective, total: float | None) -> float | None:
    if objective.total is not None and total not in (None, objective.total):
        raise InputError(f"the objective is for an output of {objective.total:g}, not {total:g}")
    total = objective.total if total is None else total
    if total is not None and not total > 0:
        raise InputError(f"the output size must be above 0, not {total}")
    return total


def _of_nothing(objective: Objective, total: float | None) -> Solution:
    if total is not None:
        raise InputError(f"an output of {total:g} does not fit: there is no pair that may be drawn")
    x = np.zeros(0)
    value = objective.value(x)
    return Solution(x, value, value, "nothing to choose", 0.0)


def _largest(
    counts: ClickCounts, sampler: Sampler, b: float, total: float, tolerance: float, progress: Progress
) -> Reals:
    """Counts of at least that total. A total near the limit needs a second, closer look."""
    for closer in (1, 0.01):
        best = relax(counts, sampler, Size(), b, tolerance=tolerance * closer, progress=progress)
        if best.objective >= total:
            return np.asarray(best.x, np.float64)
        if best.upper_bound < total:
            break
    raise InputError(f"an output of {total:g} does not fit: with this b it can be {best.upper_bound:.6g} at most")


def _by_highs(
    exposure: Any, b: float, objective: Objective, kinks: list[Reals], total: float | None, largest: Reals | None
) -> Solution:
    """HiGHS keeps to constraints within its tolerances; what it says is scaled until they hold, and bounded afresh."""
    program = Packing.of(exposure, b)
    wanted, _, bound = by_pieces(exposure, b, objective, program.most, kinks, total)
    x = program.feasible(np.clip(wanted / program.most, 0, 1), total, largest)
    handled = abs(bound) + float(np.abs(objective.values(program.most)).sum()) + abs(objective.value(np.zeros_like(x)))
    return Solution(x, objective.value(x), bound + 4 * program.rounding * handled, "HiGHS interior point", 0.0)
