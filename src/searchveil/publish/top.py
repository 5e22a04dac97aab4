"""The rows of a release that people look at first."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

COUNTED = ("count", "score", "draws")  # columns of numbers, the first that a table has is its order


def top_rows(table: pa.Table, search: str | None) -> pa.Table:
    """The rows that hold a text, by their counts where they have any."""
    if search is not None:
        wanted = search.casefold()
        texts = [name for name in table.column_names if _is_text(table[name].type)]
        held = [any(wanted in str(row[name] or "").casefold() for name in texts) for row in table.to_pylist()]
        table = table.filter(pa.array(held, pa.bool_()))
    order = next((name for name in COUNTED if name in table.column_names), None)
    if order is None:
        return table
    return table.take(pc.sort_indices(table, [(order, "descending")]))  # stable: equal counts stay as published


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_list(kind))
