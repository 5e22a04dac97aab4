"""Defaults and messages as a newcomer meets them: nothing is paid for an empty folder, and no message is garbled."""

import subprocess
from pathlib import Path

import pytest
from commandline import (
    COMMAND,
    PLENTY,
    assert_refused,
    crowd_log,
    demo_log,
    entries,
    environment,
    new_ledger,
    run,
    succeed,
)

METHODS = ("weighted", "zealous", "korolova", "safelog-click", "safelog-session", "sampling", "k-query")


@pytest.mark.parametrize("arguments", [(), ("attack",)], ids=["alone", "a group"])
def test_nothing_asked_shows_help_and_no_complaint(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome = run(tmp_path, *arguments)
    assert (outcome.code, outcome.err) == (2, "")
    assert "Usage: searchveil" in outcome.out


def test_a_typing_error_is_answered_by_one_question(tmp_path: Path) -> None:
    assert_refused(
        run(tmp_path, "relase"), "No such command 'relase'. Did you mean 'release'? Try 'searchveil --help'."
    )


SAID = {  # what is typed → what is said to it, whole
    ("plan",): "weighted needs --epsilon; try --epsilon 1 --delta 1e-6",
    ("release",): "LOG is missing: Files of one log; globs work. Try 'searchveil release --help'.",
    ("release", "log.csv", "--epsilon"): "Option '--epsilon' requires an argument. Try 'searchveil --help'.",
    ("demo",): "--out is missing: log.tsv, log.tsv.gz or log.parquet. Try 'searchveil demo --help'.",
    ("demo", "--out", "x.tsv", "--users", "ten"): (
        "--users must be a whole number, not ten. Try 'searchveil demo --help'."
    ),
    ("demo", "--out", "x.tsv", "--users", "0"): "--users must be at least 1, not 0",
    ("show", "out", "--top", "0"): "--top must be at least 1, not 0. Try 'searchveil show --help'.",
    ("compare", "log.csv", "--epsilon", "x", "--delta", "1"): (
        "--epsilon must be a number, not x. Try 'searchveil compare --help'."
    ),
    ("plan", "--epsilon", "one", "--delta", "1e-6"): "--epsilon must be a positive number, not 'one'; try --epsilon 1",
    ("plan", "--epsilon", "1", "--delta", "0"): (
        "--delta must be a number above 0 and below 1, not 0; try --delta 1e-6"
    ),
    ("inspect", "none.csv"): "none.csv: no such file",
    ("inspect", "log.csv", "--skip-lines", "-1"): "--skip-lines must be a number from 0 on, not -1",
    ("inspect", "aol.tsv", "--column", "user=uid"): (
        "--column: is for csv, tsv, jsonl and parquet; aol.tsv is read as aol; leave it out, or add --format tsv if "
        "this is a table of your own"
    ),
    ("ledger", "none.sqlite"): (
        "there is no ledger none.sqlite; release --ledger none.sqlite --budget-epsilon E --budget-delta D makes one"
    ),
}


@pytest.mark.parametrize("typed", SAID, ids=" ".join)
def test_a_mistake_is_answered_with_what_to_type(typed: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,query\n1,weather\n2,weather\n")
    (tmp_path / "aol.tsv").write_text("AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\ta\t2006-03-01 07:17:12\t\t\n")
    outcome = run(tmp_path, *typed)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.removeprefix("… reading the log\n") == f"searchveil: {SAID[typed]}\n"


def test_a_group_names_its_commands(tmp_path: Path) -> None:
    assert_refused(run(tmp_path, "attack", "log.csv"), "there are k-anonymity, safelog-clicks, re-identification")


@pytest.mark.slow
def test_a_large_delta_is_warned_of(tmp_path: Path) -> None:
    said = succeed(tmp_path, "plan", "--epsilon", "1", "--delta", "0.1").out
    assert "Warning: δ = 0.1 is how likely the promise may fail" in said
    assert "--delta 1e-6" in said
    assert "Warning" not in succeed(tmp_path, "plan", "--epsilon", "1", "--delta", "1e-3").out


@pytest.mark.slow
def test_one_row_is_one_row(tmp_path: Path) -> None:
    log = crowd_log(tmp_path, queries=1)
    assert "1 row in out " in succeed(tmp_path, "release", log, *PLENTY, "--out", "out").out
    assert "2 rows in" in succeed(tmp_path, "release", crowd_log(tmp_path, queries=2), *PLENTY, "--out", "two").out
    (tmp_path / "queries.txt").write_text("weather\n")
    assert succeed(tmp_path, "pool", "--queries", "queries.txt", "--out", "pool.parquet").out.endswith(": 1 query\n")


@pytest.mark.slow
def test_what_looks_personal_stays_out_unless_told_to_keep_it(tmp_path: Path) -> None:
    shown = succeed(tmp_path, "release", "--method", "safelog-click", "--help").out
    assert "--keep-personal" in shown
    assert "--personal " not in shown
    rows = "".join(f"{user},mail jane@mail.example,2024-01-01 00:00:0{user}\n" for user in range(9))
    (tmp_path / "log.csv").write_text("user,query,time\n" + rows)
    how = ("release", "log.csv", "--method", "safelog-click", "--clicks-per-user", "0", "--epsilon", "90", "--delta")
    assert succeed(tmp_path, *how, "0.1", "--out", "a", "--json").json["rows"] == 0
    assert succeed(tmp_path, *how, "0.1", "--out", "b", "--json", "--keep-personal").json["rows"] == 1


@pytest.mark.slow
def test_a_threshold_is_reached_and_the_papers_k_is_exceeded(tmp_path: Path) -> None:
    """One word for one meaning: --threshold T is noisy ≥ T; SafeLog's K, noisy > K, is --above."""
    zealous = succeed(tmp_path, "plan", *PLENTY, "--threshold", "7", "--json").json
    assert zealous["parameters"]["second_threshold"] == 7
    for method in ("safelog-click", "safelog-session"):
        how = ("plan", "--method", method, "--noise-scale", "1")
        assert succeed(tmp_path, *how, "--above", "7", "--json").json["parameters"]["second_threshold"] == 8
        assert_refused(run(tmp_path, *how, "--threshold", "7"), f"{method} has no --threshold", "zealous")


@pytest.mark.slow
def test_safelog_session_says_how_many_users_it_takes_before_it_pays(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    how = ("--method", "safelog-session", "--epsilon", "1", "--delta", "1e-6")
    said = succeed(tmp_path, "release", demo_log(60), *how, "--out", "out", "--ledger", ledger).out
    first = said.splitlines()[0]
    assert "if 60 users have it" in first
    assert "about 200,000 users" in first
    assert said.count("probability ½") == 1
    assert "if 60 users have it" in succeed(tmp_path, "plan", *how).out


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["individual", "poisson", "multinomial"])
def test_sampling_refuses_to_pay_for_nothing(tmp_path: Path, sampler: str) -> None:
    ledger = new_ledger(tmp_path)
    how = ("--method", "sampling", "--sampler", sampler, "--epsilon", "1", "--out", "out", "--ledger", ledger)
    refused = run(tmp_path, "release", demo_log(), *how, "--delta", "1e-6")
    assert_refused(refused, "nothing would come out", "--delta 0.01", "--method weighted --item click")
    assert entries(ledger) == ()
    assert not (tmp_path / "out").exists()
    told = succeed(tmp_path, "plan", *how[:6], "--delta", "1e-4", "--json").json["guarantee"]["assumed_public"]
    assert any(public.startswith("that the log has at least 10,") for public in told), "what a refusal would show"
    if sampler == "individual":
        succeed(tmp_path, "release", demo_log(), *how[:-2], "--delta", "0.5")


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow if name == "weighted" else ()) for name in METHODS]
)
def test_the_example_of_plan_has_no_option_without_effect(tmp_path: Path, method: str) -> None:
    shown = succeed(tmp_path, "plan", "--method", method, "--help").out
    example = " ".join(shown.partition("Example:")[2].split()).split()[1:]
    said = succeed(tmp_path, *example).out
    for option in ("--users", "--assume"):
        if option in example:
            at = example.index(option)
            assert succeed(tmp_path, *example[:at], *example[at + 2 :]).out != said, f"{option} changed nothing"


@pytest.mark.slow
@pytest.mark.parametrize("table", ["csv", "tsv", "parquet"])
def test_a_release_of_any_table_can_be_exported(tmp_path: Path, table: str) -> None:
    rows = "".join(f'{user},"say ""hi"", you",http://a.example/?q=a;b\n' for user in range(9))
    (tmp_path / "log.csv").write_text("user,query,url\n" + rows)
    succeed(tmp_path, "release", "log.csv", *PLENTY, "--item", "click", "--out", "out", "--table", table)
    assert succeed(tmp_path, "export", "out", "--out", "graph").out.split() == [
        "nodes.tsv",
        "2",
        "rows",
        *"edges.tsv 1 row".split(),
    ]
    assert 'say "hi", you' in (tmp_path / "graph" / "nodes.tsv").read_text().replace('""', '"')


@pytest.mark.slow
def test_who_stops_reading_stops_the_command_as_a_signal_would(tmp_path: Path) -> None:
    line = f"set -o pipefail; '{COMMAND}' methods | true"
    codes = {
        subprocess.run(["bash", "-c", line], env=environment(tmp_path), capture_output=True).returncode
        for _ in range(3)
    }
    assert codes <= {0, 128 + 13}


@pytest.mark.slow
def test_progress_that_nobody_reads_does_not_lose_a_release_that_was_paid_for(tmp_path: Path) -> None:
    log, ledger = crowd_log(tmp_path), new_ledger(tmp_path)
    paid = f"'{COMMAND}' release '{log}' {' '.join(PLENTY)} --out out --ledger '{ledger}' 2>&1 >/dev/null | true"
    subprocess.run(["bash", "-c", paid], cwd=tmp_path, env=environment(tmp_path), check=True)
    assert (tmp_path / "out" / "guarantee.json").exists()
    assert [entry.status for entry in entries(ledger)] == ["written"]


@pytest.mark.slow
def test_a_closed_output_is_no_crash(tmp_path: Path) -> None:
    line = f"'{COMMAND}' release '{crowd_log(tmp_path)}' {' '.join(PLENTY)} --out out >&-"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment(tmp_path), capture_output=True)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "out" / "guarantee.json").exists()
