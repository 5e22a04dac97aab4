"""The five steps of a draft. Whatever is sent, the draft is saved first: nobody loses a text by looking elsewhere."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, count
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from searchveil.errors import InputError, SearchveilError
from searchveil.items import ITEMS
from searchveil.log.readers import READERS
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.rounding import at_most
from searchveil.publish.described import described
from searchveil.publish.folder import FORMATS, check_writable
from searchveil.studio import commands, forecast, pictures
from searchveil.studio.drafts import (
    GUESS,
    NEW,
    NONE,
    READING,
    Built,
    Draft,
    Problems,
    built,
    choose_method,
    guess_problems,
)
from searchveil.studio.forecast import COMPARED
from searchveil.studio.show import made_page, page, words
from searchveil.studio.state import Studio
from searchveil.studio.words import said

STEPS = ("log", "what", "promise", "budget", "release")
OF_THE_PROMISE = ("epsilon", "delta", "notion", "neighbours", "k", "noise_scale", "above")  # the rest is What
AT_FIRST = ("item", "counts", "per_user", "queries_per_user", "sessions_per_user", "from_", "to", "objective")
Form = Mapping[str, list[str]]
Points = dict[tuple[str, float], forecast.Question]  # of the chart, by method and ε


def studio_of(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


def draft_of(request: Request) -> Draft:
    draft = studio_of(request).drafts.get(request.path_params["draft"])
    if draft is None:
        raise HTTPException(404, "this draft is gone, as drafts are when the studio ends; releases are not: begin anew")
    return draft


async def new(request: Request) -> Response:
    draft = await run_in_threadpool(studio_of(request).new_draft)
    return RedirectResponse(f"/drafts/{draft.id}/log", 303)


async def show(request: Request) -> Response:
    draft, step = draft_of(request), request.path_params["step"]
    if step not in STEPS:
        raise HTTPException(404, f"there is no step '{step}'")
    return await run_in_threadpool(_page, request, draft, step)


async def save(request: Request) -> Response:
    """A form of a step. With `go` the browser leaves for another step; else it wants to see this one."""
    draft, step = draft_of(request), request.path_params["step"]
    form: Form = request.scope["form"]
    if step not in SAVING:
        raise HTTPException(404, f"nothing is saved at the step '{step}'")
    problem = None
    try:
        await run_in_threadpool(SAVING[step], studio_of(request), draft, form)
    except SearchveilError as refusal:
        problem = refusal
    if problem is None and "hx-request" not in request.headers:
        go, folder = words(form, "go"), words(form, "folder")
        where = go if go in STEPS else step
        return RedirectResponse(f"/drafts/{draft.id}/{where}" + (f"?folder={folder}" if folder else ""), 303)
    return await run_in_threadpool(_page, request, draft, step, problem)


def _page(request: Request, draft: Draft, step: str, problem: SearchveilError | None = None) -> Response:
    studio = studio_of(request)
    found = built(draft, studio.places)
    studio.forget_old(draft)
    values = SHOWING[step](studio, draft, found, request)
    problems = found.problems | guess_problems(draft) | values.pop("problems", {})
    if problem is not None:
        problems = problems | {problem.parameter or "": problem}
    questions = studio.questions(draft, "comparison.html") if draft.log else {}
    values |= {"problems": problems, "plan": found.plan, "questions": questions}
    return page(request, step, draft=draft, step=step, steps=STEPS, NEW=NEW, NONE=NONE, **values)


# --- Log --------------------------------------------------------------------------------------------------------------


def _save_log(studio: Studio, draft: Draft, form: Form) -> None:
    draft.reading = {name: words(form, name).replace("\r", "") for name in READING}
    asked = [text for text in form.get("log", []) if text]
    draft.log = [studio.places.name(studio.places.file(text, "log")) for text in asked]
    studio.read(draft)


def _show_log(studio: Studio, draft: Draft, found: Built, request: Request) -> dict[str, Any]:
    folder = request.query_params.get("folder", "")
    listed, problems = [], {}
    try:
        listed = studio.places.listed(folder)
    except InputError as problem:
        problems["folder"] = problem
    return {
        "folder": folder,
        "parent": folder.rpartition("/")[0],
        "listed": listed,
        "problems": problems,
        "root": studio.places.shown,
        "formats": ("auto", *READERS),
        "command": commands.inspect(draft, figures=False) if draft.log else None,
        "python": commands.in_python_log(draft) if draft.log else None,
    }


async def ask_private(request: Request) -> Response:
    """Work on the private log for the eyes of its owner, because somebody pressed the button that says so."""
    draft, studio = draft_of(request), studio_of(request)
    form: Form = request.scope["form"]
    kind, step = words(form, "kind"), words(form, "step")
    questions = studio.questions(draft, str(studio.comparison(draft)))
    if kind not in questions or step not in STEPS:
        raise HTTPException(400, "there is no such question about the log")
    if words(form, "hide"):
        studio.forget(draft, kind)
    elif draft.log:
        draft.private[kind] = await run_in_threadpool(lambda: studio.look(questions[kind]))
    return RedirectResponse(f"/drafts/{draft.id}/{step}#private", 303)


async def private_page(request: Request) -> Response:
    """The page that a comparison of methods made, with the policy that it has of itself."""
    draft, studio = draft_of(request), studio_of(request)
    studio.forget_old(draft)
    place = studio.comparison(draft)
    if request.path_params["kind"] != "compare" or "compare" not in draft.private or not place.is_file():
        raise HTTPException(404, "there is no such page yet")
    return made_page(await run_in_threadpool(place.read_text, "utf-8"))


# --- What -------------------------------------------------------------------------------------------------------------


def _save_given(draft: Draft, form: Form, names: Iterable[str]) -> None:
    """Fields missing from the form keep their value; a missing flag means no."""
    for one in draft.parameters:
        if one.name in names and (one.name in form or one.kind == "flag"):
            draft.given[one.name] = words(form, one.name).replace("\r", "").strip()


def _save_what(studio: Studio, draft: Draft, form: Form) -> None:
    _save_given(draft, form, [one.name for one in draft.parameters if one.name not in OF_THE_PROMISE])
    method = words(form, "method")
    if method and method != draft.method:
        choose_method(draft, method)
        _save_given(draft, form, [name for name in form if name not in OF_THE_PROMISE])


def _show_what(studio: Studio, draft: Draft, found: Built, request: Request) -> dict[str, Any]:
    read = draft.read.result if draft.read is not None else None
    columns = set(read["columns"]) if read else None
    lacking = {
        name: [column for column in item.needs if columns is not None and column not in columns]
        for name, item in ITEMS.items()
    }
    return {
        "methods": described(),
        "parameters": [one for one in draft.parameters if one.name not in OF_THE_PROMISE],
        "at_first": AT_FIRST,
        "lacking": lacking,
        "files": [one.name for one in studio.places.listed("") if not one.is_folder],
        **_planned(draft, found),
    }


def _planned(draft: Draft, found: Built) -> dict[str, Any]:
    if found.mechanism is None:
        return {"command": None, "python": None}
    return {"command": commands.plan(draft), "python": commands.in_python_plan(draft, found.mechanism)}


# --- Promise ----------------------------------------------------------------------------------------------------------


def _save_promise(studio: Studio, draft: Draft, form: Form) -> None:
    _save_given(draft, form, OF_THE_PROMISE)
    draft.guess = {name: words(form, name).strip() for name in (f"guess-{one}" for one in GUESS)}
    draft.guess = {name.removeprefix("guess-"): text for name, text in draft.guess.items()}


def _show_promise(studio: Studio, draft: Draft, found: Built, request: Request) -> dict[str, Any]:
    return {
        "parameters": [one for one in draft.parameters if one.name in OF_THE_PROMISE],
        "guesses": GUESS,
        **attack(request, found.plan.guarantee if found.plan else None),
        **_planned(draft, found),
    }


def attack(request: Request, guarantee: Guarantee | None) -> dict[str, Any]:
    """What an attacker can tell, as a number of hundred guesses and as a picture; None where nothing bounds it."""
    if guarantee is None or guarantee.most_often_right >= 1:
        return {"right": None, "picture": None}
    right = pictures.right_of_hundred(guarantee.most_often_right)
    label = said(request.scope["session"].language, "attack.picture", right=right)
    return {"right": right, "picture": pictures.guesses(right, label)}


async def expect(request: Request) -> Response:
    """Expected items and needed users: seconds of work, so they come after the plan, and the page asks again."""
    return await run_in_threadpool(_expect, request)


def _expect(request: Request) -> Response:
    draft, studio = draft_of(request), studio_of(request)
    found = built(draft, studio.places)
    answered = problem = None
    waiting = False
    if found.plan is not None and draft.is_predicted and not guess_problems(draft):
        asked = forecast.question(draft.method, draft.values(), draft.guess)
        studio.forecasts.forget({asked, *_of_chart(draft, found).values()})
        answer = studio.forecasts.ask(asked)
        waiting = not answer.done() or answer.cancelled()  # by another tab, which had other settings
        if not waiting:
            answered, problem = _answer(answer)
    return page(request, "expected", draft=draft, found=answered, problem=problem, waiting=waiting)


def _answer(asked: "Future[dict[str, Any]]") -> tuple[dict[str, Any] | None, SearchveilError | None]:
    try:
        return asked.result(), None
    except SearchveilError as refusal:
        return None, refusal
    except BrokenProcessPool:
        return None, InputError("the process that works this out was killed", instead="change a figure to try again")


def _epsilon(found: Built) -> float | None:
    epsilon: float | None = getattr(found.mechanism, "epsilon", None)
    return epsilon


def _of_chart(draft: Draft, found: Built) -> Points:
    """None where the chart cannot be drawn."""
    chosen = _epsilon(found)
    if found.plan is None or chosen is None or not draft.is_predicted or draft.assumption is None:
        return {}
    return forecast.to_compare(draft.method, draft.values(), draft.guess, chosen)


async def chart(request: Request) -> Response:
    """The chart as far as its points are known; the page asks again until it is whole."""
    return await run_in_threadpool(_chart, request)


def _chart(request: Request) -> Response:
    draft, studio = draft_of(request), studio_of(request)
    found = built(draft, studio.places)
    asked = {} if guess_problems(draft) else _of_chart(draft, found)
    chosen = _epsilon(found)
    if not asked or chosen is None:
        return page(request, "chart", draft=draft, picture=None, done=0, total=0)
    answers = _answers(studio, draft, asked)
    ready = {point: _answer(one)[0] for point, one in answers.items() if one.done() and not one.cancelled()}
    known = {point: told["expected_rows"] for point, told in ready.items() if told is not None}
    return page(
        request,
        "chart",
        draft=draft,
        picture=_picture(known, chosen, request) if known else None,
        done=len(ready),
        total=len(answers),
        epsilons=forecast.epsilons(chosen),
        figures={method: _by_epsilon(known, method) for method in COMPARED},
    )


def _answers(studio: Studio, draft: Draft, asked: Points) -> dict[tuple[str, float], "Future[dict[str, Any]]"]:
    """Those that are there and those that are awaited; what else was asked for is forgotten."""
    studio.forecasts.forget({*asked.values(), forecast.question(draft.method, draft.values(), draft.guess)})
    return {point: studio.forecasts.ask(one) for point, one in asked.items()}


def _by_epsilon(known: Mapping[tuple[str, float], float], method: str) -> dict[float, float]:
    return {epsilon: items for (of_method, epsilon), items in known.items() if of_method == method}


def _picture(known: Mapping[tuple[str, float], float], chosen: float, request: Request) -> str:
    points = [{"method": method, "epsilon": epsilon, "items": items} for (method, epsilon), items in known.items()]
    language = request.scope["session"].language
    labels = {name: said(language, f"chart.{name}") for name in ("x", "y", "title")}
    return pictures.expected_chart(points, COMPARED, chosen, labels)


# --- Budget -----------------------------------------------------------------------------------------------------------


def _save_budget(studio: Studio, draft: Draft, form: Form) -> None:
    names = ("ledger", "new_ledger", "same_log", *commands.BUDGET)
    draft.budget = {name: words(form, name).strip() for name in names}
    draft.out = words(form, "out").strip()
    table = words(form, "table")
    draft.table = table if table in FORMATS else "parquet"


def _show_budget(studio: Studio, draft: Draft, found: Built, request: Request) -> dict[str, Any]:
    if draft.out in ("", draft.proposed):
        draft.out = draft.proposed = _free_name(studio, draft)
    problems: Problems = {}
    spent = foreseen = None
    try:
        if draft.ledger not in ("", NEW, NONE):
            spent = studio.spent(draft.ledger)
        if found.plan is not None and draft.ledger not in ("", NONE):
            foreseen = studio.foresee(draft, [found.plan.guarantee])[0]
        check_out(studio, draft)
    except SearchveilError as problem:
        problems[problem.parameter or "ledger"] = problem
    commanded = _released(draft, found, ready=not problems)
    return {
        "ledgers": studio.places.ledgers(),
        "spent": spent,
        "foreseen": foreseen,
        "problems": problems,
        "tables": tuple(FORMATS),
        "confirmation": confirmation(found),
        "missing": _missing(draft, found),
        "payable": not problems and (draft.ledger == NONE or (foreseen is not None and foreseen.refusal is None)),
        **commanded,
    }


def _free_name(studio: Studio, draft: Draft) -> str:
    """A name for the folder that is not taken."""
    name = f"{commands.stem(draft.log)}-{draft.method}"
    taken = {path.name for path in studio.places.root.iterdir()}
    return next(one for one in chain([name], (f"{name}-{number}" for number in count(2))) if one not in taken)


def check_out(studio: Studio, draft: Draft) -> None:
    path = studio.places.path(draft.out, "out")
    try:
        check_writable(Path(studio.places.name(path)), draft.table)
    except InputError as problem:
        raise InputError(problem.problem, parameter="out", value=draft.out, instead=problem.instead) from None


def _released(draft: Draft, found: Built, *, ready: bool) -> dict[str, Any]:
    if found.mechanism is None or not draft.log or not draft.ledger or not ready:
        return {"command": None, "python": None}
    return {"command": commands.release(draft), "python": commands.in_python_release(draft, found.mechanism)}


def _missing(draft: Draft, found: Built) -> list[str]:
    """The steps at which something is still to be done before this can be paid."""
    missing = []
    if draft.read is None or draft.read.result is None:
        missing.append("log")
    if found.plan is None:
        named = set(found.problems)
        missing.append("promise" if named & {*OF_THE_PROMISE} else "what")
    return missing


def confirmation(found: Built) -> str:
    """What to type to pay: the ε that is spent, or that nothing is promised."""
    if found.plan is None or not found.plan.guarantee.is_private:
        return "0"
    return at_most(found.plan.guarantee.epsilon)


# --- Release ----------------------------------------------------------------------------------------------------------


def _show_release(studio: Studio, draft: Draft, found: Built, request: Request) -> dict[str, Any]:
    return {"run": draft.runs[-1] if draft.runs else None, **_released(draft, found, ready=True)}


async def release(request: Request) -> Response:
    """Pay and release: what was confirmed must be what is there now."""
    draft = draft_of(request)
    form: Form = request.scope["form"]
    try:
        job = await run_in_threadpool(_release, request, draft, form)
    except SearchveilError as problem:
        return await run_in_threadpool(_page, request, draft, "budget", problem)
    return RedirectResponse(f"/runs/{job.id}", 303)


def _release(request: Request, draft: Draft, form: Form) -> Any:
    studio = studio_of(request)
    found = built(draft, studio.places)
    if missing := _missing(draft, found):
        raise InputError(f"the step {missing[0]} is not finished", parameter="confirm", instead="go back to it")
    if words(form, "fingerprint") != draft.fingerprint:
        raise InputError(
            "the draft was changed in another tab", parameter="confirm", instead="look at it again, then confirm"
        )
    if words(form, "confirm").strip() != confirmation(found):
        raise InputError("this is not what is to be typed", parameter="confirm", instead=f"type {confirmation(found)}")
    if not draft.ledger:
        raise InputError("which account pays?", parameter="ledger", instead="choose one")
    for path in draft.log:
        studio.places.file(path, "log")
    check_out(studio, draft)
    assert found.mechanism is not None  # there is a plan
    assert found.plan is not None
    if draft.ledger != NONE:
        (foreseen,) = studio.foresee(draft, [found.plan.guarantee])
        if foreseen.refusal is not None:
            raise foreseen.refusal
    return studio.release(draft, found.mechanism)


Save = Callable[[Studio, Draft, Form], None]
Show = Callable[[Studio, Draft, Built, Request], dict[str, Any]]
SAVING: dict[str, Save] = {"log": _save_log, "what": _save_what, "promise": _save_promise, "budget": _save_budget}
SHOWING: dict[str, Show] = {
    "log": _show_log,
    "what": _show_what,
    "promise": _show_promise,
    "budget": _show_budget,
    "release": _show_release,
}
