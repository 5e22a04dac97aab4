"""HiGHS behind two functions: known answers, brute force, and bounds that hold whatever the prices."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from searchveil.errors import InputError
from searchveil.optimize.highs import dual_bound, integer_program, linear_program
from searchveil.optimize.program import Reals

SMALL = sparse.csr_array(np.array([[1.0, 2.0], [3.0, 1.0]]))
LIMITS = np.array([4.0, 6.0])
ONES = np.ones(2)
FREE = np.full(2, 10.0)


@st.composite
def packings(draw: st.DrawFn) -> tuple[Reals, Reals, Reals, Reals]:
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    entries = st.sampled_from([0.0, 0.5, 1.0, 1.75, 3.0])
    matrix = np.array(
        draw(st.lists(st.lists(entries, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    )
    gains = np.array(draw(st.lists(st.integers(1, 5), min_size=columns, max_size=columns)), np.float64)
    limits = np.array(draw(st.lists(st.sampled_from([1.0, 2.3, 4.0]), min_size=rows, max_size=rows)))
    return gains, matrix, limits, np.full(columns, 3.0)


@pytest.mark.parametrize("crossover", [True, False])
def test_a_linear_program_with_a_known_optimum(crossover: bool) -> None:
    x, objective, bound = linear_program(ONES, SMALL, LIMITS, FREE, crossover=crossover)
    assert x == pytest.approx([1.6, 1.2], abs=1e-6)
    assert objective == pytest.approx(2.8, abs=1e-6)
    assert bound == pytest.approx(2.8, abs=1e-6)


def test_a_total_is_met_and_has_its_price_in_the_bound() -> None:
    x, objective, bound = linear_program(np.array([1.0, 3.0]), SMALL, LIMITS, FREE, total=2.2)
    assert x == pytest.approx([0.4, 1.8], abs=1e-6)
    assert objective == pytest.approx(5.8, abs=1e-6)
    assert bound == pytest.approx(5.8, abs=1e-6)


def test_one_limit_for_all_rows() -> None:
    assert linear_program(ONES, SMALL, 4.0, FREE)[1] == pytest.approx(0.8 + 1.6)


def test_a_total_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="no answer"):
        linear_program(ONES, SMALL, LIMITS, FREE, total=3.0)


@pytest.mark.slow
@given(packings())
def test_integers_are_the_best_by_brute_force(packing: tuple[Reals, Reals, Reals, Reals]) -> None:
    gains, matrix, limits, upper = packing
    x, objective, bound = integer_program(gains, sparse.csr_array(matrix), limits, upper, seconds=10)
    choices = (np.array(choice) for choice in product(range(4), repeat=len(gains)))
    best = max(float(gains @ choice) for choice in choices if (matrix @ choice <= limits).all())
    assert (matrix @ x <= limits + 1e-9).all()
    assert objective == float(gains @ x) == best
    assert bound == pytest.approx(best, abs=1e-6)


@pytest.mark.slow
@given(packings(), st.lists(st.floats(-1, 5), min_size=4, max_size=4))
def test_any_prices_bound_the_optimum(packing: tuple[Reals, Reals, Reals, Reals], prices: list[float]) -> None:
    gains, matrix, limits, upper = packing
    rows = sparse.csr_array(matrix)
    objective = linear_program(gains, rows, limits, upper)[1]
    assert dual_bound(gains, rows, limits, upper, np.array(prices[: len(limits)])) >= objective - 1e-6


def test_without_an_upper_bound_a_price_too_low_bounds_nothing() -> None:
    assert dual_bound(ONES, SMALL, LIMITS, np.full(2, np.inf), np.zeros(2)) == np.inf


def test_a_start_is_kept_when_there_is_no_time() -> None:
    x, objective, _ = integer_program(ONES, SMALL, LIMITS, FREE, seconds=0, start=np.array([1, 1]))
    assert objective == x.sum() >= 2


def test_whole_draws_do_not_slip_past_a_limit_within_tolerances() -> None:
    """Within HiGHS's usual 1e-6, ten draws of 0.1 would fit into a millionth less than 1."""
    row = sparse.csr_array(np.array([[0.1]]))
    x, _, _ = integer_program(np.ones(1), row, 1 - 1e-7, np.full(1, 100.0), seconds=5)
    assert x.tolist() == [9]


def test_a_program_without_rows_takes_all() -> None:
    x, _, _ = integer_program(ONES, sparse.csr_array((0, 2)), 1.0, np.array([3.0, 4.0]), seconds=5)
    assert x.tolist() == [3, 4]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    linear_program(ONES, SMALL, LIMITS, FREE)
    integer_program(ONES, SMALL, LIMITS, FREE, seconds=5)
    assert capfd.readouterr() == ("", "")
