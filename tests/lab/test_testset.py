"""Test sets: what is drawn, how often, and that the same seed draws the same."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.testset import TestSession, TestSet
from searchveil.lab.view import View
from searchveil.log import SearchLog

Row = tuple[str, str, int | None, str | None]  # user, query, minute, url


def log_of(engine: Engine, rows: Sequence[Row], *columns: str) -> SearchLog:
    start = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    times = [None if minute is None else start + timedelta(minutes=minute) for _, _, minute, _ in rows]
    table: dict[str, Any] = {
        "user": pa.array([row[0] for row in rows], pa.string()),
        "query": pa.array([row[1] for row in rows], pa.string()),
        "time": pa.array(times, pa.timestamp("us")),
        "url": pa.array([row[3] for row in rows], pa.string()),
    }
    return SearchLog(engine.stage(engine.load(pa.table({name: table[name] for name in columns}))), engine)


EVERYTHING = ("user", "query", "time", "url")
ROWS: list[Row] = [
    ("1", "Maps", 0, "m.com"),
    ("1", "maps", 1, "m.com"),
    ("1", "maps", 1, "n.com"),
    ("1", "road  maps", 5, None),
    ("1", "maps", 7, ""),
    ("1", "weather", 100, "w.com"),  # a session of its own
    ("2", "weather", 0, "w.com"),
    ("2", "weather", 3, "v.com"),  # the same query twice: one query is no session
    ("3", "   ", 0, "blank.com"),
    ("3", "songs", 1, None),
    ("3", "lyrics", 2, None),
    ("3", "lyrics", None, "l.com"),  # clicked, at nobody knows what time
]


def drawn(log: SearchLog, **options: int) -> TestSet:
    return TestSet.draw(log, original=View(log.engine, {}), **options)


def test_queries_with_their_clicks_and_sessions_in_their_order(engine: Engine) -> None:
    test = drawn(log_of(engine, ROWS, *EVERYTHING))
    assert test.clicks == {
        "lyrics": {"l.com": 1},
        "maps": {"m.com": 2, "n.com": 1},
        "weather": {"v.com": 1, "w.com": 2},
    }
    assert test.queries == ("lyrics", "maps", "weather")
    assert sorted(test.sessions, key=lambda session: session.queries) == [
        TestSession(("maps", "road maps", "maps"), ("m.com", "n.com")),
        TestSession(("songs", "lyrics"), ()),
    ]


def test_the_workload_is_the_whole_test_log(duckdb_engine: Engine) -> None:
    test = drawn(log_of(duckdb_engine, ROWS, *EVERYTHING), queries=1)
    counted = {row["keyword"]: row["count"] for row in duckdb_engine.fetch(test.workload.tables["keyword"]).to_pylist()}
    assert counted["maps"] == 4
    assert counted["road"] == 1


def test_a_log_without_clicks_or_times(duckdb_engine: Engine) -> None:
    test = drawn(log_of(duckdb_engine, ROWS, "user", "query"))
    assert test.clicks == {"lyrics": {}, "maps": {}, "road maps": {}, "songs": {}, "weather": {}}
    assert test.sessions == ()
    never_clicked = [(user, query, minute, None) for user, query, minute, _ in ROWS]
    assert drawn(log_of(duckdb_engine, never_clicked, *EVERYTHING)).clicks == test.clicks


def many(users_of_popular: int, pairs: int) -> list[Row]:
    rows: list[Row] = [(f"u{i}", f"rare {i}", 0, "r.com") for i in range(pairs)]
    return rows + [(f"v{j}", f"popular {i}", i * 60, "p.com") for i in range(pairs) for j in range(users_of_popular)]


@pytest.mark.slow
def test_the_seed_decides_and_the_size_holds(duckdb_engine: Engine) -> None:
    sessions: list[Row] = [
        (f"w{i}", f"{word} {i}", minute, None) for i in range(40) for minute, word in enumerate("ab")
    ]
    log = log_of(duckdb_engine, many(1, 50) + sessions, *EVERYTHING)
    first, again, other = (drawn(log, queries=20, sessions=10, seed=seed) for seed in (1, 1, 2))
    assert (len(first.clicks), len(first.sessions)) == (20, 10)
    assert (first.clicks, first.sessions) == (again.clicks, again.sessions)
    assert set(first.clicks) != set(other.clicks)
    assert set(first.sessions) != set(other.sessions)


def test_a_query_is_drawn_in_proportion_to_its_users(duckdb_engine: Engine) -> None:
    """Half of 2,000 queries have three users. The first 500 of the race pass a level t with 1 − (1−t)³ + t = 0.5.

    That is t = 0.1387, hence 361 popular ones on average. They are a sum of independent draws given the number drawn,
    with a deviation below 11; a false alarm at ±60 has a chance below 1e-6 over seeds, and the seed is fixed.
    """
    test = drawn(log_of(duckdb_engine, many(3, 1_000), *EVERYTHING), queries=500)
    popular = sum(query.startswith("popular") for query in test.queries)
    assert len(test.queries) == 500
    assert abs(popular - 361) < 60


@pytest.mark.parametrize("what", ["queries", "sessions"])
def test_an_empty_test_is_refused(duckdb_engine: Engine, what: str) -> None:
    with pytest.raises(InputError, match=f"at least 1 of its {what}, not 0"):
        drawn(log_of(duckdb_engine, ROWS, *EVERYTHING), **{what: 0})
