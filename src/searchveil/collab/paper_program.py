"""The transformed program of Hong et al. 2014, Algorithm 2: what the outside solver P0 is handed, and what it answers.

Each user j has a condition Σ_i x_i·ln t_ij ≤ b. With slack f_j·y_j they read T x + F y = B; the parties multiply by a
random matrix A and permute the pairs. P0 sees A·T (columns permuted), A·F, A·B and the totals c_i (permuted alike).

That hides nothing from P0: B is one constant, so (A·F)z = A·B has the solution z_j = b/f_j, and (A·F)⁻¹·A·T divided by
it row by row is T/b. This is also the way to solve the program: `conditions` is the first thing that P0 needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from time import monotonic
from typing import Any

import numpy as np
from scipy import sparse

from searchveil.collab.messages import Refused
from searchveil.optimize import diversity, first_order
from searchveil.optimize.integers import Program, fill
from searchveil.optimize.objectives import KL, Frequent, Goal, Objective, Size
from searchveil.optimize.program import Integers, Reals
from searchveil.optimize.solve import TOLERANCE

FRACTION_BITS = 40  # of logarithms, slack coefficients and b, as whole numbers
RANDOM_BITS = 32  # of an entry of A
ENTRY_BITS = 104  # of an entry of a product: a logarithm below 2^5, and sums over up to 2^20 users
MOST_USERS = 2**20
NOTHING = 1e-9  # what rounding leaves of an entry that is 0; no pair is clicked often enough for a true one
TIES = 1e-9  # to the float limit of P0; the parties judge what it answers exactly
SECONDS = 10.0  # to look for the most pairs that may be drawn once


def fixed(value: float) -> int:
    return round(value * (1 << FRACTION_BITS))


@dataclass(frozen=True)
class Transformed:
    """What P0 decrypts, and nothing else of its view is more than sizes. Numbers are whole, as they were packed."""

    products: Sequence[Sequence[int]]  # A·T by column, one for each pair, permuted
    slack: Sequence[Sequence[int]]  # A·F by column, one for each user
    right: Sequence[int]  # A·B
    totals: Sequence[int]  # c_i, permuted as the columns are

    def conditions(self) -> Reals:
        """T/b: how much one draw of each pair takes of each user's limit; users × pairs."""
        slack = np.array(self.slack, np.float64).T
        products = np.array(self.products, np.float64).T.reshape(len(self.right), len(self.totals))
        right = np.array(self.right, np.float64)
        z = np.linalg.solve(slack, right)  # b/f_j
        shares: Reals = np.linalg.solve(slack, products) / z[:, None]
        return np.where(shares > NOTHING, shares, 0.0)


@dataclass(frozen=True)
class Answer:
    """Whole draws, in the permuted order, with |O| as P0 chose it and the bound of the relaxation."""

    draws: Integers
    output_size: int | None
    upper_bound: float


def solved(seen: Transformed, goal: Goal, support: float) -> Answer:
    """Relaxed, rounded down and filled. For kl and frequent the size |O| is fixed: half of what fits."""
    shares = seen.conditions()
    if not np.isfinite(shares).all():
        raise ValueError("a program that is none")
    largest_share = shares.max(axis=0, initial=0)
    most = np.where(largest_share > 0, np.floor((1 + TIES) / np.maximum(largest_share, NOTHING)), 0).astype(np.int64)
    drawable = np.flatnonzero(most)
    draws = np.zeros(len(most), np.int64)
    if not len(drawable):
        return Answer(draws, None, 0.0)
    rows, most = sparse.csr_array(shares[:, drawable]), most[drawable]
    if goal == "diversity":
        draws[drawable], bound = _most_pairs(rows)
        return Answer(draws, None, bound)
    objective: Objective = Size()
    found, total = first_order.solve(rows, 1.0, objective, tolerance=TOLERANCE), None
    if goal != "size":
        total, largest = floor(found.objective / 2), np.asarray(found.x, np.float64)
        if total == 0:
            return Answer(draws, total, 0.0)
        objective = _of_totals(np.array(seen.totals, np.int64), goal, support, total).only(drawable)
        found = first_order.solve(rows, 1.0, objective, tolerance=TOLERANCE, total=total, largest=largest)
    if objective.most_draws is not None:
        most = np.minimum(most, objective.most_draws)
    program = Program(objective, 1 + TIES, 0.0, rows, rows.tocsc(), most, total)
    whole = fill(program, program.shortened(_rounded_down(found.x, most)))
    if isinstance(objective, Frequent):
        whole = objective.still_infrequent(whole, support, whole=True)
    draws[drawable] = whole
    return Answer(draws, total, found.upper_bound)


def _most_pairs(rows: Any) -> tuple[Integers, float]:
    """D-UMP: as many pairs as possible, each drawn once."""
    began, once = monotonic(), np.ones(rows.shape[1], np.int64)
    found = first_order.solve(rows, 1.0, diversity.Distinct(), tolerance=TOLERANCE)
    program = Program(Size(), 1 + TIES, 0.0, rows, rows.tocsc(), once, None)
    whole = _rounded_down(found.x, once)
    return diversity.best_of_several(program, whole, found.upper_bound, SECONDS, until=began + SECONDS)


def _of_totals(totals: Integers, goal: Goal, support: float, size: int) -> Objective:
    if goal == "kl":
        return KL(totals.astype(np.float64))
    frequent = Frequent.of_totals(totals, support, size)
    if not frequent.frequent.any():
        raise Refused(f"no shared pair holds {support:g} of all clicks: agree on a smaller support")
    return frequent


def _rounded_down(x: Reals | Integers, most: Integers) -> Integers:
    whole: Integers = np.minimum(np.floor(np.asarray(x) + TIES).astype(np.int64), most)
    return whole
