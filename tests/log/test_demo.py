"""The demo log: the same rows every time, in both layouts, with planted queries, close to the figures of real logs."""

from __future__ import annotations

import gzip
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from searchveil.errors import InputError
from searchveil.log.demo import DemoLog, planted_personal_queries, write_demo
from searchveil.log.demo.chunk import USERS_PER_CHUNK
from searchveil.log.demo.sessions import LONG_EXPONENT, LONG_FROM, LONG_ONE_IN, LONGEST, draw_submissions
from searchveil.log.demo.text import misspell

USERS = 5_000  # more than one chunk


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoLog:
    return write_demo(tmp_path_factory.mktemp("demo") / "log.parquet", users=USERS, seed=7)


@pytest.fixture(scope="module")
def rows(demo: DemoLog) -> pa.Table:
    return pq.read_table(demo.path)


@pytest.mark.slow
def test_same_users_and_seed_give_the_same_bytes(demo: DemoLog, tmp_path: Path) -> None:
    again = write_demo(tmp_path / "again.parquet", users=USERS, seed=7)
    assert again.path.read_bytes() == demo.path.read_bytes()
    first, second = (write_demo(tmp_path / name, users=50, seed=7).path for name in ("a.tsv.gz", "b.tsv.gz"))
    assert first.read_bytes() == second.read_bytes()


def test_another_seed_gives_another_log(tmp_path: Path) -> None:
    one, two = (write_demo(tmp_path / f"{seed}.tsv", users=20, seed=seed).path.read_text() for seed in (1, 2))
    assert one != two


@pytest.mark.slow
def test_parquet_schema(rows: pa.Table) -> None:
    assert rows.schema.names == ["user", "query", "time", "rank", "url"]
    assert rows.schema.types == [pa.int64(), pa.string(), pa.timestamp("us"), pa.int32(), pa.string()]
    assert rows["user"].null_count == rows["query"].null_count == rows["time"].null_count == 0
    assert rows["rank"].is_null().equals(rows["url"].is_null())


@pytest.mark.slow
def test_tsv_has_the_rows_of_the_parquet_in_the_layout_of_aol(tmp_path: Path) -> None:
    table = pq.read_table(write_demo(tmp_path / "log.parquet", users=60).path)
    plain = write_demo(tmp_path / "log.tsv", users=60).path.read_text()
    zipped = gzip.decompress(write_demo(tmp_path / "log.tsv.gz", users=60).path.read_bytes()).decode()
    assert plain == zipped
    header, *lines = plain.splitlines()
    assert header == "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
    expected = [
        f"{row['user']}\t{row['query']}\t{row['time']:%Y-%m-%d %H:%M:%S}\t{row['rank'] or ''}\t{row['url'] or ''}"
        for row in table.to_pylist()
    ]
    assert lines == expected


@pytest.mark.slow
def test_summary_counts_what_was_written(demo: DemoLog, rows: pa.Table) -> None:
    assert demo.rows == rows.num_rows
    assert demo.clicks == rows.num_rows - rows["rank"].null_count
    assert demo.users == len(pc.unique(rows["user"])) == USERS
    assert demo.submissions == rows.group_by(["user", "query", "time"]).aggregate([]).num_rows
    planted = planted_personal_queries(USERS, 7)
    assert demo.planted == int(np.sum(np.isin(rows["query"].to_numpy(), planted["query"].to_numpy())))


def test_rows_go_by_user_and_then_by_time(rows: pa.Table) -> None:
    user, time = rows["user"].to_numpy(), rows["time"].to_numpy()
    assert (np.diff(user) >= 0).all()
    assert (np.diff(time)[np.diff(user) == 0] >= np.timedelta64(0)).all()


@pytest.mark.slow
def test_a_smaller_log_is_the_beginning_of_a_larger_one(rows: pa.Table, tmp_path: Path) -> None:
    for users in (1, 700, USERS_PER_CHUNK, USERS_PER_CHUNK + 1):
        smaller = pq.read_table(write_demo(tmp_path / f"{users}.parquet", users=users, seed=7).path)
        assert smaller.equals(rows.slice(0, smaller.num_rows).combine_chunks())
        assert rows["user"][smaller.num_rows].as_py() == users + 1


def test_every_planted_query_is_searched_by_its_user_and_by_nobody_else(demo: DemoLog) -> None:
    planted = planted_personal_queries(USERS, 7)  # found by DuckDB under this name
    held = duckdb.execute(f"""
        SELECT planted.user, query, list(DISTINCT log.user) AS holders, count(*) AS times
        FROM planted LEFT JOIN '{demo.path}' AS log USING (query) GROUP BY ALL""").fetchall()
    assert len(held) == planted.num_rows == len(pc.unique(planted["query"]))
    assert all(holders == [user] for user, _, holders, _ in held)
    assert USERS / 100 < len(held) < USERS / 25
    assert max(times for *_, times in held) >= 20


def test_nothing_else_in_the_log_looks_like_a_planted_query(rows: pa.Table) -> None:
    planted = planted_personal_queries(USERS, 7)["query"]
    telling = pc.match_substring_regex(rows["query"], r"555-01|^ssn |@example\.com|^account 00| street apt ")
    assert set(pc.unique(rows["query"].filter(telling)).to_pylist()) == set(planted.to_pylist())


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_the_smallest_log_has_a_planted_query(seed: int, tmp_path: Path) -> None:
    assert planted_personal_queries(1, seed).num_rows == 1
    assert write_demo(tmp_path / "log.tsv", users=1, seed=seed).planted >= 1


def test_planted_queries_stay_distinct_at_full_size() -> None:
    planted = planted_personal_queries(657_426, 1)
    assert planted.num_rows == len(pc.unique(planted["query"])) > 10_000


@pytest.mark.slow
def test_progress_ends_with_all_users(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_demo(tmp_path / "log.parquet", users=USERS, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(USERS_PER_CHUNK, USERS), (USERS, USERS)]


@pytest.mark.parametrize(
    ("name", "users", "seed", "message"),
    [
        ("log.csv", 10, 1, "end it in .parquet, .tsv or .tsv.gz"),
        ("log", 10, 1, "end it in .parquet, .tsv or .tsv.gz"),
        ("log.tsv", 0, 1, "users must be at least 1, not 0"),
        ("log.tsv", 10, -1, r"seed must be from 0 to 2\^63 − 1, not -1"),
        ("missing/log.tsv", 10, 1, "there is no folder"),
    ],
)
def test_bad_input_is_refused_in_one_line(name: str, users: int, seed: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        write_demo(tmp_path / name, users=users, seed=seed)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["log.tsv", "log.parquet"])
def test_a_folder_in_the_way_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write_demo(tmp_path / name, users=1)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["log.tsv", "log.tsv.gz", "log.parquet"])
def test_an_interrupted_log_leaves_no_file_and_keeps_the_old_one(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("old")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_demo(tmp_path / name, users=1, progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_a_slip_changes_a_text_by_at_most_two_letters() -> None:
    query = "cheap flights to denver"
    spellings = np.arange(256)
    slips = [str(slip) for slip in misspell(pa.array([query] * len(spellings)), spellings).to_pylist()]
    assert slips[0] == query
    assert len(set(slips)) > 50
    assert all(abs(len(slip) - len(query)) <= 1 for slip in slips)
    assert misspell(pa.array(["abc", ""]), np.array([5, 6])).to_pylist() == ["abc", ""]
    assert misspell(pa.array([], pa.string()), np.array([], np.int64)).to_pylist() == []


@pytest.mark.slow
def test_everyday_figures_are_within_a_fifth_of_real_ones(tmp_path: Path) -> None:
    measure = _calibration()
    path = write_demo(tmp_path / "log.parquet", users=measure.EVERYDAY).path
    outside = [line for line in measure.everyday_lines(measure.Log(path, tmp_path)) if not line.holds]
    assert outside == []


def _calibration() -> ModuleType:
    """The benchmark's measures, which live outside the package."""
    path = Path(__file__).parents[2] / "benchmarks" / "demo_calibration.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_long_sessions_have_the_tail_that_is_told() -> None:
    """False alarms: one in a million, by the binomial distribution of the sessions of 111 submissions and more."""
    drawn = draw_submissions(np.random.default_rng(1), 20_000, long_sessions=True)
    lengths = np.diff(np.append(np.flatnonzero(drawn.opens_session), len(drawn)))
    chance = (LONG_FROM / 111) ** LONG_EXPONENT / LONG_ONE_IN
    low, high = binom.ppf([5e-7, 1 - 5e-7], len(lengths), chance)
    assert low <= int((lengths >= 111).sum()) <= high
    assert 111 < lengths.max() <= LONGEST
    usual = draw_submissions(np.random.default_rng(1), 20_000)
    shorter = np.diff(np.append(np.flatnonzero(usual.opens_session), len(usual)))
    assert shorter.max() < 111, "the option is needed for it"
    for share in (0.5, 0.9):
        assert np.quantile(lengths, share) == np.quantile(shorter, share)
    assert lengths.mean() / shorter.mean() < 1.1


def test_a_log_with_long_sessions_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    for users in (50, 100):
        write_demo(tmp_path / f"{users}.tsv", users=users, seed=3, long_sessions=True)
    assert (tmp_path / "100.tsv").read_bytes().startswith((tmp_path / "50.tsv").read_bytes())
    write_demo(tmp_path / "usual.tsv", users=100, seed=3)
    assert (tmp_path / "usual.tsv").read_bytes() != (tmp_path / "100.tsv").read_bytes()
