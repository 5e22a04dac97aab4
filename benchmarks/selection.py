"""How many queries come out: weighted selection beside published methods, at the same promise on the same logs.

    python benchmarks/selection.py                                  # three logs, (1, 1e-6), mean of 3 seeds
    python benchmarks/selection.py --logs zipf --epsilon 3          # another promise
    python benchmarks/selection.py --logs demo --users 657426 --seeds 1 --only ours

Logs: `zipf` has 65,000 users who search 30 times on average (log-normal, spread 1) for a million queries, the k-th in
proportion to 1/k; `few` has users of 4 searches on average (spread 0.7), and `two` of 2 (spread 0.5), for 300,000
queries in the same proportion; `demo` is the demo log. Seconds are those of the naming alone: ours with exact noise and
from the Parquet file on, the re-implemented methods (benchmarks/published.py) with ordinary noise on arrays.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import DATA, demo_log
from published import PUBLISHED, Held

import searchveil as sv

TARGETS = {("zipf", 1.0): 2430, ("demo", 1.0): 760, ("zipf", 3.0): 6500}
SHAPES = {"zipf": (30, 1.0, 1_000_000), "few": (4, 0.7, 300_000), "two": (2, 0.5, 300_000)}


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


def ours(log: Path, counts: str, policy: str, epsilon: float, delta: float) -> int:
    asked = sv.Weighted(epsilon, delta, counts=counts, policy=policy)  # type: ignore[arg-type]
    return asked.release(sv.read_log(str(log))).table.num_rows


def zealous(log: Path, epsilon: float, delta: float) -> int:
    return max(
        sv.Zealous(epsilon, delta, per_user=m).release(sv.read_log(str(log))).table.num_rows for m in (2, 5, 10, 20)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", default="zipf,demo,few,two", help="with commas between")
    parser.add_argument("--users", type=int, default=65_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("ours", "others"))
    given = parser.parse_args()
    promise = (given.epsilon, given.delta)
    print(f"queries released at {promise}, mean of {given.seeds}; seconds of one")
    for name in given.logs.split(","):
        log = demo_log(given.users) if name == "demo" else drawn_log(name, given.users)
        methods: dict[str, Callable[[int], int]] = {}
        if given.only != "others":
            methods["weighted"] = lambda _, log=log: ours(log, "none", "learned", *promise)  # type: ignore[misc]
            methods["weighted, with counts"] = lambda _, log=log: ours(log, "users", "learned", *promise)  # type: ignore[misc]
            methods["weighted, by formula"] = lambda _, log=log: ours(log, "none", "formula", *promise)  # type: ignore[misc]
            methods["ZEALOUS, approximate, best m"] = lambda _, log=log: zealous(log, *promise)  # type: ignore[misc]
        if given.only != "ours":
            held = held_in(log)
            for title, method in PUBLISHED.items():
                methods[title] = lambda seed, method=method, held=held: method(held, *promise, seed)  # type: ignore[misc]
        found = {title: measured(method, given.seeds) for title, method in methods.items()}
        for title, (released, seconds) in found.items():
            print(f"{name:<6} {title:<42} {released:>9,.0f} {seconds:>8.1f} s", flush=True)
        verdicts(name, given.epsilon, given.users, {title: released for title, (released, _) in found.items()})


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
    if others:
        closest = max(others, key=lambda title: others[title])
        print(f"{name:<6} weighted / best published method ({closest}): {best / others[closest]:.2f}")


if __name__ == "__main__":
    main()
