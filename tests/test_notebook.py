"""Python as in notebooks: what releases and evaluations show, what they become, and the tutorial from top to end."""

import os
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import searchveil as sv
from searchveil.engine import Engine

HOSTILE = "<script>alert(1)</script>"
TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"


@pytest.fixture
def log(duckdb_engine: Engine) -> sv.SearchLog:
    queries = [f"query {number}" for number in range(11)] + [HOSTILE]
    rows = [(user, query) for user in range(9) for query in queries]
    columns: dict[str, list[object]] = {"user": [user for user, _ in rows], "query": [query for _, query in rows]}
    return sv.read_log(pa.table(columns), engine=duckdb_engine)


@pytest.fixture
def release(log: sv.SearchLog) -> sv.Release:
    return sv.Zealous(epsilon=500, delta=1e-6, per_user=20).release(log)


def test_a_release_shows_itself_and_hostile_texts_stay_texts(release: sv.Release) -> None:
    shown = release._repr_html_()
    assert "query by zealous: 12 rows" in shown
    assert "differentially private" in shown
    assert "… and 2 more" in shown
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown


def test_a_release_as_a_frame(release: sv.Release) -> None:
    frame = release.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["query"].tolist() == release.table["query"].to_pylist()
    assert isinstance(release.to_polars(), pl.DataFrame)
    assert release.to_polars()["count"].to_list() == frame["count"].tolist()
    assert release.to_pandas("data").equals(frame)
    with pytest.raises(sv.InputError, match="no table 'clicks'; it has data"):
        release.to_pandas("clicks")


@pytest.mark.slow
def test_an_evaluation_shows_itself_and_becomes_a_frame(release: sv.Release, log: sv.SearchLog) -> None:
    found = sv.evaluate(release, log, applications=["index-caching"])
    shown = found._repr_html_()
    assert "12 of 12 different queries were published" in shown
    assert "Private: These figures" in shown
    assert "Filling a search engine&#x27;s cache" in shown
    frame = found.to_pandas()
    assert list(frame.columns) == ["kind", "name", "figure", "original", "release"]
    covered = frame[(frame["name"] == "coverage") & (frame["figure"] == "query@10")]
    assert covered["release"].tolist() == [1.0]
    assert covered["original"].isna().all()
    assert set(frame["kind"]) == {"application", "measure"}
    assert found.to_polars().height == len(frame)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the notebook's own machinery, in this process
def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    notebook = nbformat.read(TUTORIAL, as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in notebook.cells), "kept without outputs, so none can be stale"
    NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(tmp_path)}}).execute(env=dict(os.environ))
    told = {cell["id"]: str(cell.get("outputs", "")) for cell in notebook.cells}
    assert "differentially private" in "".join(told.values())
    assert "guarantee.json" in "".join(told.values())
    checked = next(cell for cell in notebook.cells if "verify(out)" in cell["source"])
    assert checked["outputs"][0]["data"]["text/plain"] == "True"
