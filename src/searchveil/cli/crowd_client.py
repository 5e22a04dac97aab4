"""`searchveil crowd client …`: a member's own log, and the jobs that it takes part in."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from searchveil.cli.options import Json, LogOptions, LogPaths, example, with_option_groups
from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.crowd.client import Client
    from searchveil.crowd.jobs import Job
    from searchveil.crowd.own_log import OwnLog

client = typer.Typer(help="A member's own log, and the jobs that it takes part in.", no_args_is_help=True)

Home = Annotated[Path, typer.Option(metavar="DIR", help="The folder with the member's log.")]


@client.command("join", epilog=example("searchveil crowd client join community.json --invitation CODE --home me"))
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
    known.check_addresses()
    log = _open(home)
    log.set("community", known.to_json())
    log.set("invitation", invitation)
    log.set("secret", user_secret(known, invitation, passphrase).hex())
    print(f"Joined {known.name}. The log is {log.path}; nothing leaves it without your consent to a job.")
    if not passphrase:
        print("Without --passphrase, whoever made your invitation can compute your secret (docs/threats.md).")


@client.command("import", epilog=example("searchveil crowd client import places.sqlite --home me"))
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
        opened = reading.read(files, in_file_order=reading.engine != "spark")
        users = users_of(opened)
        opened.engine.close()
        if user is None and len(users) > 1:
            raise InputError(f"the log has {len(users)} users; add --user NAME to say which one you are")
        searches = users.get(user, []) if user is not None else next(iter(users.values()), [])
    print(f"{log.add(searches):,} new searches, {len(log.entries()):,} in all")


@client.command("list", epilog=example("searchveil crowd client list --home me"))
def client_list(
    home: Home,
    containing: Annotated[str, typer.Option(help="Only those with this text.")] = "",
    most: Annotated[int, typer.Option(help="So many at most, the last ones.", min=1)] = 100,
    json: Json = False,
) -> None:
    """Show or search your log."""
    from searchveil.cli import show
    from searchveil.errors import printable

    found = _open(home).entries(containing)
    entries = found[-most:]
    if json:
        show.print_json({"entries": [{"id": one.id, **one.search._asdict()} for one in entries], "all": len(found)})
        return
    if len(entries) < len(found):
        print(f"The last {len(entries)} of {len(found):,}; --most shows more.")
    for one in entries:
        print(f"{one.id:>6}  {printable(one.search.query)}  {printable(one.search.url or '')}")


@client.command("delete", epilog=example("searchveil crowd client delete 17 --home me"))
def client_delete(
    home: Home,
    number: Annotated[int | None, typer.Argument(help="The entry, as `list` shows it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All entries.")] = False,
) -> None:
    """Delete one entry, or all of them."""
    if (number is None) != everything:
        raise InputError("name an entry by its number, or add --all")
    gone = _open(home).delete(number)
    if number is not None and not gone:
        raise InputError(f"no entry has the number {number}; see `searchveil crowd client list`")
    print(f"{gone} deleted")


@client.command("pause", epilog=example("searchveil crowd client pause --home me"))
def client_pause(home: Home) -> None:
    """Take nothing in and send nothing until `resume`."""
    _open(home).pause(True)
    print("paused")


@client.command("resume", epilog=example("searchveil crowd client resume --home me"))
def client_resume(home: Home) -> None:
    """End a pause."""
    _open(home).pause(False)
    print("resumed")


@client.command("jobs", epilog=example("searchveil crowd client jobs --home me"))
def client_jobs(home: Home, json: Json = False) -> None:
    """The jobs that are open, in plain words, with exactly what of your log each would take."""
    from searchveil.cli import show
    from searchveil.errors import printable

    member = _member(home)
    found = [(one, member.candidates(one)) for one in member.jobs()]
    if json:
        rows = [
            {
                "job": one.id.hex(),
                "answer": member.log.consent(one.id.hex()),
                **one.words(),
                "artifacts": [a.text for a in would.taken],
                "beyond": would.beyond,
                "too_long": would.too_long,
            }
            for one, would in found
        ]
        show.print_json({"jobs": rows})
        return
    for one, would in found:
        show.job(one)
        print(f"  Your answer: {member.log.consent(one.id.hex())}. Of your log it would take {len(would.taken)}:")
        for artifact in would.taken:
            print(f"    {printable(artifact.text)}")
        _say_what_stays(would.beyond, would.too_long)
    if not found:
        print("There is no job now.")


@client.command("consent", epilog=example("searchveil crowd client consent JOB always --home me"))
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


@client.command("run", epilog=example("searchveil crowd client run --home me"))
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
        if row["refused"]:
            print(f"  The server refused {row['refused']}.")
        _say_what_stays(row["beyond"], row["too_long"])
    if not done:
        print("No open job has your consent; see `searchveil crowd client jobs`.")


def _say_what_stays(beyond: int, too_long: int) -> None:
    if beyond:
        print(f"  {beyond} more stay here: the job takes no more of one member.")
    if too_long:
        print(f"  {too_long} stay here because they are too long for a report.")


@client.command("history", epilog=example("searchveil crowd client history --home me"))
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
