"""The coordinator: passes on what parties send each other sealed, unites blinded ids, and opens the items that passed.

It holds no log. It sees how many blinded ids each party has and which ones they share, the number of opened items and
their texts; it sees no total and no text of an item that did not pass (docs/collab.md).
"""

import asyncio
import contextlib
import hashlib
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from searchveil.collab import opening, tls
from searchveil.collab.agreement import RunFile
from searchveil.collab.identity import Identity, fingerprint_of
from searchveil.collab.messages import (
    LARGEST,
    PART,
    Header,
    Hello,
    Phase,
    Refused,
    RunEnded,
    check_part,
    pack,
    parts_of,
    read_json,
    unpack,
)
from searchveil.collab.transcript import Transcript
from searchveil.crypto import masks
from searchveil.errors import InputError, printable
from searchveil.progress import Progress, silent

ID_BYTES = 16  # of a blinded id
POLL = 5.0  # seconds that a request waits for what is not there yet
MOST_WAITING = 2 << 30  # bytes that may wait in all boxes
MOST_OF_A_PARTY = 1 << 30  # bytes that the coordinator takes from one party in one phase
LONGEST_REASON = 400


class _WithPeer(H11Protocol):
    """The certificate that the client showed, for the application to see."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        shown = transport.get_extra_info("ssl_object")
        peer = None if shown is None else shown.getpeercert(binary_form=True)
        self.app_state = {**self.app_state, "peer": None if peer is None else fingerprint_of(peer)}
        super().connection_made(transport)


@dataclass
class _Box:
    """Messages from one to another that wait to be fetched."""

    first: int = 0  # the number of the first one that is still here
    waiting: deque[bytes] = field(default_factory=deque)
    newest: bytes = b""  # its digest: a message that comes again after a cut line is told from another one

    @property
    def next(self) -> int:
        return self.first + len(self.waiting)


class Coordinator:
    def __init__(
        self, identity: Identity, run: RunFile, *, transcript: Path | None = None, progress: Progress = silent
    ) -> None:
        self.run, self.agreement, self.identity = run, run.agreement, identity
        if identity.name != self.agreement.coordinator.name:
            raise InputError(
                f"{identity.folder} is the folder of {identity.name}, and the run file names "
                f"{self.agreement.coordinator.name} as the coordinator"
            )
        identity.pinned(identity.name, self.agreement.coordinator.certificate).check_valid()
        self.certificates = {name: identity.pinned(name, self.agreement.parties[name]) for name in self.agreement.names}
        self.by_fingerprint = {fingerprint: name for name, fingerprint in self.agreement.parties.items()}
        self.transcript = Transcript(transcript)
        self.progress = progress
        self.hellos: dict[str, Hello] = {}
        self.session = ""
        self.boxes: dict[tuple[str, str], _Box] = {}
        self.bytes_waiting = 0
        self.heard: dict[str, float] = {}
        self.done: set[str] = set()
        self.told: set[str] = set()  # who knows that the run has ended
        self.reason: str | None = None
        self.changed = asyncio.Event()

    # --- the server ---

    def serve(self) -> None:
        """Until all parties are done, or the run has ended otherwise and they know it. RunEnded in that case."""
        host, _, port = self.agreement.coordinator.address.rpartition(":")
        context = tls.for_coordinator(self.identity, self.certificates.values())
        config = uvicorn.Config(
            self.app(),
            host=host.strip("[]"),
            port=int(port),
            http=_WithPeer,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
            ssl_context_factory=lambda *_: context,
        )
        self.server = uvicorn.Server(config)
        try:
            self.server.run()
        except SystemExit:
            raise InputError(f"cannot listen at {self.agreement.coordinator.address}: the port is in use") from None
        self.transcript.ended(self.reason or "all parties are done")
        if self.reason is None and self.done != set(self.agreement.names):
            self.reason = "the coordinator was stopped"
        if self.reason is not None:
            raise RunEnded(self.reason)

    def app(self) -> Starlette:
        routes = [
            Route("/v1/agreement", self._agreement),
            Route("/v1/hello", self._hello, methods=["POST"]),
            Route("/v1/hellos", self._hellos),
            Route("/v1/messages", self._take, methods=["POST"]),
            Route("/v1/messages/{sender}/{number:int}", self._give),
            Route("/v1/beat", self._beat, methods=["POST"]),
            Route("/v1/end", self._end, methods=["POST"]),
            Route("/v1/done", self._done, methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.changed = asyncio.Event()
        tasks = [asyncio.create_task(self._guarded()), asyncio.create_task(self._watch())]
        self.progress(f"waiting for {', '.join(self.agreement.names)}")
        yield
        for task in tasks:
            task.cancel()

    async def _watch(self) -> None:
        """Deadlines by a clock that nobody can set; ends the server when there is nothing left to do."""
        start = time.monotonic()
        ended: float | None = None
        while True:
            await asyncio.sleep(0.2)
            now = time.monotonic()
            if self.reason is None:
                self._check_deadline(now - start)
                self._check_silence(now)
            if self.reason is not None:
                ended = now if ended is None else ended
                everybody = self.told | self.done >= set(self.heard)  # whoever ever asked waits for an answer
                if everybody or now - ended > self.agreement.silence:
                    await asyncio.sleep(0.5)  # what is being answered just now
                    self.server.should_exit = True
            if self.done == set(self.agreement.names):
                self.server.should_exit = True

    def _check_deadline(self, passed: float) -> None:
        if passed > self.agreement.deadline:
            late = [name for name in self.agreement.names if name not in self.done]
            missing = [name for name in late if name not in self.hellos]
            who = f"{', '.join(missing)} never came" if missing else f"{', '.join(late)} had not finished"
            self.end(f"the deadline of {self.agreement.deadline:g} s has passed: {who}")

    def _check_silence(self, now: float) -> None:
        """Once all parties are there, none of them may be silent for long."""
        if len(self.hellos) < len(self.agreement.names):
            return
        for name, when in self.heard.items():
            if name not in self.done and now - when > self.agreement.silence:
                self.end(f"{name} has not been heard of for {self.agreement.silence:g} s")

    def end(self, reason: str) -> None:
        """The run is over for everybody; the first reason counts."""
        if self.reason is None and self.done != set(self.agreement.names):
            self.reason = printable(reason)[:LONGEST_REASON]
            self.progress(f"the run ended: {self.reason}")
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def _wait(self, until: float) -> bool:
        """Until something changed, or the time has come (False)."""
        left = until - time.monotonic()
        if left <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), left)
        return True

    # --- what parties ask for ---

    def _sender(self, request: Request) -> str:
        name = self.by_fingerprint.get(request.state.peer or "")
        if name is None:  # TLS lets nobody else in
            raise Refused("a certificate that is not in the run file")
        self.heard[name] = time.monotonic()
        return name

    def _ended(self, name: str) -> Response | None:
        if self.reason is None:
            return None
        self.told.add(name)
        return JSONResponse({"ended": self.reason}, status_code=409)

    async def _agreement(self, request: Request) -> Response:
        name = self._sender(request)
        return self._ended(name) or Response(self.run.text, media_type="application/toml")

    async def _hello(self, request: Request) -> Response:
        name = self._sender(request)
        if (over := self._ended(name)) is not None:
            return over
        try:
            hello = Hello.model_validate_json(await _body(request, 5000))
            if hello.name != name:
                raise Refused(f"it calls itself {hello.name}")
            if hello.run != self.run.hash:
                raise Refused("its run file is another one")
            self.certificates[name].check_signature(bytes.fromhex(hello.signature), hello.signed)
            if self.hellos.get(name, hello) != hello:
                raise Refused("it came a second time, with another key; a run that was left cannot be resumed")
        except Refused as problem:
            return self._refuse(name, str(problem))
        except ValidationError:
            return self._refuse(name, "a malformed hello")
        except Exception:
            return self._refuse(name, "a hello without its signature")
        if name not in self.hellos:
            self.hellos[name] = hello
            self.progress(f"{name} is here ({len(self.hellos)} of {len(self.agreement.names)})")
        if len(self.hellos) == len(self.agreement.names) and not self.session:
            self.session = session_of(self.run.hash, self.hellos)
        self._wake()
        return JSONResponse({})

    async def _hellos(self, request: Request) -> Response:
        name, until = self._sender(request), time.monotonic() + POLL
        while not self.session and self.reason is None and await self._wait(until):
            pass
        if (over := self._ended(name)) is not None:
            return over
        if not self.session:
            return Response(status_code=204)
        return JSONResponse([self.hellos[party].model_dump() for party in self.agreement.names])

    async def _take(self, request: Request) -> Response:
        name = self._sender(request)
        if (over := self._ended(name)) is not None:
            return over
        try:
            message = await _body(request, LARGEST)
            header, _, _ = unpack(message)
            self._check(header, name)
            self._store(header, message)
        except Refused as problem:
            return self._refuse(name, str(problem))
        return JSONResponse({})

    def _check(self, header: Header, name: str) -> None:
        if header.run != self.run.hash:
            raise Refused("a message of another run")
        if header.session != self.session:
            raise Refused("a message of another session")
        if header.sender != name:
            raise Refused(f"a message in the name of {header.sender}")
        if header.recipient == name or header.recipient not in (*self.agreement.names, self.agreement.coordinator.name):
            raise Refused(f"a message to {header.recipient}")

    def _store(self, header: Header, message: bytes) -> None:
        box = self.boxes.setdefault((header.sender, header.recipient), _Box())
        digest = hashlib.sha256(message).digest()
        if header.number == box.next - 1 and digest == box.newest:
            return  # sent again, because the line was cut before the answer arrived
        if header.number != box.next:
            raise Refused(
                f"message {header.number} to {header.recipient} where {box.next} is next (replayed or out of order)"
            )
        if self.bytes_waiting + len(message) > MOST_WAITING:
            self.end(f"more than {MOST_WAITING:,} bytes wait to be fetched, most of them from {self._busiest()}")
            raise Refused("too much waits to be fetched")
        box.waiting.append(message)
        box.newest = digest
        self.bytes_waiting += len(message)
        self.transcript.message("received", header.sender, header.phase, header.topic, header.number, len(message))
        self._wake()

    def _busiest(self) -> str:
        """Who sent most of what waits: another one may be the one that finds no room."""
        sizes: dict[str, int] = {}
        for (sender, _), box in self.boxes.items():
            sizes[sender] = sizes.get(sender, 0) + sum(map(len, box.waiting))
        return max(sizes, key=sizes.__getitem__)

    async def _give(self, request: Request) -> Response:
        name, sender = self._sender(request), request.path_params["sender"]
        number, until = int(request.path_params["number"]), time.monotonic() + POLL
        if sender not in (*self.agreement.names, self.agreement.coordinator.name):
            return self._refuse(name, "it asks for messages of nobody")
        box = self.boxes.setdefault((sender, name), _Box())
        while box.waiting and box.first < number:  # those before have arrived
            self.bytes_waiting -= len(box.waiting.popleft())
            box.first += 1
        while number >= box.next and self.reason is None and await self._wait(until):
            pass
        if (over := self._ended(name)) is not None:
            return over
        if number >= box.next:
            return Response(status_code=204)
        if number < box.first:
            return self._refuse(name, f"it asks for message {number} of {sender} again")
        message = box.waiting[number - box.first]
        return Response(message, media_type="application/octet-stream")

    async def _beat(self, request: Request) -> Response:
        name = self._sender(request)
        return self._ended(name) or JSONResponse({})

    async def _end(self, request: Request) -> Response:
        name = self._sender(request)
        self.told.add(name)
        try:
            said = read_json(await _body(request, 5000))["reason"]
        except (Refused, ValueError, KeyError, TypeError):
            said = "it gave up"
        self.end(f"{name}: {said}")
        return JSONResponse({})

    async def _done(self, request: Request) -> Response:
        name = self._sender(request)
        if (over := self._ended(name)) is not None:
            return over
        self.done.add(name)
        self.progress(f"{name} has its release")
        self._wake()
        return JSONResponse({})

    def _refuse(self, name: str, why: str) -> Response:
        self.end(f"{name} sent what is refused: {why}")
        over = self._ended(name)
        assert over is not None or self.done
        return over or Response(status_code=409)

    # --- its own part of the protocol ---

    async def _guarded(self) -> None:
        try:
            await self._work()
        except Refused as problem:
            self.end(str(problem))
        except RunEnded:
            pass
        except Exception as problem:
            self.end(f"the coordinator failed ({type(problem).__name__})")

    async def _work(self) -> None:
        while not self.session:
            await self._wait(time.monotonic() + POLL)
        if self.agreement.mode == "paper":
            from searchveil.collab.paper import solve

            await solve(self)
        else:
            await self._unite_and_open()

    async def _unite_and_open(self) -> None:
        self.transcript.phase("universe")
        ids = {name: await self.collect(name, "universe", "ids", check_ids) for name in self.agreement.names}
        self.progress(f"uniting the blinded ids of {len(ids)} parties")
        union = await asyncio.to_thread(united, list(ids.values()))
        for name in self.agreement.names:
            self.send(name, "universe", "union", union)
        del ids, union
        self.transcript.phase("open")
        shares = {name: await self.collect(name, "open", "shares") for name in self.agreement.names}
        self.progress("opening the items that passed")
        texts = await asyncio.to_thread(self._opened, shares)
        for name in self.agreement.names:
            self.send(name, "open", "texts", texts)

    async def collect(
        self, sender: str, phase: Phase, topic: str, check: Any = None, *, most: int | None = None
    ) -> bytes:
        """A whole stream of a party to the coordinator."""
        most = MOST_OF_A_PARTY if most is None else most
        box = self.boxes.setdefault((sender, self.agreement.coordinator.name), _Box())
        gathered: list[bytes] = []
        size = 0
        while True:
            while not box.waiting:
                if self.reason is not None:
                    raise RunEnded(self.reason)
                await self._wait(time.monotonic() + POLL)
            message = box.waiting.popleft()
            box.first += 1
            self.bytes_waiting -= len(message)
            header, _, payload = unpack(message)
            if (header.phase, header.topic, header.part) != (phase, topic, len(gathered)):
                raise Refused(f"{sender} sent {header.phase}/{header.topic} where {phase}/{topic} was expected")
            check_part(header, len(payload))
            gathered.append(payload)
            size += len(payload)
            if size > most:
                raise Refused(f"{sender} sent more than {most:,} bytes of {topic}")
            if header.last:
                break
        whole = b"".join(gathered)
        if check is not None:
            try:
                await asyncio.to_thread(check, whole)
            except ValueError as problem:
                raise Refused(f"{sender} sent what is refused: {problem}") from None
        return whole

    def send(self, recipient: str, phase: Phase, topic: str, payload: bytes) -> None:
        box = self.boxes.setdefault((self.agreement.coordinator.name, recipient), _Box())
        count = parts_of(len(payload))
        for part in range(count):
            piece = payload[PART * part : PART * (part + 1)]
            header = Header(
                run=self.run.hash,
                session=self.session,
                phase=phase,
                topic=topic,
                sender=self.agreement.coordinator.name,
                recipient=recipient,
                number=box.next,
                part=part,
                last=part == count - 1,
                size=len(piece),
            )
            message = pack(header.encode(), piece)
            box.waiting.append(message)
            self.bytes_waiting += len(message)
            self.transcript.message("sent", recipient, phase, topic, header.number, len(message))
        self._wake()

    def _opened(self, shares: dict[str, bytes]) -> bytes:
        """The texts in the order in which the parties numbered them; null where nobody held the item."""
        parts = opening.parts_for(self.agreement.longest_text)
        vectors: list[list[int]] = []
        for name, sent in shares.items():
            try:
                elements = masks.from_bytes(sent)
            except ValueError as problem:
                raise Refused(f"{name} sent what is refused: {problem}") from None
            if len(elements) % (parts + 1) or (vectors and len(elements) != len(vectors[0])):
                raise Refused(f"{name} opens another number of items than the others")
            vectors.append(elements)
        sums = masks.sum_elements(vectors)
        texts: list[tuple[str, str] | None] = []
        for start in range(0, len(sums), parts + 1):
            try:
                raw = opening.opened(sums[start : start + parts + 1])
                texts.append(
                    None if raw is None else (raw[: opening.TAG_BYTES].hex(), raw[opening.TAG_BYTES :].decode())
                )
            except ValueError:
                raise Refused("an opened item is not one text: a party sent a wrong share") from None
        return json.dumps(texts, ensure_ascii=False).encode()


def session_of(run: str, hellos: dict[str, Hello]) -> str:
    """One run of a run file: another key of any party makes another session."""
    said = "".join(hellos[name].model_dump_json() + "\n" for name in sorted(hellos))
    return hashlib.sha256(f"{run}\n{said}".encode()).hexdigest()


def check_ids(raw: bytes) -> None:
    """Sorted, and each once."""
    if len(raw) % ID_BYTES:
        raise ValueError("blinded ids that are cut off")
    ids = np.frombuffer(raw, f"S{ID_BYTES}")
    if not (ids[:-1] < ids[1:]).all():
        raise ValueError("blinded ids that are not sorted, or twice the same")


def united(lists: list[bytes]) -> bytes:
    return np.unique(np.concatenate([np.frombuffer(raw, f"S{ID_BYTES}") for raw in lists])).tobytes()


async def _body(request: Request, most: int) -> bytes:
    """The body, as long as it is not larger than allowed: what is longer is not read."""
    gathered: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise Refused(f"a message of more than {most} bytes")
        gathered.append(piece)
    return b"".join(gathered)
