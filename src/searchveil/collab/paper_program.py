"""The transformed program of Hong et al. 2014, Algorithm 2: what the outside solver P0 is handed, and what it answers.

Each user j has a condition Σ_i x_i·ln t_ij ≤ b. With slack f_j·y_j they read T x + F y = B; the parties multiply by a
random matrix A and permute the pairs. P0 sees A·T (columns permuted), A·F, A·B and the totals c_i (permuted alike).

That hides nothing from P0: B is one constant, so (A·F)z = A·B has the solution z_j = b/f_j, and (A·F)⁻¹·A·T divided by
it row by row is T/b. This is also the way to solve the program: `conditions` is the first thing that P0 needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from searchveil.optimize import first_order
from searchveil.optimize.integers import Program, fill
from searchveil.optimize.objectives import KL, Objective, Size
from searchveil.optimize.program import Integers, Reals
from searchveil.optimize.solve import TOLERANCE

Goal = Literal["kl", "size"]

FRACTION_BITS = 40  # of logarithms, slack coefficients and b, as whole numbers
RANDOM_BITS = 32  # of an entry of A
ENTRY_BITS = 104  # of an entry of a product: a logarithm below 2^5, and sums over up to 2^20 users
MOST_USERS = 2**20
NOTHING = 1e-9  # what rounding leaves of an entry that is 0; no pair is clicked often enough for a true one
TIES = 1e-9  # to the float limit of P0; the parties judge what it answers exactly


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


def recovered_counts(seen: Transformed) -> tuple[Reals, float]:
    """The attack of erratum C1: every user's count of every pair, and b, from what P0 sees and nothing else.

    t_ij = c_i/(c_i − c_ij), so 1 − e^(−T_ji) = c_ij/c_i, and these add up to 1 over the users of a pair: that gives b.
    """
    shares = seen.conditions()
    most = int(np.argmax(np.count_nonzero(shares, axis=0)))  # any pair would do

    def excess(b: float) -> float:
        return float(-np.expm1(-b * shares[:, most]).sum()) - 1

    b = float(brentq(excess, 1e-12, 1e3, xtol=1e-15, rtol=1e-14))
    return -np.expm1(-b * shares) * np.array(seen.totals, np.float64), b


@dataclass(frozen=True)
class Answer:
    """Whole draws, in the permuted order, with |O| as P0 chose it and the bound of the relaxation."""

    draws: Integers
    output_size: int | None
    upper_bound: float


def solved(seen: Transformed, goal: Goal) -> Answer:
    """Relaxed, rounded down and filled. For KL the size |O| is fixed: half of what fits."""
    shares = seen.conditions()
    largest_share = shares.max(axis=0, initial=0)
    most = np.where(largest_share > 0, np.floor((1 + TIES) / np.maximum(largest_share, NOTHING)), 0).astype(np.int64)
    drawable = np.flatnonzero(most)
    draws = np.zeros(len(most), np.int64)
    if not len(drawable):
        return Answer(draws, None, 0.0)
    rows = sparse.csr_array(shares[:, drawable])
    objective: Objective = Size()
    found, total = first_order.solve(rows, 1.0, objective, tolerance=TOLERANCE), None
    if goal == "kl":
        total, largest = floor(found.objective / 2), np.asarray(found.x, np.float64)
        if total == 0:
            return Answer(draws, total, 0.0)
        objective = KL(np.array(seen.totals, np.float64)[drawable])
        found = first_order.solve(rows, 1.0, objective, tolerance=TOLERANCE, total=total, largest=largest)
    program = Program(objective, 1 + TIES, 0.0, rows, rows.tocsc(), most[drawable], total)
    whole = np.minimum(np.floor(np.asarray(found.x) + TIES).astype(np.int64), most[drawable])
    draws[drawable] = fill(program, program.shortened(whole))
    return Answer(draws, total, found.upper_bound)
