"""Pages from templates: all that comes from elsewhere is escaped, and every text of ours is in the catalogue."""

from collections.abc import Mapping
from functools import cache, partial
from html import unescape
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from searchveil.errors import SearchveilError, Style
from searchveil.lab.report import in_figures
from searchveil.lab.words import figure_in_words, name_in_words
from searchveil.privacy.rounding import at_least, at_most
from searchveil.studio.guard import Session
from searchveil.studio.jobs import as_typed
from searchveil.studio.words import LANGUAGES, declared, grouped, limits, said


def label_of(parameter: str) -> str:
    """As a form calls it."""
    return parameter.removeprefix("budget_").strip("_").replace("_", " ")


in_form = Style(
    lambda part: label_of(part.name) + ("" if part.value is None or part.value is True else f" {part.value}"),
    ", ",
)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "at_most": at_most,
        "at_least": at_least,
        "figures": in_figures,
        "typed": as_typed,
        "label": label_of,
        "name_in_words": name_in_words,
        "figure_in_words": figure_in_words,
        "written": lambda problem: problem.written(in_form),
        "cell": cell,
    }
    return made


@pass_context
def cell(context: Context, value: Any) -> str:
    """A value of a table."""
    if isinstance(value, list):
        return " → ".join(map(str, value))
    if isinstance(value, bool) or value is None:
        return {None: "–", True: "yes", False: "no"}[value]
    if not isinstance(value, int | float):
        return str(value)
    return grouped(context["language"], f"{value:,.6g}" if isinstance(value, float) else f"{value:,}")


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    session: Session | None = request.scope.get("session")
    language = session.language if session else LANGUAGES[0]
    context = {
        "t": partial(said, language),
        "declared": partial(declared, language),
        "limits": partial(limits, language),
        "language": language,
        "languages": LANGUAGES,
        "session": session,
        "form_token": session.form_token if session else "",
        "here": _here(request),
        **values,
    }
    return HTMLResponse(environment().get_template(f"{template}.html.jinja").render(context), status)


def _here(request: Request) -> str:
    """Where a browser can come back to; what a form was sent to has no page of its own."""
    if request.method != "GET":
        return "/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def refused(request: Request, problem: SearchveilError, status: int = 400) -> HTMLResponse:
    return page(request, "refused", status, problem=problem.written(in_form))


def card(text: str) -> Markup:
    """A data card, written in Markdown, as a part of a page; HTML in it stays text, and nothing is loaded."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    if text.startswith("---\n"):  # what machines read of it
        text = text.partition("\n---\n")[2]
    return Markup(reader.render(text))


def words(form: Mapping[str, list[str]], name: str) -> str:
    """One text of a form."""
    return form.get(name, [""])[-1]


def made_page(text: str) -> HTMLResponse:
    """A page as `evaluate` or `compare` wrote it: under the policy that it names itself, and shut off from ours."""
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    own = unescape(policy)
    headers = {"content-security-policy": f"{own}; frame-ancestors 'none'; sandbox allow-scripts allow-popups"}
    return HTMLResponse(text, headers=headers)
