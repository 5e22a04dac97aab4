"""What the three programs share on the wire: plain errors, and how each is run."""

import socket
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

from searchveil.bodies import Impatient
from searchveil.crowd.tokens import member_of
from searchveil.errors import InputError, SearchveilError

# The extension asks for no permission to read our servers' addresses, so they allow it themselves. Its anonymous
# requests from Firefox have no origin. Requests that say who asks count as requests with credentials, so that a browser
# gives them connections of their own; no program here sets or reads a cookie that a web page could make use of.
_BROWSERS = Middleware(
    CORSMiddleware,
    allow_origin_regex="null|(chrome|moz)-extension://[0-9a-z-]+",
    allow_methods=("GET", "POST"),
    allow_headers=("Authorization",),
    allow_credentials=True,
    max_age=3600,
)
KEPT_ALIVE = 30  # seconds between two requests on a connection
MOST_CONNECTIONS = 1_000  # at a time: each may hold a body of two megabytes
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
    return Starlette(routes=routes, middleware=[_BROWSERS], exception_handlers=handlers, lifespan=lifespan)


def number_in(request: Request, name: str, most: int = 2**31 - 1) -> int:
    """A number in a path. Longer ones are nobody's, and would be errors of the database or of Python."""
    text = request.path_params[name]
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= most):
        raise HTTPException(404, f"a number up to {most} stands here")
    return int(text)


def octets(body: bytes) -> Response:
    return Response(body, media_type="application/octet-stream")


def serving(app: Starlette, certificate: str | None = None, key: str | None = None) -> uvicorn.Server:
    """No access log: addresses of clients are never written down."""
    config = uvicorn.Config(
        app,
        http=Impatient,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEPT_ALIVE,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
    )
    try:
        config.load()
    except OSError as error:  # those of TLS are among them
        raise InputError(f"{certificate} and {key} are no certificate with its key: {error}") from error
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"nothing can listen on {host}:{port}: {error}", parameter="listen") from error


def serve(app: Starlette, host: str, port: int, certificate: str | None = None, key: str | None = None) -> None:
    """Run until a signal ends it."""
    server = serving(app, certificate, key)
    with listen(host, port) as place:
        server.run(sockets=[place])
