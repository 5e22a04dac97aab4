"""The method from end to end: the folder, the log that is drawn, and drawing again."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed import keyed
from synthetic_logs import History, log_of

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.lab.evaluate import evaluate
from searchveil.log import SearchLog
from searchveil.log.demo import write_demo
from searchveil.log.personal import has_card_number, personal_texts
from searchveil.log.read import read_log
from searchveil.publish.release import Release
from searchveil.publish.synthetic.chances import Draws, Grouped, projected, shrunk, spread, without_noise_at_the_end
from searchveil.publish.synthetic.mechanism import Synthetic, resample
from searchveil.publish.synthetic.sampler import NOWHERE, _apart
from searchveil.publish.synthetic.statistics import Statistics
from searchveil.publish.synthetic.texts import Inventor, escaped

METHOD = Synthetic(20.0, 1e-3, from_="2024-03-01", to="2024-05-31")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchLog]:
    path = write_demo(tmp_path_factory.mktemp("synthetic") / "log.parquet", users=600, seed=2).path
    engine = open_engine()
    read = read_log(path, engine=engine)
    yield replace(read, table=engine.stage(read.table))
    engine.close()


@pytest.fixture(scope="module")
def folder(log: SearchLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return METHOD.release(log, source=keyed(b"folder")).write(tmp_path_factory.mktemp("release") / "release")


@pytest.mark.slow
def test_the_folder_is_a_log_with_its_statistics(log: SearchLog, folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"data.parquet", "queries.parquet", "clicks.parquet", "transitions.parquet", "statistics.json"} <= names
    drawn = read_log(folder / "data.parquet")
    assert drawn.problems == ()
    assert drawn.table.columns == ("user", "query", "time", "rank", "url")
    users, rows = drawn.users, drawn.rows
    assert 0.9 * 600 < users < 1.1 * 600
    assert 0.6 * log.rows < rows < 1.6 * log.rows
    ends = drawn.engine.fetch(drawn.table.agg(first=drawn.table["time"].min(), last=drawn.table["time"].max()))
    assert str(ends["first"][0]) >= "2024-03-01"
    assert str(ends["last"][0]) < "2024-06-01"
    drawn.engine.close()
    card = (folder / "README.md").read_text("utf-8")
    assert "No single one of them means anything" in card
    assert "`statistics.json`" in card
    assert "the words and urls in statistics.json" in card


@pytest.mark.slow
def test_real_texts_are_those_that_were_named(folder: Path) -> None:
    release = Release.read(folder)
    statistics = release.documents["statistics"]
    known_urls = {url for _, url in statistics["pairs"]} | set(statistics["urls"]) | {NOWHERE}
    assert {url for url in release.tables["data"]["url"].to_pylist() if url is not None} <= known_urls
    words = {*statistics["words"], *(word for query in statistics["queries"] for word in query.split())}
    used = {word for text in release.tables["data"]["query"].to_pylist() for word in str(text).split()}
    assert {word for word in used if not word.startswith("~")} <= words
    assert len(statistics["queries"]) > 5


@pytest.mark.slow
def test_drawing_again_needs_no_log(folder: Path, tmp_path: Path) -> None:
    release = Release.read(folder)
    once, twice = (resample(release, seed=7, scale=0.5) for _ in range(2))
    assert once.table.equals(twice.table)
    other = resample(release, seed=8, scale=0.5, tail="token")
    assert not once.table.equals(other.table)
    users = len(set(once.table["user"].to_pylist()))
    assert 0.4 * 600 < users < 0.6 * 600
    named = {*escaped(release.documents["statistics"]["queries"])}
    texts = {str(text) for text in other.table["query"].to_pylist()}
    assert all(text in named or text.removeprefix("~").isdigit() for text in texts)
    omitted = resample(release, seed=8, tail="omit")
    assert set(omitted.table["query"].to_pylist()) <= named
    written = Release.read(omitted.write(tmp_path / "again"))
    assert written.guarantee == release.guarantee
    assert written.plan.parameters["tail"] == "omit"


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_it_is_a_log_in_every_format(folder: Path, tmp_path: Path, duckdb_engine: Engine, format: str) -> None:
    drawn = resample(Release.read(folder), seed=5, scale=0.1)
    read = read_log(drawn.write(tmp_path / format, format=format) / f"data.{format}", engine=duckdb_engine)
    assert read.problems == ()
    rows = duckdb_engine.fetch(
        read.table.select(*drawn.table.column_names).mutate(user=read.table["user"].cast("int64"))
    )
    assert rows["url"].null_count > 0
    order: Any = [(name, "ascending") for name in drawn.table.column_names]
    assert rows.cast(drawn.table.schema).sort_by(order).equals(drawn.table.combine_chunks().sort_by(order))


@pytest.mark.slow
def test_evaluation_takes_it_as_a_log(log: SearchLog, folder: Path) -> None:
    found = evaluate(folder, log, applications=[])
    assert found.doubt is None
    assert set(found.measures["behaviour"]) == set(found.charts["behaviour"])
    figures = dict(found.measures["behaviour"])
    assert 0 <= figures.pop("transition overlap") <= 1
    assert all(0 <= distance < 0.35 for distance in figures.values())
    assert 0.5 < found.measures["classifier"]["AUC, at most"] <= 1
    assert "retained-users" in found.skipped


@pytest.mark.slow
def test_a_release_of_a_synthetic_log_works(folder: Path) -> None:
    drawn = read_log(folder / "data.parquet")
    again = Synthetic(20.0, 1e-3, from_="2024-03-01", to="2024-05-31").release(drawn, source=keyed(b"again"))
    assert again.table.num_rows > 0
    drawn.engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [[], ["time"], ["url"], ["url", "rank"]])
def test_a_log_without_times_or_urls_skips_what_needs_them(duckdb_engine: Engine, columns: list[str]) -> None:
    histories: dict[str, History] = {
        f"u{i}": [(i, "weather", "http://w"), (i + 1, f"lone {i}", None)] for i in range(60)
    }
    whole = log_of(histories, duckdb_engine)
    log = replace(whole, table=whole.table.select("user", "query", *columns))
    release = METHOD.release(log, source=keyed(b"columns"))
    assert set(release.table.column_names) == {"user", "query", *columns}
    assert ("clicks" in release.tables, "transitions" in release.tables) == ("url" in columns, "time" in columns)
    assert "weather" in release.tables["queries"]["query"].to_pylist()


def test_times_without_a_period_are_refused(duckdb_engine: Engine) -> None:
    log = log_of({"a": [(0, "x", None)], "b": [(1, "x", None)]}, duckdb_engine)
    with pytest.raises(InputError, match="must be said, not read off the log"):
        Synthetic(1.0, 1e-6).release(log)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"from_": "2024-03-01"}, "a period has two ends"),
        ({"from_": "March", "to": "2024-03-02"}, "must be a day as in 2006-03-01, not 'March'"),
        ({"from_": "2024-03-02", "to": "2024-03-01"}, "must be a day from 2024-03-02 on"),
        ({"scale": 0.0}, "scale must be"),
        ({"tail": "short"}, "no tail 'short'"),
    ],
)
def test_parameters_that_make_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Synthetic(1.0, 1e-6, **given)


@pytest.mark.slow
def test_other_releases_cannot_be_drawn_again(tmp_path: Path, folder: Path) -> None:
    release = replace(Release.read(folder), documents={})
    with pytest.raises(InputError, match="is no synthetic log"):
        resample(release, seed=1)


@pytest.mark.slow
def test_invented_texts_look_like_nobody(folder: Path) -> None:
    from searchveil.publish.synthetic.record import from_json

    statistics = from_json(Release.read(folder).documents["statistics"], "here")
    numbers = replace(
        statistics,
        words=["555", "1234", "867", "@", "a.com", "~odd"],
        bigrams=[],
        noisy=statistics.noisy | {"word_volume": np.ones(6), "bigram_volume": np.zeros(0), "shape": shape_of(5, 5)},
    )
    texts = Inventor(numbers, "invented", np.random.default_rng(1)).texts(3000)
    assert not any(personal_texts(texts).to_pylist())
    assert "555 867 1234 555 867" not in texts.to_pylist()
    assert any("~~odd" in str(text) for text in texts.to_pylist()), "a real word with the mark has it twice"


def test_no_invented_text_is_a_named_query() -> None:
    """Nor is an unknown word a real one: whatever begins with the mark has it twice."""
    assert escaped(["~odd", "an ~odd one", "a~b"]) == ["~~odd", "an ~~odd one", "a~b"]
    noisy = {"word_volume": np.ones(1), "bigram_volume": np.zeros(0), "shape": shape_of(1, 1)}
    statistics = Statistics(queries=["~odd"], words=["~odd"], noisy=noisy)
    texts = Inventor(statistics, "invented", np.random.default_rng(1)).texts(50).to_pylist()
    assert all(re.fullmatch(r"~\d{1,8}", text) for text in texts)


@pytest.mark.parametrize("words", [[], ["weather"]])
def test_where_noise_left_no_lengths_texts_are_unknown_words(words: list[str]) -> None:
    noisy = {"word_volume": np.ones(len(words)), "bigram_volume": np.zeros(0), "shape": -shape_of(2, 1)}
    texts = Inventor(Statistics(words=words, noisy=noisy), "invented", np.random.default_rng(1)).texts(500).to_pylist()
    assert len(texts) == 500
    assert all(re.fullmatch(r"~\d{1,8}", text) for text in texts)


def shape_of(length: int, known: int) -> Any:
    shape = np.zeros((8, 9))
    shape[length - 1, known] = 1.0
    return shape.reshape(-1)


def test_personal_texts_are_those_of_the_patterns() -> None:
    texts = [
        "weather",
        "call 555 123 4567",
        "me@home.org",
        "078-05-1120",
        "4111 1111 1111 1111",
        "~12345678",
        "x" * 1001,
    ]
    assert personal_texts(pa.array(texts)).to_pylist() == [False, True, True, True, True, False, True]
    assert has_card_number("4111 1111 1111 1111")


def test_projection_keeps_the_sum() -> None:
    noisy = np.array([5.0, -2.0, 1.0, 0.5])
    assert projected(noisy).tolist() == [4.25, 0.0, 0.25, 0.0]
    assert projected(noisy, 1.0).min() >= 1.0
    assert projected(np.array([-1.0, 0.5])).tolist() == [0.0, 0.0]


def test_bins_in_the_noise_at_the_end_are_emptied() -> None:
    assert without_noise_at_the_end(np.array([50.0, 2.0, 40.0, 12.0, -3.0, 8.0]), 3.0).tolist() == [50, 2, 40, 0, 0, 0]


def test_noise_makes_no_sessions_of_a_thousand_searches() -> None:
    """In a table of 68 bins noise passes four deviations with a chance of 0.0022, three with one of 0.088.

    Of 5,000 tables 11 are expected; more than 40 have a chance below 1e-10, and fewer than 41 at three deviations one
    below 1e-90.
    """
    noise = np.random.default_rng(7).normal(0, 5.0, (5_000, 68))
    assert sum(without_noise_at_the_end(table, 5.0).any() for table in noise) <= 40


def test_spreading_keeps_each_bin() -> None:
    values = spread(np.array([10.0, 30.0, 8.0]), (1, 2, 5), 8)
    assert [values[:1].sum(), values[1:4].sum(), values[4:].sum()] == pytest.approx([10, 30, 8])


def test_rows_that_differ_by_noise_become_one_shape() -> None:
    rows = [np.array([100.0, 50.0]), np.array([98.0, 52.0])]
    assert shrunk(rows, 50.0)[0] == pytest.approx(shrunk(rows, 50.0)[1])
    assert shrunk(rows, 1e-6)[0] == pytest.approx(rows[0], abs=1e-3)


def test_draws_follow_their_weights() -> None:
    found = Draws(np.array([1.0, 0.0, 3.0])).of((np.arange(4000) + 0.5) / 4000)
    assert np.bincount(found).tolist() == [1000, 0, 3000]
    grouped = Grouped.of_pairs(np.array([0, 0, 2]), np.array([1.0, 3.0, 5.0]), 3)
    assert grouped.sums.tolist() == [4, 0, 5]
    assert grouped.draw(np.array([0, 0, 2]), np.array([0.1, 0.9, 0.5])).tolist() == [0, 1, 2]


def test_sessions_of_a_user_keep_apart() -> None:
    start, took, user = np.array([0, 10, 5000, 3]), np.array([100, 50, 0, 7]), np.array([0, 0, 0, 1])
    moved = _apart(start, took, user, 10**6)
    assert moved.tolist() == [0, 1901, 5000, 3]
