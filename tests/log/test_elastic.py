"""Searches and clicks that Elasticsearch or OpenSearch recorded."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from searchveil.engine import Engine
from searchveil.log import SearchLog, read_log


def event(action: str | None, user: Any, query: Any, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"@timestamp": "2024-05-01T10:00:00.000Z", "session": {"id": f"s-{user}"}, **more}
    found |= {"event": {"action": action}} if action else {}
    return found | {"user": {"id": user}, "search": {"query": query}}


def flat(value: dict[str, Any]) -> dict[str, Any]:
    parts = ((key, inner) if isinstance(inner, dict) else (key, {None: inner}) for key, inner in value.items())
    return {key if name is None else f"{key}.{name}": one for key, inner in parts for name, one in inner.items()}


EVENTS = [
    event("search", "ann", "shoes"),
    event("search_click", "ann", "shoes", document={"id": "d1"}),
    event("pageview", "ann", None),
    event(None, "bob", "hats"),
]
ROWS = [("ann", "shoes", None), ("ann", "shoes", "d1"), ("bob", "hats", None)]


def put(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def rows_of(log: SearchLog) -> list[tuple[Any, ...]]:
    rows = log.engine.fetch(log.table).to_pylist()
    assert {row["time"] for row in rows} == {datetime(2024, 5, 1, 10)}
    return sorted(((row["user"], row["query"], row["url"]) for row in rows), key=str)


def answered(value: dict[str, Any]) -> dict[str, Any]:
    return {"_index": "logs", "_source": value}


@pytest.mark.parametrize("shape", [dict, flat, answered, lambda value: answered(flat(value))])
def test_nested_flat_and_as_a_search_answers(tmp_path: Path, duckdb_engine: Engine, shape: Any) -> None:
    log = read_log(put(tmp_path / "events.ndjson", *map(shape, EVENTS)), engine=duckdb_engine)
    assert rows_of(log) == sorted(ROWS, key=str)
    assert (log.format, log.unit) == ("elastic", "user")
    assert [(problem.rows, "no search" in problem.reason) for problem in log.problems] == [(1, True)]


def test_sessions_are_said_to_be_sessions(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "e.ndjson", *EVENTS), engine=duckdb_engine, options={"user": "session.id"})
    assert log.unit == "session"
    assert {row[0] for row in rows_of(log)} == {"s-ann", "s-bob"}


def test_a_bad_event_is_its_own_matter(tmp_path: Path, duckdb_engine: Engine) -> None:
    bad = [
        event("search", None, "x"),
        event("search", "eve", None),
        event("search", "eve", "x") | {"@timestamp": "never"},
        event("search", "e\0ve", "x"),
        event(["search"], "eve", "x"),  # type: ignore[arg-type]
        "{broken",
        "[1]",
    ]
    log = read_log(put(tmp_path / "e.ndjson", *bad, *EVENTS), engine=duckdb_engine, format="elastic")
    assert rows_of(log) == sorted(ROWS, key=str)
    assert sum(problem.rows for problem in log.problems) == len(bad) + 1


@pytest.mark.parametrize("source", [None, 7, "text", []])
def test_a_source_that_is_no_object_is_its_own_matter(tmp_path: Path, duckdb_engine: Engine, source: Any) -> None:
    path = put(tmp_path / "e.ndjson", EVENTS[0] | {"_source": source}, *EVENTS[1:])
    log = read_log(path, engine=duckdb_engine)
    assert (log.format, rows_of(log)) == ("elastic", sorted(ROWS, key=str))
    other = put(tmp_path / "other.jsonl", {"user": "ann", "query": "shoes", "_source": source})
    assert read_log(other, engine=duckdb_engine).format == "jsonl"
