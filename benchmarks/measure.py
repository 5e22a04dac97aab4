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
    peak_mb: float
    result: Any


def alone(script: Path, *arguments: str, python: str = sys.executable) -> Run:
    """Run `script arguments`, which must end by calling `report`."""
    start = time.perf_counter()
    done = subprocess.run([python, str(script), *arguments], capture_output=True, text=True)
    elapsed = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{script.name} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return Run(said["seconds"], elapsed, said["peak_mb"], said["result"])


def report(work: Callable[[], Any]) -> None:
    """Do the work in this process and tell the one that started it."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_kb / 1024, "result": result}))


def demo_log(users: int, suffix: str = ".parquet") -> Path:
    """A demo log of that many users, made once and kept."""
    from searchveil.log.demo import write_demo

    path = DATA / f"demo-{users}{suffix}"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        print(f"making {path.name}", file=sys.stderr, flush=True)
        write_demo(path, users=users, seed=1)
    return path
