"""A whole crowd on this machine: the same programs with the same files, over real HTTP on loopback."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pyarrow.compute as pc

from searchveil.crowd.aggregate import release_job
from searchveil.crowd.artifacts import Search
from searchveil.crowd.choice import as_kept, candidates
from searchveil.crowd.client import Client, Sent
from searchveil.crowd.config import Addresses, Community, init, invite
from searchveil.crowd.jobs import Job
from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.policy import MOST_REPORTS, Policy
from searchveil.crowd.programs import job_named, new_job
from searchveil.crowd.randomness import BATCH
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.ports import LOOPBACK, KeptPorts
from searchveil.progress import Progress, silent
from searchveil.publish.release import Release

if TYPE_CHECKING:
    from searchveil.privacy.ledger import Ledger

AT_A_TIME = 8  # clients
STARTS_WITHIN = ENDS_WITHIN = 120  # seconds, on a machine however slow
HOLD_SECONDS = 0.05  # of the relay, where nobody's address needs hiding


@dataclass(frozen=True)
class Simulated:
    clients: int
    reports: int
    opened: int
    beyond: int  # artifacts of clients who have more than the policy takes of one
    too_long: int
    release: Release
    seconds: float


def users_of(log: SearchLog, most: int | None = None) -> dict[str, list[Search]]:
    """The searches of each user, or of the first `most` users, whom only an engine that keeps order can name."""
    names = [name for name in ("user", "query", "time", "url", "rank") if name in log.table.columns]
    rows = log.engine.fetch(log.table.select(*names))
    if most is not None:  # not by the engine: what it joins or looks up in a long list loses its order
        first = rows["user"].unique()[:most]  # in the order in which they come
        rows = rows.filter(pc.is_in(rows["user"], first))
    found: dict[str, list[Search]] = {}
    for batch in rows.to_batches():
        for row in batch.to_pylist():
            at = row.get("time")
            search = Search(
                row["query"],
                None if at is None else at.replace(tzinfo=UTC).timestamp(),
                row.get("url") or None,
                row.get("rank"),
            )
            found.setdefault(str(row["user"]), []).append(search)
    return found


def enough_for_all(artifact: str, policy: Policy, users: Mapping[str, Sequence[Search]]) -> Policy:
    """The policy with room for all that any of these users has, as far as a job may have it."""
    job = Job("simulated", artifact, replace(policy, per_user=MOST_REPORTS), 0, "", "", "", 0, 1)
    most = max((len(candidates(job, as_kept(searches)).taken) for searches in users.values()), default=0)
    return replace(policy, per_user=max(1, most))


def simulate(
    users: Mapping[str, Sequence[Search]],
    artifact: str,
    policy: Policy,
    out: Path,
    *,
    secondary_k: int | None = None,
    ledger: "Ledger | None" = None,
    folder: Path | None = None,
    progress: Progress = silent,
) -> Simulated:
    """Every user as a client with a log of its own; the release folder is written to `out`."""
    if not users:
        raise InputError("there are no users to simulate")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        home = folder or Path(scratch)
        progress("starting randomness server, server and relay")
        inputs = policy.per_user * (1 if secondary_k is None else 2)
        with running(home, batches=-(-inputs // BATCH)) as community:
            job = new_job(home / "server.toml", artifact, policy, days=1, secondary_k=secondary_k)
            invitations = invite(home, len(users))
            progress(f"running {len(users):,} clients")
            limits = httpx.Limits(max_connections=4 * AT_A_TIME)
            with httpx.Client(timeout=120, limits=limits) as http, httpx.Client(timeout=120, limits=limits) as named:

                def run(number: int, searches: Sequence[Search]) -> Sent:
                    log = OwnLog(home / "clients" / f"{number}.sqlite", durable=False)  # it is thrown away
                    log.add(searches)
                    client = Client(log, community, invitations[number], os.urandom(32), http=http, named=named)
                    (found,) = [one for one in client.jobs() if one.id == job.id]
                    log.set_consent(job.id.hex(), "always")
                    sent = client.run(found)
                    log.close()
                    return sent

                sent = []
                with ThreadPoolExecutor(AT_A_TIME) as pool:
                    for done, one in enumerate(pool.map(run, range(len(users)), users.values()), 1):
                        sent.append(one)
                        if 10 * done // len(users) > 10 * (done - 1) // len(users):
                            progress(f"{done:,} of {len(users):,} clients have sent")
        store, job = job_named(home / "server.toml", job.id.hex())
        made, opened = release_job(store, job, out, ledger=ledger, progress=progress)
        reports = store.count_reports(job.id)
        store.close()
    beyond, too_long = sum(one.beyond for one in sent), sum(one.too_long for one in sent)
    return Simulated(len(users), reports, opened, beyond, too_long, made, time.monotonic() - started)


@contextmanager
def running(home: Path, relays: int = 1, hops: int = 1, batches: int | None = None) -> Iterator[Community]:
    """A community of processes on free ports of this machine, with its files in `home`."""
    with KeptPorts(2 + relays) as ports:
        urls = [f"http://{LOOPBACK}:{port}" for port in ports.numbers]
        community = init(
            home,
            "simulated",
            Addresses(urls[0], urls[1], tuple(urls[2:])),
            hops=hops,
            hold_seconds=HOLD_SECONDS,
            batches=batches,
        )
        processes = [
            start(program, home / config)
            for program, config in [
                ("randomness", "randomness.toml"),
                ("server", "server.toml"),
                *(("relay", f"relay-{i}.toml") for i in range(1, relays + 1)),
            ]
        ]
        try:
            for url, process in zip([urls[1], urls[0], *urls[2:]], processes, strict=True):
                wait_for(url, process)
            yield community
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=ENDS_WITHIN)


def start(program: str, config: Path) -> "subprocess.Popen[bytes]":
    """One program as a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "searchveil.crowd.programs", program, str(config)])


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    parts, until = urlsplit(url), time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until:
        if process.poll() is not None:
            raise InputError(f"a program of the crowd ended with {process.returncode} before it listened on {url}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or 443), timeout=2).close()
            return
        except OSError:
            time.sleep(0.05)
    raise InputError(f"nothing listens on {url}")
