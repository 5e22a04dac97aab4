"""One piece of work in a process of its own: its seconds, its peak memory and what it says about itself."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Run:
    seconds: float  # of the work, imports and interpreter apart
    process_seconds: float  # of everything
    cpu_seconds: float  # of the work, on all cores
    peak_mb: float
    result: Any

    def least_of(self, other: "Run | None") -> "Run":
        """Of two runs of the same, the fewest seconds of each kind and the higher peak."""
        if other is None:
            return self
        return Run(
            min(self.seconds, other.seconds),
            min(self.process_seconds, other.process_seconds),
            min(self.cpu_seconds, other.cpu_seconds),
            max(self.peak_mb, other.peak_mb),
            self.result,
        )


def alone(script: Path, *arguments: str, python: str = sys.executable) -> Run:
    """Run `script arguments`, which must end by calling `report`."""
    start = time.perf_counter()
    done = subprocess.run([python, str(script), *arguments], capture_output=True, text=True)
    elapsed = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{script.name} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return Run(said["seconds"], elapsed, said["cpu_seconds"], said["peak_mb"], said["result"])


def report(work: Callable[[], Any]) -> None:
    """Do the work in this process and tell the one that started it."""
    start, cpu_start = time.perf_counter(), time.process_time()
    result = work()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    status = Path("/proc/self/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    said = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak_kb / 1024, "result": result}
    print(json.dumps(said))


def demo_log(users: int, suffix: str = ".parquet") -> Path:
    """A demo log of that many users, made once and kept."""
    from searchveil.log.demo import write_demo

    path = DATA / f"demo-{users}{suffix}"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        print(f"making {path.name}", file=sys.stderr, flush=True)
        write_demo(path, users=users, seed=1)
    return path


def aol_files(users: int, files: int = 10) -> Path:
    """The same log as the AOL log is distributed: gzipped text, a part of the users in each file. A glob of them."""
    import duckdb

    log, folder = demo_log(users), DATA / f"aol-{users}"
    if not folder.exists():
        print(f"making {folder.name}", file=sys.stderr, flush=True)
        partial = folder.with_suffix(".partial")
        partial.mkdir(exist_ok=True)
        columns = 'user as "AnonID", query as "Query", time as "QueryTime", rank as "ItemRank", url as "ClickURL"'
        layout = "format csv, delimiter '\t', header, quote '', escape '', timestampformat '%Y-%m-%d %H:%M:%S'"
        for i in range(files):
            rows = f"select {columns} from '{log}' as log where log.user * {files} // {users + 1} = {i}"
            out = partial / f"user-ct-test-collection-{i + 1:02}.txt.gz"
            duckdb.execute(f"copy ({rows}) to '{out}' ({layout}, compression gzip)")
        partial.rename(folder)
    return folder / "*.txt.gz"
