"""What every peer script has in common: the same arguments in, the same few figures out, the same clock."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """Publish how many users asked each query, where a user is added or removed with all of their rows."""

    log: str
    epsilon: float
    delta: float
    per_user: int
    variant: str


@dataclass(frozen=True)
class Outcome:
    released: int
    total: float  # the sum of the published counts: at a large ε, what the users were allowed to contribute
    note: str


def answer(release: Callable[[Task], Outcome]) -> None:
    """Time `release` alone: the interpreter has started and the imports are done when this is called."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--per-user", type=int, required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--out", type=Path, required=True)
    arguments = vars(parser.parse_args())
    out = arguments.pop("out")
    start = time.perf_counter()
    outcome = release(Task(**arguments))
    seconds = time.perf_counter() - start
    out.write_text(json.dumps({**asdict(outcome), "seconds": seconds}))
