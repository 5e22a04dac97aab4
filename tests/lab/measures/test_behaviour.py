"""What users do, counted by hand, and its distance."""

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.lab.measures.behaviour import Behaviour, pictures, shares, total_variation
from searchveil.lab.view import View
from searchveil.log import SearchLog

START = datetime(2024, 3, 1, 23, 0)
ROWS = [  # user, minute, query, rank
    ("a", 0, "x", 1),
    ("a", 0, "x", 3),  # a second click of the same search
    ("a", 2, "X ", None),  # the same query
    ("a", 100, "y", None),  # after midnight, in a session of its own
    ("b", 5, "x", 200),
]


def log_of(rows: list[tuple[str, int, str, int | None]], engine: Engine) -> SearchLog:
    table: dict[str, Any] = {
        "user": pa.array([row[0] for row in rows]),
        "query": pa.array([row[2] for row in rows]),
        "time": pa.array([START + timedelta(minutes=row[1]) for row in rows], pa.timestamp("us")),
        "rank": pa.array([row[3] for row in rows], pa.int64()),
        "url": pa.array([None if row[3] is None else "http://u" for row in rows], pa.string()),
    }
    return SearchLog(engine.load(pa.table(table)), engine)


def test_what_users_do(engine: Engine) -> None:
    view = View.of_log(log_of(ROWS, engine))
    assert shares(view, "session length") == pytest.approx({1: 2 / 3, 2: 1 / 3})
    assert shares(view, "sessions per user") == {1: 0.5, 2: 0.5}
    assert shares(view, "hour of day") == {0: 0.25, 23: 0.75}
    assert shares(view, "gap") == {8: 1.0}  # two minutes: from 100 seconds on
    assert shares(view, "click rank") == pytest.approx({1: 1 / 3, 3: 1 / 3, 100: 1 / 3})
    assert shares(view, "clicks per search") == {0: 0.5, 1: 0.25, 2: 0.25}
    assert shares(view, "new to user") == {0: 0.25, 1: 0.75}


@pytest.mark.slow
def test_a_log_is_at_no_distance_of_itself_and_at_some_of_another(duckdb_engine: Engine) -> None:
    view, other = (View.of_log(log_of(rows, duckdb_engine)) for rows in (ROWS, ROWS[:4]))
    assert set(Behaviour().measure(view, view).values()) == {0.0}
    assert Behaviour().measure(view, other)["sessions per user"] == 0.5


def test_total_variation() -> None:
    assert total_variation({1: 0.5, 2: 0.5}, {2: 0.25, 3: 0.75}) == 0.75


def test_a_session_by_numbers(engine: Engine) -> None:
    view = View.of_log(log_of(ROWS, engine))
    rows = {(row["user"], row["session"]): row for row in engine.fetch(view.tables["visit"]).to_pylist()}
    assert len(rows) == 3
    expected = {"searches": 2, "different": 1, "repeats": 1, "asked_before": 1, "seconds": 120, "longest_gap": 120}
    expected |= {"hour": 23, "clicks": 2, "clicked": 1, "rank": 2, "best_rank": 1, "sessions": 2, "popularity": 1}
    first, second = rows["a", 1], rows["a", 2]
    assert {name: first[name] for name in expected} == expected
    assert (second["repeats"], second["asked_before"], second["shortest_gap"], second["rank"]) == (0, 0, None, None)


@pytest.mark.slow
def test_transitions_that_both_have(duckdb_engine: Engine) -> None:
    def steps(texts: str) -> View:
        rows: list[tuple[str, int, str, int | None]] = [("a", minute, text, None) for minute, text in enumerate(texts)]
        return View.of_log(log_of(rows, duckdb_engine))

    original, release = steps("xyxyx"), steps("xyz")  # x→y and y→x twice each; x→y and y→z once each
    assert Behaviour().measure(original, release)["transition overlap"] == 0.5
    drawn = pictures(original, release)["transition overlap"]
    assert drawn == {"original": [[1, 0.5], [2, 0.5]], "release": [[1, 0.5], [2, 0.0]]}
