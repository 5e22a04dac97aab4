"""The program turned round: an output is wanted, and the question is how little exposure it can be had for.

A larger b never hurts, so the smallest one can be closed in on. For the relaxed size there is nothing to search: counts
scale with b. Where an integer answer or a curve is in the way, b is bisected, and upper bounds prove which b cannot do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import expm1

import numpy as np

from searchveil.errors import InputError
from searchveil.optimize.diversity import best_within
from searchveil.optimize.integers import whole_draws
from searchveil.optimize.objectives import Diversity, Size
from searchveil.optimize.program import ClickCounts, Sampler
from searchveil.optimize.solution import Solution
from searchveil.optimize.solve import relax
from searchveil.progress import Progress, silent

PRECISION = 1e-3  # of b, relative
SECONDS = 2.0  # for an integer answer at one b


@dataclass(frozen=True)
class Breach:
    """`solution` gives what was wanted at b; nothing does at a b below `at_least`."""

    b: float
    at_least: float
    solution: Solution

    @property
    def delta(self) -> float:
        """The probability with which a user may appear."""
        return -expm1(-self.b)


def for_size(
    counts: ClickCounts, sampler: Sampler, size: float, *, seconds: float = SECONDS, progress: Progress = silent
) -> Breach:
    """The smallest b for an output of that size (expected, for poisson)."""
    if not size > 0:
        raise InputError(f"the output size must be above 0, not {size}")
    unit = relax(counts, sampler, Size(), 1.0, progress=progress)
    if not unit.objective > 0:
        raise InputError("no pair was clicked by two users, so that nothing can be published at any b")
    at_least = size / unit.upper_bound
    if sampler == "poisson":
        b = size / unit.objective
        return Breach(b, at_least, _scaled(unit, b))

    def attempt(b: float) -> Solution:
        return whole_draws(counts, Size(), b, seconds=seconds)

    return _smallest(attempt, size, at_least, progress)


def for_recall(
    counts: ClickCounts,
    sampler: Sampler,
    support: float,
    recall: float,
    *,
    seconds: float = SECONDS,
    progress: Progress = silent,
) -> Breach:
    """The smallest b that publishes so large a share of the pairs of relative support at least `support`.

    For poisson it is the expected share. Only those pairs are published.
    """
    if not (0 < recall < 1 or (recall == 1 and sampler == "multinomial")):
        below = "at most 1" if sampler == "multinomial" else "below 1, which is never certain,"
        raise InputError(f"the recall must be above 0 and {below} not {recall}")
    wanted_pairs = np.flatnonzero(counts.totals >= support * counts.size)
    if not len(wanted_pairs):
        raise InputError(f"no pair has a relative support of {support}: ask for a smaller one")
    only = counts.only(wanted_pairs)
    wanted = recall * len(wanted_pairs)
    at_least = wanted / relax(only, sampler, Size(), 1.0, progress=progress).upper_bound

    def attempt(b: float) -> Solution:
        if sampler == "multinomial":
            return best_within(only, b, seconds)
        return relax(only, sampler, Diversity(), b, tolerance=PRECISION / 10)

    found = _smallest(attempt, wanted, at_least, progress)
    return replace(found, solution=found.solution.among(wanted_pairs, counts.pairs, 0.0))


def _smallest(attempt: Callable[[float], Solution], wanted: float, at_least: float, progress: Progress) -> Breach:
    """Doubles b until the attempt gives what is wanted, then bisects down to the precision."""
    fails, b = at_least, at_least
    enough = wanted * (1 - 1e-9)
    while (solution := attempt(b)).objective < enough:
        progress(f"b = {b:.4g} gives {solution.objective:.6g}")
        fails, at_least = b, b if solution.upper_bound < enough else at_least
        b *= 2
    while b - fails > PRECISION * b:
        middle = (fails + b) / 2
        tried = attempt(middle)
        progress(f"b = {middle:.4g} gives {tried.objective:.6g}")
        if tried.objective >= enough:
            b, solution = middle, tried
        else:
            fails, at_least = middle, middle if tried.upper_bound < enough else at_least
    return Breach(b, at_least, solution)


def _scaled(unit: Solution, b: float) -> Solution:
    return replace(
        unit, x=np.asarray(unit.x * b, np.float64), objective=unit.objective * b, upper_bound=unit.upper_bound * b
    )
