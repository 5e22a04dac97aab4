"""Tables for a terminal: aligned columns, numbers to the right, long texts cut; the same when piped."""

from collections.abc import Sequence
from typing import Any

from searchveil.errors import printable

WIDEST = 60  # characters of a text


def as_text(table: Any) -> str:
    """An Arrow table; texts of strangers cannot write to the terminal."""
    rows = [[_cell(value) for value in row.values()] for row in table.to_pylist()]
    return as_lines(table.column_names, rows)


def as_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(rows) and all(_is_figure(cell) for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        ]
        return "  " + "  ".join(aligned).rstrip()

    return "\n".join(map(line, (header, *rows)))


def _is_figure(cell: str) -> bool:
    return cell in ("–", "") or cell.replace(",", "").replace(".", "").replace("%", "").strip(" -").isdigit()


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, list):
        value = " → ".join(map(str, value))
    text = printable(str(value))
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
