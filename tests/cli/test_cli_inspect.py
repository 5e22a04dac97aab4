"""`searchveil inspect` counts what is in a log and tells which rows it could not read."""

from pathlib import Path
from typing import Any

import pytest
from commandline import assert_refused, demo_log, run, succeed

AOL = (
    "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    "1\tweather\t2006-03-01 10:00:00\t1\thttp://w.example\n"
    "1\tWeather\t2006-03-01 10:05:00\t\t\n"
    "2\tweather\t2006-03-02 10:00:00\t2\thttp://v.example\n"
    "2\tnews\t2006-03-02 12:00:00\t\t\n"
)


def test_the_figures_of_a_small_log(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(AOL, encoding="utf-8")
    figures = succeed(tmp_path, "inspect", "log.tsv", "--json").json
    assert figures["source"] == "log.tsv"
    assert figures["columns"] == ["user", "query", "time", "rank", "url"]
    expected = {"rows": 4, "users": 2, "queries": 2, "clicks": 2, "submissions": 4, "sessions": 3, "problems": []}
    assert {name: figures[name] for name in expected} == expected
    assert (figures["first_time"], figures["last_time"]) == ("2006-03-01 10:00:00", "2006-03-02 12:00:00")
    assert figures["rows_per_user"] == {"mean": 2, "median": 2, "p99": 2, "max": 2}


@pytest.mark.slow
def test_a_name_cannot_write_to_the_terminal(tmp_path: Path, searchveil: Any) -> None:
    (tmp_path / "log\x1b[2J\x9b.tsv").write_text(AOL + "bad\n", encoding="utf-8")
    for json in ([], ["--json"]):
        said = searchveil("inspect", "log\x1b[2J\x9b.tsv", *json)
        assert said.code == 0
        assert "log\\" in said.out
        assert all(line.isprintable() for line in (said.out + said.err).split("\n"))
    said = searchveil("inspect", "absent\x1b[2J.tsv")
    assert said.said == ["searchveil: absent\\x1b[2J.tsv: no file matches"]


def test_normalising_is_an_option(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(AOL, encoding="utf-8")
    assert succeed(tmp_path, "inspect", "log.tsv", "--normalize", "none", "--json").json["queries"] == 3


@pytest.mark.slow
def test_people_read_the_same_figures_and_a_warning(tmp_path: Path) -> None:
    figures = succeed(tmp_path, "inspect", demo_log(), "--json").json
    lines = succeed(tmp_path, "inspect", demo_log()).out.splitlines()
    assert "no guarantee" in lines[0]
    shown = {line[:17].strip(): line[17:].strip() for line in lines[1:]}
    for name in ("rows", "users", "queries", "clicks", "submissions", "sessions"):
        assert shown[name].replace(",", "") == str(figures[name])


@pytest.mark.slow
def test_bad_rows_are_told_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(AOL + "3\ttwo columns\n4\tnews\tnot a time\t\t\n", encoding="utf-8")
    outcome = run(tmp_path, "inspect", "log.tsv")
    assert outcome.code == 0
    assert len(outcome.said) == 2
    assert all(line.startswith("searchveil: left out 1 row: ") for line in outcome.said)
    assert "log.tsv:6" in outcome.said[0]
    assert "log.tsv:7" in outcome.said[1]
    figures = succeed(tmp_path, "inspect", "log.tsv", "--json").json
    assert figures["rows"] == 4
    assert len(figures["problems"]) == 2
    assert_refused(run(tmp_path, "inspect", "log.tsv", "--strict"), "log.tsv:6", "log.tsv:7", "--strict")


@pytest.mark.slow
def test_several_files_are_one_log(tmp_path: Path) -> None:
    header, *rows = AOL.splitlines(keepends=True)
    (tmp_path / "part-1.tsv").write_text(header + "".join(rows[:2]), encoding="utf-8")
    (tmp_path / "part-2.tsv").write_text(header + "".join(rows[2:]), encoding="utf-8")
    for named in (("part-1.tsv", "part-2.tsv"), ("part-*.tsv",)):
        figures = succeed(tmp_path, "inspect", *named, "--json").json
        assert (figures["rows"], figures["users"]) == (4, 2)


def test_columns_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("who,what\n1,weather\n2,news\n", encoding="utf-8")
    named = ("--column", "user=who", "--column", "query=what")
    figures = succeed(tmp_path, "inspect", "log.csv", *named, "--json").json
    assert (figures["users"], figures["queries"], figures["columns"]) == (2, 2, ["user", "query"])


@pytest.mark.slow
def test_how_a_log_is_read_is_told_without_a_figure_of_it(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(AOL + "3\ttwo columns\n", encoding="utf-8")
    told = run(tmp_path, "inspect", "log.tsv", "--no-figures", "--json").json
    assert set(told) == {"source", "format", "columns", "column_names", "unit", "taken_as_public", "problems"}
    assert (told["format"], told["unit"], len(told["problems"])) == ("aol", "user", 1)
    shown = run(tmp_path, "inspect", "log.tsv", "--no-figures")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["log.tsv", "format", "columns", "unit"]
