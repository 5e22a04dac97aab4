"""The randomness server: blind evaluations under one key per epoch, which is destroyed afterwards.

It learns neither artifacts nor who asks about what: a member fetches tokens by name, and spends them without one.
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import sqlalchemy as sa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from searchveil.bodies import read_body
from searchveil.crowd.store import EPOCH, ISSUED, SPENT, Store
from searchveil.crowd.tokens import TOKEN_BYTES, TokenError, is_genuine, read_elements, write_evaluation
from searchveil.crowd.web import application, member, number_in, octets
from searchveil.crypto import voprf
from searchveil.errors import InputError

BATCH = 64  # evaluations that one token pays for
TURN_SECONDS = 60
AGAIN_SECONDS = 5  # while somebody who reads keeps a destroyed key from being overwritten
BATCHES = 200  # tokens of a member per epoch
_PURPOSE = b"searchveil crowd epochs v1\n"


class Randomness:
    """The keys and their use, apart from HTTP. `clock` gives seconds since 1970."""

    def __init__(
        self,
        store: Store,
        signer: bytes,
        *,
        epoch_seconds: int,
        grace_seconds: int = 3600,
        batches: int = BATCHES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.signer, self.clock = store, signer, clock
        self.epoch_seconds, self.grace_seconds, self.batches = epoch_seconds, grace_seconds, batches
        # A process that was killed may have left a destroyed key in the log of changes: the first turn looks after it.
        self.overwritten = False
        self._turning = threading.Lock()

    def turn(self) -> int:
        """Make the keys of this epoch and the next, destroy those whose time is over; which epoch it is."""
        current = int(self.clock() // self.epoch_seconds)
        with self.store.engine.connect() as connection:
            rows = connection.execute(sa.select(EPOCH.c.number, EPOCH.c.oprf_private.is_(None))).all()
        there = {number for number, _ in rows}
        for number in {current, current + 1} - there:
            oprf, token = voprf.generate(), voprf.generate()
            with self.store.write() as connection:
                connection.execute(
                    self.store._insert(EPOCH).values(
                        number=number,
                        oprf_private=oprf,
                        token_private=token,
                        oprf_public=voprf.public_of(oprf),
                        token_public=voprf.public_of(token),
                    )
                )
        with self._turning:
            for number, destroyed in rows:
                if not destroyed and self.clock() >= (number + 1) * self.epoch_seconds + self.grace_seconds:
                    self.destroy(number)
            if not self.overwritten:
                self.overwritten = self.store.overwrite()
        return current

    def destroy(self, number: int) -> None:
        """Forget an epoch's keys; `turn` has them overwritten. Then nobody can test a guess about its reports."""
        self.overwritten = False
        with self.store.write() as connection:
            connection.execute(
                sa.update(EPOCH).where(EPOCH.c.number == number).values(oprf_private=None, token_private=None)
            )
            for table in (ISSUED, SPENT):  # of tokens that are worth nothing now
                connection.execute(sa.delete(table).where(table.c.scope == _scope(number)))

    def epochs(self) -> dict[str, str]:
        """The public keys, signed: every client must use the same ones."""
        self.turn()
        with self.store.engine.connect() as connection:
            rows = connection.execute(sa.select(EPOCH).order_by(EPOCH.c.number)).all()
        listed = {
            str(row.number): {
                "oprf": row.oprf_public.hex(),
                "token": row.token_public.hex(),
                "ends": (row.number + 1) * self.epoch_seconds,
            }
            for row in rows
            if row.oprf_private is not None
        }
        text = json.dumps({"epochs": listed, "batch": BATCH, "batches": self.batches}, sort_keys=True)
        signature = Ed25519PrivateKey.from_private_bytes(self.signer).sign(_PURPOSE + text.encode())
        return {"epochs": text, "signature": signature.hex()}

    def _keys(self, number: int) -> tuple[bytes, bytes]:
        self.turn()
        with self.store.engine.connect() as connection:
            row = connection.execute(sa.select(EPOCH).where(EPOCH.c.number == number)).one_or_none()
        if row is None or row.oprf_private is None:
            raise InputError(f"epoch {number} has no key: it has not begun, or its key was destroyed")
        return bytes(row.oprf_private), bytes(row.token_private)

    def tokens(self, number: int, who: str, body: bytes) -> bytes:
        _, private = self._keys(number)
        elements = read_elements(body, self.batches)
        for element in elements:
            voprf.check_element(element)
        self.store.issue(_scope(number), who, body, len(elements), self.batches)
        return write_evaluation(private, elements)

    def evaluate(self, number: int, body: bytes) -> bytes:
        private, token_private = self._keys(number)
        token, blinded = body[:TOKEN_BYTES], body[TOKEN_BYTES:]
        elements = read_elements(blinded, BATCH)
        if not is_genuine(token_private, token):
            raise TokenError("an evaluation needs a token of this epoch")
        for element in elements:
            voprf.check_element(element)
        self.store.spend(_scope(number), token, blinded)
        return write_evaluation(private, elements)


def _scope(number: int) -> str:
    return f"randomness {number}"


def read_epochs(record: dict[str, str], signer: bytes) -> dict[str, dict[str, str]]:
    """The epochs in a signed list, by number."""
    try:
        text, signature = record["epochs"], bytes.fromhex(record["signature"])
        Ed25519PublicKey.from_public_bytes(signer).verify(signature, _PURPOSE + text.encode())
        listed: dict[str, dict[str, str]] = {name: dict(one) for name, one in json.loads(text)["epochs"].items()}
    except (InvalidSignature, KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError("the list of epochs is not signed by this community's randomness server") from error
    return listed


def randomness_app(randomness: Randomness, members: Callable[[], frozenset[str]]) -> Starlette:
    async def epochs(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(randomness.epochs))

    async def tokens(request: Request) -> Response:
        who = member(request, members)
        body = await read_body(request, randomness.batches * voprf.ELEMENT_BYTES)
        return octets(await run_in_threadpool(randomness.tokens, number_in(request, "epoch"), who, body))

    async def evaluate(request: Request) -> Response:
        body = await read_body(request, TOKEN_BYTES + BATCH * voprf.ELEMENT_BYTES)
        return octets(await run_in_threadpool(randomness.evaluate, number_in(request, "epoch"), body))

    async def turn_in_time() -> None:
        """Keys are destroyed when their time is over, whether or not anybody asks."""
        while True:
            with suppress(SQLAlchemyError):  # a full disk, a database that restarts: the next minute may do
                await run_in_threadpool(randomness.turn)
            await asyncio.sleep(TURN_SECONDS if randomness.overwritten else min(AGAIN_SECONDS, TURN_SECONDS))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(turn_in_time())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return application(
        [
            Route("/epochs", epochs),
            Route("/tokens/{epoch}", tokens, methods=["POST"]),
            Route("/evaluate/{epoch}", evaluate, methods=["POST"]),
        ],
        lifespan,
    )
