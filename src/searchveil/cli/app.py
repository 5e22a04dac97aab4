"""The commands. Each is one function that parses, calls and prints."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from searchveil.cli.options import (
    BudgetOptions,
    Json,
    LogOptions,
    LogPaths,
    MethodOptions,
    OptionalLogPaths,
    with_option_groups,
)
from searchveil.errors import InputError

app = typer.Typer(
    help="Publish web search logs without publishing the people in them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
attack = typer.Typer(help="Attacks that show why a method does, or does not, protect people.", no_args_is_help=True)
app.add_typer(attack, name="attack")


def _example(line: str) -> str:
    return f"Example: `{line}`"


@app.command(epilog=_example("searchveil demo --users 2000 --seed 1 --out log.tsv"))
def demo(
    out: Annotated[str, typer.Option(help="log.tsv, log.tsv.gz or log.parquet.")],
    users: Annotated[int, typer.Option(help="How many users.")] = 2000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same log.")] = 1,
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
        log = write_demo(out, users=users, seed=seed, progress=progress)
    if json:
        show.print_json(asdict(log))
    else:
        print(f"{log.path}: {log.rows:,} rows of {log.users:,} users with {log.clicks:,} clicks")
        print(f"{log.planted:,} rows are planted personal queries that must never come out")


@app.command(epilog=_example("searchveil inspect log.tsv"))
@with_option_groups
def inspect(log: LogPaths, reading: LogOptions, json: Json = False) -> None:
    """Show what is in a log, and which rows could not be read. Private figures: do not publish them."""
    from searchveil.cli import show
    from searchveil.log.summary import summarize

    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        step("counting")
        summary = summarize(opened).to_json()
        opened.engine.close()
    if json:
        show.print_json(summary)
        return
    show.problems(opened)
    print(f"{opened.source} (figures of the private log, covered by no guarantee)")
    show.rows({name.replace("_", " "): value for name, value in summary.items() if name != "problems"})


@app.command(epilog=_example("searchveil plan --method zealous --epsilon 1 --delta 1e-6 --per-user 5 --users 657426"))
@with_option_groups
def plan(how: MethodOptions, reading: LogOptions, log: OptionalLogPaths = None, json: Json = False) -> None:
    """Say what a release would guarantee and publish. Touches no budget and publishes nothing."""
    from searchveil.cli import show

    if log and how.users is not None:
        raise InputError("give a log or --users, not both")
    assumption, users = how.assumption, how.users
    if assumption is not None and how.method != "zealous":
        raise InputError(f"--assume predicts what zealous publishes; it does not know {how.method}")
    how.users = None  # here it stands for a log
    mechanism = how.build(assumption)
    if log:
        opened = reading.read(log)
        show.problems(opened)
        planned = mechanism.plan(opened)
        opened.engine.close()
    else:
        planned = mechanism.plan(users)
    record = planned.to_json()
    if assumption is not None:
        record["expected_rows"] = assumption.expected_published(
            planned.parameters["per_user"],
            planned.parameters["noise_scale"],
            planned.parameters["second_threshold"],
            planned.parameters["first_threshold"],
        )
    if json:
        show.print_json(record)
        return
    show.plan(planned)
    if assumption is not None:
        print(f"Expected to be published if {how.assume}: about {record['expected_rows']:,.0f} items.")


@app.command(
    epilog=_example(
        "searchveil release log.tsv --method zealous --item query --epsilon 1 --delta 1e-6 --per-user 5 --out release"
    )
)
@with_option_groups
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
    from searchveil.publish.folder import check_writable

    mechanism = how.build(how.assumption)
    check_writable(Path(out), table)  # before anything is paid
    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        made = mechanism.release(opened, ledger=budget.open(), progress=step)
        step("writing the folder")
        folder = made.write(out, format=table)
        opened.engine.close()
    if json:
        show.print_json(made.plan.to_json() | {"rows": made.table.num_rows, "out": str(folder)})
        return
    show.problems(opened)
    show.plan(made.plan)
    print(f"{made.table.num_rows:,} rows in {folder} (start with its README.md)")


@app.command(epilog=_example("searchveil ledger account.sqlite"))
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


@attack.command("k-anonymity", epilog=_example("searchveil attack k-anonymity log.tsv --k 5"))
@with_option_groups
def attack_k_anonymity(
    log: LogPaths,
    reading: LogOptions,
    k: Annotated[int, typer.Option("--k", help="k of the anonymity.")] = 5,
    guess: Annotated[str | None, typer.Option(help="What the victim may have searched.")] = None,
    runs: Annotated[int, typer.Option(help="Releases with and without the victim.")] = 5,
    json: Json = False,
) -> None:
    """k-1 fake accounts reveal whether a victim searched something; ZEALOUS does not tell."""
    from searchveil.cli import show
    from searchveil.lab.attacks.k_anonymity import attack_k_anonymity as run

    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        step("attacking")
        result = run(opened, k=k, guess=guess, runs=runs)
        opened.engine.close()
    if json:
        show.print_json(result.to_json())
    else:
        print(result)
