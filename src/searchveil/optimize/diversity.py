"""D-UMP for the multinomial sampler: as many different pairs as possible, each drawn once.

An NP-hard packing. The published heuristic (SPE) is here for the record; `best_within` is what to use. Every solution
has passed `certify.repair`. Upper bounds are of the integer program: by weak duality or, after branch and bound, the
word of HiGHS within its tolerances.
"""

from collections.abc import Callable
from math import floor
from time import monotonic

import numpy as np

from searchveil.optimize.certify import (
    Limit,
    exposure_above,
    for_search,
    largest_exposures,
    repair,
    round_down,
    violated,
)
from searchveil.optimize.highs import integer_program
from searchveil.optimize.integers import TOLERANCE, Program, drawable, fill, search
from searchveil.optimize.objectives import Objective, Size
from searchveil.optimize.program import ClickCounts, Integers, Reals
from searchveil.optimize.solution import Solution
from searchveil.optimize.solve import relax

SMALL = 50_000  # non-zeros up to which branch and bound gets a share of the time

CLOSE_ENOUGH = 0.01  # of a large relaxation: the time is better spent on searching


class Distinct(Objective):
    """f(x) = min(x, 1), whose relaxation bounds the number of different pairs."""

    total = None

    def values(self, x: Reals) -> Reals:
        return np.minimum(x, 1.0)

    def prox(self, v: Reals, step: Reals) -> Reals:
        return np.maximum(np.maximum(v, np.minimum(v + step, 1.0)), 0.0)

    def best_response(self, price: Reals, most: Reals) -> Reals:
        return np.where(price < 0, most, np.where(price < 1, np.minimum(most, 1.0), 0.0))

    def kinks(self, most: Reals) -> list[Reals]:
        return [np.minimum(most, 1.0)]


def spe(counts: ClickCounts, b: Limit) -> Solution:
    """As published: drop the pair with the largest t = c/(c − c_k) of all, until every user is within b.

    The order in which pairs go never changes, so each user tells how many must go for her sake, and the largest counts.
    """
    began = monotonic()
    exposed = exposure_above(counts, "multinomial")
    drop_order = np.argsort(-largest_exposures(exposed), kind="stable")
    turn = np.empty(counts.pairs, np.int64)
    turn[drop_order] = np.arange(counts.pairs)
    users = np.repeat(np.arange(counts.users), np.diff(exposed.indptr))
    last_first = np.lexsort((-turn[exposed.indices], users))
    kept = exposed.data[last_first].cumsum()
    before = np.concatenate([[0.0], kept])[exposed.indptr[:-1]]
    too_much = kept - before[users] > for_search(b, TOLERANCE) + 1e-12 * kept  # the sum runs over all users
    dropped = int((turn[exposed.indices[last_first][too_much]] + 1).max(initial=0))
    x = np.ones(counts.pairs, np.int64)
    x[drop_order[:dropped]] = 0
    while len(violated(counts, "multinomial", x, b)):
        x[drop_order[dropped]] = 0
        dropped += 1
    return Solution(x, float(x.sum()), _limit_of_size(counts, b), "SPE", monotonic() - began)


def greedy(counts: ClickCounts, b: Limit) -> Solution:
    """Add the pair that exposes its users the least in proportion to the room they have left, while one fits."""
    return _solved("greedy", counts, b, lambda part, program: (_greedy(program), float(part.pairs)))


def lp_rounding(counts: ClickCounts, b: Limit, seconds: float, seed: int = 0) -> Solution:
    """Round the relaxation down, fill, and search nearby for so long."""
    until = monotonic() + seconds

    def solve(part: ClickCounts, program: Program) -> tuple[Integers, float]:
        relaxed = relax(part, "multinomial", Distinct(), b, tolerance=CLOSE_ENOUGH)
        x = fill(program, _rounded(part, relaxed, b))
        return search(program, x, until=until, seed=seed), relaxed.upper_bound

    return _solved("LP rounding and neighbourhood search", counts, b, solve)


def branch_and_bound(counts: ClickCounts, b: Limit, seconds: float, seed: int = 0) -> Solution:
    """HiGHS, for so long, from where greedy got to."""
    return _solved(
        "HiGHS branch and bound",
        counts,
        b,
        lambda part, program: _branch_and_bound(program, _greedy(program), seconds, seed),
    )


def best_within(counts: ClickCounts, b: Limit, seconds: float, seed: int = 0) -> Solution:
    """The default: the better of greedy and the rounded relaxation, and from there a search of neighbourhoods.

    Where the program is small, branch and bound has a quarter of the time first: it may solve it.
    """
    began = monotonic()

    def solve(part: ClickCounts, program: Program) -> tuple[Integers, float]:
        relaxed = relax(part, "multinomial", Distinct(), b, tolerance=CLOSE_ENOUGH)
        rounded = _rounded(part, relaxed, b)
        return best_of_several(program, rounded, relaxed.upper_bound, seconds, until=began + seconds, seed=seed)

    return _solved("best of several", counts, b, solve)


def best_of_several(
    program: Program, rounded: Integers, bound: float, seconds: float, *, until: float, seed: int = 0
) -> tuple[Integers, float]:
    """From a relaxation that was rounded down, with its bound: choices of great value, and what none exceeds."""
    x = max(_greedy(program), fill(program, rounded), key=program.worth)
    if program.rows.nnz <= SMALL:
        x, proved = _branch_and_bound(program, x, seconds / 4, seed)
        bound = min(bound, proved)
    if x.sum() < floor(bound):
        x = search(program, x, until=until, seed=seed)
    return x, bound


def _solved(
    name: str, counts: ClickCounts, b: Limit, solve: Callable[[ClickCounts, Program], tuple[Integers, float]]
) -> Solution:
    """Without the pairs that fit nowhere, which makes relaxations tighter; then certified, and filled once more."""
    began = monotonic()
    pairs = drawable(counts, b)
    part = counts.only(pairs)
    once = np.ones(len(pairs), np.int64)
    program = Program.of(part, Size(), b, most=once)
    found, bound = solve(part, program) if len(pairs) else (once, 0.0)
    found = fill(program, repair(part, "multinomial", found, b))
    x = repair(part, "multinomial", found, b)
    bound = float(floor(min(bound + 1e-6, _limit_of_size(counts, b))))
    return Solution(x, float(x.sum()), bound, name, monotonic() - began).among(pairs, counts.pairs, 0.0)


def _greedy(program: Program) -> Integers:
    return fill(program, np.zeros_like(program.most))


def _rounded(counts: ClickCounts, relaxed: Solution, b: Limit) -> Integers:
    return repair(counts, "multinomial", np.minimum(round_down(relaxed.x), 1), b)


def _branch_and_bound(program: Program, x: Integers, seconds: float, seed: int) -> tuple[Integers, float]:
    limit = np.maximum(program.limit - program.margin, program.rows @ x.astype(np.float64))
    found, _, bound = integer_program(
        np.ones(len(x)), program.rows, limit, program.most.astype(np.float64), seconds=seconds, start=x, seed=seed
    )
    return (found if program.slack(found).min(initial=0) >= 0 else x), bound


def _limit_of_size(counts: ClickCounts, b: Limit) -> float:
    """m·b: a draw of a pair exposes its users by at least 1 together, whoever they are."""
    return float(min(floor(counts.users * float(b) * (1 + 1e-12)), counts.pairs))
