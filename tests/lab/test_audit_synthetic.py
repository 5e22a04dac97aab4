"""The audit of synthetic logs: the right method passes, and every mutant is refuted.

Keys are fixed, so nothing fails by chance on unchanged code. With another key a true promise is refuted with a
probability of 5 % at most, by the theorem of docs/audit.md; by the exact binomial law, of 0.0003 at most for a method
that loses all of the ε and δ that it claims (the 36 and 48 runs below, all canaries together). How likely a broken
promise is refuted is computed in `power`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from math import comb, isqrt
from typing import Any
from unittest.mock import patch

import ibis.expr.types as ir
import numpy as np
import pytest
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.audit import CHOOSING, audit
from searchveil.lab.audit import synthetic as scenes
from searchveil.lab.estimate import epsilon_proved
from searchveil.log import SearchLog
from searchveil.privacy.noise import Integers, Source
from searchveil.progress import Progress
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Plan
from searchveil.publish.synthetic import statistics
from searchveil.publish.synthetic.mechanism import Synthetic
from searchveil.publish.synthetic.searches import Period
from searchveil.publish.synthetic.statistics import Measuring
from searchveil.publish.weighted import COUNT_UNIT

CANARIES = ["query", "pair", "transition", "word", "bigram", "url", "heavy", "early"]


# With 40 runs a mutant that is always seen is refuted but for a chance of 1 in 5,000.
MUTANT_RUNS = 40
# With these, what is always seen with a canary and never without her is proved but for a chance of 1 in 80.
RUNS: dict[str, tuple[int, list[str]]] = {"add-remove": (48, CANARIES), "replace-one": (36, ["word", "heavy"])}


def power(runs: int, delta: float, canaries: int) -> float:
    """How likely coins fall such that an event always seen with a canary, and never without her, proves ε > 0.3."""
    proving = runs - int(runs * CHOOSING)
    proved = (
        epsilon_proved(there, there, 0, proving - there, delta, 0.05 / canaries) > 0.3 for there in range(proving + 1)
    )
    return sum(comb(proving, there) * 0.5**proving for there, enough in enumerate(proved) if enough)


@pytest.mark.parametrize("neighbours", RUNS)
def test_as_many_runs_would_refute_what_shows_a_canary(neighbours: str) -> None:
    runs, wanted = RUNS[neighbours]
    assert power(runs, 0.1, len(wanted)) > 1 - 1 / 80
    assert power(MUTANT_RUNS, 0.1, 1) > 1 - 1 / 5000


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RUNS)
def test_the_right_method_is_not_refuted(neighbours: Any) -> None:
    runs, wanted = RUNS[neighbours]
    mechanism = Synthetic(0.3, 0.1, neighbours=neighbours, scale=0.1)
    report = audit(mechanism, runs=runs, canaries=wanted, source=keyed(b"right"))
    assert report.verdict == "not refuted", str(report)
    assert [finding.canary for finding in report.findings] == wanted
    assert all(finding.runs and finding.runs_of_neighbour for finding in report.findings)


def by_the_mean(amounts: ir.Table, size: int, squared_length: int, engine: Engine, percent: int = 0) -> Integers:
    """One unit for all, with which users' vectors are as long as allowed on average."""
    found = engine.fetch(amounts.select("user", "_place", "_amount"))
    place, amount = found["_place"].to_numpy(), found["_amount"].to_numpy()
    users, squares = len(set(found["user"].to_pylist())), int((amount * amount).sum())
    unit = min(COUNT_UNIT, isqrt(squared_length * users // max(squares, 1)))
    totals = np.zeros(size, np.int64)
    np.add.at(totals, place, amount * unit)
    return totals


Named = Callable[[Measuring, str, ir.Table, tuple[str, ...]], list[tuple[str, ...]]]
named: Named = Measuring.named


def every_word(measuring: Measuring, domain: str, held: ir.Table, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    if domain != "words":
        return named(measuring, domain, held, columns)
    rows = measuring.log.engine.fetch(held.select(*columns).distinct())
    return sorted((str(word),) for word in rows["word"].to_pylist())


@dataclass(frozen=True)
class MeanBeforeNoise(Synthetic):
    """What a user adds is scaled by a mean over users."""

    def publish(self, log: SearchLog, plan: Plan[Any], source: Source, progress: Progress) -> Published:
        with patch.object(statistics, "scaled_totals", by_the_mean):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class OwnDates(Synthetic):
    """The period is the first and the last day that the log has."""

    def publish(self, log: SearchLog, plan: Plan[Any], source: Source, progress: Progress) -> Published:
        ends: Mapping[str, Any] = log.engine.fetch(
            log.table.agg(first=log.table["time"].min(), last=log.table["time"].max())
        ).to_pylist()[0]
        first, last = (date.fromisoformat(str(ends[name])[:10]) for name in ("first", "last"))
        own = replace(plan, settings=replace(plan.settings, period=Period(first, last)))
        return super().publish(log, own, source, progress)


@dataclass(frozen=True)
class TrueVocabulary(Synthetic):
    """All words of the log are the domain, not those that the noise names."""

    def publish(self, log: SearchLog, plan: Plan[Any], source: Source, progress: Progress) -> Published:
        with patch.object(Measuring, "named", every_word):
            return super().publish(log, plan, source, progress)


MUTANTS: dict[str, tuple[type[Synthetic], str]] = {
    "a mean over users before noise": (MeanBeforeNoise, "heavy"),
    "the log's own date range": (OwnDates, "early"),
    "the true vocabulary as a domain": (TrueVocabulary, "word"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refuted(name: str) -> None:
    """Dates and words are seen always; the mean moves the evidence by 37 deviations of its noise."""
    kind, canary = MUTANTS[name]
    report = audit(kind(0.3, 0.1, scale=0.1), runs=MUTANT_RUNS, canaries=[canary], source=keyed(name.encode()))
    assert report.refuted_by == (canary,), str(report)


@pytest.mark.slow
def test_a_canary_that_cannot_be_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "_scenes", lambda: [scenes.Scene("silent", "who searches nothing", ())])
    with pytest.raises(InputError, match="cannot see its canary 'silent'"):
        audit(Synthetic(0.3, 0.1), runs=30, source=keyed(b"silent"))


def test_unknown_canaries_and_too_few_runs_are_refused() -> None:
    with pytest.raises(InputError, match="no canary 'unique' for this method; there are query, pair, transition"):
        audit(Synthetic(0.3, 0.1), runs=60, canaries=["unique"])
    with pytest.raises(InputError, match="30 runs cannot refute"):
        audit(Synthetic(2.0, 0.1), runs=30, canaries=["word"])
