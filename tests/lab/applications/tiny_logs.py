"""Views and test sets small enough to work out by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from searchveil.engine import Engine
from searchveil.lab.testset import TestSession, TestSet
from searchveil.lab.view import View, columns_of


def tiny_view(engine: Engine, **tables: Sequence[tuple[Any, ...]]) -> View:
    """A view from rows, for example click=[("query", "url", 3)]."""
    loaded = {}
    for name, rows in tables.items():
        kinds = {column: pa.list_(pa.string()) if column == "session" else pa.string() for column in columns_of(name)}
        columns = {**kinds, "count": pa.int64()}
        values = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [pa.array(list(column), kind) for column, kind in zip(values, columns.values(), strict=True)]
        loaded[name] = engine.stage(engine.load(pa.Table.from_arrays(arrays, names=list(columns))))
    return View(engine, loaded)


def tiny_test(
    original: View,
    *,
    clicks: Mapping[str, Mapping[str, int]] | None = None,
    sessions: Sequence[TestSession] = (),
    workload: View | None = None,
) -> TestSet:
    return TestSet(clicks or {}, tuple(sessions), workload or original, original)
