"""Requests and their bodies, bounded in size and time."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

SLOWEST_BODY = 30  # seconds that a body may take
SLOWEST_HEADERS = 20  # seconds that the head of a request may take


class Impatient(H11Protocol):
    """Gives a connection up on which no request begins: uvicorn waits without end for one that comes byte by byte."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(SLOWEST_HEADERS, self._give_up, None)

    def on_response_complete(self) -> None:
        last = self.cycle
        super().on_response_complete()
        self.loop.call_later(self.timeout_keep_alive + SLOWEST_HEADERS, self._give_up, last)

    def _give_up(self, last: object) -> None:
        if self.cycle is last:
            self.transport.close()


async def read_body(request: Request, most: int) -> bytes:
    """The body, unless it is larger than `most` bytes or takes too long."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise HTTPException(413, f"the body is larger than {most} bytes")
                parts.append(part)
    except TimeoutError:
        raise HTTPException(408, f"the body took longer than {SLOWEST_BODY} seconds") from None
    return b"".join(parts)
