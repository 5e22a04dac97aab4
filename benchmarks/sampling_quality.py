"""Whole draws beside HiGHS branch and bound on a demo log of 2,500 users at b = ln 2, in one run.

python benchmarks/sampling_quality.py [--users 2500] [--seconds 5] [--branch-seconds 60]
"""

import argparse
from math import inf

import numpy as np
from measure import demo_log

import searchveil as sv
from searchveil.optimize import diversity
from searchveil.optimize.certify import for_search, limit, repair, violated
from searchveil.optimize.highs import integer_program
from searchveil.optimize.integers import whole_draws
from searchveil.optimize.objectives import Size
from searchveil.optimize.solve import relax
from searchveil.publish.click_counts import click_counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=2_500)
    parser.add_argument("--seconds", type=float, default=5.0, help="for ours")
    parser.add_argument("--branch-seconds", type=float, default=60.0, help="for branch and bound")
    given = parser.parse_args()
    counts = click_counts(sv.read_log(str(demo_log(given.users)))).counts
    b = limit(inf, 0.5)
    print(f"{counts.users:,} users × {counts.pairs:,} pairs × {counts.matrix.nnz:,} non-zeros, b = ln 2")

    relaxed = relax(counts, "multinomial", Size(), b)
    floored = repair(counts, "multinomial", np.floor(relaxed.x + 1e-9).astype(np.int64), b).sum()
    filled = whole_draws(counts, Size(), b, seconds=0)
    ours = whole_draws(counts, Size(), b, seconds=given.seconds)
    exposed = counts.exposure("multinomial")
    most = np.floor(for_search(b, 1e-12) / exposed.max(axis=0).toarray().ravel())
    branched, _, bound = integer_program(
        np.ones(counts.pairs), exposed, for_search(b, 1e-12), most, seconds=given.branch_seconds
    )
    branched_size = repair(counts, "multinomial", branched, b).sum()
    assert not len(violated(counts, "multinomial", ours.x.astype(np.int64), b))
    print(f"size       relaxation {relaxed.objective:.0f}, floor {floored}, filled {filled.objective:.0f}")
    print(f"           ours {ours.objective:.0f} in {ours.seconds:.1f} s")
    print(f"           branch and bound {branched_size} in {given.branch_seconds:.0f} s (bound {bound:.0f})")
    print(f"           ours / branch and bound {ours.objective / branched_size:.3f} (target ≥ 0.95)")
    print(f"           ours / floor            {ours.objective / floored:.2f} (target ≥ 1.4)")

    spe, greedy = diversity.spe(counts, b), diversity.greedy(counts, b)
    default = diversity.best_within(counts, b, given.seconds)
    branch = diversity.branch_and_bound(counts, b, given.branch_seconds)
    print(f"diversity  SPE {spe.objective:.0f}, greedy {greedy.objective:.0f}")
    print(f"           ours {default.objective:.0f} in {default.seconds:.1f} s")
    print(f"           branch and bound {branch.objective:.0f} in {branch.seconds:.0f} s")
    print(f"           ours / branch and bound {default.objective / branch.objective:.3f} (target ≥ 0.95)")
    print(f"           ours / SPE              {default.objective / spe.objective:.1f} (target ≥ 5)")


if __name__ == "__main__":
    main()
