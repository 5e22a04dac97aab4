"""`evaluate` on a log of AOL's size: every measure and application, its seconds and its peak memory.

    python benchmarks/evaluate.py [--users 657426] [--steps]

Two releases, each evaluated in a process of its own: SafeLog sessions with clicks, which every application can use,
and a sample of clicks with its users, which has the measures that need users. Seconds are those of reading the log and
all that follows; memory is the largest resident size of the process, the engine and the click graph included.
"""

import argparse
import shutil
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from measure import alone, demo_log, report

import searchveil as sv
from searchveil.lab.applications import APPLICATIONS
from searchveil.lab.measures import MEASURES

HERE = Path(__file__)
MECHANISMS = {
    "sessions and clicks": sv.SafeLogSession(epsilon=4, delta=1e-6, queries_per_session=3, clicks_per_user=4),
    "sampled clicks": sv.Sampling(delta=0.5, sampler="poisson"),
}
MOST_SECONDS, MOST_MB = 300, 6000


def make(log: str, name: str, out: Path) -> int:
    made = MECHANISMS[name].release(sv.read_log(log))
    made.write(out)
    return made.table.num_rows


def evaluate(log: str, folder: Path) -> dict[str, object]:
    begun: list[tuple[float, str]] = []
    found = sv.evaluate(folder, sv.read_log(log), progress=lambda step: begun.append((time.perf_counter(), step)))
    begun.append((time.perf_counter(), ""))
    steps = {step: end - start for (start, step), (end, _) in pairwise(begun)}
    return {"measures": len(found.measures), "applications": len(found.applications), "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=657_426)
    parser.add_argument("--steps", action="store_true", help="print the seconds of each step, too")
    parser.add_argument("--only", choices=["make", "evaluate"], help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        sv.open_engine().close()  # loaded before the clock starts
        if given.only == "make":
            report(lambda: make(given.log, given.name, given.folder))
        else:
            report(lambda: evaluate(given.log, given.folder))
        return
    log = str(demo_log(given.users))
    folder = Path(tempfile.mkdtemp())
    columns = ("measures", 9), ("applications", 13), ("seconds", 8), ("CPU s", 8), ("peak MB", 8)
    print(f"{'release':<20} {'rows':>6}", *(f"{column:>{width}}" for column, width in columns))
    try:
        for i, name in enumerate(MECHANISMS):
            of = ("--log", log, "--name", name, "--folder", str(folder / str(i)))
            rows = alone(HERE, "--only", "make", *of).result
            run = alone(HERE, "--only", "evaluate", *of)
            measures = f"{run.result['measures']} of {len(MEASURES)}"
            applications = f"{run.result['applications']} of {len(APPLICATIONS)}"
            times = f"{run.seconds:>8.1f} {run.cpu_seconds:>8.1f} {run.peak_mb:>8.0f}"
            print(f"{name:<20} {rows:>6} {measures:>9} {applications:>13} {times}", flush=True)
            if given.steps:
                for step, seconds in run.result["steps"].items():
                    print(f"    {seconds:>6.1f} s  {step}")
    finally:
        shutil.rmtree(folder)
    print(f"targets: ≤ {MOST_SECONDS} s, ≤ {MOST_MB} MB")


if __name__ == "__main__":
    main()
