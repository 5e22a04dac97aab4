"""A release in the shapes other tools read: a click graph as node and edge lists, and the columns of ORCAS.

Post-processing of what is published already: its guarantee goes along, less what post-processing does not keep.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from searchveil.atomic import atomic_path
from searchveil.errors import InputError, setting
from searchveil.publish.folder import write_tsv
from searchveil.publish.release import Release

LAYOUTS = ("click-graph", "orcas")


def export_release(folder: Path, out: Path, layout: str) -> dict[str, int]:
    """Write the layout's files into the new folder `out`, completely or not at all; return the rows of each table."""
    if layout not in LAYOUTS:
        raise InputError(f"no layout '{layout}'; there are {' and '.join(LAYOUTS)}")
    if out.exists():
        raise InputError(
            f"{out} exists already: choose another " + setting("out") + " or remove it first", parameter="out"
        )
    release = Release.read(folder)
    tables = release.tables
    clicks = tables.get("clicks", release.table)
    if not {"query", "url", "count"} <= set(clicks.column_names):
        raise InputError(f"{folder} has no published clicks; release the item click, or a method with clicks")
    clicks = _pair_by_pair(clicks)
    files = {"orcas.tsv": orcas(clicks)} if layout == "orcas" else click_graph(clicks, tables.get("transitions"))
    record = _guarantee(release, layout)
    try:
        with atomic_path(out) as partial:
            partial.mkdir()
            (partial / "guarantee.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", "utf-8")
            for name in record.get("proof", {}):
                shutil.copyfile(folder / name, partial / name)
            for name, table in files.items():
                with (partial / name).open("xb") as file:
                    write_tsv(table, file, header=layout != "orcas")  # ORCAS has none
    except OSError as problem:
        raise InputError(f"{out} cannot be written: {problem.strerror or problem}") from problem
    return {name: table.num_rows for name, table in files.items()}


def _pair_by_pair(clicks: pa.Table) -> pa.Table:
    """Each pair of query and url once. A sample has a row for each user of a pair, and neither layout knows users."""
    sums: dict[tuple[str, str], int] = {}
    for row in clicks.to_pylist():
        pair = row["query"], row["url"]
        sums[pair] = sums.get(pair, 0) + row["count"]
    return _columns(("query", "url", "count"), [(*pair, count) for pair, count in sums.items()])


def click_graph(clicks: pa.Table, transitions: pa.Table | None = None) -> dict[str, pa.Table]:
    """nodes.tsv (id, kind, text) and edges.tsv (source, target, kind, count): queries click urls or follow queries."""
    follow = transitions.to_pylist() if transitions is not None else []
    queries = {row["query"] for row in (*clicks.to_pylist(), *follow)} | {row["next"] for row in follow}
    urls = {row["url"] for row in clicks.to_pylist()}
    nodes = [*(("query", text) for text in sorted(queries)), *(("url", text) for text in sorted(urls))]
    number = {node: i for i, node in enumerate(nodes)}
    edges: list[tuple[object, ...]] = []
    for row in clicks.to_pylist():
        edges.append((number["query", row["query"]], number["url", row["url"]], "click", row["count"]))
    for row in follow:
        edges.append((number["query", row["query"]], number["query", row["next"]], "transition", row["count"]))
    return {
        "nodes.tsv": _columns(("id", "kind", "text"), [(i, kind, text) for i, (kind, text) in enumerate(nodes)]),
        "edges.tsv": _columns(("source", "target", "kind", "count"), edges),
    }


def orcas(clicks: pa.Table) -> pa.Table:
    """qid, query, did, url: one line for each published click pair; ORCAS has no counts."""
    rows = clicks.to_pylist()
    queries = {text: f"Q{i}" for i, text in enumerate(sorted({row["query"] for row in rows}))}
    documents = {text: f"D{i}" for i, text in enumerate(sorted({row["url"] for row in rows}))}
    lines: list[tuple[object, ...]] = [(queries[r["query"]], r["query"], documents[r["url"]], r["url"]) for r in rows]
    return _columns(("qid", "query", "did", "url"), lines)


def _guarantee(release: Release, layout: str) -> dict[str, Any]:
    """The release's record. The probabilistic notion becomes the (ε,δ)-differential privacy that it implies."""
    assert release.record is not None
    promise = release.guarantee
    if promise.notion == "probabilistic":
        promise = replace(promise, notion="approximate")
    return {**release.record.written, "guarantee": promise.to_json(), "exported_as": layout}


def _columns(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    values = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pa.table({name: list(column) for name, column in zip(names, values, strict=True)})
