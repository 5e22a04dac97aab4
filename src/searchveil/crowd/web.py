"""What the three programs share on the wire: plain errors, and how each is run."""

from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from searchveil.crowd.tokens import member_of
from searchveil.errors import SearchveilError

Handler = Callable[[Request], Awaitable[Response]]


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
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


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
