"""One solver for every objective of this room: prices go up where users are overexposed, counts follow the prices.

Primal-dual hybrid gradient, in the form that has proved itself on large linear programs: steps scaled for every row and
column, reflected and anchored to where it last restarted (Halpern), restarted when it has stopped gaining, with the
balance of primal and dual steps relearnt at every restart. A step costs two sparse products, and nothing is factorised.

What the method believes is not taken on trust. Any counts become feasible ones by dividing each pair's by the largest
load among its users; any prices give an upper bound by weak duality, finite since no pair can exceed its `most`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any

import numpy as np
from scipy import sparse

from searchveil.optimize.by_rows import ByRows
from searchveil.optimize.objectives import Objective
from searchveil.optimize.program import Reals
from searchveil.optimize.solution import Solution
from searchveil.progress import Progress, silent

CHECK_EVERY = 25  # steps between two chances to restart, or to look at the gap
FIRST_LOOK = 50  # a look costs about twenty steps
EASINGS = 3  # rounds of taking from the pairs that burden overloaded users most
FILLS = 3  # rounds of handing out what dividing by the largest load has left over
# Times the ratio of the norms of gains and allowances: where the balance of the steps starts. Both by trial; a third or
# three times as much does about as well, and restarts move it on.
PRIMAL_WEIGHT, PRIMAL_WEIGHT_WITH_TOTAL = 30.0, 1000.0
UNITS_SHRINK, SMALLEST_UNIT = 0.8, 1e-7  # in which pairs are measured: slowly smaller, and never 0
COARSE = 1e-3  # the narrowest gap to close with steps in single precision: waiting for memory, they are faster
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-9, 1e12  # counts whose squares, times a step, are far from its ends
ON_TOTAL = 1e-7  # how near to its total, relatively, a step must end
ULP = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Packing:
    """A x ≤ b with pairs measured in shares z of the most that their most exposed user allows, users in shares of b.

    Every entry is then in (0, 1] and every right-hand side is 1.
    """

    most: Reals
    rows: ByRows  # users × pairs, the busiest user first
    columns: ByRows  # its transpose: both products then run along memory

    @classmethod
    def of(cls, exposure: Any, b: float) -> "Packing":
        by_user = sparse.csr_array(exposure)
        busiest_first = np.argsort(-np.diff(by_user.indptr), kind="stable")  # their prices then stay in the cache
        by_user = by_user[busiest_first]
        by_pair = sparse.csr_array(by_user.T)
        most = b / np.maximum.reduceat(by_pair.data, by_pair.indptr[:-1])
        by_pair.data *= (most / b).repeat(np.diff(by_pair.indptr))
        by_user.data *= (most / b)[by_user.indices]
        return cls(most, ByRows.of(by_user), ByRows.of(by_pair))

    def in_single_precision(self) -> "Packing":
        """Nearly the same program in half the memory: for steps, which may err, not for what is claimed of them."""
        rows, columns = (matrix.entries(lambda data: data.astype(np.float32)) for matrix in (self.rows, self.columns))
        return Packing(self.most.astype(np.float32), rows, columns)

    @cached_property
    def rounding(self) -> float:
        """The relative error of any load or price: one rounding per term, and the few with which the terms came."""
        longest = max(self.rows.row_lengths.max(initial=0), self.columns.row_lengths.max(initial=0))
        return float(longest + 64) * ULP

    @cached_property
    def squares(self) -> ByRows:
        return self.rows.entries(np.square)

    def largest_loads(self, z: Reals) -> Reals:
        """For each pair: how much of an allowance is used, of the users who hold it by the one who has used most."""
        return self.columns.largest(self.rows @ z)

    def within(self, z: Reals) -> Reals:
        """Feasible for every user: no pair keeps more than its most loaded user can bear."""
        return z / np.maximum(self.largest_loads(z), 1)

    def feasible(self, z: Reals, total: float | None = None, largest: Reals | None = None) -> Reals:
        """Counts x that no user objects to, near the shares z, and of the total size if there is one.

        A pair may be multiplied by 1 over the largest load of its users, for then nobody's load exceeds 1. With a total
        all are multiplied by the same number as far as that allows. What is then still missing comes from mixing in
        `largest`, feasible counts of at least that size.
        """
        z = self.eased(z)
        if total is None or largest is None:
            return self.filled(self.within(z)) * self.most * (1 - 2 * self.rounding)
        x, allowed = z * self.most, (1 - 2 * self.rounding) / np.maximum(self.largest_loads(z), 1e-300)
        x = x * np.minimum(_common_factor(x, allowed, total), allowed)
        size = float(x.sum())
        if size >= total:
            return x * (total / size)
        missing = (total - size) / (float(largest.sum()) - size)
        return (1 - missing) * x + missing * largest

    def eased(self, z: Reals) -> Reals:
        """Less overload, at less cost than dividing: each overloaded user asks her pairs to give way in proportion to
        how much of her allowance one of them takes, so that a popular pair, which hardly burdens her, hardly shrinks.
        """
        for _ in range(EASINGS):
            excess = np.maximum(self.rows @ z - 1, 0)
            asked = self.columns.largest(excess / np.maximum(self.squares @ z, 1e-300), times_entry=True)
            z = z * np.maximum(1 - asked, 0)
        return z

    def filled(self, z: Reals) -> Reals:
        """More of everything where all users of a pair have room. Feasible, since a user's load grows to 1 at most."""
        for _ in range(FILLS):
            z = np.minimum(z / np.maximum(self.largest_loads(z), 1e-300), 1)
        return z


def solve(
    exposure: Any,
    b: float,
    objective: Objective,
    *,
    tolerance: float,
    total: float | None = None,
    largest: Reals | None = None,
    steps: int = 20_000,
    progress: Progress = silent,
) -> Solution:
    """Maximise the objective over exposure·x ≤ b, x ≥ 0 until the gap is within the tolerance or the steps are used up.

    With a total, `largest` is a feasible x of at least that size: mixing it in is how counts that fall short reach it.
    """
    started = time.perf_counter()
    program = Packing.of(exposure, b)
    best = _Best(program, objective, total, largest)
    # A total has to be met, and a narrow gap to be closed, more exactly than a single-precision step can.
    squares_fit = program.most.min() > SMALLEST_SINGLE and program.most.max() < LARGEST_SINGLE
    coarse = total is None and tolerance >= COARSE and squares_fit
    method = _Halpern(program.in_single_precision() if coarse else program, objective, total)
    next_look = float(FIRST_LOOK)
    for step in range(1, steps + 1):
        method.step()
        if step == steps or (step % CHECK_EVERY == 0 and step >= next_look):
            best.look(method.z, method.y)
            progress(f"step {step}: at least {best.lower:,.6g}, at most {best.upper:,.6g}")
            if (excess := (best.upper - best.lower) / max(tolerance * best.scale, 1e-300)) <= 1:
                break
            next_look = step * min(sqrt(excess), 2)  # for the gap to fall faster than the square of the steps is rare
        if step % CHECK_EVERY == 0:
            method.restart_if_due()
    return Solution(best.x, best.lower, best.upper, "first order", time.perf_counter() - started)


class _Best:
    """The best feasible counts seen, and the lowest upper bound proved. They need not come from the same step."""

    def __init__(self, program: Packing, objective: Objective, total: float | None, largest: Reals | None) -> None:
        self.program, self.objective, self.total, self.largest = program, objective, total, largest
        self.x: Reals = np.zeros_like(program.most)
        self.lower, self.upper = -inf, inf

    @property
    def scale(self) -> float:
        """What a gap is measured against. An objective that ends at 0 (no distance left) starts from somewhere else."""
        return max(abs(self.upper), abs(self.objective.value(np.zeros_like(self.x))))

    def look(self, z: Reals, y: Reals) -> None:
        z, y = z.astype(np.float64), y.astype(np.float64)
        x = self.program.feasible(z, self.total, self.largest)
        if (value := self.objective.value(x)) > self.lower:
            self.x, self.lower = x, value
        self.upper = min(self.upper, self._bound(y))

    def _bound(self, y: Reals) -> float:
        """Σy plus what all pairs earn at these prices, and more than every rounding error on top.

        A total has a price too, of either sign; best is the one at which the pairs answer with that total.
        """
        prices, total = (self.program.columns @ y) / self.program.most, self.total
        allowances = float(y.sum()) * (1 + self.program.rounding)
        if total is None:
            return allowances + self._earned(prices)
        around = _around(lambda price: self._answer(prices + price) > total, float(prices.max()))
        return allowances + min(total * price + self._earned(prices + price, abs(price)) for price in around)

    def _answer(self, prices: Reals) -> float:
        return float(self.objective.best_response(prices, self.program.most).sum())

    def _earned(self, prices: Reals, of_total: float = 0.0) -> float:
        most = self.program.most
        x = self.objective.best_response(prices, most)
        worth = self.objective.values(x)
        handled = np.abs(worth).sum() + ((np.abs(prices) + 2 * of_total) * most).sum()
        return float((worth - prices * x).sum() + 2 * self.program.rounding * handled)


class _Halpern:
    """The iteration, in z and y. Step lengths are those of Pock and Chambolle, for pairs measured in what they come to.

    With them the matrix has norm 1 at most, whatever the pairs are measured in. Measured in their present counts, which
    is renewed at every restart, a user of thousands of pairs who publishes little of each gets a price as fast as any.
    """

    def __init__(self, program: Packing, objective: Objective, total: float | None) -> None:
        most = program.most
        ones, each = np.ones_like(most), np.ones(len(program.rows.row_lengths), most.dtype)
        self.program, self.objective, self.total = program, objective, total
        self.precision = most.dtype
        self.price_of_total, self.slope = 0.0, -1e9
        self.column_sums = program.columns @ each
        self.z = 1 / np.maximum(program.largest_loads(ones), 1)
        self.y = np.zeros_like(each)
        self._measure_in(self.z)
        gains = np.abs(objective.values(most) - objective.values(np.zeros_like(most)))
        start = PRIMAL_WEIGHT if total is None else PRIMAL_WEIGHT_WITH_TOTAL
        weight = start * float(np.sqrt((gains**2 * self.z_step).sum() / self.y_step.sum()))
        self._balance(weight or 1.0)  # nothing to gain: any balance will do
        self.steps = 0
        self._anchor(self.z, self.y)

    def _measure_in(self, unit: Reals) -> None:
        self.unit = unit
        self.z_step, loads = unit / self.column_sums, self.program.rows @ unit
        self.y_step = 1 / np.where(loads > 0, loads, 1)  # a user without pairs has no load, and any step will do

    def _balance(self, weight: float) -> None:
        """How far the next steps go: with a larger weight prices move faster, and counts more slowly."""
        self.weight = weight
        self.count_steps = self.z_step * self.program.most / weight
        self.price_steps = self.y_step * weight
        self.lengths = self.count_steps * self.program.most

    def _anchor(self, z: Reals, y: Reals) -> None:
        self.here: tuple[Reals, ...] = (z, y, self.program.columns @ y)
        self.anchor = self.here
        self.since_restart = 0
        self.last_residual = inf

    def step(self) -> None:
        """`z` and `y` are what the plain method would say next; where we stand is beyond that, drawn to the anchor."""
        z, y, prices = self.behind = self.here
        self.z = self._respond(z, prices)
        beyond = 2 * self.z - z
        excess = self.program.rows @ beyond - 1
        self.y = np.maximum(y + self.price_steps * excess, 0)
        self.prices = self.program.columns @ self.y
        self.steps += 1
        self.since_restart += 1
        if self.since_restart == 1:
            self.first_residual = self._residual()
        pull = 1 / (self.since_restart + 1)
        reflections = beyond, 2 * self.y - y, 2 * self.prices - prices
        self.here = tuple(_towards(at, anchor, pull) for at, anchor in zip(reflections, self.anchor, strict=True))

    def _respond(self, z: Reals, prices: Reals) -> Reals:
        """The best step from z at these prices, on to the total if there is one.

        Keeping the total here, by a price found anew at each step, converges ten times faster than as one more row.
        """
        most = self.program.most
        wish = z * most - self.count_steps * prices
        answer = wish

        def excess(price: float) -> float:
            nonlocal answer
            asked = wish - self.lengths * price if price else wish
            answer = np.minimum(self.objective.prox(asked, self.lengths), most).astype(self.precision, copy=False)
            return 0.0 if self.total is None else float(answer.sum()) / self.total - 1

        self.price_of_total, self.slope = _root(excess, self.price_of_total, self.slope)
        return answer / most  # the last one: what the root was found by

    def _residual(self) -> float:
        """How far the last plain step went, in the norm in which such steps never grow."""
        dz, dy, dprices = (new - old for new, old in zip((self.z, self.y, self.prices), self.behind, strict=True))
        primal = self.weight * (dz**2 / self.z_step).sum()
        dual = (dy**2 / self.y_step).sum() / self.weight
        return float(np.sqrt(max(primal + dual - 2 * (dz * dprices).sum(), 0)))

    def restart_if_due(self) -> None:
        residual = self._residual()
        much_better = residual < 0.2 * self.first_residual
        no_longer_better = self.last_residual < residual < 0.8 * self.first_residual
        if much_better or no_longer_better or self.since_restart > 0.36 * self.steps:
            self._measure_in(np.maximum(np.maximum(self.z, UNITS_SHRINK * self.unit), SMALLEST_UNIT))
            moved_z = float(np.sqrt(((self.z - self.anchor[0]) ** 2 / self.z_step).sum()))
            moved_y = float(np.sqrt(((self.y - self.anchor[1]) ** 2 / self.y_step).sum()))
            known = moved_z > 0 and moved_y > 0
            self._balance(float(np.sqrt(self.weight * moved_y / moved_z)) if known else self.weight)
            self._anchor(self.z, self.y)
        else:
            self.last_residual = residual


def _towards(at: Reals, anchor: Reals, pull: float) -> Reals:
    """(1 − pull)·at + pull·anchor, in place of `at`: fresh memory costs as much as the arithmetic."""
    at -= anchor
    at *= 1 - pull
    at += anchor
    return at


def _common_factor(x: Reals, allowed: Reals, total: float) -> float:
    """By which to multiply x, though nothing by more than allowed, for that total; ∞ if it is out of reach."""
    order = np.argsort(allowed)
    at_their_limit, free = np.cumsum((x * allowed)[order]), x.sum() - np.cumsum(x[order])
    reached = int(np.searchsorted(at_their_limit + allowed[order] * np.maximum(free, 0), total))
    if reached == len(x):
        return inf
    before = (at_their_limit[reached - 1], free[reached - 1]) if reached else (0.0, x.sum())
    return float((total - before[0]) / before[1])


def _around(too_low: Callable[[float], bool], scale: float) -> tuple[float, float]:
    """Two close prices between which the answer changes from True to False, as it does once from −∞ to ∞."""
    reach = max(scale, 1e-12)
    lowest, highest = -reach, reach
    for _ in range(20):
        lowest, highest = (lowest if too_low(lowest) else 4 * lowest), (4 * highest if too_low(highest) else highest)
    for _ in range(40):
        middle = (lowest + highest) / 2
        lowest, highest = (middle, highest) if too_low(middle) else (lowest, middle)
    return lowest, highest


def _root(excess: Callable[[float], float], guess: float, slope: float) -> tuple[float, float]:
    """Where a falling function crosses 0, last evaluated there, and its slope; both from guesses that are often near.

    Walk to the other side in growing strides, then close in by the chord, halving the value at an end that stays (the
    Illinois rule): the chord alone can creep.
    """
    there, other = here, value = guess, excess(guess)
    stride = float(np.copysign(min(abs(value / slope), max(abs(guess), 1e-6)), value))
    while value * other > 0 and abs(other) > ON_TOTAL and abs(stride) < 1e30:
        here, value = there, other
        there, other = here + stride, excess(here + stride)
        stride *= 4
    if value != other:
        slope = (other - value) / (there - here)
    while abs(other) > ON_TOTAL and abs(there - here) > 1e-15 * abs(there):
        chord = (here * other - there * value) / (other - value)
        found = excess(chord)
        if found * other < 0:
            here, value = there, other
        else:
            value /= 2
        there, other = chord, found
    return float(there), slope
