"""Weighted selection on a Spark cluster of this machine: seconds, and what the driver's memory comes to.

    python benchmarks/on_cluster.py [--users 65742] [--workers 2]

A master and workers of one core each, as processes of their own, and the command `searchveil release` as the driver,
which is a Python and a Java process. Every round is joins and sums on the workers: the driver sees named items alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from measure import demo_log

TESTS = Path(__file__).parents[1] / "tests"


def peak_mb(process: int) -> dict[str, float]:
    """The largest resident memory so far of a process and of what it started, by name."""
    peaks: dict[str, float] = {}
    waiting = [process]
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        try:
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            waiting += map(int, (folder / "task" / folder.name / "children").read_text().split())
        except (OSError, ValueError):
            continue
        name = status["Name"].strip()
        peaks[name] = max(peaks.get(name, 0.0), int(status.get("VmHWM", "0 kB").split()[0]) / 1024)
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=65_742)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    sys.path += [str(TESTS), str(TESTS / "engine")]
    from cluster import Cluster

    log = demo_log(given.users)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            for _ in range(given.workers):
                cluster.add_worker()
            loopback = ["spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
            settings = [*loopback, f"spark.sql.shuffle.partitions={2 * given.workers}"]
            options = ["--engine", "spark", "--master", cluster.url, "--executor-memory", "900MB", "--memory", "1GB"]
            options += [word for setting in settings for word in ("--spark-conf", setting)]
            asked = ["release", str(log), "--epsilon", "1", "--delta", "1e-6", "--out", f"{folder}/release", "--json"]
            start = time.perf_counter()
            most: dict[str, float] = {}
            running = subprocess.Popen(
                [sys.executable, "-m", "searchveil", *asked, *options],
                env=os.environ | cluster.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )

            def watch() -> None:
                while running.poll() is None:
                    most.update({name: max(mb, most.get(name, 0.0)) for name, mb in peak_mb(running.pid).items()})
                    time.sleep(0.5)

            watching = threading.Thread(target=watch)
            watching.start()
            out, err = running.communicate()
            seconds = time.perf_counter() - start
            watching.join()
            if running.returncode:
                raise RuntimeError(err[-2000:])
            rows = json.loads(out)["rows"]
            print(f"{given.users} users, {given.workers} workers of one core: {seconds:.0f} s, {rows} queries")
            print("the driver's peak memory: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in most.items()))
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
