"""How many queries come out: weighted selection and votes beside published methods and other libraries.

    python benchmarks/selection.py                                  # five logs, (1, 1e-6), mean of 3 seeds
    python benchmarks/selection.py --only peers                     # OpenDP and PipelineDP on the same logs
    python benchmarks/selection.py --logs zipf --epsilon 3          # another promise
    python benchmarks/selection.py --logs demo --users 657426 --seeds 1 --only ours

Logs: `zipf` has 65,000 users who search 30 times on average (log-normal, spread 1) for a million queries, the k-th in
proportion to 1/k; `few` has users of 4 searches on average (spread 0.7), `two` of 2 (spread 0.5) and `one` of 1 (spread
0.3), for 300,000 queries in the same proportion; `demo` is the demo log. Seconds are those of the naming alone: ours
with exact noise and from the Parquet file on, the re-implemented methods (benchmarks/published.py) with ordinary noise
on arrays, libraries with the start of a process of their own. Where a published method or a library has settings, the
best of several on each log is shown.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import peers
import pyarrow as pa
import pyarrow.parquet as pq
from measure import DATA, demo_log
from published import PUBLISHED, Held

import searchveil as sv

TARGETS = {("zipf", 1.0): 2430, ("demo", 1.0): 760, ("zipf", 3.0): 6500}
SHAPES = {
    "zipf": (30, 1.0, 1_000_000),
    "few": (4, 0.7, 300_000),
    "two": (2, 0.5, 300_000),
    "one": (1, 0.3, 300_000),
}
GREEDY = "greedy (Carvalho et al. 2022)"
LIBRARIES: dict[str, tuple[peers.Peer, str, tuple[int, ...]]] = {  # and the numbers of queries of a user that are tried
    "OpenDP Polars": (peers.OPENDP, "per-group", (1, 5)),
    "PipelineDP, truncated geometric": (peers.PIPELINEDP, "select-truncated_geometric", (1, 5)),
    "PipelineDP, Gaussian": (peers.PIPELINEDP, "select-gaussian_thresholding", (10, 30)),
}

Methods = dict[str, list[Callable[[int], int]]]  # for each its settings, as functions of a seed


def drawn_log(name: str, users: int) -> Path:
    """Searches of a user are log-normal in number; the k-th query is searched in proportion to 1/k."""
    held, spread, items = SHAPES[name]
    path = DATA / f"{name}-{users}.parquet"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        random = np.random.default_rng(5)
        searches = np.maximum(1, np.rint(random.lognormal(np.log(held) - spread**2 / 2, spread, users)))
        bounds = np.cumsum(1 / np.arange(1, items + 1))
        user = np.repeat(np.arange(users), searches.astype(np.int64))
        query = np.searchsorted(bounds, random.random(len(user)) * bounds[-1])
        pq.write_table(pa.table({"user": pa.array(user), "query": pa.array(query).cast(pa.string())}), path)
    return path


def held_in(log: Path) -> Held:
    u, q = (f"dense_rank() over (order by {column})" for column in ("log.user", "lower(query)"))
    codes = duckdb.execute(f"select {u} as u, {q} as q from '{log}' as log").fetchnumpy()
    return Held.of(np.asarray(codes["u"], np.int64), np.asarray(codes["q"], np.int64))


def ours(log: Path, epsilon: float, delta: float) -> Methods:
    def released(method: str, _: int) -> int:
        return sv.method(method).release(sv.read_log(str(log))).table.num_rows

    promise = f"epsilon={epsilon}, delta={delta}"
    texts = {
        "weighted": [f"weighted({promise}, counts='none')"],
        "weighted, with counts": [f"weighted({promise})"],
        "weighted, by formula": [f"weighted({promise}, counts='none', policy='formula')"],
        "votes": [f"votes({promise}, counts='none')"],
        "votes, not guided": [f"votes({promise}, counts='none', guide_share=0.0)"],
        "votes, with counts": [f"votes({promise})"],
        "ZEALOUS, approximate": [f"zealous({promise}, per_user={m})" for m in (1, 2, 5, 10)],
    }
    return {title: [partial(released, text) for text in settings] for title, settings in texts.items()}


def published(log: Path, epsilon: float, delta: float) -> Methods:
    held = held_in(log)
    return {
        title: [partial(method, held, epsilon, delta, **settings) for settings in several]
        for title, (method, several) in PUBLISHED.items()
    }


def libraries(log: Path, epsilon: float, delta: float) -> Methods:
    """Each in an environment and a process of its own."""

    def released(peer: peers.Peer, variant: str, per_user: int, _: int) -> int:
        method, python = peers.Method(variant, peer, variant), peers.environment(peer)
        with tempfile.TemporaryDirectory() as folder:
            told = peers.run(method, python, log, epsilon, Path(folder), 1800, delta=delta, per_user=per_user)
        return told.released

    return {
        title: [partial(released, peer, variant, per_user) for per_user in several]
        for title, (peer, variant, several) in LIBRARIES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", default="zipf,demo,few,two,one", help="with commas between")
    parser.add_argument("--users", type=int, default=65_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("ours", "published", "peers"))
    parser.add_argument("--method", help="only methods whose name has this part")
    given = parser.parse_args()
    promise = (given.epsilon, given.delta)
    print(f"queries released at {promise}, mean of {given.seeds} (peers: one run); seconds of one")
    for name in given.logs.split(","):
        log = demo_log(given.users) if name == "demo" else drawn_log(name, given.users)
        found: dict[str, float] = {}
        for kind, methods in (("ours", ours), ("published", published), ("peers", libraries)):
            if given.only in (None, kind):
                seeds = 1 if kind == "peers" else given.seeds
                for title, settings in methods(log, *promise).items():
                    if (given.method or "") in title:
                        released, seconds = max(measured(one, seeds) for one in settings)
                        found[title] = released
                        print(f"{name:<6} {title:<42} {released:>9,.0f} {seconds:>8.1f} s", flush=True)
        verdicts(name, given.epsilon, given.users, found)


def measured(method: Callable[[int], int], seeds: int) -> tuple[float, float]:
    start = time.perf_counter()
    released = [method(seed) for seed in range(1, seeds + 1)]
    return sum(released) / seeds, (time.perf_counter() - start) / seeds


def verdicts(name: str, epsilon: float, users: int, found: dict[str, float]) -> None:
    target = {("demo", 1.0): 9400}.get((name, epsilon)) if users > 500_000 else TARGETS.get((name, epsilon))
    best = found.get("weighted")
    if best is None:
        return
    if target is not None:
        print(f"{name:<6} target ≥ {target:,}: {'met' if best >= target else 'NOT met'}")
    if "weighted, with counts" in found:
        part = found["weighted, with counts"] / best
        print(f"{name:<6} with counts / without: {part:.2f} (target ≥ 0.88: {'met' if part >= 0.88 else 'NOT met'})")
    others = {title: number for title, number in found.items() if title in PUBLISHED}
    if not others:
        return
    closest = max(others, key=lambda title: others[title])
    print(f"{name:<6} weighted / best published method ({closest}): {best / others[closest]:.2f}")
    votes = max((number for title, number in found.items() if title in ("votes", "votes, not guided")), default=0.0)
    if GREEDY in others and name in ("few", "two", "one"):
        better = max(best, votes) / others[GREEDY]
        print(
            f"{name:<6} the better of ours / greedy: {better:.2f} (target ≥ 1: {'met' if better >= 1 else 'NOT met'})"
        )


if __name__ == "__main__":
    main()
