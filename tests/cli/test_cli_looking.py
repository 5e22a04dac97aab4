"""`show`, `verify` and `compare` as people run them; what `inspect` and `ledger` say of how and of what is left."""

from pathlib import Path

import pytest
from commandline import PLENTY, assert_refused, crowd_log, demo_log, new_ledger, run, succeed

CROWD = ("user,query\n", *(f"{user},news\n{user},Weather in Kyoto\n" for user in range(9)), "1,weather\n2,weather\n")


def released(folder: Path, *more: str) -> None:
    (folder / "log.csv").write_text("".join(CROWD) + "".join(f"{user},weather\n" for user in range(3, 6)))
    succeed(folder, "release", "log.csv", *PLENTY, "--out", "out", *more)


def test_show_tells_the_promise_and_the_highest_counts_first(tmp_path: Path) -> None:
    released(tmp_path)
    lines = succeed(tmp_path, "show", "out", "--top", "2").out.splitlines()
    assert lines[0] == "out: query by zealous, 3 rows"
    assert "differentially private" in lines[1]
    assert lines[2].startswith("Noise moves a count by less than")
    assert [line.split()[0] for line in lines[3:6]] == ["query", "news", "weather"]
    assert "1 more row;" in lines[6]
    told = succeed(tmp_path, "show", "out", "--json").json
    assert (told["rows"], [row["query"] for row in told["top"]][-1]) == (3, "weather")
    assert told["guarantee"]["epsilon"] == 100


@pytest.mark.slow
def test_show_finds_a_text_in_any_writing(tmp_path: Path) -> None:
    released(tmp_path, "--table", "tsv")
    told = succeed(tmp_path, "show", "out", "--search", "WEATHER", "--json").json
    assert (told["rows"], told["found"]) == (3, 2)
    assert "0 rows with 'secret'" in succeed(tmp_path, "show", "out", "--search", "secret").out
    assert_refused(run(tmp_path, "show", "out", "--table", "clicks"), "no table 'clicks'; it has data")


@pytest.mark.slow
def test_show_cannot_be_made_to_write_to_the_terminal(tmp_path: Path) -> None:
    rows = "".join(f"{user},a\x1b[2Jb\n" for user in range(9))
    (tmp_path / "log.csv").write_text("user,query\n" + rows)
    succeed(tmp_path, "release", "log.csv", *PLENTY, "--out", "out", "--normalize", "none")
    assert all(line.isprintable() for line in succeed(tmp_path, "show", "out").out.splitlines())


@pytest.mark.slow
def test_verify_ends_with_1_if_something_was_changed(tmp_path: Path) -> None:
    released(tmp_path, "--table", "csv")
    assert succeed(tmp_path, "verify", "out", "--json").json["right"] is True
    shown = succeed(tmp_path, "verify", "out").out
    assert "The data files are those that guarantee.json names. Nothing is signed" in shown
    assert "as it was written" not in shown, "which nobody can tell from the folder"
    (tmp_path / "out" / "data.csv").write_text("query,count\nsecret,1\n")
    outcome = run(tmp_path, "verify", "out")
    assert (outcome.code, outcome.err) == (1, "")
    assert "wrong  checksums" in outcome.out
    assert "Do not rely on this folder" in outcome.out
    assert_refused(run(tmp_path, "verify", "."), "no release folder")


@pytest.mark.slow
def test_compare_tries_the_methods_at_one_promise_and_publishes_nothing(tmp_path: Path) -> None:
    how = ("compare", demo_log(), "--epsilon", "20", "--delta", "1e-3", "--methods", "weighted,zealous,k-query")
    before = {path.name for path in tmp_path.iterdir()}
    told = succeed(tmp_path, *how, "--json", "--applications", "index-caching").json
    assert set(told["methods"]) == {"weighted", "zealous"}
    assert told["left_out"] == {"k-query": "it promises no ε"}
    assert "private" in told["warning"]
    for tried in told["methods"].values():
        assert tried["rows"] > 0
        assert 0 < tried["volume"] < 1
        assert set(tried["applications"]) == {"index-caching"}
        assert "(20, 0.001)-differentially private" in tried["promise"]
        scored = tried["applications"]["index-caching"]
        assert scored["figure"] == "hit probability"
        assert 0 < scored["release"] <= scored["original"]
    assert told["methods"]["weighted"]["volume"] > told["methods"]["zealous"]["volume"]
    assert {path.name for path in tmp_path.iterdir()} - before <= {"comparison.html", "scratch"}
    page = (tmp_path / "comparison.html").read_text()
    assert "do not publish this page" in page
    assert "Filling a search engine" in page
    assert "<script" not in page


@pytest.mark.slow
def test_compare_scores_every_method_by_every_application_or_says_why_not(tmp_path: Path) -> None:
    how = ("compare", demo_log(), "--epsilon", "20", "--delta", "1e-3", "--methods", "zealous,safelog-click")
    lines = succeed(tmp_path, *how).out.splitlines()
    header = next(line for line in lines if "score, from 0 to 1" in line)
    assert header.split()[-3:] == ["log", "zealous", "safelog-click"]
    cells = next(line for line in lines if line.startswith("  Predicting clicks")).split()[-3:]
    assert cells[1] == "–"
    assert 0 < float(cells[2]) <= float(cells[0]) <= 1
    assert "Predicting clicks: the share of clicks that are on the result held for the most likely one." in lines
    assert "– zealous: the release has no clicks." in lines
    page = (tmp_path / "comparison.html").read_text()
    assert "the share of clicks that are on the result held for the most likely one" in page
    assert "zealous: the release has no clicks" in page


@pytest.mark.slow
def test_compare_says_what_to_type_for_a_method_that_does_not_apply(tmp_path: Path) -> None:
    how = (
        "compare",
        demo_log(),
        "--epsilon",
        "20",
        "--delta",
        "1e-3",
        "--methods",
        "synthetic",
        "--applications",
        "none",
    )
    left_out = succeed(tmp_path, *how, "--json").json["left_out"]
    assert "add --from 2006-03-01 and --to 2006-05-31" in left_out["synthetic"]
    assert "add --from 2006-03-01" in (tmp_path / "comparison.html").read_text()
    told = succeed(tmp_path, *how, "--from", "2024-03-01", "--to", "2024-05-31", "--json").json
    assert told["methods"]["synthetic"]["rows"] > 0
    assert_refused(run(tmp_path, *how, "--from", "2024-03-01"), "a period has two ends", "--to")


@pytest.mark.slow
def test_compare_says_what_is_best_and_replaces_only_its_own_page(tmp_path: Path) -> None:
    how = ("compare", crowd_log(tmp_path, users=9), "--epsilon", "100", "--delta", "1e-6", "--methods", "zealous")
    shown = succeed(tmp_path, *how, "--applications", "none").out
    assert "zealous covers the most: 100.0 % of all searches, with 5 rows." in shown
    succeed(tmp_path, *how, "--applications", "none")
    (tmp_path / "comparison.html").write_text("mine")
    assert_refused(run(tmp_path, *how), "comparison.html exists and is no earlier comparison", "--report")


def test_compare_says_that_nothing_was_tried(tmp_path: Path) -> None:
    how = ("compare", crowd_log(tmp_path, users=9), "--epsilon", "1", "--delta", "1e-6", "--methods", "k-query")
    shown = succeed(tmp_path, *how).out
    assert "No method was tried." in shown
    assert "it promises no ε" in shown
    assert "publishes anything" not in shown


@pytest.mark.slow
def test_compare_with_a_wrong_name(tmp_path: Path) -> None:
    how = ("compare", crowd_log(tmp_path), "--epsilon", "1", "--delta", "1e-6")
    assert_refused(run(tmp_path, *how, "--methods", "magic"), "no method 'magic'")
    assert_refused(run(tmp_path, *how, "--applications", "magic"), "no application 'magic'")


@pytest.mark.slow
def test_inspect_says_how_it_read_and_nothing_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("Visitor ID,Search Term\n1,weather\n2,news\n")
    shown = succeed(tmp_path, "inspect", "log.csv").out
    assert "  format         csv\n" in shown
    assert "  columns        user (Visitor ID), query (Search Term)\n" in shown
    assert "None" not in shown
    told = succeed(tmp_path, "inspect", "log.csv", "--json").json
    assert (told["format"], told["column_names"]) == ("csv", {"user": "Visitor ID", "query": "Search Term"})


@pytest.mark.slow
def test_the_ledger_says_what_is_left(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path, 1.5, 1e-5)
    assert "left    ε ≤ 1.5, δ ≤ 1e-05\n" in succeed(tmp_path, "ledger", ledger).out
    one = ("--method", "zealous", "--epsilon", "1", "--delta", "1e-6", "--ledger", str(ledger))
    succeed(tmp_path, "release", crowd_log(tmp_path), *one, "--out", "out")
    assert "left    ε ≤ 0.5, δ ≤ 9e-06\n" in succeed(tmp_path, "ledger", ledger).out
    assert succeed(tmp_path, "ledger", ledger, "--json").json["left"] == "ε ≤ 0.5, δ ≤ 9e-06"
    refused = run(tmp_path, "release", crowd_log(tmp_path), *one, "--out", "two")
    assert_refused(refused, "still fits: ε ≤ 0.5, δ ≤ 9e-06", code=3)
