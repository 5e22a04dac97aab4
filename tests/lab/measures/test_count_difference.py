"""The average count difference after rescaling."""

import pytest
from tiny import views_of_queries

from searchveil.engine import Engine
from searchveil.lab.measures.count_difference import CountDifference


def test_rescaled_to_the_originals_total(duckdb_engine: Engine) -> None:
    """16 searches against 8: the release counts double. a: |8 − 10|, b: |4 − 0|, c: |2 − 2|, d: |2 − 0|."""
    views = views_of_queries(duckdb_engine, {"a": 8, "b": 4, "c": 2, "d": 2}, {"a": 5, "c": 1, "of a pool": 2})
    figures = CountDifference().measure(*views)
    assert figures["query"] == pytest.approx((2 + 4 + 0 + 2) / 4)
    assert figures["query.relative"] == pytest.approx(8 / 16)


def test_a_faithful_copy_and_nothing(duckdb_engine: Engine) -> None:
    original = {"a": 3, "b": 1}
    faithful = CountDifference().measure(*views_of_queries(duckdb_engine, original, {"a": 30, "b": 10}))
    assert faithful["query"] == pytest.approx(0, abs=1e-12)
    nothing = CountDifference().measure(*views_of_queries(duckdb_engine, original, {}))
    assert (nothing["query"], nothing["query.relative"]) == (2, 1)
