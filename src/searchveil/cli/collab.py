"""`searchveil collab`: one joint release of several log owners."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from searchveil.cli.options import BudgetOptions, Json, LogOptions, LogPaths, example, with_option_groups
from searchveil.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from searchveil.collab.simulate import Simulated, Standing, Watch

collab = typer.Typer(
    help="One joint release of several log owners, who do not see each other's logs (docs/collab.md).",
    no_args_is_help=True,
)

MODES = ("private", "paper")

RunPath = Annotated[str, typer.Option(metavar="FILE", help="The run file that all agreed on.")]
Folder = Annotated[str, typer.Option(metavar="DIR", help="The folder that collab init made.")]
TranscriptPath = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write down what went in and out: who, what, when, bytes.")
]


def _check_tools() -> None:
    from searchveil.extras import require_extra

    require_extra("collab", "httpx", "pyhpke", "rbcl", "starlette", "uvicorn", what="collab needs more packages")


@collab.command(epilog=example("searchveil collab init library-a --name library-a"))
def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of a party or of the coordinator.")],
    name: Annotated[str | None, typer.Option(help="Of a new one: how the run file calls it.")] = None,
    pin: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Trust the certificate of another; again for more.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a key and a certificate, or pin the certificates of others.

    Send certificate.pem to the others, and compare fingerprints by telephone: nobody else vouches for them.
    """
    _check_tools()
    from searchveil.cli import show
    from searchveil.collab import identity

    if name is None and not pin:
        raise InputError("say which name a new folder is for with --name, or which certificate to --pin")
    one = identity.Identity(Path(folder)) if name is None else identity.create(Path(folder), name)
    pinned = [one.pin(Path(path)) for path in pin or ()]
    known = {certificate.name: certificate.fingerprint for certificate in (one.certificate, *pinned)}
    if json:
        show.print_json({"folder": folder, "name": one.name, "certificates": known})
        return
    print(f"{folder} is the folder of {one.name}. Send {one.certificate_path} to the others, and keep the key there.")
    print("Lines for the run file:")
    for other, fingerprint in known.items():
        print(f'  {other} = "{fingerprint}"')


@collab.command(epilog=example("searchveil collab coordinator --run run.toml --folder coordinator"))
def coordinator(
    run: RunPath,
    folder: Folder,
    transcript: TranscriptPath = None,
) -> None:
    """Pass on what the parties send each other, until all have their release. Needs no log and sees none."""
    _check_tools()
    from searchveil.cli import show
    from searchveil.collab.agreement import RunFile
    from searchveil.collab.coordinator import Coordinator
    from searchveil.collab.identity import Identity
    from searchveil.collab.messages import RunEnded

    agreed = RunFile.read(run)
    _warn_of(agreed.agreement.mode)
    with show.steps() as step:
        one = Coordinator(Identity(Path(folder)), agreed, transcript=_path(transcript), progress=step)
        try:
            one.serve()
        except RunEnded as ended:
            raise InputError(f"the run ended: {ended}; nothing was published") from None
    print("All parties have their release.")


@collab.command(epilog=example("searchveil collab party log.tsv --run run.toml --folder library-a --out release"))
@with_option_groups
def party(
    log: LogPaths,
    run: RunPath,
    folder: Folder,
    out: Annotated[str, typer.Option(help="The release folder to make.")],
    budget: BudgetOptions,
    reading: LogOptions,
    transcript: TranscriptPath = None,
    json: Json = False,
) -> None:
    """Take part in a run with a log of one's own, and write the joint release."""
    _check_tools()
    from searchveil.cli import show
    from searchveil.collab.agreement import RunFile
    from searchveil.collab.identity import Identity
    from searchveil.collab.paper import member_of

    agreed = RunFile.read(run)
    _warn_of(agreed.agreement.mode)
    with show.steps_and_bars() as (step, bar):
        step("reading the log")
        opened = reading.read(log)
        one = member_of(agreed)(
            opened,
            Identity(Path(folder)),
            agreed,
            ledger=budget.open(),
            transcript=_path(transcript),
            progress=step,
            bar=bar,
        )
        joined = one.join(Path(out))
        opened.engine.close()
    show.problems(opened)
    rows = joined.release.table.num_rows
    if json:
        beside = {"rows": rows, "out": str(joined.folder), "phases": joined.seconds}
        beside |= {"bytes_sent": joined.bytes_sent, "bytes_received": joined.bytes_received}
        show.print_json(joined.release.plan.to_json() | beside)
        return
    show.plan(joined.release.plan)
    print(f"{rows:,} rows in {joined.folder} (start with its README.md)")


@collab.command(
    epilog=example("searchveil collab simulate log.tsv --parties 3 --epsilon 5 --delta 1e-4 --per-user 3 --out joint")
)
@with_option_groups
def simulate(
    log: LogPaths,
    out: Annotated[str, typer.Option(help="The release folder to make.")],
    epsilon: Annotated[float, typer.Option(help="ε of the release.")],
    delta: Annotated[float, typer.Option(help="δ of the release.")],
    reading: LogOptions,
    parties: Annotated[int, typer.Option(help="How many parties the log is split among.")] = 3,
    mode: Annotated[
        str,
        typer.Option(help="private, or paper: CELS as published, whose solver (the coordinator) can read all counts."),
    ] = "private",
    objective: Annotated[
        str | None, typer.Option(help="Of mode paper: kl (the default), size, frequent or diversity.")
    ] = None,
    support: Annotated[
        float | None, typer.Option(help="Of objective frequent: the share of all clicks from which a pair is frequent.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="zealous (counts, the default) or sampling (rows of users).")
    ] = None,
    item: Annotated[str | None, typer.Option(help="What is counted; query, or click for sampling.")] = None,
    per_user: Annotated[int | None, typer.Option(help="Items kept of each user; 5 unless told.")] = None,
    collusion: Annotated[int | None, typer.Option(help="How many parties may join forces; 1 unless told.")] = None,
    deadline: Annotated[float, typer.Option(help="Seconds for the whole run.")] = 3600,
    transcripts: Annotated[
        str | None, typer.Option(metavar="DIR", help="A folder for the transcripts of all processes.")
    ] = None,
    json: Json = False,
) -> None:
    """Split a log by user, run every party as a process on this machine, and compare with other releases.

    The central release is that of one owner of all logs; local ones are those of each party alone.
    Mode paper is for comparison, never for logs that matter.
    """
    _check_tools()
    from searchveil.cli import show
    from searchveil.collab.simulate import Simulation
    from searchveil.publish.folder import claimed

    if mode not in MODES:
        raise InputError(f"there is no mode {mode}; there are {', '.join(MODES)}", parameter="mode", value=mode)
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "deadline": deadline}
    chosen = {"method": method, "item": item, "per_user": per_user, "collusion": collusion}
    of_paper = {"objective": objective, "support": support}
    if mode == "private":
        usual = {"method": "zealous", "item": "click" if method == "sampling" else "query", "per_user": 5}
        settings |= usual | {"collusion": 1}
    else:
        settings |= {"mode": mode}
    settings |= {name: value for name, value in {**chosen, **of_paper}.items() if value is not None}
    simulation = Simulation(parties, settings, _path(transcripts))
    _warn_of(mode)
    with claimed(Path(out)):
        with show.steps() as step:
            step("reading the log")
            opened = reading.read(log)
        with _table() as watch, show.steps() if watch is None else _quiet() as step:
            found = simulation.run(opened, Path(out), progress=step, watch=watch)
        opened.engine.close()
    show.problems(opened)
    _show_simulated(found, parties, json)


def _warn_of(mode: str) -> None:
    if mode == "paper":
        from searchveil.cli import show
        from searchveil.collab.paper import WARNING

        show.warning(WARNING)


def _show_simulated(found: "Simulated", parties: int, json: bool) -> None:
    from searchveil.cli import show

    if json:
        show.print_json(found.to_json())
        return
    print(f"{found.rows:,} rows in {found.out}: a joint release of {parties} parties")
    show.rows(
        {
            "central release (one owner of all logs)": f"{found.central_rows:,} rows",
            "local releases (each party alone)": ", ".join(f"{rows:,}" for rows in found.local_rows) + " rows",
            "seconds": found.seconds,
            "bytes sent and received by all parties": found.bytes,
            **{f"seconds of phase {name}": seconds for name, seconds in found.phases.items()},
        }
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


@contextmanager
def _quiet() -> Iterator[Any]:
    """Where a table shows how things stand."""
    yield lambda step: None


@contextmanager
def _table() -> "Iterator[Watch | None]":
    """A live table of phases, seconds and bytes on a terminal; nothing where there is none."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=5, transient=True) as live:
        yield lambda standings: live.update(table_of(standings))


def table_of(standings: "list[Standing]") -> "Table":
    from rich.table import Table

    table = Table("process", "phase", "seconds", "kB sent", "kB received")
    for one in standings:
        sizes = [f"{size // 1000:,}" for size in (one.sent, one.received)]
        table.add_row(one.name, one.phase, f"{one.seconds:.1f}", *sizes)
    return table
