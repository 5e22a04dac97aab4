"""Each kind of item reads the right (user, item) rows off a log, on every engine."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import CLICK, ITEMS, KEYWORD, PAIR, QUERY, URL, Item, item_named
from searchveil.log import SearchLog

NOON = datetime(2024, 5, 1, 12)
ROWS: list[tuple[str, str, float, str | None]] = [
    # user, query, minutes after noon, url
    ("u1", "Cheap  Flights", 0, "air.example"),
    ("u1", "cheap flights", 0, "fly.example"),  # the second click of one submission
    ("u1", "CHEAP flights", 5, None),  # the same query again: no pair
    ("u1", "hotels", 10, ""),
    ("u1", "hotels", 50, "inn.example"),  # after a silence of 40 minutes: another session
    ("u1", "beach", 51, "sea.example"),
    ("u2", "   ", 0, "air.example"),  # nothing was typed
    ("u2", "Café", 1, None),
    ("u2", "hotels", 2, "inn.example"),
]


def log_of(engine: Engine, columns: Sequence[str] = ("user", "query", "time", "url")) -> SearchLog:
    users, queries, minutes, urls = zip(*ROWS, strict=True)
    table = pa.table(
        {
            "user": pa.array(users, pa.string()),
            "query": pa.array(queries, pa.string()),
            "time": pa.array([NOON + timedelta(minutes=m) for m in minutes], pa.timestamp("us")),
            "url": pa.array(urls, pa.string()),
        }
    )
    return SearchLog(engine.load(table.select(list(columns))), engine)


EXPECTED: dict[Item, set[tuple[str, ...]]] = {
    QUERY: {("u1", "cheap flights"), ("u1", "hotels"), ("u1", "beach"), ("u2", "café"), ("u2", "hotels")},
    KEYWORD: {("u1", "cheap"), ("u1", "flights"), ("u1", "hotels"), ("u1", "beach"), ("u2", "café"), ("u2", "hotels")},
    CLICK: {
        ("u1", "cheap flights", "air.example"),
        ("u1", "cheap flights", "fly.example"),
        ("u1", "hotels", "inn.example"),
        ("u1", "beach", "sea.example"),
        ("u2", "hotels", "inn.example"),
    },
    URL: {
        ("u1", "air.example"),
        ("u1", "fly.example"),
        ("u1", "inn.example"),
        ("u1", "sea.example"),
        ("u2", "air.example"),
        ("u2", "inn.example"),
    },
    PAIR: {("u1", "cheap flights", "hotels"), ("u1", "hotels", "beach"), ("u2", "café", "hotels")},
}


def test_every_registered_item_is_tested_here() -> None:
    assert set(EXPECTED) == set(ITEMS.values())


@pytest.mark.parametrize("item", EXPECTED, ids=str)
def test_the_items_of_a_log(engine: Engine, item: Item) -> None:
    table = item.of(log_of(engine))
    assert set(table.columns) == {"user", *item.columns}
    found = [tuple(row[c] for c in ("user", *item.columns)) for row in engine.fetch(table).to_pylist()]
    assert len(found) == len(set(found)), "each once"
    assert set(found) == EXPECTED[item]


@pytest.mark.parametrize(
    ("item", "missing"), [(CLICK, "url"), (URL, "url"), (PAIR, "time")], ids=lambda value: str(value)
)
def test_an_item_names_the_column_it_misses(duckdb_engine: Engine, item: Item, missing: str) -> None:
    log = log_of(duckdb_engine, ("user", "query"))
    with pytest.raises(InputError, match=f"no {missing}, which .*'{item}' needs"):
        item.check(log)
    item.check(log_of(duckdb_engine))


def test_items_are_found_by_name_and_unknown_ones_are_refused() -> None:
    assert item_named("query") is QUERY
    assert item_named(CLICK) is CLICK
    assert str(PAIR) == "pair"
    with pytest.raises(InputError, match="no item 'ngram'; there are keyword, query, pair, click, url"):
        item_named("ngram")


def test_a_log_needs_users_and_queries(duckdb_engine: Engine) -> None:
    for missing, present in (("user", "query"), ("query", "user")):
        table = duckdb_engine.load(pa.table({present: ["x"], "colour": ["red"]}))
        with pytest.raises(InputError, match=f"no column '{missing}'; it has {present}, colour"):
            SearchLog(table, duckdb_engine)


def test_a_log_knows_its_size(engine: Engine) -> None:
    log = log_of(engine)
    assert (log.users, log.rows) == (2, len(ROWS))
