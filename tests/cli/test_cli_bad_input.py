"""Wrong input: one line that says what, where and how to fix it; exit code 2; nothing left behind; nothing charged."""

from pathlib import Path

import pytest
from commandline import assert_refused, crowd_log, demo_log, entries, everything_in, new_ledger, run

ONE = ("--method", "zealous", "--epsilon", "1", "--delta", "1e-6")
OUT = ("--out", "out")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Logs good and bad, something in the way, and a ledger with a budget."""
    crowd_log(tmp_path)
    (tmp_path / "no-user.csv").write_text("name,text\n1,a\n2,b\n", encoding="utf-8")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("user,query\n", encoding="utf-8")
    (tmp_path / "header.tsv").write_text("AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n", encoding="utf-8")
    (tmp_path / "single.csv").write_text("user,query\n1,a\n1,b\n", encoding="utf-8")
    (tmp_path / "returns.tsv").write_bytes(b"user\tquery\n1\ta\rb\n2\tc\n")
    (tmp_path / "noise.tsv").write_bytes(bytes((7 * n * n + 13 * n) % 251 for n in range(5000)))
    (tmp_path / "cut.tsv.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00")
    (tmp_path / "logs").mkdir()
    (tmp_path / "there").mkdir()
    return new_ledger(tmp_path).parent


def refuse(folder: Path, *arguments: str, says: tuple[str, ...], code: int = 2) -> None:
    """The release is refused before anything is computed: no file appears and the ledger stays as it was."""
    before = everything_in(folder) | {"scratch"}
    outcome = run(folder, "release", *arguments, "--ledger", "account.sqlite")
    assert_refused(outcome, *says, code=code)
    assert everything_in(folder) == before
    assert entries(folder / "account.sqlite") == ()


WRONG_PARAMETERS = {
    "epsilon zero": (("--epsilon", "0", "--delta", "1e-6"), ("epsilon", "not 0")),
    "epsilon negative": (("--epsilon", "-1", "--delta", "1e-6"), ("epsilon", "not -1")),
    "epsilon nan": (("--epsilon", "nan", "--delta", "1e-6"), ("epsilon", "nan")),
    "epsilon infinite": (("--epsilon", "inf", "--delta", "1e-6"), ("epsilon", "inf")),
    "epsilon no number": (("--epsilon", "much", "--delta", "1e-6"), ("--epsilon",)),
    "epsilon denormal": ((*ONE, "--epsilon", "1e-320"), ("epsilon",)),
    "epsilon huge": ((*ONE, "--epsilon", "1e300"), ("epsilon",)),
    "epsilon missing": (("--delta", "1e-6"), ("--epsilon",)),
    "delta one": (("--epsilon", "1", "--delta", "1"), ("delta", "not 1")),
    "delta zero": (("--epsilon", "1", "--delta", "0"), ("delta", "not 0")),
    "delta negative": (("--epsilon", "1", "--delta", "-1e-6"), ("delta",)),
    "delta nan": (("--epsilon", "1", "--delta", "nan"), ("delta", "nan")),
    "delta missing": (("--epsilon", "1"), ("--delta",)),
    "per user zero": ((*ONE, "--per-user", "0"), ("--per-user", "not 0")),
    "per user negative": ((*ONE, "--per-user", "-2"), ("--per-user", "not -2")),
    "per user no number": ((*ONE, "--per-user", "some"), ("--per-user", "some")),
    "per user a fraction": ((*ONE, "--per-user", "2.5"), ("--per-user", "2.5")),
    "per user beyond the noise": ((*ONE, "--per-user", "99999999"), ("per user",)),
    "per user auto without a guess": ((*ONE, "--per-user", "auto"), ("--assume",)),
    "second threshold infeasible": ((*ONE, "--threshold", "75"), ("75", "infeasible", "76")),
    "second threshold no number": ((*ONE, "--threshold", "high"), ("--threshold",)),
    "first threshold zero": ((*ONE, "--first-threshold", "0"), ("threshold", "at least 1", "not 0")),
    "first threshold of the indistinguishable notion": (
        (*ONE, "--notion", "indistinguishable", "--first-threshold", "2"),
        ("--first-threshold",),
    ),
    "first threshold infeasible": (
        (*ONE, "--notion", "probabilistic", "--first-threshold", "21"),
        ("21", "infeasible", "4 users", "--first-threshold"),
    ),
    "more users than there are": ((*ONE, "--notion", "probabilistic", "--users", "5"), ("more users", "make it 4")),
    "fewer users than there are": ((*ONE, "--notion", "probabilistic", "--users", "3"), ("fewer users", "make it 4")),
    "a number of users that neighbours do not share": ((*ONE, "--users", "4"), ("leave out --users",)),
    "no users": ((*ONE, "--notion", "probabilistic", "--users", "0"), ("users", "not 0")),
    "unknown method": ((*ONE, "--method", "magic"), ("'magic'", "zealous")),
    "unknown item": ((*ONE, "--item", "face"), ("'face'", "query")),
    "unknown notion": ((*ONE, "--notion", "vague"), ("'vague'", "probabilistic")),
    "unknown neighbours": ((*ONE, "--neighbours", "nice"), ("'nice'", "add-remove")),
    "neighbours without a proof": (
        (*ONE, "--notion", "probabilistic", "--neighbours", "add-remove"),
        ("--neighbours replace-one",),
    ),
    "unknown engine": ((*ONE, "--engine", "steam"), ("'steam'", "spark")),
    "unknown format": ((*ONE, "--format", "papyrus"), ("papyrus", "aol")),
    "unknown table format": ((*ONE, "--table", "stone"), ("'stone'", "parquet")),
    "unknown normalisation": ((*ONE, "--normalize", "colour"), ("'colour'", "case")),
    "unknown option": ((*ONE, "--frobnicate", "1"), ("--frobnicate",)),
    "option of another method": ((*ONE, "--k", "5"), ("zealous has no --k",)),
    "epsilon of k-anonymity": (("--method", "k-query", "--epsilon", "1"), ("k-query has no --epsilon",)),
    "item of korolova": ((*ONE, "--method", "korolova", "--item", "url"), ("korolova has no --item",)),
    "k of one": (("--method", "k-query", "--k", "1"), ("k must", "not 1")),
    "master without spark": ((*ONE, "--master", "local[2]"), ("--engine spark",)),
    "memory without a number": ((*ONE, "--memory", "lots"), ("--memory 'lots' is no size", "3GB")),
    "column without a name": ((*ONE, "--column", "user"), ("--column user", "NAME=VALUE")),
    "guess without users": ((*ONE, "--assume", "items=3"), ("--assume", "users")),
    "guess that is no number": ((*ONE, "--assume", "users=many"), ("--assume", "many")),
    "candidates missing": ((*ONE, "--method", "korolova", "--candidates", "missing.csv"), ("missing.csv",)),
    "candidates without urls": ((*ONE, "--method", "korolova", "--candidates", "crowd.csv"), ("query and url",)),
    "budget that is no number": ((*ONE, "--budget-epsilon", "nan"), ("--budget-epsilon", "nan")),
}


@pytest.mark.parametrize("name", WRONG_PARAMETERS)
def test_wrong_parameter(folder: Path, name: str) -> None:
    arguments, says = WRONG_PARAMETERS[name]
    refuse(folder, "crowd.csv", *arguments, *OUT, says=says)


WRONG_LOGS = {
    "missing file": (("missing.tsv", *ONE), ("missing.tsv", "no such file")),
    "no file matches": (("missing-*.tsv", *ONE), ("missing-*.tsv", "no file matches")),
    "folder": (("logs", *ONE), ("logs",)),
    "no log at all": (ONE, ("LOG",)),
    "columns missing": (("no-user.csv", *ONE), ("no-user.csv", "--column user=")),
    "column named that is not there": (("crowd.csv", *ONE, "--column", "user=who"), ("crowd.csv", "who")),
    "clicks without urls": (("crowd.csv", *ONE, "--item", "click"), ("crowd.csv", "url", "'click'")),
    "urls without urls": (("crowd.csv", *ONE, "--item", "url"), ("crowd.csv", "url")),
    "pairs without times": (("crowd.csv", *ONE, "--item", "pair"), ("crowd.csv", "time", "'pair'")),
    "korolova without times": (("crowd.csv", *ONE, "--method", "korolova"), ("time", "--counting users")),
    "empty": (("empty.csv", *ONE), ("empty.csv", "empty")),
    "header only": (("header.csv", *ONE), ("header.csv", "empty")),
    "header only, of the AOL log": (("header.tsv", *ONE), ("header.tsv", "empty")),
    "single user": (("single.csv", *ONE), ("single.csv", "single user")),
    "random bytes": (("noise.tsv", *ONE), ("noise.tsv",)),
    "cut gzip": (("cut.tsv.gz", *ONE), ("cut.tsv.gz",)),
    "two formats": (("crowd.csv", "header.tsv", *ONE), ("crowd.csv", "header.tsv", "--format")),
    "not a Parquet file": (("crowd.csv", *ONE, "--format", "parquet"), ("crowd.csv", "Parquet")),
}


@pytest.mark.parametrize("name", WRONG_LOGS)
def test_wrong_log(folder: Path, name: str) -> None:
    arguments, says = WRONG_LOGS[name]
    refuse(folder, *arguments, *OUT, says=says)


def test_a_carriage_return_inside_a_line_is_no_crash(folder: Path) -> None:
    outcome = run(folder, "inspect", "returns.tsv", "--json")
    assert "Traceback" not in outcome.err, outcome.err
    assert outcome.code in (0, 2)


WRONG_PLACES = {
    "existing folder": ("there", ("there exists already", "--out")),
    "existing file": ("crowd.csv", ("crowd.csv exists already", "--out")),
    "this folder": (".", ("--out",)),
    "below a missing folder": ("missing/out", ("missing is not a folder",)),
    "below a file": ("crowd.csv/out", ("crowd.csv is not a folder",)),
    "name too long": ("a" * 300, ("--out",)),
}


@pytest.mark.parametrize("name", WRONG_PLACES)
def test_wrong_place(folder: Path, name: str) -> None:
    out, says = WRONG_PLACES[name]
    refuse(folder, "crowd.csv", *ONE, "--out", out, says=says)


def test_no_place(folder: Path) -> None:
    refuse(folder, "crowd.csv", *ONE, says=("--out",))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--budget-epsilon", "1", "--budget-delta", "1e-6"), "--ledger"),
        (("--ledger", "new"), "--budget-epsilon"),
        (("--ledger", "new", "--budget-epsilon", "1"), "--budget-delta"),
        (("--ledger", "new", "--budget-epsilon", "0", "--budget-delta", "1e-6"), "--budget-epsilon"),
        (("--ledger", "new", "--budget-epsilon", "1", "--budget-delta", "1"), "--budget-delta"),
        (("--ledger", "missing/new", "--budget-epsilon", "1", "--budget-delta", "1e-6"), "there is no folder missing"),
        (
            ("--ledger", "new", "--budget-epsilon", "1", "--budget-delta", "1e-6", "--budget-neighbours", "nice"),
            "nice",
        ),
        (
            ("--ledger", "new", "--budget-epsilon", "1", "--budget-delta", "1e-6", "--budget-composition", "jazz"),
            "jazz",
        ),
    ],
    ids=["no ledger", "no budget", "half a budget", "zero", "one", "no folder", "neighbours", "composition"],
)
def test_wrong_budget(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    log = crowd_log(tmp_path)
    assert_refused(run(tmp_path, "release", log, *ONE, "--out", "out", *arguments), says)
    assert everything_in(tmp_path) == {log.name, "scratch"}, "no release, and no ledger with a budget nobody asked for"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--epsilon", "0", "--delta", "1e-6"), "epsilon"),
        ((*ONE, "--notion", "probabilistic"), "--users"),
        ((*ONE, "--notion", "probabilistic", "--users", "0"), "user"),
        ((*ONE, "--notion", "probabilistic", "--users", "-4"), "user"),
        ((*ONE, "--users", "0"), "users"),
        ((*ONE, "--users", "many"), "--users"),
        ((*ONE, "--assume", "users=1000,items=999999999999999"), "items"),
        ((*ONE, "--method", "korolova", "--assume", "users=1000"), "--assume"),
        (("--method", "k-query", "--epsilon", "1"), "--epsilon"),
        (("missing.tsv", *ONE), "missing.tsv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_plan(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert_refused(run(tmp_path, "plan", *arguments), says)


def test_a_plan_is_for_a_log_or_for_a_number_of_users(tmp_path: Path) -> None:
    assert_refused(run(tmp_path, "plan", demo_log(), *ONE, "--users", "5"), "a log or --users")


def test_a_tiny_delta_gets_an_answer(tmp_path: Path) -> None:
    """A plan or a refusal, and not a search without end."""
    outcome = run(tmp_path, "plan", *ONE, "--delta", "1e-300", "--json")
    assert "Traceback" not in outcome.err
    assert outcome.code in (0, 2)
    if outcome.code == 0:
        assert outcome.json["parameters"]["second_threshold"] > 3400
