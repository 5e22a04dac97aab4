"""One release by every method and of every item, with so little noise that each must come out the same anywhere.

As a program: the options of a log, then the file for the results; it reads the log in the engine they name.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import searchveil as sv
from searchveil.cli.options import LogOptions
from searchveil.items import ITEMS

ALL: dict[str, Any] = {"epsilon": 50_000.0, "delta": 1e-6}
RELEASES: dict[str, Any] = {
    **{f"zealous {item}": (sv.Zealous, ALL | {"item": item, "per_user": 1000}) for item in ITEMS},
    "korolova": (sv.Korolova, ALL | {"counting": "users", "queries_per_user": 1000, "clicks_per_user": 1000}),
    "safelog-click": (sv.SafeLogClick, {"epsilon": 300.0, "delta": 1e-6, "transitions": True, "patterns": ("shoe",)}),
    "safelog-session": (
        sv.SafeLogSession,
        ALL | {"epsilon": 20_000.0, "sessions_per_user": 100, "queries_per_session": 3},
    ),
    "k-query": (sv.KQuery, {"k": 3}),
    "k-session": (sv.KSession, {"k": 3}),
    "k-keyword": (sv.KKeyword, {"k": 3}),
    "sampling": (sv.Sampling, {"delta": 0.5, "epsilon": 50.0}),
    "sampling, the program": (sv.Sampling, {"sampler": "poisson", "delta": 0.5, "epsilon": 2.0, "seconds": 1.0}),
}


def every_release(log: sv.SearchLog) -> dict[str, Any]:
    """Of each release, its tables as sets of rows, and what it promises."""
    results: dict[str, Any] = {}
    for name, (method, parameters) in RELEASES.items():
        # k-keyword takes a step for each character of the longest keyword.
        short = replace(log, table=log.table.mutate(query=log.table["query"].left(5)))
        made = method(**parameters).release(short if name == "k-keyword" else log)
        tables = {part: _rows(table) for part, table in made.tables.items()}
        columns = {part: table.column_names for part, table in made.tables.items()}
        promise = {key: value for key, value in made.guarantee.to_json().items() if key != "assumed_public"}
        results[name] = {"tables": tables, "columns": columns, "guarantee": promise}
    return json.loads(json.dumps(results))  # type: ignore[no-any-return]


def _rows(table: Any) -> list[str]:
    """As texts in order, without the names that are drawn for sessions."""
    return sorted(str({key: value for key, value in row.items() if key != "session"}) for row in table.to_pylist())


if __name__ == "__main__":
    path, options, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    opened = LogOptions(**options).read([path])
    Path(out).write_text(json.dumps(every_release(opened)), encoding="utf-8")
    opened.engine.close()
