"""Bodies of requests, bounded in size and time."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

SLOWEST_BODY = 30  # seconds that a body may take


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
