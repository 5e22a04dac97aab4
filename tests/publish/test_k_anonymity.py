"""The k-anonymity baselines against plain-Python references, on every engine and on random logs."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.progress import silent
from searchveil.publish.k_anonymity import KAnonymity
from searchveil.publish.k_keyword import LONGEST_PREFIX, KKeyword
from searchveil.publish.k_query import KQuery
from searchveil.publish.k_session import KSession
from searchveil.publish.mechanism import Mechanism

Row = tuple[Any, str, int]  # user, query, minute

START = datetime(2024, 3, 1)
# Words that begin other words, words that share nothing, letters of two and four bytes, two spellings of one query.
QUERIES = ["a", "ab", "AB  a", "abc", "abd", "abde ab", "b", "b a", "ça", "çb b", "𝔸x", "𐐨", "𐐨x", "zoo"]

# Few users, queries and times for the number of rows, so that they meet.
rows_of_a_log = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(QUERIES), st.sampled_from([0, 1, 30, 61, 61, 300])),
    min_size=12,
    max_size=40,
)
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])

A_LOG: list[Row] = [
    (1, "Weather  Berlin", 0),
    (1, "ann roe cure", 5),
    (1, "weather", 90),
    (2, "weather berlin", 0),
    (2, "weather berlin", 0),
    (2, "café paris", 10),
    (3, "weather berlin", 7),
    (3, "cafés", 200),
    (4, "weather", 1),
    (4, "cafe\u0301 paris", 2),
    (5, "weather rome", 3),
    (5, "car", 50),
    (6, "weather oslo", 3),
    (6, "cart", 4),
    (6, "   ", 300),
]


def log_of(engine: Engine, rows: list[Row], *, times: bool = True) -> SearchLog:
    columns: dict[str, Any] = {
        "user": pa.array([user for user, _, _ in rows], None if rows else pa.int64()),
        "query": pa.array([query for _, query, _ in rows], pa.string()),
    }
    if times:
        columns["time"] = pa.array([START + timedelta(minutes=minute) for _, _, minute in rows], pa.timestamp("us"))
    return SearchLog(engine.load(pa.table(columns)), engine)


def published(mechanism: Mechanism, log: SearchLog, key: bytes = b"test") -> list[dict[str, Any]]:
    """The published rows; straight from `publish`, because a release of fewer than two users is refused."""
    (table,) = mechanism.publish(log, mechanism.plan(log), keyed(key), silent).tables.values()
    return table.to_pylist()


# The references: what the papers say, with loops.


def normal(query: str) -> str:
    from unicodedata import normalize

    return " ".join(normalize("NFKC", query).lower().split())


def sessions_of(rows: list[Row]) -> list[tuple[int, list[str]]]:
    """(user, queries in order) of every session: a silence of more than 30 minutes ends one."""
    histories: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for user, query, minute in rows:
        histories[user].add((minute, normal(query)))
    sessions = []
    for user, history in histories.items():
        searches = sorted(history)
        starts = [0] + [i + 1 for i, (a, b) in enumerate(pairwise(searches)) if b[0] - a[0] > 30] + [len(searches)]
        for start, end in pairwise(starts):
            sessions.append((user, [query for _, query in searches[start:end] if query]))
    return sessions


def k_query_reference(rows: list[Row], k: int) -> Counter[tuple[str, ...]]:
    users = defaultdict(set)
    for user, query, _ in rows:
        users[normal(query)].add(user)
    kept = [tuple(query for query in queries if len(users[query]) >= k) for _, queries in sessions_of(rows)]
    return Counter(filter(None, kept))


def k_session_reference(rows: list[Row], k: int) -> Counter[str]:
    sets = [frozenset(" ".join(queries).split()) for _, queries in sessions_of(rows)]
    sets = [keywords for keywords in sets if keywords]
    frequency = Counter(keyword for keywords in sets for keyword in keywords)
    order = {keyword: i for i, keyword in enumerate(sorted(frequency, key=lambda word: (-frequency[word], word)))}
    sharing = Counter(sets)
    clusters = [[keywords] * sessions for keywords, sessions in sharing.items() if sessions >= k]
    rare = sorted((s for s in sets if sharing[s] < k), key=lambda s: sorted(order[word] for word in s))
    if len(rare) >= k:
        cuts = [*range(0, len(rare) - k + 1, k), len(rare)]
        clusters += [rare[start:end] for start, end in pairwise(cuts)]
    result: Counter[str] = Counter()
    for cluster in clusters:
        votes = Counter(keyword for keywords in cluster for keyword in keywords)
        level = sorted(keyword for keyword, holding in votes.items() if 2 * holding > len(cluster))
        if level:
            result[" ".join(level)] += len(cluster)
    return result


def k_keyword_reference(rows: list[Row], k: int) -> dict[tuple[str, bool], int]:
    holders: dict[str, set[Any]] = defaultdict(set)
    for user, query, _ in rows:
        for keyword in normal(query).split():
            holders[keyword].add(user)
    result = {(keyword, False): len(users) for keyword, users in holders.items() if len(users) >= k}
    prefixes: dict[str, set[Any]] = defaultdict(set)
    for keyword, users in holders.items():
        if len(users) < k:
            prefixes[keyword[:LONGEST_PREFIX]] |= users
    for length in range(LONGEST_PREFIX, 0, -1):
        for prefix in [prefix for prefix in prefixes if len(prefix) == length]:
            users = prefixes.pop(prefix)
            if len(users) >= k:
                result[prefix + "*", True] = len(users)
            else:
                prefixes[prefix[:-1]] |= users
    return result


def sequences(release: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    sessions: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in release:
        sessions[row["session"]].append((row["position"], row["query"]))
    for searches in sessions.values():
        assert [position for position, _ in searches] == list(range(1, len(searches) + 1))
    return Counter(tuple(query for _, query in searches) for searches in sessions.values())


def sets(release: list[dict[str, Any]]) -> Counter[str]:
    assert len({row["session"] for row in release}) == len(release)
    return Counter(row["keywords"] for row in release)


def histogram(release: list[dict[str, Any]]) -> dict[tuple[str, bool], int]:
    return {(row["keyword"], row["generalised"]): row["count"] for row in release}


# A log small enough to follow by eye, on every engine.


def test_k_query_keeps_the_queries_of_k_users_in_their_sessions(engine: Engine) -> None:
    release = published(KQuery(2), log_of(engine, A_LOG))
    assert sequences(release) == {
        ("weather berlin",): 2,
        ("weather berlin", "café paris"): 1,
        ("weather",): 1,
        ("weather", "café paris"): 1,
    }


def test_k_session_levels_clusters_of_k_sessions(engine: Engine) -> None:
    # In order: [weather; weather berlin; weather berlin café paris], [weather berlin ann roe cure;
    # weather café paris; weather cart oslo], [weather rome; cafés; car]: the last cluster shares no keyword.
    release = published(KSession(3), log_of(engine, A_LOG))
    assert sets(release) == {"berlin weather": 3, "weather": 3}


def test_k_keyword_shortens_rare_keywords_to_shared_prefixes(engine: Engine) -> None:
    release = published(KKeyword(2), log_of(engine, A_LOG))
    assert histogram(release) == {
        ("weather", False): 6,
        ("berlin", False): 3,
        ("café", False): 2,
        ("paris", False): 2,
        ("car*", True): 2,
        ("ro*", True): 2,
        ("c*", True): 2,
    }


def test_a_log_without_times_has_a_session_for_every_row(engine: Engine) -> None:
    log = log_of(engine, A_LOG, times=False)
    assert sequences(published(KQuery(3), log)) == {("weather berlin",): 4}
    assert sets(published(KSession(3), log))["berlin weather"] == 4


# Random logs.


@pytest.mark.slow
@few
@given(rows=rows_of_a_log, k=st.integers(2, 4))
def test_k_query_on_random_logs(duckdb_engine: Engine, rows: list[Row], k: int) -> None:
    release = published(KQuery(k), log_of(duckdb_engine, rows))
    users = defaultdict(set)
    for user, query, _ in rows:
        users[normal(query)].add(user)
    assert all(len(users[row["query"]]) >= k for row in release)
    assert sequences(release) == k_query_reference(rows, k)


@pytest.mark.slow
@few
@given(rows=rows_of_a_log, k=st.integers(2, 4))
def test_k_session_on_random_logs(duckdb_engine: Engine, rows: list[Row], k: int) -> None:
    released = sets(published(KSession(k), log_of(duckdb_engine, rows)))
    assert all(sessions >= k for sessions in released.values())
    typed = Counter(" ".join(sorted(set(" ".join(queries).split()))) for _, queries in sessions_of(rows))
    assert all(released[keywords] >= sessions for keywords, sessions in typed.items() if keywords and sessions >= k)
    assert released == k_session_reference(rows, k)


@pytest.mark.slow
@few
@given(rows=rows_of_a_log, k=st.integers(2, 4))
def test_k_keyword_on_random_logs(duckdb_engine: Engine, rows: list[Row], k: int) -> None:
    released = histogram(published(KKeyword(k), log_of(duckdb_engine, rows)))
    holders: dict[str, set[Any]] = defaultdict(set)
    for user, query, _ in rows:
        for keyword in normal(query).split():
            holders[keyword].add(user)
    exact = {(keyword, False): len(users) for keyword, users in holders.items() if len(users) >= k}
    assert {token: count for token, count in released.items() if not token[1]} == exact
    for (token, generalised), count in released.items():
        rare = [users for word, users in holders.items() if len(users) < k and word.startswith(token[:-1])]
        assert k <= count
        assert not generalised or count <= len(set().union(*rare))
    assert released == k_keyword_reference(rows, k)


# What a release must not tell.


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [KQuery(2), KSession(2)], ids=lambda mechanism: mechanism.method)
def test_session_ids_are_fresh_and_order_the_rows(duckdb_engine: Engine, mechanism: Mechanism) -> None:
    log = log_of(duckdb_engine, A_LOG)
    once, again, other = (published(mechanism, log, key) for key in (b"one", b"one", b"two"))
    ids = [row["session"] for row in once]
    assert once == again
    assert ids == sorted(ids)
    assert not set(ids) & {row["session"] for row in other}
    assert all("user" not in row and "time" not in row for row in once)


def test_session_1_of_user_11_is_not_session_11_of_user_1(duckdb_engine: Engine) -> None:
    rows: list[Row] = [("1", "a", 60 * hour) for hour in range(11)] + [("11", "a", 0)]
    assert len({row["session"] for row in published(KQuery(2), log_of(duckdb_engine, rows))}) == 12


@pytest.mark.slow
def test_the_sessions_of_one_user_are_one_user(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(1, "private", minute) for minute in (0, 100, 200)] + [(2, "weather", 0), (3, "weather", 0)]
    assert sequences(published(KQuery(2), log_of(duckdb_engine, rows))) == {("weather",): 2}
    assert histogram(published(KKeyword(2), log_of(duckdb_engine, rows))) == {("weather", False): 2}


@pytest.mark.parametrize("mechanism", [KQuery(2), KSession(2), KKeyword(2)], ids=lambda mechanism: mechanism.method)
@pytest.mark.parametrize("rows", [[], [(1, "private", 0)], [(1, " ", 0), (2, " ", 0)]], ids=["empty", "one", "blank"])
def test_nothing_shared_is_nothing_published(duckdb_engine: Engine, mechanism: Mechanism, rows: list[Row]) -> None:
    assert published(mechanism, log_of(duckdb_engine, rows)) == []


def test_fewer_than_k_rare_sessions_are_left_out(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(user, "weather", 0) for user in range(3)] + [(user, "private", 0) for user in (3, 4)]
    assert sets(published(KSession(3), log_of(duckdb_engine, rows))) == {"weather": 3}


@pytest.mark.slow
def test_a_long_pasted_text_is_cut_before_it_is_shortened(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(user, "x" * 500 + str(user), 0) for user in range(2)]
    assert histogram(published(KKeyword(2), log_of(duckdb_engine, rows))) == {("x" * LONGEST_PREFIX + "*", True): 2}


# Parameters and promises.


@pytest.mark.parametrize("mechanism", [KQuery, KSession, KKeyword])
@pytest.mark.parametrize("k", [1, 0, -5, 2.5])
def test_k_below_two_is_refused(mechanism: type[KAnonymity], k: Any) -> None:
    with pytest.raises(InputError, match=f"at least 2, not {k}"):
        mechanism(k)


@pytest.mark.parametrize("mechanism", [KQuery(7), KSession(7), KKeyword(7)], ids=lambda mechanism: mechanism.method)
def test_the_plan_says_that_nothing_is_differentially_private(mechanism: KAnonymity) -> None:
    plan = mechanism.plan()
    assert not plan.guarantee.is_private
    assert plan.parameters == {"k": 7}
    assert plan.to_json()["guarantee"]["epsilon"] is None
    assert str(plan.guarantee).startswith("This release is NOT differentially private.")
    assert "searchveil attack k-anonymity" in str(plan.guarantee)
