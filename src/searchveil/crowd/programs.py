"""The programs, from their configuration files; and what the operator of the server does with jobs."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette

from searchveil.crowd.config import key_in, listening, members_in, read_config
from searchveil.crowd.jobs import Job, read_job
from searchveil.crowd.policy import Policy
from searchveil.crowd.randomness import BATCHES, Randomness, randomness_app, read_epochs
from searchveil.crowd.relay import Relay, relay_app
from searchveil.crowd.server import Server, server_app
from searchveil.crowd.store import Store
from searchveil.crowd.web import serve
from searchveil.crypto import voprf
from searchveil.errors import InputError, setting

DAY = 24 * 3600
SHORTEST_JOB = 600  # seconds that must be left of an epoch for a job to begin in it


def server_from(path: Path, clock: Callable[[], float] = time.time) -> tuple[Starlette, dict[str, Any], Server]:
    settings = read_config(path, "listen", "database", "members", "community", "private_key", "signing_key")
    signer = Ed25519PrivateKey.from_private_bytes(key_in(settings, "signing_key"))
    server = Server(
        Store(settings["database"]),
        key_in(settings, "private_key"),
        signer.public_key().public_bytes_raw(),
        clock=clock,
    )
    return server_app(server, members_in(settings["members"]), settings["community"]), settings, server


def randomness_from(path: Path, clock: Callable[[], float] = time.time) -> tuple[Starlette, dict[str, Any], Randomness]:
    settings = read_config(path, "listen", "database", "members", "signing_key", "epoch_seconds")
    randomness = Randomness(
        Store(settings["database"]),
        key_in(settings, "signing_key"),
        epoch_seconds=settings["epoch_seconds"],
        grace_seconds=settings.get("grace_seconds", 3600),
        batches=settings.get("batches", BATCHES),
        clock=clock,
    )
    randomness.turn()
    return randomness_app(randomness, members_in(settings["members"])), settings, randomness


def relay_from(path: Path) -> tuple[Starlette, dict[str, Any], Relay]:
    settings = read_config(path, "listen", "private_key", "hops")
    relay = Relay(
        key_in(settings, "private_key"),
        {int(number): url for number, url in settings["hops"].items()},
        settings.get("hold_seconds", 2.0),
        settings.get("at_least", 200),
    )
    return relay_app(relay), settings, relay


def run_program(program: str, path: Path) -> None:
    """Serve until a signal comes."""
    made: dict[str, Callable[[Path], tuple[Starlette, dict[str, Any], Any]]] = {
        "server": server_from,
        "randomness": randomness_from,
        "relay": relay_from,
    }
    app, settings, _ = made[program](path)
    host, port = listening(settings)
    serve(app, host, port, settings.get("certificate"), settings.get("certificate_key"))


def new_job(
    path: Path,
    artifact: str,
    policy: Policy,
    *,
    days: float = 7,
    secondary_k: int | None = None,
    domains: bool = False,
    recent: bool = False,
    clock: Callable[[], float] = time.time,
    http: httpx.Client | None = None,
) -> Job:
    """Sign a job and put it into the server's database. It ends with the epoch of its randomness key, if not before."""
    settings = read_config(path, "database", "community", "signing_key", "randomness", "randomness_signer")
    try:
        answer = (http or httpx.Client(timeout=30)).get(f"{settings['randomness']}/epochs").json()
    except (httpx.HTTPError, ValueError) as error:
        raise InputError(f"the randomness server {settings['randomness']} does not answer; is it running?") from error
    epochs = read_epochs(answer, key_in(settings, "randomness_signer"))
    _check_batches(answer, policy, secondary_k)
    now = clock()
    lasting = [number for number in sorted(map(int, epochs)) if int(epochs[str(number)]["ends"]) - now > SHORTEST_JOB]
    if not lasting:
        raise InputError("the randomness server has no epoch that lasts long enough for a job")
    epoch = epochs[str(lasting[0])]
    token_private = voprf.generate()
    job = Job(
        settings["community"],
        artifact,
        policy,
        lasting[0],
        epoch["oprf"],
        epoch["token"],
        voprf.public_of(token_private).hex(),
        int(now),
        int(min(now + days * DAY, int(epoch["ends"]))),
        secondary_k,
        domains,
        recent,
    )
    document = job.sign(key_in(settings, "signing_key"))
    store = Store(settings["database"])
    store.add_job(job.id, document, token_private, now)
    store.close()
    return job


def _check_batches(listed: dict[str, str], policy: Policy, secondary_k: int | None) -> None:
    """A member who has all that the job takes must be able to ask the randomness server about it."""
    said = json.loads(listed["epochs"])
    needed = -(-policy.per_user * (1 if secondary_k is None else 2) // said["batch"])
    if needed > said["batches"]:
        raise InputError(
            f"{policy.per_user:,} artifacts of a member need {needed} tokens of the randomness server, and it gives "
            f"out {said['batches']} per epoch",
            parameter="per_user",
            value=policy.per_user,
            instead="take fewer with " + setting("per_user") + f", or have its operator set batches = {needed}",
        )


def job_named(path: Path, name: str) -> tuple[Store, Job]:
    """A job of the server by the first digits of its id."""
    settings = read_config(path, "database", "signing_key")
    signer = Ed25519PrivateKey.from_private_bytes(key_in(settings, "signing_key")).public_key()
    store = Store(settings["database"])
    found = [one for one in store.jobs() if one.id.hex().startswith(name)]
    if len(found) != 1:
        known = ", ".join(one.id.hex()[:8] for one in store.jobs()) or "none"
        raise InputError(f"{len(found)} jobs begin with '{name}'; there are {known}", parameter="job")
    return store, read_job(found[0].document, signer.public_bytes_raw())


if __name__ == "__main__":
    run_program(sys.argv[1], Path(sys.argv[2]))
