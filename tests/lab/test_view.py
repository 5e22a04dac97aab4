"""What can be counted of a log and of the release of every method."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.behaviour import DISTRIBUTIONS
from searchveil.lab.view import View, columns_of
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.plan import Plan, Settings
from searchveil.publish.release import Release

Row = tuple[str, str, float | None, str | None]  # user, query, minutes, url
START = datetime(2006, 3, 1)
BEHAVIOUR = {*DISTRIBUTIONS, "visit"}  # tables of what users do


def log_of(engine: Engine, rows: Sequence[Row], without: Sequence[str] = ()) -> SearchLog:
    times = [None if minute is None else START + timedelta(minutes=minute) for _, _, minute, _ in rows]
    columns: dict[str, Any] = {
        "user": pa.array([row[0] for row in rows], pa.string()),
        "query": pa.array([row[1] for row in rows], pa.string()),
        "time": pa.array(times, pa.timestamp("us")),
        "url": pa.array([row[3] for row in rows], pa.string()),
    }
    table = pa.table({name: column for name, column in columns.items() if name not in without})
    return SearchLog(engine.load(table), engine)


def release_of(**tables: pa.Table) -> Release:
    plan = Plan(
        "by-hand", "query", Settings(), Guarantee.no_differential_privacy(proof="none", caveats=("made by hand",))
    )
    return Release(tables, plan)


def counts(view: View, table: str) -> dict[Any, int]:
    """{item: count}, an item of one column bare, a session as a tuple."""
    rows = view.engine.fetch(view.tables[table])
    assert rows.schema.field("count").type == pa.int64()
    found: dict[Any, int] = {}
    for row in rows.to_pylist():
        key = [tuple(row[column]) if column == "session" else row[column] for column in columns_of(table)]
        item = key[0] if len(key) == 1 else tuple(key)
        assert item not in found, "an item has one row"
        found[item] = row["count"]
    return found


def all_counts(view: View) -> dict[str, dict[Any, int]]:
    """Of items, sessions and users; what these do is counted in measures/test_behaviour.py."""
    return {table: counts(view, table) for table in view.tables if table not in BEHAVIOUR}


ROWS: list[Row] = [
    ("ann", "New  York", 0, "ny.gov"),  # one submission with two clicks
    ("ann", "New  York", 0, "ny.com"),
    ("ann", "york york", 1, None),
    ("ann", "york york", 2, ""),
    ("ann", "pizza", 3, None),
    ("bob", "new york", 0, "ny.gov"),
    ("bob", "york york", 1, None),
    ("bob", "pizza", 60, "pizza.it"),  # in another session
    ("bob", "pizza", None, "pizza.it"),  # at an unknown time
    ("bob", "  ", 61, "void.org"),
]


def test_a_log(engine: Engine) -> None:
    view = View.of_log(log_of(engine, ROWS))
    assert all_counts(view) == {
        "user": {"ann": 5, "bob": 5},
        "query": {"new york": 2, "york york": 3, "pizza": 3},
        "keyword": {"new": 2, "york": 5, "pizza": 3},
        "transition": {("new york", "york york"): 2, ("york york", "pizza"): 1},
        "session": {("new york", "york york", "pizza"): 1, ("new york", "york york"): 1},
        "history": {
            ("ann", "new york", "ny.gov"): 1,
            ("ann", "new york", "ny.com"): 1,
            ("bob", "new york", "ny.gov"): 1,
            ("bob", "pizza", "pizza.it"): 2,
        },
        "click": {("new york", "ny.gov"): 2, ("new york", "ny.com"): 1, ("pizza", "pizza.it"): 2},
        "url": {"ny.gov": 2, "ny.com": 1, "pizza.it": 2},
    }


def test_a_log_without_times_counts_rows_and_has_no_sessions(duckdb_engine: Engine) -> None:
    view = View.of_log(log_of(duckdb_engine, ROWS, without=["time"]))
    assert counts(view, "query") == {"new york": 3, "york york": 3, "pizza": 3}
    assert not view.has("transition")
    assert not view.has("session")
    assert view.has("query", "click", "url", "history")


def test_a_log_without_urls_has_no_clicks(duckdb_engine: Engine) -> None:
    view = View.of_log(log_of(duckdb_engine, ROWS, without=["url"]))
    assert set(view.tables) - BEHAVIOUR == {"user", "query", "keyword", "transition", "session"}
    assert not view.has("query", "click")


class UnwillingError(Exception):
    pass


def test_asking_what_there_is_computes_nothing(duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    view = View.of_log(log_of(duckdb_engine, ROWS))

    def refuse(*_: object) -> None:
        raise UnwillingError

    monkeypatch.setattr(type(duckdb_engine), "stage", refuse)
    assert view.has("click", "session", "keyword")
    assert not view.has("click", "smell")
    with pytest.raises(UnwillingError):
        view.tables["query"]


def test_a_table_is_computed_once(duckdb_engine: Engine) -> None:
    view = View.of_log(log_of(duckdb_engine, ROWS))
    assert view.tables["keyword"] is view.tables["keyword"]


# --- releases of each shape -------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[dict[str, pa.Table], dict[str, dict[Any, int]]]] = {
    "queries": (
        {"data": pa.table({"query": ["a b", "b"], "count": [5, 2]})},
        {"query": {"a b": 5, "b": 2}, "keyword": {"a": 5, "b": 7}},
    ),
    "keywords": (
        {"data": pa.table({"keyword": ["a", "b"], "count": [5, 2]})},
        {"keyword": {"a": 5, "b": 2}},
    ),
    "urls": (
        {"data": pa.table({"url": ["a.org"], "count": [5]})},
        {"url": {"a.org": 5}},
    ),
    "clicks": (
        {"data": pa.table({"query": ["a", "a", "b"], "url": ["x", "y", "x"], "count": [3, 2, 1]})},
        {
            "click": {("a", "x"): 3, ("a", "y"): 2, ("b", "x"): 1},
            "query": {"a": 5, "b": 1},
            "url": {"x": 4, "y": 2},
            "keyword": {"a": 5, "b": 1},
        },
    ),
    "pairs": (
        {"data": pa.table({"query": ["a", "a"], "next": ["b", "c"], "count": [3, 2]})},
        {
            "transition": {("a", "b"): 3, ("a", "c"): 2},
            "query": {"a": 5, "b": 3, "c": 2},
            "keyword": {"a": 5, "b": 3, "c": 2},
        },
    ),
    "queries, clicks and transitions": (
        {
            "data": pa.table({"query": ["a", "b"], "count": [9, -1]}),
            "clicks": pa.table({"query": ["a"], "url": ["x"], "count": [4]}),
            "transitions": pa.table({"query": ["a"], "next": ["b"], "count": [2]}),
        },
        {
            "query": {"a": 9, "b": 0},  # not what clicks or transitions would add up to; and not less than nothing
            "click": {("a", "x"): 4},
            "transition": {("a", "b"): 2},
            "url": {"x": 4},
            "keyword": {"a": 9, "b": 0},
        },
    ),
    "subsequences of sessions": (
        {"data": pa.table({"session": [["a", "b"], ["a", "b", "c"], ["a", "c"], ["b", "c"]], "count": [5, 4, 6, 3]})},
        {
            "session": {("a", "b"): 5, ("a", "b", "c"): 4, ("a", "c"): 6, ("b", "c"): 3},
            "transition": {("a", "b"): 5, ("a", "c"): 6, ("b", "c"): 4},
            "query": {"a": 11, "b": 9, "c": 10},
            "keyword": {"a": 11, "b": 9, "c": 10},
        },
    ),
    "searches in sessions": (
        {
            "data": pa.table(
                {
                    "session": ["s", "s", "s", "s", "t", "t", "v"],
                    "position": [4, 2, 3, 1, 1, 2, 1],
                    "query": ["c", "a", "b", "a", "a", "b", "a"],
                }
            )
        },
        {
            "query": {"a": 4, "b": 2, "c": 1},
            "transition": {("a", "b"): 2, ("b", "c"): 1},
            "session": {("a", "b", "c"): 1, ("a", "b"): 1},
            "keyword": {"a": 4, "b": 2, "c": 1},
        },
    ),
    "keyword sets": (
        {"data": pa.table({"session": ["s", "t", "v"], "keywords": ["a b", "a b", "a"]})},
        {"keyword": {"a": 3, "b": 2}},
    ),
    "keywords and prefixes": (
        {"data": pa.table({"keyword": ["a", "b*"], "generalised": [False, True], "count": [7, 9]})},
        {"keyword": {"a": 7}},
    ),
    "a sample": (
        {"data": pa.table({"user": ["1", "2"], "query": ["a", "a"], "url": ["x", "x"], "count": [3, 2]})},
        {
            "history": {("1", "a", "x"): 3, ("2", "a", "x"): 2},
            "user": {"1": 3, "2": 2},
            "click": {("a", "x"): 5},
            "query": {"a": 5},
            "url": {"x": 5},
            "keyword": {"a": 5},
        },
    ),
    "something else": ({"data": pa.table({"smell": ["rose"], "count": [1]})}, {}),
}
each_shape = pytest.mark.parametrize(("tables", "expected"), SHAPES.values(), ids=SHAPES)


@each_shape
def test_a_release_of_each_shape(
    duckdb_engine: Engine, tables: Mapping[str, pa.Table], expected: dict[str, dict[Any, int]]
) -> None:
    view = View.of_release(release_of(**tables), duckdb_engine)
    assert all_counts(view) == expected


@pytest.mark.spark
def test_releases_on_spark(spark_engine: Engine) -> None:
    """The shapes that need more than sums."""
    for shape in ("subsequences of sessions", "searches in sessions", "keywords and prefixes"):
        tables, expected = SHAPES[shape]
        assert all_counts(View.of_release(release_of(**tables), spark_engine)) == expected, shape


@each_shape
@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
def test_a_folder_says_what_the_release_said(
    duckdb_engine: Engine,
    tmp_path: Path,
    tables: Mapping[str, pa.Table],
    expected: dict[str, dict[Any, int]],
    format: str,
) -> None:
    folder = release_of(**tables).write(tmp_path / "out", format=format)
    assert all_counts(View.of_release(folder, duckdb_engine)) == expected


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_texts_survive_the_formats_that_need_escapes(duckdb_engine: Engine, tmp_path: Path, format: str) -> None:
    texts = ["tab\there", "line\nbreak\r", 'quote "this", please', "back\\slash \\t \\N", "007", "null", "\\N", "äé ☂"]
    table = pa.table({"query": texts, "count": list(range(len(texts)))})
    folder = release_of(data=table).write(tmp_path / "out", format=format)
    view = View.of_release(folder, duckdb_engine)
    assert counts(view, "query") == dict(zip(texts, range(len(texts)), strict=True))


@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
def test_an_empty_release_is_a_view_of_nothing(duckdb_engine: Engine, tmp_path: Path, format: str) -> None:
    empty = pa.table({"query": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    folder = release_of(data=empty).write(tmp_path / "out", format=format)
    view = View.of_release(str(folder), duckdb_engine)
    assert all_counts(view) == {"query": {}, "keyword": {}}


def test_what_is_no_release_folder_is_refused(duckdb_engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no release folder"):
        View.of_release(tmp_path, duckdb_engine)
    (tmp_path / "guarantee.json").write_text("[]")
    with pytest.raises(InputError, match="does not name the files"):
        View.of_release(tmp_path, duckdb_engine)
    (tmp_path / "guarantee.json").write_text("{")
    with pytest.raises(InputError, match="no release folder"):
        View.of_release(tmp_path, duckdb_engine)


def test_a_folder_that_was_tampered_with_is_refused(duckdb_engine: Engine, tmp_path: Path) -> None:
    table = pa.table({"session": [["a", "b"]], "count": [3]})
    folder = release_of(data=table).write(tmp_path / "out", format="tsv")
    record = json.loads((folder / "guarantee.json").read_text())
    for wrong in (
        "session\tcount\nno list\t3\n",
        "session\tcount\n[]\n",
        "session\tcount\n[]\tmany\n",
        "session\t\\x\n",
    ):
        (folder / "data.tsv").write_text(wrong)
        with pytest.raises(InputError, match="is not the file that was released"):
            View.of_release(folder, duckdb_engine)
        record["files"]["data.tsv"]["sha256"] = hashlib.sha256(wrong.encode()).hexdigest()
        (folder / "guarantee.json").write_text(json.dumps(record))
        with pytest.raises(InputError, match="is not as it was written"):
            View.of_release(folder, duckdb_engine)
    (folder / "data.tsv").unlink()
    with pytest.raises(InputError, match="is missing"):
        View.of_release(folder, duckdb_engine)
    (folder / "data.ods").touch()
    empty = {"data.ods": {"sha256": hashlib.sha256(b"").hexdigest(), "rows": 0}}
    (folder / "guarantee.json").write_text(json.dumps(record | {"files": empty}))
    with pytest.raises(InputError, match=r"no format of a release; there are \.parquet, \.csv, \.tsv"):
        View.of_release(folder, duckdb_engine)


# --- against a plain count in Python ----------------------------------------------------------------------------------

rows = st.tuples(
    st.sampled_from(["ann", "bob"]),
    st.sampled_from(["a", "A", "b a", "b  a ", "c", " "]),
    st.one_of(st.none(), st.integers(0, 90).map(float)),
    st.sampled_from([None, "", "x", "y"]),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows, min_size=1, max_size=14))
def test_a_log_is_counted_as_one_would_by_hand(duckdb_engine: Engine, rows: list[Row]) -> None:
    view = View.of_log(log_of(duckdb_engine, rows))
    normal = [(user, " ".join(query.lower().split()), minute, url) for user, query, minute, url in rows]
    searches = {(user, query, minute) for user, query, minute, _ in normal if query}
    clicks = [(user, query, url) for user, query, _, url in normal if query and url]
    sessions = []
    for user in ("ann", "bob"):
        last = None
        for _, minute, query in sorted(
            (user, minute, q) for who, q, minute in searches if who == user and minute is not None
        ):
            if last is None or minute > last + 30:
                sessions.append([query])
            elif sessions[-1][-1] != query:
                sessions[-1].append(query)
            last = minute
    assert counts(view, "query") == Counter(query for _, query, _ in searches)
    assert counts(view, "keyword") == Counter(word for _, query, _ in searches for word in set(query.split()))
    assert counts(view, "history") == Counter(clicks)
    assert counts(view, "click") == Counter((query, url) for _, query, url in clicks)
    assert counts(view, "transition") == Counter(pair for session in sessions for pair in pairwise(session))
    assert counts(view, "session") == Counter(tuple(session) for session in sessions if len(session) > 1)
