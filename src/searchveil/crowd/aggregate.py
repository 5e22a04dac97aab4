"""Open what enough people share, and publish it under the job's policy."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from searchveil.crowd.artifacts import BETWEEN, kind_named
from searchveil.crowd.jobs import Job
from searchveil.crowd.report import open_secondary, open_text, tag_of
from searchveil.crowd.store import Store
from searchveil.crypto import shamir
from searchveil.errors import InputError
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.progress import Progress, silent
from searchveil.publish.folder import claimed
from searchveil.publish.plan import Plan, Settings, given
from searchveil.publish.release import Release

if TYPE_CHECKING:
    from searchveil.privacy.ledger import Entry, Ledger

BATCH = 2_000  # groups whose ciphertexts are fetched together


@dataclass(frozen=True)
class Opened:
    """An artifact that k shares opened: how many distinct true shares it has, and the spellings that opened too."""

    text: str
    count: int
    spellings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CrowdSettings(Settings):
    job: Job

    def to_json(self) -> dict[str, Any]:
        policy = self.job.policy
        return given(
            policy=policy.name,
            k=policy.k,
            per_user=policy.per_user,
            sampling=policy.p if policy.name == "ST_u" else None,
            colluding=policy.colluding or None,
            noise_scale=policy.noise_scale if policy.noisy else None,
            threshold=policy.threshold if policy.noisy else None,
            secondary_k=self.job.secondary_k,
            domains=self.job.domains or None,
            job=self.job.id.hex(),
            epoch=self.job.epoch,
        )


@dataclass(frozen=True)
class _Group:
    """The reports with one tag and one ciphertext: a share and a token for each distinct x."""

    tag: bytes
    points: list[tuple[int, int]]
    tokens: list[bytes]


def open_reports(store: Store, job: Job) -> Iterator[Opened]:
    """Every artifact of which k true shares arrived, once.

    All who ask the randomness server have the same secret for a text. Members who lie may choose another one and make a
    second group with the same text: the largest is taken.
    """
    found: dict[str, Opened] = {}
    for one in _open_groups(store, job):
        if one.text not in found or found[one.text].count < one.count:
            found[one.text] = one
    return iter(found.values())


def _open_groups(store: Store, job: Job) -> Iterator[Opened]:
    waiting: list[tuple[bytes, _Group, list[bool]]] = []
    for group in _groups(store, job):
        opened = shamir.open_group(group.points, job.policy.k, partial(_has_tag, group.tag))
        if opened is None:
            continue
        secret, true = opened
        if sum(true) >= job.policy.k:
            waiting.append((secret, group, true))
        if len(waiting) >= BATCH:
            yield from _texts(store, job, waiting)
            waiting = []
    yield from _texts(store, job, waiting)


def _has_tag(tag: bytes, secret: bytes) -> bool:
    return tag_of(secret) == tag


def _groups(store: Store, job: Job) -> Iterator[_Group]:
    for _, rows in groupby(store.shares(job.id), key=lambda row: row[0]):
        members = list(rows)
        if len(members) < job.policy.k:
            continue
        points: dict[int, tuple[int, bytes]] = {}
        for _, _, x, y, token in members:
            # Of two different values for one number at most one is true; the first keeps its place.
            points.setdefault(int.from_bytes(x, "big"), (int.from_bytes(y, "big"), token))
        if len(points) >= job.policy.k:
            yield _Group(
                bytes(members[0][1]), [(x, y) for x, (y, _) in points.items()], [t for _, t in points.values()]
            )


def _texts(store: Store, job: Job, waiting: Sequence[tuple[bytes, _Group, list[bool]]]) -> Iterator[Opened]:
    firsts = store.fields([group.tokens[0] for _, group, _ in waiting])
    for secret, group, true in waiting:
        text = open_text(secret, firsts[group.tokens[0]][0])
        if text is None or not kind_named(job.artifact).holds(text):
            continue  # made by no honest client
        spellings = {} if job.secondary_k is None else _spellings(store, job, text, secret, group, true)
        yield Opened(text, sum(true), spellings)


def _spellings(store: Store, job: Job, text: str, secret: bytes, group: _Group, true: Sequence[bool]) -> dict[str, int]:
    """The spellings of which enough true shares came, typed in the same way; each has a secret of its own."""
    assert job.secondary_k is not None
    fields = store.fields(group.tokens)
    found: dict[tuple[bytes, bytes], list[tuple[int, int]]] = {}
    for (x, _), token, counts in zip(group.points, group.tokens, true, strict=True):
        inner = None if not counts else open_secondary(secret, fields[token][1] or b"")
        if inner is not None:
            tag, value, sealed = inner
            found.setdefault((tag, sealed), []).append((x, value))
    out: dict[str, int] = {}
    for (tag, sealed), points in found.items():
        opened = shamir.open_group(points, job.secondary_k, partial(_has_tag, tag))
        if opened is not None and sum(opened[1]) >= job.secondary_k:
            typed = open_text(opened[0], sealed)
            if typed and kind_named(job.artifact).spells(typed, text):
                out[typed] = max(sum(opened[1]), out.get(typed, 0))
    return out


def plan_of(job: Job) -> Plan[CrowdSettings]:
    """What a release of this job promises. Looks at no report."""
    return Plan("crowd", job.artifact, CrowdSettings(job=job), job.policy.guarantee(), counts=job.policy.counts)


def publish(
    job: Job, opened: Iterable[Opened], *, entry: "Entry | None" = None, source: Source | None = None
) -> Release:
    """The release: what was opened, under the policy. `entry` is what a ledger has paid for it."""
    plan = plan_of(job)
    found = sorted(opened, key=lambda one: one.text)
    passed = _with_noise(found, job, source or Source()) if job.policy.noisy else [(one, one.count) for one in found]
    columns = kind_named(job.artifact).columns
    tables = {"data": _table(columns, [(*one.text.split(BETWEEN), n) for one, n in passed])}
    if job.secondary_k is not None:
        typed = [
            (*one.text.split(BETWEEN), typed, n) for one, _ in passed for typed, n in sorted(one.spellings.items())
        ]
        tables["typed"] = _table((*columns, "typed"), typed)
    return Release(tables, plan, entry)


def _with_noise(found: Sequence[Opened], job: Job, source: Source) -> list[tuple[Opened, int]]:
    """Those whose noisy count reaches the threshold, with that count."""
    noise = DiscreteLaplace(job.policy.noise_scale).sample(len(found), source)
    noisy = [(one, one.count + int(more)) for one, more in zip(found, noise, strict=True)]
    return [(one, count) for one, count in noisy if count >= job.policy.threshold]


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """The rows' texts under these names, and their last value as `count`."""
    texts = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(columns)}
    return pa.table(texts | {"count": pa.array([row[-1] for row in rows], pa.int64())})


def release_job(
    store: Store, job: Job, out: Path, *, ledger: "Ledger | None" = None, progress: Progress = silent
) -> tuple[Release, int]:
    """Close a job, open what can be opened and write the release folder; how many were opened.

    A job with noise is released once, and that is recorded before noise is drawn: who is stopped between the two has
    wasted it, and never draws other noise for the same counts. Until then, and for good where there is no noise, it can
    be done again after a crash. Each attempt pays the ledger; who loses a race has paid in vain.
    """
    (before,) = (one.release for one in store.jobs() if one.id == job.id)
    if before is not None and (job.policy.noisy or Path(before).exists()):
        raise InputError(f"job {job.id.hex()} has been released: {before}")
    plan = plan_of(job)
    with claimed(out, "parquet"):
        entry = None
        if ledger is not None:
            entry = ledger.reserve(plan.guarantee, method=plan.method, item=plan.item, parameters=plan.parameters)
        store.close_job(job.id)
        progress("opening what enough people share")
        opened = list(open_reports(store, job))
        store.claim_release(job.id, str(out.absolute()), before)
        made = publish(job, opened, entry=entry)
        progress("writing the folder")
        made.write(out)
    return made, len(opened)
