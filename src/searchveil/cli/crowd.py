"""`searchveil crowd …`: the programs of a crowd, its client, and a whole one on this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from searchveil.cli.options import BudgetOptions, Json, LogOptions, LogPaths, with_option_groups
from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.crowd.client import Client
    from searchveil.crowd.jobs import Job
    from searchveil.crowd.own_log import OwnLog

crowd = typer.Typer(help="A search log that nobody holds: servers, relays and clients.", no_args_is_help=True)
client = typer.Typer(help="A member's own log, and the jobs that it takes part in.", no_args_is_help=True)
job = typer.Typer(help="Jobs of a server: make one, list them, publish what came in.", no_args_is_help=True)
crowd.add_typer(client, name="client")
crowd.add_typer(job, name="job")


@crowd.callback()
def prepare() -> None:
    """A search log that nobody holds: servers, relays and clients."""
    from searchveil.crowd.tools import check_tools

    check_tools()


Config = Annotated[Path, typer.Option(metavar="FILE", help="The program's TOML file (docs/run-a-crowd.md).")]
Home = Annotated[Path, typer.Option(metavar="DIR", help="The folder with the member's log.")]
ArtifactKind = Annotated[str, typer.Option(help="query, reformulation, query-url or ltr.")]
PolicyKind = Annotated[str, typer.Option(help="ST_u, DP_u, DP_a, FT_u or FT_a.")]
K = Annotated[int | None, typer.Option(help="Shares that open an artifact; the smallest that keeps the promise.")]
PerUser = Annotated[int | None, typer.Option(help="Artifacts of a member, d.")]
Chance = Annotated[float | None, typer.Option("--p", help="ST_u: with which probability an artifact is sent.")]
Epsilon = Annotated[float | None, typer.Option(help="ε of ST_u, DP_u and DP_a.")]
Delta = Annotated[float | None, typer.Option(help="δ of ST_u, DP_u and DP_a.")]
Colluding = Annotated[int, typer.Option(min=0, help="ST_u: lying clients that the threshold allows for.")]
SecondaryK = Annotated[int | None, typer.Option(help="FT_u, FT_a: send spellings too; so many must share one.")]


def _example(line: str) -> str:
    return f"Example: `{line}`"


@crowd.command(epilog=_example("searchveil crowd init community --name Library --members 20"))
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


@crowd.command("invite", epilog=_example("searchveil crowd invite community --members 5"))
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


@crowd.command(epilog=_example("searchveil crowd server --config community/server.toml"))
def server(config: Config) -> None:
    """Run the server: jobs, tokens, intake, and a page about them."""
    _run("server", config)


@crowd.command(epilog=_example("searchveil crowd randomness --config community/randomness.toml"))
def randomness(config: Config) -> None:
    """Run the randomness server. It must be somebody else's than the server's."""
    _run("randomness", config)


@crowd.command(epilog=_example("searchveil crowd relay --config community/relay-1.toml"))
def relay(config: Config) -> None:
    """Run a relay: strips the sender, holds, shuffles, forwards."""
    _run("relay", config)


def _run(program: str, config: Path) -> None:
    from searchveil.crowd.programs import run_program

    run_program(program, config)


@crowd.command(epilog=_example("searchveil crowd status http://127.0.0.1:8700"))
def status(
    url: Annotated[str, typer.Argument(help="The server's URL; a browser shows the same as a page.")],
    json: Json = False,
) -> None:
    """Show a server's jobs, their promises and whether they were released."""
    import httpx

    from searchveil.cli import show

    try:
        jobs = httpx.get(f"{url.rstrip('/')}/status", timeout=30).json()
    except (httpx.HTTPError, ValueError) as error:
        raise InputError(f"{url} does not answer as a server of a crowd: {type(error).__name__}") from error
    if json:
        show.print_json({"jobs": jobs})
        return
    for one in jobs:
        state = "open" if one["open"] else "released" if one["released"] else "closed"
        print(f"{one['job'][:8]}  {one['artifact']}, {one['policy']}, k {one['k']}: {state}")
        print(f"    {one['guarantee']}")
    if not jobs:
        print("There is no job yet.")


# --- jobs ---


@job.command("new", epilog=_example("searchveil crowd job new --config community/server.toml --epsilon 1 --delta 1e-6"))
def job_new(
    config: Config,
    artifact: ArtifactKind = "query",
    policy: PolicyKind = "ST_u",
    k: K = None,
    per_user: PerUser = None,
    p: Chance = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    colluding: Colluding = 0,
    secondary_k: SecondaryK = None,
    domains: Annotated[bool, typer.Option("--domains", help="Cut addresses to their domain.")] = False,
    recent: Annotated[bool, typer.Option("--recent", help="The last d artifacts, not the first.")] = False,
    days: Annotated[float, typer.Option(help="How long it takes reports; at most as long as its epoch.")] = 7,
    json: Json = False,
) -> None:
    """Sign a job and offer it to the members. The randomness server must be running."""
    from searchveil.cli import show
    from searchveil.crowd.policy import make_policy
    from searchveil.crowd.programs import new_job

    chosen = make_policy(policy, k=k, per_user=per_user, p=p, epsilon=epsilon, delta=delta, colluding=colluding)
    made = new_job(config, artifact, chosen, days=days, secondary_k=secondary_k, domains=domains, recent=recent)
    if json:
        show.print_json({"job": made.id.hex(), "policy": asdict(chosen), "words": made.words()})
    else:
        _show_job(made)


@job.command("list", epilog=_example("searchveil crowd job list --config community/server.toml"))
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


@job.command(
    "release", epilog=_example("searchveil crowd job release JOB --config community/server.toml --out release")
)
@with_option_groups
def job_release(
    name: Annotated[str, typer.Argument(metavar="JOB", help="The first digits of the job's id.")],
    config: Config,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    budget: BudgetOptions,
    json: Json = False,
) -> None:
    """Close a job, open what enough people share, and make the release folder."""
    from searchveil.cli import show
    from searchveil.crowd.aggregate import release_job
    from searchveil.crowd.programs import job_named

    store, found = job_named(config, name)
    with show.steps() as step:
        made, _ = release_job(store, found, out, ledger=budget.open(), progress=step)
    if json:
        show.print_json(made.plan.to_json() | {"rows": made.table.num_rows, "out": str(out)})
    else:
        show.plan(made.plan)
        print(f"{made.table.num_rows:,} rows in {out} (start with its README.md)")


# --- simulate ---


@crowd.command(epilog=_example("searchveil crowd simulate log.tsv --clients 300 --policy FT_u --k 5 --out crowd"))
@with_option_groups
def simulate(
    log: LogPaths,
    out: Annotated[Path, typer.Option(help="The release folder to make.")],
    reading: LogOptions,
    budget: BudgetOptions,
    clients: Annotated[int, typer.Option(help="So many users of the log, the first ones.", min=1)] = 300,
    artifact: ArtifactKind = "query",
    policy: PolicyKind = "ST_u",
    k: K = None,
    per_user: PerUser = None,
    p: Chance = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    colluding: Colluding = 0,
    secondary_k: SecondaryK = None,
    json: Json = False,
) -> None:
    """A whole crowd on this machine: every user a client, over real HTTP on loopback. Nothing leaves it."""
    from searchveil.cli import show
    from searchveil.crowd.artifacts import kind_named
    from searchveil.crowd.policy import make_policy
    from searchveil.crowd.simulate import simulate as run
    from searchveil.crowd.simulate import users_of

    kind_named(artifact)
    chosen = make_policy(policy, k=k, per_user=per_user, p=p, epsilon=epsilon, delta=delta, colluding=colluding)
    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        users = users_of(opened, clients)
        opened.engine.close()
        made = run(users, artifact, chosen, out, secondary_k=secondary_k, ledger=budget.open(), progress=step)
    show.problems(opened)
    figures = {
        "clients": made.clients,
        "reports": made.reports,
        "opened": made.opened,
        "rows": made.release.table.num_rows,
        "seconds": round(made.seconds, 2),
    }
    if json:
        show.print_json(figures | {"out": str(out)})
        return
    show.plan(made.release.plan)
    show.rows(figures)
    print(f"The release is {out} (start with its README.md).")


# --- the client ---


@client.command("join", epilog=_example("searchveil crowd client join community.json --invitation CODE --home me"))
def client_join(
    community: Annotated[Path, typer.Argument(help="The community's file.")],
    invitation: Annotated[str, typer.Option(help="Your own; nobody else may have it.")],
    home: Home,
    passphrase: Annotated[
        str,
        typer.Option(help="Type the same on all your machines; hides your secret from who invited you.", prompt=False),
    ] = "",
) -> None:
    """Become a member on this machine."""
    from searchveil.crowd.client import user_secret
    from searchveil.crowd.config import Community

    known = Community.read(community)
    log = _open(home)
    log.set("community", known.to_json())
    log.set("invitation", invitation)
    log.set("secret", user_secret(known, invitation, passphrase).hex())
    print(f"Joined {known.name}. The log is {log.path}; nothing leaves it without your consent to a job.")
    if not passphrase:
        print("Without --passphrase, whoever made your invitation can compute your secret (docs/threats.md).")


@client.command("import", epilog=_example("searchveil crowd client import places.sqlite --home me"))
@with_option_groups
def client_import(
    files: LogPaths,
    home: Home,
    reading: LogOptions,
    user: Annotated[str | None, typer.Option(help="Whose rows, in a log of several users.")] = None,
) -> None:
    """Take searches in: the history file of a Firefox or a Chromium, or a log in any format that we read."""
    from searchveil.crowd.own_log import read_history
    from searchveil.crowd.simulate import users_of

    log = _open(home)
    with Path(files[0]).open("rb") as file:
        is_history = file.read(15) == b"SQLite format 3"
    if is_history:
        searches = [one for path in files for one in read_history(Path(path))]
    else:
        opened = reading.read(files)
        users = users_of(opened, 10**9)
        opened.engine.close()
        if user is None and len(users) > 1:
            raise InputError(f"the log has {len(users)} users; add --user NAME to say which one you are")
        searches = users.get(user, []) if user is not None else next(iter(users.values()), [])
    print(f"{log.add(searches):,} new searches, {len(log.entries()):,} in all")


@client.command("list", epilog=_example("searchveil crowd client list --home me"))
def client_list(
    home: Home,
    containing: Annotated[str, typer.Option(help="Only those with this text.")] = "",
    most: Annotated[int, typer.Option(help="So many at most.")] = 100,
    json: Json = False,
) -> None:
    """Show or search your log."""
    from searchveil.cli import show
    from searchveil.errors import printable

    entries = _open(home).entries(containing, most)
    if json:
        show.print_json({"entries": [{"id": one.id, **one.search._asdict()} for one in entries]})
        return
    for one in entries:
        print(f"{one.id:>6}  {printable(one.search.query)}  {printable(one.search.url or '')}")


@client.command("delete", epilog=_example("searchveil crowd client delete 17 --home me"))
def client_delete(
    home: Home,
    number: Annotated[int | None, typer.Argument(help="The entry, as `list` shows it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All entries.")] = False,
) -> None:
    """Delete one entry, or all of them."""
    if (number is None) != everything:
        raise InputError("name an entry by its number, or add --all")
    print(f"{_open(home).delete(number)} deleted")


@client.command("pause", epilog=_example("searchveil crowd client pause --home me"))
def client_pause(home: Home) -> None:
    """Take nothing in and send nothing until `resume`."""
    _open(home).pause(True)
    print("paused")


@client.command("resume", epilog=_example("searchveil crowd client resume --home me"))
def client_resume(home: Home) -> None:
    """End a pause."""
    _open(home).pause(False)
    print("resumed")


@client.command("jobs", epilog=_example("searchveil crowd client jobs --home me"))
def client_jobs(home: Home, json: Json = False) -> None:
    """The jobs that are open, in plain words, with exactly what of your log each would take."""
    from searchveil.cli import show
    from searchveil.errors import printable

    member = _member(home)
    found = [(one, member.candidates(one)[0]) for one in member.jobs()]
    if json:
        rows = [
            {
                "job": one.id.hex(),
                "answer": member.log.consent(one.id.hex()),
                **one.words(),
                "artifacts": [a.text for a in taken],
            }
            for one, taken in found
        ]
        show.print_json({"jobs": rows})
        return
    for one, taken in found:
        _show_job(one)
        print(f"  Your answer: {member.log.consent(one.id.hex())}. Of your log it would take {len(taken)}:")
        for artifact in taken:
            print(f"    {printable(artifact.text)}")
    if not found:
        print("There is no job now.")


@client.command("consent", epilog=_example("searchveil crowd client consent JOB always --home me"))
def client_consent(
    name: Annotated[str, typer.Argument(metavar="JOB", help="The first digits of the job's id.")],
    answer: Annotated[str, typer.Argument(help="always, ask or never.")],
    home: Home,
) -> None:
    """Say whether a job may run."""
    from typing import cast, get_args

    from searchveil.crowd.own_log import Answer

    if answer not in get_args(Answer):
        raise InputError(f"an answer is {', '.join(get_args(Answer))}, not '{answer}'")
    member = _member(home)
    chosen = _one_job(member, name)
    member.log.set_consent(chosen.id.hex(), cast(Answer, answer))
    print(f"{chosen.id.hex()[:8]}: {answer}")


@client.command("run", epilog=_example("searchveil crowd client run --home me"))
def client_run(
    home: Home,
    name: Annotated[str | None, typer.Option("--job", help="One job; all with consent if left out.")] = None,
    wait: Annotated[
        float,
        typer.Option(help="Seconds at most, drawn at random, between fetching tokens and sending.", min=0),
    ] = 60,
    json: Json = False,
) -> None:
    """Send what the jobs ask for that you agreed to. Stopped, it goes on where it was, and sends nothing twice."""
    from searchveil.cli import show

    member = _member(home)
    chosen = [_one_job(member, name)] if name is not None else member.jobs()
    agreed = [one for one in chosen if name is not None or member.log.consent(one.id.hex()) == "always"]
    member.longest_wait = wait
    with show.steps() as step:
        step(f"sending, after up to {wait:g} seconds of waiting for each job")
        done = [{"job": one.id.hex(), **asdict(member.run(one))} for one in agreed]
    if json:
        show.print_json({"jobs": done})
        return
    for row in done:
        print(f"{str(row['job'])[:8]}: {row['reports']} of {row['candidates']} artifacts were sent and have arrived")
    if not done:
        print("No open job has your consent; see `searchveil crowd client jobs`.")


@client.command("history", epilog=_example("searchveil crowd client history --home me"))
def client_history(home: Home, json: Json = False) -> None:
    """What was sent, by job."""
    from searchveil.cli import show
    from searchveil.errors import printable

    rows = _open(home).history()
    if json:
        show.print_json({"sent": [{"job": job, "artifact": text, "arrived": sent} for job, text, sent in rows]})
        return
    for name, text, sent in rows:
        print(f"{name[:8]}  {'arrived' if sent else 'waiting'}  {printable(text)}")


def _open(home: Path) -> "OwnLog":
    from searchveil.crowd.own_log import OwnLog

    return OwnLog(home / "log.sqlite")


def _member(home: Path) -> "Client":
    import json

    from searchveil.crowd.client import Client
    from searchveil.crowd.config import Community

    log = _open(home)
    community, invitation, secret = (log.get(name) for name in ("community", "invitation", "secret"))
    if community is None or invitation is None or secret is None:
        raise InputError(f"{home} is no member of a community; type `searchveil crowd client join`")
    return Client(log, Community.of(json.loads(community)), invitation, bytes.fromhex(secret))


def _one_job(member: "Client", name: str) -> "Job":
    found = [one for one in member.jobs() if one.id.hex().startswith(name)]
    if len(found) != 1:
        raise InputError(f"{len(found)} open jobs begin with '{name}'; see `searchveil crowd client jobs`")
    return found[0]


def _show_job(made: "Job") -> None:
    print(f"{made.id.hex()[:8]}  {made.artifact}, policy {made.policy.name}, k {made.policy.k}")
    for text in made.words().values():
        print(f"  {text}")
