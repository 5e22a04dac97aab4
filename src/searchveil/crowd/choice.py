"""Which artifacts of a user a job takes, and by which coin they are sent; and the same for all users at one place."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from searchveil.crowd.aggregate import Opened
from searchveil.crowd.artifacts import Artifact, Search, distinct, fits, kind_named
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy
from searchveil.crowd.report import coin
from searchveil.privacy.calibrate import tail
from searchveil.privacy.sample_threshold import COIN_BITS
from searchveil.privacy.sample_threshold import coin as chance_of


class Candidates(NamedTuple):
    """What a job takes of one log, in its order, and how many artifacts it leaves behind there."""

    taken: list[Artifact]
    beyond: int  # more than the job takes of a user
    too_long: int


def candidates(job: Job, searches: Sequence[Search]) -> Candidates:
    """A matter of this log alone."""
    found = list(kind_named(job.artifact).extract(searches, job.domains))
    usable = [one for one in found if fits(one)]
    if not job.policy.per_artifact:
        usable = distinct(usable)
    if job.recent:
        usable = usable[::-1]
    most, too_long = job.policy.per_user, [one for one in found if one.text and not fits(one)]
    if not job.policy.per_artifact:
        too_long = distinct(too_long)
    return Candidates(usable[:most], max(0, len(usable) - most), len(too_long))


def sends(job: Job, user: bytes, text: str) -> bool:
    """Whether a user sends an artifact: always, but under ST_u as the coin of user, job and artifact falls."""
    if job.policy.name != "ST_u":
        return True
    return coin(user, job.id, text) < int(chance_of(job.policy.p) * 2**COIN_BITS)


def as_kept(searches: Iterable[Search]) -> list[Search]:
    """The rows as a member's own log keeps them: each once, in the order of time, first those without one."""
    return sorted(dict.fromkeys(searches), key=lambda one: (one.time is not None, one.time or 0.0))


def chance_of_publishing(policy: Policy, holders: int) -> float:
    """With which probability, over coins and noise, an artifact comes out that so many members (instances) have."""
    if policy.name == "ST_u":
        from scipy.stats import binom  # of all that a client loads this would take the longest

        return float(binom.sf(policy.k - 1, holders, float(chance_of(policy.p))))
    if not policy.noisy or holders < policy.k:
        return float(holders >= policy.k)
    missing = policy.threshold - holders
    if missing >= 0:
        return tail(policy.noise_scale, missing)
    return 1 - tail(policy.noise_scale, 1 - missing)


def central(job: Job, users: Iterable[tuple[bytes, Sequence[Search]]]) -> list[Opened]:
    """What the crowd would open, computed from all logs at one place, for experiments; a test compares the two."""
    counted: Counter[str] = Counter()
    for secret, searches in users:
        counted.update(one.text for one in candidates(job, as_kept(searches)).taken if sends(job, secret, one.text))
    return [Opened(text, count) for text, count in counted.items() if count >= job.policy.k]
