"""What people see: steps while work goes on (on standard error), a result at the end (on standard output)."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from searchveil.errors import printable as printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from searchveil.crowd.jobs import Job
    from searchveil.lab.evaluate import Evaluation
    from searchveil.lab.sweep import Swept
    from searchveil.log import SearchLog
    from searchveil.privacy.ledger import Spent
    from searchveil.publish.plan import Plan


def print_json(record: Mapping[str, Any]) -> None:
    print(json.dumps(record, ensure_ascii=False, default=str))


def result(found: Any, *, as_json: bool) -> None:
    """What a command found out, as one JSON object or in words."""
    if as_json:
        print_json(found.to_json())
    else:
        print(found)


def rows(pairs: Mapping[str, Any]) -> None:
    """Aligned name and value, one a line; the same on a terminal and in a file."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        print(f"  {name:<{width}}  {_in_words(value)}")


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def counted(number: int, thing: str, things: str | None = None) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def _tell(line: str) -> None:
    """On standard error. Whoever read it may have gone, which is no reason to stop a release that has been paid for."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


@contextmanager
def steps() -> "Iterator[Callable[[str], None]]":
    """Names each step as it begins: a spinner on a terminal, plain lines when piped."""
    if not sys.stderr.isatty():
        yield lambda step: _tell(f"… {step}")
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the log") as status:
        yield lambda step: status.update(step)


@contextmanager
def steps_and_bars() -> "Iterator[tuple[Callable[[str], None], Callable[[str, int, int], None]]]":
    """Steps, of which some can be counted: (what, done, total) is a bar on a terminal, tenths of it when piped."""
    if not sys.stderr.isatty():
        told = ("", -1)

        def tell(what: str, done: int, total: int) -> None:
            nonlocal told
            tenth = 10 * done // max(total, 1)
            if what != told[0] or tenth > told[1]:
                told = what, tenth
                _tell(f"… {what}: {10 * tenth} %")

        yield lambda step: _tell(f"… {step}"), tell
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield (
            lambda step: progress.update(task, description=step, completed=0, total=None),
            lambda what, done, total: progress.update(task, description=what, completed=done, total=total),
        )


@contextmanager
def bar(what: str) -> "Iterator[Callable[[int, int], None]]":
    """Progress of countable work: a bar on a terminal, a line for every tenth when piped."""
    if not sys.stderr.isatty():
        told = -1

        def tell(done: int, total: int) -> None:
            nonlocal told
            tenth = 10 * done // max(total, 1)
            if tenth > told:
                told = tenth
                _tell(f"… {what}: {10 * tenth} %")

        yield tell
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def job(made: "Job") -> None:
    """A crowd's job, in the words that its members are shown."""
    print(f"{made.id.hex()[:8]}  {made.artifact}, policy {made.policy.name}, k {made.policy.k}")
    for text in made.words().values():
        print(f"  {text}")


def remark(text: str) -> None:
    _tell(f"searchveil: {text}")


def warning(text: str) -> None:
    remark(f"warning: {text}")


def problems(read: "SearchLog | Swept") -> None:
    """Rows that could not be read are told to the publisher, never published."""
    for problem in read.problems:
        remark(f"left out {problem}")


def summary(figures: Mapping[str, Any]) -> None:
    """Of a log: how it was read, then its figures; what a log without times or clicks cannot have is left out."""
    named = figures["column_names"]
    columns = [f"{ours} ({named[ours]})" if named.get(ours, ours) != ours else ours for ours in figures["columns"]]
    told = {"format": figures["format"], "columns": ", ".join(columns)}
    told_already = ("source", "problems", "warning", "column_names", *told)
    told |= {name.replace("_", " "): value for name, value in figures.items() if name not in told_already}
    rows({name: value for name, value in told.items() if value not in (None, "", [])})


LARGE_DELTA = 1e-3  # among a thousand users, it might be every release that shows somebody


def plan(plan: "Plan") -> None:
    named = {_PARAMETER_NAMES.get(name, name.replace("_", " ")): value for name, value in plan.parameters.items()}
    if plan.method == "zealous":
        named["in the paper's terms τ'"] = f"{plan.settings.selection.threshold - 1} (publish iff noisy > τ')"
    print(f"{plan.method}, item {plan.item}")
    rows(named | {name.replace("_", " "): value for name, value in plan.figures.items()})
    print(plan.guarantee)
    for line in _remarks(plan):
        print(line)


def _remarks(plan: "Plan") -> "Iterator[str]":
    """What a reader of the promise should know besides."""
    from searchveil.publish.spread import in_words

    if plan.guarantee.is_private and plan.guarantee.delta > LARGE_DELTA and plan.method != "sampling":
        yield (
            f"Warning: δ = {plan.guarantee.delta:g} is how likely the promise may fail and a user's whole history may "
            "come out. Take much less than one in the number of users, such as --delta 1e-6."
        )
    if plan.settings.noise_below:
        yield in_words(plan.settings.noise_below)
    if plan.takes is not None:
        yield plan.takes
    if plan.advice is not None:
        yield f"Advice: {plan.advice}"
    if plan.claims:
        claims = ", ".join(f"{name.removeprefix('paper_')} {value:.6g}" for name, value in plan.claims.items())
        yield f"The paper claims for these parameters: {claims} (docs/errata.md says when that holds)."
    for caveat in plan.guarantee.caveats if plan.guarantee.is_private else ():
        yield f"Note: {caveat}."


def evaluation(found: "Evaluation", release: str) -> None:
    """Every figure of the original and of the release side by side, the warning above all."""
    from searchveil.lab.report import Row, in_figures, sections
    from searchveil.lab.words import name_in_words

    def line(name: str, *figures: str) -> None:
        print(f"{name:<{width}}" + "".join(f"  {figure:>10}" for figure in figures))

    print(f"Warning: {found.warning}")
    if found.headline is not None:
        print(found.headline.sentence)
    applications, measures = sections(found.applications, found.measures)
    both: list[tuple[str, tuple[Row, ...]]] = [(section.title, section.rows) for section in applications + measures]
    width = max((len(row.title) + 2 for _, rows in both for row in rows), default=0)
    width = max(width, len(release))
    line(release, "original", "release")
    for name, figures in both:
        print(name)
        for row in figures:
            line(f"  {row.title}", in_figures(row.original), in_figures(row.release))
    for name, reason in found.skipped.items():
        print(f"Left out {name_in_words(name)}: {reason}.")


def account(spent: "Spent") -> None:
    from searchveil.privacy.rounding import at_least, at_most

    budget = f"({at_least(spent.budget.epsilon)}, {at_least(spent.budget.delta)})"
    print(f"budget  {budget}, {spent.budget.neighbours}, {spent.budget.composition} composition")
    print(f"spent   ({at_most(spent.basic_epsilon)}, {at_most(spent.basic_delta)}) by adding up")
    if any(entry.cost.mu is not None for entry in spent.entries):
        noise = spent.gaussian
        print(f"        μ = {at_most(noise.mu)} and δ = {at_most(noise.delta)} outside, by adding up μ² and δ")
    if spent.entries:
        best = f"({at_most(spent.best_epsilon)}, {at_most(spent.budget.delta)})"
        print(f"        {best} if all these releases had been fixed in advance")
    print(f"left    {spent.left}")
    for entry in spent.entries:
        place = f" in {entry.out}" if entry.out else " (reserved, not written; spent all the same)"
        cost = f"({at_most(entry.cost.epsilon)}, {at_most(entry.cost.delta)})"
        if entry.cost.mu is not None:
            cost += f", μ = {at_most(entry.cost.mu)} and δ = {at_most(entry.cost.mu_delta)} outside"
        print(f"  {entry.id}  {entry.time}  {entry.method}, item {entry.item}: {cost}{place}")


_PARAMETER_NAMES = {
    "per_user": "items kept per user (m)",
    "noise_scale": "noise scale (λ)",
    "first_threshold": "first threshold (τ)",
    "second_threshold": "second threshold (T): publish iff noisy ≥",
}
