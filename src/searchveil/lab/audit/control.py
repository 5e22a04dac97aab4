"""The positive control: with the promise switched off, can every canary be seen?

Noise, thresholds and bounds are switched off, so that a release shows the true counts. What changes in it with a canary
and with nobody else is what the auditor watches. A canary with whom nothing changes could not be seen however broken
the promise is, and "not refuted" would mean nothing. This knows nothing of items, so it holds for any kind of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations, count
from math import comb
from typing import Any

from searchveil.errors import InputError, setting
from searchveil.lab.audit.evidence import Key, Watched, published_counts
from searchveil.lab.audit.scenes import AuditLog, Canary
from searchveil.lab.estimate import epsilon_proved
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Source
from searchveil.privacy.rounding import at_least, at_most
from searchveil.progress import silent
from searchveil.publish.mechanism import Mechanism

NO_NOISE = 0.02  # a scale at which a draw other than 0 has a chance of 4e-22
MOST_RUNS = 10**7
BOUNDS = (  # parameters that bound contributions
    "per_user",
    "queries_per_user",
    "sessions_per_user",
    "clicks_per_user",
    "candidates_per_user",
    "counted_items",
)

Counts = Mapping[Key, float]
Logs = Callable[[Sequence[str]], SearchLog]  # the crowd, with those who join it


class UnseenError(InputError):
    """A canary that no release could tell of."""


def watched_items(mechanism: Mechanism, audited: AuditLog, logs: Logs, source: Source) -> dict[str, list[Watched]]:
    """For each scene, the items that change with her alone, and that as many others hold as the scene wants.

    Each scene is joined in half of a few releases, in a combination that no other scene has. All combinations have one
    size, so an item that two scenes share changes in a combination that is nobody's.
    """

    opened = _opened(mechanism, audited)

    def release(joined: Sequence[Canary]) -> Counts:
        return _true_counts(mechanism, opened, audited, logs([f"+{scene.name}" for scene in joined]), source)

    without = release([])
    if _changed(without, release([])):
        raise InputError(
            f"the audit cannot switch off the noise of {mechanism.method}, so it cannot prove that it sees anything: "
            "releases must be made with the scales and thresholds of the plan"
        )
    coded = list(zip(audited.scenes, _codes(len(audited.scenes)), strict=True))
    size = 1 + max(max(code) for _, code in coded)
    changed = [_changed(without, release([scene for scene, code in coded if i in code])) for i in range(size)]
    found = {}
    for scene, code in reversed(coded):  # canaries before what helps them
        touched, hers = _by_code(changed, code)
        held = {key: round(without.get(key, 0)) for key in sorted(hers)}
        found[scene.name] = [Watched(key, n) for key, n in held.items() if scene.others in (n, None)]
        if not found[scene.name]:
            raise UnseenError(
                f"the audit cannot see its canary '{scene.name}': {_why(scene, touched, held)}",
                parameter="canaries",
                value=scene.name,
                instead="audit another item, or name canaries that can be seen with " + setting("canaries"),
            )
    return found


def _codes(scenes: int) -> list[set[int]]:
    """For each scene the releases in which it is joined: half of them, no two scenes the same half."""
    size = next(n for n in count(2) if comb(n, n // 2) >= scenes)
    return [set(places) for places in combinations(range(size), size // 2)][:scenes]


def _by_code(changed: Sequence[set[Key]], code: set[int]) -> tuple[set[Key], set[Key]]:
    """What changes in all these releases, and what of it changes in no other."""
    touched = set.intersection(*(changed[i] for i in code))
    return touched, touched.difference(*(keys for i, keys in enumerate(changed) if i not in code))


def _opened(mechanism: Mechanism, audited: AuditLog) -> Mechanism:
    """The same without bounds, and with counts of users where it can do without."""
    known = {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
    changed: dict[str, Any] = {name: audited.longest for name, value in known.items() if name in BOUNDS and value}
    if {"counts", "count_share"} <= set(known):
        changed |= {"counts": "users", "count_share": None}
    return replace(mechanism, **changed)


def _true_counts(mechanism: Mechanism, opened: Mechanism, audited: AuditLog, log: SearchLog, source: Source) -> Counts:
    """A release with every protection switched off that the plan and the parameters know of."""
    mechanism.check(log)
    plan = mechanism.prepare(mechanism.plan(audited.users), source)
    plan = replace(plan, settings=plan.settings.switched_off(NO_NOISE))
    return published_counts(opened.publish(log, plan, source, silent).tables)


def _changed(before: Counts, after: Counts) -> set[Key]:
    return {key for key in {*before, *after} if abs(after.get(key, 0) - before.get(key, 0)) > 0.5}


def _why(scene: Canary, touched: set[Key], held: Mapping[Key, int]) -> str:
    off = "with noise, thresholds and bounds switched off"
    if not touched:
        return f"{off} nothing that is published changes with her"
    if not held:
        return f"{off} all that changes with her changes with others too, as different searches are one item"
    others = ", ".join(map(str, sorted(set(held.values()))))
    return f"{off} her items are held by {others} others, where the scene needs {scene.others}"


def require_enough_runs(runs: int, proving: float, guarantee: Guarantee, error: float) -> None:
    """Refuse runs that could not refute the claim even if everything was published.

    Something is then seen always with her and never without her, and that must prove more than the claimed ε.
    """

    def proved(runs: int) -> float:
        side = int(runs * proving) // 2
        return epsilon_proved(side, side, 0, side, guarantee.delta, error)

    if proved(runs) > guarantee.epsilon:
        return
    high = runs
    while high < MOST_RUNS and proved(high) <= guarantee.epsilon:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if proved(middle) > guarantee.epsilon else (middle, high)
    more = f"take at least {high} runs, or " if high < MOST_RUNS else ""
    raise InputError(
        f"{runs} runs cannot refute ε = {at_most(guarantee.epsilon, 4)}: were everything published, they would prove "
        f"ε ≥ {at_least(proved(runs), 3)}; {more}audit a smaller epsilon: the code is the same"
    )
