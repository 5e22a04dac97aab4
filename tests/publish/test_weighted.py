"""Weighted selection: bounds in the data path, known answers, exact probabilities of small cases, what comes out."""

from dataclasses import replace
from fractions import Fraction
from math import erf, exp, isqrt, sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import item_named
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.log.normalize import USUAL
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Source
from searchveil.publish import rounds, rounds_in_memory
from searchveil.publish.priorities import LARGEST, ONE, policy_named
from searchveil.publish.rounds import UNIT, Holdings, Named, _divisors, _weights, select, total_weights
from searchveil.publish.rounds_in_memory import HeldInMemory
from searchveil.publish.weighted import (
    COUNT_UNIT,
    COUNTED_SEARCHES,
    SEARCHES_OF_AN_ITEM,
    Weighted,
    scaled_totals,
)

POLICIES = pytest.mark.parametrize("policy", ["learned", "formula"])


def log_of(engine: Engine, rows: list[tuple[str, str]]) -> SearchLog:
    columns = {"user": [user for user, _ in rows], "query": [query for _, query in rows]}
    return SearchLog(engine.load(pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})), engine)


def holdings_of(held: list[list[int]]) -> Holdings:
    return Holdings.of(
        np.array([user for users in held for user in users], np.int32),
        np.array([len(users) for users in held], np.int64),
    )


def crowd(users: int) -> list[tuple[str, str]]:
    typed = ("weather", "Weather ", "WEATHER")
    rows = [(f"u{u}", typed[u % 3]) for u in range(users)]
    return rows + [(f"u{u}", typed[0]) for u in range(users)] + [(f"u{u}", f"secret {u}") for u in range(users)]


@pytest.mark.parametrize(
    ("asked", "sigma", "threshold"),
    [
        ({"epsilon": 1, "delta": 1e-6}, 4.2974, 26.195),
        ({"epsilon": 3, "delta": 1e-6}, 1.5665, 10.037),
        ({"epsilon": 1, "delta": 1e-10}, 5.9237, 44.002),
        ({"epsilon": 1, "delta": 1e-6, "neighbours": "replace-one"}, 6.077, 37.348),
        ({"epsilon": 1, "delta": 1e-6, "counts": "users", "count_share": 0.2}, 4.2974, 29.287),
    ],
)
def test_known_answers(asked: dict[str, object], sigma: float, threshold: float) -> None:
    parameters = Weighted(**({"counts": "none", "policy": "formula"} | asked)).plan().parameters  # type: ignore[arg-type]
    assert parameters["sigma"] == pytest.approx(sigma, abs=6e-4)
    assert parameters["threshold"] == pytest.approx(threshold, abs=6e-4)


@pytest.mark.parametrize(("epsilon", "delta", "b"), [(1, 1e-6, 26.23), (3, 1e-6, 10.05), (1, 1e-10, 44.01)])
def test_known_answers_of_the_learned_policy(epsilon: float, delta: float, b: float) -> None:
    assert Weighted(epsilon, delta, counts="none").plan().parameters["threshold"] == pytest.approx(b, abs=6e-3)


@POLICIES
def test_shares_of_the_rounds_add_up(policy: str) -> None:
    assert sum(policy_named(policy).shares) == ONE
    assert float(policy_named(policy).variances[-1]) == pytest.approx(1, abs=2e-3)


@POLICIES
@settings(max_examples=50, deadline=None)
@given(totals=st.lists(st.floats(-200, 200), min_size=1, max_size=50), after=st.integers(1, 11))
def test_priorities_are_bounded_integers(policy: str, totals: list[float], after: int) -> None:
    priorities = policy_named(policy).priorities(after, np.array(totals), 26.2, 4.3)
    assert priorities.min() >= 0
    assert priorities.max() <= LARGEST


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=25, unique=True), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
def test_no_user_is_heavier_than_the_noise_is_for(held: list[list[int]], seed: int) -> None:
    """Σw² ≤ UNIT² in integers, for every user and any priorities."""
    holdings = holdings_of(held)
    p = np.random.default_rng(seed).integers(1, LARGEST + 1, len(held)).astype(np.float64)
    divisors = _divisors(holdings, p)
    weights = np.concatenate([_weights(block, p[items], divisors).data for block, items in holdings.parts])
    lengths: dict[int, int] = {}
    for user, weight in zip(holdings.users.tolist(), weights.astype(np.int64).tolist(), strict=True):
        lengths[user] = lengths.get(user, 0) + weight**2
    assert max(lengths.values()) <= UNIT**2
    assert min(lengths.values()) > 0.9 * UNIT**2  # and little is given away


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.integers(0, 30), max_size=25, unique=True), max_size=40),
    st.integers(0, 2**32),
    st.integers(1, 60),
)
def test_totals_are_those_of_whole_numbers_wherever_blocks_end(
    monkeypatch: pytest.MonkeyPatch, held: list[list[int]], seed: int, block: int
) -> None:
    """Against the formula in Python's integers; also items that nobody holds, and what stays of some of them."""
    monkeypatch.setattr(rounds, "BLOCK", block)
    draw = np.random.default_rng(seed)
    some = draw.random(len(held)) < 0.7
    holdings = holdings_of(held).only(some)
    held = [users for users, stays in zip(held, some, strict=True) if stays]
    assert np.split(holdings.users, np.cumsum(holdings.degrees))[:-1] == [pytest.approx(users) for users in held]
    p = draw.integers(1, LARGEST + 1, len(held))
    squares = {u: sum(int(p[i]) ** 2 for i, users in enumerate(held) if u in users) for users in held for u in users}
    roots = {u: isqrt(square - 1) + 1 for u, square in squares.items()}
    weights = [sum(UNIT * int(p[i]) // roots[u] for u in users) for i, users in enumerate(held)]
    assert total_weights(holdings, p).tolist() == weights


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=9, unique=True), max_size=40),
    st.integers(1, 6),
    st.integers(1, 60),
    st.binary(min_size=32, max_size=32),
)
def test_who_keeps_what_is_a_part_of_who_holds_what(
    monkeypatch: pytest.MonkeyPatch, held: list[list[int]], most: int, block: int, key: bytes
) -> None:
    monkeypatch.setattr(rounds, "BLOCK", block)
    before = holdings_of(held)
    after = before.bounded(most, Source(key))
    kept = np.split(after.users, np.cumsum(after.degrees))[:-1]
    assert len(kept) == len(held)
    for users, left in zip(held, kept, strict=True):
        assert set(left.tolist()) <= set(users)
        assert len(set(left.tolist())) == len(left)
    had, has = (np.bincount(one.users, minlength=10) for one in (before, after))
    assert has.tolist() == np.minimum(had, most).tolist()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 7)), max_size=80), st.integers(1, 12))
def test_pairs_in_any_order_become_holdings_wherever_blocks_end(
    monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[int, int]], block: int
) -> None:
    """Against sets in Python; a pair may come several times."""
    monkeypatch.setattr(rounds_in_memory, "BLOCK", block)
    words = np.array([item << 3 | user for item, user in pairs], np.uint64)
    numbers, holdings = rounds_in_memory._holdings(np.array_split(words, 3), 3, 8)
    held: dict[int, set[int]] = {}
    for item, user in pairs:
        held.setdefault(item, set()).add(user)
    assert numbers.tolist() == sorted(held)
    found = np.split(holdings.users, np.cumsum(holdings.degrees))[:-1]
    assert [users.tolist() for users in found] == [sorted(held[item]) for item in sorted(held)]


SPELLINGS = ["Big News", "big news", " big  news", "ÉCOLE", "école", "e\u0301cole", "x", "X", "", "  ", "y", "\u3000"]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(SPELLINGS), st.sampled_from(["a.x", "A.x", "b.x", ""])),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from(["query", "click"]),
    st.booleans(),
)
def test_spellings_are_one_item_and_each_of_its_users_is_there_once(
    monkeypatch: pytest.MonkeyPatch,
    duckdb_engine: Engine,
    rows: list[tuple[int, str, str]],
    item: str,
    hash_tells_little: bool,
) -> None:
    """Against sets in Python: who holds which normal form. Blank ones are no items, and hashes decide nothing."""
    if hash_tells_little:  # two bits of it are left: there are more texts than hashes
        right = type(duckdb_engine).fast_hash
        monkeypatch.setattr(
            type(duckdb_engine),
            "fast_hash",
            lambda *known: ((right(*known) >> 62).cast("uint64") << 62).cast("uint64"),
        )
    table = pa.Table.from_pylist([{"user": user, "query": query, "url": url} for user, query, url in rows])
    log = SearchLog(duckdb_engine.load(table), duckdb_engine)
    expected: dict[tuple[str, ...], set[int]] = {}
    for user, query, url in rows:
        text = (USUAL.apply_to_text(query), *([url] if item == "click" else []))
        if all(text):
            expected.setdefault(text, set()).add(user)
    held = HeldInMemory.of(log, item_named(item), None, 200, Source(bytes(32)))
    texts = held.texts(Named(np.arange(len(held.numbers)), np.zeros(len(held.numbers), np.int64)))
    monkeypatch.undo()
    names = [tuple(row.values()) for row in texts.to_pylist()]
    degrees = held.holdings.degrees.tolist()
    assert dict(zip(names, degrees, strict=True)) == {name: len(users) for name, users in expected.items()}
    assert len(names) == len(expected)
    # Users are numbered in any order: who shares what is compared.
    numbered = [set(users.tolist()) for users in np.split(held.holdings.users, np.cumsum(degrees))[:-1]]
    shared = {
        frozenset((a, b)): len(numbered[i] & numbered[j]) for i, a in enumerate(names) for j, b in enumerate(names)
    }
    assert shared == {frozenset((a, b)): len(expected[a] & expected[b]) for a in names for b in names}


def test_a_user_keeps_a_uniform_choice_of_her_items() -> None:
    """Ten items, two kept, 3,000 times: chi-square with 9 degrees of freedom, a false alarm once in 10^5."""
    source = Source(bytes(32))
    holdings = Holdings.of(np.zeros(10, np.int32), np.ones(10, np.int64))
    kept = np.sum([holdings.bounded(2, source).degrees for _ in range(3000)], axis=0)
    assert kept.sum() == 6000
    assert ((kept - 600) ** 2 / 600).sum() < 40.8


def test_others_keep_what_they_have() -> None:
    holdings = Holdings.of(np.array([0, 1, 0, 0, 2, 1], np.int32), np.array([2, 1, 2, 1]))
    bounded = holdings.bounded(2, Source(bytes(32)))
    assert np.bincount(bounded.users).tolist() == [2, 2, 1]
    assert bounded.degrees.sum() == 5


def exact_pass(count_of_ones: int, sigma: float, threshold: float) -> float:
    """One round, one item held by so many users with nothing else: P(count + N(0, σ²) ≥ threshold)."""
    return 0.5 * (1 - erf((threshold - count_of_ones) / (sigma * sqrt(2))))


def test_an_item_is_named_as_often_as_the_normal_tail_says() -> None:
    """With equal weights in all rounds the sum is one Gaussian: compare at the first look that counts."""
    from searchveil.publish.priorities import ByFormula

    policy = ByFormula((ONE,), (ONE,))
    n, sigma, threshold, copies = 20, 4.0, 24.0, 60_000
    holdings = Holdings.of(np.arange(n * copies, dtype=np.int32), np.full(copies, n))
    named = select(
        holdings,
        policy=policy,
        threshold=threshold,
        sigma=sigma,
        account=GaussianAccount(sigma, "add-remove"),
        share=Fraction(1),
        source=Source(bytes(range(32))),
    )
    expected = copies * exact_pass(n, sigma, threshold + 0.5 / UNIT)
    assert abs(len(named.items) - expected) < 4.5 * sqrt(expected)


def test_delta_of_a_lone_item_is_within_its_bound() -> None:
    """One user, one item that nobody else has, one round: P(named) exactly, against what the proof allows."""
    asked = Weighted(1, 1e-6, counts="none", candidates_per_user=1)
    b, sigma = asked.plan().parameters["threshold"], asked.plan().parameters["sigma"]
    assert exact_pass(1, sigma, b) <= 0.3e-6 + exp(1) * exact_pass(0, sigma, b) + 0.7e-6


@pytest.fixture
def few_rounds_on_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes Spark a second; three of them name what is asked for here."""
    if request.getfixturevalue("engine").name == "spark":
        whole = policy_named("learned")
        shares, evidence = whole.shares[:2], whole.evidence[:2]
        short = replace(whole, shares=(*shares, ONE - sum(shares)), evidence=(*evidence, ONE - sum(evidence)))
        monkeypatch.setattr("searchveil.publish.weighted.policy_named", lambda _: short)


@pytest.mark.usefixtures("few_rounds_on_spark")
def test_what_many_share_is_named_and_secrets_are_not(engine: Engine) -> None:
    release = Weighted(2, 1e-6).release(log_of(engine, crowd(300)), source=keyed(b"1"))
    (row,) = release.table.to_pylist()
    assert row["query"] == "weather"
    assert abs(row["count"] - 300) < 150
    assert release.guarantee.epsilon == 2


@pytest.mark.usefixtures("few_rounds_on_spark")
def test_a_user_of_three_spellings_counts_once(engine: Engine) -> None:
    rows = [(f"u{u}", text) for u in range(40) for text in ("news", "News", "NEWS ")]
    others = [(f"u{u}", f"own {u}") for u in range(40)]
    asked = Weighted(60, 0.5, counts="score")
    (row,) = [
        row
        for row in asked.release(log_of(engine, rows + others), source=keyed(b"2")).table.to_pylist()
        if row["query"] == "news"
    ]
    assert 0 < row["score"] < 41  # at most one unit of weight for each user, whatever she typed


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=60), min_size=1, max_size=20), st.integers(1, 500))
def test_no_user_counts_for_more_than_the_noise_is_for(
    duckdb_engine: Engine, amounts: list[list[int]], most: int
) -> None:
    """Σv² ≤ most·COUNT_UNIT² in integers for every user; who is within it is not scaled, and others by no more."""
    rows = [(user, place, amount) for user, own in enumerate(amounts) for place, amount in enumerate(own)]
    # A user alone at places of her own: what is added up there is what she adds.
    columns = {
        "user": [user for user, _, _ in rows],
        "_place": [100 * user + place for user, place, _ in rows],
        "_amount": [amount for _, _, amount in rows],
    }
    longest = most * COUNT_UNIT**2
    totals = scaled_totals(duckdb_engine.load(pa.table(columns)), 100 * len(amounts), longest, duckdb_engine)
    for user, own in enumerate(amounts):
        units = {total // amount for total, amount in zip(totals[100 * user :].tolist(), own, strict=False)}
        (unit,) = units
        length = sum(amount * amount for amount in own)
        assert length * unit * unit <= longest
        assert unit == COUNT_UNIT if length <= most else (unit + 1) ** 2 * length > longest


@pytest.mark.parametrize("place", [-1, 3])
def test_a_count_without_a_cell_is_an_error(duckdb_engine: Engine, place: int) -> None:
    amounts = pa.table({"user": ["a", "a"], "_place": [0, place], "_amount": [1, 1]})
    with pytest.raises(AssertionError, match="no cell of its own"):
        scaled_totals(duckdb_engine.load(amounts), 3, 2**24, duckdb_engine)


@pytest.mark.usefixtures("few_rounds_on_spark")
def test_searches_are_counted_and_capped(engine: Engine) -> None:
    """Several clicks of one time are one search, spellings are one query, and nobody counts for more than the cap.

    400 users ask twice (once in capitals, with two clicks) and 100 ask fifty times: 400·2 + 100·10 searches. Noise of
    a standard deviation below 5 at ε = 20; 60 off is a false alarm once in far more than 10^9.
    """
    rows = [(f"u{u}", "Weather", 0) for u in range(400)] * 2 + [(f"u{u}", "weather ", 60) for u in range(400)]
    rows += [(f"v{u}", "weather", minute) for u in range(100) for minute in range(50)]
    table = pa.table(
        {
            "user": [user for user, _, _ in rows],
            "query": [query for _, query, _ in rows],
            "time": pa.array([minute * 60 * 10**6 for _, _, minute in rows], pa.timestamp("us")),
        }
    )
    asked = Weighted(20, 1e-6, counts="searches")
    release = asked.release(SearchLog(engine.load(table), engine), source=keyed(b"6"))
    (row,) = release.table.to_pylist()
    assert release.plan.counts == "occurrences"
    assert SEARCHES_OF_AN_ITEM**2 <= COUNTED_SEARCHES  # so that one item alone is never scaled
    assert abs(row["count"] - (400 * 2 + 100 * SEARCHES_OF_AN_ITEM)) < 60


def test_searches_of_a_log_without_times_are_its_rows(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, [(f"u{u}", "news") for u in range(300)] * 3)
    (row,) = Weighted(20, 1e-6, counts="searches").release(log, source=keyed(b"7")).table.to_pylist()
    assert abs(row["count"] - 900) < 60


def test_scores_and_sets_cost_no_more(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, crowd(400))
    assert Weighted(2, 1e-6, counts="none").release(log, source=keyed(b"3")).table.column_names == ["query"]
    assert Weighted(2, 1e-6, counts="score").release(log, source=keyed(b"3")).table.column_names == ["query", "score"]


def test_a_pool_names_nothing_else(duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pool")
    (folder / "queries.txt").write_text("weather\nnever searched\n" + "\n".join(f"public {i}" for i in range(50)))
    pool = QueryPool.from_file(folder / "queries.txt", folder / "pool.parquet")
    asked = Weighted(2, 1e-6, pool=pool)
    assert asked.plan().parameters["threshold"] < Weighted(2, 1e-6).plan().parameters["threshold"]
    table = asked.release(log_of(duckdb_engine, crowd(300)), source=keyed(b"4")).table
    names = {str(name) for name in table["query"].to_pylist()}
    assert "weather" in names
    assert not any(name.startswith("secret") for name in names)


@pytest.mark.slow
def test_a_pool_larger_than_what_one_thread_reads(duckdb_engine: Engine, tmp_path: Path) -> None:
    """DuckDB scans a large table with several threads and gives its rows in any order: texts must not change places.

    What 100 users search is named, what nobody searches is not, except for the one that noise may name.
    """
    public = [f"public {i}" for i in range(400_000)]
    pool = QueryPool.from_table(pa.table({"query": public}), tmp_path / "pool.parquet", "the test")
    searched = public[7::8_000]
    log = log_of(duckdb_engine, [(f"u{u}", query) for u in range(100) for query in searched])
    named = Weighted(100, 1e-6, pool=pool).release(log, source=keyed(b"8")).table
    assert set(searched) <= set(named["query"].to_pylist())
    assert named.num_rows <= len(searched) + 8  # 9 or more of a Poisson number of mean 1: less than one in 10^6
    counts = {row["query"]: row["count"] for row in named.to_pylist()}
    # Each user holds 50 of the named items, so that each adds √(30/50) to their counts.
    assert all(abs(counts[query] - 77) <= 12 for query in searched)


def test_unheld_items_of_a_pool_get_noise_too() -> None:
    """Drawing for held items only would tell which are held: with a low threshold unheld ones are named as often."""
    from searchveil.publish.priorities import ByFormula

    holdings = Holdings.of(np.zeros(0, np.int32), np.zeros(4000, np.int64))
    named = select(
        holdings,
        policy=ByFormula((ONE,), (ONE,)),
        threshold=4.0,
        sigma=4.0,
        account=GaussianAccount(4.0, "add-remove"),
        share=Fraction(1),
        source=Source(bytes(32)),
    )
    assert abs(len(named.items) - 4000 * exact_pass(0, 4.0, 4.0)) < 120


@pytest.mark.usefixtures("few_rounds_on_spark")
@pytest.mark.parametrize("item", ["keyword", "click", "url", "pair"])
def test_every_item(engine: Engine, item: str) -> None:
    table = pa.table(
        {
            "user": [f"u{u}" for u in range(200) for _ in range(2)],
            "query": ["red shoes", "blue shoes"] * 200,
            "url": ["a.example", "b.example"] * 200,
            "time": pa.array(range(0, 400 * 10**6, 10**6), pa.timestamp("us")),
        }
    )
    log = SearchLog(engine.load(table), engine)
    release = Weighted(3, 1e-6, item=item).release(log, source=keyed(b"5"))
    assert release.table.num_rows >= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": "all"},
        {"policy": "guess"},
        {"neighbours": "none"},
        {"count_share": 1.5},
        {"counts": "none", "count_share": 0.1},
        {"counts": "searches", "item": "keyword"},
        {"candidates_per_user": 0},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Weighted(1, 1e-6, **wrong)  # type: ignore[arg-type]
