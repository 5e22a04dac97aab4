"""`searchveil crowd …`: the programs of a crowd, their jobs, and a whole one on this machine."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from searchveil.cli.crowd_client import client
from searchveil.cli.options import BudgetOptions, Json, LogOptions, LogPaths, example, with_option_groups
from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.crowd.policy import Policy

crowd = typer.Typer(help="A search log that nobody holds: servers, relays and clients.", no_args_is_help=True)
job = typer.Typer(help="Jobs of a server: make one, list them, publish what came in.", no_args_is_help=True)
crowd.add_typer(client, name="client")
crowd.add_typer(job, name="job")


@crowd.callback()
def prepare() -> None:
    """A search log that nobody holds: servers, relays and clients."""
    from searchveil.crowd.tools import check_tools

    check_tools()


Config = Annotated[Path, typer.Option(metavar="FILE", help="The program's TOML file (docs/run-a-crowd.md).")]


def _job(help: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The job", **limits)


@dataclass
class PolicyOptions:
    """When an artifact opens, and what is promised."""

    policy: Annotated[str, _job("ST_u, DP_u, DP_a, FT_u or FT_a.")] = "ST_u"
    k: Annotated[int | None, _job("Shares that open an artifact; the smallest that keeps the promise.")] = None
    per_user: Annotated[int | None, _job("Artifacts of a member, d.")] = None
    p: Annotated[float | None, _job("ST_u: with which probability an artifact is sent.", "--p")] = None
    epsilon: Annotated[float | None, _job("ε of ST_u, DP_u and DP_a.")] = None
    delta: Annotated[float | None, _job("δ of ST_u, DP_u and DP_a.")] = None
    colluding: Annotated[int, _job("ST_u: lying clients that the threshold allows for.", min=0)] = 0

    def chosen_policy(self) -> "Policy":
        from searchveil.crowd.policy import make_policy

        return make_policy(
            self.policy,
            k=self.k,
            per_user=self.per_user,
            p=self.p,
            epsilon=self.epsilon,
            delta=self.delta,
            colluding=self.colluding,
        )


@dataclass
class JobOptions(PolicyOptions):
    """What a job collects, and its policy."""

    artifact: Annotated[str, _job("query, reformulation, query-url or ltr.")] = "query"
    secondary_k: Annotated[int | None, _job("FT_u, FT_a: send spellings too; so many must share one.")] = None


@crowd.command(epilog=example("searchveil crowd init community --name Library --members 20"))
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.")],
    name: Annotated[str, typer.Option(help="What the community is called.")] = "crowd",
    server: Annotated[str, typer.Option(help="The server's URL.")] = "http://127.0.0.1:8700",
    randomness: Annotated[str, typer.Option(help="The randomness server's URL.")] = "http://127.0.0.1:8701",
    relay: Annotated[list[str] | None, typer.Option(help="A relay's URL; again for more.")] = None,
    hops: Annotated[int, typer.Option(help="Relays that each report passes.")] = 1,
    epoch_days: Annotated[float, typer.Option(help="How long a randomness key lives.")] = 7,
    members: Annotated[int, typer.Option(help="Invitations to make.")] = 0,
    json: Json = False,
) -> None:
    """Make the configuration of every program, with fresh keys."""
    from searchveil.cli import show
    from searchveil.crowd.config import Addresses
    from searchveil.crowd.config import init as run

    addresses = Addresses(server, randomness, tuple(relay or ["http://127.0.0.1:8710"]))
    run(folder, name, addresses, epoch_seconds=round(epoch_days * 86400), hops=hops)
    files = sorted(path.name for path in folder.iterdir())
    invitations = _invited(folder, members)
    if json:
        show.print_json({"folder": str(folder), "files": files, "invitations": invitations})
    else:
        print(f"{folder}: {', '.join(files)}")
        print("Give community.json and one invitation to each member; each program gets its own TOML file alone.")
        for one in invitations:
            print(one)


@crowd.command("invite", epilog=example("searchveil crowd invite community --members 5"))
def invite_members(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `crowd init` made.")],
    members: Annotated[int, typer.Option(help="Invitations to make.", min=1)] = 1,
    json: Json = False,
) -> None:
    """Make further invitations; each is one member, on however many machines."""
    from searchveil.cli import show

    invitations = _invited(folder, members)
    if json:
        show.print_json({"invitations": invitations})
    else:
        print("\n".join(invitations))


def _invited(folder: Path, members: int) -> list[str]:
    from searchveil.crowd.config import invite

    if not (folder / "community.json").exists():
        raise InputError(f"{folder} holds no community; make one with `searchveil crowd init`")
    return invite(folder, members)


@crowd.command(epilog=example("searchveil crowd server --config community/server.toml"))
def server(config: Config) -> None:
    """Run the server: jobs, tokens, intake, and a page about them."""
    _run("server", config)


@crowd.command(epilog=example("searchveil crowd randomness --config community/randomness.toml"))
def randomness(config: Config) -> None:
    """Run the randomness server. It must be somebody else's than the server's."""
    _run("randomness", config)


@crowd.command(epilog=example("searchveil crowd relay --config community/relay-1.toml"))
def relay(config: Config) -> None:
    """Run a relay: strips the sender, holds, shuffles, forwards."""
    _run("relay", config)


def _run(program: str, config: Path) -> None:
    from searchveil.crowd.programs import run_program

    run_program(program, config)


@crowd.command(epilog=example("searchveil crowd status http://127.0.0.1:8700"))
def status(
    url: Annotated[str, typer.Argument(help="The server's URL; a browser shows the same as a page.")],
    json: Json = False,
) -> None:
    """Show a server's jobs, their promises and whether they were released."""
    import httpx

    from searchveil.cli import show
    from searchveil.errors import printable

    lines = []
    try:
        jobs = httpx.get(f"{url.rstrip('/')}/status", timeout=30).json()
        for one in jobs:
            state = "open" if one["open"] else "released" if one["released"] else "closed"
            lines.append(f"{one['job'][:8]}  {one['artifact']}, {one['policy']}, k {one['k']}: {state}")
            lines.append(f"    {one['guarantee']}")
            lines += [f"    {url.rstrip('/')}/releases/{one['job']}/{name}" for name in one["files"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{url} does not answer as a server of a crowd: {type(error).__name__}") from error
    if json:
        show.print_json({"jobs": jobs})
        return
    for line in lines:
        print(printable(line))
    if not jobs:
        print("There is no job yet.")


# --- jobs ---


@job.command("new", epilog=example("searchveil crowd job new --config community/server.toml --epsilon 1 --delta 1e-6"))
@with_option_groups
def job_new(
    config: Config,
    asked: JobOptions,
    domains: Annotated[bool, typer.Option("--domains", help="Cut addresses to their domain.")] = False,
    recent: Annotated[bool, typer.Option("--recent", help="The last d artifacts, not the first.")] = False,
    days: Annotated[float, typer.Option(help="How long it takes reports; at most as long as its epoch.")] = 7,
    json: Json = False,
) -> None:
    """Sign a job and offer it to the members. The randomness server must be running."""
    from searchveil.cli import show
    from searchveil.crowd.programs import new_job

    chosen, k = asked.chosen_policy(), asked.secondary_k
    made = new_job(config, asked.artifact, chosen, days=days, secondary_k=k, domains=domains, recent=recent)
    if json:
        show.print_json({"job": made.id.hex(), "policy": asdict(chosen), "words": made.words()})
    else:
        show.job(made)


@job.command("list", epilog=example("searchveil crowd job list --config community/server.toml"))
def job_list(config: Config, json: Json = False) -> None:
    """List the jobs of a server. Private figures: do not publish them."""
    from searchveil.cli import show
    from searchveil.crowd.config import read_config
    from searchveil.crowd.store import Store

    store = Store(read_config(config, "database")["database"])
    rows = [
        {"job": one.id.hex(), "closed": one.closed, "release": one.release, "reports": store.count_reports(one.id)}
        for one in store.jobs()
    ]
    if json:
        show.print_json({"jobs": rows})
    else:
        for row in rows:
            state = row["release"] or ("closed" if row["closed"] else "open")
            print(f"{str(row['job'])[:8]}  {row['reports']:,} reports  {state}")


@job.command("release", epilog=example("searchveil crowd job release JOB --config community/server.toml --out release"))
@with_option_groups
def job_release(
    name: Annotated[str, typer.Argument(metavar="JOB", help="The first digits of the job's id.")],
    config: Config,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    budget: BudgetOptions,
    publish: Annotated[bool, typer.Option("--publish", help="Offer its files on the server's page.")] = False,
    json: Json = False,
) -> None:
    """Close a job, open what enough people share, and make the release folder."""
    from searchveil.cli import show
    from searchveil.crowd.aggregate import release_job
    from searchveil.crowd.programs import job_named

    store, found = job_named(config, name)
    with show.steps() as step:
        made, _ = release_job(store, found, out, ledger=budget.open(), progress=step)
    if publish:
        store.publish(found.id, str(out.absolute()))
    if json:
        show.print_json(made.plan.to_json() | {"rows": made.table.num_rows, "out": str(out)})
    else:
        show.plan(made.plan)
        print(f"{made.table.num_rows:,} rows in {out} (start with its README.md)")


# --- without a crowd ---


@crowd.command(epilog=example("searchveil crowd audit --epsilon 1 --delta 0.01 --p 0.2 --runs 600"))
@with_option_groups
def audit(
    asked: PolicyOptions,
    runs: Annotated[int, typer.Option(help="Releases for each scene, half of them with a member more.")] = 8_000,
    confidence: Annotated[float, typer.Option(help="That a refuted promise is a broken one.")] = 0.95,
    json: Json = False,
) -> None:
    """Try to refute what a policy promises, by many releases of invented members. Ends with 1 if it is refuted."""
    from searchveil.cli import show
    from searchveil.lab.audit.crowd import audit_policy

    with show.steps() as step:
        found = audit_policy(asked.chosen_policy(), runs=runs, confidence=confidence, progress=step)
    show.result(found, as_json=json)
    if found.refuted:
        raise typer.Exit(1)


@crowd.command(epilog=example("searchveil crowd simulate log.tsv --clients 300 --policy FT_u --k 5 --out crowd"))
@with_option_groups
def simulate(
    log: LogPaths,
    out: Annotated[Path, typer.Option(help="The release folder to make.")],
    reading: LogOptions,
    budget: BudgetOptions,
    asked: JobOptions,
    clients: Annotated[int, typer.Option(help="So many users of the log, the first ones.", min=1)] = 300,
    json: Json = False,
) -> None:
    """A whole crowd on this machine: every user a client, over real HTTP on loopback. Nothing leaves it."""
    from searchveil.cli import show
    from searchveil.crowd.artifacts import kind_named
    from searchveil.crowd.simulate import enough_for_all, users_of
    from searchveil.crowd.simulate import simulate as run

    kind_named(asked.artifact)
    chosen = asked.chosen_policy()
    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log, in_file_order=True)
        users = users_of(opened, clients)
        opened.engine.close()
        if asked.per_user is None and not chosen.is_private:
            chosen = enough_for_all(asked.artifact, chosen, users)
        ledger = budget.open()
        made = run(users, asked.artifact, chosen, out, secondary_k=asked.secondary_k, ledger=ledger, progress=step)
    show.problems(opened)
    figures = {
        "clients": made.clients,
        "reports": made.reports,
        "opened": made.opened,
        "rows": made.release.table.num_rows,
        "beyond": made.beyond,
        "too_long": made.too_long,
        "seconds": round(made.seconds, 2),
    }
    if json:
        show.print_json(figures | {"out": str(out)})
        return
    show.plan(made.release.plan)
    show.rows(figures)
    if made.beyond:
        print(f"{made.beyond:,} artifacts stayed with clients who have more than {chosen.per_user:,}, the policy's d.")
    if made.too_long:
        print(f"{made.too_long:,} artifacts stayed with their clients: too long for a report.")
    print(f"The release is {out} (start with its README.md).")
