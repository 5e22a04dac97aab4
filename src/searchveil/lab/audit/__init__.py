"""Is a promise of privacy broken? Many releases of neighbouring logs, and what they prove. See docs/audit.md."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa

from searchveil.errors import InputError
from searchveil.lab.audit.evidence import SCORES, Finding, Runs, View, choose, published_counts
from searchveil.lab.audit.scenes import Canary, Shape, Stage, Watched, canaries_for, favourites
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Source
from searchveil.privacy.rounding import at_least, at_most
from searchveil.progress import Progress, silent
from searchveil.publish.mechanism import Mechanism

__all__ = ["AuditReport", "Finding", "audit"]

SCOUTING = 12  # releases before the first canary, to see which of many equal items come out
LEAST_RUNS = 24
CHOOSING = 1 / 3  # of the runs choose the events, the others prove


@dataclass(frozen=True)
class AuditReport:
    """What was claimed, what was proved, canary by canary, and the verdict."""

    method: str
    guarantee: Guarantee
    parameters: Mapping[str, Any]
    runs: int
    confidence: float
    findings: tuple[Finding, ...]
    nothing_to_audit: str = ""  # why, where there is nothing

    @property
    def epsilon_at_least(self) -> float:
        return max((finding.epsilon_at_least for finding in self.findings), default=0.0)

    @property
    def refuted(self) -> bool:
        return self.epsilon_at_least > self.guarantee.epsilon

    @property
    def refuted_by(self) -> tuple[str, ...]:
        return tuple(f.canary for f in self.findings if f.epsilon_at_least > self.guarantee.epsilon)

    @property
    def verdict(self) -> str:
        if self.nothing_to_audit:
            return "nothing to audit"
        return "refuted" if self.refuted else "not refuted"

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "claimed_epsilon": self.guarantee.epsilon if isfinite(self.guarantee.epsilon) else None,
            "claimed_delta": self.guarantee.delta,
            "neighbours": self.guarantee.neighbours,
            "runs": self.runs,
            "confidence": self.confidence,
            "epsilon_at_least": self.epsilon_at_least,
            "verdict": self.verdict,
            "refuted": self.refuted,
            "refuted_by": list(self.refuted_by),
            "nothing_to_audit": self.nothing_to_audit,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        if self.nothing_to_audit:
            return f"{self.method}: nothing to audit. {self.nothing_to_audit}"
        promise = self.guarantee
        epsilon, delta = at_most(promise.epsilon, 4), at_most(promise.delta, 3)
        claim = f"{self.method} claims ε = {epsilon}, δ = {delta} ({promise.neighbours})"
        shown = at_least(self.epsilon_at_least, 3)
        proved = f"{self.runs} releases prove ε ≥ {shown} at that δ ({self.confidence:.4g} confidence)"
        if self.refuted:
            verdict = f"REFUTED by {', '.join(self.refuted_by)}."
        else:
            verdict = "Not refuted; that is no proof that the claim is true."
        return "\n".join([f"{claim}; {proved}. {verdict}", *map(str, self.findings)])


def audit(
    mechanism: Mechanism,
    *,
    runs: int = 600,
    canaries: Sequence[str] | None = None,
    confidence: float = 0.95,
    source: Source | None = None,
    progress: Progress = silent,
) -> AuditReport:
    """Release logs with and without canaries `runs` times and bound ε from below, at the claimed δ.

    `canaries` names those to play, all that make sense for the mechanism unless told. A true promise is refuted with a
    probability of at most 1 − `confidence`, over all canaries together.
    """
    from searchveil.lab.audit.engine import RepeatingEngine

    if not 0 < confidence < 1:
        raise InputError(f"the confidence is a probability, not {confidence:g}; try 0.95")
    if runs < LEAST_RUNS:
        raise InputError(f"an audit needs at least {LEAST_RUNS} runs, not {runs}; hundreds prove something")
    silence = _nothing_to_audit(mechanism)
    if silence is not None:
        return silence
    source = source or Source()
    with tempfile.TemporaryDirectory(prefix="searchveil-audit-") as folder:
        mechanism, stage = _on_stage(mechanism, canaries, 0, Path(folder))
        engine = RepeatingEngine()
        try:
            if any(canary.name == "favourite" for canary in stage.canaries):
                progress("looking for items that come out more often than others like them")
                chosen = _favourite(mechanism, stage, engine, source)
                mechanism, stage = _on_stage(mechanism, canaries, chosen, Path(folder))
            played = _play(mechanism, stage, engine, runs, source, progress)
        finally:
            engine.close()
        plan = mechanism.plan(_users(stage))
    error = (1 - confidence) / len(stage.canaries)
    first = int(runs * CHOOSING)

    def finding(canary: Canary, scores: Sequence[Scored]) -> Finding:
        event = choose(_split(scores[:first]), plan.guarantee.delta)
        return Finding.of(canary, event, _split(scores[first:]), plan.guarantee.delta, error)

    findings = tuple(map(finding, stage.canaries, played))
    return AuditReport(plan.method, plan.guarantee, plan.parameters, runs, confidence, findings)


def _nothing_to_audit(mechanism: Mechanism) -> AuditReport | None:
    """A report without runs, for what claims no differential privacy or claims it only in part."""
    plan = mechanism.plan(1000)
    why = ""
    if plan.guarantee.notion == "sampling-step":
        why = "It promises something of one step only, and what the log decides before that is taken as public."
    elif plan.guarantee.notion == "none":
        why = "It claims no differential privacy: its ε is infinite, and no log refutes that."
    elif plan.guarantee.unprotected:
        why = (
            "Its promise does not cover all that the log decides, so neighbouring logs may be told apart without "
            f"breaking it. Not covered: {'; '.join(plan.guarantee.unprotected)}."
        )
    return AuditReport(plan.method, plan.guarantee, plan.parameters, 0, 0.0, (), why) if why else None


def _on_stage(
    mechanism: Mechanism, wanted: Sequence[str] | None, favourite: int, folder: Path
) -> tuple[Mechanism, Stage]:
    """The scenes for a mechanism, and the mechanism with the scenes' texts as its public inputs.

    A pool or candidates are public whatever they are, so the promise must hold for those that suit the auditor.
    """
    public = {field.name for field in fields(mechanism) if getattr(mechanism, field.name) is not None}
    stage = _stage(mechanism, wanted, favourite)
    changed: dict[str, Any] = {}
    if "candidates" in public:
        pairs = [pair for f in stage.fragments for pair in zip(f.queries, f.urls, strict=True)]
        changed["candidates"] = pa.table({"query": [q for q, _ in pairs], "url": [u for _, u in pairs]})
    if "transition_candidates" in public:
        first = [f.queries[0] for f in stage.fragments]
        changed["transition_candidates"] = pa.table({"query": first[:-1], "next": first[1:]})
    if "pool" in public:
        changed["pool"] = _pool(stage, folder)
    if not changed:
        return mechanism, stage
    mechanism = replace(mechanism, **changed)
    return mechanism, _stage(mechanism, wanted, favourite)


def _pool(stage: Stage, folder: Path) -> Any:
    """Every query of the scenes but those that only one canary has: what a threshold must hide is not in a pool."""
    import pyarrow.parquet as pq

    from searchveil.items.pool import QueryPool

    hidden = {query for c in stage.canaries if c.name == "unique" for f in c.history for query in f.queries}
    queries = sorted({query for fragment in stage.fragments for query in fragment.queries} - hidden)
    pq.write_table(pa.table({"query": queries}), folder / "pool.parquet")
    return QueryPool.open(folder / "pool.parquet")


def _stage(mechanism: Mechanism, wanted: Sequence[str] | None, favourite: int) -> Stage:
    transitions = bool(getattr(mechanism, "transitions", False))
    shape = Shape.of(mechanism.plan(2), transitions=transitions)
    for _ in range(2):  # where the number of users decides about the thresholds, the thresholds decide about it
        stage = Stage(shape, _wanted(canaries_for(shape, favourite), wanted))
        shape = Shape.of(mechanism.plan(_users(stage)), transitions=transitions)
    return Stage(shape, _wanted(canaries_for(shape, favourite), wanted))


def _wanted(there: list[Canary], wanted: Sequence[str] | None) -> list[Canary]:
    names = [canary.name for canary in there]
    for name in wanted or ():
        if name not in names:
            raise InputError(f"no canary '{name}' for this method; there are {', '.join(names)}")
    return [canary for canary in there if wanted is None or canary.name in wanted]


def _users(stage: Stage) -> int:
    crowds = [scene.crowd for scene in (stage.bystander, *stage.canaries)]
    crowds += [scene.crowd_without_clicks for scene in stage.canaries]
    return sum(size for crowd in crowds for size, _ in crowd) + len(stage.canaries)


class _Theatre:
    """The scenes inside the engine, from which the log of one run is put together."""

    def __init__(self, stage: Stage, engine: Any) -> None:
        self._stage, self._engine = stage, engine
        engine.connection.con.register("arriving", stage.rows())
        engine.sql("create or replace temp table scenes as from arriving")
        engine.connection.con.unregister("arriving")

    def log(self, slots: Sequence[str]) -> SearchLog:
        there = ", ".join(f"'{slot}'" for slot in ("", *slots))
        self._engine.begin()
        columns = '"user", query, "time", url'
        self._engine.sql(
            f"create or replace temp table audited as select {columns} from scenes where slot in ({there})"
        )
        return SearchLog(self._engine.connection.table("audited"), self._engine, source="the audit's log")


def _favourite(mechanism: Mechanism, stage: Stage, engine: Any, source: Source) -> int:
    """Which of many items with the same count comes out most often; of fair choices any does."""
    theatre = _Theatre(stage, engine)
    keys = [stage.shape.keys([item])[0] for item in favourites(stage.shape)]
    seen = [0] * len(keys)
    everyone = [f"+{canary.name}" for canary in stage.canaries]  # with her, all of them have one count
    for _ in range(SCOUTING):
        counts = published_counts(mechanism.release(theatre.log(everyone), source=source).tables)
        seen = [times + (key in counts) for times, key in zip(seen, keys, strict=True)]
    return seen.index(max(seen))


Scored = tuple[bool, Mapping[str, float]]  # whether the canary was there, and the scores of that release


def _play(
    mechanism: Mechanism, stage: Stage, engine: Any, runs: int, source: Source, progress: Progress
) -> list[list[Scored]]:
    """For each canary, run by run, whether she was there and what the auditor saw."""
    theatre = _Theatre(stage, engine)
    replaced = mechanism.plan(_users(stage)).guarantee.neighbours == "replace-one"
    played: list[list[Scored]] = [[] for _ in stage.canaries]
    for run in range(runs):
        if run % max(1, runs // 20) == 0:
            progress(f"release {run + 1} of {runs}")
        coins = [bool(source.bits(1)) for _ in stage.canaries]
        slots = [
            f"{'+' if here else '-'}{canary.name}"
            for canary, here in zip(stage.canaries, coins, strict=True)
            if here or replaced
        ]
        counts = published_counts(mechanism.release(theatre.log(slots), source=source).tables)
        for canary, here, scores in zip(stage.canaries, coins, played, strict=True):
            # Who is in the place of the other canaries is known: it is decided by their coins.
            elsewhere = coins.count(False) - (not here)
            in_her_place = [Watched(item.key, item.others + elsewhere) for item in stage.bystander.watched]
            view = View(
                counts, canary.watched, in_her_place if replaced else (), stage.shape.per_user, stage.shape.scale
            )
            scores.append((here, {name: score(view) for name, (_, score) in SCORES.items()}))
    return played


def _split(scores: Sequence[Scored]) -> Runs:
    return Runs([score for here, score in scores if here], [score for here, score in scores if not here])
