"""The server: jobs, tokens, intake of reports, and a page about what is asked and what was published."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from searchveil.bodies import read_body
from searchveil.crowd.jobs import Job, read_job
from searchveil.crowd.policy import MOST_REPORTS as MOST_TOKENS
from searchveil.crowd.relay import MOST_REPORTS
from searchveil.crowd.report import DUMMY, RECEIPT_BYTES, SEALED_BYTES, Report, ReportError, receipt, unseal
from searchveil.crowd.store import ACCEPTED, REFUSED, JobClosedError, Store
from searchveil.crowd.tokens import is_genuine, read_elements, write_evaluation
from searchveil.crowd.web import application, member, octets
from searchveil.crypto import hpke, voprf
from searchveil.errors import InputError

LATE = 600  # seconds after its end that a job still takes reports: clocks differ


class Server:
    """Everything but HTTP. `clock` gives seconds since 1970."""

    def __init__(self, store: Store, private: bytes, signer: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self.store, self.private, self.signer, self.clock = store, private, signer, clock
        # Working a promise out takes some tenths of a second, and anybody may ask for the status.
        self._read = lru_cache(maxsize=1_000)(lambda document: read_job(document, signer))

    def open_jobs(self) -> dict[bytes, tuple[Job, bytes]]:
        """The jobs that take reports, with the private keys of their tokens."""
        now = self.clock()
        found = {}
        for stored in self.store.jobs():
            if not stored.closed and stored.token_private is not None:
                job = self._read(stored.document)
                if job.opens - LATE <= now < job.expires + LATE:
                    found[stored.id] = job, stored.token_private
        return found

    def documents(self) -> list[Any]:
        """The signed documents of the jobs that take reports."""
        open_now = self.open_jobs()
        return [stored.document for stored in self.store.jobs() if stored.id in open_now]

    def tokens(self, id: bytes, who: str, body: bytes) -> bytes:
        job, private = self._job(id)
        elements = read_elements(body, job.policy.per_user)
        for element in elements:
            voprf.check_element(element)
        self.store.issue(id.hex(), who, body, len(elements), job.policy.per_user)
        return write_evaluation(private, elements)

    def tokens_left(self, id: bytes, who: str) -> int:
        job, _ = self._job(id)
        return job.policy.per_user - self.store.issued(id.hex(), who)

    def _job(self, id: bytes) -> tuple[Job, bytes]:
        jobs = self.open_jobs()
        if id not in jobs:
            raise InputError("there is no such job that is open")
        return jobs[id]

    def take(self, body: bytes) -> bytes:
        """An answer for each sealed report: a status byte and a receipt. What is accepted is on the disk."""
        if not body or len(body) % SEALED_BYTES:
            raise InputError(f"a body is sealed reports of {SEALED_BYTES} bytes each")
        while True:
            jobs = self.open_jobs()
            opened = [self._open(body[i : i + SEALED_BYTES], jobs) for i in range(0, len(body), SEALED_BYTES)]
            kept = [(text, report, jobs[report.job][0].secondary_k is not None) for text, report in opened if report]
            with suppress(JobClosedError):  # in this very moment; then its reports are refused
                statuses = iter(self.store.add_reports(kept))
                break
        answers = []
        for text, report in opened:
            status = next(statuses) if report else (ACCEPTED if text else REFUSED)
            answers.append(bytes([status]) + (receipt(text) if status == ACCEPTED else bytes(RECEIPT_BYTES)))
        return b"".join(answers)

    def _open(self, sealed: bytes, jobs: dict[bytes, tuple[Job, bytes]]) -> tuple[bytes, Report | None]:
        """(bytes, report); without a report a dummy, without bytes nothing that counts."""
        try:
            text = unseal(self.private, sealed)
            report = Report.from_bytes(text)
        except (hpke.UnsealError, ReportError):
            return b"", None
        if report.job not in jobs:  # dummies too: a relay that sends again must not see which ones they are
            return b"", None
        if report.kind == DUMMY:
            return text, None
        return (text, report) if is_genuine(jobs[report.job][1], report.token) else (b"", None)

    def status(self) -> list[dict[str, Any]]:
        """What anybody may know of each job: no figure of a differentially private one beyond its promise."""
        open_now, published, found = self.open_jobs(), self.store.published(), []
        for stored in self.store.jobs():
            job = self._read(stored.document)
            found.append(
                {
                    "job": job.id.hex(),
                    "artifact": job.artifact,
                    "policy": job.policy.name,
                    "k": job.policy.k,
                    "open": stored.id in open_now,
                    "expires": job.expires,
                    "guarantee": str(job.policy.guarantee()),
                    "released": stored.release is not None,
                    "files": _files(published[stored.id]) if stored.id in published else [],
                    **job.words(),
                }
            )
        return found

    def release_file(self, id: bytes, name: str) -> Path:
        """A file of a release that its operator has published."""
        folder = self.store.published().get(id)
        if folder is None or name not in _files(folder):
            raise HTTPException(404, "there is no such release")
        return folder / name


def _files(folder: Path) -> list[str]:
    """The files of a release; none where somebody has taken the folder away."""
    if not folder.is_dir():
        return []
    return sorted(one.name for one in folder.iterdir() if one.is_file() and not one.is_symlink())


def server_app(server: Server, members: Callable[[], frozenset[str]], community: str) -> Starlette:
    async def reports(request: Request) -> Response:
        body = await read_body(request, MOST_REPORTS * SEALED_BYTES)
        return octets(await run_in_threadpool(server.take, body))

    async def tokens(request: Request) -> Response:
        who, id = member(request, members), _id(request)
        if request.method == "GET":
            return JSONResponse({"left": await run_in_threadpool(server.tokens_left, id, who)})
        body = await read_body(request, MOST_TOKENS * voprf.ELEMENT_BYTES)
        return octets(await run_in_threadpool(server.tokens, id, who, body))

    async def jobs(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(server.documents))

    async def status(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(server.status))

    async def page(request: Request) -> Response:
        return HTMLResponse(
            status_page(community, await run_in_threadpool(server.status)),
            headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
        )

    async def release_file(request: Request) -> Response:
        path = await run_in_threadpool(server.release_file, _id(request), request.path_params["name"])
        return FileResponse(path, filename=path.name, headers={"X-Content-Type-Options": "nosniff"})

    return application(
        [
            Route("/", page),
            Route("/releases/{job}/{name}", release_file),
            Route("/jobs", jobs),
            Route("/status", status),
            Route("/tokens/{job}", tokens, methods=["GET", "POST"]),
            Route("/reports/0", reports, methods=["POST"]),
        ]
    )


def _id(request: Request) -> bytes:
    try:
        return bytes.fromhex(request.path_params["job"])
    except ValueError:
        raise HTTPException(404, "a job is named by hexadecimal digits") from None


_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
article { border: 1px solid #8886; border-radius: .5rem; padding: .5rem 1rem; margin: 1rem 0 }
dt { font-weight: 600 } dd { margin: 0 0 .5rem } h2 { font-size: 1.1rem }
"""


def status_page(community: str, jobs: list[dict[str, Any]]) -> str:
    """The jobs, their promises and their releases, for people."""
    titles = {"leaves": "What leaves your machine", "opens": "When it can be read", "public": "What may become public"}
    parts = []
    for job in jobs:
        state = "open" if job["open"] else ("released" if job["released"] else "closed")
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(job["expires"]))
        terms = {**{title: job[name] for name, title in titles.items()}, "What is promised": job["guarantee"]}
        rows = "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in terms.items())
        if job["files"]:
            links = (f'<a href="releases/{job["job"]}/{quote(name)}">{escape(name)}</a>' for name in job["files"])
            rows += f"<dt>What was published</dt><dd>{', '.join(links)}</dd>"
        parts.append(
            f"<article><h2>{escape(job['artifact'])}, policy {escape(job['policy'])}: {state}</h2>"
            f"<p>Until {until}. Job {escape(job['job'])}.</p><dl>{rows}</dl></article>"
        )
    listed = "".join(parts) or "<p>There is no job yet.</p>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(community)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{escape(community)}: jobs</h1>{listed}</main></body></html>\n"
    )
