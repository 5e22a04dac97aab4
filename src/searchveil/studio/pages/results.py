"""Releases that are being made and that were made: their progress, their rows, their card, and what they are worth."""

import secrets
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from searchveil.errors import InputError, SearchveilError
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.ledger import Spent
from searchveil.publish.release import Release
from searchveil.publish.top import COUNTED, top_rows
from searchveil.publish.verify import files_of
from searchveil.studio import commands, jobs
from searchveil.studio.jobs import Job
from searchveil.studio.pages.steps import STEPS, studio_of
from searchveil.studio.show import card, made_page, page, words
from searchveil.studio.state import Studio

ROWS = 50  # of a table at a time
MOST_ROWS = 5000
COMPARED = 25  # items that are shown side by side


# --- while it is made -------------------------------------------------------------------------------------------------


def _run_of(request: Request) -> Job:
    job = jobs.job_named(studio_of(request).releases, request.path_params["run"])
    if job is None:
        raise HTTPException(404, "there is no such release; the first page lists those that there are")
    return job


async def run(request: Request) -> Response:
    return await run_in_threadpool(_run, request)


def _run(request: Request) -> Response:
    studio, job = studio_of(request), _run_of(request)
    draft = studio.drafts.get(str(job.about.get("draft")))
    perhaps = studio.perhaps_paid(job)
    return page(request, "run", run=job, draft=draft, step="release", steps=STEPS, result=job.result, perhaps=perhaps)


async def cancel(request: Request) -> Response:
    """Before it is paid; after that, stopping would save nothing."""
    job = _run_of(request)
    if job.entry is None:
        await run_in_threadpool(job.stop)
        await run_in_threadpool(job.wait, 20)
    return RedirectResponse(f"/runs/{job.id}", 303)


# --- when it is there -------------------------------------------------------------------------------------------------


def _folder(request: Request, text: str) -> tuple[str, Path]:
    """A release folder inside the start folder, in which the studio runs: its name, also as a path."""
    places = studio_of(request).places
    name = places.name(places.path(text, "folder"))
    if not (Path(name) / "guarantee.json").is_file():
        raise InputError(f"{name} is no release folder", parameter="folder", value=text)
    return name, Path(name)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> Release:
    return Release.read(path)


def _release(path: Path) -> Release:
    """Its checksums are compared again when the record was written anew."""
    return _read(path, (path / "guarantee.json").stat().st_mtime_ns)


def is_plain(path: Path) -> bool:
    """A file that is here itself, and not by a link from elsewhere."""
    return path.is_file() and not path.is_symlink()


async def result(request: Request) -> Response:
    return await run_in_threadpool(_result, request)


def _result(request: Request) -> Response:
    studio, query = studio_of(request), request.query_params
    folder, path = _folder(request, query.get("folder", ""))
    release = _release(path)
    tables = list(release.tables)
    name = query.get("table") or tables[0]
    if name not in tables:
        raise InputError(f"{folder} has no table '{name}'; it has {', '.join(tables)}", parameter="table")
    search = query.get("search", "")
    shown = _rows_asked(query.get("rows", ""))
    rows = top_rows(release.tables[name], search or None)
    made = studio.run_of(folder)
    log, reading = (made.about["log"], made.about["reading"]) if made else ([], [])
    evaluation = studio.evaluations.get(folder)
    return page(
        request,
        "result",
        folder=folder,
        release=release,
        name=name,
        tables=tables,
        search=search,
        columns=rows.column_names,
        rows=rows.slice(0, shown).to_pylist(),
        found=rows.num_rows,
        total=release.tables[name].num_rows,
        more=min(shown * 4, MOST_ROWS) if rows.num_rows > shown and shown < MOST_ROWS else None,
        card=_card(path / "README.md"),
        made=made,
        log=log,
        files=[one.name for one in studio.places.listed("") if not one.is_folder],
        evaluation=evaluation,
        found_out=(evaluation.result or {}) if evaluation is not None else {},
        evaluates=commands.evaluate(folder, log or ["LOG"], reading, "report.html"),
        command=["show", folder],
        python=["import searchveil as sv", "", f"release = sv.Release.read({folder!r})", "print(release.table)"],
    )


def _rows_asked(text: str) -> int:
    return min(max(int(text), ROWS), MOST_ROWS) if text.isdecimal() and len(text) < 9 else ROWS


def _card(readme: Path) -> Any:
    return card(readme.read_text("utf-8", errors="replace")) if is_plain(readme) else None


async def download(request: Request) -> Response:
    return await run_in_threadpool(_download, request)


def _download(request: Request) -> Response:
    """The release as a zip, and nothing that came to lie beside it, as a report would; data is compressed already."""
    studio = studio_of(request)
    _, path = _folder(request, request.query_params.get("folder", ""))
    record = Release.read(path).record  # now, for its checksums
    assert record is not None  # it comes from a folder
    place = studio.private / f"{secrets.token_hex(8)}.zip"
    with zipfile.ZipFile(place, "x") as archive:
        for file in sorted(path / name for name in files_of(record.written)):
            if is_plain(file):
                stored = zipfile.ZIP_STORED if file.suffix == ".parquet" else zipfile.ZIP_DEFLATED
                archive.write(file, f"{path.name}/{file.name}", stored)
    return FileResponse(
        place, media_type="application/zip", filename=f"{path.name}.zip", background=BackgroundTask(place.unlink)
    )


async def evaluate(request: Request) -> Response:
    """Hold it against its log: private figures, because somebody pressed the button that says so."""
    form = request.scope["form"]
    return await run_in_threadpool(_evaluate, request, form)


def _evaluate(request: Request, form: Mapping[str, list[str]]) -> Response:
    studio = studio_of(request)
    folder, path = _folder(request, words(form, "folder"))
    before = studio.evaluations.pop(folder, None)
    if before is not None:
        before.stop()
    if not words(form, "hide"):
        made = studio.run_of(folder)
        asked = [text for text in form.get("log", []) if text]
        log = [studio.places.name(studio.places.file(text, "log")) for text in asked]
        if not log:
            raise InputError("no log was named", parameter="log", instead="choose the log that it was made of")
        same = made is not None and log == list(made.about["log"])
        reading = list(made.about["reading"]) if made is not None and same else []
        command = commands.evaluate(folder, log, reading, str(_report(studio, path)))
        studio.evaluations[folder] = studio.look(command)
    return RedirectResponse(f"/results?{urlencode({'folder': folder})}#evaluation", 303)


def _report(studio: Studio, path: Path) -> Path:
    return studio.private / f"{quote(str(path), safe='')[-100:]}-report.html"


async def report(request: Request) -> Response:
    """The report as `evaluate` writes it: a page with a policy of its own, shut off from the studio."""
    _, path = _folder(request, request.query_params.get("folder", ""))
    place = _report(studio_of(request), path)
    if not place.is_file():
        raise HTTPException(404, "there is no report yet: evaluate the release first")
    return made_page(await run_in_threadpool(place.read_text, "utf-8"))


# --- two side by side -------------------------------------------------------------------------------------------------


async def compare(request: Request) -> Response:
    return await run_in_threadpool(_compare, request)


def _compare(request: Request) -> Response:
    asked = request.query_params.getlist("folder")
    if len(asked) != 2:
        raise InputError("two releases are compared", parameter="folder", instead="tick two of the list")
    (one, first), (other, second) = (_folder(request, text) for text in asked)
    releases = [_release(first), _release(second)]
    names = list(dict.fromkeys(name for release in releases for name in release.plan.parameters))
    return page(
        request,
        "compare",
        folders=[one, other],
        releases=releases,
        parameters={name: [release.plan.parameters.get(name) for release in releases] for name in names},
        shared=_shared(releases),
    )


def _shared(releases: list[Release]) -> dict[str, Any] | None:
    """What both name, where their main tables have the same columns of texts."""
    tables = [release.table for release in releases]
    keys = _text_columns(tables[0])
    if not keys or keys != _text_columns(tables[1]):
        return None
    counted = next((name for name in COUNTED if all(name in table.column_names for table in tables)), "")
    one, other = (_items(table, keys, counted) for table in tables)
    both = [item for item in one if item in other]
    return {
        "columns": keys,
        "both": len(both),
        "only": [len(one) - len(both), len(other) - len(both)],
        "rows": [(item, one.get(item), other.get(item)) for item in list(dict.fromkeys([*one, *other]))[:COMPARED]],
    }


def _text_columns(table: Any) -> list[str]:
    return [name for name in table.column_names if name not in COUNTED]


def _items(table: Any, keys: Sequence[str], counted: str) -> dict[tuple[str, ...], Any]:
    rows = top_rows(table, None).to_pylist()
    return {tuple(str(row[key]) for key in keys): row.get(counted) for row in rows}


# --- a series ---------------------------------------------------------------------------------------------------------

MOST_PLANNED = 1000


async def series(request: Request) -> Response:
    return await run_in_threadpool(_series, request)


def _series(request: Request) -> Response:
    studio, query = studio_of(request), request.query_params
    ledgers = studio.places.ledgers()
    ledger = query.get("ledger") or (ledgers[0] if ledgers else "")
    texts = {
        "epsilon": query.get("epsilon", "1"),
        "delta": query.get("delta", "1e-6"),
        "times": query.get("times", "12"),
    }
    spent = foreseen = problem = None
    try:
        if ledger:
            spent = studio.spent(ledger)
            foreseen = studio.account(ledger).foresee(_planned(texts, spent))
    except SearchveilError as refusal:
        problem = refusal
    return page(
        request, "series", ledgers=ledgers, ledger=ledger, spent=spent, foreseen=foreseen, texts=texts, problem=problem
    )


def _planned(texts: Mapping[str, str], spent: Spent) -> list[Guarantee]:
    """The releases of the series, as this ledger counts them."""
    amounts = {}
    for name, text in texts.items():
        try:
            amounts[name] = int(text) if name == "times" else float(text)
        except ValueError:
            raise InputError(f"{name} must be a number, not '{text}'", parameter=name, value=text) from None
    times = int(amounts["times"])
    if not 1 <= times <= MOST_PLANNED:
        raise InputError(f"a series has 1 to {MOST_PLANNED:,} releases", parameter="times", value=times)
    unit = spent.entries[0].guarantee.unit if spent.entries else "user"
    epsilon, delta = amounts["epsilon"], amounts["delta"]
    return [Guarantee("approximate", epsilon, delta, "ledger", unit=unit, neighbours=spent.budget.neighbours)] * times
