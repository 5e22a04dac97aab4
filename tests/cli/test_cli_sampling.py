"""Sampling on the command line: what it tells before and after, and every refusal in one line."""

import json
from math import log
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commandline import Outcome, assert_refused, demo_log, entries, new_ledger

INDIVIDUAL = ("--method", "sampling")
SAMPLING = ("--method", "sampling", "--sampler", "poisson")
HALF = ("--epsilon", "1", "--delta", "0.5")


@pytest.fixture
def log_file() -> Path:
    return demo_log(300)


def done(said: Outcome) -> Outcome:
    assert said.code == 0, said.err
    return said


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["poisson", "multinomial"])
@pytest.mark.parametrize("objective", ["size", "frequent", "diversity", "kl"])
def test_a_release_reports_its_size_its_bound_and_its_limit(
    searchveil: Any, log_file: Path, tmp_path: Path, sampler: str, objective: str
) -> None:
    chosen = ("--objective", objective, "--sampler", sampler, "--seconds", "1")
    said = searchveil("release", log_file, *SAMPLING, *HALF, *chosen, "--out", "out", "--json")
    record = done(said).json
    assert record["limit"] == pytest.approx(record["users"] * log(2))
    assert 0 < record["total"] <= record["limit"]
    if objective == "size":
        assert record["total"] <= record["upper_bound"] * (1 + 1e-6)
    assert 0 < record["expected_users_exposed"] <= record["users"] / 2
    assert record["guarantee"]["notion"] == "sampling-step"
    table = pq.read_table(tmp_path / "out" / "data.parquet")
    assert table.column_names == ["user", "query", "url", "count"]
    assert record["rows"] == table.num_rows
    card = (tmp_path / "out" / "README.md").read_text()
    assert "NOT differentially private" in card
    assert "with the counts x taken as public" in card
    assert "expected_users_exposed" in card
    assert "limit" in json.loads((tmp_path / "out" / "guarantee.json").read_text())


@pytest.mark.slow
def test_the_rates_are_in_the_folder_and_every_reader_of_folders_accepts_them(
    searchveil: Any, log_file: Path, tmp_path: Path
) -> None:
    done(searchveil("release", log_file, *SAMPLING, *HALF, "--out", "out"))
    rates = pq.read_table(tmp_path / "out" / "rates.parquet")
    assert rates.column_names == ["query", "url", "draws"]
    catalogue = json.loads((tmp_path / "out" / "croissant.json").read_text())
    assert [file["name"] for file in catalogue["distribution"]] == ["data.parquet", "rates.parquet"]
    assert "`rates.parquet`" in (tmp_path / "out" / "README.md").read_text()
    figures = done(searchveil("evaluate", "out", "--against", log_file, "--applications", "none", "--json")).json
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "out" / "data.parquet").to_pylist()
    drawn = sum(row["count"] for row in rows)
    assert figures["measures"]["count-distribution"]["click.total_release"] == drawn, "rates are not counted as clicks"
    done(searchveil("export", "out", "--layout", "click-graph", "--out", "graph"))


@pytest.mark.slow
def test_individual_rates_are_the_default_and_a_ledger_pays_for_them(
    searchveil: Any, log_file: Path, tmp_path: Path
) -> None:
    account = new_ledger(tmp_path, delta=0.95)
    asked = ("--epsilon", "5", "--delta", "0.9", "--time-unit", "day", "--ledger", account)
    record = done(searchveil("release", log_file, *INDIVIDUAL, *asked, "--out", "out", "--json")).json
    assert record["parameters"]["sampler"] == "individual"
    assert (record["guarantee"]["notion"], record["guarantee"]["delta"]) == ("approximate", 0.9)
    assert 0.99 * record["limit"] <= record["total"] <= record["limit"]
    assert record["users"] > 0
    assert record["pairs"] > 0
    data = pq.read_table(tmp_path / "out" / "data.parquet")
    assert data.column_names == ["user", "query", "url", "time", "rank", "count"]
    assert record["rows"] == data.num_rows > 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "-differentially private" in card
    assert "true clicks of one user" in card
    assert [entry.delta for entry in entries(account)] == [0.9]
    figures = done(searchveil("evaluate", "out", "--against", log_file, "--applications", "none", "--json")).json
    rows: list[dict[str, Any]] = data.to_pylist()
    assert figures["measures"]["count-distribution"]["click.total_release"] == sum(row["count"] for row in rows)
    done(searchveil("export", "out", "--layout", "click-graph", "--out", "graph"))


def test_public_pairs_cost_no_epsilon(searchveil: Any, log_file: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("query,url\ngoogle,www.google.com\n")
    asked = ("--delta", "0.9", "--candidates", "pairs.csv", "--time-unit", "none")
    record = done(searchveil("release", log_file, *INDIVIDUAL, *asked, "--out", "out", "--json")).json
    assert record["guarantee"]["epsilon"] == 0
    assert record["pairs"] == 1
    assert pq.read_table(tmp_path / "out" / "data.parquet").column_names == ["user", "query", "url", "rank", "count"]


def test_an_empty_release_speaks_of_draws_not_of_thresholds(searchveil: Any, log_file: Path) -> None:
    said = done(searchveil("release", log_file, *SAMPLING, "--delta", "0.03", "--sampler", "multinomial", "--out", "o"))
    assert "0 rows in o" in said.out
    assert "No whole draw was found" in said.out
    assert "threshold" not in said.out


@pytest.mark.slow
def test_plan_tells_the_limit_before_anything_is_done_and_advises(searchveil: Any) -> None:
    said = done(searchveil("plan", *SAMPLING, "--delta", "0.5", "--users", "1980")).out
    assert "1,372" in said
    said = done(searchveil("plan", *SAMPLING, "--delta", "1e-4", "--users", "1980")).out
    assert "less than one" in said
    assert "the method zealous" in said
    record = done(searchveil("plan", *SAMPLING, "--delta", "1e-4", "--users", "1980", "--json")).json
    assert record["limit"] == pytest.approx(0.198, abs=1e-3)
    assert "zealous" in record["advice"]


@pytest.mark.slow
@pytest.mark.parametrize(("option", "wanted"), [("--wanted-size", "20"), ("--wanted-recall", "0.5")])
def test_plan_finds_the_smallest_delta_for_what_is_wanted(
    searchveil: Any, log_file: Path, option: str, wanted: str
) -> None:
    record = done(searchveil("plan", log_file, *SAMPLING, option, wanted, "--json")).json
    assert 0 < record["guarantee"]["delta"] < 1
    if option == "--wanted-size":
        said = searchveil(
            "release", log_file, *SAMPLING, "--delta", record["guarantee"]["delta"], "--out", "out", "--json"
        )
        assert done(said).json["total"] == pytest.approx(20, rel=1e-6)


def test_the_papers_noise_says_what_it_is_worth(searchveil: Any, log_file: Path, tmp_path: Path) -> None:
    chosen = ("--sampler", "multinomial", "--noise-counts", "--most-change", "3", "--seconds", "1")
    done(searchveil("release", log_file, *SAMPLING, *HALF, *chosen, "--out", "out"))
    assert "docs/errata.md, H2" in (tmp_path / "out" / "README.md").read_text()


def test_a_ledger_refuses_it(searchveil: Any, log_file: Path, tmp_path: Path) -> None:
    said = searchveil("release", log_file, *SAMPLING, *HALF, "--out", "out", "--ledger", new_ledger(tmp_path))
    assert_refused(said, "without differential privacy", code=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "sampling needs --delta"),
        (("--delta", "0.5", "--objective", "fame"), "no objective 'fame'"),
        (("--delta", "0.5", "--sampler", "dice"), "no sampler 'dice'"),
        (("--delta", "0.5", "--noise-counts"), "--sampler multinomial"),
        (("--delta", "0.5", "--k", "3"), "sampling has no --k"),
        (("--delta", "0.5", "--objective", "kl", "--output-size", "1e9"), "does not fit"),
    ],
)
def test_what_is_refused(searchveil: Any, log_file: Path, arguments: tuple[str, ...], message: str) -> None:
    assert_refused(searchveil("release", log_file, *SAMPLING, *arguments, "--out", "out"), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", "1"), "sampling needs --delta; try --epsilon 1 --delta 0.5"),
        (("--delta", "0.5"), "the sampler individual needs --epsilon"),
        ((*HALF, "--objective", "kl"), "--objective is for the sampler poisson or multinomial"),
        ((*HALF, "--time-unit", "week"), "no time unit 'week'"),
        ((*HALF, "--selection-delta", "0.6"), "--selection-delta is a part of --delta 0.5"),
    ],
)
def test_what_individual_rates_refuse(
    searchveil: Any, log_file: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert_refused(searchveil("release", log_file, *INDIVIDUAL, *arguments, "--out", "out"), message)


@pytest.mark.slow
def test_wanted_sizes_need_a_log_and_no_delta(searchveil: Any, log_file: Path) -> None:
    assert_refused(
        searchveil("plan", log_file, *INDIVIDUAL, "--sampler", "individual", "--wanted-size", "10"),
        "poisson or multinomial sampling",
    )
    assert_refused(searchveil("plan", *SAMPLING, "--wanted-size", "10"), "give a log, no --delta")
    assert_refused(
        searchveil("plan", log_file, *SAMPLING, "--delta", "0.5", "--wanted-size", "10"), "give a log, no --delta"
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--epsilon", "0.001"), "does not depend on --epsilon; leave it out"),
        (("--objective", "kl"), "does not depend on --objective; leave it out"),
        (("--sampler", "dice"), "no sampler 'dice'"),
        (("--support", "7"), "--support must be a number above 0 and at most 1, not 7; it is a share of all clicks"),
    ],
)
def test_wanted_sizes_say_at_once_which_options_do_not_fit(
    searchveil: Any, option: tuple[str, ...], message: str
) -> None:
    """Before the log is read: there is none of this name."""
    assert_refused(searchveil("plan", "no.tsv", *SAMPLING, "--wanted-size", "10", *option), message)


@pytest.mark.slow
def test_frequent_pairs_that_can_all_be_met_have_a_bound_of_0_and_a_record(searchveil: Any, tmp_path: Path) -> None:
    chosen = ("--objective", "frequent", "--sampler", "multinomial", "--support", "0.05", "--seconds", "0")
    said = searchveil("release", demo_log(800), *SAMPLING, "--delta", "0.3", *chosen, "--out", "out", "--json")
    record = done(said).json
    assert record["upper_bound"] == pytest.approx(0, abs=1e-9)
    assert 0 <= record["gap"] <= 1 + 1e-9
    assert record["total"] < record["output_size"]
    assert "where 6 were meant" in record["advice"]


def test_branch_and_bound_without_time_has_the_limit_for_a_bound(searchveil: Any, log_file: Path) -> None:
    chosen = ("--objective", "diversity", "--sampler", "multinomial", "--solver", "branch-and-bound", "--seconds", "0")
    record = done(searchveil("release", log_file, *SAMPLING, *HALF, *chosen, "--out", "out", "--json")).json
    assert record["total"] <= record["upper_bound"] <= record["limit"]
