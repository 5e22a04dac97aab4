"""Help: every command has an example, and the example runs."""

import shlex
import shutil
from pathlib import Path

import pytest
from commandline import COMMAND, assert_refused, demo_log, new_ledger, run, succeed

COMMANDS = ("demo", "inspect", "plan", "release", "ledger", "attack k-anonymity")


def example_of(folder: Path, command: str) -> list[str]:
    """The example line in a command's help, put together again where the help broke it."""
    shown = succeed(folder, *command.split(), "--help").out
    assert shown.count("Example:") == 1
    example = shlex.split(" ".join(shown.partition("Example:")[2].split()))
    assert example[0] == Path(COMMAND).name
    return example[1:]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_in_the_help_runs(tmp_path: Path, command: str) -> None:
    example = example_of(tmp_path, command)
    assert " ".join(example).startswith(command)
    if command != "demo":
        shutil.copy(demo_log(60), tmp_path / "log.tsv")
    new_ledger(tmp_path)
    assert succeed(tmp_path, *example).out != ""


def test_the_first_help_names_every_command(tmp_path: Path) -> None:
    shown = succeed(tmp_path, "--help").out
    assert all(command.split()[0] in shown for command in COMMANDS)
    assert succeed(tmp_path, "-h").out == shown


@pytest.mark.parametrize("arguments", [("frobnicate",), ("attack", "frobnicate"), ("--frobnicate",)])
def test_an_unknown_command_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert_refused(run(tmp_path, *arguments), "frobnicate", "searchveil --help")
