"""`searchveil tour` tells the story of a release on one screen, with figures of the folder that it made."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commandline import assert_refused, run, succeed

SMALL = ("tour", "--users", "300", "--epsilon", "30", "--delta", "1e-3")
CHAPTERS = (
    "WHAT WAS IN THE LOG",
    "WHAT WAS PUBLISHED",
    "WHAT IS PROMISED",
    "WHAT IT IS GOOD FOR",
    "WHAT AN ATTACKER LEARNED",
    "WHERE TO LOOK NEXT",
)


@pytest.mark.slow
def test_the_story_fits_a_screen_and_is_true(tmp_path: Path) -> None:
    told = succeed(tmp_path, *SMALL).out
    lines = told.splitlines()
    assert len(lines) <= 45
    told_by_hand = lines[: next(i for i, line in enumerate(lines) if line.startswith(CHAPTERS[-1]))]
    assert max(map(len, told_by_hand)) <= 120
    assert [line[:24].strip() for line in lines if re.match("[A-Z]{4}", line)] == list(CHAPTERS)
    rows = (tmp_path / "demo" / "log.tsv").read_text().splitlines()[1:]
    assert f"{len(rows):,} rows of 300 invented people" in told
    published = pq.read_table(tmp_path / "demo" / "release" / "data.parquet")
    assert f"{published.num_rows:,} queries with how many" in told
    first = max(published.to_pylist(), key=lambda row: row["count"])
    assert re.search(rf"^  {re.escape(first['query'])} +{first['count']:,}$", told, re.MULTILINE)
    assert "(ε = 30, δ = 0.001)" in told
    assert re.search(r"\n +0 of \d+ planted personal queries came out", told)
    next_steps = told.partition(CHAPTERS[-1])[2]
    for command in re.findall(r"searchveil (show .*)$", next_steps, re.MULTILINE):
        succeed(tmp_path, *command.split())


@pytest.mark.slow
def test_an_earlier_tour_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert_refused(run(tmp_path, *SMALL, "--out", "mine"), "mine exists and is no earlier tour", "--out")
    succeed(tmp_path, *SMALL, "--out", "again")
    succeed(tmp_path, *SMALL, "--out", "again")


@pytest.mark.slow
def test_a_tour_that_is_refused_leaves_the_earlier_one(tmp_path: Path) -> None:
    told = succeed(tmp_path, *SMALL[:3], "--epsilon", "1000", "--delta", "1e-3").out
    assert "by a factor of e^1000 at most" in told, "no float holds it"
    before = (tmp_path / "demo" / "release" / "data.parquet").read_bytes()
    for wrong in (("--epsilon", "-1"), ("--epsilon", "nan"), ("--delta", "2"), ("--seed", "-1")):
        assert run(tmp_path, "tour", "--users", "300", *wrong).code != 0
        assert (tmp_path / "demo" / "release" / "data.parquet").read_bytes() == before
