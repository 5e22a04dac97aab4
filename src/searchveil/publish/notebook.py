"""What notebooks show: HTML in which every text of a log stays a text."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pyarrow as pa

FIRST_ROWS = 10


def paragraph(text: str, *, bold: bool = False) -> str:
    shown = escape(text)
    return f"<p>{f'<strong>{shown}</strong>' if bold else shown}</p>"


def table_of(table: pa.Table) -> str:
    """Its first rows, and how many more there are."""
    rows = [[_cell(value) for value in row.values()] for row in table.slice(0, FIRST_ROWS).to_pylist()]
    more = table.num_rows - len(rows)
    return html_table(table.column_names, rows) + (paragraph(f"… and {more:,} more") if more > 0 else "")


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " → ".join(map(str, value))
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
