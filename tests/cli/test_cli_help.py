"""Help: every command has an example, and the example runs."""

import shlex
import shutil
from pathlib import Path

import pytest
from commandline import COMMAND, assert_refused, demo_log, new_ledger, run, succeed

COMMANDS = (
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
    "crowd init",
    "crowd simulate",
)
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def example_of(folder: Path, command: str) -> list[str]:
    """The example line in a command's help, put together again where the help broke it."""
    shown = succeed(folder, *command.split(), "--help").out
    assert shown.count("Example:") == 1
    example = shlex.split(" ".join(shown.partition("Example:")[2].split()))
    assert example[0] == Path(COMMAND).name
    return example[1:]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
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
