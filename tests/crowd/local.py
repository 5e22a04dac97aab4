"""A community inside one process: the real programs behind a transport that can lose requests and answers."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from sqlalchemy import event
from starlette.applications import Starlette

from searchveil.crowd.aggregate import Opened, open_reports
from searchveil.crowd.artifacts import Search
from searchveil.crowd.client import Client, Sent
from searchveil.crowd.config import Addresses, init, invite
from searchveil.crowd.jobs import Job
from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.policy import Policy
from searchveil.crowd.programs import job_named, new_job, randomness_from, relay_from, server_from
from searchveil.crowd.randomness import Randomness
from searchveil.crowd.server import Server

T = TypeVar("T")
START = 1_800_000_000.0  # of the clock, some days before the end of an epoch


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Network(httpx.BaseTransport):
    """Requests by host name. `fault` may raise before a request is handled, or after, when its answer is lost."""

    def __init__(self) -> None:
        self.programs: dict[str, httpx.ASGITransport] = {}
        self.fault: Callable[[str, str], None] = lambda when, host: None
        self.seen: list[tuple[str, str, bytes]] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(280)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return self.do(self.handle(request))

    async def handle(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        self.seen.append((host, request.url.path, await request.aread()))
        self.fault("before", host)
        if host not in self.programs:
            raise httpx.ConnectError(f"{host} is down")
        answer = await self.programs[host].handle_async_request(request)
        content = await answer.aread()
        self.fault("after", host)
        return httpx.Response(answer.status_code, content=content, request=request)

    def shut(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Forwarding(httpx.AsyncBaseTransport):
    """What a relay sends goes over the same network."""

    def __init__(self, network: Network) -> None:
        self.network = network

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self.network.handle(request)


class LocalCrowd:
    def __init__(self, home: Path, *, relays: int = 1, hops: int = 1, database: str | None = None) -> None:
        self.home, self.clock, self.network = home, Clock(), Network()
        self.ends: dict[str, Callable[[], object]] = {}
        addresses = Addresses(
            "http://server", "http://randomness", tuple(f"http://relay-{i}" for i in range(1, relays + 1))
        )
        self.community = init(home, "test", addresses, hops=hops, hold_seconds=0.001)
        if database is not None:
            config = home / "server.toml"
            config.write_text(config.read_text().replace("server.sqlite", database))
        self.http = httpx.Client(transport=self.network)
        self.server: Server
        self.randomness: Randomness
        for program in ("server", "randomness", *(f"relay-{i}" for i in range(1, relays + 1))):
            self.start(program)

    def start(self, program: str) -> None:
        """Or start anew, from what is on the disk."""
        self.stop(program)
        app: Starlette
        if program == "server":
            app, _, self.server = server_from(self.home / "server.toml", self.clock)
        elif program == "randomness":
            app, _, self.randomness = randomness_from(self.home / "randomness.toml", self.clock)
        else:
            app, _, relay = relay_from(self.home / f"{program}.toml")
            relay.transport = Forwarding(self.network)
        if program in ("server", "randomness") and getattr(self, program).store.is_sqlite:
            # No power fails in here, and waiting for the disk is most of the time.
            event.listen(getattr(self, program).store.engine, "checkout", _in_no_hurry)
        lifespan = app.router.lifespan_context(app)
        self.network.do(lifespan.__aenter__())
        self.ends[program] = lambda: self.network.do(lifespan.__aexit__(None, None, None))
        self.network.programs[program] = httpx.ASGITransport(app, raise_app_exceptions=False)

    def stop(self, program: str) -> None:
        if self.network.programs.pop(program, None) is not None:
            self.ends.pop(program)()
            if program in ("server", "randomness"):
                getattr(self, program).store.close()

    def close(self) -> None:
        for program in list(self.network.programs):
            self.stop(program)
        self.http.close()
        self.network.shut()

    def job(self, policy: Policy, artifact: str = "query", **more: Any) -> Job:
        return new_job(self.home / "server.toml", artifact, policy, clock=self.clock, http=self.http, **more)

    def invite(self, number: int = 1) -> list[str]:
        return invite(self.home, number)

    def member(
        self, name: str, searches: Sequence[Search | str], *, invitation: str | None = None, secret: bytes | None = None
    ) -> Client:
        log = OwnLog(self.home / "clients" / f"{name}.sqlite", durable=False)
        log.add(Search(one, START) if isinstance(one, str) else one for one in searches)
        return Client(
            log,
            self.community,
            invitation or self.invite()[0],
            secret or os.urandom(32),
            http=self.http,
            named=self.http,
            clock=self.clock,
            patience=0,
        )

    def run(self, client: Client, job: Job) -> Sent:
        client.log.set_consent(job.id.hex(), "always")
        (found,) = [one for one in client.jobs() if one.id == job.id]
        return client.run(found)

    def opened(self, job: Job) -> dict[str, Opened]:
        store, job = job_named(self.home / "server.toml", job.id.hex())
        found = {one.text: one for one in open_reports(store, job)}
        store.close()
        return found

    def counts(self, job: Job) -> dict[str, int]:
        return {text: one.count for text, one in self.opened(job).items()}


def _in_no_hurry(connection: Any, record: Any, proxy: Any) -> None:
    connection.execute("PRAGMA synchronous = OFF")
