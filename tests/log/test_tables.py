"""A log that is in memory already: DataFrames, Arrow tables, relations of DuckDB, tables of ibis."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog, read_log

COLUMNS: dict[str, list[Any]] = {
    "user_id": ["ann", "bob", "ann"],
    "q": ["shoes", "hats", "größe 中文"],
    "timestamp": [datetime(2024, 5, 1, 10), datetime(2024, 5, 1, 11), datetime(2024, 5, 1, 12)],
    "rank": [1, 2, 3],
}


def relation(columns: dict[str, list[Any]]) -> Any:
    connection = duckdb.connect()
    connection.register("given", pa.table(columns))
    return connection.sql("select * from given")


MAKERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas, filtered": lambda columns: pd.DataFrame(columns).query("rank > 0"),
    "pandas categories": lambda columns: pd.DataFrame(columns).astype({"q": "category"}),
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "arrow reader": lambda columns: pa.table(columns).to_reader(),
    "duckdb": relation,
    "ibis": ibis.memtable,
}


def rows_of(log: SearchLog) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in log.engine.fetch(log.table).to_pylist())


@pytest.mark.parametrize("maker", MAKERS)
def test_every_table_is_the_same_log(duckdb_engine: Engine, maker: str) -> None:
    log = read_log(MAKERS[maker](COLUMNS), engine=duckdb_engine)
    expected = zip(COLUMNS["user_id"], COLUMNS["q"], COLUMNS["timestamp"], COLUMNS["rank"], strict=True)
    assert rows_of(log) == sorted(expected)
    assert (log.source, log.format, log.problems) == ("the table", "table", ())
    assert log.names["query"] == "q"


def test_names_can_be_told(duckdb_engine: Engine) -> None:
    table = pl.DataFrame({"who": ["ann"], "what": ["shoes"]})
    log = read_log(table, engine=duckdb_engine, columns={"user": "who", "query": "what"})
    assert rows_of(log) == [("ann", "shoes")]
    with pytest.raises(InputError, match="which column is it"):
        read_log(table, engine=duckdb_engine)
    with pytest.raises(InputError, match="names of its own"):
        read_log(table, engine=duckdb_engine, columns=["user", "query"])


def test_a_bad_cell_is_its_rows_matter(duckdb_engine: Engine) -> None:
    table = pd.DataFrame({"user": ["ann", None, "bob", "eve"], "query": ["x", "y", None, "z"], "rank": [1, 2, 3, 1e12]})
    log = read_log(table, engine=duckdb_engine)
    assert rows_of(log) == [("ann", "x", 1)]
    assert sum(problem.rows for problem in log.problems) == 3
    with pytest.raises(InputError, match="no user"):
        read_log(table, engine=duckdb_engine, strict=True)


def test_users_that_are_floats_are_refused(duckdb_engine: Engine) -> None:
    """A missing id makes pandas turn whole numbers into floats, and floats do not name exactly."""
    with pytest.raises(InputError, match="holds float64"):
        read_log(pd.DataFrame({"user": [1, None], "query": ["x", "y"]}), engine=duckdb_engine)


LETTERS: dict[str, list[Any]] = {"user": ["ann", "bob"], "query": ["shoes", "hats"]}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame(LETTERS | {"m": pd.period_range("2024-01", periods=2, freq="M")}), "its column 'm' holds"),
        (pd.DataFrame(LETTERS | {"m": pd.interval_range(0, 2)}), "its column 'm' holds"),
        (pa.table(LETTERS | {"m": pa.array([b"0" * 16] * 2, pa.uuid())}), "its column 'm' holds"),
        (pd.DataFrame([["ann", "a", "b"]], columns=["user", "query", "query"]), "two columns of one name"),
        (pa.table([pa.array(["a"])] * 3, names=["user", "query", "query"]), "two columns of one name"),
        (pd.DataFrame(LETTERS | {"query": ["a", "my secret \ud800"]}, dtype=object), "no Unicode"),
    ],
    ids=["period", "interval", "uuid", "pandas names", "arrow names", "surrogate"],
)
def test_tables_that_no_engine_holds_are_refused_in_one_line(duckdb_engine: Engine, table: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        read_log(table, engine=duckdb_engine)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("asked", [{"format": "csv"}, {"options": {"header": "no"}}, {"skip_lines": 1}], ids=str)
def test_what_is_for_files_is_refused_of_a_table(duckdb_engine: Engine, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"a table is read as it is: .* is for files"):
        read_log(pa.table(LETTERS), engine=duckdb_engine, **asked)
