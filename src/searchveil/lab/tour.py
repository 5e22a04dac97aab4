"""The whole story on a demo log: what was in it, what was published, what it is good for, what an attacker learned."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from searchveil.lab.attacks.reidentification import Reidentification, attack_reidentification
from searchveil.lab.measures.compare import covered_volume, top_items
from searchveil.lab.view import View
from searchveil.log import read_log
from searchveil.log.demo import DemoLog, planted_personal_queries, write_demo
from searchveil.progress import Progress, silent
from searchveil.publish.release import Release
from searchveil.publish.weighted import Weighted

POPULAR = 50  # queries that anybody would ask about first


@dataclass(frozen=True)
class Tour:
    log: DemoLog
    queries: int  # different ones
    private: str  # one of the planted personal queries
    release: Release
    folder: Path
    covered: float  # the share of searches whose query was published
    popular: float  # the share of the most popular queries that were published
    error: float  # how far the count of a popular query is off, in the middle of all: a share of the count
    attack: Reidentification


def tour(folder: Path, *, users: int, seed: int, epsilon: float, delta: float, progress: Progress = silent) -> Tour:
    """Make the demo log and a release of it in a folder, and look at both. Every figure is measured on the spot."""
    progress("making the log")
    demo = write_demo(folder / "log.tsv", users=users, seed=seed)
    log = read_log(demo.path)
    try:
        progress("releasing")
        release = Weighted(epsilon, delta).release(log, progress=progress)
        made = release.write(folder / "release")
        progress("looking at what it is good for")
        original, released = View.of_log(log), View.of_release(release, log.engine)
        top = top_items(original.counted_as(released), released, "query", POPULAR)
        off = abs(top.release - top.original)[top.published] / top.original[top.published]
        planted = planted_personal_queries(users, seed)
        found = attack_reidentification(log, release, planted=planted, progress=progress)
        return Tour(
            demo,
            int(log.engine.value(original.tables["query"].count())),
            _example(planted),
            release,
            made,
            covered_volume(original, released),
            float(top.published.mean()) if len(top) else 0.0,
            float(sorted(off)[len(off) // 2]) if len(off) else 0.0,
            found,
        )
    finally:
        log.engine.close()


def _example(planted: pa.Table) -> str:
    return min((str(query) for query in planted["query"].to_pylist()), key=lambda text: (abs(len(text) - 25), text))
