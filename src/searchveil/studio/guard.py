"""Who may ask: the browser that was given the link, on pages of this very server.

A page on the network must not reach the studio through the browser of its user. So the name that the browser asked
for is checked (DNS rebinding), where a request comes from, a cookie that no other site sends along, and on every form
a token that no other site knows.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from searchveil.bodies import read_body
from searchveil.studio.words import LANGUAGES, preferred

ENTRY = "/enter"
OPEN = ("/static/",)  # nothing private, and a refused visitor's page needs its style
MOST_FORM = 1 << 16  # bytes of a form; the largest of ours has some thousand
MOST_SKIPPED = 1 << 26  # bytes of a larger one that are read and dropped, so that its sender hears the answer
MOST_SESSIONS = 20

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with that, browsers hide the origin of a form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass
class Session:
    """One browser that came with a link."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    language: str = LANGUAGES[0]


class Door:
    """Links into the studio, each good for one browser, and the sessions of those that used one."""

    def __init__(self) -> None:
        self._token = ""
        self._sessions: dict[str, Session] = {}
        self.new_token()

    def new_token(self) -> str:
        """From now on this one opens, and none from before."""
        self._token = secrets.token_urlsafe(32)
        return self._token

    def enter(self, token: str) -> Session | None:
        """A new session, and the token is used up; None where it is not the right one."""
        if not _same(token, self._token):
            return None
        self.new_token()
        session = Session()
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session.id] = session
        return session

    def session(self, id: str) -> Session | None:
        return self._sessions.get(id)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class Guard:
    """Checks every request before the application sees it, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, door: Door, hosts: frozenset[str], cookie: str) -> None:
        self.app, self.door, self.hosts, self.cookie = app, door, hosts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        answer: ASGIApp
        try:
            answer = await self._checked(request) or self.app
        except HTTPException as refusal:
            answer = PlainTextResponse(f"{refusal.detail}\n", refusal.status_code)
        await answer(scope, receive, send_guarded)

    async def _checked(self, request: Request) -> Response | None:
        """An answer where the application need not be asked."""
        host = request.headers.get("host", "")
        if host not in self.hosts:
            raise HTTPException(403, "this is no name of the studio: open the link that it printed")
        check_origin(request.headers, request.method, f"http://{host}")
        path = request.url.path
        if path.startswith(OPEN):
            return None
        session = self.door.session(_cookie(request.headers, self.cookie))
        if path == ENTRY:
            return None
        if session is None:
            if request.method == "GET" and path == "/":
                return RedirectResponse(ENTRY, 303)
            raise HTTPException(401, "this browser has not come in yet: open the link that the studio printed")
        request.scope["session"] = session
        if request.method == "POST":
            request.scope["form"] = await read_form(request, session)
        elif request.method not in ("GET", "HEAD"):
            raise HTTPException(405, "only GET and POST are answered")
        return None


def check_origin(headers: Headers, method: str, own: str) -> None:
    """Refuse what another site's page sends; opening a link from elsewhere is allowed, and shows nothing."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    navigates = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    foreign = origin is not None and origin != own
    if foreign or (site not in (None, "same-origin", "none") and not navigates):
        raise HTTPException(403, "this comes from another site's page, which may not ask the studio anything")
    if method == "POST" and origin is None:
        raise HTTPException(403, "a form needs the header Origin, which every browser sends")


async def read_form(request: Request, session: Session) -> dict[str, list[str]]:
    try:
        body = await read_body(request, MOST_FORM)
    except HTTPException as refusal:
        if refusal.status_code == 413:
            await _skip(request)
            raise HTTPException(413, f"the form is larger than {MOST_FORM:,} bytes; nothing was done") from None
        raise
    try:
        form = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=500)
    except ValueError:
        raise HTTPException(400, "this is no form as the studio's pages send it") from None
    if not _same(form.pop("form_token", [""])[0], session.form_token):
        raise HTTPException(403, "the form's token is missing or of another session: load the page again")
    return form


async def _skip(request: Request) -> None:
    skipped = 0
    async for part in request.stream():
        skipped += len(part)
        if skipped > MOST_SKIPPED:
            return


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def let_in(response: Response, session: Session, headers: Mapping[str, str], cookie: str) -> None:
    """Give the browser its cookie: unreadable for scripts, never sent along by other sites."""
    session.language = preferred(headers.get("accept-language", ""))
    response.set_cookie(cookie, session.id, httponly=True, samesite="strict", path="/")
