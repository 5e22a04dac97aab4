"""Neighbouring logs for synthetic logs: a lone item in each unknown domain, and users whom the histograms show.

What is released is a table of invented rows, which tells nothing beyond the noisy statistics beside it: these are what
the auditor looks at. All canaries share one log, and each comes or stays away by a coin of her own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.audit.engine import RepeatingEngine
from searchveil.lab.audit.evidence import Key
from searchveil.lab.audit.observed import Enough, Observed, by_coins, chosen
from searchveil.lab.audit.scenes import Canary
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.plan import Plan
from searchveil.publish.synthetic.budget import CANDIDATES, Budget
from searchveil.publish.synthetic.mechanism import Synthetic, SyntheticSettings
from searchveil.publish.synthetic.record import NAME

FIRST, DAYS, QUIET_DAYS = date(2024, 1, 1), 28, 7  # of the audit's period, at whose beginning the crowd is silent
SESSIONS = 150  # of the heavy canary
FEWEST = 1000  # users of the crowd, beside whom one heavy user stands out of every mean
NEXT_TO_NONE = 1e-4  # a σ with which noise is smaller than any change that one user makes
OPEN = 0.01  # a threshold that one user reaches
CLEAR = 10  # standard deviations of next to no noise: what changes by more changes with her
ROUNDED = 0.002  # the last digit of a published number


class Row(NamedTuple):
    minute: int  # of the period
    query: str
    url: str | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Scene:
    """A canary with her searches, and the domain in which she holds an item that nobody else has."""

    name: str
    what: str
    rows: tuple[Row, ...]
    domain: str | None = None

    @property
    def canary(self) -> Canary:
        return Canary(self.name, self.what, (), 0)


def _day(number: int) -> int:
    return number * 24 * 60


def _scenes() -> list[Scene]:
    noon = _day(QUIET_DAYS) + 12 * 60
    heavy = [
        row
        for number in range(SESSIONS)
        for minute in [_day(QUIET_DAYS + number % (DAYS - QUIET_DAYS)) + 45 * (number % 32)]
        for row in (
            Row(minute, "weather", "http://weather.example", 1),
            Row(minute + 1, "weather", "http://weather.example", 30),
            Row(minute + 2, "news", "http://news.example", 2),
            Row(minute + 3, f"cheap flights {number}", "http://flights.example", 9),
        )
    ]
    lone = "whose {} nobody else has"
    return [
        Scene("query", lone.format("query"), (Row(noon, "lonequery"),), "queries"),
        Scene("pair", lone.format("click on a known query"), (Row(noon, "news", "http://lonepair.example"),), "pairs"),
        Scene(
            "transition",
            lone.format("step from one known query to another"),
            (Row(noon, "news"), Row(noon + 1, "weather")),
            "transitions",
        ),
        Scene("word", lone.format("word"), (Row(noon, "loneword flights"),), "words"),
        Scene("bigram", lone.format("pair of known words"), (Row(noon, "flights cheap"),), "bigrams"),
        Scene("url", lone.format("result"), (Row(noon, "cheap flights x", "http://loneurl.example"),), "urls"),
        Scene("heavy", f"who has {SESSIONS} sessions of four searches", tuple(heavy)),
        Scene("early", "who alone searches on the first days", (Row(0, "weather"),)),
    ]


@dataclass(frozen=True)
class SyntheticAuditLog:
    """The scenes for a plan: a crowd so large that what it shares is named."""

    plan: Plan[SyntheticSettings]

    @property
    def budget(self) -> Budget:
        return self.plan.settings.budget

    @cached_property
    def crowd(self) -> int:
        """Each of them holds three items of a domain at most, and gives each a weight of one half."""
        budget = self.budget
        enough = max(2 * (budget.thresholds[name] + 4 * budget.set_sigma(name)) for name in CANDIDATES)
        return max(FEWEST, ceil(enough))

    @cached_property
    def scenes(self) -> list[Scene]:
        return _scenes()

    @property
    def users(self) -> int:
        return self.crowd + len(self.scenes)

    def log(self, joined: Sequence[Scene], replaced: Sequence[Scene], engine: Engine) -> SearchLog:
        """The crowd and those who join it; `replaced` are there with one usual search instead of their own."""
        noon = _day(QUIET_DAYS) + 12 * 60
        usual = (Row(noon, "weather", "http://weather.example", 1), Row(noon + 1, "news", "http://news.example", 1))
        rows = []
        for i in range(self.crowd):
            own = Row(noon + 100, f"cheap flights {i}", "http://flights.example", 1)
            rows += [(f"crowd {i}", row) for row in (*usual, own)]
        rows += [(f"canary {scene.name}", row) for scene in joined for row in scene.rows]
        rows += [(f"canary {scene.name}", usual[0]) for scene in replaced]
        start = np.datetime64(FIRST.isoformat(), "us")
        minutes = np.array([row.minute for _, row in rows], "timedelta64[m]")
        table: dict[str, pa.Array[Any]] = {
            "user": pa.array([user for user, _ in rows], pa.string()),
            "query": pa.array([row.query for _, row in rows], pa.string()),
            "time": pa.array(start + minutes, pa.timestamp("us")),
            "rank": pa.array([row.rank for _, row in rows], pa.int32()),
            "url": pa.array([row.url for _, row in rows], pa.string()),
        }
        if isinstance(engine, RepeatingEngine):
            engine.begin()
        return SearchLog(engine.load(pa.table(table)), engine, source="the audit's log")


@dataclass(frozen=True)
class Shown:
    """What a release tells: texts that were named, and a noisy number for each cell."""

    texts: frozenset[Key]
    numbers: Mapping[Key, float]

    @classmethod
    def of(cls, documents: Mapping[str, Any]) -> "Shown":
        record = documents[NAME]
        named = _named(record)
        texts = {(domain, *item) for domain, items in named.items() for item in items}
        texts.add(("period", *record["period"]))
        numbers: dict[Key, float] = {}
        for statistic, values in record["noisy"].items():
            items = named[LISTS[statistic]] if statistic in LISTS else []
            numbers |= {
                (statistic, *cell): value for cell, value in zip(_cells(items, len(values)), values, strict=True)
            }
        return cls(frozenset(texts), numbers)


# Cells of named texts are told apart by the texts, for another release may have more of them.
LISTS = {
    "volume": "queries",
    "word_volume": "words",
    "bigram_volume": "bigrams",
    "pair_rank": "pairs",
    "pair_volume": "pairs",
    "transition_volume": "transitions",
    "url_volume": "urls",
}


def _named(record: Mapping[str, Any]) -> dict[str, list[Key]]:
    """The texts that a release names, by domain."""
    queries, words = record["queries"], record["words"]
    return {
        "queries": [(text,) for text in queries],
        "pairs": [(queries[number], url) for number, url in record["pairs"]],
        "transitions": [(queries[first], queries[second]) for first, second in record["transitions"]],
        "words": [(text,) for text in words],
        "bigrams": [(words[first], words[second]) for first, second in record["bigrams"]],
        "urls": [(url,) for url in record["urls"]],
    }


def _cells(items: Sequence[Key], number: int) -> list[Key]:
    """The names of so many cells: the same number for each item, then those beyond all items."""
    if not items:
        return [("beyond", str(cell)) for cell in range(number)]
    each = max(1, number // len(items))
    return [
        (*(items[cell // each] if cell < each * len(items) else ("beyond",)), str(cell % each))
        for cell in range(number)
    ]


@dataclass(frozen=True)
class Evidence:
    """What tells of one canary, as found with the promise switched off."""

    texts: frozenset[Key]
    weights: Mapping[Key, float]  # of the released numbers: what she adds, over the noise's variance

    def scores(self, shown: Shown) -> dict[str, float]:
        return {
            "appeared": float(len(self.texts & shown.texts)),
            "evidence": sum(weight * shown.numbers.get(key, 0.0) for key, weight in self.weights.items()),
        }


def is_synthetic(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, Synthetic)


def prepared(mechanism: Mechanism, wanted: Sequence[str] | None) -> tuple[Synthetic, SyntheticAuditLog, list[Scene]]:
    """The mechanism with the auditor's own period, which is public; the log of the audit, and its scenes."""
    assert isinstance(mechanism, Synthetic)
    last = FIRST + timedelta(days=DAYS - 1)
    mechanism = replace(mechanism, from_=FIRST.isoformat(), to=last.isoformat())
    audited = SyntheticAuditLog(mechanism.plan(2))
    return mechanism, audited, chosen(audited.scenes, wanted)


def evidence_of(
    mechanism: Synthetic, audited: SyntheticAuditLog, scenes: Sequence[Scene], engine: Engine, source: Source
) -> list[Evidence]:
    """The control: next to no noise, and for a lone item a threshold that one user reaches. Is every canary seen?"""
    plan, budget = audited.plan, replace(audited.budget, sigma=NEXT_TO_NONE)

    def shown(joined: Sequence[Scene], opened: str | None = None) -> Shown:
        thresholds = budget.thresholds if opened is None else {**budget.thresholds, opened: OPEN}
        careless = replace(plan, settings=replace(plan.settings, budget=replace(budget, thresholds=thresholds)))
        published = mechanism.publish(audited.log(joined, [], engine), careless, source, silent)
        return Shown.of(published.documents)

    nobody, found = shown([]), []
    for scene in scenes:
        alone = shown([scene], scene.domain)
        if scene.domain is None:
            evidence = Evidence(alone.texts - nobody.texts, _weights(nobody, alone, audited.budget, budget))
        else:
            others = shown([other for other in scenes if other is not scene], scene.domain)
            evidence = Evidence(alone.texts - others.texts, {})
        if not (evidence.texts or evidence.weights):
            raise InputError(
                f"the audit cannot see its canary '{scene.name}': with the promise switched off nothing that is "
                "published changes with her, or others show the same"
            )
        found.append(evidence)
    return found


def _weights(without: Shown, with_her: Shown, budget: Budget, careless: Budget) -> dict[Key, float]:
    """Of the best score there is under Gaussian noise: what she adds to each number, over the variance of its noise."""
    return {
        key: (value - without.numbers[key]) / budget.deviation(key[0]) ** 2
        for key, value in with_her.numbers.items()
        if key in without.numbers and abs(value - without.numbers[key]) > CLEAR * careless.deviation(key[0]) + ROUNDED
    }


def observe(
    mechanism: Mechanism,
    wanted: Sequence[str] | None,
    runs: int,
    enough: Enough,
    engine: Engine,
    source: Source,
    progress: Progress,
) -> Observed:
    """Release the crowd with some of the canaries again and again."""
    mechanism, audited, scenes = prepared(mechanism, wanted)
    enough(audited.plan.guarantee, len(scenes))
    progress("control: can every canary be seen when nothing protects her?")
    evidence = evidence_of(mechanism, audited, scenes, engine, source)

    def look(joined: Sequence[Scene], absent: Sequence[Scene]) -> list[dict[str, float]]:
        released = mechanism.release(audited.log(joined, absent, engine), source=source)
        shown = Shown.of(released.documents)
        return [one.scores(shown) for one in evidence]

    scores = by_coins(scenes, look, runs, audited.plan.guarantee, source, progress)
    return Observed(mechanism.plan(audited.users), [scene.canary for scene in scenes], scores)
