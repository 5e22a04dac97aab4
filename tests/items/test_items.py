"""Each kind of item reads the right (user, item) rows off a log, on every engine."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.items import CLICK, ITEMS, KEYWORD, PAIR, QUERY, URL, Item, item_named
from searchveil.log import SearchLog, normalize
from searchveil.log.normalize import AS_TYPED, USUAL, Normalization
from searchveil.privacy.contributions import bound_contributions

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
    with pytest.raises(InputError, match="no item 'ngram'; there are query, keyword, click, url, pair"):
        item_named("ngram")


def test_a_log_needs_users_and_queries(duckdb_engine: Engine) -> None:
    for missing, present in (("user", "query"), ("query", "user")):
        table = duckdb_engine.load(pa.table({present: ["x"], "colour": ["red"]}))
        with pytest.raises(InputError, match=f"no column '{missing}'; it has {present}, colour"):
            SearchLog(table, duckdb_engine)


def test_a_log_knows_its_size(engine: Engine) -> None:
    log = log_of(engine)
    assert (log.users, log.rows) == (2, len(ROWS))


def typed(rows: Sequence[tuple[str, str, float]], engine: Engine, normalization: Normalization = USUAL) -> SearchLog:
    """A log of (user, query, minutes after noon)."""
    columns: dict[str, pa.Array[Any]] = {
        "user": pa.array([user for user, _, _ in rows], pa.string()),
        "query": pa.array([query for _, query, _ in rows], pa.string()),
        "time": pa.array([NOON + timedelta(minutes=minute) for _, _, minute in rows], pa.timestamp("us")),
    }
    return SearchLog(engine.load(pa.table(columns)), engine, normalization)


SEARCHES = st.tuples(
    st.sampled_from(["u1", "u2"]),
    st.sampled_from(["a", "A", "b", "c d", " c  d", " ", "\u3000", "é", "!"]),
    st.sampled_from([0, 0, 1, 30, 31, 61, 62, 90]),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SEARCHES, max_size=12))
def test_pairs_are_those_of_sessions_worked_out_by_hand(
    duckdb_engine: Engine, rows: list[tuple[str, str, float]]
) -> None:
    """Rows of the same moment stand in the order of their queries; one of nothing keeps no session together."""
    expected: list[tuple[str, str, str]] = []
    for user in ("u1", "u2"):
        searches = {(minute, USUAL.apply_to_text(query)) for who, query, minute in rows if who == user}
        for (before, query), (after, following) in pairwise(sorted(search for search in searches if search[1])):
            if after - before <= 30 and query != following:
                expected.append((user, query, following))
    found = duckdb_engine.fetch(PAIR.rows(typed(rows, duckdb_engine))).to_pylist()
    assert sorted((row["user"], row["query"], row["next"]) for row in found) == sorted(expected)


@pytest.mark.parametrize("normalization", [USUAL, AS_TYPED, Normalization(punctuation=True)], ids=str)
def test_keywords_are_what_stands_between_white_space(engine: Engine, normalization: Normalization) -> None:
    queries = ["one", " two  three ", "four\tfive", "six\u3000seven", "eight, nine", "!", " ", ""]
    expected = {word for query in queries for word in re.split(r"[ \t]+", normalization.apply_to_text(query)) if word}
    log = typed([("u", query, 0) for query in queries], engine, normalization)
    assert {row["keyword"] for row in engine.fetch(KEYWORD.of(log)).to_pylist()} == expected


@pytest.mark.parametrize("item", [KEYWORD, PAIR], ids=str)
def test_no_text_is_normalised_again_for_the_second_pass(item: Item, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing a user's items reads them twice; what they are made of would cost more than the whole release."""
    seen: Counter[str] = Counter()

    def counting(*options: bool) -> Callable[[str], str]:
        def normal_form(text: str) -> str:
            seen[text] += 1
            return text.lower()

        return normal_form

    normalize._in_engine.cache_clear()
    monkeypatch.setattr(normalize, "_normalizer", counting)
    engine = open_engine()
    try:
        log = typed([("u", "Café One", 0), ("u", "Café Two", 1), ("u", "Café Three", 2)], engine)
        engine.fetch(bound_contributions(item.rows(log), item.columns, 5, 1, engine))
    finally:
        engine.close()
        normalize._in_engine.cache_clear()
    assert seen == {"Café One": 1, "Café Two": 1, "Café Three": 1}
