"""`searchveil attack`: attacks that show why a method does, or does not, protect people."""

from typing import Annotated

import typer

from searchveil.cli.options import Json, LogOptions, LogPaths, example, with_option_groups

attack = typer.Typer(help="Attacks that show why a method does, or does not, protect people.", no_args_is_help=True)


@attack.command("k-anonymity", epilog=example("searchveil attack k-anonymity log.tsv --k 5"))
@with_option_groups
def attack_k_anonymity(
    log: LogPaths,
    reading: LogOptions,
    k: Annotated[int, typer.Option("--k", help="k of the anonymity.")] = 5,
    guess: Annotated[str | None, typer.Option(help="What the victim may have searched.")] = None,
    runs: Annotated[int, typer.Option(help="Releases of ZEALOUS with and without the victim.")] = 20,
    json: Json = False,
) -> None:
    """k-1 fake accounts reveal whether a victim searched something; ZEALOUS does not tell."""
    from searchveil.cli import show
    from searchveil.lab.attacks.k_anonymity import attack_k_anonymity as run

    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        step("attacking")
        result = run(opened, k=k, guess=guess, runs=runs, progress=step)
        opened.engine.close()
    show.problems(opened)
    show.result(result, as_json=json)


@attack.command("safelog-clicks", epilog=example("searchveil attack safelog-clicks --runs 50"))
def attack_safelog_clicks(
    noise_scale: Annotated[float, typer.Option(help="b of the paper's release.")] = 10.0,
    above: Annotated[float, typer.Option(help="K of the paper's release: out iff the noisy count is above.")] = 10.0,
    runs: Annotated[int, typer.Option(help="Releases with and without the victim.")] = 100,
    json: Json = False,
) -> None:
    """SafeLog's click counts as published show a single click for certain (docs/errata.md); ours do not."""
    from searchveil.cli import show
    from searchveil.lab.attacks.safelog_clicks import attack_safelog_clicks as run

    with show.steps() as step:
        result = run(noise_scale=noise_scale, above=above, runs=runs, progress=step)
    show.result(result, as_json=json)


@attack.command(
    "re-identification", epilog=example("searchveil attack re-identification log.tsv --release release --known 3")
)
@with_option_groups
def attack_re_identification(
    log: LogPaths,
    release: Annotated[str, typer.Option(metavar="DIR", help="The release folder to attack.")],
    reading: LogOptions,
    known: Annotated[int, typer.Option(help="How many queries of a person the attacker knows.")] = 3,
    targets: Annotated[int, typer.Option(help="How many persons to look for.")] = 200,
    demo_seed: Annotated[
        int | None, typer.Option(help="The seed of a demo log: were its planted personal queries published?")
    ] = None,
    json: Json = False,
) -> None:
    """Who knows a few queries of a person looks for the person in the log and in the release."""
    from searchveil.cli import show
    from searchveil.lab.attacks.reidentification import attack_reidentification as run
    from searchveil.log.demo import planted_personal_queries

    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        planted = None if demo_seed is None else planted_personal_queries(opened.users, demo_seed)
        result = run(opened, release, known=known, targets=targets, planted=planted, progress=step)
        opened.engine.close()
    show.problems(opened)
    show.result(result, as_json=json)
