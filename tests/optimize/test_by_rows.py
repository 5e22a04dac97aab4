"""Products and maxima by parts and blocks, against the same on a dense matrix."""

import os
from multiprocessing import get_context

import numpy as np
import pytest
from scipy import sparse

from searchveil.optimize import by_rows
from searchveil.optimize.by_rows import ByRows
from searchveil.optimize.program import Reals


@pytest.fixture(params=[1, 2, 5])
def several(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many parts, and blocks of few entries, whatever the machine."""
    parts: int = request.param
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(parts)))
    monkeypatch.setattr(by_rows, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(by_rows, "BLOCK", 7)
    return parts


def matrix(seed: int, rows: int = 40, columns: int = 30) -> Reals:
    """Every row has an entry, and one has far more than a block."""
    chance = np.random.default_rng(seed)
    dense = chance.random((rows, columns)) * (chance.random((rows, columns)) < 0.1)
    dense[np.arange(rows), chance.integers(columns, size=rows)] = 1
    dense[3] = chance.random(columns) + 0.1
    return dense


@pytest.mark.parametrize("seed", range(5))
def test_parts_together_are_the_matrix(several: int, seed: int) -> None:
    dense = matrix(seed)
    values = np.random.default_rng(seed).normal(size=dense.shape[1:])
    cut = ByRows.of(sparse.csr_array(dense))
    assert len(cut.parts) == several
    np.testing.assert_allclose(cut @ values, dense @ values, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(cut.row_lengths, (dense > 0).sum(axis=1))
    np.testing.assert_array_equal(cut.largest(values), np.where(dense > 0, values, -np.inf).max(axis=1))
    products = np.where(dense > 0, dense * values, -np.inf).max(axis=1)
    np.testing.assert_array_equal(cut.largest(values, times_entry=True), products)
    np.testing.assert_allclose(cut.entries(np.square) @ values, dense**2 @ values, rtol=1e-13, atol=1e-13)


def test_single_precision_stays_single(several: int) -> None:
    """Or every product would make a copy of the matrix."""
    cut = ByRows.of(sparse.csr_array(matrix(0))).entries(lambda data: data.astype(np.float32))
    ones = np.ones(30, np.float32)
    assert (cut @ ones).dtype == cut.largest(ones).dtype == np.float32


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_fewer_rows_than_cores(several: int, rows: int) -> None:
    dense = matrix(0)[:rows]
    cut = ByRows.of(sparse.csr_array(dense))
    np.testing.assert_allclose(cut @ np.ones(30), dense.sum(axis=1))


def test_a_small_matrix_is_left_whole() -> None:
    assert len(ByRows.of(sparse.csr_array(matrix(0))).parts) == 1


def _sum_in_child() -> None:
    assert len(ByRows.of(sparse.csr_array(matrix(0))).parts) > 1
    assert np.isclose((ByRows.of(sparse.csr_array(matrix(0))) @ np.ones(30)).sum(), matrix(0).sum())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("several", [2], indirect=True)
def test_a_forked_child_has_threads_of_its_own(several: int) -> None:
    ByRows.of(sparse.csr_array(matrix(0))) @ np.ones(30)
    child = get_context("fork").Process(target=_sum_in_child)
    child.start()
    child.join(timeout=280)
    assert child.exitcode == 0
