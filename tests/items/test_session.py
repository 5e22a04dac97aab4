"""Sessions as published: the engine's subsequences against loops in plain Python."""

from collections import Counter
from datetime import datetime, timedelta
from itertools import combinations, groupby
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.items.normal import count_rows
from searchveil.items.session import SEPARATOR, as_lists, first_sessions, subsequences
from searchveil.log import SearchLog
from searchveil.log.normalize import AS_TYPED, Normalization
from searchveil.log.sessions import submissions

Row = tuple[str, str, int]  # user, query, seconds
Found = Counter[tuple[str, tuple[str, ...]]]  # how often a user has a subsequence

START = datetime(2024, 5, 1)
MINUTE = 60


def sent_of(engine: Engine, rows: list[Row]) -> SearchLog:
    table = pa.table(
        {
            "user": pa.array([row[0] for row in rows], pa.string()),
            "query": pa.array([row[1] for row in rows], pa.string()),
            "time": pa.array([START + timedelta(seconds=row[2]) for row in rows], pa.timestamp("us")),
        }
    )
    return SearchLog(engine.load(table), engine)


def in_engine(engine: Engine, rows: list[Row], sessions: int, queries: int, gap_minutes: float = 30) -> Found:
    kept = first_sessions(submissions(sent_of(engine, rows)), sessions, queries, engine, gap_minutes)
    found = engine.fetch(subsequences(kept, queries, engine))
    assert set(found.column_names) == {"user", "session"}
    return Counter((row["user"], tuple(row["session"])) for row in as_lists(found).to_pylist())


def by_hand(rows: list[Row], sessions: int, queries: int, gap_minutes: float = 30) -> Found:
    """What the thesis says, with loops."""
    found: Found = Counter()
    for user in {row[0] for row in rows}:
        history = sorted({(time, query) for who, query, time in rows if who == user})
        in_sessions: list[list[str]] = []
        last: int | None = None
        for time, query in history:
            if last is None or time - last > gap_minutes * MINUTE:
                in_sessions.append([])
            in_sessions[-1].append(query)
            last = time
        collapsed = [[query for query, _ in groupby(session)] for session in in_sessions]
        long_enough = [session for session in collapsed if len(session) >= 2]
        for session in long_enough[:sessions]:
            first = session[:queries]
            for length in range(2, len(first) + 1):
                found.update((user, chosen) for chosen in combinations(first, length))
    return found


# Few queries and times that meet each other and the gap exactly.
rows_of_a_log = st.lists(
    st.tuples(
        st.sampled_from("uvw"), st.sampled_from(["a", "b", "c", "a b"]), st.integers(0, 9).map(lambda t: 600 * t)
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@given(
    rows=rows_of_a_log,
    sessions=st.integers(1, 3),
    queries=st.integers(2, 5),
    gap=st.sampled_from([5, 10, 19.99, 20, 30]),
)
@settings(max_examples=30, deadline=None)
def test_subsequences_are_those_of_plain_loops(
    duckdb_engine: Engine, rows: list[Row], sessions: int, queries: int, gap: float
) -> None:
    assert in_engine(duckdb_engine, rows, sessions, queries, gap) == by_hand(rows, sessions, queries, gap)


def crowd_of(seed: int, users: int) -> list[Row]:
    """Users with many queries in many sessions, with repeats in a row and equal times."""
    draw = Random(seed)
    rows = []
    for u in range(users):
        second = 0
        for _ in range(draw.randint(1, 30)):
            second += draw.choice([0, 1, 60, 60, 1700, 1800, 1801, 4000])
            rows.append((f"u{u}", draw.choice("aabbcdefgh"), second))
    draw.shuffle(rows)
    return rows


@pytest.mark.parametrize(("sessions", "queries"), [(1, 2), (1, 3), (2, 3), (3, 5), (100, 8)])
def test_a_crowd_of_users_at_once(duckdb_engine: Engine, sessions: int, queries: int) -> None:
    rows = crowd_of(sessions + queries, 80)
    found, expected = in_engine(duckdb_engine, rows, sessions, queries), by_hand(rows, sessions, queries)
    assert found == expected
    assert max(len(chosen) for _, chosen in expected) == queries, "the log is long enough to reach the limit"
    if queries > 3:
        assert max(expected.values()) > 1, "some user has a subsequence more than once"


def test_every_engine_finds_the_same(engine: Engine) -> None:
    rows = crowd_of(7, 12)
    for sessions, queries in ((1, 3), (2, 4)):
        assert in_engine(engine, rows, sessions, queries) == by_hand(rows, sessions, queries)


def test_a_silence_of_exactly_the_gap_does_not_end_a_session(duckdb_engine: Engine) -> None:
    rows = [("u", "a", 0), ("u", "b", 30 * MINUTE), ("u", "c", 60 * MINUTE + 1)]
    assert in_engine(duckdb_engine, rows, 5, 3) == {("u", ("a", "b")): 1}
    assert in_engine(duckdb_engine, rows, 5, 3, gap_minutes=31) == by_hand(rows, 5, 3, 31)


def test_repeats_in_a_row_collapse_before_the_queries_are_counted(duckdb_engine: Engine) -> None:
    rows = [("u", query, second) for second, query in enumerate(["a", "a", "A ", "b", "b", "a", "c"])]
    assert in_engine(duckdb_engine, rows, 1, 3) == {
        ("u", ("a", "b")): 1,
        ("u", ("b", "a")): 1,
        ("u", ("a", "a")): 1,  # chosen from a, b, a: not in a row
        ("u", ("a", "b", "a")): 1,
    }


def test_a_session_of_one_repeated_query_is_none_and_takes_no_place(duckdb_engine: Engine) -> None:
    rows = [("u", "a", 0), ("u", "a", 1), ("u", "alone", 9_000), ("u", "b", 20_000), ("u", "c", 20_001)]
    assert in_engine(duckdb_engine, rows, 1, 3) == {("u", ("b", "c")): 1}


def test_only_the_first_sessions_and_their_first_queries(duckdb_engine: Engine) -> None:
    rows = [
        ("u", query, 10_000 * session + i)
        for session, text in enumerate(["abc", "de", "fg"])
        for i, query in enumerate(text)
    ]
    assert set(in_engine(duckdb_engine, rows, 2, 2)) == {("u", ("a", "b")), ("u", ("d", "e"))}


@pytest.mark.slow
@given(rows=rows_of_a_log, sessions=st.integers(1, 2), queries=st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_one_user_changes_each_count_by_one_and_all_by_no_more_than_stated(
    duckdb_engine: Engine, rows: list[Row], sessions: int, queries: int
) -> None:
    """Each different subsequence once per user, as ours counts them; and every occurrence, as published."""
    most = sessions * (2**queries - 1 - queries)
    gone = rows[0][0]

    def counts(of: list[Row], *, once: bool) -> Counter[str]:
        kept = first_sessions(submissions(sent_of(duckdb_engine, of)), sessions, queries, duckdb_engine)
        found = subsequences(kept, queries, duckdb_engine)
        counted = count_rows(found.distinct() if once else found, "session")
        return Counter({row["session"]: row["count"] for row in duckdb_engine.fetch(counted).to_pylist()})

    others = [row for row in rows if row[0] != gone]
    for once in (True, False):
        full, less = counts(rows, once=once), counts(others, once=once) if others else Counter()
        changes = {session: full[session] - less[session] for session in full | less}
        assert min(changes.values(), default=0) >= 0
        assert sum(changes.values()) <= most
        assert not once or max(changes.values(), default=0) <= 1


def test_separated_texts_become_lists() -> None:
    texts = [f"{SEPARATOR}a b{SEPARATOR}c", f"{SEPARATOR}c{SEPARATOR}c{SEPARATOR}"]
    lists = as_lists(pa.table({"session": texts, "count": [4, 2]}))
    assert lists.to_pylist() == [{"session": ["a b", "c"], "count": 4}, {"session": ["c", "c", ""], "count": 2}]
    assert lists.schema.field("session").type == pa.list_(pa.string())
    assert as_lists(pa.table({"session": pa.array([], pa.string()), "count": pa.array([], pa.int64())})).num_rows == 0


@pytest.mark.parametrize("normalization", [Normalization(), AS_TYPED], ids=["usual", "as typed"])
def test_a_query_that_holds_the_separator_is_still_one_query(
    duckdb_engine: Engine, normalization: Normalization
) -> None:
    """A typed query may hold any character, and without normalisation it stays."""
    table = duckdb_engine.fetch(sent_of(duckdb_engine, [("u", f"a{SEPARATOR}b", 0), ("u", "c", 1)]).table)
    log = SearchLog(duckdb_engine.load(table), duckdb_engine, normalization)
    kept = first_sessions(submissions(log), 1, 3, duckdb_engine)
    found = duckdb_engine.fetch(subsequences(kept, 3, duckdb_engine))
    (row,) = as_lists(found).to_pylist()
    assert len(row["session"]) == 2
