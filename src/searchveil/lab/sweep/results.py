"""All that was found as one tidy table: a row for every cell and figure, with the parameters beside it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from searchveil.atomic import atomic_path
from searchveil.lab.sweep.cells import Cell, Found, shown
from searchveil.lab.sweep.experiment import COLUMNS, OF_A_RELEASE, ORIGINAL, PLANNED, Experiment
from searchveil.lab.sweep.work import Failure

Row = dict[str, Any]
SWEPT = "_swept"  # which parameters differ within the cell's table: for charts, not a column
AT = re.compile(r"@(?:1/)?([0-9.]+)")  # of nDCG@10, query@500 or recall@1/250
FIXED_TYPES: dict[str, pa.DataType] = {
    "repeat": pa.int64(),
    "at": pa.float64(),
    "value": pa.float64(),
    "original": pa.float64(),
    "guarantee_epsilon": pa.float64(),
    "guarantee_delta": pa.float64(),
    "published_rows": pa.int64(),
    "release_seconds": pa.float64(),
    "evaluation_seconds": pa.float64(),
}


@dataclass(frozen=True)
class Results:
    rows: Sequence[Row]

    @classmethod
    def gather(
        cls, cells: Sequence[Cell], found: Mapping[str, Found], failures: Iterable[Failure], experiment: Experiment
    ) -> "Results":
        original = next((found[cell.key] for cell in cells if cell.point.method == ORIGINAL and cell.key in found), {})
        scores = original.get("figures", {})
        rows = [
            row for cell in cells if cell.key in found for row in _rows_of(cell, found[cell.key], scores, experiment)
        ]
        return cls(rows + [_failed(failure) for failure in failures])

    def write(self, path: Path) -> Path:
        with atomic_path(path) as partial:
            pq.write_table(self.table(), partial, compression="zstd")
        return path

    def table(self) -> pa.Table:
        names = [name for name in dict.fromkeys([*COLUMNS, *chain.from_iterable(self.rows)]) if name != SWEPT]
        columns = {}
        for name in names:
            values = [row.get(name) for row in self.rows]
            kind = FIXED_TYPES.get(name) if name in COLUMNS else _type_of(values)
            columns[name] = pa.array(values if kind else [_text(value) for value in values], kind or pa.string())
        return pa.table(columns)


def _rows_of(cell: Cell, found: Found, original: Mapping[str, Any], experiment: Experiment) -> Iterable[Row]:
    guarantee = found.get("guarantee", {})
    beside: Row = {
        "cell": cell.key,
        "label": cell.point.label,
        "method": cell.point.method,
        "varied": cell.point.varied,
        SWEPT: cell.point.swept,
        "repeat": cell.repeat,
        **{f"guarantee_{name}": guarantee.get(name) for name in ("epsilon", "delta", "notion", "neighbours")},
        "published_rows": next(iter(found["rows"].values())) if "rows" in found else None,
        "release_seconds": found.get("release_seconds"),
        "evaluation_seconds": found.get("evaluation_seconds"),
        **found.get("parameters", {}),
        **{f"{PLANNED}{name}": value for name, value in found["figures"].get("plan", {}).items()},
    }
    for name, figures in found["figures"].items():
        kind = name if name in OF_A_RELEASE else "application" if name in experiment.applications else "measure"
        for figure, value in figures.items():
            at = AT.search(figure)
            yield {
                **beside,
                "kind": kind,
                "name": name,
                "figure": figure,
                "of": figure.partition("@")[0],
                "at": float(at[1]) if at else None,
                "value": float(value),
                "original": original.get(name, {}).get(figure) if kind == "application" else None,
            }
    for name, reason in found["skipped"].items():
        kind = "application" if name in experiment.applications else "measure"
        yield {**beside, "kind": kind, "name": name, "note": reason}


def _failed(failure: Failure) -> Row:
    cell, point = failure.cell, failure.cell.point
    beside = {"cell": cell.key, "label": point.label, "method": point.method, "varied": point.varied}
    return {**beside, "repeat": cell.repeat, **shown(point.parameters), "kind": "failure", "note": failure.reason}


def _type_of(values: Sequence[Any]) -> pa.DataType | None:
    """Of a parameter's column: methods may have different kinds of values under one name; texts hold them all."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
