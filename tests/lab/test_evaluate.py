"""Evaluating the release of every method against the log it came from."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.items import ITEMS, Item
from searchveil.lab.applications import APPLICATIONS
from searchveil.lab.evaluate import POINTS, _spread, evaluate
from searchveil.lab.measures import MEASURES, measure_named
from searchveil.lab.split import split
from searchveil.lab.view import View
from searchveil.log import SearchLog
from searchveil.log.demo import write_demo
from searchveil.log.read import read_log
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish import METHODS
from searchveil.publish.k_anonymity import searches_in_sessions
from searchveil.publish.k_keyword import KKeyword
from searchveil.publish.k_query import KQuery
from searchveil.publish.k_session import KSession, session_keywords
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.plan import Counted, Plan, Settings
from searchveil.publish.release import Release
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.sampling import Sampling
from searchveil.publish.synthetic.mechanism import Synthetic
from searchveil.publish.votes import Votes
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

EPSILON, DELTA = 200.0, 0.01  # no protection, but something of everything is published from a small log
CANDIDATES = pa.table({"query": ["google", "google"], "url": ["www.google.com", "nobody.example"]})
MECHANISMS: dict[str, tuple[Mechanism, set[str]]] = {  # and the kinds of items that are measured
    "weighted": (Weighted(EPSILON, DELTA), {"query", "keyword"}),
    "votes": (Votes(EPSILON, DELTA), {"query", "keyword"}),
    "synthetic": (
        Synthetic(EPSILON, DELTA, from_="2024-03-01", to="2024-05-31"),
        {"query", "keyword", "click", "url", "transition"},
    ),
    "zealous, keywords": (Zealous(EPSILON, DELTA, item="keyword"), {"keyword"}),
    "zealous, queries": (Zealous(EPSILON, DELTA, item="query"), {"query", "keyword"}),
    "zealous, pairs": (Zealous(EPSILON, DELTA, item="pair"), {"transition", "query", "keyword"}),
    "zealous, clicks": (Zealous(EPSILON, DELTA, item="click"), {"click", "query", "keyword", "url"}),
    "zealous, urls": (Zealous(EPSILON, DELTA, item="url"), {"url"}),
    "korolova": (Korolova(EPSILON, DELTA), {"query", "keyword"}),
    "korolova with clicks": (Korolova(EPSILON, DELTA, candidates=CANDIDATES), {"query", "keyword", "click", "url"}),
    "safelog-click": (
        SafeLogClick(epsilon=EPSILON, delta=DELTA, transitions=True),
        {"query", "keyword", "click", "url", "transition"},
    ),
    "safelog-session": (
        SafeLogSession(epsilon=EPSILON, delta=DELTA, clicks_per_user=3),
        {"query", "keyword", "click", "url", "transition"},
    ),
    "k-query": (KQuery(3), {"query", "keyword", "transition"}),
    "k-session": (KSession(3), {"keyword"}),
    "k-keyword": (KKeyword(3), {"keyword"}),
    "sampling": (Sampling(0.5, EPSILON), {"click", "query", "keyword", "url"}),
    "sampling, the program": (Sampling(0.5, sampler="poisson"), {"click", "query", "keyword", "url"}),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchLog]:
    engine = open_engine()
    yield read_log(write_demo(tmp_path_factory.mktemp("demo") / "log.parquet", users=250).path, engine=engine)
    engine.close()


def kinds(figures: dict[str, float]) -> set[str]:
    return {name.replace("@", ".").split(".")[0] for name in figures}


def test_no_method_is_forgotten() -> None:
    assert {mechanism.method for mechanism, _ in MECHANISMS.values()} == set(METHODS)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_method(log: SearchLog, name: str) -> None:
    mechanism, measured = MECHANISMS[name]
    release = mechanism.release(log, source=keyed(b"evaluate"))
    result = evaluate(release, log)
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))

    assert kinds(record["measures"]["coverage"]) == measured
    assert set(record["measures"]) | set(record["applications"]) | set(record["skipped"]) == {*MEASURES, *APPLICATIONS}
    assert not set(record["skipped"]) & {*record["measures"], *record["applications"]}
    assert ("frequent-pairs" in record["measures"]) == ("click" in measured)
    assert ("retained-users" in record["measures"]) == name.startswith("sampling")
    for scores in record["applications"].values():
        assert set(scores) == {"original", "release"}
        assert all(isfinite(value) for side in scores.values() for value in side.values())
    assert record["in_sample"] is True
    assert record["doubt"] is None, "all that it published is in the log"
    assert "not covered by the guarantee" in record["warning"]

    charts = record["charts"]
    assert charts["item"] in measured
    assert all(count > 0 and items > 0 for count, items in charts["count_distribution"]["original"])
    assert [rank for rank, _ in charts["coverage"]] == sorted({rank for rank, _ in charts["coverage"]})
    assert all(0 <= share <= 1 for _, share in charts["coverage"])
    assert len(charts["frequency"]) <= POINTS
    assert all(0 <= share <= 1 for point in charts["frequency"] for share in point)


@pytest.mark.slow
def test_the_log_itself_as_a_release_loses_nothing(log: SearchLog) -> None:
    """A release that holds every query with its count: what any measure calls perfect."""
    queries = log.engine.fetch(View.of_log(log).tables["query"])
    result = evaluate(by_hand(queries), log, applications=["index-caching"])
    perfect(result.measures)
    scores = result.applications["index-caching"]
    assert scores["release"] == scores["original"]
    charts = result.charts
    assert charts["count_distribution"]["original"] == charts["count_distribution"]["release"]
    assert all(share == 1 for _, share in charts["coverage"])
    assert all(before == after for before, after in charts["frequency"])


def perfect(measures: Mapping[str, Mapping[str, float]]) -> None:
    """Every measure says what its documentation promises of a perfect release."""
    assert set(measures["coverage"].values()) == {1.0}
    for name in ("jensen-shannon", "l1", "kl", "count-difference"):
        assert max(measures[name].values()) == pytest.approx(0, abs=1e-9), name
    for name, value in measures["count-distribution"].items():
        if name.endswith("_release"):
            assert value == measures["count-distribution"][name.replace("_release", "_original")]
        elif name.endswith("_expected"):
            assert value == measures["count-distribution"][name.replace("_expected", "_original")]
    for name, value in measures["diversity"].items():
        assert value == 1 or name.endswith(".kept"), name
    for name, value in measures.get("frequent-pairs", {}).items():
        assert value == pytest.approx(0 if name.startswith("distance") else 1, abs=1e-9), name
    for name, value in measures.get("diff-ratio", {}).items():
        assert value == pytest.approx(0 if name.endswith("mean") else 1, abs=1e-9), name


@pytest.mark.slow
@pytest.mark.parametrize("item", ITEMS.values(), ids=str)
def test_the_users_of_all_items_are_a_perfect_release_of_users(log: SearchLog, item: Item) -> None:
    """The log counts searches, such a release users: held against searches, not even all users would do."""
    held = item.of(log)
    counts = log.engine.fetch(held.group_by(list(item.columns)).agg(count=held.count()))
    perfect(evaluate(by_hand(counts, item.name, counts="users"), log, applications=[]).measures)


def test_all_sessions_are_a_perfect_release_of_sessions(log: SearchLog) -> None:
    held = session_keywords(searches_in_sessions(log, "key"))
    sets = log.engine.fetch(held.group_by("session").agg(keywords=held["keyword"].collect().join(" ")))
    perfect(evaluate(by_hand(sets, "session", counts="sessions"), log, applications=[]).measures)


@pytest.mark.slow
def test_a_user_who_comes_back_is_one_user(duckdb_engine: Engine) -> None:
    """As in MSNBC's log, where most visits are repeats: one of two users reads the news 98 times, both read tech."""
    rows = [("a", "news")] * 98 + [("a", "tech"), ("b", "tech")]
    users, queries = zip(*rows, strict=True)
    log = SearchLog(duckdb_engine.load(pa.table({"user": list(users), "query": list(queries)})), duckdb_engine)
    by_users = by_hand(pa.table({"query": ["news", "tech"], "count": [1, 2]}), counts="users")
    by_visits = by_hand(pa.table({"query": ["news", "tech"], "count": [98, 2]}), counts="occurrences")
    for exact in (by_users, by_visits):
        perfect(evaluate(exact, log, applications=[]).measures)
    visits_as_users = by_hand(by_visits.table, counts="users")
    assert evaluate(visits_as_users, log, applications=[]).measures["jensen-shannon"]["query"] > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_folder_says_what_it_counts(log: SearchLog, name: str, tmp_path: Path) -> None:
    release = MECHANISMS[name][0].release(log, source=keyed(b"counts"))
    assert Release.read(release.write(tmp_path / "out")).plan.counts == release.plan.counts
    occurrences = {"korolova", "korolova with clicks", "safelog-click", "k-query", "sampling", "sampling, the program"}
    occurrences.add("synthetic")
    expected = "occurrences" if name in occurrences else "sessions" if name == "k-session" else "users"
    assert release.plan.counts == expected


def test_a_folder_that_counts_something_else_is_refused(log: SearchLog, tmp_path: Path) -> None:
    folder = by_hand(pa.table({"query": ["a"], "count": [2]})).write(tmp_path / "out")
    record = json.loads((folder / "guarantee.json").read_text())
    (folder / "guarantee.json").write_text(json.dumps(record | {"counts": "sheep"}))
    with pytest.raises(InputError, match="counts are of 'sheep'"):
        evaluate(folder, log, applications=[])


@pytest.mark.slow
def test_the_exponent_of_the_original_does_not_depend_on_the_release(log: SearchLog) -> None:
    queries = log.engine.fetch(View.of_log(log).tables["query"]).sort_by([("count", "descending")])
    found = {
        evaluate(by_hand(queries[:rows]), log, applications=[]).measures["count-distribution"][
            "query.exponent_original"
        ]
        for rows in (3, 30, 300)
    }
    assert len(found) == 1


def by_hand(table: pa.Table, item: str = "query", counts: Counted = "occurrences") -> Release:
    guarantee = Guarantee.no_differential_privacy(proof="none", caveats=("made by hand",))
    return Release({"data": table}, Plan("by-hand", item, Settings(), guarantee, counts=counts))


def test_charts_of_a_small_log(duckdb_engine: Engine) -> None:
    """Queries a 3, b 2 and c 1 of 6; the release has a 6 and c 2 of 8."""
    log = small_log(duckdb_engine)
    result = evaluate(by_hand(pa.table({"query": ["a", "c"], "count": [6, 2]})), log, applications=[])
    assert result.charts == {
        "item": "query",
        "count_distribution": {"original": [[1, 1], [2, 1], [3, 1]], "release": [[2, 1], [6, 1]]},
        "coverage": [[1, 1], [2, 1 / 2], [3, pytest.approx(2 / 3)]],
        "frequency": [[3 / 6, 6 / 8], [pytest.approx(1 / 6), 2 / 8]],
    }


def small_log(engine: Engine) -> SearchLog:
    queries = ["a", "a", "a", "b", "b", "c"]
    users = [f"u{i}" for i in range(len(queries))]
    return SearchLog(engine.load(pa.table({"user": users, "query": queries})), engine)


@pytest.mark.slow
def test_a_folder_is_evaluated_as_the_release_is(log: SearchLog, tmp_path: Path) -> None:
    release = Zealous(EPSILON, DELTA, item="pair").release(log, source=keyed(b"folder"))
    folder = release.write(tmp_path / "out")
    assert evaluate(folder, log) == evaluate(str(folder), log) == evaluate(release, log)


@pytest.mark.slow
def test_the_same_seed_asks_the_same_and_another_does_not(log: SearchLog) -> None:
    release = KQuery(3).release(log, source=keyed(b"seed"))
    once, again, other = (
        evaluate(release, log, applications=["index-caching"], seed=seed).applications for seed in (1, 1, 2)
    )
    assert once == again
    assert once != other


@pytest.mark.slow
def test_users_set_apart(log: SearchLog) -> None:
    train, test = split(log, seed=5)
    release = KQuery(3).release(train, source=keyed(b"apart"))
    result = evaluate(release, train, applications=["index-caching"], test=test)
    assert result.in_sample is False
    assert "a fifth of the log's own users" not in result.warning
    assert "a fifth of the log's own users" in evaluate(release, train, applications=["index-caching"]).warning
    score = "hit probability"
    seen = evaluate(release, train, applications=["index-caching"], test=train).applications["index-caching"]
    assert seen["original"][score] > result.applications["index-caching"]["original"][score], "what it knows is easier"


def test_what_is_missing_is_said(duckdb_engine: Engine) -> None:
    clicks = pa.table({"query": ["a"], "url": ["x"], "count": [3]})
    result = evaluate(by_hand(clicks, "click"), small_log(duckdb_engine))
    assert result.skipped["retained-users"] == "the release has no users"
    assert result.skipped["frequent-pairs"] == "the log has no clicks"
    assert result.skipped["query-suggestion"].startswith("the ")
    assert result.charts["item"] is None, "its queries are those of clicks, which such a log has not"


def test_nothing_in_common(duckdb_engine: Engine) -> None:
    """Urls against a log without any: no figure, no chart, and a reason for each."""
    result = evaluate(by_hand(pa.table({"url": ["x"], "count": [3]}), "url"), small_log(duckdb_engine))
    assert result.measures == {}
    assert result.applications == {}
    assert result.skipped["coverage"] == "the log and the release share nothing that it could compare"
    assert result.charts["item"] is None
    assert result.charts["coverage"] == []


def test_too_few_users_to_set_any_apart(duckdb_engine: Engine) -> None:
    two = SearchLog(duckdb_engine.load(pa.table({"user": ["u1", "u2"], "query": ["a", "a"]})), duckdb_engine)
    seed = next(seed for seed in range(100) if split(two, seed=seed)[1].users == 0)
    release = by_hand(pa.table({"query": ["a"], "count": [2]}))
    result = evaluate(release, two, applications=["index-caching"], seed=seed)
    assert "has no searches" in result.skipped["index-caching"]
    assert result.measures["coverage"] == {"query@1": 1, "keyword@1": 1}


def test_wrong_requests_are_refused(duckdb_engine: Engine) -> None:
    log, release = small_log(duckdb_engine), by_hand(pa.table({"query": ["a"], "count": [2]}))
    with pytest.raises(InputError, match="no application 'telepathy'; there are "):
        evaluate(release, log, applications=["telepathy"])
    with pytest.raises(InputError, match="no table that can be compared"):
        evaluate(by_hand(pa.table({"smell": ["rose"]})), log)
    other = open_engine()
    with pytest.raises(InputError, match="different engines"):
        evaluate(release, log, test=small_log(other))
    other.close()


def test_the_steps_are_told(duckdb_engine: Engine) -> None:
    told: list[str] = []
    release = by_hand(pa.table({"query": ["a"], "count": [2]}))
    evaluate(release, small_log(duckdb_engine), applications=[], progress=told.append)
    assert told[0] == "measuring jensen shannon"
    assert "measuring count difference" in told
    assert not any(step.startswith("trying") for step in told)


def memory_limit(engine: Engine) -> str:
    return str(engine.connection.con.sql("select current_setting('memory_limit')").fetchall()[0][0])


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "during"), [(None, "2.7 GiB"), ("3GiB", "3.0 GiB"), ("1GiB", "1.0 GiB")])
def test_the_engine_leaves_memory_to_the_click_graph(memory: str | None, during: str) -> None:
    """Unless the user has said how much it may take. Afterwards all is as before."""
    engine = open_engine(memory=memory)
    try:
        before, seen = memory_limit(engine), []
        release = by_hand(pa.table({"query": ["a"], "count": [2]}))
        evaluate(release, small_log(engine), progress=lambda _: seen.append(memory_limit(engine)))
        assert set(seen) == {during}
        assert memory_limit(engine) == before
    finally:
        engine.close()


@pytest.mark.parametrize("last", [0, 1, 499, 500, 501, 100_000])
def test_points_spread_from_the_first_to_the_last(last: int) -> None:
    ranks = list(_spread(last))
    assert ranks == sorted(set(ranks))
    assert len(ranks) <= POINTS
    assert ranks[:3] == list(range(1, last + 1))[:3]
    assert not last or ranks[-1] == last


@pytest.mark.spark
def test_spark_says_what_duckdb_says(spark_engine: Engine, duckdb_engine: Engine) -> None:
    """A release of keywords, end to end; the measures of clicks, on a sample, in the test below."""
    keywords = by_hand(pa.table({"keyword": ["a", "z"], "count": [6, 2]}), "keyword", counts="users")
    on_spark, on_duckdb = (
        evaluate(keywords, small_log(engine), applications=[]) for engine in (spark_engine, duckdb_engine)
    )
    kept = {"jensen-shannon", "coverage", "l1", "kl", "count-distribution", "count-difference", "diversity"}
    assert kept == set(on_duckdb.measures)
    assert_alike(on_spark.measures, on_duckdb.measures)
    assert on_spark.skipped == on_duckdb.skipped
    assert on_spark.charts == on_duckdb.charts


@pytest.mark.spark
def test_spark_measures_clicks_as_duckdb_does(spark_engine: Engine, duckdb_engine: Engine) -> None:
    """On a sample and on what it was sampled from. Kinds of items worked out from clicks would add time and no code."""

    def figures(engine: Engine) -> dict[str, dict[str, float]]:
        rows = [(user, query) for user in range(7) for query in ("a", "b b", "c")[: 1 + user % 3] for _ in range(user)]
        columns: dict[str, Any] = {
            "user": [f"u{user}" for user, _ in rows],
            "query": [query for _, query in rows],
            "url": [f"{query}.org" for _, query in rows],
        }
        log = SearchLog(engine.load(pa.table(columns)), engine)
        sample = {"user": ["u1", "u2", "u5"], "query": ["a", "a", "b b"], "url": ["a.org", "a.org", "b b.org"]}
        release = by_hand(pa.table({**sample, "count": [1, 1, 3]}), "click")
        original, released = (
            View(engine, {name: view.tables[name] for name in ("click", "history", "user")})
            for view in (View.of_log(log), View.of_release(release, engine))
        )
        names = ("frequent-pairs", "diversity", "diff-ratio", "retained-users")
        return {name: measure_named(name)().measure(original, released) for name in names}

    on_duckdb = figures(duckdb_engine)
    assert any(name.startswith("triplets") for name in on_duckdb["diff-ratio"])
    assert_alike(figures(spark_engine), on_duckdb)


def assert_alike(some: Mapping[str, dict[str, float]], others: Mapping[str, dict[str, float]]) -> None:
    assert set(some) == set(others)
    for name, figures in others.items():
        assert some[name] == pytest.approx(figures), name
