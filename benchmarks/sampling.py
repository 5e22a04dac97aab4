"""The largest output of a log of a tenth of AOL's size: a bound within 1 % and integer counts, beside HiGHS in one run.

python benchmarks/sampling.py

The log is synthetic, with popularity, activity and clicks as heavy-tailed as AOL's: about 61,000 users × 102,000 pairs
× 1.06 million non-zeros, and ten times that. HiGHS solves the same relaxation by interior point, without crossover,
to its own tolerance. Every line is a process of its own; seconds are of the work, without the making of the log. The
lines of ours take two relaxations, of all pairs for the bound and of those that may be drawn for the integers.
"""

import sys
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from measure import Run, alone, report
from scipy import sparse

from searchveil.optimize.certify import violated
from searchveil.optimize.integers import whole_draws
from searchveil.optimize.objectives import KL, Frequent, Size
from searchveil.optimize.program import ClickCounts
from searchveil.optimize.solve import relax

B = log(2)
SUPPORT = 0.0005  # from which a pair is frequent
PATIENCE = 300.0  # seconds after which HiGHS is stopped; its time is then a lower bound


def synthetic_log(times: int) -> ClickCounts:
    """Pairs of one user are dropped, and users left with nothing, so that more are drawn than stay."""
    chance = np.random.default_rng(1)
    users, pairs, cells = 64_100 * times, 115_500 * times, 1_101_000 * times
    popularity = np.minimum(2 + np.floor(chance.pareto(1.15, pairs)), users / 8)
    activity = chance.lognormal(0, 1.2, users)
    row = chance.choice(users, cells, p=activity / activity.sum())
    column = chance.choice(pairs, cells, p=popularity / popularity.sum())
    clicks = np.minimum(chance.zipf(2.2, cells), 200)
    matrix = sparse.csr_array((clicks, (row, column)), shape=(users, pairs))
    holders = np.bincount(matrix.indices, minlength=pairs)
    by_popularity = np.argsort(-holders, kind="stable")  # as `click_counts` numbers them
    matrix = matrix[:, by_popularity[: np.count_nonzero(holders >= 2)]]
    return ClickCounts(matrix[np.flatnonzero(np.diff(matrix.indptr))])


def ours(counts: ClickCounts, tolerance: float) -> dict[str, Any]:
    relaxed = relax(counts, "multinomial", Size(), B, tolerance=tolerance)
    found = whole_draws(counts, Size(), B, seconds=0.0, tolerance=tolerance)
    assert len(violated(counts, "multinomial", np.asarray(found.x, np.int64), B)) == 0
    return {
        "shape": [counts.users, counts.pairs, counts.matrix.nnz],
        "relaxation": relaxed.seconds,
        "integers": found.seconds,
        "objective": relaxed.objective,
        "bound": relaxed.upper_bound,
        "gap": relaxed.gap,
        "floor": float(np.floor(relaxed.x + 1e-6).sum()),
        "output": found.objective,
    }


def close_to_the_log(counts: ClickCounts, tolerance: float, kl: bool = True) -> dict[str, Any]:
    """The expected counts nearest to the log's, of half the largest size, by one measure of nearness or the other."""
    largest = relax(counts, "poisson", Size(), B)
    half = largest.objective / 2
    objective = KL.of(counts) if kl else Frequent.of(counts, SUPPORT, half)
    found = relax(
        counts, "poisson", objective, B, total=half, largest=np.asarray(largest.x, np.float64), tolerance=tolerance
    )
    return {"objective": found.objective, "bound": found.upper_bound}


def frequent(counts: ClickCounts, tolerance: float) -> dict[str, Any]:
    return close_to_the_log(counts, tolerance, kl=False)


def interior_point(counts: ClickCounts, tolerance: float) -> dict[str, Any]:
    """HiGHS at its best for this purpose: presolve, no crossover, the matrix as it lies in memory."""
    import highspy

    exposure = counts.exposure("multinomial")
    highs: Any = highspy
    model = highs.HighsLp()
    model.num_row_, model.num_col_ = exposure.shape
    model.col_cost_, model.col_lower_ = -np.ones(counts.pairs), np.zeros(counts.pairs)
    model.col_upper_ = np.full(counts.pairs, highs.kHighsInf)
    model.row_lower_, model.row_upper_ = np.full(counts.users, -highs.kHighsInf), np.full(counts.users, B)
    model.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = exposure.indptr, exposure.indices
    model.a_matrix_.value_ = exposure.data
    solver = highs.Highs()
    options = {
        "output_flag": False,
        "solver": "ipm",
        "run_crossover": "off",
        "ipm_optimality_tolerance": tolerance,
        "time_limit": PATIENCE,
    }
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    solver.run()
    status = solver.modelStatusToString(solver.getModelStatus())
    return {"objective": -solver.getInfo().objective_function_value, "status": status}


def main() -> None:
    if len(sys.argv) > 1:
        who, times, tolerance = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
        counts = synthetic_log(times)
        work = {"ours": ours, "kl": close_to_the_log, "frequent": frequent, "highs": interior_point}[who]
        report(lambda: work(counts, tolerance))
        return
    runs: dict[str, Run] = {}

    def run(name: str, *arguments: str) -> Run:
        runs[name] = done = alone(Path(__file__), *arguments)
        print(f"{name:<28} {done.seconds:>8.1f} s {done.peak_mb:>7.0f} MB  {_told(done.result)}", flush=True)
        return done

    one = run("ours to 1 %, and integers", "ours", "1", "1e-2")
    run("ours to 0.1 %, and integers", "ours", "1", "1e-3")
    ten = run("ours to 1 %, ten times larger", "ours", "10", "1e-2")
    run("kl to 0.1 %", "kl", "1", "1e-3")
    run("frequent to 0.1 %", "frequent", "1", "1e-3")
    tight = run("HiGHS interior point", "highs", "1", "1e-8")
    print(f"ours / HiGHS              {one.seconds / tight.seconds:>6.3f}  (target ≤ 0.5)")
    print(f"ten times larger / one    {ten.seconds / one.seconds:>6.1f}  (target ≤ 15)")
    print(f"integers / floor          {one.result['output'] / one.result['floor']:>6.2f}  (target ≥ 1.4)")
    print(f"peak memory               {one.peak_mb / 1024:>6.2f} GB  (target ≤ 4)")


def _told(result: dict[str, Any]) -> str:
    if "status" in result:
        return f"{result['objective']:,.1f} ({result['status']})"
    if "shape" not in result:
        return f"{result['objective']:,.6g} of at most {result['bound']:,.6g}"
    return (
        f"{' × '.join(f'{n:,}' for n in result['shape'])}: "
        f"{result['relaxation']:.1f} s to {result['objective']:,.1f} of at most {result['bound']:,.1f} "
        f"(gap {result['gap']:.2%}), "
        f"{result['integers']:.1f} s to {result['output']:,.0f}, floor {result['floor']:,.0f}"
    )


if __name__ == "__main__":
    main()
