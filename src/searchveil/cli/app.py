"""The commands. Each is one function that parses, calls and prints."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from searchveil.cli import looking, tour
from searchveil.cli.attacks import attack
from searchveil.cli.collab import collab
from searchveil.cli.crowd import crowd
from searchveil.cli.methods import OF_PLAN, MethodOptions, method_command
from searchveil.cli.options import (
    BudgetOptions,
    Json,
    LogOptions,
    LogPaths,
    OptionalLogPaths,
    example,
    with_option_groups,
)
from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.publish.mechanism import Mechanism

app = typer.Typer(
    help="Publish web search logs without publishing the people in them.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
app.add_typer(attack, name="attack")
app.add_typer(collab, name="collab")
app.add_typer(crowd, name="crowd")


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"searchveil {version('searchveil')}")
        raise typer.Exit


@app.callback()
def searchveil(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Which version this is.")
    ] = False,
) -> None:
    """Publish web search logs without publishing the people in them."""


@app.command(epilog=example("searchveil demo --users 20000 --seed 1 --out log.tsv"))
def demo(
    out: Annotated[str, typer.Option(help="log.tsv, log.tsv.gz or log.parquet.")],
    users: Annotated[int, typer.Option(help="How many users.")] = 2000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same log.")] = 1,
    odd_queries: Annotated[
        bool, typer.Option("--odd-queries", help="With queries that are -, in other scripts, or pasted.")
    ] = False,
    shared_address: Annotated[
        bool, typer.Option("--shared-address", help="With one user who has a sixth of all rows.")
    ] = False,
    long_sessions: Annotated[
        bool, typer.Option("--long-sessions", help="With one session in 600 of 30 to 500 submissions.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file; make its folder.")] = False,
    json: Json = False,
) -> None:
    """Write a synthetic search log to try things on."""
    from searchveil.cli import show
    from searchveil.log.demo import write_demo

    if Path(out).exists() and not force:
        raise InputError(f"{out} exists; choose another name or add --force")
    if force:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
    with show.bar("writing users") as progress:
        rough = {"odd_queries": odd_queries, "shared_address": shared_address, "long_sessions": long_sessions}
        log = write_demo(out, users=users, seed=seed, **rough, progress=progress)
    if json:
        show.print_json(asdict(log))
    else:
        of_users = f"{show.counted(log.rows, 'row')} of {show.counted(log.users, 'user')}"
        print(f"{log.path}: {of_users} with {show.counted(log.clicks, 'click')}")
        print(f"{show.counted(log.planted, 'row is', 'rows are')} planted personal queries that must never come out")


@app.command(epilog=example("searchveil inspect log.tsv"))
@with_option_groups
def inspect(
    log: LogPaths,
    reading: LogOptions,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Count what is in it, or only say how it is read.")
    ] = True,
    json: Json = False,
) -> None:
    """Show what is in a log, and which rows could not be read. Private figures: do not publish them."""
    from searchveil.cli import show
    from searchveil.log.summary import as_read, summarize

    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        if figures:
            step("counting")
        summary = summarize(opened).to_json() if figures else as_read(opened)
        opened.engine.close()
    if json:
        show.print_json(summary)  # with the bad rows in it
        return
    show.problems(opened)
    print(opened.source + (" (figures of the private log, covered by no guarantee)" if figures else ""))
    show.summary(summary)


@app.command(epilog=example("searchveil methods"))
def methods(
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/methods.md.")] = False,
    json: Json = False,
) -> None:
    """List the ways of publishing and what each promises."""
    from searchveil.cli import show
    from searchveil.cli.methods_page import page
    from searchveil.publish.described import described

    if markdown:
        print(page(), end="")
    elif json:
        show.print_json({"methods": [one.to_json() for one in described()]})
    else:
        for one in described():
            print(f"{one.method}: {one.summary}\n    Privacy: {one.promise}.")
        print("`searchveil release --method METHOD --help` shows the options of one.")


@method_command(
    app,
    "searchveil plan --epsilon 1 --delta 1e-6 --assume users=20000",
    "searchveil plan {}",
    OF_PLAN,
    dict.fromkeys(("weighted", "zealous"), " --assume users=657426") | {"sampling": " --users 657426"},
)
def plan(
    how: MethodOptions,
    reading: LogOptions,
    log: OptionalLogPaths = None,
    users: Annotated[int | None, typer.Option(min=1, help="A public number of users, instead of a log.")] = None,
    json: Json = False,
) -> None:
    """Say what a release would guarantee and publish. Touches no budget and publishes nothing."""
    from searchveil.cli import planning, show

    if log and users is not None:
        raise InputError("give a log or --users, not both")
    planned, beside = planning.plan_of(how, reading, log, users)
    if json:
        show.print_json(planned.to_json() | beside)
        return
    show.plan(planned)
    if how.wanted:
        print(f"To release so much, type: --sampler {how.given['sampler']} --delta {how.given['delta']}")
    planning.print_beside(beside, planned.guarantee.unit, assumed=how.extras.get("assume"))
    if not log:
        print(planning.WITHOUT_A_LOG)


@method_command(
    app,
    "searchveil release log.tsv --item query --epsilon 1 --delta 1e-6 --out release",
    "searchveil release log.tsv {} --out release",
)
def release(
    log: LogPaths,
    out: Annotated[str, typer.Option(help="The folder to make.")],
    how: MethodOptions,
    budget: BudgetOptions,
    reading: LogOptions,
    table: Annotated[str, typer.Option(help="parquet, csv or tsv.")] = "parquet",
    json: Json = False,
) -> None:
    """Make a release folder that can be handed out."""
    from searchveil.cli import show
    from searchveil.publish.folder import claimed

    mechanism = how.build(how.assumption())
    with show.steps() as step, claimed(Path(out), table):  # before anything is paid
        step("reading the log")
        opened = reading.read(log)
        mechanism.check(opened)
        if not json and (takes := mechanism.plan(opened).takes) is not None:  # before anything is paid
            print(takes, flush=True)
        made = mechanism.release(opened, ledger=budget.open(), progress=step)
        step("writing the folder")
        folder = made.write(out, format=table)
        opened.engine.close()
    show.problems(opened)
    if json:
        show.print_json(made.plan.to_json() | {"rows": made.table.num_rows, "out": str(folder)})
        return
    show.plan(replace(made.plan, takes=None))
    print(f"{show.counted(made.table.num_rows, 'row')} in {folder} (start with its README.md)")
    if not made.table.num_rows and made.plan.advice is None:
        print(
            f"Advice: nothing was common enough to be published. {_what_lets_more_pass(mechanism)} let more pass; "
            "`searchveil plan` shows the threshold for free."
        )


def _what_lets_more_pass(mechanism: "Mechanism") -> str:
    """Only what the method has an option for."""
    from searchveil.publish.parameters import parameters_of

    own = [parameter.name for parameter in parameters_of(type(mechanism))]
    ways = ["More users"]
    if larger := [f"--{name}" for name in ("epsilon", "delta") if name in own]:
        ways.append(f"a larger {' or '.join(larger)}")
    if any(name.endswith("per_user") for name in own):
        ways.append("fewer items per user")
    if "item" in own:
        ways.append("a coarser --item")
    return " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))


@app.command(epilog=example("searchveil pool --queries queries.txt --out pool.parquet"))
def pool(
    out: Annotated[str, typer.Option(help="The Parquet file to make.")],
    queries: Annotated[str | None, typer.Option(help="A public list of queries: txt, csv, tsv or parquet.")] = None,
    ngrams: Annotated[str | None, typer.Option(help="A frequency list: a number, then the words, a line each.")] = None,
    release: Annotated[str | None, typer.Option(help="An earlier release folder, differentially private.")] = None,
    size: Annotated[int, typer.Option(help="How many queries to draw from n-grams.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed draws the same n-grams.")] = 1,
    json: Json = False,
) -> None:
    """Make a public query pool for the SafeLog methods.

    It must not come from the log that is to be published, unless through a differentially private release of it, whose
    cost adds up. That a list of queries is public is your word: nothing checks it.
    """
    from searchveil.cli import show
    from searchveil.items.pool import QueryPool
    from searchveil.publish.release import Release

    if sum(source is not None for source in (queries, ngrams, release)) != 1:
        raise InputError("name one source: --queries FILE, --ngrams FILE or --release DIR")
    if queries is not None:
        made = QueryPool.from_file(queries, out)
    elif release is not None:
        made = Release.read(release).pool(out)
    else:
        assert ngrams is not None
        made = QueryPool.from_ngrams(ngrams, out, size=size, seed=seed)
    if json:
        show.print_json({"out": str(made.path), "queries": made.size})
    else:
        print(f"{made.path}: {show.counted(made.size, 'query', 'queries')}")


@app.command(epilog=example("searchveil export release --layout click-graph --out graph"))
def export(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A release folder with clicks.")],
    out: Annotated[str, typer.Option(help="The folder to make.")],
    layout: Annotated[str, typer.Option(help="click-graph (node and edge lists) or orcas.")] = "click-graph",
    json: Json = False,
) -> None:
    """Write a release's clicks as a graph, or in the layout of ORCAS, with the guarantee that holds for them."""
    from searchveil.cli import show
    from searchveil.publish.export import export_release

    files = export_release(Path(folder), Path(out), layout)
    if json:
        show.print_json({"out": out, "files": files})
    else:
        show.rows({name: show.counted(rows, "row") for name, rows in files.items()})


@app.command(epilog=example("searchveil resample release --scale 2 --out larger"))
def resample(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A release folder of the method synthetic.")],
    out: Annotated[str, typer.Option(help="The folder to make.")],
    scale: Annotated[float, typer.Option(help="Users drawn for each of the log's.")] = 1.0,
    tail: Annotated[str, typer.Option(help="Queries that are not named: invented, token or omit.")] = "invented",
    seed: Annotated[int | None, typer.Option(help="The same seed draws the same log; a fresh one if left out.")] = None,
    table: Annotated[str, typer.Option(help="parquet, csv or tsv.")] = "parquet",
    json: Json = False,
) -> None:
    """Draw a synthetic log again from its published statistics. Needs no log and costs no budget."""
    from searchveil.cli import show
    from searchveil.publish.folder import claimed
    from searchveil.publish.release import Release
    from searchveil.publish.synthetic.mechanism import resample as draw

    made = Release.read(folder)
    with show.steps() as step, claimed(Path(out), table):
        drawn = draw(made, seed=seed, scale=scale, tail=tail, progress=step)
        step("writing the folder")
        place = drawn.write(out, format=table)
    if json:
        show.print_json(drawn.plan.to_json() | {"rows": drawn.table.num_rows, "out": str(place)})
    else:
        print(f"{drawn.table.num_rows:,} rows in {place}, under the guarantee of {folder}")


@app.command(epilog=example("searchveil evaluate release --against log.tsv"))
@with_option_groups
def evaluate(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A release folder.")],
    against: Annotated[list[str], typer.Option(metavar="LOG", help="The log it was made of; again for more files.")],
    reading: LogOptions,
    applications: Annotated[
        str | None, typer.Option(help="Names with commas between, or none (docs/evaluate.md); all of them if left out.")
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option(metavar="LOG", help="Searches of other users to test applications on.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed tests on the same searches.")] = 1,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where the page goes; DIR-report.html if left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Hold a release against its log: what it keeps and is good for. Private figures: do not publish them."""
    from searchveil.cli import show
    from searchveil.lab.applications import application_named
    from searchveil.lab.evaluate import evaluate as run
    from searchveil.lab.report import check_place, place_beside, write_report
    from searchveil.lab.tools import check_tools
    from searchveil.publish.release import Release

    check_tools()  # all that can be wrong is told before a log is read
    release, names = Path(folder), None
    made = Release.read(release)
    if applications is not None:
        names = [name.strip() for name in applications.split(",") if name.strip() not in ("", "none")]
        for name in names:
            application_named(name)
    page = place_beside(release) if report is None else Path(report)
    check_place(page, release)
    with show.steps() as step:
        step("reading the log")
        log = reading.read(against)
        asked = None if test is None else reading.read(test, log.engine)
        result = run(made, log, applications=names, test=asked, seed=seed, progress=step)
        step("writing the report")
        write_report(page, result, release, against=log.source)
        log.engine.close()
    for opened in (log, asked):
        if opened is not None:
            show.problems(opened)
    if result.doubt is not None:
        show.remark(result.doubt)
    if json:
        found = result.to_json()
        for of_the_page in ("charts", "headline"):  # long lists, and examples of private texts
            found.pop(of_the_page)
        show.print_json(found | {"report": str(page)})
        return
    show.evaluation(result, f"{folder}: {made.plan.method}, item {made.plan.item}")
    print(f"The report is {page}; it opens without a network.")


@app.command(epilog=example("searchveil sweep experiments/small.toml --out small-results"))
def sweep(
    experiment: Annotated[str, typer.Argument(metavar="FILE", help="An experiment in TOML (docs/experiments).")],
    out: Annotated[str | None, typer.Option(help="The folder of the results; NAME-results if left out.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes at a time; as many as cores if left out.")] = None,
    json: Json = False,
) -> None:
    """Try many methods and parameters on a log. Stopped, it goes on where it was. Private figures: do not publish."""
    from searchveil.cli import show
    from searchveil.lab.evaluate import WARNING
    from searchveil.lab.sweep import DemoLog, Experiment
    from searchveil.lab.sweep import sweep as run

    asked = Experiment.read(experiment)
    folder = f"{Path(experiment).stem}-results" if out is None else out
    with show.bar("cells") as done:
        found = run(asked, folder, workers=workers, done=done)
    show.problems(found)
    failed = {failure.cell.called: failure.reason for failure in found.failures}
    if json:
        record = {"results": str(found.results), "charts": [str(chart) for chart in found.charts]}
        show.print_json(record | {"cells": found.cells, "kept": found.kept, "failed": failed})
    else:
        if not isinstance(asked.log, DemoLog):
            print(f"Warning: {WARNING}")
        for chart in found.drawn:
            print(chart.text(), end="\n\n")
        for called, reason in failed.items():
            print(f"Failed: {called}: {reason}")
        print(f"{found.cells} cells, {found.kept} of them from before, {len(failed)} failed: {found.results}")
    if failed:
        raise typer.Exit(1)


@method_command(
    app, "searchveil audit --method zealous --epsilon 1.5 --delta 0.05 --per-user 1 --runs 60 --canary near"
)
def audit(
    how: MethodOptions,
    runs: Annotated[int, typer.Option(help="Releases to make; hundreds prove something.")] = 600,
    canary: Annotated[list[str] | None, typer.Option(help="A canary to use (docs/audit.md); all if left out.")] = None,
    confidence: Annotated[float, typer.Option(help="That a refuted promise is a broken one.")] = 0.95,
    json: Json = False,
) -> None:
    """Try to refute what a method promises: what do many releases prove about ε? Ends with 1 if it is refuted."""
    from searchveil.cli import show
    from searchveil.lab.audit import audit as run

    with show.steps() as step:
        result = run(how.build(how.assumption()), runs=runs, canaries=canary, confidence=confidence, progress=step)
    show.result(result, as_json=json)
    if result.refuted:
        raise typer.Exit(1)


@app.command(epilog=example("searchveil ledger account.sqlite"))
def ledger(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ledger made by release --ledger.")],
    json: Json = False,
) -> None:
    """Show what a log has already paid."""
    from searchveil.cli import show
    from searchveil.privacy.ledger import Ledger

    if not Path(file).exists():
        raise InputError(
            f"there is no ledger {file}; release --ledger {file} --budget-epsilon E --budget-delta D makes one"
        )
    spent = Ledger.open(file).spent()
    if json:
        show.print_json(spent.to_json())
    else:
        show.account(spent)


@app.command(epilog=example("searchveil studio log.tsv --ledger account.sqlite"))
def studio(
    log: Annotated[str | None, typer.Argument(metavar="[LOG]", help="A log to begin with.", show_default=False)] = None,
    ledger: Annotated[str | None, typer.Option(metavar="FILE", help="The ledger that pays; made if new.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine's are a risk.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Explore, decide, pay and release on a page in the browser, for the files of this folder."""
    from searchveil.studio.tools import check_tools

    check_tools()
    from searchveil.studio.serve import serve

    serve(log, ledger, host=host, port=port, browser=browser, say=lambda line: print(line, flush=True))


looking.add_to(app)
tour.add_to(app)
