"""A sparse matrix that is only ever multiplied and searched along its rows: on all cores, and within their caches."""

import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from searchveil.cores import usable_cores

Floats = npt.NDArray[Any]  # in double or single precision
WORTH_A_THREAD = 100_000  # entries; with fewer, handing out the work takes as long as the work
BLOCK = 2**16  # entries to gather at once


@dataclass(frozen=True)
class ByRows:
    """In parts of about as many entries, one for each core. SciPy and NumPy let go of the interpreter meanwhile."""

    parts: tuple[Any, ...]  # scipy.sparse.csr_array, with the narrowest indices: products wait for memory

    @classmethod
    def of(cls, matrix: Any) -> "ByRows":
        whole = sparse.csr_array(matrix)
        several = max(1, min(usable_cores(), whole.nnz // WORTH_A_THREAD))
        cuts = np.searchsorted(whole.indptr, np.arange(1, several) * (whole.nnz / several))
        return cls(tuple(_between(whole, first, last) for first, last in _pairs([0, *cuts, whole.shape[0]])))

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
        return np.concatenate([np.diff(part.indptr) for part in self.parts]).astype(np.int64)

    def entries(self, change: Callable[[Floats], Floats]) -> "ByRows":
        """With other entries in the same places."""
        return ByRows(
            tuple(sparse.csr_array((change(part.data), part.indices, part.indptr), part.shape) for part in self.parts)
        )

    def __matmul__(self, values: Floats) -> Floats:
        return self._from_each(lambda part: part @ values)

    def largest(self, values: Floats, *, times_entry: bool = False) -> Floats:
        """Of each row, the largest value (or value times entry) among its columns; no row may be empty."""
        return self._from_each(lambda part: _largest(part, values, times_entry))

    def _from_each(self, work: Callable[[Any], Floats]) -> Floats:
        if len(self.parts) == 1:
            return work(self.parts[0])
        return np.concatenate(list(_threads().map(work, self.parts)))


def _between(matrix: Any, first: int, last: int) -> Any:
    here = slice(matrix.indptr[first], matrix.indptr[last])
    starts, columns = matrix.indptr[first : last + 1] - matrix.indptr[first], matrix.indices[here]
    shape = (last - first, matrix.shape[1])
    narrow = sparse.get_index_dtype(maxval=max(starts[-1], shape[1]))
    return sparse.csr_array((matrix.data[here], columns.astype(narrow), starts.astype(narrow)), shape)


def _largest(part: Any, values: Floats, times_entry: bool) -> Floats:
    """A block of rows at a time, so that what is gathered stays in the cache."""
    largest = np.empty(part.shape[0], values.dtype)
    starts = part.indptr
    edges = np.unique(np.searchsorted(starts, np.arange(0, starts[-1], BLOCK)))
    for first, last in _pairs([*edges, len(largest)]):
        block = slice(starts[first], starts[last])
        gathered = values.take(part.indices[block], mode="clip")  # all are within: clipping is only faster
        if times_entry:
            gathered *= part.data[block]
        np.maximum.reduceat(gathered, starts[first:last] - starts[first], out=largest[first:last])
    return largest


def _pairs(edges: Iterable[int]) -> Iterable[tuple[int, int]]:
    return ((first, last) for first, last in itertools.pairwise(edges) if first < last)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a child inherits the pool without its threads
