"""How many cores this process may use, and work for all of them."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

P = TypeVar("P")
R = TypeVar("R")


def usable_cores() -> int:
    """Those that the system allows this process; not every system can tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_all_cores(work: Callable[[P], R], parts: Iterable[P]) -> list[R]:
    """What the work makes of each part, in their order. For NumPy, which lets go of the interpreter meanwhile."""
    parts = list(parts)
    if len(parts) < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(usable_cores()) as threads:
        return list(threads.map(work, parts))
