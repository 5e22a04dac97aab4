"""Integer counts for the multinomial sampler: floor a relaxation, fill what flooring left over, then search nearby.

Flooring alone throws away half: at a limit of ln 2 most counts are 0 or 1 and the relaxation's are fractions. The
search is a large-neighbourhood one: some pairs that share users are set free, the rest stays, and HiGHS solves the
small integer program in between to the end.
"""

from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from searchveil.errors import InputError
from searchveil.optimize.certify import (
    Limit,
    LogOf,
    check_limit,
    exposure_above,
    for_search,
    largest_exposures,
    repair,
    round_down,
)
from searchveil.optimize.highs import FEASIBLE_WITHIN, integer_program
from searchveil.optimize.objectives import Objective, Size
from searchveil.optimize.program import ClickCounts, Integers, Reals
from searchveil.optimize.solution import Solution
from searchveil.optimize.solve import TOLERANCE as RELAXED_WITHIN
from searchveil.optimize.solve import relax
from searchveil.progress import Progress, silent

TOLERANCE = 1e-12  # of float loads, as a share of the limit; `repair` has the last word
NOTHING = 1e-100  # room too small for any pair, by which one can still divide
NEARLY = 0.95  # as good as the best, to be served in the same round
FIRST_NEIGHBOURHOOD = 30  # pairs with draws that are set free together
PATIENCE = 0.1  # seconds for one neighbourhood; easy ones grow, hard ones shrink
BRANCHES = 100  # users or pairs to look beyond when a neighbourhood grows: popular pairs lead everywhere
NEARER = 1e-4  # what one more unit towards the total is worth, as a share of the largest gain
WINDOW = 4  # how many units a count may move by in one step
WIDEST = 64  # and by how many at last, where steps of that lead no further
SOON_STUCK = 50_000  # entries up to which the search has tried everything nearby, and another start leads further
SMALL = 5_000_000  # entries up to which filling takes about a second


def drawable(counts: ClickCounts, b: Limit) -> Integers:
    """The pairs of which a whole draw may be made. Others allow fractions, and only loosen a relaxation."""
    return np.flatnonzero(_most_alone(counts, float(b) * (1 + TOLERANCE)))


def whole_draws(
    counts: ClickCounts,
    objective: Objective,
    b: Limit,
    *,
    seconds: float,
    total: int | None = None,
    largest: Reals | None = None,
    tolerance: float = RELAXED_WITHIN,
    progress: Progress = silent,
) -> Solution:
    """Integer counts of great value: the relaxation over drawable pairs, rounded, filled and searched.

    `largest` are counts of the drawable pairs, as in `relax`.
    """
    began = monotonic()
    if total is None and objective.total is not None:
        total = int(objective.total)
    pairs = drawable(counts, b)
    if total is not None and largest is None:
        progress("how large can the output be?")
        most = relax(counts.only(pairs), "multinomial", Size(), b, tolerance=tolerance, progress=progress)
        largest = np.asarray(most.x, np.float64)
    if total is not None and largest is not None and largest.sum() < total:  # a ceiling then, if it fits at all
        pairs, largest = np.arange(counts.pairs), None
    part, in_part = counts.only(pairs), objective.only(pairs)
    relaxed = relax(
        part, "multinomial", in_part, b, total=total, largest=largest, tolerance=tolerance, progress=progress
    )
    progress("looking for whole numbers")
    found = round_down_and_fill(part, relaxed, in_part, b, seconds=seconds, total=total, most=in_part.most_draws)
    undrawn = objective.value(np.zeros(counts.pairs)) - in_part.value(np.zeros(len(pairs)))
    return replace(found.among(pairs, counts.pairs, undrawn), seconds=monotonic() - began)


def round_down_and_fill(
    counts: ClickCounts,
    relaxed: Solution,
    objective: Objective,
    b: Limit,
    *,
    seconds: float,
    seed: int = 0,
    total: int | None = None,
    most: Integers | None = None,
) -> Solution:
    """Integer counts of great value, certified, after about so many seconds; the bound is the relaxation's.

    With a total, Σx is at most that. It is less where nothing more was found to fit, or only what the objective would
    suffer from.
    """
    began = monotonic()
    program = Program.of(counts, objective, b, total, most)
    x = repair(counts, "multinomial", np.minimum(round_down(relaxed.x), program.most), b)
    starts = [fill(program, program.shortened(x))]
    if program.rows.nnz <= SMALL:  # elsewhere the search has more use for the time
        starts.append(fill(program, np.zeros_like(x)))
    if program.rows.nnz > SOON_STUCK:
        starts = [max(starts, key=program.worth)]
    until = [began + seconds * turn / len(starts) for turn in range(1, len(starts) + 1)]
    found = [search(program, start, until=end, seed=seed) for start, end in zip(starts, until, strict=True)]
    x = repair(counts, "multinomial", max(found, key=program.worth), b)
    x = repair(counts, "multinomial", fill(program, x), b)
    value, bound = objective.value(x.astype(np.float64)), relaxed.upper_bound
    if total is not None and x.sum() < total:
        bound = max(bound, _bound_of_fewer(counts, program, b))
    undrawn = objective.value(np.zeros(counts.pairs))
    return Solution(x, value, bound, "rounding and neighbourhood search", monotonic() - began, undrawn)


def _bound_of_fewer(counts: ClickCounts, program: "Program", b: Limit) -> float:
    """What no output beats, whatever its size: near the limit a smaller one can be better than one of the total."""
    objective = program.objective
    alone = objective.value(objective.best_response(np.zeros(counts.pairs), program.most.astype(np.float64)))
    if objective.total is not None:
        return alone
    return min(alone, relax(counts, "multinomial", objective, b).upper_bound)


def _most_alone(counts: ClickCounts, limit: float) -> Integers:
    """How many draws of each pair nobody minds if nothing else is drawn."""
    largest = largest_exposures(exposure_above(counts, "multinomial"))
    alone = np.zeros(counts.pairs, np.int64)  # and so it stays for a pair that nobody holds
    alone[largest > 0] = np.floor(limit / largest[largest > 0])
    return alone


@dataclass(frozen=True)
class Program:
    """What the steps share. Left out: users whom no choice could expose too much, entries of pairs never drawn."""

    objective: Objective
    limit: float
    margin: float  # to stay clear of the limit by, where HiGHS's tolerance would otherwise break it
    rows: Any  # csr: exposure of users by pairs
    columns: Any  # csc of the same
    most: Integers  # of each pair alone
    total: int | None

    @classmethod
    def of(
        cls, counts: ClickCounts, objective: Objective, b: Limit, total: int | None = None, most: Integers | None = None
    ) -> "Program":
        check_limit(b)
        if total is not None and total < 0:
            raise InputError(f"the output size must not be negative, not {total}")
        limit = for_search(b, TOLERANCE)
        exposed = exposure_above(counts, "multinomial").copy()
        alone = _most_alone(counts, limit)
        if most is not None:
            alone = np.minimum(alone, most)
        exposed.data[alone[exposed.indices] == 0] = 0
        exposed.eliminate_zeros()
        rows = exposed[np.flatnonzero(exposed @ alone.astype(np.float64) > limit)]
        margin = 0.0 if isinstance(b, LogOf) else 4 * FEASIBLE_WITHIN
        return cls(objective, limit, margin, rows, rows.tocsc(), alone, total)

    def slack(self, x: Integers) -> Reals:
        left: Reals = self.limit - self.rows @ x.astype(np.float64)
        return left

    def missing(self, x: Integers) -> int:
        """How many draws the total still asks for or allows."""
        return int(self.most.sum() if self.total is None else self.total) - int(x.sum())

    def gain(self, x: Integers, units: Integers | int = 1) -> Reals:
        """What so many units more of each pair are worth."""
        before = x.astype(np.float64)
        return self.objective.values(before + units) - self.objective.values(before)

    def worth(self, x: Integers) -> tuple[float, int]:
        """To compare by: the objective and, where it sees no difference, how much of the total is reached."""
        return self.objective.value(x.astype(np.float64)), (0 if self.total is None else int(x.sum()))

    def users_of(self, pairs: Integers) -> Integers:
        return _different(self.columns[:, pairs].indices, self.rows.shape[0])

    def pairs_of(self, users: Integers) -> Integers:
        return _different(self.rows[users].indices, self.rows.shape[1])

    def shortened(self, x: Integers) -> Integers:
        """Not more than the total: the units go that are worth the least."""
        x = x.copy()
        while (excess := -self.missing(x)) > 0:
            held = np.flatnonzero(x)
            x[held[np.argsort(-self.gain(x, -1)[held], kind="stable")[:excess]]] -= 1
        return x


def fill(program: Program, x: Integers) -> Integers:
    """Add units while any fits, those first that gain the most for the exposure they use up.

    In rounds, so that it can be done on arrays: pairs nearly as good as the best are ranked, and those get their units
    at once whose users have room for them even if every better one got its units too. A round looks only at the users
    of these pairs, and at what else those hold: most rounds serve few, and the matrix is large.
    """
    x, slack = x.copy(), program.slack(x)
    cost = program.columns.T @ (1 / np.maximum(slack, NOTHING)) + 1e-9
    open_ = x < program.most
    open_[program.rows.indices[_too_large(program.rows, slack)]] = False
    while (missing := program.missing(x)) > 0:
        gain = program.gain(x)
        open_ &= (x < program.most) & ((gain > 0) | ((gain == 0) & (program.total is not None)))
        if not open_.any():
            break
        rate = gain / cost
        good = np.flatnonzero(open_ & (rate >= NEARLY * rate[open_].max()))
        good = good[np.argsort(np.where(gain[good] > 0, -rate[good], cost[good]), kind="stable")]
        held = program.columns[:, good]
        units = np.maximum(np.minimum(program.most[good] - x[good], _fitting(held, slack)) // 4, 1)
        last = x.copy()
        last[good] += units - 1
        units[program.gain(last)[good] < NEARLY * gain[good]] = 1
        by_user = np.argsort(held.indices, kind="stable")  # and the best pair of each user first
        users, ranks, exposed = held.indices[by_user], _rows_of(held)[by_user], held.data[by_user]
        added = units.copy()
        added[ranks[~_sure_to_fit(users, exposed * units[ranks], slack)]] = 0
        added = np.clip(missing - (np.cumsum(added) - added), 0, added)
        x[good] += added
        used = np.bincount(users, exposed * added[ranks], minlength=len(slack))
        served = np.flatnonzero(used)
        theirs, before = program.rows[served], 1 / np.maximum(slack[served], NOTHING)
        slack -= used
        cost += theirs.T @ (1 / np.maximum(slack[served], NOTHING) - before)
        open_[theirs.indices[_too_large(theirs, slack[served])]] = False
    return x


def _rows_of(matrix: Any) -> Integers:
    """Of each entry of a matrix kept by rows, the row; of one kept by columns, the column."""
    return np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))


def _too_large(rows: Any, slack: Reals) -> npt.NDArray[np.bool_]:
    """Which entries expose their user by more than she has room for."""
    too_large: npt.NDArray[np.bool_] = rows.data > np.repeat(slack, np.diff(rows.indptr))
    return too_large


def _sure_to_fit(users: Integers, wanted: Reals, slack: Reals) -> npt.NDArray[np.bool_]:
    """Which wishes their user has room for together with her wishes before; the first one is known to fit."""
    first = np.diff(users, prepend=-1) > 0
    sums = np.cumsum(wanted)
    before = np.repeat((sums - wanted)[first], np.diff(np.flatnonzero(first), append=len(users)))
    rounding = 1e-15 * sums * np.sqrt(len(users)) + 1e-12  # generous: who is in doubt has another turn
    sure: npt.NDArray[np.bool_] = first | (sums - before + rounding <= slack[users])
    return sure


def search(program: Program, x: Integers, *, until: float, seed: int) -> Integers:
    """Better counts by solving one neighbourhood after the other, until that time of the monotonic clock.

    Earlier where one of all draws is solved and holds nothing better, however wide.
    """
    chance = np.random.default_rng(seed)
    size, window = FIRST_NEIGHBOURHOOD, WINDOW
    widest = min(program.most.max(initial=0), program.missing(np.zeros_like(x)), WIDEST)
    while (now := monotonic()) < until and x.any():
        freed = _neighbours(program, x, size, chance)
        candidate, solved, effort = _best_nearby(
            program, x, freed, window, seconds=min(until - now, PATIENCE), seed=seed
        )
        if len(freed) == np.count_nonzero(x) and program.worth(candidate) <= program.worth(x):
            if solved and window < widest:
                window *= 4
            elif solved or window > WINDOW:
                break
        if program.worth(candidate) >= program.worth(x):  # equal ones too: they lead elsewhere
            x = candidate
        if effort > PATIENCE / 2:
            size = max(size * 3 // 4, 4)
        elif effort < max(PATIENCE / 8, (monotonic() - now) / 2):  # also where setting up takes most of the time
            size = size * 5 // 4
    return x


def _neighbours(program: Program, x: Integers, size: int, chance: np.random.Generator) -> Integers:
    """So many pairs with draws that compete for the same users, around one chosen at random."""
    drawn = np.flatnonzero(x)
    if size >= len(drawn):
        return drawn
    freed = drawn[chance.integers(len(drawn), size=1)]
    while len(freed) < size:
        branch = chance.permutation(freed)[:BRANCHES]
        rivals = chance.permutation(program.pairs_of(program.users_of(branch)))[:BRANCHES]
        near = program.pairs_of(chance.permutation(program.users_of(rivals))[:BRANCHES])
        near = np.setdiff1d(near[x[near] > 0], freed)
        if not len(near):  # all of an island: on to the next
            near = np.setdiff1d(drawn, freed)
            near = near[chance.integers(len(near), size=1)]
        freed = np.append(freed, chance.permutation(near)[: size - len(freed)])
    return freed


def _best_nearby(
    program: Program, x: Integers, freed: Integers, window: int, *, seconds: float, seed: int
) -> tuple[Integers, bool, float]:
    """The best counts when only these pairs give up draws, whether that was solved to the end, and in which time."""
    base = x.copy()
    base[freed] = np.maximum(x[freed] - window, 0)
    slack = program.slack(base)
    rivals = np.union1d(freed, program.pairs_of(program.users_of(freed)))
    if program.total is not None:  # then every pair is a rival: those too that gain the most
        rivals = np.union1d(rivals, np.argsort(-program.gain(base), kind="stable")[:BRANCHES])
    fits = _fitting(program.columns[:, rivals], slack)
    room = np.minimum(np.minimum(fits, program.most[rivals] - base[rivals]), x[rivals] - base[rivals] + window)
    movable, room = rivals[room > 0], room[room > 0]
    pairs, gains, upper = _steps(program, base, movable, room)
    gains = gains / np.abs(gains).max(initial=1e-300)
    if program.total is not None and gains.min(initial=1) < NEARER:  # else the objective itself asks for the total
        gains = gains + NEARER
    now = np.zeros(len(pairs), np.int64)
    spread = (x - base)[movable]
    for j, pair in enumerate(np.searchsorted(movable, pairs)):
        now[j] = min(spread[pair], upper[j])
        spread[pair] -= now[j]
    matrix = program.columns[:, pairs].tocsr()
    touched = np.flatnonzero(matrix @ upper.astype(np.float64) > slack - program.margin)
    matrix = matrix[touched]
    limits = np.maximum(slack[touched] - program.margin, matrix @ now.astype(np.float64))
    if program.total is not None:
        matrix = sparse.vstack([matrix, np.ones((1, len(pairs)))], format="csr")
        limits = np.append(limits, program.missing(base))
    began = monotonic()
    units, objective, bound = integer_program(
        gains, matrix, limits, upper.astype(np.float64), seconds=seconds, start=now, seed=seed
    )
    effort = monotonic() - began
    found = base.copy()
    np.add.at(found, pairs, units)
    feasible = program.slack(found).min(initial=0) >= -TOLERANCE / 10
    return (found if feasible else x), bound - objective < 1e-6 * max(1, abs(bound)), effort


def _fitting(columns: Any, slack: Reals) -> Integers:
    """How many units of each pair alone the slack has room for."""
    room = np.full(columns.shape[1], np.iinfo(np.int64).max)
    np.minimum.at(room, _rows_of(columns), np.floor(slack[columns.indices] / columns.data).astype(np.int64))
    return room


def _steps(program: Program, base: Integers, pairs: Integers, room: Integers) -> tuple[Integers, Reals, Integers]:
    """Units as columns of a linear program, the most valuable of a pair first; units of equal value share a column."""
    most = int(room.max(initial=1))
    gains = np.empty((len(pairs), most))
    for unit in range(most):
        gains[:, unit] = program.gain(base + unit)[pairs]
    there = np.arange(most) < room[:, None]
    new = there & np.append(
        np.ones((len(pairs), 1), bool), np.diff(gains, axis=1) < -1e-12 * np.abs(gains[:, 1:]), axis=1
    )
    starts = np.flatnonzero(new.ravel())
    upper = np.add.reduceat(there.ravel().astype(np.int64), starts) if len(starts) else np.zeros(0, np.int64)
    return np.repeat(pairs, new.sum(axis=1)), gains.ravel()[starts], upper


def _different(numbers: Integers, below: int) -> Integers:
    """The different ones in order; np.unique takes a hundred times as long."""
    seen = np.zeros(below, bool)
    seen[numbers] = True
    return np.flatnonzero(seen)
