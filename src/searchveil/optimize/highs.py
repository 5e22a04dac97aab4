"""HiGHS behind two functions: a linear program by interior point, an integer one by branch and bound.

Both maximise c·x over A x ≤ b, 0 ≤ x ≤ upper and, where a total is given, Σx = total. Nothing is made dense. What comes
back is a solver's word within its tolerances: `certify` decides whether x may be used.
"""

from typing import Any

import numpy as np
from scipy import sparse

from searchveil.errors import InputError
from searchveil.optimize.program import Integers, Reals

FEASIBLE_WITHIN = 1e-9  # of an integer program's rows; HiGHS's own 1e-6 would let whole draws slip past a limit


def linear_program(
    c: Reals, matrix: Any, b: Reals | float, upper: Reals, total: float | None = None, *, crossover: bool = True
) -> tuple[Reals, float, float]:
    """x, its objective, and a bound by weak duality (prove nothing from its last digits).

    Crossover makes x a vertex, whose floor keeps more. Without it the prices that come back through presolve are so
    rough that the bound is loose by half a percent, so presolve goes too.
    """
    model = _model(c, matrix, b, upper, total)
    thorough = "on" if crossover else "off"
    solver = _solver(solver="ipm", run_crossover=thorough, presolve=thorough)
    _run(solver, model)
    solution = solver.getSolution()
    x = np.clip(np.array(solution.col_value), 0.0, upper)
    prices = -np.array(solution.row_dual)  # HiGHS minimises −c·x
    return (
        x,
        float(c @ x),
        dual_bound(c, matrix, b, upper, prices[: matrix.shape[0]], total, *prices[matrix.shape[0] :]),
    )


def integer_program(
    c: Reals,
    matrix: Any,
    b: Reals | float,
    upper: Reals,
    total: int | None = None,
    *,
    seconds: float,
    start: Integers | None = None,
    seed: int = 0,
) -> tuple[Integers, float, float]:
    """The best integer x found in the time, its objective, and HiGHS's own bound. A start makes sure there is one."""
    model = _model(c, matrix, b, upper, total)
    highspy = _highspy()
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(c)
    solver = _solver(
        time_limit=max(seconds, 0.0),
        random_seed=seed,
        mip_rel_gap=0.0,
        mip_feasibility_tolerance=FEASIBLE_WITHIN,
        primal_feasibility_tolerance=FEASIBLE_WITHIN,
    )
    _run(solver, model, start)
    x: Integers = np.rint(np.clip(np.array(solver.getSolution().col_value), 0.0, upper)).astype(np.int64)
    return x, float(c @ x), -float(solver.getInfo().mip_dual_bound)


def dual_bound(
    c: Reals,
    matrix: Any,
    b: Reals | float,
    upper: Reals,
    prices: Reals,
    total: float | None = None,
    total_price: float = 0.0,
) -> float:
    """What no feasible x exceeds, for any prices of the rows: b·y + μ·total + Σ upper·max(0, c − Aᵀy − μ).

    Infinite if an x without an upper bound is worth more than its price.
    """
    y = np.maximum(prices, 0.0)
    profit = np.maximum(c - matrix.T @ y - total_price, 0.0)
    gained = profit > 0
    rows = np.broadcast_to(np.asarray(b, np.float64), y.shape)
    return float(rows @ y + (total or 0.0) * total_price + profit[gained] @ upper[gained])


def _highspy() -> Any:
    import highspy  # a tenth of a second, which only those who solve should pay

    return highspy


def _model(c: Reals, matrix: Any, b: Reals | float, upper: Reals, total: float | None) -> Any:
    highspy = _highspy()
    rows = sparse.csr_array(matrix)
    most = np.broadcast_to(np.asarray(b, np.float64), (rows.shape[0],))
    least = np.full(rows.shape[0], -np.inf)
    if total is not None:
        rows = sparse.vstack([rows, sparse.csr_array(np.ones((1, len(c))))], format="csr")
        least, most = np.append(least, total), np.append(most, total)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_ = -np.asarray(c, np.float64)
    model.col_lower_, model.col_upper_ = np.zeros(len(c)), np.asarray(upper, np.float64)
    model.row_lower_, model.row_upper_ = least, most
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.num_row_, model.a_matrix_.num_col_ = rows.shape
    model.a_matrix_.start_ = rows.indptr.astype(np.int32)
    model.a_matrix_.index_ = rows.indices.astype(np.int32)
    model.a_matrix_.value_ = rows.data.astype(np.float64)
    return model


def _solver(**options: object) -> Any:
    solver = _highspy().Highs()
    solver.setOptionValue("output_flag", False)
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _run(solver: Any, model: Any, start: Integers | None = None) -> None:
    highspy = _highspy()
    solver.passModel(model)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.astype(np.float64)
        solver.setSolution(solution)
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        status = solver.modelStatusToString(solver.getModelStatus())
        raise InputError(f"the program has no answer (HiGHS: {status}); ask for a smaller total or allow more time")
