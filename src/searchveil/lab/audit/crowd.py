"""Is the promise of a crowd's policy broken? Many releases with and without one more member, and what they prove.

The members' coins and what is published are those of the crowd's own code. Ciphers are left out: what opens is counted
(`crowd.choice.central` does the same, and a test compares it with a crowd that runs).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from searchveil.crowd.aggregate import Opened, plan_of, publish
from searchveil.crowd.choice import sends
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy
from searchveil.errors import InputError
from searchveil.lab.audit import CHOOSING, AuditReport
from searchveil.lab.audit.control import require_enough_runs
from searchveil.lab.audit.evidence import Finding, Runs, choose
from searchveil.lab.audit.scenes import Canary
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent


@dataclass(frozen=True)
class _Scene:
    """A member who may join, each of whose artifacts so many others have too."""

    name: str
    what: str
    others: int


def audit_policy(
    policy: Policy,
    *,
    claimed: Policy | None = None,
    runs: int = 8_000,
    confidence: float = 0.95,
    source: Source | None = None,
    progress: Progress = silent,
) -> AuditReport:
    """Release `runs` times for each scene, half of them with a member, and bound ε from below at the claimed δ.

    `claimed` has the promise that is audited, where it is not the policy's own: a policy with a mistake in it makes
    none. A true promise is refuted with a probability of at most 1 − `confidence`, over all scenes together.
    """
    promise = (claimed or policy).guarantee()
    if not promise.is_private:
        raise InputError(f"{policy.name} claims no differential privacy: there is nothing to audit", parameter="policy")
    source = source or Source()
    job = Job("audit", "query", policy, 0, "", "", "", 0, 1)
    scenes, half = _scenes(policy), runs // 2
    error = (1 - confidence) / len(scenes)
    require_enough_runs(runs, 1 - CHOOSING, promise, error)
    findings = []
    for scene in scenes:
        progress(f"{scene.name}: {scene.what}")
        played = Runs(
            [_scores(job, scene.others + 1, source) for _ in range(half)],
            [_scores(job, scene.others, source) for _ in range(half)],
        )
        first = int(half * CHOOSING)
        event = choose(Runs(played.present[:first], played.absent[:first]), promise.delta)
        proving = Runs(played.present[first:], played.absent[first:])
        canary = Canary(scene.name, scene.what, (), scene.others)
        findings.append(Finding.of(canary, event, proving, promise.delta, error))
    plan = replace(plan_of(job), guarantee=promise)
    return AuditReport(f"crowd {policy.name}", promise, plan.parameters, runs, confidence, tuple(findings))


def _scenes(policy: Policy) -> Sequence[_Scene]:
    return (
        _Scene("last of k", "with her the artifact opens", policy.k - 1),
        _Scene("some more", "without her it may open too", policy.k + policy.k // 2),
        _Scene("crowd", "many others have it", 5 * policy.k),
    )


def _scores(job: Job, holders: int, source: Source) -> dict[str, float]:
    """One release in which each of d artifacts has so many holders, with fresh secrets."""
    texts = [f"artifact {i}" for i in range(job.policy.per_user)]
    counts = dict.fromkeys(texts, 0)
    for _ in range(holders):
        secret = source.bits(256).to_bytes(32, "big")
        for text in texts:
            counts[text] += sends(job, secret, text)
    opened = [Opened(text, count) for text, count in counts.items() if count >= job.policy.k]
    published = publish(job, opened, source=source).table["count"].to_numpy()
    return {"appeared": float(len(published)), "total": float(published.sum())}
