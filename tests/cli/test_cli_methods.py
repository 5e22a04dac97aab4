"""Options come from what a method declares: its help shows its own, and nothing of others."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from commandline import assert_refused, demo_log

from searchveil.cli.methods import method_in
from searchveil.publish import METHODS, method_named
from searchveil.publish.parameters import parameters_of
from searchveil.wording import option_of


def options_of(method: str) -> set[str]:
    return {option_of(one.name) for one in parameters_of(method_named(method))}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["release", "plan"])
@pytest.mark.parametrize("method", METHODS)
def test_help_of_a_method_shows_its_options_and_an_example_that_runs(
    searchveil: Any, tmp_path: Path, method: str, command: str
) -> None:
    shown = searchveil(command, "--method", method, "--help")
    assert shown.code == 0
    words = {word for word in shown.out.partition("Example:")[0].split() if word.startswith("--")}
    everything = set().union(*map(options_of, METHODS))
    own = options_of(method) | ({"--users"} if command == "plan" else set())
    assert words & everything == own
    example = shlex.split(" ".join(shown.out.partition("Example:")[2].split()))
    assert example[:4] == ["searchveil", command, *(["log.tsv", "--method"] if command == "release" else example[2:4])]
    (tmp_path / "log.tsv").symlink_to(demo_log(60))
    assert searchveil(*example[1:]).code == 0


@pytest.mark.slow
def test_help_without_a_method_shows_no_options_of_methods_and_says_where_they_are(searchveil: Any) -> None:
    for command in ("release", "plan", "audit"):
        shown = searchveil(command, "--help").out
        own = {"--users"} if command == "plan" else set()
        assert set(shown.split()) & set().union(*map(options_of, METHODS)) - own <= {
            "--epsilon",
            "--delta",
            "--per-user",
            "--item",
            "--assume",
        }
        assert f"searchveil {command} --method weighted --help" in " ".join(shown.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", [("release", "log.tsv", "--out", "out"), ("plan",), ("audit",)], ids=lambda c: c[0])
def test_an_option_of_another_method_names_those_that_have_it(searchveil: Any, command: tuple[str, ...]) -> None:
    one = ("--method", "zealous", "--epsilon", "1", "--delta", "1e-6")
    assert_refused(
        searchveil(*command, *one, "--policy", "formula"), "zealous has no --policy; methods that have it: weighted"
    )
    assert_refused(
        searchveil(*command, *one, "--pattern=x"), "zealous has no --pattern; methods that have it: safelog-click"
    )
    assert_refused(searchveil(*command, *one, "--polcy", "formula"), "--polcy")
    korolova = ("--method", "korolova", "--epsilon", "1", "--delta", "1e-6", "--assume", "users=9")
    assert_refused(searchveil(*command, *korolova), "korolova has no --assume; methods that have it: ")


def test_methods_are_listed_with_what_they_promise(searchveil: Any) -> None:
    shown = searchveil("methods").out
    for name in METHODS:
        assert f"\n{name}: " in f"\n{shown}"
    assert shown.count("Privacy: ") == len(METHODS)
    assert shown.count("no differential privacy") == 3
    listed = searchveil("methods", "--json").json["methods"]
    assert [one["method"] for one in listed] == list(METHODS)
    assert {one["name"] for one in listed[1]["parameters"]} >= {"epsilon", "delta", "guide_share"}


@pytest.mark.parametrize(
    ("words", "method"),
    [
        ("log.tsv --out x", None),
        ("--method korolova", "korolova"),
        ("--method=k-query --k 5", "k-query"),
        ("--method zealous --method weighted", "weighted"),
        ("-- --method zealous", None),
        ("--method", None),
    ],
)
def test_the_method_is_found_before_anything_is_parsed(words: str, method: str | None) -> None:
    assert method_in(words.split()) == method


@pytest.mark.slow
def test_texts_of_the_command_line_become_values(searchveil: Any) -> None:
    """Whatever a type needs: a number, a whole number, a flag, a word, several texts."""
    said = searchveil(
        "plan", "--method", "safelog-click", "--epsilon", "1e1", "--delta", "0.1", "--queries-per-user", "7",
        "--transitions", "--domain", "pool+log", "--pattern", "a b", "--pattern", "(c)", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert said.json["parameters"]["queries_per_user"] == 7
    assert "transitions_threshold" in said.json["parameters"]
    for wrong, told in (("x", "--epsilon must be a positive number, not 'x'"), ("inf", "positive number, not inf")):
        assert_refused(searchveil("plan", "--epsilon", wrong, "--delta", "0.1"), told)


def test_zero_is_a_value_and_a_default(searchveil: Any) -> None:
    assert "Default 0." in " ".join(searchveil("plan", "--method", "safelog-session", "--help").out.split())
    assert_refused(searchveil("plan", "--method", "sampling", "--wanted-size", "0"), "give a log, no --delta")
