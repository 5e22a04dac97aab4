"""A relay: takes off its layer and the sender, holds reports, shuffles them and passes them on.

It keeps nothing on disk. A client's request is answered when the next hop has answered, so what a client takes for
delivered is in the server's database, whatever happens to the relay.
"""

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from secrets import SystemRandom
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from searchveil.bodies import read_body
from searchveil.crowd.config import MOST_HOPS
from searchveil.crowd.report import LAYER_BYTES, RECEIPT_BYTES, SEALED_BYTES, unwrap
from searchveil.crowd.store import REFUSED, RETRY
from searchveil.crowd.web import application, number_in, octets
from searchveil.crypto.hpke import UnsealError

MOST_REPORTS = 2_000  # in one request
MOST_WAITING = 50_000
ANSWER_BYTES = 1 + RECEIPT_BYTES


@dataclass(eq=False)
class _Waiting:
    """A report on its way, and where its answer goes."""

    sealed: bytes
    answer: "asyncio.Future[bytes]"
    request: object  # the one that it came in: reports of one request are one sender's


@dataclass(eq=False)
class Relay:
    private: bytes
    hops: Mapping[int, str]  # 0 is the server
    hold_seconds: float = 2.0
    at_least: int = 200  # so many reports are passed on at once, if they are not all of one sender
    transport: Any = None  # of tests
    waiting: dict[tuple[int, int], list[_Waiting]] = field(default_factory=dict)
    timers: "dict[tuple[int, int], asyncio.TimerHandle]" = field(default_factory=dict)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    client: httpx.AsyncClient | None = None
    held: int = 0  # reports whose answer is not set yet, on their way to the next hop included

    async def take(self, layers: int, body: bytes) -> bytes:
        """An answer for each report in a body: a status byte and a receipt."""
        size = SEALED_BYTES + layers * LAYER_BYTES
        if not body or len(body) % size:
            raise HTTPException(400, f"a body is reports of {size} bytes each")
        blobs = [body[i : i + size] for i in range(0, len(body), size)]
        if self.held + len(blobs) > MOST_WAITING:
            raise HTTPException(503, "too many reports are waiting; try again later")
        self.held += len(blobs)
        try:
            unwrapped = await run_in_threadpool(lambda: [_unwrapped(self.private, blob) for blob in blobs])
        except BaseException:
            self.held -= len(blobs)
            raise
        request = object()
        answers = [self._queue(layers - 1, one, request) for one in unwrapped]
        return b"".join([bytes([REFUSED]) + bytes(RECEIPT_BYTES) if one is None else await one for one in answers])

    def _queue(
        self, layers: int, unwrapped: tuple[int, bytes] | None, request: object
    ) -> "asyncio.Future[bytes] | None":
        """Where the answer will be; None if the report is refused."""
        if unwrapped is None or unwrapped[0] not in self.hops or (unwrapped[0] == 0) != (layers == 0):
            self.held -= 1
            return None
        hop, sealed = unwrapped
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        way = (hop, layers)
        waiting = self.waiting.setdefault(way, [])
        waiting.append(_Waiting(sealed, future, request))
        if len(waiting) >= self.at_least and waiting[0].request is not request:
            self._flush(way)
        elif way not in self.timers:
            self.timers[way] = loop.call_later(self.hold_seconds, self._flush, way)
        return future

    def _flush(self, way: tuple[int, int]) -> None:
        timer = self.timers.pop(way, None)
        if timer is not None:
            timer.cancel()
        batch = self.waiting.pop(way, [])
        if batch:
            task = asyncio.get_running_loop().create_task(self._forward(way, batch))
            self.tasks.add(task)
            task.add_done_callback(partial(self._forwarded, len(batch)))

    def _forwarded(self, number: int, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        self.held -= number

    async def _forward(self, way: tuple[int, int], batch: list[_Waiting]) -> None:
        SystemRandom().shuffle(batch)
        hop, layers = way
        for i in range(0, len(batch), MOST_REPORTS):
            some = batch[i : i + MOST_REPORTS]
            answer = await self._post(f"{self.hops[hop]}/reports/{layers}", b"".join(one.sealed for one in some))
            if len(answer) != len(some) * ANSWER_BYTES:  # the hop is down, or answers nonsense
                answer = (bytes([RETRY]) + bytes(RECEIPT_BYTES)) * len(some)
            for j, one in enumerate(some):
                if not one.answer.done():
                    one.answer.set_result(answer[j * ANSWER_BYTES : (j + 1) * ANSWER_BYTES])

    async def _post(self, url: str, body: bytes) -> bytes:
        assert self.client is not None
        try:
            answer = await self.client.post(url, content=body)
        except httpx.HTTPError:
            return b""
        return answer.content if answer.status_code == 200 else b""


def _unwrapped(private: bytes, blob: bytes) -> tuple[int, bytes] | None:
    try:
        return unwrap(private, blob)
    except UnsealError:
        return None


def relay_app(relay: Relay) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        async with httpx.AsyncClient(timeout=120, transport=relay.transport) as client:
            relay.client = client
            yield

    async def reports(request: Request) -> Response:
        layers = number_in(request, "layers", MOST_HOPS)
        if layers < 1:
            raise HTTPException(404, f"a relay takes reports with 1 to {MOST_HOPS} layers")
        body = await read_body(request, MOST_REPORTS * (SEALED_BYTES + layers * LAYER_BYTES))
        return octets(await relay.take(layers, body))

    return application([Route("/reports/{layers}", reports, methods=["POST"])], lifespan)
