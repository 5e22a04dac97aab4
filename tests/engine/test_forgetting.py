"""What is staged for a while is given back."""

import ibis
import pytest

from searchveil.engine import Engine


def test_tables_staged_inside_are_gone_and_others_stay(duckdb_engine: Engine) -> None:
    kept = duckdb_engine.stage(ibis.memtable({"a": [1]}))
    with duckdb_engine.forgetting_staged():
        inside = duckdb_engine.stage(kept.mutate(b=kept["a"] + 1))
        assert duckdb_engine.value(inside["b"].sum()) == 2
    later = duckdb_engine.stage(kept)
    assert duckdb_engine.value(later["a"].sum()) == 1
    with pytest.raises(Exception, match="does not exist"):
        duckdb_engine.fetch(inside)


def test_one_table_is_given_back(duckdb_engine: Engine) -> None:
    first = duckdb_engine.stage(ibis.memtable({"a": [1]}))
    second = duckdb_engine.stage(first.mutate(b=first["a"] + 1))
    duckdb_engine.forget(first)
    assert duckdb_engine.value(second["b"].sum()) == 2
    with pytest.raises(Exception, match="does not exist"):
        duckdb_engine.fetch(first)
