"""Commands for whoever has a release, or wants to choose one: show, verify, compare."""

from pathlib import Path
from typing import Annotated

import typer

from searchveil.cli.options import Json, LogOptions, LogPaths, example, with_option_groups
from searchveil.errors import InputError

ReleaseFolder = Annotated[str, typer.Argument(metavar="DIR", help="A release folder.")]


def add_to(app: typer.Typer) -> None:
    app.command("show", epilog=example("searchveil show release --top 10"))(show_release)
    app.command("verify", epilog=example("searchveil verify release"))(verify_release)
    app.command("compare", epilog=example("searchveil compare log.tsv --epsilon 1 --delta 1e-6"))(
        with_option_groups(compare_methods)
    )


def show_release(
    folder: ReleaseFolder,
    top: Annotated[int, typer.Option(min=1, help="So many rows, those with the highest counts.")] = 20,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only rows in which this stands.")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Another table of the release.")] = None,
    json: Json = False,
) -> None:
    """Show what is in a release: what is promised, and its first rows."""
    from searchveil.cli import show
    from searchveil.cli.tables import as_text
    from searchveil.publish.release import Release
    from searchveil.publish.spread import in_words
    from searchveil.publish.top import top_rows

    release = Release.read(folder)
    name = next(iter(release.tables)) if table is None else table
    if name not in release.tables:
        raise InputError(f"{folder} has no table '{name}'; it has {', '.join(release.tables)}")
    rows = top_rows(release.tables[name], search)
    if json:
        shown = {"rows": release.tables[name].num_rows, "found": rows.num_rows, "top": rows.slice(0, top).to_pylist()}
        shown["noise_below"] = release.plan.settings.noise_below
        show.print_json({"table": name, **shown, "guarantee": release.guarantee.to_json()})
        return
    print(
        f"{folder}: {release.plan.item} by {release.plan.method}, {show.counted(release.tables[name].num_rows, 'row')}"
    )
    print(release.guarantee)
    if noise := in_words(release.plan.settings.noise_below):
        print(noise)
    if search is not None:
        print(f"{show.counted(rows.num_rows, 'row')} with '{show.printable(search)}'")
    if rows.num_rows:
        print(as_text(rows.slice(0, top)))
    if rows.num_rows > top:
        print(f"… and {show.counted(rows.num_rows - top, 'more row', 'more rows')}; --top {rows.num_rows} shows all")
    others = [other for other in release.tables if other != name]
    if others:
        print(f"Other tables: {', '.join(others)} (--table NAME)")


def verify_release(folder: ReleaseFolder, json: Json = False) -> None:
    """Check that a release agrees with its record: checksums, promise, schema. Ends with 1 if something is wrong."""
    from searchveil.cli import show
    from searchveil.publish.verify import verify

    found = verify(folder)
    if json:
        show.print_json(found.to_json())
    else:
        print(f"{folder}:")
        print(found)
        if found.release is not None:
            print(found.release.guarantee)
            assert found.release.record is not None
            version = found.release.record.written.get("searchveil", "that made it")
            source = f"{found.release.guarantee.proof} in the source of searchveil {version}"
            beside = [str(found.folder / name) for name in found.release.record.written.get("proof", {})]
            print(f"Proof: {', also '.join((*beside, source))}.")
        right = "The data files are those that guarantee.json names. Nothing is signed: who wrote it is not checked."
        print(right if found.is_right else "Do not rely on this folder: ask for it anew.")
    if not found.is_right:
        raise typer.Exit(1)


def compare_methods(
    log: LogPaths,
    epsilon: Annotated[float, typer.Option(help="ε of every method.")],
    delta: Annotated[float, typer.Option(help="δ of every method.")],
    reading: LogOptions,
    methods: Annotated[str | None, typer.Option(help="Names with commas between; all that apply if left out.")] = None,
    applications: Annotated[
        str | None, typer.Option(help="Names with commas between, or none; all of them if left out.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="The first day, for methods that invent times.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="DAY", help="The last day.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed tests on the same searches.")] = 1,
    report: Annotated[
        str, typer.Option(metavar="FILE", help="Where the page goes; an earlier one is replaced.")
    ] = "comparison.html",
    json: Json = False,
) -> None:
    """Try every method at the same ε and δ on a log, and publish nothing. Private figures: do not publish them."""
    from searchveil.cli import show
    from searchveil.cli.tables import as_lines
    from searchveil.lab.comparison import compare
    from searchveil.lab.report.comparison import check_page, write_page
    from searchveil.lab.tools import check_tools
    from searchveil.wording import on_command_line

    check_tools()
    if (from_ is None) != (to is None):
        raise InputError("a period has two ends; add " + ("--to DAY" if to is None else "--from DAY"))
    page = Path(report)
    check_page(page)

    def names(text: str | None) -> list[str] | None:
        return None if text is None else [name.strip() for name in text.split(",") if name.strip() not in ("", "none")]

    with show.steps() as step:
        step("reading the log")
        opened = reading.read(log)
        found = compare(
            opened,
            epsilon,
            delta,
            methods=names(methods),
            applications=names(applications),
            period=None if from_ is None or to is None else (from_, to),
            seed=seed,
            progress=step,
        )
        write_page(page, found)
        opened.engine.close()
    show.problems(opened)
    if json:
        show.print_json(found.to_json(on_command_line) | {"report": str(page)})
        return
    print(f"Warning: {found.warning}")
    for header, *lines in filter(None, (found.table, found.scores)):
        print(as_lines(header, lines))
    for application, meaning in found.meanings.items():
        print(f"{application}: {meaning}.")
    for reason, lacking in found.untried.items():
        print(f"– {', '.join(lacking)}: {reason}.")
    for name, why in found.left_out.items():
        print(f"Left out {name}: {why.written(on_command_line)}.")
    print(f"{found.verdict} The page is {page}.")
