"""The items that weighted selection names under a fixed key, with their noisy weights, after a few rounds on Spark.

As a program: the options of a log, then the file for the results. It says when each round is over, and goes on when a
line comes: the test may kill a worker in between.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from keyed import keyed

import searchveil as sv
from searchveil.cli.options import LogOptions
from searchveil.publish.priorities import ONE, policy_named
from searchveil.publish.rounds_in_engine import HeldInEngine

ROUNDS = 4


def main(path: str, options: str, out: str) -> None:
    whole = policy_named("learned")
    shares, evidence = whole.shares[: ROUNDS - 1], whole.evidence[: ROUNDS - 1]
    few: Any = replace(whole, shares=(*shares, ONE - sum(shares)), evidence=(*evidence, ONE - sum(evidence)))
    log = LogOptions(**json.loads(options)).read([path])
    weighed = HeldInEngine.weighed

    def waiting(held: HeldInEngine, active: Any) -> Any:
        print("a round", flush=True)
        sys.stdin.readline()
        return weighed(held, active)

    with (
        patch("searchveil.publish.weighted.policy_named", lambda _: few),
        patch.object(HeldInEngine, "weighed", waiting),
    ):
        table = sv.Weighted(epsilon=4.0, delta=1e-6, counts="score").release(log, source=keyed(b"7")).table
    Path(out).write_text(json.dumps(table.to_pylist()), encoding="utf-8")
    log.engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
