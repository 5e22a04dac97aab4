"""SafeLog sessions with clicks beside DuckDB's plain non-private count over the same file, in one run.

python benchmarks/safelog.py [--users 657426] [--repeats 2]
"""

import argparse
from pathlib import Path

from measure import Run, alone, demo_log, report
from release import count_plainly

import searchveil as sv

HERE = Path(__file__)


def sessions(path: str) -> int:
    mechanism = sv.SafeLogSession(epsilon=4, delta=1e-6, sessions_per_user=1, queries_per_session=3, clicks_per_user=4)
    return mechanism.release(sv.read_log(path)).table.num_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=657_426)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", choices=["count", "sessions"], help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        # Loaded before the clock starts, as DuckDB is.
        _ = (sv.read_log, sv.SafeLogSession)
        sv.open_engine().close()
        report(lambda: {"count": count_plainly, "sessions": sessions}[given.only](given.log))
        return
    log = str(demo_log(given.users))
    best: dict[str, Run] = {}
    for _ in range(given.repeats):
        for what in ("count", "sessions"):
            run = alone(HERE, "--only", what, "--log", log)
            if what not in best or run.seconds < best[what].seconds:
                best[what] = run
    for what, run in best.items():
        print(f"{what:<9} {run.seconds:>8.2f} s  {run.peak_mb:>6.0f} MB  {run.result:>9} rows out")
    print(f"sessions / plain count  {best['sessions'].seconds / best['count'].seconds:.2f} (target ≤ 3)")
    print(f"peak memory             {best['sessions'].peak_mb:.0f} MB (target ≤ 6000)")


if __name__ == "__main__":
    main()
