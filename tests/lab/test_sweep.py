"""A sweep does what its file says, each cell once, and what it reports is what `evaluate` finds."""

import hashlib
import json
import re
import threading
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow.parquet as pq
import pytest

from searchveil.engine.duckdb import DuckDBEngine
from searchveil.errors import InputError
from searchveil.lab.evaluate import evaluate
from searchveil.lab.split import split
from searchveil.lab.sweep import Experiment, Swept, sweep
from searchveil.lab.sweep.cells import Cell, Setup, Store, grid
from searchveil.lab.sweep.charts import charts
from searchveil.lab.sweep.experiment import ChartSpec, DemoLog, Point
from searchveil.lab.sweep.prepare import fingerprint, prepared
from searchveil.lab.sweep.results import SWEPT, Results, Row
from searchveil.lab.sweep.work import run
from searchveil.log.demo import write_demo
from searchveil.log.read import read_log
from searchveil.privacy.noise import Source
from searchveil.progress import silent
from searchveil.publish.zealous import Zealous

USERS, SEED, FRACTION = 300, 3, 0.3
GRID = f"""
title = "a test"
seed = {SEED}
test_fraction = {FRACTION}
repeats = 2
applications = ["index-caching"]
measures = ["coverage", "retained-users"]

[log]
users = {USERS}

[measure.coverage]
ranks = [5, 20]

[[mechanism]]
method = "zealous"
epsilon = [5, 50]
delta = 1e-3
notion = "probabilistic"

[[mechanism]]
method = "zealous"
label = "impossible"
epsilon = 1
delta = 1e-6
threshold = 1

[[mechanism]]
method = "safelog-click"
epsilon = 20
domain = "pool"
pool = {{ users = 100, seed = 2 }}
candidates = {{ users = 100, seed = 2 }}
"""


def read(folder: Path, text: str) -> Experiment:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return Experiment.read(path)


# Reading the file


def test_lists_are_crossed_and_cases_stay_together(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        measures = "all"
        [log]
        users = 10
        [[mechanism]]
        method = "safelog-click"
        noise-scale = [1, 2]
        above = 10
        cases = [{ queries_per_user = 1, clicks_per_user = 3 }, { queries_per_user = 2, clicks_per_user = 4 }]
        patterns = [["a", "b"]]
        [[mechanism]]
        method = "k-query"
        """,
    )
    chosen = [point.parameters for point in found.points]
    assert len(chosen) == 5
    pairs = {(one["noise_scale"], one["queries_per_user"], one["clicks_per_user"]) for one in chosen[:4]}
    assert pairs == {(1, 1, 3), (2, 1, 3), (1, 2, 4), (2, 2, 4)}
    assert all(one["patterns"] == ("a", "b") for one in chosen[:4]), "a list in a list is a value"
    assert found.points[0].varied == "noise_scale=1, patterns=('a', 'b'), queries_per_user=1, clicks_per_user=3"
    assert chosen[4] == {}


LOG = "measures = ['coverage']\n[log]\nusers = 10\n"
BAD: list[tuple[str, str, tuple[str, ...]]] = [
    ("not TOML", "a = 1\nb = = 2", ("is not TOML", "line 2")),
    ("unknown key", f"repeat = 3\n{LOG}[[mechanism]]\nmethod = 'k-query'", ("'repeat' means nothing", "repeats")),
    ("no log", "measures = ['coverage']\n[[mechanism]]\nmethod = 'k-query'", ("has no [log]",)),
    ("no mechanism", LOG, ("no [[mechanism]]",)),
    ("nothing judged", "[log]\nusers = 9\n[[mechanism]]\nmethod = 'k-query'", ("judges nothing",)),
    ("unknown method", f"{LOG}[[mechanism]]\nmethod = 'zeal'", (":4: [[mechanism]] 1", "'zeal'", "zealous, korolova")),
    (
        "unknown parameter",
        f"{LOG}[[mechanism]]\nmethod = 'k-query'\n\n[[mechanism]] # two\nmethod = 'k-query'\nj = 3",
        (":7: [[mechanism]] 2: k-query has no j; it has k",),
    ),
    ("missing parameter", f"{LOG}[[mechanism]]\nmethod = 'zealous'\nepsilon = 1", ("zealous needs delta",)),
    ("wrong value", f"{LOG}[[mechanism]]\nmethod = 'k-query'\nk = [5, 1]", ("[[mechanism]] 1: k must be", "not 1")),
    ("text for number", f"{LOG}[[mechanism]]\nmethod = 'zealous'\nepsilon = 'x'\ndelta = 0.1", ("[[mechanism]] 1",)),
    ("empty list", f"{LOG}[[mechanism]]\nmethod = 'k-query'\nk = []", ("k is an empty list",)),
    ("one table", f"{LOG}[mechanism]\nmethod = 'k-query'", ("write [[mechanism]]",)),
    ("unknown application", f"applications = ['seo']\n{LOG}[[mechanism]]\nmethod = 'k-query'", ("'seo'", "index-c")),
    ("unknown measure", LOG.replace("coverage", "covering"), ("no [[mechanism]]",)),
    (
        "unknown measure, with a mechanism",
        LOG.replace("coverage", "covering") + "[[mechanism]]\nmethod = 'k-query'",
        ("no measure 'covering'", "coverage, l1"),
    ),
    (
        "unknown parameter of a measure",
        f"{LOG}[measure.coverage]\nrank = [1]\n[[mechanism]]\nmethod = 'k-query'",
        (":4: [measure.coverage]: 'rank'", "ranks"),
    ),
    (
        "parameters of what is not asked for",
        f"{LOG}[measure.l1]\nranks = [1]\n[[mechanism]]\nmethod = 'k-query'",
        ("'l1' is not among the measures",),
    ),
    (
        "chart of nothing",
        f"{LOG}[[mechanism]]\nmethod = 'k-query'\n[[chart]]\nx = 'k'\ny = 'seo/x'",
        (":6: [[chart]] 1: y = 'seo/x'", "coverage"),
    ),
    (
        "chart by an unknown column",
        f"{LOG}[[mechanism]]\nmethod = 'k-query'\n[[chart]]\nx = 'kk'\ny = 'coverage/*'",
        ("no column 'kk'", "guarantee_epsilon"),
    ),
    ("whole log tested", f"test_fraction = 1.0\n{LOG}[[mechanism]]\nmethod = 'k-query'", ("test_fraction",)),
    (
        "repeats",
        f"repeats = 0\n{LOG}[[mechanism]]\nmethod = 'k-query'",
        ("experiment.toml: repeats = 0: input should be greater than or equal to 1",),
    ),
    (
        "text for a number of a log",
        "measures = ['coverage']\n[log]\nusers = 'ten'\n[[mechanism]]\nmethod = 'k-query'",
        (":2: [log]: users = 'ten': input should be a valid integer",),
    ),
    (
        "no path of a log",
        "measures = ['coverage']\n[log]\npath = []\n[[mechanism]]\nmethod = 'k-query'",
        (":2: [log]: path = ",),
    ),
    (
        "another kind of value for a measure",
        f"{LOG}[measure.coverage]\nranks = [1, 'ten']\n[[mechanism]]\nmethod = 'k-query'",
        (":4: [measure.coverage]: ranks.1 = 'ten': input should be a valid integer",),
    ),
    ("no method", f"{LOG}[[mechanism]]\nk = 3", (":4: [[mechanism]] 1: needs method",)),
    ("cases", f"{LOG}[[mechanism]]\nmethod = 'k-query'\ncases = 3", ("[[mechanism]] 1: cases = 3: input should be",)),
    (
        "where of a chart",
        f"{LOG}[[mechanism]]\nmethod = 'k-query'\n[[chart]]\ny = 'coverage/*'\nlog_x = 1",
        (":6: [[chart]] 1: log_x = 1: input should be a valid boolean",),
    ),
    (
        "no pool there",
        f"{LOG}[[mechanism]]\nmethod = 'safelog-click'\nepsilon = 1\npool = 'gone.parquet'",
        ("[[mechanism]] 1: pool: there is no file gone.parquet",),
    ),
]


@pytest.mark.parametrize(("text", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, says: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / "experiment.toml"))
    for words in says:
        assert words in message, message


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "experiments").glob("*.toml")), ids=lambda p: p.stem
)
def test_the_experiments_that_are_shipped_can_be_read(path: Path) -> None:
    assert Experiment.read(path).points


# What a cell is called


def setup_of(experiment: Experiment, log: str = "a log") -> Setup:
    return Setup(Path("train"), Path("test"), experiment, log, {})


def keys(experiment: Experiment, log: str = "a log") -> list[str]:
    return [cell.key for cell in grid(setup_of(experiment, log), {})]


def test_a_cell_is_named_by_all_that_decides_it(tmp_path: Path) -> None:
    experiment = read(tmp_path, f"{LOG}[[mechanism]]\nmethod = 'k-query'\nk = [5, 6]")
    first = keys(experiment)
    assert len(set(first)) == 2
    for changed in (
        replace(experiment, seed=2),
        replace(experiment, test_fraction=0.3),
        replace(experiment, measures={"coverage": {"ranks": (3,)}}),
        replace(experiment, points=tuple(Point("k-query", "k-query", {"k": k}) for k in (7, 8))),
    ):
        assert not set(keys(changed)) & set(first)
    assert not set(keys(experiment, "another log")) & set(first)
    renamed = replace(experiment, title="else", points=tuple(replace(one, label="else") for one in experiment.points))
    assert keys(renamed) == first, "what it is called changes nothing in it"
    assert keys(replace(experiment, repeats=2))[:2] == first, "more repeats keep those that are there"


def test_what_is_asked_for_twice_is_done_once_and_shown_under_both_labels(tmp_path: Path) -> None:
    table = "[[mechanism]]\nmethod = 'k-query'\nk = [5, 5]\n"
    experiment = read(tmp_path, f"{LOG}{table}{table}label = 'again'")
    cells = grid(setup_of(experiment), {})
    assert [cell.point.label for cell in cells] == ["k-query", "again"]
    assert len(Store(tmp_path).missing(cells)) == 1


def test_a_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(text)
    a, b, c = ([tmp_path / name] for name in "abc")
    assert fingerprint(a) == fingerprint(b) != fingerprint(c)
    assert fingerprint(a, "aol") != fingerprint(a, "csv")


# A whole sweep, in processes


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Path, Swept]:
    folder = tmp_path_factory.mktemp("sweep")
    experiment = read(folder, GRID)
    return experiment, folder / "out", sweep(experiment, folder / "out", workers=2)


def rows_of(swept: Swept) -> list[dict[str, Any]]:
    return pq.read_table(swept.results).to_pylist()


@pytest.mark.slow
def test_every_cell_is_in_the_results(done: tuple[Experiment, Path, Swept]) -> None:
    _, out, swept = done
    assert (swept.cells, swept.kept) == (1 + 2 * 4, 0)
    rows = rows_of(swept)
    zealous = [row for row in rows if row["label"] == "zealous"]
    assert {(row["epsilon"], row["repeat"]) for row in zealous} == {(5, 1), (5, 2), (50, 1), (50, 2)}
    first = next(row for row in zealous if row["figure"] == "query@20")
    assert (first["kind"], first["name"], first["at"], first["method"]) == ("measure", "coverage", 20.0, "zealous")
    assert first["item"] == "query", "a default is a parameter too"
    assert (first["guarantee_epsilon"], first["guarantee_delta"]) == (first["epsilon"], first["delta"])
    assert first["guarantee_notion"] == "probabilistic"
    assert first["published_rows"] is not None
    assert first["plan_users"] < USERS, "of the training part alone"
    assert first["release_seconds"] > 0
    assert "query@10" not in {row["figure"] for row in rows}, "the ranks asked for, not the usual ones"
    lacking = [row for row in zealous if row["name"] == "retained-users"]
    assert {row["note"] for row in lacking} == {"the release has no users"}
    assert SWEPT not in rows[0]
    assert not list(out.rglob(".*.partial"))


@pytest.mark.slow
def test_the_others_go_on_when_one_fails(done: tuple[Experiment, Path, Swept]) -> None:
    _, out, swept = done
    assert [failure.cell.called for failure in swept.failures] == ["impossible", "impossible, repeat 2"]
    assert "is infeasible" in swept.failures[0].reason
    failed = [row for row in rows_of(swept) if row["kind"] == "failure"]
    assert [row["note"] for row in failed] == [failure.reason for failure in swept.failures]
    assert {row["label"] for row in failed} == {"impossible"}
    told = sorted((out / "failures").glob("*.txt"))
    assert len(told) == 2
    assert "is infeasible" in told[0].read_text()


@pytest.mark.slow
def test_a_public_pool_and_candidates_make_epsilon_pure(done: tuple[Experiment, Path, Swept]) -> None:
    _, out, swept = done
    rows = [row for row in rows_of(swept) if row["method"] == "safelog-click"]
    assert {(row["guarantee_epsilon"], row["guarantee_delta"]) for row in rows} == {(20.0, 0.0)}
    assert {row["pool"] for row in rows} == {"demo log of 100 users, seed 2"}
    pool = pq.read_table(out / "log" / "pool-100-2.parquet")
    size = next(row["value"] for row in rows if row["name"] == "plan" and row["figure"] == "pool_size")
    assert size == pool.num_rows > 0


@pytest.mark.slow
def test_the_figures_are_those_of_evaluate(done: tuple[Experiment, Path, Swept]) -> None:
    """The same release by hand: of the training users alone, judged on the others."""
    _, out, swept = done
    key = next(row["cell"] for row in rows_of(swept) if row["epsilon"] == 50 and row["repeat"] == 2)
    in_sweep = {row["figure"]: row for row in rows_of(swept) if row["cell"] == key}
    engine = DuckDBEngine(threads=1)
    engine.sql("set preserve_insertion_order = true")
    train, test = split(read_log(out / "log" / f"demo-{USERS}-1.parquet", engine=engine), fraction=FRACTION, seed=SEED)
    source = Source(hashlib.sha256(f"sweep {key}".encode()).digest())
    release = Zealous(50, 1e-3, notion="probabilistic").release(train, source=source)
    found = evaluate(release, train, applications=["index-caching"], test=test, seed=SEED)
    train_users = train.users
    engine.close()
    assert in_sweep["rows.data"]["value"] == release.table.num_rows > 0
    assert in_sweep["counted.data"]["value"] == release.table["count"].to_numpy().sum()
    assert in_sweep["users"]["value"] == train_users < USERS
    scores = found.applications["index-caching"]
    assert in_sweep["hit probability"]["value"] == pytest.approx(scores["release"]["hit probability"])
    assert in_sweep["hit probability"]["original"] == pytest.approx(scores["original"]["hit probability"])
    assert scores["original"]["hit probability"] > scores["release"]["hit probability"] > 0
    assert not found.in_sample


@pytest.mark.slow
def test_a_second_run_does_only_what_is_missing(done: tuple[Experiment, Path, Swept]) -> None:
    experiment, out, swept = done
    cells = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert len(cells) == swept.cells - len(swept.failures)
    gone = next(path for path in cells if "per_user" in json.loads(path.read_text()).get("parameters", {}))
    before = json.loads(gone.read_text())
    gone.write_text(gone.read_text()[:40])  # torn, as by a loss of power

    again = sweep(replace(experiment, points=experiment.points[:2]), out, workers=1)
    assert (again.cells, again.kept, again.failures) == (5, 4, ())
    after = json.loads(gone.read_text())
    assert after["figures"] == before["figures"], "the noise of a demo log is the same in every run"
    unchanged = {path: path.stat().st_mtime_ns for path in cells if path != gone}
    assert unchanged == {path: time for path, time in cells.items() if path != gone}


@pytest.mark.slow
def test_a_process_that_dies_takes_only_its_cell_with_it(tmp_path: Path) -> None:
    experiment = read(tmp_path, f"{LOG.replace('10', '40')}[[mechanism]]\nmethod = 'k-query'\nk = [2, 3]")
    with prepared(experiment, tmp_path / "out", silent) as ready:
        cells = grid(ready.setup, ready.files)
        store = Store(tmp_path / "cells")
        store.folder.mkdir()
        earlier = {process.pid for process in active_children()}

        def kill_the_first() -> None:
            while not (ours := [process for process in active_children() if process.pid not in earlier]):
                sleep(0.01)
            ours[0].kill()

        killer = threading.Thread(target=kill_the_first)
        killer.start()
        ended = list(run(ready.setup, cells, store, 1))
        killer.join()
    assert [failure and failure.cell.key for failure in ended] == [cells[0].key, None]
    assert ended[0] is not None
    assert "killed by signal 9" in ended[0].reason
    assert [cell.key for cell in store.missing(cells)] == [cells[0].key]


@pytest.mark.slow
def test_a_demo_log_is_made_once(tmp_path: Path) -> None:
    experiment = read(tmp_path, f"{LOG.replace('10', '40')}[[mechanism]]\nmethod = 'k-query'")
    with prepared(experiment, tmp_path, silent) as ready:
        first = ready.setup.fingerprint
        parts = [pq.read_table(path)["user"].to_pylist() for path in (ready.setup.train, ready.setup.test)]
    assert not set(parts[0]) & set(parts[1])
    assert len(set(parts[0]) | set(parts[1])) == 40
    made = tmp_path / "log" / "demo-40-1.parquet"
    when = made.stat().st_mtime_ns
    with prepared(experiment, tmp_path, silent) as ready:
        assert ready.setup.fingerprint == first
    assert made.stat().st_mtime_ns == when


def test_a_log_of_files_leaves_no_copy_behind(tmp_path: Path) -> None:
    write_demo(tmp_path / "mine.tsv", users=40)
    text = "measures = ['coverage']\n[log]\npath = 'mine.tsv'\n[[mechanism]]\nmethod = 'k-query'"
    with prepared(read(tmp_path, text), tmp_path / "out", silent) as ready:
        kept = ready.setup.train
        assert kept.exists()
    assert not kept.exists()
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


# Charts


def row(value: float, *, figure: str = "nDCG@10", repeat: int = 1, original: float | None = None, **beside: Any) -> Row:
    swept = tuple(beside)
    return {
        "cell": "c", "label": "Z", "method": "zealous", "name": "search", "figure": figure, "value": value,
        "of": figure.partition("@")[0],
        "repeat": repeat, "original": original, "varied": repr(beside), SWEPT: swept,
        "guarantee_epsilon": beside.get("epsilon"), "guarantee_delta": 0.1, **beside,
    }  # fmt: skip


def chart_of(spec: ChartSpec, rows: list[Row]) -> list[list[str]]:
    experiment = Experiment("", DemoLog(1), (), {"search": {}}, {}, 1, 1, 0.2, (spec,), Path())
    return charts(experiment, Results(rows))[0].table()


def test_repeats_are_averaged_and_settings_are_not() -> None:
    spec = ChartSpec("c", ("search/nDCG@10",), "epsilon")
    rows = [row(0.2, epsilon=1), row(0.4, epsilon=1, repeat=2), row(0.5, epsilon=2)]
    assert chart_of(spec, rows) == [["epsilon", "1", "2"], ["Z", "0.3", "0.5"]]
    several = [row(0.2, epsilon=1, per_user=1), row(0.4, epsilon=1, per_user=5), row(0.5, epsilon=2, per_user=5)]
    assert chart_of(spec, several) == [
        ["epsilon", "1", "2"],
        ["Z, per user 1", "0.2", ""],
        ["Z, per user 5", "0.4", "0.5"],
    ]


def test_what_has_no_place_on_the_axis_is_a_level() -> None:
    spec = ChartSpec("c", ("search/nDCG@10",), "epsilon")
    rows = [row(0.5, epsilon=2, original=0.9), {**row(0.7, k=10), "label": "K"}]
    assert chart_of(spec, rows) == [
        ["epsilon", "2", "–"],
        ["original", "", "0.9"],
        ["Z", "0.5", ""],
        ["K, k 10", "", "0.7"],
    ]


def test_facets_series_filters_and_ranks() -> None:
    rows = [
        {**row(at / 100 + m, figure=f"query@{at}", epsilon=1, per_user=m, item=item), "at": float(at)}
        for at in (5, 20)
        for m in (1, 2)
        for item in ("query", "click")
    ]
    rows.append({**row(7, figure="query@5", item="query"), "at": 5.0})  # of a method that has no per_user
    spec = ChartSpec("c", ("search/query@*",), "at", ("label", "per_user"), "item", {"per_user": (2,)})
    assert chart_of(spec, rows) == [
        ["item", "at", "5", "20"],
        ["query", "Z, per user 2", "2.05", "2.2"],
        ["query", "Z", "7", ""],
        ["click", "Z, per user 2", "2.05", "2.2"],
    ]


def test_figures_are_never_averaged_with_each_other() -> None:
    rows = [row(0.1, figure="P", epsilon=1), row(0.5, figure="R", epsilon=1)]
    of_two = chart_of(ChartSpec("c", ("search/*",), "epsilon"), rows)
    assert of_two == [["epsilon", "1"], ["Z, P", "0.1"], ["Z, R", "0.5"]]
    ranks = [{**row(at, figure=f"{of}@{at}", epsilon=1), "at": at} for of in ("query", "url") for at in (1, 2)]
    two = [{**row(0.1, epsilon=1, original=name), "name": f"search-{name}"} for name in (1, 2)]
    of_applications = chart_of(ChartSpec("c", ("search-*/*",), "epsilon", ("name",)), two)
    assert of_applications[1:3] == [["original search-1", "", "1"], ["original search-2", "", "2"]]
    by_rank = chart_of(ChartSpec("c", ("search/*",), "at", ("epsilon",)), ranks)
    assert by_rank == [["at", "1", "2"], ["epsilon 1, query", "1", "2"], ["epsilon 1, url", "1", "2"]]


@pytest.mark.slow
def test_a_chart_is_an_svg_that_needs_nothing_else(done: tuple[Experiment, Path, Swept]) -> None:
    _, _, swept = done
    assert [path.name for path in swept.charts] == ["index-caching.svg"], (
        "one for each application if none is asked for"
    )
    drawn = swept.charts[0].read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert set(re.findall(r"https?://[^\"']+", drawn)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "<script" not in drawn
    assert "ε of the guarantee" in drawn
    assert "original" in drawn


def test_mixed_values_of_one_parameter_become_texts() -> None:
    rows = [row(1.0, threshold=1), row(1.0, threshold=1.5), row(1.0, item=1), row(1.0, item="query")]
    table = Results(rows).table()
    assert table["threshold"].to_pylist() == [1.0, 1.5, None, None]
    assert table["item"].to_pylist() == [None, None, "1", "query"]


def test_a_cell_says_which_it_is() -> None:
    point = Point("Z", "zealous", {"epsilon": 1}, ("epsilon",))
    assert [Cell(point, repeat).called for repeat in (1, 2)] == ["Z epsilon=1", "Z epsilon=1, repeat 2"]
