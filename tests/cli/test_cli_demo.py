"""`searchveil demo` writes a log in three layouts, always the same one, and never over another file."""

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commandline import SCRATCH, assert_refused, everything_in, run, succeed

from searchveil.log.demo import planted_personal_queries

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"


def test_the_three_layouts_hold_the_same_log(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.tsv.gz", "a.parquet"):
        succeed(tmp_path, "demo", "--users", "40", "--seed", "3", "--out", name)
    text = (tmp_path / "a.tsv").read_text(encoding="utf-8")
    assert gzip.decompress((tmp_path / "a.tsv.gz").read_bytes()).decode() == text
    lines = text.splitlines()
    assert lines[0] == HEADER
    table = pq.read_table(tmp_path / "a.parquet")
    rows = [line.split("\t") for line in lines[1:]]
    assert [row[0] for row in rows] == [str(user) for user in table["user"].to_pylist()]
    assert [row[1] for row in rows] == table["query"].to_pylist()
    assert everything_in(tmp_path) == {"a.tsv", "a.tsv.gz", "a.parquet", SCRATCH}


def test_json_tells_what_was_written(tmp_path: Path) -> None:
    told = succeed(tmp_path, "demo", "--users", "60", "--seed", "2", "--out", "log.tsv", "--json").json
    rows = [line.split("\t") for line in (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    planted = set(planted_personal_queries(60, seed=2)["query"].to_pylist())
    assert told["path"] == "log.tsv"
    assert told["users"] == 60 == len({row[0] for row in rows})
    assert told["rows"] == len(rows)
    assert told["clicks"] == sum(row[4] != "" for row in rows)
    assert told["planted"] == sum(row[1] in planted for row in rows) > 0


@pytest.mark.slow
def test_the_seed_decides_the_log(tmp_path: Path) -> None:
    for name, seed in (("a.tsv", 7), ("again.tsv", 7), ("other.tsv", 8)):
        succeed(tmp_path, "demo", "--users", "30", "--seed", str(seed), "--out", name)
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "again.tsv").read_bytes()
    assert (tmp_path / "a.tsv").read_bytes() != (tmp_path / "other.tsv").read_bytes()


def test_an_existing_file_stays_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("mine", encoding="utf-8")
    assert_refused(run(tmp_path, "demo", "--users", "30", "--out", "log.tsv"), "log.tsv exists", "--force")
    assert (tmp_path / "log.tsv").read_text(encoding="utf-8") == "mine"
    succeed(tmp_path, "demo", "--users", "30", "--out", "log.tsv", "--force")
    assert (tmp_path / "log.tsv").read_text(encoding="utf-8").startswith(HEADER)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--users", "0", "--out", "log.tsv"), "--users must be at least 1, not 0"),
        (("--users", "x", "--out", "log.tsv"), "--users"),
        (("--seed", "-1", "--out", "log.tsv"), "seed"),
        (("--users", "5", "--seed", str(10**23), "--out", "log.tsv"), "seed"),
        (("--users", "5", "--out", "log.doc"), "log.doc"),
        (("--users", "5", "--out", "missing/log.tsv"), "there is no folder missing"),
        (("--users", "5"), "--out"),
    ],
)
def test_what_demo_refuses(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert_refused(run(tmp_path, "demo", *arguments), says)
    assert everything_in(tmp_path) == {SCRATCH}


def test_a_rougher_log_on_request(tmp_path: Path) -> None:
    options = ("--odd-queries", "--shared-address", "--long-sessions")
    succeed(tmp_path, "demo", "--users", "200", "--out", "rough.tsv", *options)
    rows = [line.split("\t") for line in (tmp_path / "rough.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    assert sum(row[0] == "0" for row in rows) > len(rows) / 20
    assert any(row[1] == "-" for row in rows)
    assert any(not row[1].isascii() for row in rows)
