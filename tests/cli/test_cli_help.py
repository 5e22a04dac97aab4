"""Help: every command has an example, and the example runs."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from commandline import COMMAND, assert_refused, demo_log, new_ledger, run, succeed

from searchveil.cli.app import app

# Those whose examples run as they stand, in a folder with a demo log.
RUN = (
    "demo",
    "inspect",
    "methods",
    "plan",
    "release",
    "pool",
    "export",
    "resample",
    "evaluate",
    "sweep",
    "audit",
    "ledger",
    "tour",
    "show",
    "verify",
    "compare",
    "attack k-anonymity",
    "attack safelog-clicks",
    "attack re-identification",
    "collab init",
    "collab simulate",
    "crowd init",
    "crowd audit",
    "crowd simulate",
)
# Those that wait for others, or need a running crowd: such tests run them (tests/collab, tests/crowd, tests/studio).
WITH_OTHERS = (
    "collab coordinator",
    "collab party",
    "crowd invite",
    "crowd server",
    "crowd randomness",
    "crowd relay",
    "crowd status",
    "crowd job new",
    "crowd job list",
    "crowd job release",
    "crowd client join",
    "crowd client import",
    "crowd client list",
    "crowd client delete",
    "crowd client pause",
    "crowd client resume",
    "crowd client jobs",
    "crowd client consent",
    "crowd client run",
    "crowd client history",
    "studio",
)
COMMANDS = {*RUN, *WITH_OTHERS}
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def example_of(folder: Path, command: str) -> list[str]:
    """The example line in a command's help, put together again where the help broke it."""
    shown = succeed(folder, *command.split(), "--help").out
    assert shown.count("Example:") == 1
    example = shlex.split(" ".join(shown.partition("Example:")[2].split()))
    assert example[0] == Path(COMMAND).name
    return example[1:]


def commands_below(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_below(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_has_an_example_that_its_options_allow() -> None:
    found = dict(commands_below(typer.main.get_command(app)))
    assert found.keys() == COMMANDS
    for name, command in found.items():
        example = re.fullmatch("Example: `searchveil (.+)`", command.epilog)
        assert example, name
        words = shlex.split(example[1])
        assert " ".join(words).startswith(name)
        command.make_context(name, words[len(name.split()) :])  # refuses an option or an argument that it has not


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN)
def test_the_example_in_the_help_runs(tmp_path: Path, command: str) -> None:
    example = example_of(tmp_path, command)
    assert " ".join(example).startswith(command)
    prepare(tmp_path, command)
    assert succeed(tmp_path, *example).out != ""


def prepare(folder: Path, command: str) -> None:
    """What the examples take for granted."""
    if command != "demo":
        shutil.copy(demo_log(60), folder / "log.tsv")
    new_ledger(folder)
    (folder / "queries.txt").write_text("weather\nnews\n")
    if command == "sweep":
        shutil.copytree(EXPERIMENTS, folder / "experiments")
    if command in ("export", "evaluate", "show", "verify", "attack re-identification"):
        of_counts = ("--method", "safelog-click", "--epsilon", "50", "--delta", "0.1", "--clicks-per-user", "3")
        succeed(folder, "release", "log.tsv", *of_counts, "--out", "release")
    if command == "resample":
        period = ("--from", "2024-03-01", "--to", "2024-05-31")
        wanted = ("--method", "synthetic", "--epsilon", "50", "--delta", "0.1", *period)
        succeed(folder, "release", "log.tsv", *wanted, "--out", "release")


def test_the_first_help_names_every_command(tmp_path: Path) -> None:
    shown = succeed(tmp_path, "--help").out
    assert all(command.split()[0] in shown for command in COMMANDS)
    assert succeed(tmp_path, "-h").out == shown


@pytest.mark.parametrize("arguments", [("frobnicate",), ("attack", "frobnicate"), ("--frobnicate",)])
def test_an_unknown_command_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    where = " ".join(["searchveil", *arguments[:-1]])
    assert_refused(run(tmp_path, *arguments), "frobnicate", f"{where} --help")


def test_the_version_is_told(tmp_path: Path) -> None:
    assert succeed(tmp_path, "--version").out.startswith("searchveil ")
