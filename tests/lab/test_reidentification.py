"""Linkage by known queries: closed-form figures on small logs, and the demo log's planted queries."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.lab.attacks.reidentification import Linkage, ReleasedTexts, attack_reidentification
from searchveil.log import SearchLog
from searchveil.log.demo import planted_personal_queries, write_demo
from searchveil.log.read import read_log
from searchveil.publish.k_keyword import KKeyword
from searchveil.publish.k_query import KQuery
from searchveil.publish.k_session import KSession
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.plan import Plan
from searchveil.publish.release import Release
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.zealous import Zealous

START = datetime(2024, 3, 1)
USERS, SEED = 400, 1


def log_of(engine: Engine, histories: dict[str, list[str]]) -> SearchLog:
    rows = [(user, query, i) for user, queries in histories.items() for i, query in enumerate(queries)]
    times = [START + timedelta(minutes=i) for _, _, i in rows]
    columns: dict[str, Any] = {"user": [u for u, _, _ in rows], "query": [q for _, q, _ in rows], "time": times}
    return SearchLog(engine.load(pa.table(columns)), engine)


def made(**tables: pa.Table) -> Release:
    """A release that says what the test wants it to say."""
    plan: Plan = KQuery().plan()
    return Release(tables, plan)


TWINS = {"ann": ["a", "b", "c"], "bob": ["a", "b", "d"], "cat": ["x", "y", "z"], "dan": ["a", "w"]}


def test_before_is_the_share_of_those_who_fit(duckdb_engine: Engine) -> None:
    """Knowing all but one query: ann and bob share a and b, so two of three draws tell them apart; cat is alone."""
    log = log_of(duckdb_engine, TWINS)
    release = made(data=pa.table({"query": ["a"], "count": [9]}))
    for key in (b"1", b"2", b"3", b"4"):
        result = attack_reidentification(log, release, known=2, source=keyed(key))
        assert result.targets == 3, "dan has no more than what would be known"
        figures = (round(result.before.found, 6), round(result.before.alone, 6))
        assert figures in {(1.0, 1.0), (0.833333, 0.666667), (0.666667, 0.333333)}
        assert result.before.chance == 0.25
        assert result.after is None
    assert attack_reidentification(log, release, known=1, targets=2, source=keyed(b"5")).targets == 2


def test_who_is_like_everybody_is_not_found(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, {f"user {i}": ["a", "b", "c"] for i in range(8)})
    pseudonymous = pa.table({"user": [f"p{i}" for i in range(8) for _ in "abc"], "query": ["a", "b", "c"] * 8})
    result = attack_reidentification(log, made(data=pseudonymous), known=2)
    assert result.before == result.after == Linkage(1 / 8, 0, 1 / 8)
    assert result.guess_right == result.guess_right_about_others == 1, "what everybody searches is no secret of anyone"


def test_a_log_under_fresh_pseudonyms_is_no_protection(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, {f"user {i}": [f"{i} {letter}" for letter in "abcd"] for i in range(6)})
    rows = [(f"p{i}", f"{i} {letter}") for i in range(6) for letter in "abcd"]
    pseudonymous = pa.table({"user": [user for user, _ in rows], "query": [query for _, query in rows]})
    result = attack_reidentification(log, made(data=pseudonymous), known=1)
    assert result.before == result.after == Linkage(1, 1, 1 / 6)
    assert (result.guess_right, result.guess_right_about_others) == (1, 0)


def test_sessions_are_followed_and_counts_are_not(duckdb_engine: Engine) -> None:
    """A kept session with a known query in it shows what came with it; the same queries as counts do not."""
    popular = {f"user {i}": ["weather", "news", f"own {i}"] for i in range(4)}
    log = log_of(duckdb_engine, popular)
    k_query = attack_reidentification(log, KQuery(3).release(log, source=keyed(b"q")), known=1, source=keyed(b"t"))
    assert k_query.after is not None
    assert k_query.after.found <= k_query.before.found
    assert k_query.after.alone == 0
    assert "a record of the target is found" in str(k_query)
    counts = made(data=pa.table({"query": ["weather", "news"], "count": [4, 4]}))
    counted = attack_reidentification(log, counts, known=1, source=keyed(b"t"))
    assert counted.after is None
    assert "there is no record of a person in it to find" in str(counted)


def test_guesses_come_from_the_best_row_there_is() -> None:
    pairs = ReleasedTexts.of(
        [
            pa.table({"query": ["flu", "cats"], "count": [50, 90]}),
            pa.table({"query": ["flu", "flu"], "next": ["fever", "clinic"], "count": [7, 30]}),
        ]
    )
    assert pairs.guess(frozenset({"flu"})) == {"clinic"}
    assert pairs.guess(frozenset({"dogs"})) == {"cats"}, "the most frequent, where nothing follows from what is known"
    assert pairs.guess(frozenset({"cats"})) == {"flu"}
    sequences = ReleasedTexts.of([pa.table({"session": [["a", "b", "c"], ["a", "x"]], "count": [5, 9]})])
    assert sequences.guess(frozenset({"a", "b"})) == {"c"}
    assert sequences.guess(frozenset({"a"})) == {"x"}
    assert sequences.records == []
    nothing = ReleasedTexts.of([pa.table({"url": ["http://u.example"], "count": [5]})])
    assert nothing.guess(frozenset({"a"})) == frozenset()
    assert nothing.right(frozenset(), frozenset({"a"})) == 0


def test_words_are_read_where_a_release_has_words() -> None:
    table: dict[str, Any] = {
        "keyword": ["tax", "lawy*", "berlin"],
        "generalised": [False, True, False],
        "count": [9, 9, 3],
    }
    words = ReleasedTexts.of([pa.table(table)])
    assert (words.by_word, words.popular) == (True, ["tax", "berlin"])
    assert words.read(frozenset({"tax lawyer"})) == {"tax", "lawyer"}
    assert words.shows("berlin tax")
    assert not words.shows("tax lawyer")
    records = ReleasedTexts.of([pa.table({"session": ["s1", "s2"], "keywords": ["tax berlin", "cats"]})])
    assert records.shows("berlin tax")
    assert not records.shows("tax cats")
    assert records.best(frozenset({"tax cats berlin"})) == [{"tax", "berlin"}]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchLog]:
    path: Path = write_demo(tmp_path_factory.mktemp("demo") / "log.parquet", users=USERS, seed=SEED).path
    engine = open_engine()
    read = read_log(path, engine=engine)
    yield replace(read, table=engine.stage(read.table))
    engine.close()


METHODS: list[Mechanism] = [
    KQuery(3),
    KSession(3),
    KKeyword(3),
    Zealous(5, 1e-3),
    Zealous(5, 1e-3, item="keyword"),
    Zealous(5, 1e-3, item="pair", per_user=1),
    Zealous(5, 1e-3, item="click"),
    Zealous(5, 1e-3, item="url"),
    Korolova(5, 1e-3),
    SafeLogClick(10, 1e-3, transitions=True),
    SafeLogSession(5, 1e-2, queries_per_session=2),
]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", METHODS, ids=lambda mechanism: str(mechanism.plan(USERS).to_json()["item"]))
def test_every_method_can_be_attacked(mechanism: Mechanism, demo: SearchLog) -> None:
    release = mechanism.release(demo, source=keyed(b"release"))
    planted = planted_personal_queries(USERS, SEED)
    result = attack_reidentification(demo, release, targets=40, planted=planted, source=keyed(b"targets"))
    assert result.targets == 40
    assert result.before.found > 0.9, "three queries are a fingerprint"
    assert result.planted == planted.num_rows
    assert (result.after is not None) == (mechanism.method in ("k-query", "k-session"))
    if result.after is not None:
        assert result.after.found < result.before.found
    if release.guarantee.is_private:
        assert result.planted_published == ()


@pytest.mark.slow
def test_a_planted_query_that_comes_out_is_named(demo: SearchLog) -> None:
    """The control: a release of everything. k-session does the same by itself where one account has k sessions."""
    planted = planted_personal_queries(USERS, SEED)
    everything = made(data=pa.table({"query": [str(q).upper() for q in planted["query"].to_pylist()]}))
    lower = made(data=planted.select(["query"]))
    assert attack_reidentification(demo, everything, targets=5, planted=planted).planted_published == ()
    found = attack_reidentification(demo, lower, targets=5, planted=planted)
    assert len(found.planted_published) == found.planted == planted.num_rows
    assert f"planted personal queries in the release: {planted.num_rows} of {planted.num_rows}" in str(found)


def test_the_result_is_plain_json_and_a_text(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, TWINS)
    release = made(data=pa.table({"query": ["a"], "count": [9]}))
    result = attack_reidentification(log, release, known=2, source=keyed(b"j"))
    record = json.loads(json.dumps(result.to_json()))
    assert record["after"] is None
    assert record["before"]["chance"] == 0.25
    assert record["planted_published"] == []
    assert str(result).splitlines()[0] == "An attacker who knows 2 queries of a person (3 targets):"
    assert "planted" not in str(result)
    assert result == attack_reidentification(log, release, known=2, source=keyed(b"j"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [({"known": 0}, "not 0"), ({"targets": 0}, "not 0"), ({"known": 3}, "nobody in a table has more than 3")],
)
def test_senseless_attacks_are_refused(duckdb_engine: Engine, asked: dict[str, int], says: str) -> None:
    release = made(data=pa.table({"query": ["a"], "count": [9]}))
    with pytest.raises(InputError, match=says):
        attack_reidentification(log_of(duckdb_engine, TWINS), release, **asked)  # type: ignore[arg-type]
