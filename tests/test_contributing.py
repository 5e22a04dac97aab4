"""The recipes of CONTRIBUTING.md, run as they stand there: each is registered and used as its reader would."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import searchveil as sv
from searchveil.engine import Engine
from searchveil.items import ITEMS
from searchveil.lab.applications import APPLICATIONS
from searchveil.log import SearchLog
from searchveil.log.demo import write_demo
from searchveil.log.readers import READERS
from searchveil.publish import METHODS

RECIPES = dict(
    re.findall(
        r"^```python (\w+)\n(.*?)^```",
        Path(__file__).parents[1].joinpath("CONTRIBUTING.md").read_text("utf-8"),
        re.S | re.M,
    )
)


@pytest.fixture
def recipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(f"recipe_{request.param}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(RECIPES[request.param], f"CONTRIBUTING.md:{request.param}", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SearchLog:
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    write_demo(path, users=300, seed=1)
    return sv.read_log(str(path))


@pytest.mark.parametrize("recipe", ["reader"], indirect=True)
def test_the_reader_reads_its_rows_and_counts_the_bad_ones(
    recipe: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("ann|weather|1700000000\nbob|News|1700000060\nbob|news|1700000061\n|nobody|1700000000\n")
    monkeypatch.setitem(READERS, recipe.READER.name, recipe.READER)
    log = sv.read_log(str(path), format="pipes")
    rows = log.engine.fetch(log.table.order_by("time")).to_pylist()
    assert [(row["user"], row["query"], row["time"].year) for row in rows] == [
        ("ann", "weather", 2023),
        ("bob", "News", 2023),
        ("bob", "news", 2023),
    ]
    assert [(problem.reason, problem.rows) for problem in log.problems] == [("no user", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["item"], indirect=True)
def test_the_item_is_released_and_evaluated(
    recipe: ModuleType, monkeypatch: pytest.MonkeyPatch, log: SearchLog, tmp_path: Path
) -> None:
    monkeypatch.setitem(ITEMS, recipe.TOP_CLICK.name, recipe.TOP_CLICK)
    release = sv.Zealous(epsilon=50, delta=0.1, item="top-click", per_user=20).release(log)
    assert release.table.column_names == ["query", "url", "count"]
    assert release.table.num_rows > 0
    assert "top-click" in {
        key.partition("@")[0].partition(".")[0] for key in sv.evaluate(release, log).measures["coverage"]
    }


@pytest.mark.parametrize("recipe", ["mechanism"], indirect=True)
def test_the_mechanism_publishes_what_its_plan_promises(
    recipe: ModuleType, monkeypatch: pytest.MonkeyPatch, duckdb_engine: Engine
) -> None:
    monkeypatch.setitem(METHODS, "listed", f"{recipe.__name__}:Listed")
    users = [f"u{i}" for i in range(400)]
    rows = {"user": users, "query": ["Cats "] * 400, "url": ["cats.example"] * 400}
    log = SearchLog(duckdb_engine.load(pa.table(rows)), duckdb_engine)
    candidates = pa.table({"query": ["cats", "dogs"], "url": ["cats.example", "dogs.example"]})
    mechanism = sv.publish.build("listed", {"epsilon": 1.0, "candidates": candidates})
    release = mechanism.release(log)
    counts = {row["query"]: row["count"] for row in release.table.to_pylist()}
    assert counts["cats"] == pytest.approx(400, abs=150)  # scale 5: farther off once in 10^13
    assert (release.guarantee.epsilon, release.guarantee.delta) == (1.0, 0.0)
    assert release.plan.parameters == {"per_user": 5, "noise_scale": 5.0}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["application"], indirect=True)
def test_the_application_is_tried_on_both_sides(
    recipe: ModuleType, monkeypatch: pytest.MonkeyPatch, log: SearchLog
) -> None:
    monkeypatch.setitem(APPLICATIONS, "query-completion", f"{recipe.__name__}:QueryCompletion")
    release = sv.Zealous(epsilon=50, delta=0.1, item="query", per_user=20).release(log)
    found = sv.evaluate(release, log, applications=["query-completion"]).applications["query-completion"]
    assert 0 < found["release"]["completed"] <= found["original"]["completed"] <= 1
