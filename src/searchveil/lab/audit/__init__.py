"""Is a promise of privacy broken? Many releases of neighbouring logs, and what they prove. See docs/audit.md."""

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import QUERY, Item, item_named
from searchveil.lab.audit import sampled, synthetic
from searchveil.lab.audit.control import UnseenError, require_enough_runs, watched_items
from searchveil.lab.audit.engine import RepeatingEngine, rows_by_slot
from searchveil.lab.audit.evidence import SCORES, Finding, Observation, Runs, Watched, choose, published_counts
from searchveil.lab.audit.observed import Enough, Observed, Scored
from searchveil.lab.audit.scenes import FAVOURITES, AuditLog, Canary, Shape, canaries_for
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Source
from searchveil.privacy.rounding import at_least, at_most
from searchveil.progress import Progress, silent
from searchveil.publish.mechanism import Mechanism
from searchveil.scratch import Scratch

__all__ = ["AuditReport", "Finding", "audit"]

SCOUTING = 12  # releases before the first canary, to see which of many equal items come out
LEAST_RUNS = 24
CHOOSING = 1 / 3  # of the runs choose the events, the others prove
ROUNDS = 8


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
    engine: Engine | None = None,
    progress: Progress = silent,
) -> AuditReport:
    """Release logs with and without canaries `runs` times and bound ε from below, at the claimed δ.

    `canaries` names those to use, all that make sense for the mechanism unless told. A true promise is refuted with a
    probability of at most 1 − `confidence`, over all canaries together.

    Releases are made in a DuckDB engine of the audit's own, which is quick at many small ones, or in `engine`.

    >>> mechanism = sv.Zealous(epsilon=1, delta=0.1, per_user=1)
    >>> sv.audit(mechanism, runs=170, canaries=["near"], confidence=0.999999).refuted
    False
    """
    if not 0 < confidence < 1:
        raise InputError(f"the confidence is a probability, not {confidence:g}; try 0.95")
    if runs < LEAST_RUNS:
        raise InputError(f"an audit needs at least {LEAST_RUNS} runs, not {runs}; hundreds prove something")
    silence = _nothing_to_audit(mechanism)
    if silence is not None:
        return silence
    source = source or Source()
    with nullcontext(engine) if engine else closing(RepeatingEngine()) as used:

        def enough(guarantee: Guarantee, canaries: int) -> None:
            require_enough_runs(runs, 1 - CHOOSING, guarantee, (1 - confidence) / canaries)

        observe = next((observe for fits, observe in OWN_SCENES if fits(mechanism)), _observe)
        plan, seen_canaries, observed = observe(mechanism, canaries, runs, enough, used, source, progress)
        error = (1 - confidence) / len(seen_canaries)
    first = int(runs * CHOOSING)

    def finding(canary: Canary, scores: Sequence[Scored]) -> Finding:
        event = choose(_split(scores[:first]), plan.guarantee.delta)
        return Finding.of(canary, event, _split(scores[first:]), plan.guarantee.delta, error)

    findings = tuple(map(finding, seen_canaries, observed))
    return AuditReport(plan.method, plan.guarantee, plan.parameters, runs, confidence, findings)


def _observe(
    mechanism: Mechanism,
    wanted: Sequence[str] | None,
    runs: int,
    enough: Enough,
    engine: Engine,
    source: Source,
    progress: Progress,
) -> Observed:
    """Audit with the scenes for methods that publish counts above a threshold."""
    with Scratch() as folder:
        scenes = _scenes(mechanism, wanted, enough, folder, engine, source, progress)
        observed = _observe_runs(scenes, engine, runs, source, progress)
        plan = scenes.mechanism.plan(scenes.audited.users)  # which may read the pool in the folder
    return Observed(plan, scenes.audited.canaries, observed)


OWN_SCENES = ((sampled.samples_users, sampled.observe), (synthetic.is_synthetic, synthetic.observe))


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


@dataclass(frozen=True)
class _Scenes:
    """What all runs share: the mechanism with the auditor's public inputs, the scenes, and what tells of each."""

    mechanism: Mechanism
    audited: AuditLog
    watched: Mapping[str, Sequence[Watched]]


def _scenes(
    mechanism: Mechanism,
    wanted: Sequence[str] | None,
    enough: Enough,
    folder: Path,
    engine: Engine,
    source: Source,
    progress: Progress,
) -> _Scenes:
    """Find how many searches make an item, and what every canary is seen by; an item it cannot see is refused."""
    progress("control: can every canary be seen when nothing protects her?")
    sessions = mechanism.plan(2).settings.sessions
    unseen: UnseenError | None = None
    for length in _item(mechanism).searches if sessions is None else [sessions.queries]:
        adapted, audited = _with_public_inputs(mechanism, wanted, length, 0, folder)
        enough(adapted.plan(audited.users).guarantee, len(audited.canaries))
        try:
            watched = watched_items(adapted, audited, LogsOfRuns(audited, engine), source)
        except UnseenError as problem:
            unseen = unseen or problem
            continue
        if any(canary.name == "favourite" for canary in audited.canaries):
            progress("looking for items that come out more often than others like them")
            watched["favourite 0"], others = watched["favourite"], watched["favourite"][0].others
            chosen = _favourite(adapted, audited, watched, engine, source)
            adapted, audited = _with_public_inputs(mechanism, wanted, length, chosen, folder)
            watched["favourite"] = [Watched(item.key, others) for item in watched[f"favourite {chosen}"]]
        return _Scenes(adapted, audited, watched)
    assert unseen is not None
    raise unseen


def _with_public_inputs(
    mechanism: Mechanism, wanted: Sequence[str] | None, length: int, favourite: int, folder: Path
) -> tuple[Mechanism, AuditLog]:
    """The scenes for a mechanism, and the mechanism with the scenes' texts as its public inputs.

    A pool or candidates are public whatever they are, so the promise must hold for those that suit the auditor.
    """
    audited = _audit_log(mechanism, wanted, length, favourite)
    for _ in range(ROUNDS):  # the size of a pool may decide about a threshold, and that about the scenes
        changed = _public_inputs(mechanism, audited, folder)
        mechanism = replace(mechanism, **changed) if changed else mechanism  # what it has worked out stays known
        before, audited = audited, _audit_log(mechanism, wanted, length, favourite)
        if not changed or audited == before:
            break
    return mechanism, audited


def _public_inputs(mechanism: Mechanism, audited: AuditLog, folder: Path) -> dict[str, Any]:
    given = {field.name for field in fields(mechanism) if getattr(mechanism, field.name) is not None}
    inputs: dict[str, Any] = {}
    if "candidates" in given:
        inputs["candidates"] = _columns(("query", "url"), audited.searches)
    if "transition_candidates" in given:
        inputs["transition_candidates"] = _columns(("query", "next"), audited.followed)
    if "pool" in given:
        # Of a domain of public queries alone nothing is hidden; otherwise what a threshold must hide is not in a pool.
        settings = mechanism.plan(2).settings
        public = settings.weights is not None or (settings.selection is not None and settings.selection.public)
        hidden = set() if public else audited.hidden
        inputs["pool"] = _pool(sorted({query for query, _ in audited.searches} - hidden), folder)
    return inputs


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> pa.Table:
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})


def _pool(queries: Sequence[str], folder: Path) -> Any:
    import pyarrow.parquet as pq

    from searchveil.items.pool import QueryPool

    pq.write_table(pa.table({"query": queries}), folder / "pool.parquet")
    return QueryPool.open(folder / "pool.parquet")


def _audit_log(mechanism: Mechanism, wanted: Sequence[str] | None, length: int, favourite: int) -> AuditLog:
    transitions, item = bool(getattr(mechanism, "transitions", False)), _item(mechanism)
    shape = Shape.of(mechanism.plan(2), transitions=transitions, length=length, item=item)
    for _ in range(2):  # where the number of users decides about the thresholds, the thresholds decide about it
        audited = AuditLog(shape, _wanted(canaries_for(shape, favourite), wanted))
        shape = Shape.of(mechanism.plan(audited.users), transitions=transitions, length=length, item=item)
    return AuditLog(shape, _wanted(canaries_for(shape, favourite), wanted))


def _item(mechanism: Mechanism) -> Item:
    """The kind of item that it publishes; those without a choice are about searches, as queries are."""
    return item_named(getattr(mechanism, "item", QUERY))


def _wanted(there: list[Canary], wanted: Sequence[str] | None) -> list[Canary]:
    names = [canary.name for canary in there]
    for name in wanted or ():
        if name not in names:
            raise InputError(f"no canary '{name}' for this method; there are {', '.join(names)}")
    return [canary for canary in there if wanted is None or canary.name in wanted]


class LogsOfRuns:
    """The scenes inside the engine, from which the log of one run is put together."""

    def __init__(self, audited: AuditLog, engine: Engine) -> None:
        self._engine, self._of_slots = engine, rows_by_slot(engine, audited.rows())

    def __call__(self, slots: Sequence[str]) -> SearchLog:
        """The crowd, with those who join it."""
        return SearchLog(self._of_slots(["", *slots]), self._engine, source="the audit's log")


def _favourite(
    mechanism: Mechanism, audited: AuditLog, watched: Mapping[str, Sequence[Watched]], engine: Engine, source: Source
) -> int:
    """Which of many items with the same count comes out most often; of fair choices any does."""
    logs = LogsOfRuns(audited, engine)
    keys = [watched[f"favourite {i}"][0].key for i in range(FAVOURITES)]
    seen = [0] * len(keys)
    everyone = [f"+{canary.name}" for canary in audited.canaries]  # with her, all of them have one count
    for _ in range(SCOUTING):
        released = mechanism.release(logs(everyone), source=source)
        counts = published_counts(released.tables, audited.shape.item.columns)
        seen = [times + (key in counts) for times, key in zip(seen, keys, strict=True)]
    return seen.index(max(seen))


def _observe_runs(scenes: _Scenes, engine: Engine, runs: int, source: Source, progress: Progress) -> list[list[Scored]]:
    """For each canary, run by run, whether she was there and what the auditor saw."""
    mechanism, audited, watched = scenes.mechanism, scenes.audited, scenes.watched
    logs, shape = LogsOfRuns(audited, engine), audited.shape
    beside = [item for helper in audited.compared for item in watched[helper.name]]
    replaced = mechanism.plan(audited.users).guarantee.neighbours == "replace-one"
    observed: list[list[Scored]] = [[] for _ in audited.canaries]
    for run in range(runs):
        if run % max(1, runs // 20) == 0:
            progress(f"release {run + 1} of {runs}")
        coins = [bool(source.bits(1)) for _ in audited.canaries]
        slots = _slots(audited.canaries, coins, replaced)
        released = mechanism.release(logs(slots), source=source)
        counts = published_counts(released.tables, shape.item.columns)
        for canary, here, scores in zip(audited.canaries, coins, observed, strict=True):
            # Who is in the place of the other canaries is known: it is decided by their coins.
            elsewhere = coins.count(False) - (not here)
            bystanders = watched[audited.bystander.name] if replaced else ()
            in_her_place = [Watched(item.key, item.others + elsewhere) for item in bystanders]
            observation = Observation(
                counts,
                watched[canary.name],
                in_her_place,
                beside,
                shape.per_user,
                shape.scale,
                watched.get(f"{canary.name} moved", ()),
            )
            scores.append((here, {name: score(observation) for name, (_, score) in SCORES.items()}))
    return observed


def _slots(canaries: Sequence[Canary], coins: Sequence[bool], replaced: bool) -> list[str]:
    """Who joins the crowd: canaries by their coins and, where one replaces another, those in their place."""
    slots = (
        (f"+{canary.name}" if here else f"-{canary.name}", here) for canary, here in zip(canaries, coins, strict=True)
    )
    return [slot for slot, here in slots if here or replaced]


def _split(scores: Sequence[Scored]) -> Runs:
    return Runs([score for here, score in scores if here], [score for here, score in scores if not here])
