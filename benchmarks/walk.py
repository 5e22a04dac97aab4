"""Random walks on a click graph: blocks of walks beside one query at a time, on the same graph, in one run.

python benchmarks/walk.py [--nodes 350000] [--walks 1000] [--steps 3]
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from searchveil.lab.applications.graph import Matrix, Step, chances_of, walk_ends
from searchveil.lab.applications.ranking import Floats, Ints, best_first

EDGES_PER_NODE = 4
DEPTH = 1_000


def click_graph(nodes: int, seed: int = 1) -> tuple[Matrix, int]:
    """Weights between queries and urls whose popularity falls as in a log, and how many of the nodes are queries."""
    rng = np.random.default_rng(seed)
    queries = nodes * 5 // 7
    urls, edges = nodes - queries, nodes * EDGES_PER_NODE
    asked = (queries * rng.random(edges) ** 2.5).astype(np.int64)  # the first queries and urls are the popular ones
    clicked = (urls * rng.random(edges) ** 2.5).astype(np.int64)
    clicks = sparse.csr_array((rng.geometric(0.5, edges).astype(float), (asked, clicked)), shape=(queries, urls))
    return sparse.block_array([[None, clicks], [clicks.T, None]], format="csr"), queries


def one_by_one(step: Step, starts: Ints, steps: int, first_end: int) -> Iterator[tuple[Floats, Ints]]:
    """A full vector for each walk, multiplied by the matrix at each step."""
    leaving, staying = sparse.diags_array(step.leaving), sparse.diags_array(step.staying)
    back = sparse.csr_array((leaving @ step.links + staying).T)
    for start in starts:
        here = np.zeros(step.links.shape[0])
        here[start] = 1
        for _ in range(steps):
            here = back @ here
        there = np.flatnonzero(here[first_end:])
        yield here[first_end:][there], there


def ranked(ends: Iterator[tuple[Floats, Ints]]) -> list[list[int]]:
    return [best_first(chances, urls, DEPTH).tolist() for chances, urls in ends]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=350_000)
    parser.add_argument("--walks", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args()
    weights, queries = click_graph(given.nodes)
    start = time.perf_counter()
    step = chances_of(weights, 0.1)
    print(f"{given.nodes:,} nodes, {weights.nnz // 2:,} links; chances in {time.perf_counter() - start:.2f} s")
    starts = np.random.default_rng(2).integers(0, queries, given.walks)
    starts = starts[np.diff(step.links.indptr)[starts] > 0]  # queries with a click

    start = time.perf_counter()
    in_blocks = ranked(walk_ends(step, starts, given.steps, first_end=queries))
    blocks = time.perf_counter() - start
    start = time.perf_counter()
    singly = ranked(one_by_one(step, starts, given.steps, queries))
    single = time.perf_counter() - start
    same = sum(a[:10] == b[:10] for a, b in zip(in_blocks, singly, strict=True))
    print(f"{len(starts):,} walks of {given.steps} steps, ranked: {blocks:.2f} s in blocks, {single:.2f} s one by one")
    print(f"one by one / blocks  {single / blocks:.1f}; the first ten are the same for {same:,} of {len(starts):,}")


if __name__ == "__main__":
    main()
