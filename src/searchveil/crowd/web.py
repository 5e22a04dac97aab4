"""What the three programs share on the wire: bounded bodies, plain errors, and how each is run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from searchveil.crowd.tokens import member_of
from searchveil.errors import SearchveilError

# The extension asks for no permission to read our servers' addresses, so they allow it themselves. Its anonymous
# requests from Firefox have no origin. There are no cookies here that a web page could make use of.
_BROWSERS = Middleware(
    CORSMiddleware,
    allow_origin_regex="null|(chrome|moz)-extension://[0-9a-z-]+",
    allow_methods=("GET", "POST"),
    allow_headers=("Authorization",),
    allow_credentials=True,
    max_age=3600,
)
SLOWEST_BODY = 30  # seconds that a body may take
Handler = Callable[[Request], Awaitable[Response]]


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


def member(request: Request, members: Callable[[], frozenset[str]]) -> str:
    """Who asks, by the credential shown; nobody else gets tokens."""
    shown = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    known = member_of(shown)
    if known not in members():
        raise HTTPException(401, "this credential belongs to no member")
    return known


def application(routes: list[Route], lifespan: Any = None) -> Starlette:
    def refused(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=400)

    def unavailable(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "the database cannot be written now; try again"}, status_code=503)

    def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, status_code=error.status_code)

    handlers: Any = {SearchveilError: refused, SQLAlchemyError: unavailable, HTTPException: http_error}
    return Starlette(routes=routes, middleware=[_BROWSERS], exception_handlers=handlers, lifespan=lifespan)


def octets(body: bytes) -> Response:
    return Response(body, media_type="application/octet-stream")


def serve(app: Starlette, host: str, port: int, certificate: str | None = None, key: str | None = None) -> None:
    """Run until a signal ends it. No access log: addresses of clients are never written down."""
    uvicorn.run(
        app,
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=30,
        server_header=False,
    )
