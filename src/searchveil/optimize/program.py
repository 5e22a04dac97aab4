"""Who clicked what how often, as a sparse matrix: the ground on which every program of this room is stated."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

Sampler = Literal["multinomial", "poisson"]
Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """c_ik: how often user k (a row) clicked pair i (a column). Every pair is held by at least two users."""

    matrix: Any  # scipy.sparse.csr_array of int64, users × pairs

    def __post_init__(self) -> None:
        self.matrix.sum_duplicates()  # scipy would do it later, behind the back of whoever holds the arrays
        # The condition that protects people is judged on these arrays; nobody who borrows them may write to them.
        for part in (self.matrix.data, self.matrix.indices, self.matrix.indptr):
            part.setflags(write=False)

    @classmethod
    def of(cls, users: npt.ArrayLike, pairs: npt.ArrayLike, counts: npt.ArrayLike) -> "ClickCounts":
        """From parallel lists; users and pairs are numbered from 0 without gaps."""
        shape = (int(np.max(users, initial=-1)) + 1, int(np.max(pairs, initial=-1)) + 1)
        matrix = sparse.csr_array((np.asarray(counts, np.int64), (users, pairs)), shape=shape)
        return cls(matrix)

    @property
    def users(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def pairs(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def totals(self) -> Integers:
        """c_i: how often each pair was clicked by anybody."""
        totals: Integers = np.asarray(self.matrix.sum(axis=0)).ravel()
        totals.setflags(write=False)  # as above
        return totals

    @property
    def size(self) -> int:
        """|D|: all clicks on pairs that several users hold."""
        return int(self.totals.sum())

    def only(self, pairs: Integers) -> "ClickCounts":
        """Of these pairs, without the users to whom nothing is left."""
        kept = self.matrix[:, pairs]
        return ClickCounts(kept[np.flatnonzero(np.diff(kept.indptr))])

    def exposure(self, sampler: Sampler) -> Any:
        """How much one unit of each pair exposes each user: the matrix A of the condition A x ≤ b, rounded to nearest.

        Multinomial: ln c_i/(c_i − c_ik), for an integer number of draws. Poisson: c_ik/c_i, for an expected number.
        """
        exposed = self.matrix.astype(np.float64)
        totals = self.totals[self.matrix.indices]
        if sampler == "poisson":
            exposed.data /= totals
        else:
            exposed.data = np.log1p(exposed.data / (totals - self.matrix.data))  # exact also for who holds nearly all
        return exposed
