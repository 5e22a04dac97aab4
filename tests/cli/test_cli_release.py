"""`searchveil release` for every method, item and table format, as a script sees it."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commandline import PLENTY, SCRATCH, crowd_log, demo_log, everything_in, run, succeed

FOLDER = {"README.md", "PROOF.md", "croissant.json", "deployment.yaml", "guarantee.json"}
GUARANTEE = {"notion", "epsilon", "delta", "unit", "neighbours", "assumed_public", "unprotected", "caveats"}
ZEALOUS = {"per_user", "noise_scale", "first_threshold", "second_threshold"}


def release(folder: Path, log: Path, *arguments: str) -> dict[str, Any]:
    """Release to `out` and check what every release has in common."""
    outcome = run(folder, "release", log, *arguments, "--out", "out", "--json")
    assert outcome.code == 0, outcome.err
    if "spark" not in arguments:  # Java itself says what it does
        assert outcome.said == []
    told: dict[str, Any] = outcome.json
    known = {"method", "item", "counts", "parameters", "guarantee", "rows", "out"}
    assert set(told) - {"noise_below", "words"} == known
    assert set(told["guarantee"]) - {"proof", "trust"} == GUARANTEE
    assert told["out"] == "out"
    assert outcome.err.startswith("… reading the log\n")
    assert {path.name for path in (folder / "out").iterdir()} - {"clicks.parquet"} == FOLDER | {"data.parquet"}
    written = json.loads((folder / "out" / "guarantee.json").read_text(encoding="utf-8"))
    for name in ("method", "item", "parameters", "guarantee"):
        assert written[name] == told[name]
    assert written["files"]["data.parquet"]["rows"] == told["rows"] == data(folder).num_rows
    assert list((folder / SCRATCH).iterdir()) == []
    return told


def data(folder: Path) -> pa.Table:
    return pq.read_table(folder / "out" / "data.parquet")


@pytest.mark.parametrize(
    ("item", "columns"),
    [
        ("keyword", ["keyword"]),
        ("query", ["query"]),
        ("pair", ["query", "next"]),
        ("click", ["query", "url"]),
        ("url", ["url"]),
    ],
)
def test_zealous_of_every_item(tmp_path: Path, item: str, columns: list[str]) -> None:
    asked = ("--method", "zealous", "--item", item, "--epsilon", "50000", "--delta", "1e-6", "--per-user", "1000")
    told = release(tmp_path, demo_log(), *asked)
    assert (told["method"], told["item"]) == ("zealous", item)
    assert set(told["parameters"]) == ZEALOUS
    assert told["parameters"]["noise_scale"] == 0.02
    table = data(tmp_path)
    assert table.column_names == [*columns, "count"]
    assert table.schema.field("count").type == pa.int64()
    assert table.num_rows > 0
    counts: list[Any] = table["count"].to_pylist()
    assert min(counts) >= told["parameters"]["second_threshold"]


def test_what_a_crowd_shares_comes_out_and_what_one_holds_does_not(tmp_path: Path) -> None:
    log = crowd_log(tmp_path, users=400, queries=3)
    log.write_text(log.read_text(encoding="utf-8") + "7,my own secret\n", encoding="utf-8")
    told = release(tmp_path, log, "--method", "zealous", "--epsilon", "1", "--delta", "1e-6", "--per-user", "4")
    assert told["parameters"] == {"per_user": 4, "noise_scale": 4.0, "first_threshold": 1, "second_threshold": 60}
    counts = dict(zip(*data(tmp_path).to_pydict().values(), strict=True))
    assert set(counts) == {"00000000", "00000001", "00000002"}
    assert all(300 < count < 500 for count in counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["probabilistic", "indistinguishable"])
def test_zealous_as_published(tmp_path: Path, notion: str) -> None:
    told = release(tmp_path, demo_log(), *PLENTY, "--notion", notion)
    assert (told["guarantee"]["notion"], told["guarantee"]["neighbours"]) == (notion, "replace-one")
    extra = {"users", "choice_seed"} if notion == "probabilistic" else set()
    assert set(told["parameters"]) == ZEALOUS | extra
    assert told["rows"] > 0


@pytest.mark.parametrize("variant", ["exact", "published"])
def test_korolova(tmp_path: Path, variant: str) -> None:
    told = release(tmp_path, demo_log(), *PLENTY, "--method", "korolova", "--variant", variant)
    assert (told["method"], told["item"]) == ("korolova", "query")
    assert (told["guarantee"]["notion"], told["guarantee"]["neighbours"]) == ("approximate", "add-remove")
    assert data(tmp_path).column_names == ["query", "count"]
    assert told["rows"] > 0


@pytest.mark.slow
def test_korolova_with_clicks_on_public_urls(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{user},news,2024-01-01 10:00:00,1,http://news.example" for user in range(40)]
    log.write_text("\n".join(["user,query,time,rank,url", *rows]) + "\n", encoding="utf-8")
    public = "query,url\nnews,http://news.example\nnews,http://nobody.example\nother,http://other.example\n"
    (tmp_path / "public.csv").write_text(public, encoding="utf-8")
    told = release(tmp_path, log, *PLENTY, "--method", "korolova", "--candidates", "public.csv")
    assert "the candidate urls of every query" in told["guarantee"]["assumed_public"]
    clicks = pq.read_table(tmp_path / "out" / "clicks.parquet").to_pylist()
    assert {"query": "news", "url": "http://news.example", "count": 40} in clicks
    assert {row["query"] for row in clicks} == {"news"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "item", "columns"),
    [
        ("k-query", "query", ["session", "position", "query"]),
        ("k-session", "session", ["session", "keywords"]),
        ("k-keyword", "keyword", ["keyword", "generalised", "count"]),
    ],
)
def test_k_anonymity_is_labelled_as_no_privacy(tmp_path: Path, method: str, item: str, columns: list[str]) -> None:
    told = release(tmp_path, demo_log(), "--method", method, "--k", "3")
    assert (told["item"], told["parameters"]) == (item, {"k": 3})
    assert (told["guarantee"]["notion"], told["guarantee"]["epsilon"]) == ("none", None)
    assert told["guarantee"]["caveats"]
    assert data(tmp_path).column_names == columns
    assert told["rows"] > 0
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "not differential" in card.lower() or "no differential privacy" in card.lower()


@pytest.mark.slow
@pytest.mark.parametrize("table", ["csv", "tsv"])
def test_tables_as_text(tmp_path: Path, table: str) -> None:
    log = crowd_log(tmp_path)
    told = succeed(tmp_path, "release", log, *PLENTY, "--table", table, "--out", "out", "--json").json
    assert {path.name for path in (tmp_path / "out").iterdir()} == FOLDER | {f"data.{table}"}
    with (tmp_path / "out" / f"data.{table}").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, delimiter="," if table == "csv" else "\t")
    assert header == ["query", "count"]
    assert len(rows) == told["rows"] == 5
    assert sorted(rows) == [[f"{number:08x}", "4"] for number in range(5)]


@pytest.mark.slow
def test_people_read_the_guarantee_and_where_it_lies(tmp_path: Path) -> None:
    outcome = succeed(tmp_path, "release", crowd_log(tmp_path), *PLENTY, "--out", "out")
    assert "zealous, item query\n" in outcome.out
    assert "The release is (100, 1e-06)-differentially private" in outcome.out
    assert outcome.out.endswith("5 rows in out (start with its README.md)\n")
    assert everything_in(tmp_path / "out") == FOLDER | {"data.parquet"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "ways"),
    [
        (("zealous",), "More users, a larger --epsilon or --delta, fewer items per user or a coarser --item let"),
        (("synthetic", "--tail", "omit"), "More users or a larger --epsilon or --delta let more pass"),
    ],
    ids=["zealous", "synthetic"],
)
def test_an_empty_release_advises_what_the_method_has(tmp_path: Path, method: tuple[str, ...], ways: str) -> None:
    how = ("--method", *method, "--epsilon", "0.5", "--delta", "1e-9", "--out", "out")
    told = succeed(tmp_path, "release", crowd_log(tmp_path), *how).out
    assert "0 rows in out" in told
    assert f"nothing was common enough to be published. {ways}" in told


@pytest.mark.slow
def test_bad_rows_are_told_to_the_publisher_and_kept_from_the_readers(tmp_path: Path) -> None:
    log = crowd_log(tmp_path)
    log.write_text(log.read_text(encoding="utf-8") + "1,too,many\n", encoding="utf-8")
    for json_or_not in ((), ("--json",)):
        outcome = run(tmp_path, "release", log, *PLENTY, "--out", f"out{len(json_or_not)}", *json_or_not)
        assert outcome.code == 0
        assert "too" not in outcome.out
        assert len(outcome.said) == 1, "1 row was left out, and the publisher must hear of it"
        assert outcome.said[0].startswith("searchveil: left out 1 row: ")
        assert "crowd.csv:22" in outcome.said[0]


@pytest.mark.slow
def test_the_same_log_from_three_layouts(tmp_path: Path) -> None:
    parameters = []
    for number, suffix in enumerate((".tsv", ".tsv.gz", ".parquet")):
        log = demo_log(250, suffix)
        asked = (*PLENTY, "--notion", "probabilistic", "--out", f"out{number}", "--json")
        told = succeed(tmp_path, "release", log, *asked).json
        told["parameters"].pop("choice_seed")
        parameters.append(told["parameters"])
        assert told["rows"] > 0
    assert parameters[0] == parameters[1] == parameters[2]
    assert parameters[0]["users"] == 250


@pytest.mark.spark
@pytest.mark.slow
def test_spark_makes_the_same_release(tmp_path: Path) -> None:
    """So many items a user that none is left out, and so little noise that every draw of it is 0."""
    asked = ("--method", "zealous", "--epsilon", "50000", "--delta", "1e-6", "--per-user", "1000")
    here = release(tmp_path, demo_log(), *asked)
    of_duckdb = data(tmp_path)
    (tmp_path / "out").rename(tmp_path / "of-duckdb")
    there = release(tmp_path, demo_log(), *asked, "--engine", "spark", "--master", "local[2]")
    (more,) = set(there["guarantee"]["assumed_public"]) - set(here["guarantee"]["assumed_public"])
    assert more == "that every line fits into the memory of a Spark worker"
    there["guarantee"]["assumed_public"].remove(more)
    assert there == here
    assert there["rows"] > 50
    assert data(tmp_path).equals(of_duckdb)
