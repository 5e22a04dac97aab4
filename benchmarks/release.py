"""The whole release by a method, beside DuckDB's plain non-private count over the same file, in one run.

    python benchmarks/release.py [--items query] [--users 657426] [--repeats 3] [--format .parquet]
    python benchmarks/release.py --items query,pair,keyword --format aol
    python benchmarks/release.py --method weighted
    python benchmarks/release.py --method synthetic --repeats 1

The baseline is `select query, count(distinct user) … group by query` into a temporary table. Each starts in a process
of its own with an empty engine; seconds are those of the work (open the file … folder written), the fewest of the
repeats, taken in turns, and so are CPU seconds; imports are apart and shown. Weighted is with counts of users. A log of
a tenth of the users shows how time grows. The format "aol" is the log as the AOL log is distributed: ten gzipped text
files.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import scipy.sparse
import scipy.special
from measure import Run, alone, aol_files, demo_log, report

import searchveil as sv
from searchveil.publish.folder import write_folder

HERE = Path(__file__)
# Of the plain count's seconds, on Parquet.
TARGETS = {"zealous": {"query": 1.0, "pair": 4.0, "keyword": 4.0}, "weighted": {"query": 3.0}, "synthetic": {}}
MOST_MB = {"zealous": 3000, "weighted": 3000, "synthetic": 4000}
MOST_SECONDS = {"synthetic": 480}


def count_plainly(path: str) -> int:
    scan = f"'{path}'" if path.endswith(".parquet") else f"read_csv('{path}', delim='\t', quote='', escape='')"
    user, query = ("user", "query") if path.endswith(".parquet") else ("AnonID", "Query")
    engine = duckdb.connect()
    engine.execute(
        f'create temp table counts as select {query}, count(distinct "{user}") as users from {scan} group by 1'
    )
    row = engine.execute("select count(*) from counts").fetchone()
    assert row is not None
    return int(row[0])


def release(path: str, item: str, method: str) -> int:
    out = Path(tempfile.mkdtemp()) / "release"
    mechanism: Any
    if method == "synthetic":
        mechanism = sv.Synthetic(epsilon=4, delta=1e-6, from_="2024-03-01", to="2024-05-31")
    else:
        mechanism = (sv.Weighted if method == "weighted" else sv.Zealous)(epsilon=1, delta=1e-6, item=item)
    try:
        made = mechanism.release(sv.read_log(path))
        made.write(out)
    finally:
        shutil.rmtree(out.parent)
    return int(made.table.num_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="query", help="with commas between")
    parser.add_argument("--method", default="zealous", choices=list(TARGETS))
    parser.add_argument("--users", type=int, default=657_426)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", default=".parquet", choices=[".parquet", ".tsv", ".tsv.gz", "aol"])
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        # Loaded before the clock starts, as DuckDB is.
        _ = (sv.read_log, sv.Zealous, sv.Weighted, sv.Synthetic, write_folder, scipy.sparse, scipy.special)
        sv.open_engine().close()
        report(
            lambda: count_plainly(given.log) if given.only == "count" else release(given.log, given.only, given.method)
        )
        return

    items = given.items.split(",")
    best: dict[tuple[int, str], Run] = {}
    sizes = (given.users // 10, given.users)
    for users in sizes:
        log = str(aol_files(users) if given.format == "aol" else demo_log(users, given.format))
        for _ in range(given.repeats):
            for what in ("count", *items):
                run = alone(HERE, "--only", what, "--log", log, "--method", given.method)
                best[users, what] = run.least_of(best.get((users, what)))
    print(f"{'users':>9}  {'what':<8} {'seconds':>8} {'CPU s':>8} {'process':>8} {'peak MB':>8} {'rows out':>10}")
    for (users, what), run in best.items():
        times = f"{run.seconds:>8.2f} {run.cpu_seconds:>8.2f} {run.process_seconds:>8.2f}"
        print(f"{users:>9}  {what:<8} {times} {run.peak_mb:>8.0f} {run.result:>10}")
    plain = best[sizes[1], "count"]
    for item in items:
        large, small = best[sizes[1], item], best[sizes[0], item]
        known = given.format == ".parquet" and item in TARGETS[given.method]
        target = f"   (target ≤ {TARGETS[given.method][item]})" if known else ""
        print(f"{given.method} {item} release / plain count: {large.seconds / plain.seconds:.2f}{target}")
        print(f"    the same, CPU seconds {large.cpu_seconds / plain.cpu_seconds:.2f}")
        print(f"    the same, whole processes {large.process_seconds / plain.process_seconds:.2f}")
        print(f"    peak memory {large.peak_mb:.0f} MB (target ≤ {MOST_MB[given.method]})")
        if given.method in MOST_SECONDS:
            print(f"    seconds {large.seconds:.0f} (target ≤ {MOST_SECONDS[given.method]})")
        print(f"    time from a tenth to the whole × {large.seconds / small.seconds:.1f} (target ≤ 11)")


if __name__ == "__main__":
    main()
