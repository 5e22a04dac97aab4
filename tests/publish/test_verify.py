"""`verify` finds what was changed in a release folder, and nothing in one that was not."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.publish.release import Release
from searchveil.publish.synthetic.mechanism import Synthetic
from searchveil.publish.verify import verify
from searchveil.publish.zealous import Zealous


@pytest.fixture
def folder(tmp_path: Path, duckdb_engine: Engine) -> Path:
    rows = pa.table({"user": [n for n in range(9) for _ in range(2)], "query": ["weather", "news"] * 9})
    release = Zealous(100, 1e-6).release(SearchLog(duckdb_engine.load(rows), duckdb_engine))
    return release.write(tmp_path / "out", format="csv")


def test_a_folder_as_written_is_right(folder: Path) -> None:
    found = verify(folder)
    assert found.is_right
    assert found.release is not None
    assert set(found.to_json()["checks"].values()) == {"right"}


def test_a_folder_of_an_older_version_came_without_its_proof(folder: Path) -> None:
    forge(folder, lambda record: record.__delitem__("proof"))
    (folder / "PROOF.md").unlink()
    assert verify(folder).is_right
    assert Release.read(folder).table.num_rows == 2


def test_a_release_whose_proof_was_changed_is_not_read(folder: Path) -> None:
    (folder / "PROOF.md").write_text("It holds.\n")
    with pytest.raises(InputError, match=r"PROOF.md is not the file that was released"):
        Release.read(folder)


def change_the_proof(folder: Path) -> None:
    (folder / "PROOF.md").write_text("It holds.\n")


def lose_the_proof(folder: Path) -> None:
    (folder / "PROOF.md").unlink()


def no_list_of_proofs(folder: Path) -> None:
    forge(folder, lambda record: record.update(proof=["PROOF.md"]))


def change_a_row(folder: Path) -> None:
    data = folder / "data.csv"
    data.write_text(data.read_text().replace("weather", "whether"))


def lose_a_file(folder: Path) -> None:
    (folder / "data.csv").unlink()


def forge(folder: Path, change: Callable[[dict[str, object]], None]) -> None:
    record = json.loads((folder / "guarantee.json").read_text())
    change(record)
    (folder / "guarantee.json").write_text(json.dumps(record))


def other_rows(folder: Path) -> None:
    forge(folder, lambda record: record["files"]["data.csv"].update(rows=7))  # type: ignore[index]


def no_promise(folder: Path) -> None:
    forge(folder, lambda record: record.update(guarantee={"epsilon": -1}))


def another_file(folder: Path) -> None:
    (folder / "extra.csv").write_text("query,count\nsecret,1\n")


def other_catalogue(folder: Path) -> None:
    path = folder / "croissant.json"
    told = json.loads(path.read_text())
    told["distribution"][0]["sha256"] = "0" * 64
    path.write_text(json.dumps(told))


def smaller_epsilon(folder: Path) -> None:
    forge(folder, lambda record: record["guarantee"].update(epsilon=0.1))  # type: ignore[attr-defined]


def smaller_delta(folder: Path) -> None:
    forge(folder, lambda record: record["guarantee"].update(delta=1e-9))  # type: ignore[attr-defined]


def another_unit(folder: Path) -> None:
    forge(folder, lambda record: record["guarantee"].update(unit="device"))  # type: ignore[attr-defined]


def no_deployment(folder: Path) -> None:
    (folder / "deployment.yaml").unlink()


def odd_deployment(folder: Path) -> None:
    (folder / "deployment.yaml").write_text("deployment: [")


@pytest.mark.parametrize(
    ("harm", "check", "says"),
    [
        (change_a_row, "checksums", "data.csv was changed"),
        (lose_a_file, "checksums", "data.csv is missing"),
        (change_the_proof, "checksums", "PROOF.md was changed"),
        (lose_the_proof, "checksums", "PROOF.md is missing"),
        (no_list_of_proofs, "record", "does not name the proof"),
        (other_rows, "schema", "has 2 rows, not 7"),
        (no_promise, "record", "does not say"),
        (another_file, "nothing else", "extra.csv"),
        (other_catalogue, "description", "other files or checksums"),
        (smaller_epsilon, "promise", "guarantee.json says epsilon = 0.1, delta = 1e-06 for a user, but"),
        (smaller_delta, "promise", "but deployment.yaml epsilon = 100, delta = 1e-06 for a user"),
        (another_unit, "promise", "for a device"),
        (no_deployment, "promise", "deployment.yaml is missing"),
        (odd_deployment, "promise", "deployment.yaml cannot be read"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_fault_is_found_and_named(folder: Path, harm: Callable[[Path], None], check: str, says: str) -> None:
    harm(folder)
    found = verify(folder)
    assert not found.is_right
    wrong = {one.name.partition(":")[0].split(" is")[0]: one.problem for one in found.checks if one.problem}
    assert says in wrong[check]
    assert says in str(found)


@pytest.fixture
def synthetic(tmp_path: Path, duckdb_engine: Engine) -> Path:
    rows = pa.table({"user": list(range(40)), "query": ["weather"] * 40})
    log = SearchLog(duckdb_engine.load(rows), duckdb_engine)
    return Synthetic(20, 1e-3).release(log, source=keyed(b"verify")).write(tmp_path / "synthetic")


@pytest.mark.slow
def test_a_document_beside_the_tables_belongs_to_the_folder(synthetic: Path) -> None:
    assert set(verify(synthetic).to_json()["checks"].values()) == {"right"}


@pytest.mark.slow
def test_a_document_that_was_changed_is_found(synthetic: Path) -> None:
    document = synthetic / "statistics.json"
    document.write_text(document.read_text().replace("weather", "whether"))
    checksums = verify(synthetic).checks[0]
    assert "statistics.json was changed" in checksums.problem
    document.unlink()
    checksums = verify(synthetic).checks[0]
    assert "statistics.json is missing" in checksums.problem


def test_what_is_no_release_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no release folder"):
        verify(tmp_path)
