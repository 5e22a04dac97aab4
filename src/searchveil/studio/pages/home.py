"""The first page: what was paid and written, what is being made, and what is being decided about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from searchveil.errors import SearchveilError
from searchveil.studio import jobs
from searchveil.studio.guard import ENTRY, let_in
from searchveil.studio.pages.steps import studio_of
from searchveil.studio.show import page, words
from searchveil.studio.state import Studio
from searchveil.studio.words import LANGUAGES


async def home(request: Request) -> Response:
    return await run_in_threadpool(_home, request)


def _home(request: Request) -> Response:
    studio = studio_of(request)
    runs = jobs.jobs_in(studio.releases)
    shown = page(
        request,
        "home",
        root=studio.places.shown,
        accounts=[_account(studio, ledger) for ledger in studio.places.ledgers()],
        runs=[(job, studio.perhaps_paid(job)) for job in runs if job.state != "done"],
        unpaid=[_made(studio, job) for job in runs if job.state == "done" and not job.about.get("ledger")],
        drafts=[draft for draft in studio.drafts.all() if not draft.runs],
    )
    if "hx-request" in request.headers and not any(job.state == "running" for job in runs):
        shown.headers["hx-refresh"] = "true"  # what was awaited is done, and stands elsewhere on the page
    return shown


def _account(studio: Studio, ledger: str) -> Mapping[str, Any]:
    try:
        spent = studio.spent(ledger)
    except SearchveilError as problem:
        return {"ledger": ledger, "problem": problem, "spent": None, "folders": {}}
    folders = {entry.id: _within(studio, entry.out) for entry in spent.entries}
    return {"ledger": ledger, "problem": None, "spent": spent, "folders": folders}


def _within(studio: Studio, out: str | None) -> str | None:
    """The name of a release folder that can be shown: it is there, and inside the start folder."""
    if out is None or not (Path(out) / "guarantee.json").is_file():
        return None
    try:
        return studio.places.name(studio.places.path(out, "folder"))
    except SearchveilError:
        return None


def _made(studio: Studio, job: jobs.Job) -> Mapping[str, Any]:
    folder = str(job.about.get("folder", ""))
    return {"run": job, "folder": _within(studio, str(studio.places.root / folder))}


async def enter(request: Request) -> Response:
    """Whoever brings the link is let in. The cookie is set by a page, not by a redirect: see the text there."""
    door, cookie = request.app.state.door, request.app.state.cookie
    if request.method == "HEAD":  # as programs look at a link before a person opens it: that does not use it up
        raise HTTPException(405, "a link is opened with GET")
    session = door.enter(request.query_params.get("token", ""))
    if session is None:
        return page(request, "closed", 401)
    request.app.state.entered()
    request.scope["session"] = session
    let_in(answer := RedirectResponse("/", 303), session, request.headers, cookie)
    shown = page(request, "entered")
    shown.raw_headers.extend(one for one in answer.raw_headers if one[0] == b"set-cookie")
    return shown


async def language(request: Request) -> Response:
    form = request.scope["form"]
    asked, back = words(form, "language"), words(form, "back")
    if asked not in LANGUAGES:
        raise HTTPException(400, "there is no such language")
    request.scope["session"].language = asked
    safe = back if back.startswith("/") and not back.startswith(("//", "/\\", ENTRY)) else "/"
    return RedirectResponse(safe, 303)
