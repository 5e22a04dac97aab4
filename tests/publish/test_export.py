"""A release's clicks as a graph and in the layout of ORCAS."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from searchveil.errors import InputError
from searchveil.publish.export import export_release
from searchveil.publish.release import Release
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.sampling import Sampling
from searchveil.publish.zealous import Zealous

QUERIES = pa.table({"query": ["weather", "news", "alone"], "count": [90, 80, 70]})
CLICKS = pa.table(
    {
        "query": ["weather", "weather", "news", "tab\tor \\"],
        "url": ["sun.example", "rain.example", "sun.example", "weather"],
        "count": [50, 40, 30, 20],
    }
)
TRANSITIONS = pa.table({"query": ["weather", "late"], "next": ["news", "weather"], "count": [25, 15]})


def folder_of(tmp_path: Path, format: str = "parquet", **tables: pa.Table) -> Path:
    release = Release(tables, SafeLogClick(epsilon=1, delta=1e-6).plan())
    return release.write(tmp_path / "release", format=format)


def lines_of(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            [field.replace("\\t", "\t").replace("\\\\", "\\") for field in row]
            for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def test_a_click_graph_has_every_click_and_transition_as_an_edge_between_nodes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, data=QUERIES, clicks=CLICKS, transitions=TRANSITIONS)
    rows = export_release(folder, tmp_path / "graph", "click-graph")
    assert {path.name for path in (tmp_path / "graph").iterdir()} == {"guarantee.json", "PROOF.md", *rows}
    assert set(rows) == {"nodes.tsv", "edges.tsv"}
    (names, *nodes), (edge_names, *edges) = (lines_of(tmp_path / "graph" / f"{n}.tsv") for n in ("nodes", "edges"))
    assert (names, edge_names) == (["id", "kind", "text"], ["source", "target", "kind", "count"])
    assert (len(nodes), len(edges)) == (rows["nodes.tsv"], rows["edges.tsv"]) == (7, 6)
    text = {node: (kind, name) for node, kind, name in nodes}
    assert len(text) == len(nodes), "an id is of one node; the url weather is not the query weather"
    found = {(*text[source], *text[target], kind, int(count)) for source, target, kind, count in edges}
    assert found == {
        *(("query", r["query"], "url", r["url"], "click", r["count"]) for r in CLICKS.to_pylist()),
        *(("query", r["query"], "query", r["next"], "transition", r["count"]) for r in TRANSITIONS.to_pylist()),
    }


def test_orcas_has_four_columns_no_header_and_one_id_for_each_query_and_url(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, data=QUERIES, clicks=CLICKS)
    assert export_release(folder, tmp_path / "orcas", "orcas") == {"orcas.tsv": 4}
    lines = lines_of(tmp_path / "orcas" / "orcas.tsv")
    assert [(query, url) for _, query, _, url in lines] == [(r["query"], r["url"]) for r in CLICKS.to_pylist()]
    query_ids = {query: {line[0] for line in lines if line[1] == query} for _, query, _, _ in lines}
    url_ids = {url: {line[2] for line in lines if line[3] == url} for _, _, _, url in lines}
    for ids, letter in ((query_ids, "Q"), (url_ids, "D")):
        assert all(len(some) == 1 for some in ids.values())
        assert len(set.union(*ids.values())) == len(ids) == 3
        assert all(name[0] == letter and name[1:].isdigit() for name in set.union(*ids.values()))


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_every_table_format_can_be_exported(tmp_path: Path, format: str) -> None:
    folder = folder_of(tmp_path, format, data=QUERIES, clicks=CLICKS)
    assert export_release(folder, tmp_path / "orcas", "orcas") == {"orcas.tsv": 4}
    lines = lines_of(tmp_path / "orcas" / "orcas.tsv")
    assert [(query, url) for _, query, _, url in lines] == [(r["query"], r["url"]) for r in CLICKS.to_pylist()]


def test_a_release_of_the_item_click_is_a_graph_too(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, data=CLICKS)
    assert export_release(folder, tmp_path / "graph", "click-graph") == {"nodes.tsv": 6, "edges.tsv": 4}


@pytest.mark.parametrize(
    ("layout", "files"), [("click-graph", {"nodes.tsv": 0, "edges.tsv": 0}), ("orcas", {"orcas.tsv": 0})]
)
def test_a_release_in_which_no_click_passed_gives_empty_files(tmp_path: Path, layout: str, files: Any) -> None:
    folder = folder_of(tmp_path, data=QUERIES, clicks=CLICKS.slice(0, 0))
    assert export_release(folder, tmp_path / "out", layout) == files
    heads = sum(len((tmp_path / "out" / name).read_text().splitlines()) for name in files)
    assert heads == (2 if layout == "click-graph" else 0)


def test_only_published_figures_are_in_an_export(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, data=QUERIES, clicks=CLICKS)
    export_release(folder, tmp_path / "graph", "click-graph")
    assert "alone" not in (tmp_path / "graph" / "nodes.tsv").read_text(), "a query without clicks is no node"


@pytest.mark.parametrize(
    ("tables", "format", "layout", "message"),
    [
        ({"data": QUERIES}, "parquet", "orcas", "has no published clicks"),
        ({"data": QUERIES}, "parquet", "click-graph", "has no published clicks"),
        ({"data": QUERIES, "clicks": CLICKS}, "parquet", "gml", "no layout 'gml'; there are click-graph and orcas"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_nothing(
    tmp_path: Path, tables: Any, format: str, layout: str, message: str
) -> None:
    folder = folder_of(tmp_path, format, **tables)
    with pytest.raises(InputError, match=message) as refusal:
        export_release(folder, tmp_path / "out", layout)
    assert "\n" not in str(refusal.value)
    assert {path.name for path in tmp_path.iterdir()} == {"release"}


def test_an_existing_folder_is_left_as_it_is(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, data=QUERIES, clicks=CLICKS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(InputError, match="exists already: choose another out or remove"):
        export_release(folder, tmp_path / "out", "orcas")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_folder_that_is_no_release_or_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no release folder"):
        export_release(tmp_path, tmp_path / "out", "orcas")
    folder = folder_of(tmp_path, data=QUERIES, clicks=CLICKS)
    with pytest.raises(InputError, match="cannot be written"):
        export_release(folder, tmp_path / "missing" / "out", "orcas")


@pytest.mark.parametrize("layout", ["click-graph", "orcas"])
@pytest.mark.parametrize(
    ("plan", "notion"),
    [
        (SafeLogClick(epsilon=1, delta=1e-6).plan(), "approximate"),
        (
            Zealous(1, 1e-6, item="click", notion="probabilistic").plan(500),
            "approximate",
        ),  # not closed: what it implies
        (Sampling(delta=0.5, sampler="poisson").plan(), "sampling-step"),
        (Sampling(delta=0.5, epsilon=1).plan(), "approximate"),
    ],
    ids=["approximate", "probabilistic", "sampling", "individual rates"],
)
def test_the_guarantee_goes_along_as_far_as_it_holds(tmp_path: Path, layout: str, plan: Any, notion: str) -> None:
    folder = Release({"data": CLICKS}, plan).write(tmp_path / "release")
    export_release(folder, tmp_path / "out", layout)
    record = json.loads((tmp_path / "out" / "guarantee.json").read_text())
    assert record["guarantee"] == {**plan.guarantee.to_json(), "notion": notion}
    assert (record["method"], record["exported_as"]) == (plan.method, layout)


@pytest.mark.parametrize("record", [None, "{", "{}", "[]", '{"guarantee": {"notion": "approximate"}}'])
def test_nothing_is_exported_without_a_guarantee(tmp_path: Path, record: str | None) -> None:
    folder = folder_of(tmp_path, data=CLICKS)
    (folder / "guarantee.json").unlink()
    if record is not None:
        (folder / "guarantee.json").write_text(record)
    with pytest.raises(InputError, match=r"guarantee\.json"):
        export_release(folder, tmp_path / "out", "orcas")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layout", ["orcas", "click-graph"])
def test_a_pair_that_several_users_were_drawn_for_is_one_line(tmp_path: Path, layout: str) -> None:
    rows = pa.table({"user": [1, 1, 2], "query": ["a", "b", "a"], "url": ["x", "y", "x"], "count": [2, 1, 3]})
    Release({"data": rows}, Sampling(delta=0.5, epsilon=1).plan()).write(tmp_path / "sample")
    export_release(tmp_path / "sample", tmp_path / "out", layout)
    if layout == "orcas":
        assert (tmp_path / "out" / "orcas.tsv").read_text().splitlines() == ["Q0\ta\tD0\tx", "Q1\tb\tD1\ty"]
    else:
        edges = (tmp_path / "out" / "edges.tsv").read_text().splitlines()[1:]
        assert edges == ["0\t2\tclick\t5", "1\t3\tclick\t1"]
