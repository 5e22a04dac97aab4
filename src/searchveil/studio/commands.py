"""What a draft is in the words of the command line and of Python: what people copy, and what the server runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from searchveil.errors import InputError, as_option
from searchveil.log.normalize import Normalization
from searchveil.log.schema import COLUMNS
from searchveil.privacy.ledger import Ledger
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import Parameter
from searchveil.studio.drafts import GUESS, NEW, Draft, reading_of
from searchveil.wording import option_of

BUDGET = ("budget_epsilon", "budget_delta", "budget_neighbours", "budget_composition")
AMOUNTS = {"budget_epsilon": "1", "budget_delta": "1e-6"}  # with an example


def _options(**texts: str) -> list[str]:
    return [word for name, text in texts.items() if text for word in (as_option(name), text)]


def reading(draft: Draft) -> list[str]:
    texts = reading_of(draft)
    named = [f"{column}={texts[column]}" for column in COLUMNS if column in texts]
    pairs = texts.get("reader_option", "").splitlines()
    return [
        *_options(**{name: texts.get(name, "") for name in ("format", "columns", "skip_lines", "normalize")}),
        *(word for pair in named for word in (as_option("column"), pair)),
        *(word for pair in pairs for word in (as_option("reader_option"), pair)),
    ]


def inspect(draft: Draft, *, figures: bool) -> list[str]:
    return ["inspect", *draft.log, *reading(draft), *([] if figures else [as_option("no_figures")])]


def _of_parameter(one: Parameter, value: object) -> Iterator[str]:
    if one.kind == "flag":
        if value == "true":
            yield option_of(one.name)
        return
    for text in value if isinstance(value, list) else [value]:
        yield from (option_of(one.name), str(text))


def method(draft: Draft, *, without: Sequence[str] = ()) -> list[str]:
    values = draft.values()
    options = [
        word
        for one in draft.parameters
        if one.name in values and one.name not in without
        for word in _of_parameter(one, values[one.name])
    ]
    return [as_option("method"), draft.method, *options]


def plan(draft: Draft) -> list[str]:
    """From the public guess alone. `plan` has --users of its own, which a method's parameter of that name is here."""
    guess = {name: draft.guess[name].strip() for name in GUESS if draft.guess.get(name, "").strip()}
    users = str(draft.values().get("users", ""))
    told: list[str] = []
    if "users" in guess and draft.is_predicted:
        told = _options(assume=",".join(f"{name}={text}" for name, text in guess.items()))
    elif "users" in guess:
        users = guess["users"]
    return ["plan", *method(draft, without=("users",)), *_options(users=users), *told]


def plan_of_log(draft: Draft) -> list[str]:
    return ["plan", *draft.log, *method(draft, without=("users",)), *reading(draft)]


def compare(draft: Draft, report: str) -> list[str]:
    values = draft.values()
    asked = _options(epsilon=values.get("epsilon", ""), delta=values.get("delta", ""))
    return ["compare", *draft.log, *asked, *reading(draft), *_options(applications="none", report=report)]


def ledger(draft: Draft) -> list[str]:
    return ["ledger", draft.ledger_file]


def budget(draft: Draft) -> list[str]:
    """A new ledger needs a budget; one that there is keeps its own."""
    texts = {name: draft.budget.get(name, "").strip() for name in BUDGET} if draft.ledger == NEW else {}
    same = [as_option("same_log")] if draft.budget.get("same_log") and draft.ledger_file else []
    return [*_options(ledger=draft.ledger_file, **texts), *same]


def release(draft: Draft) -> list[str]:
    table = draft.table if draft.table != "parquet" else ""
    options = [*method(draft), *reading(draft), *budget(draft)]
    return ["release", *draft.log, *options, *_options(out=draft.out, table=table)]


def evaluate(folder: str, log: Sequence[str], reading: Sequence[str], report: str) -> list[str]:
    against = [word for path in log for word in (as_option("against"), path)]
    return ["evaluate", folder, *against, *reading, *_options(report=report)]


# --- Python -----------------------------------------------------------------------------------------------------------


def _call(name: str, *values: object, **named: object) -> str:
    shown = [*map(repr, values), *(f"{key}={value!r}" for key, value in named.items())]
    return f"{name}({', '.join(shown)})"


def in_python_log(draft: Draft) -> list[str]:
    texts = reading_of(draft)
    named: dict[str, object] = {"format": texts["format"]} if "format" in texts else {}
    if columns := _columns(texts):
        named["columns"] = columns
    if "skip_lines" in texts:
        named["skip_lines"] = int(texts["skip_lines"]) if texts["skip_lines"].isdecimal() else texts["skip_lines"]
    if "reader_option" in texts:
        named["options"] = dict(pair.partition("=")[::2] for pair in texts["reader_option"].splitlines())
    if "normalize" in texts:
        chosen = texts["normalize"].split(",")
        named["normalization"] = Normalization(**{one.name: one.name in chosen for one in fields(Normalization)})
    log = draft.log[0] if len(draft.log) == 1 else draft.log
    return [
        "import searchveil as sv",
        "",
        f"log = {_call('sv.read_log', log, **named)}".replace("=Normalization(", "=sv.Normalization("),
    ]


def _columns(texts: Mapping[str, str]) -> list[str] | dict[str, str]:
    if "columns" in texts:
        return [name.strip() for name in texts["columns"].split(",")]
    return {column: texts[column] for column in COLUMNS if column in texts}


def in_python_method(draft: Draft, mechanism: Mechanism) -> str:
    """A mechanism with a table or a pool is named by their files, which its text form may do and its repr may not."""
    values = draft.values()
    if not any(one.in_file and one.name in values for one in draft.parameters):
        return f"mechanism = sv.{mechanism!r}"
    kept = {
        one.name: values[one.name] if one.in_file else one.value(values[one.name])
        for one in draft.parameters
        if one.name in values
    }
    return f"mechanism = {_call('sv.method', _call(draft.method, **kept))}"


def in_python_plan(draft: Draft, mechanism: Mechanism) -> list[str]:
    users = draft.public_users
    asked = "" if users is None else str(users)
    return [
        "import searchveil as sv",
        "",
        in_python_method(draft, mechanism),
        f"print(mechanism.plan({asked}).guarantee)",
    ]


def in_python_ledger(draft: Draft) -> list[str]:
    return [f"ledger = {_call('sv.Ledger.open', draft.ledger_file, **_budget(draft))}"]


def _budget(draft: Draft) -> dict[str, Any]:
    """What `Ledger.open` is told."""
    named: dict[str, Any] = {"same_log": True} if draft.budget.get("same_log") else {}
    if draft.ledger == NEW:
        for name in BUDGET:
            if text := draft.budget.get(name, "").strip():
                named[name if name in AMOUNTS else name.removeprefix("budget_")] = _amount(name, text)
    return named


def _amount(name: str, text: str) -> object:
    if name not in AMOUNTS:
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"'{text}' is no number", parameter=name, value=text, instead="try " + AMOUNTS[name]) from None


def new_ledger(draft: Draft, path: Path) -> Ledger:
    """One with the budget that was typed; every amount is needed."""
    for name, example in AMOUNTS.items():
        if not draft.budget.get(name, "").strip():
            raise InputError("a new ledger needs a budget", parameter=name, instead="try " + example)
    return Ledger.open(path, **_budget(draft))


def in_python_release(draft: Draft, mechanism: Mechanism) -> list[str]:
    paid = bool(draft.ledger_file)
    table = "" if draft.table == "parquet" else f", format={draft.table!r}"
    return [
        *in_python_log(draft),
        in_python_method(draft, mechanism),
        *(in_python_ledger(draft) if paid else []),
        f"release = mechanism.release(log{', ledger=ledger' if paid else ''})",
        f"release.write({draft.out!r}{table})",
    ]


def stem(log: Sequence[str]) -> str:
    """Of the name of a log, for the name of its release."""
    return Path(log[0]).name.partition(".")[0] if log else "log"
