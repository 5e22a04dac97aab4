"""`searchveil tour`: the story in one screen."""

import shutil
import sys
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from searchveil.cli.options import example
from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.lab.tour import Tour

MARK = ".searchveil-tour"  # in a folder that a tour made, and may make anew


def add_to(app: typer.Typer) -> None:
    app.command("tour", epilog=example("searchveil tour --users 2000 --out tour"))(tell)


def tell(
    out: Annotated[str, typer.Option(help="The folder to make; one of an earlier tour is replaced.")] = "demo",
    users: Annotated[int, typer.Option(min=100, help="How many users the demo log has.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed gives the same log.")] = 1,
    epsilon: Annotated[float, typer.Option(help="ε of the release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of the release.")] = 1e-6,
) -> None:
    """Make a demo log, release it, attack the release, and tell what happened on one screen."""
    from searchveil.cli import show
    from searchveil.lab.tour import tour
    from searchveil.publish.weighted import Weighted

    Weighted(epsilon, delta)  # refuses what is wrong, before an earlier tour is removed
    folder = Path(out)
    if folder.exists() and not (folder / MARK).exists():
        raise InputError(f"{folder} exists and is no earlier tour; choose another --out or remove it first")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    with show.steps() as step:
        found = tour(folder, users=users, seed=seed, epsilon=epsilon, delta=delta, progress=step)
    print(story(found))


def story(found: "Tour") -> str:
    from searchveil.cli.tables import as_text
    from searchveil.lab.words import percent, verdict
    from searchveil.privacy.rounding import at_most
    from searchveil.publish.top import top_rows

    log, attack, release = found.log, found.attack, found.release
    promise, run = release.guarantee, _command()
    # Beyond 700, no float holds the factor.
    factor = at_most(exp(promise.epsilon), 3) if promise.epsilon <= 700 else f"e^{at_most(promise.epsilon)}"
    off, covered = percent(found.error), percent(found.covered)
    return f"""\
WHAT WAS IN THE LOG      {log.rows:,} rows of {log.users:,} invented people, {found.queries:,} different queries;
                         {log.planted:,} rows are personal, such as "{found.private}".

WHAT WAS PUBLISHED       {release.table.num_rows:,} queries with how many people searched them. The first ten:
{as_text(top_rows(release.table, None).slice(0, 10))}

WHAT IS PROMISED         Whoever sees this can hardly tell whether any one person is in the log: her whole history
                         changes the odds of any outcome by a factor of {factor} at most, up to a chance
                         of {promise.delta:g} (ε = {promise.epsilon:g}, δ = {promise.delta:g}).

WHAT IT IS GOOD FOR      {percent(found.popular)} of the 50 most popular queries were published,
                         their counts are off by {off} (median), and
                         {covered} of all searches are of published queries. {verdict(found.covered)}.

WHAT AN ATTACKER LEARNED Who knows {attack.known} queries of a person finds {percent(attack.before.found)} of people
                         in the log under pseudonyms, and nobody in the release: it has no record of a person.
                         {len(attack.planted_published)} of {attack.planted:,} planted personal queries came out.

WHERE TO LOOK NEXT       {found.folder}/README.md    the card that goes along with the data
                         {run} show {found.folder} --search weather
                         {run} evaluate {found.folder} --against {log.path}    a page: was it worth it?
                         {run} attack k-anonymity {log.path}    why counting to five is not enough"""


def _command() -> str:
    """What to type to run searchveil again: its name, where that is this very program."""
    found = shutil.which("searchveil")
    return "searchveil" if found and Path(found).samefile(sys.argv[0]) else sys.argv[0]
