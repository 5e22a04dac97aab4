"""Sessions and the summary, by hand-made logs and against a plain Python version."""

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog, submissions, summarize, with_sessions

START = datetime(2024, 5, 1, 23, 50)
Rows = list[tuple[str, str, float]]  # user, query, minutes from the start


def make_log(engine: Engine, rows: Rows, **more: list[object]) -> SearchLog:
    table = pa.table(
        {
            "user": pa.array([user for user, _, _ in rows], pa.string()),
            "query": pa.array([query for _, query, _ in rows], pa.string()),
            "time": pa.array([START + timedelta(minutes=minutes) for *_, minutes in rows], pa.timestamp("us")),
            **more,
        }
    )
    return SearchLog(engine.load(table), engine)


def sessions_of(log: SearchLog, gap: float = 30) -> list[tuple[str, str, int]]:
    found = log.engine.fetch(with_sessions(log, gap)).to_pylist()
    return sorted((row["user"], row["query"], int(row["session"])) for row in found)


def test_a_session_ends_when_more_than_the_gap_has_passed(engine: Engine) -> None:
    rows = [("a", "1", 0.0), ("a", "2", 30.0), ("a", "3", 60.0 + 1 / 60_000), ("b", "4", 100.0), ("a", "5", 95.0)]
    assert sessions_of(make_log(engine, rows)) == [
        ("a", "1", 1),
        ("a", "2", 1),
        ("a", "3", 2),
        ("a", "5", 3),
        ("b", "4", 1),
    ]


def test_clicks_of_one_submission_share_their_session(engine: Engine) -> None:
    rows = [("a", "x", 0.0), ("a", "y", 50.0), ("a", "y", 50.0), ("a", "y", 50.0), ("a", "z", 51.0)]
    log = make_log(engine, rows)
    assert [session for *_, session in sessions_of(log)] == [1, 2, 2, 2, 2]
    assert log.engine.value(submissions(log).count()) == 3


def test_submissions_are_told_apart_after_normalising(engine: Engine) -> None:
    log = make_log(engine, [("a", "Shoe", 0.0), ("a", " shoe", 0.0), ("a", "shoe", 1.0)])
    assert log.engine.value(submissions(log).count()) == 2


def plain_sessions(rows: Rows, gap: float) -> list[tuple[str, str, int]]:
    found, last, session = [], dict[str, float](), dict[str, int]()
    for user, query, minutes in sorted(rows, key=lambda row: row[2]):
        if user not in last or minutes - last[user] > gap:
            session[user] = session.get(user, 0) + 1
        last[user] = minutes
        found.append((user, query, session[user]))
    return sorted(found)


@pytest.mark.slow
def test_sessions_agree_with_plain_python(duckdb_engine: Engine) -> None:
    row = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 300).map(float))

    @settings(max_examples=50, deadline=None)
    @given(st.lists(row, min_size=1), st.sampled_from([1, 5, 30]))
    def check(rows: Rows, gap: int) -> None:
        assert sessions_of(make_log(duckdb_engine, rows), gap) == plain_sessions(rows, gap)

    check()


def test_a_log_without_time_has_no_sessions(duckdb_engine: Engine) -> None:
    log = SearchLog(duckdb_engine.load(pa.table({"user": ["a"], "query": ["x"]})), duckdb_engine)
    with pytest.raises(InputError, match="has no time, which session segmentation needs"):
        with_sessions(log)
    with pytest.raises(InputError, match="has no time, which telling submissions apart needs"):
        submissions(log)


@pytest.mark.parametrize("gap", [0, -1, float("nan"), float("inf"), 1e12])
def test_the_gap_is_at_most_a_year(duckdb_engine: Engine, gap: float) -> None:
    with pytest.raises(InputError, match="must be from a second to a year"):
        with_sessions(make_log(duckdb_engine, [("a", "x", 0.0)]), gap)


def test_summary(engine: Engine) -> None:
    rows = [("a", "X", 0.0), ("a", "x ", 0.0), ("a", "y", 60.0), ("b", "x", 5.0)]
    log = make_log(engine, rows, url=["http://1", "http://2", None, None])
    summary = summarize(log)
    assert (summary.rows, summary.users, summary.queries, summary.clicks) == (4, 2, 2, 2)
    assert (summary.submissions, summary.sessions) == (3, 3)
    assert (summary.first_time, summary.last_time) == (START, START + timedelta(hours=1))
    assert summary.rows_per_user["mean"] == 2
    assert summary.rows_per_user["max"] == 3
    assert summary.to_json()["first_time"] == "2024-05-01 23:50:00"
    assert "no guarantee" in summary.to_json()["warning"]


def test_summary_of_a_log_with_neither_time_nor_clicks(duckdb_engine: Engine) -> None:
    log = SearchLog(duckdb_engine.load(pa.table({"user": ["a"], "query": ["x"]})), duckdb_engine)
    summary = summarize(log)
    assert (summary.clicks, summary.submissions, summary.sessions, summary.first_time) == (None, None, None, None)
