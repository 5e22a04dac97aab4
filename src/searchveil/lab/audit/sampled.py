"""Neighbouring logs for a method that samples users: who appears too often, and who changes what others show?

The other scenes are built around counts and thresholds. Here a canary is a user whose rows can be told from all others
by a pair or a rank that nobody else has, or one who weighs so much that the rows of others might become fewer. All
canaries share one log, and each comes or stays away by a coin of her own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import pyarrow as pa

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.audit.engine import RepeatingEngine
from searchveil.lab.audit.evidence import SCORES, Key, Observation, Watched
from searchveil.lab.audit.observed import Enough, Observed, by_coins, chosen
from searchveil.lab.audit.scenes import START, Canary, letters
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.individual import IndividualSettings
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.plan import Plan
from searchveil.publish.sampling import Sampling

POPULAR = 8  # pairs that a crowd clicks
MANY = 400  # clicks of one user
USUAL_RANK = 1
FEWEST = 12  # users of a crowd where no threshold asks for more
SURELY = 1 - 2.0**-40  # δ at which everybody appears, but for once in 10^12

Click = tuple[str, int]  # a query, whose url follows from it, and a rank
Counts = Mapping[Key, float]


@dataclass(frozen=True)
class Scene:
    """A canary with her clicks, and what the auditor watches: hers alone, or what others show beside her."""

    name: str
    what: str
    history: tuple[Click, ...]
    watched: tuple[Key, ...]
    others: int = 0  # users who show what is watched without her

    @property
    def canary(self) -> Canary:
        return Canary(self.name, self.what, (), self.others)


@dataclass(frozen=True)
class SampledAuditLog:
    """The scenes for a plan: crowds large enough that their pairs are named."""

    plan: Plan[IndividualSettings]

    @cached_property
    def crowd(self) -> int:
        weights = self.plan.settings.weights
        return FEWEST if weights is None else ceil(weights.threshold + 5 * weights.sigma)

    @cached_property
    def popular(self) -> list[str]:
        return [f"popular-{letters(i)}" for i in range(POPULAR)]

    @cached_property
    def scenes(self) -> list[Scene]:
        first, second = self.popular[:2]
        return [
            Scene("lone", "whose pair nobody else clicked", (("lone", USUAL_RANK),), _shown("lone", USUAL_RANK)),
            Scene("appearing", "who clicked one common pair once", ((first, 2),), _shown(first, 2)),
            Scene("heavy", f"who clicked one common pair {MANY} times", ((first, 3),) * MANY, _shown(first, 3)),
            Scene(
                "scattered",
                f"who clicked {POPULAR} common pairs",
                tuple((query, 4) for query in self.popular),
                tuple(key for query in self.popular for key in _shown(query, 4)),
            ),
            Scene(
                "crowding",
                f"who clicked one common pair {MANY} times, seen by what others show of it",
                ((second, 5),) * MANY,
                _shown(second, USUAL_RANK),
                self.crowd,
            ),
        ]

    @property
    def pairs(self) -> pa.Table:
        """Every pair that anybody clicks."""
        queries = dict.fromkeys([*self.popular, *(query for scene in self.scenes for query, _ in scene.history)])
        return pa.table({"query": list(queries), "url": [_url(query) for query in queries]})

    @property
    def users(self) -> int:
        return self.crowd * POPULAR + len(self.scenes)

    def log(self, joined: Sequence[Scene], replaced: Sequence[Scene], engine: Engine) -> SearchLog:
        """The crowds and those who join them; `replaced` are there with one usual click instead of their own."""
        clicks = [(f"{query} {i}", query, USUAL_RANK) for query in self.popular for i in range(self.crowd)]
        clicks += [(f"canary {scene.name}", *click) for scene in joined for click in scene.history]
        clicks += [(f"canary {scene.name}", self.popular[-1], USUAL_RANK) for scene in replaced]
        users, queries, ranks = zip(*clicks, strict=True)
        table: dict[str, pa.Array[Any]] = {
            "user": pa.array(users, pa.string()),
            "query": pa.array(queries, pa.string()),
            "time": pa.array([START] * len(clicks), pa.timestamp("us")),
            "rank": pa.array(ranks, pa.int32()),
            "url": pa.array(map(_url, queries), pa.string()),
        }
        if isinstance(engine, RepeatingEngine):
            engine.begin()
        return SearchLog(engine.load(pa.table(table)), engine, source="the audit's log")


def _url(query: str) -> str:
    return f"http://{query}.example"


def _shown(query: str, rank: int) -> tuple[Key, ...]:
    return (("data", query, _url(query), str(rank)),)


def shown_counts(tables: Mapping[str, pa.Table]) -> dict[Key, float]:
    """What the sample shows of each pair at each rank, and which pairs could have been drawn."""
    counts: dict[Key, float] = {}
    rows: list[dict[str, Any]] = tables["data"].to_pylist()
    for row in rows:
        key = ("data", row["query"], row["url"], str(row["rank"]))
        counts[key] = counts.get(key, 0) + row["count"]
    if "vocabulary" in tables:
        named: list[dict[str, Any]] = tables["vocabulary"].to_pylist()
        counts.update({("vocabulary", row["query"], row["url"]): 1 for row in named})
    return counts


def samples_users(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, Sampling) and mechanism.sampler == "individual"


def prepared(mechanism: Mechanism, wanted: Sequence[str] | None) -> tuple[Sampling, SampledAuditLog, list[Scene]]:
    """The mechanism with the auditor's pairs where its own are public, the log of the audit, and its scenes."""
    assert isinstance(mechanism, Sampling)
    plan: Plan[Any] = mechanism.plan(2)
    audited = SampledAuditLog(plan)
    scenes = chosen(audited.scenes, wanted)
    if mechanism.candidates is not None or mechanism.pool is not None:
        mechanism = replace(mechanism, candidates=audited.pairs, pool=None)
    return mechanism, audited, scenes


def require_seen(
    mechanism: Sampling, audited: SampledAuditLog, scenes: Sequence[Scene], engine: Engine, source: Source
) -> None:
    """The control: with public pairs and δ near 1 everybody appears. Is every canary seen, and by herself alone?"""
    off = replace(mechanism, delta=SURELY, epsilon=None, selection_delta=None, candidates=audited.pairs, pool=None)

    def seen(joined: Sequence[Scene]) -> Counts:
        log = audited.log(joined, [], engine)
        return shown_counts(off.publish(log, off.plan(2), source, silent).tables)

    for scene in scenes:
        alone, others = seen([scene]), seen([other for other in scenes if other is not scene])
        own = [("data", query, _url(query), str(rank)) for query, rank in scene.history]
        if not all(key in alone and key not in others for key in own):
            raise InputError(
                f"the audit cannot see its canary '{scene.name}': with the promise switched off her rows do not "
                "appear, or others show the same"
            )


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
    plan = mechanism.plan(audited.users)
    enough(plan.guarantee, len(scenes))
    require_seen(mechanism, audited, scenes, engine, source)

    def look(joined: Sequence[Scene], absent: Sequence[Scene]) -> list[dict[str, float]]:
        counts = shown_counts(mechanism.release(audited.log(joined, absent, engine), source=source).tables)
        return [_scores(scene, counts) for scene in scenes]

    scores = by_coins(scenes, look, runs, plan.guarantee, source, progress)
    return Observed(plan, [scene.canary for scene in scenes], scores)


def _scores(scene: Scene, counts: Counts) -> dict[str, float]:
    """How much what was published speaks for the scene's canary, by each of the auditor's scores."""
    named = tuple(("vocabulary", query, _url(query)) for query, _ in scene.history if query == scene.name)
    watched = [Watched(key, scene.others) for key in (*scene.watched, *named)]
    seen = Observation(counts, watched, (), (), max(1, scene.others), 1.0)
    return {name: score(seen) for name, (_, score) in SCORES.items()}
