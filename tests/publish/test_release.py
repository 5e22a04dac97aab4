"""Release.read: the one way a release folder is read back."""

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import searchveil as sv
from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.release import Release
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.sampling import Sampling
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

QUERIES = pa.table({"query": ["weather", 'tab\t"quote"\n', "007"], "count": [90, 80, 70]})
CLICKS = pa.table({"query": ["weather"], "url": ["sun.example"], "count": [50]})
TABLES: Mapping[str, tuple[Mechanism, dict[str, pa.Table]]] = {
    "two tables": (SafeLogClick(epsilon=1, delta=1e-6), {"data": QUERIES, "clicks": CLICKS}),
    "lists": (SafeLogSession(epsilon=1, delta=1e-6), {"data": pa.table({"session": [["a", "b"]], "count": [9]})}),
    "scores": (
        Weighted(1, 1e-6, counts="score"),
        {"data": pa.table({"query": ["a", "b"], "score": [31.25, 30.5]})},
    ),
    "rates": (
        Sampling(delta=0.5, sampler="poisson"),
        {
            "data": pa.table({"query": ["a"], "url": ["u"], "count": [2]}),
            "rates": pa.table({"query": ["a"], "url": ["u"], "draws": [1.5]}),
        },
    ),
}


def changed(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "guarantee.json"
    record = json.loads(path.read_text()) | change
    path.write_text(json.dumps({name: value for name, value in record.items() if value is not None}))


@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
@pytest.mark.parametrize("name", TABLES)
def test_what_was_written_is_read_back(name: str, format: str, tmp_path: Path, duckdb_engine: Engine) -> None:
    mechanism, tables = TABLES[name]
    written = Release(tables, replace(mechanism.plan(500), advice="Try more users."))
    folder = written.write(tmp_path / "out", format=format)
    read = sv.Release.read(str(folder))
    assert list(read.tables) == list(tables)
    assert {name: table.to_pydict() for name, table in read.tables.items()} == {
        name: table.to_pydict() for name, table in tables.items()
    }
    assert read.table.schema == written.table.schema
    loaded = {name: duckdb_engine.fetch(table).to_pydict() for name, table in read.load(duckdb_engine).items()}
    assert loaded == {name: table.to_pydict() for name, table in tables.items()}
    assert read.guarantee == written.guarantee
    assert read.plan.to_json() == json.loads(json.dumps(written.plan.to_json()))
    assert read.record is not None
    assert read.record.rows == {f"{name}.{format}": table.num_rows for name, table in tables.items()}
    assert read.record.date == read.record.written["date"]
    assert (read.source, written.source) == (str(folder), "the release")


def test_a_release_in_memory_is_answered_as_it_is() -> None:
    release = Release({"data": QUERIES}, Zealous(1, 1e-6).plan())
    assert Release.read(release) is release


def test_tables_stay_in_their_files_until_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Release({"data": QUERIES, "clicks": CLICKS}, Zealous(1, 1e-6).plan()).write(tmp_path / "out")
    opened: list[str] = []

    def noted(path: Path) -> pa.Table:
        opened.append(path.name)
        return CLICKS

    monkeypatch.setattr("searchveil.publish.reading.pq.read_table", noted)
    read = Release.read(folder)
    assert (opened, len(read.tables)) == ([], 2)
    assert read.tables["clicks"] is read.tables["clicks"] is CLICKS
    assert opened == ["clicks.parquet"]


@pytest.mark.parametrize("name", ["data.parquet", "clicks.parquet"])
def test_a_file_that_was_exchanged_is_refused_before_anything_is_read(name: str, tmp_path: Path) -> None:
    folder = Release({"data": QUERIES, "clicks": CLICKS}, Zealous(1, 1e-6).plan()).write(tmp_path / "out")
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(InputError, match=f"{name} is not the file that was released"):
        Release.read(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        Release.read(folder)


def test_a_file_outside_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = Release({"data": QUERIES}, Zealous(1, 1e-6).plan()).write(tmp_path / "out")
    (folder / "data.parquet").rename(tmp_path / "data.parquet")
    record = json.loads((folder / "guarantee.json").read_text())
    changed(folder, {"files": {"../data.parquet": record["files"]["data.parquet"]}})
    with pytest.raises(InputError, match="is missing"):
        Release.read(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"method": None},
        {"item": None},
        {"date": None},
        {"parameters": None},
        {"parameters": 7},
        {"parameters": []},
        {"parameters": [["pool_size", 7]]},
        {"guarantee": None},
        {"guarantee": {"notion": "approximate"}},
        {"guarantee": {**Zealous(1, 1e-6).plan().guarantee.to_json(), "delta": 7}},
        {"counts": "cars"},
    ],
    ids=str,
)
def test_a_record_that_does_not_say_what_was_promised_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    folder = Release({"data": QUERIES}, Zealous(1, 1e-6).plan()).write(tmp_path / "out")
    changed(folder, change)
    with pytest.raises(
        InputError, match=r"guarantee\.json does not say what was published and promised.* make the"
    ) as no:
        Release.read(folder)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("text", ["{broken", "[1]", "[" * 100_000, "7"], ids=["broken", "array", "deep", "number"])
def test_a_document_that_is_no_json_object_is_refused(text: str, tmp_path: Path) -> None:
    folder = Release({"data": QUERIES}, Zealous(1, 1e-6).plan()).write(tmp_path / "out")
    (folder / "statistics.json").write_text(text)
    changed(folder, {"documents": {"statistics.json": sha256(text.encode()).hexdigest()}})
    with pytest.raises(InputError, match=r"statistics\.json is no JSON object; make the folder anew") as no:
        Release.read(folder)
    assert "\n" not in str(no.value)


def test_older_records_say_neither_what_was_counted_nor_who_is_trusted(tmp_path: Path) -> None:
    folder = Release({"data": QUERIES}, Zealous(1, 1e-6).plan()).write(tmp_path / "out")
    guarantee = json.loads((folder / "guarantee.json").read_text())["guarantee"]
    assert guarantee.pop("trust") == "central"
    changed(folder, {"guarantee": guarantee, "counts": None})
    read = Release.read(folder)
    assert (read.plan.counts, read.guarantee.trust) == ("occurrences", "central")


def test_a_release_without_protection_is_no_pool(tmp_path: Path) -> None:
    read = Release.read(
        Release({"data": CLICKS}, Sampling(delta=0.5, sampler="poisson").plan()).write(tmp_path / "out")
    )
    with pytest.raises(InputError, match=r"is not differentially private, so its queries cannot be a pool"):
        read.pool(tmp_path / "pool.parquet")
