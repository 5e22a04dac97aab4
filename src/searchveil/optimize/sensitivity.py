"""How much the best counts depend on one user: the papers' preprocessing before they add noise to the counts.

For every user the largest output is sought with her and without her. If a count moves by more than d, she is removed.
It ends when a whole round removes nobody. What is left is a log whose counts, as this solver finds them, move by d at
most when one user leaves. It is no sensitivity as differential privacy means it: who is removed depends on the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from searchveil.errors import InputError
from searchveil.optimize.certify import Limit, check_limit
from searchveil.optimize.program import ClickCounts, Integers, Reals, Sampler

SAME = 1e-6  # counts of two solves that differ by no more are the same: HiGHS solves to 1e-7
MOST_USERS = 5_000  # two programs for each of them, at some milliseconds, until a round changes nothing


@dataclass(frozen=True)
class Bounded:
    """What is left of a log, and by how much each user who is left moves the counts."""

    users: Integers  # as numbered before
    pairs: Integers
    counts: ClickCounts
    effects: Reals  # of these users, on the largest count difference


def bound_effects(
    counts: ClickCounts,
    sampler: Sampler,
    b: Limit,
    d: float,
    *,
    progress: Callable[[int, int], None] = lambda done, users: None,
) -> Bounded:
    """Remove users until none who is left moves a count of the largest output by more than d.

    Goes on round the users where the paper starts anew after each removal. Either way all who stay were looked at since
    the last removal.
    """
    check_limit(b)
    if not d >= 0:
        raise InputError(f"d, by how much one user may move a count, must not be negative, not {d}")
    if counts.users > MOST_USERS:
        raise InputError(
            f"two programs per user are too many for {counts.users:,} users: sample {MOST_USERS:,} or fewer"
        )
    program = _Program(counts, sampler, float(b))
    effects = np.zeros(counts.users)
    present = list(range(counts.users))
    unmoved = 0  # users in a row who could stay
    while unmoved < len(present):
        progress(unmoved, len(present))
        user = present.pop(0)
        effects[user] = program.effect(user)
        if effects[user] > d + SAME:
            program.remove(user)
            unmoved = 0
        else:
            present.append(user)
            unmoved += 1
    users = np.array(sorted(present), np.int64)
    kept, pairs = _shared(counts.matrix[users])
    with_something = np.flatnonzero(np.diff(kept.indptr))
    users = users[with_something]
    return Bounded(users, pairs, ClickCounts(kept[with_something]), effects[users])


class _Program:
    """The largest output as a linear program that is changed in place: each solve starts from the basis of the last."""

    def __init__(self, counts: ClickCounts, sampler: Sampler, b: float) -> None:
        import highspy as untyped  # a tenth of a second, which only those who solve should pay

        highspy: Any = untyped
        self.sampler, self.infinity = sampler, highspy.kHighsInf
        self.solved = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kModelEmpty
        self.by_user, self.by_pair = counts.matrix, counts.matrix.tocsc()
        self.present = np.ones(counts.users, bool)
        self.b = b
        self.x: Reals = np.zeros(counts.pairs)
        exposure = counts.exposure(sampler)
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = exposure.shape
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_ = np.ones(counts.pairs), np.zeros(counts.pairs)
        model.col_upper_ = np.full(counts.pairs, self.infinity)
        model.row_lower_, model.row_upper_ = np.full(counts.users, -self.infinity), np.full(counts.users, b)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_, model.a_matrix_.index_ = exposure.indptr, exposure.indices
        model.a_matrix_.value_ = exposure.data
        self.solver = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("presolve", "off")  # which would forget the basis
        self.solver.passModel(model)
        self._solve()

    def effect(self, user: int) -> float:
        """By how much her leaving moves the count that it moves most."""
        with_her, basis = self.x, self.solver.getBasis()
        self._show(user, present=False)
        self._solve()
        moved = float(np.abs(self.x - with_her).max(initial=0))
        self._show(user, present=True)
        self.solver.setBasis(basis)
        self.x = with_her
        return moved

    def remove(self, user: int) -> None:
        self._show(user, present=False)
        self._solve()

    def _solve(self) -> None:
        self.solver.run()
        status = self.solver.getModelStatus()
        if status not in self.solved:
            raise ArithmeticError(f"HiGHS found no largest output ({self.solver.modelStatusToString(status)})")
        self.x = np.array(self.solver.getSolution().col_value)

    def _show(self, user: int, *, present: bool) -> None:
        """Her row, and the columns of her pairs: without her, the others hold larger shares of them."""
        self.present[user] = present
        self.solver.changeRowBounds(user, -self.infinity, self.b if present else self.infinity)
        pairs = self.by_user.indices[self.by_user.indptr[user] : self.by_user.indptr[user + 1]]
        for pair in pairs.tolist():
            held = slice(self.by_pair.indptr[pair], self.by_pair.indptr[pair + 1])
            holders, clicks = self.by_pair.indices[held], self.by_pair.data[held]
            holders, clicks = holders[self.present[holders]], clicks[self.present[holders]]
            if len(holders) < 2:
                self.solver.changeColBounds(pair, 0.0, 0.0)  # what one user alone holds stays out
                continue
            self.solver.changeColBounds(pair, 0.0, self.infinity)
            alone = ClickCounts.of(np.arange(len(holders)), np.zeros(len(holders), int), clicks)
            for holder, exposed in zip(holders.tolist(), alone.exposure(self.sampler).data.tolist(), strict=True):
                self.solver.changeCoeff(holder, pair, exposed)


def _shared(matrix: Any) -> tuple[Any, Integers]:
    """The pairs that two users or more still hold."""
    pairs = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= 2)
    return matrix[:, pairs], pairs
