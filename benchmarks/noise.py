"""Discrete Laplace draws a second, beside opendp's exact sampler, in one run.

python benchmarks/noise.py
"""

import time

import opendp.prelude as dp

from searchveil.privacy.noise import DiscreteLaplace, Source

OURS, THEIRS = 20_000_000, 200_000


def main() -> None:
    dp.enable_features("contrib")
    print(f"{'scale':>7} {'ours/s':>12} {'opendp/s':>12} {'ratio':>7}  (target ≥ 50)")
    for scale in (1.0, 5.0, 40.0):
        noise, source = DiscreteLaplace(scale), Source()
        noise.sample(1, source)  # builds the table
        start = time.perf_counter()
        noise.sample(OURS, source)
        ours = OURS / (time.perf_counter() - start)

        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
        sampler = dp.m.make_laplace(*space, scale=scale)
        zeros = [0] * THEIRS
        start = time.perf_counter()
        sampler(zeros)
        theirs = THEIRS / (time.perf_counter() - start)
        print(f"{scale:>7} {ours:>12,.0f} {theirs:>12,.0f} {ours / theirs:>7.0f}")


if __name__ == "__main__":
    main()
