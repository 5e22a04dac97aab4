"""report.html: what an evaluation found, as one page without a single request to a network.

Searches are hostile texts, and some may stand in what is shown (a folder's name, its data card). Three things keep them
texts: the template escapes, data for the script is JSON with every `<` written otherwise, and the page's own policy
lets the browser run that one script, known by its hash, and fetch nothing.
"""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from searchveil.atomic import write_atomically
from searchveil.errors import InputError, setting
from searchveil.lab.evaluate import Evaluation
from searchveil.lab.report.charts import Chart, chart_of_scores, charts_of_behaviour, charts_of_counts
from searchveil.lab.report.table import in_figures, sections
from searchveil.lab.words import name_in_words
from searchveil.privacy.rounding import at_most
from searchveil.publish.release import Release

MARK = '<meta name="generator" content="searchveil evaluate">'  # by which an earlier report is known
LOOK = 2000  # characters in which to look for it


def place_beside(folder: Path) -> Path:
    """Where the report of a release folder goes: beside it, because what is in the folder gets handed out."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.name}-report.html")


def check_place(path: Path, folder: Path) -> None:
    """Find out before any work whether the report may be written there."""
    if folder.resolve() in path.resolve().parents:
        raise InputError(
            f"{path} is inside the release, which gets handed out; the report compares with private data: choose "
            "another " + setting("path", of="report")
        )
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written, because {path.parent} is not a folder; make that first")
    if path.is_dir():
        raise InputError(f"{path} is a folder", instead="choose another " + setting("path", of="report"))
    if path.exists() and not _is_report(path):
        instead = "choose another " + setting("path", of="report") + " or remove it first"
        raise InputError(f"{path} exists and is no earlier report", instead=instead)


def write_report(path: Path, evaluation: Evaluation, folder: Path, *, against: str) -> Path:
    """Write the page completely or not at all; an earlier report in that place is replaced."""
    check_place(path, folder)
    write_atomically(path, report(evaluation, folder, against=against, page=path))
    return path


def report(evaluation: Evaluation, folder: Path, *, against: str, page: Path | None = None) -> str:
    """The page of an evaluation of the release in `folder`; `against` names the log it was compared with.

    `page` is where it will lie: from there it links to the release's data card.
    """
    from jinja2 import Environment, StrictUndefined

    release = Release.read(folder)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["figures"] = in_figures
    applications, measures = sections(evaluation.applications, evaluation.measures)
    charts, scores = charts_of_counts(evaluation.charts), [chart_of_scores(section) for section in applications]
    charts += charts_of_behaviour(evaluation.charts.get("behaviour", {}))
    script = _script()
    return environment.from_string(_own("report.html.jinja")).render(
        mark=MARK,
        policy=_policy(script),
        script=script,
        style=_own("report.css"),
        specs=_data([chart for chart in charts + scores if chart.spec is not None]),
        evaluation=evaluation,
        release=release,
        against=against,
        name=folder.resolve().name,
        charts=charts,
        scores=scores,
        applications=applications,
        measures=measures,
        card=_link(folder / "README.md", page),
        title_of=name_in_words,
        promise=_promise(release),
        version=version("searchveil"),
        date=datetime.now(UTC).date().isoformat(),
    )


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK.encode() in file.read(LOOK)


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _script() -> str:
    """Our own few lines with Vega-Embed, Vega-Lite and Vega, which vl-convert carries, bundled into one script."""
    import vl_convert

    script = vl_convert.javascript_bundle(snippet=_own("report.js"))
    return script.replace("\r\n", "\n").replace("</script", "<\\/script")  # as a browser reads it inside a page


def _policy(script: str) -> str:
    """What the browser may do: run this script and style the page. It fetches nothing and sends nothing."""
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    run = f"script-src 'sha256-{known}'; style-src 'unsafe-inline'"
    return f"default-src 'none'; {run}; base-uri 'none'; form-action 'none'"


def _data(charts: Sequence[Chart]) -> str:
    """JSON that can stand in a script element: its only dangerous character is written as an escape."""
    return json.dumps([chart.spec for chart in charts], allow_nan=False).replace("<", "\\u003c")


def _link(card: Path, page: Path | None) -> str:
    """From the page to the card, as an address; "" where there is none. A name may hold what an address may not."""
    if not card.is_file():
        return ""
    beside = card.parent.resolve().parent if page is None else page.resolve().parent
    return quote(os.path.relpath(card.resolve(), beside))


def _promise(release: Release) -> str:
    """ε and δ, as they stand in a headline."""
    if not release.guarantee.is_private:
        return "not differentially private"
    return f"ε = {at_most(release.guarantee.epsilon)}, δ = {at_most(release.guarantee.delta)}"
