"""The audit of a method that samples users: the right one passes, and every mutant is refuted.

Keys are fixed, so nothing fails by chance on unchanged code.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.errors import InputError
from searchveil.items import CLICK
from searchveil.items.pool import QueryPool
from searchveil.lab.audit import audit
from searchveil.log import SearchLog
from searchveil.privacy.noise import Integers, Poisson, Source
from searchveil.progress import Progress
from searchveil.publish import individual
from searchveil.publish.individual import Drawn, draw
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Plan
from searchveil.publish.sampling import Sampling
from searchveil.publish.weighted import Weighted

ANY = pa.table({"query": ["the auditor"], "url": ["http://brings-her-own.example"]})


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        Sampling(delta=0.2, candidates=ANY),
        Sampling(delta=0.2, candidates=ANY, neighbours="replace-one"),
        Sampling(epsilon=0.5, delta=0.2, selection_delta=0.1),
    ],
    ids=["public pairs", "public pairs, replace-one", "chosen pairs"],
)
def test_individual_rates_are_not_refuted(mechanism: Sampling) -> None:
    report = audit(mechanism, runs=60, confidence=0.99, source=keyed(b"right"))
    assert report.verdict == "not refuted", str(report)
    assert [finding.canary for finding in report.findings] == ["lone", "appearing", "heavy", "scattered", "crowding"]
    assert all(finding.runs and finding.runs_of_neighbour for finding in report.findings)


@pytest.mark.slow
def test_the_auditor_brings_pairs_where_queries_are_public(tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("news\n")
    pool = QueryPool.from_file(tmp_path / "queries.txt", tmp_path / "pool.parquet")
    report = audit(Sampling(delta=0.1, pool=pool), runs=36, canaries=["heavy"], source=keyed(b"pool"))
    assert report.verdict == "not refuted"
    assert report.guarantee.epsilon == 0


def rate_for_each_click(clicks: Integers, rate: float, source: Source) -> Drawn:
    """Not scaled to the user."""
    every = draw(np.ones(int(clicks.sum()), np.int64), rate, source)
    starts = np.cumsum(clicks) - clicks
    owner = np.asarray(np.searchsorted(starts, every.holders, "right"), np.int64) - 1
    return Drawn(owner, every.holders - starts[owner], every.times)


def one_at_least(clicks: Integers, rate: float, source: Source) -> Drawn:
    """Nobody is left out: an empty draw is drawn again."""
    return Drawn(np.arange(len(clicks)), source.below(clicks), np.ones(len(clicks), np.int64))


def as_many_as_users(clicks: Integers, rate: float, source: Source) -> Drawn:
    """As many draws in all as there should be, each of any click: one user's clicks take those of others away."""
    starts = np.cumsum(clicks) - clicks
    number = int(Poisson(rate * len(clicks)).sample(1, source)[0])
    every, times = np.unique(source.below(np.full(number, clicks.sum())), return_counts=True)
    owner = np.asarray(np.searchsorted(starts, every, "right"), np.int64) - 1
    return Drawn(owner, every - starts[owner], times)


@dataclass(frozen=True)
class OtherDraws(Sampling):
    drawing: Any = None

    def publish(self, log: SearchLog, plan: Plan[Any], source: Source, progress: Progress) -> Published:
        with patch.object(individual, "draw", self.drawing):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class AllPairs(Sampling):
    """Every pair that anybody clicked may be drawn, whatever the noise says."""

    def publish(self, log: SearchLog, plan: Plan[Any], source: Source, progress: Progress) -> Published:
        def everything(*_: Any, **__: Any) -> Published:
            return Published({"data": log.engine.fetch(CLICK.of(log).select("query", "url").distinct())})

        with patch.object(Weighted, "publish", everything):
            return super().publish(log, plan, source, progress)


MUTANTS: dict[str, tuple[Sampling, list[str]]] = {
    "a rate for each click": (
        OtherDraws(delta=0.3, candidates=ANY, drawing=rate_for_each_click),
        ["heavy", "scattered"],
    ),
    "one row at least": (OtherDraws(delta=0.3, candidates=ANY, drawing=one_at_least), ["appearing"]),
    "the clicks of all in one urn": (OtherDraws(delta=0.3, candidates=ANY, drawing=as_many_as_users), ["crowding"]),
    "every pair may be drawn": (AllPairs(epsilon=0.5, delta=0.3, selection_delta=0.1), ["lone"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refuted(name: str) -> None:
    mechanism, canaries = MUTANTS[name]
    report = audit(mechanism, runs=60, canaries=canaries, source=keyed(name.encode()))
    assert report.refuted_by == tuple(canaries), str(report)


def test_canaries_that_cannot_be_seen_and_unknown_ones_are_refused() -> None:
    nothing = OtherDraws(
        delta=0.3, candidates=ANY, drawing=lambda *_: Drawn(*(np.zeros(0, np.int64) for _ in Drawn._fields))
    )
    with pytest.raises(InputError, match="cannot see its canary 'heavy'"):
        audit(nothing, runs=60, canaries=["heavy"], source=keyed(b"nothing"))
    with pytest.raises(InputError, match="no canary 'unique' for this method; there are lone, appearing"):
        audit(Sampling(delta=0.3, candidates=ANY), runs=60, canaries=["unique"])


def test_the_papers_programs_have_nothing_to_audit_end_to_end() -> None:
    report = audit(Sampling(delta=0.5, sampler="poisson"))
    assert report.verdict == "nothing to audit"
    assert "one step only" in str(report)
