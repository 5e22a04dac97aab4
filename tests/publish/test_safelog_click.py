"""A_Click: the promise for every combination of its parts, exact enumeration, and what one user can change."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise, product
from math import log as ln
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mpmath
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import BudgetRefused, InputError
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.log.normalize import USUAL
from searchveil.privacy.ledger import Ledger
from searchveil.progress import silent
from searchveil.publish import safelog_click
from searchveil.publish.safelog_click import SafeLogClick

Row = tuple[str, str, int, str | None]  # user, query, minutes, url
Counts = dict[tuple[str, ...], int]

NOON = datetime(2024, 5, 1, 12)
CLICK_CANDIDATES = pa.table({"query": ["weather", "weather"], "url": ["sun.example", "rain.example"]})
NEXT_CANDIDATES = pa.table({"query": ["weather"], "next": ["news"]})


def log_of(engine: Engine, rows: Iterable[Row]) -> SearchLog:
    rows = list(rows)
    table = pa.table(
        {
            "user": pa.array([row[0] for row in rows], pa.string()),
            "query": pa.array([row[1] for row in rows], pa.string()),
            "time": pa.array([NOON + timedelta(minutes=row[2]) for row in rows], pa.timestamp("us")),
            "url": pa.array([row[3] for row in rows], pa.string()),
        }
    )
    return SearchLog(engine.load(table), engine)


def crowd(users: int) -> list[Row]:
    """Weather, then news, then a query of one's own; clicks on a shared result and on one's own."""
    rows: list[Row] = []
    for u in range(users):
        rows.append((f"u{u}", "Weather", 0, "sun.example"))
        rows.append((f"u{u}", "weather ", 0, f"u{u}.example"))  # a second click of the same submission
        rows.append((f"u{u}", "news", 1, "paper.example"))
        rows.append((f"u{u}", f"secret {u}", 2, f"secret{u}.example"))
        rows.append((f"u{u}", "too late", 3, "late.example"))
    return rows


# --- the plan: ε and δ of every combination ---------------------------------------------------------------------------


def tail(scale: float, t: int) -> Any:
    """P(η ≥ t), t ≥ 0, to fifty digits."""
    with mpmath.workdps(50):
        p = mpmath.exp(-1 / mpmath.mpf(scale))
        return p**t / (1 + p)


def exact_delta(scale: float, threshold: int, changes: int) -> Any:
    """One user spreads her changes over items of her own, or heaps them on one."""
    with mpmath.workdps(50):
        return max(1 - (1 - tail(scale, threshold - 1)) ** changes, tail(scale, threshold - changes))


COMBINATIONS = [
    {"domain": domain, "candidates": candidates, "transitions": transitions, "transition_candidates": following,
     "fresh_counts": fresh, "neighbours": neighbours}
    for domain, candidates, (transitions, following), fresh, neighbours in product(
        ("pool", "pool+log"),
        (None, CLICK_CANDIDATES),
        ((False, None), (True, None), (True, NEXT_CANDIDATES)),
        (False, True),
        ("add-remove", "replace-one"),
    )
]  # fmt: skip


def in_words(chosen: dict[str, Any]) -> str:
    return ",".join(f"{name}={'list' if isinstance(v, pa.Table) else v}" for name, v in chosen.items() if v)


def changes_and_hidden(chosen: dict[str, Any], queries: int, clicks: int) -> tuple[int, dict[str, int]]:
    """What ε pays for, and which parts are hidden by a threshold of how many changes."""
    changes = queries + clicks + chosen["fresh_counts"] * queries + chosen["transitions"] * (queries - 1)
    hidden = {}
    if chosen["domain"] == "pool+log":
        hidden["second"] = queries
    if clicks and chosen["candidates"] is None:
        hidden["clicks"] = clicks
    if chosen["transitions"] and chosen["transition_candidates"] is None:
        hidden["transitions"] = queries - 1
    return changes * (2 if chosen["neighbours"] == "replace-one" else 1), hidden


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=in_words)
def test_the_promise_of_a_noise_scale_and_a_threshold(chosen: dict[str, Any]) -> None:
    queries, clicks, scale, threshold = 3, 2, 7.0, 44
    plan = SafeLogClick(
        noise_scale=scale, above=threshold - 0.5, queries_per_user=queries, clicks_per_user=clicks, **chosen
    ).plan()
    changes, hidden = changes_and_hidden(chosen, queries, clicks)
    assert Fraction(plan.guarantee.epsilon) >= Fraction(changes) / Fraction(scale)
    assert plan.guarantee.epsilon == pytest.approx(changes / scale, rel=1e-12)
    delta = sum(exact_delta(scale, threshold, part) for part in hidden.values())
    assert plan.guarantee.delta >= delta, "rounded to the safe side"
    assert plan.guarantee.delta == pytest.approx(float(delta), rel=1e-9)
    assert (plan.guarantee.delta == 0) == (not hidden)
    assert plan.guarantee.neighbours == chosen["neighbours"]
    assert plan.parameters["second_threshold"] == threshold, "publish iff noisy > 43.5"


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=in_words)
def test_the_noise_and_thresholds_of_a_promise(chosen: dict[str, Any]) -> None:
    queries, clicks, epsilon, delta = 3, 2, 1.3, 1e-6
    plan = SafeLogClick(epsilon=epsilon, delta=delta, queries_per_user=queries, clicks_per_user=clicks, **chosen).plan()
    changes, hidden = changes_and_hidden(chosen, queries, clicks)
    scale = plan.parameters["noise_scale"]
    assert Fraction(changes) / Fraction(scale) <= Fraction(epsilon)
    assert scale == pytest.approx(changes / epsilon, rel=1e-12)
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (epsilon, delta if hidden else 0)
    for name, part in hidden.items():
        threshold = plan.parameters[f"{name}_threshold"]
        assert exact_delta(scale, threshold, part) <= delta / len(hidden) < exact_delta(scale, threshold - 1, part)
    shown = {name for name in plan.parameters if name.endswith("_threshold")}
    assert shown == {"second_threshold", *(f"{name}_threshold" for name in hidden)}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("queries", "clicks"), [(1, 0), (3, 3), (5, 5)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.3, 1e-4), (4.0, 1e-9)])
def test_promise_and_noise_agree_both_ways(
    neighbours: Any, queries: int, clicks: int, epsilon: float, delta: float
) -> None:
    same: dict[str, Any] = {"queries_per_user": queries, "clicks_per_user": clicks, "neighbours": neighbours}
    wanted = SafeLogClick(epsilon=epsilon, delta=delta, **same).plan()
    scale, threshold = wanted.parameters["noise_scale"], wanted.parameters["second_threshold"]
    given_noise = SafeLogClick(noise_scale=scale, above=threshold - 1, **same).plan()
    assert given_noise.parameters == wanted.parameters
    assert given_noise.guarantee.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert given_noise.guarantee.delta <= delta
    lower = SafeLogClick(noise_scale=scale, above=threshold - 2, **same).plan()
    assert lower.guarantee.delta > delta, "the threshold was the smallest"
    back = SafeLogClick(epsilon=given_noise.guarantee.epsilon, delta=given_noise.guarantee.delta, **same).plan()
    assert back.parameters["second_threshold"] == threshold
    assert back.parameters["noise_scale"] == pytest.approx(scale, rel=1e-12)


def test_a_pure_promise_needs_no_delta_and_the_threshold_has_no_part_in_it() -> None:
    pure: dict[str, Any] = {"domain": "pool", "pool": None, "candidates": CLICK_CANDIDATES}
    plans = [SafeLogClick(noise_scale=5, above=k, **pure).plan() for k in (0, 3, 1000)]
    assert len({plan.guarantee.epsilon for plan in plans}) == 1
    assert plans[0].guarantee.epsilon == pytest.approx(6 / 5)
    assert {plan.guarantee.delta for plan in plans} == {0.0}
    assert SafeLogClick(epsilon=1, **pure).plan().guarantee.delta == 0


def test_what_is_taken_as_public_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": ["a", "b"]}), tmp_path / "p.parquet")
    plan = SafeLogClick(
        epsilon=1, delta=1e-6, pool=QueryPool.open(tmp_path / "p.parquet"), candidates=CLICK_CANDIDATES,
        transitions=True, transition_candidates=NEXT_CANDIDATES,
    ).plan()  # fmt: skip
    public = " / ".join(plan.guarantee.assumed_public)
    for named in ("two users", "the query pool", "candidate urls", "candidate transitions"):
        assert named in public
    bare = SafeLogClick(epsilon=1, delta=1e-6).plan().guarantee
    assert len(bare.assumed_public) == 1
    assert plan.parameters["expected_pool_slips"] == pytest.approx(
        float(2 * tail(plan.parameters["noise_scale"], plan.parameters["second_threshold"]))
    )


def test_over_the_pool_alone_the_threshold_lets_one_slip_through_on_average(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": [f"q{i}" for i in range(50_000)]}), tmp_path / "p.parquet")
    pool = QueryPool.open(tmp_path / "p.parquet")
    parameters = SafeLogClick(epsilon=1, domain="pool", pool=pool, clicks_per_user=0).plan().parameters
    slips = [50_000 * tail(parameters["noise_scale"], parameters["second_threshold"] - i) for i in (0, 1)]
    assert slips[0] <= 1 < slips[1]
    assert parameters["expected_pool_slips"] == pytest.approx(float(slips[0]))


def test_the_recommendation_holds_the_papers_and_ours(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": [f"q{i}" for i in range(50_000)]}), tmp_path / "p.parquet")
    pool = QueryPool.open(tmp_path / "p.parquet")
    for domain in ("pool", "pool+log"):
        mechanism = SafeLogClick(epsilon=1, delta=1e-6, pool=pool, domain=domain)
        paper, ours = mechanism.recommend()["paper"], mechanism.recommend()["ours"]
        assert paper["noise_scale"] == pytest.approx(11)
        assert paper["threshold"] == pytest.approx(20.25, abs=0.005)
        assert paper["expected_pool_slips"] == pytest.approx(float(50_000 * tail(11, 21))), "noisy > 20.25"
        parameters = mechanism.plan().parameters
        assert ours["noise_scale"] == parameters["noise_scale"] == 6
        assert ours["threshold"] + 1 == parameters["second_threshold"]
        assert ours["expected_pool_slips"] == pytest.approx(float(50_000 * tail(6, parameters["second_threshold"])))
    with pytest.raises(InputError, match="starts from a wanted ε"):
        SafeLogClick(noise_scale=1, above=3).recommend()


# --- exact enumeration ------------------------------------------------------------------------------------------------
# An item is of the pool (noise from a count of zero on) or of the log alone (absent unless somebody searched it).

HALF, TWO_THIRDS = Fraction(1, 2), Fraction(2, 3)
Pairs = tuple[tuple[Fraction, Fraction], ...]  # the probability of each output under either log


@cache
def item(p: Fraction, of_pool: bool, others: int, added: int, threshold: int) -> Pairs:
    """All outputs of one item, with the user and without. Values from where their ratio is constant are one output."""

    def reaches(count: int, value: int) -> Fraction:
        t = value - count
        return p**t / (1 + p) if t >= 0 else 1 - p ** (1 - t) / (1 + p)

    def outputs(count: int) -> list[Fraction]:
        last = max(threshold, others + added)
        if not of_pool and count == 0:
            return [Fraction(1), *[Fraction(0)] * (last - threshold + 1)]
        values = [reaches(count, v) - reaches(count, v + 1) for v in range(threshold, last)]
        return [1 - reaches(count, threshold), *values, reaches(count, last)]

    return tuple(zip(outputs(others + added), outputs(others), strict=True))


def divergence(items: Iterable[Pairs], e_epsilon: Fraction) -> Fraction:
    """The smallest δ at this e^ε for these independent items, in the worse direction."""
    joint: dict[tuple[Fraction, Fraction], int] = {(Fraction(1), Fraction(1)): 1}
    for pairs in items:
        further: Counter[tuple[Fraction, Fraction]] = Counter()
        for ((one, other), times), (a, b) in product(joint.items(), pairs):
            further[one * a, other * b] += times
        joint = dict(further)
    return max(
        sum((times * max(Fraction(0), one - e_epsilon * other) for (one, other), times in joint.items()), Fraction(0)),
        sum((times * max(Fraction(0), other - e_epsilon * one) for (one, other), times in joint.items()), Fraction(0)),
    )


def ways(total: int) -> list[tuple[int, ...]]:
    """How a user's submissions may fall on different queries."""
    found: list[tuple[int, ...]] = [(1,), (2,), (1, 1), (3,), (2, 1), (1, 1, 1)]
    return [way for way in found if sum(way) <= total]


@cache
def worst(p: Fraction, queries: int, threshold: int, kinds: tuple[bool, ...], e_epsilon: Fraction) -> Fraction:
    found = Fraction(0)
    others = (0, 1, threshold - 1, threshold)
    for way in ways(queries):
        places = list(product(kinds, sorted(set(others))))
        choices = (
            combinations_with_replacement(places, len(way)) if len(set(way)) == 1 else product(places, repeat=len(way))
        )
        for chosen in choices:
            items = [item(p, kind, n, x, threshold) for (kind, n), x in zip(chosen, way, strict=True)]
            found = max(found, divergence(items, e_epsilon))
    return found


@pytest.mark.parametrize("p", [HALF, TWO_THIRDS], ids=str)
@pytest.mark.parametrize(("queries", "threshold"), [(1, 2), (1, 3), (2, 2), (2, 4), (3, 3), (3, 5)])
def test_delta_over_pool_and_log_is_exact_with_pool_queries_that_nobody_searched(
    p: Fraction, queries: int, threshold: int
) -> None:
    scale = 1 / -ln(p)
    both = SafeLogClick(noise_scale=scale, above=threshold - 1 / 2, queries_per_user=queries, clicks_per_user=0)
    found = worst(p, queries, threshold, (True, False), p**-queries)
    stated = both.plan().guarantee.delta
    assert stated == pytest.approx(float(found), rel=1e-9), "never exceeded, and attained"
    q_1, q_d = p ** (threshold - 1) / (1 + p), p ** (threshold - queries) / (1 + p)
    assert found == max(1 - (1 - q_1) ** queries, q_d)


@pytest.mark.parametrize("p", [HALF, TWO_THIRDS], ids=str)
@pytest.mark.parametrize(("queries", "threshold"), [(1, 1), (2, 1), (2, 4), (3, 2), (3, 5)])
def test_over_the_pool_alone_epsilon_is_pure_and_no_smaller_one_is_true(
    p: Fraction, queries: int, threshold: int
) -> None:
    assert worst(p, queries, threshold, (True,), p**-queries) == 0
    assert worst(p, queries, threshold, (True,), p**-queries * Fraction(99, 100)) > 0


# --- what is counted --------------------------------------------------------------------------------------------------


@contextmanager
def counted(engine: Engine, published: Iterable[str]) -> Iterator[dict[tuple[str, ...], Counts]]:
    """In place of noise: note the counts of each part, and say that exactly these queries are published."""
    seen: dict[tuple[str, ...], Counts] = {}
    queries = pa.table({"query": pa.array(list(published), pa.string())})
    queries = queries.append_column("count", pa.array([1] * queries.num_rows, pa.int64()))

    def note(counts: Any, columns: list[str], **rest: Any) -> pa.Table:
        rows = engine.fetch(counts).to_pylist()
        seen[tuple(columns)] = {tuple(row[c] for c in columns): row["count"] for row in rows}
        assert len(rows) == len(seen[tuple(columns)])
        return queries

    def note_candidates(counts: Any, candidates: Any, **rest: Any) -> pa.Table:
        return note(counts, list(candidates.columns))

    with (
        patch.object(safelog_click, "survivors", note),
        patch.object(safelog_click, "noisy_candidates", note_candidates),
    ):
        yield seen


def counts_of(
    mechanism: SafeLogClick, engine: Engine, rows: list[Row], published: Iterable[str]
) -> dict[tuple[str, ...], Counts]:
    with counted(engine, published) as seen:
        mechanism.publish(log_of(engine, rows), mechanism.plan(), keyed(b"unused"), silent)
    return seen


def by_hand(rows: list[Row], queries: int, clicks: int, published: set[str]) -> dict[tuple[str, ...], Counts]:
    asked: Counter[tuple[str, ...]] = Counter()
    clicked: Counter[tuple[str, ...]] = Counter()
    followed: Counter[tuple[str, ...]] = Counter()
    normal = [(u, USUAL.apply_to_text(q), t, url) for u, q, t, url in rows]
    for user in {row[0] for row in rows}:
        first = sorted({(t, q) for u, q, t, _ in normal if u == user and q})[:queries]
        asked.update((q,) for _, q in first)
        followed.update(
            (a, b) for (t, a), (later, b) in pairwise(first) if a != b and later - t <= 30 and {a, b} <= published
        )
        hits = sorted({(t, q, url) for u, q, t, url in normal if u == user and url is not None and q in published})
        clicked.update((q, url) for _, q, url in hits[:clicks])
    return {("query",): dict(asked), ("query", "url"): dict(clicked), ("query", "next"): dict(followed)}


rows_of_few = st.lists(
    st.tuples(
        st.sampled_from("uvw"),
        st.sampled_from(["a", "A ", "b", "c", " "]),
        st.sampled_from([0, 1, 2, 31, 32, 90]),
        st.sampled_from([None, "x.example", "y.example"]),
    ),
    min_size=1,
    max_size=24,
)


@pytest.mark.slow
@given(rows=rows_of_few, queries=st.integers(2, 4), clicks=st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_counts_are_those_of_plain_loops_and_one_user_moves_them_by_no_more_than_stated(
    duckdb_engine: Engine, rows: list[Row], queries: int, clicks: int
) -> None:
    published = {"a", "b"}
    mechanism = SafeLogClick(noise_scale=1, above=9, queries_per_user=queries, clicks_per_user=clicks, transitions=True)
    full = counts_of(mechanism, duckdb_engine, rows, published)
    assert full == by_hand(rows, queries, clicks, published)
    assert {query for query, _ in full["query", "url"]} <= published, "clicks on published queries only"

    less = counts_of(mechanism, duckdb_engine, [row for row in rows if row[0] != rows[0][0]], published)
    for part, most in ((("query",), queries), (("query", "url"), clicks), (("query", "next"), queries - 1)):
        moved = [full[part].get(key, 0) - less[part].get(key, 0) for key in full[part] | less[part]]
        assert min(moved, default=0) >= 0
        assert sum(moved) <= most


@pytest.mark.slow
def test_the_frequency_filter_lets_one_user_move_everybodys_counts(duckdb_engine: Engine) -> None:
    """Erratum S1. Thirty users searched a, then b; a reaches the frequency 31 through one more user."""
    others: list[Row] = [(f"u{u}", query, minute, None) for u in range(30) for minute, query in enumerate("ab")]
    one_more: list[Row] = [("victim", "a", 0, None)]
    moved = {}
    for at_least in (0, 31):
        mechanism = SafeLogClick(noise_scale=1, above=9, queries_per_user=1, clicks_per_user=0, at_least=at_least)
        full, less = (counts_of(mechanism, duckdb_engine, rows, ())["query",] for rows in (others + one_more, others))
        moved[at_least] = sum(abs(full.get(key, 0) - less.get(key, 0)) for key in full | less)
    assert moved[0] == 1
    assert moved[31] == 31, "a goes; b would be left, but has only 30"
    lower = SafeLogClick(noise_scale=1, above=9, queries_per_user=1, clicks_per_user=0, at_least=31)
    more = [*others, *((f"v{i}", "b", 0, None) for i in range(5))]
    full, less = (counts_of(lower, duckdb_engine, rows, ())["query",] for rows in (more + one_more, more))
    assert (full, less) == ({("a",): 31, ("b",): 5}, {("b",): 35}), "61 counts moved by one user, q_f = 1"


def test_the_frequency_filter_is_off_unless_asked_for_and_then_named_unprotected() -> None:
    assert SafeLogClick(epsilon=1, delta=1e-6).plan().guarantee.unprotected == ()
    (named,) = SafeLogClick(epsilon=1, delta=1e-6, at_least=5).plan().guarantee.unprotected
    assert "frequency filter" in named
    assert "fewer than 5" in named


def test_with_the_frequency_filter_nothing_is_sold_as_private(duckdb_engine: Engine, tmp_path: Path) -> None:
    """One user moves everybody's counts (above): the promise holds given the filter's outcome, and no ledger pays."""
    filtered = SafeLogClick(noise_scale=7, above=60, clicks_per_user=0, at_least=5)
    guarantee = filtered.plan().guarantee
    assert (guarantee.notion, guarantee.is_private) == ("conditional", False)
    assert str(guarantee).startswith(
        "This release is NOT differentially private. Given the outcome of the frequency filter, what follows it is "
        "(0.428572, 0.000304395)-differentially private"
    )
    ledger = Ledger.open(tmp_path / "account", budget_epsilon=10, budget_delta=1e-3)
    with pytest.raises(BudgetRefused, match="without differential privacy"):
        filtered.release(log_of(duckdb_engine, crowd(3)), ledger=ledger)
    assert SafeLogClick(noise_scale=7, above=60, clicks_per_user=0).plan().guarantee.is_private


def test_personal_rows_take_no_place_among_the_first(duckdb_engine: Engine) -> None:
    rows: list[Row] = [
        (user, query, minute, None)
        for user in "uv"
        for minute, query in enumerate(["jane@mail.example", "555-123-4567", "acme 17", "weather", "news"])
    ]
    mechanism = {"queries_per_user": 1, "clicks_per_user": 0}
    plain = SafeLogClick(noise_scale=1, above=9, **mechanism)  # type: ignore[arg-type]
    own = SafeLogClick(noise_scale=1, above=9, patterns=("^acme [0-9]+$",), **mechanism)  # type: ignore[arg-type]
    unfiltered = SafeLogClick(noise_scale=1, above=9, keep_personal=True, **mechanism)  # type: ignore[arg-type]
    found = [counts_of(m, duckdb_engine, rows, ())["query",] for m in (plain, own, unfiltered)]
    assert found == [{("acme 17",): 2}, {("weather",): 2}, {("jane@mail.example",): 2}]


def test_ones_own_pattern_holds_even_where_ours_are_switched_off(duckdb_engine: Engine) -> None:
    """--keep-personal is about what we think looks personal; a pattern that was typed is a wish of its own."""
    rows: list[Row] = [(user, "acme 17", 0, None) for user in "uv"]
    mechanism = SafeLogClick(noise_scale=1, above=9, clicks_per_user=0, keep_personal=True, patterns=("acme",))
    assert counts_of(mechanism, duckdb_engine, rows, ())["query",] == {}


def test_a_pattern_in_capitals_matches_what_was_typed_in_capitals(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(user, "ACME-17 salaries", 0, None) for user in "uv"]
    mechanism = SafeLogClick(noise_scale=1, above=9, clicks_per_user=0, patterns=("ACME-[0-9]+",))
    assert counts_of(mechanism, duckdb_engine, rows, ())["query",] == {}


def test_personal_rows_do_not_count_as_clicks_even_if_the_pool_publishes_their_query(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(user, "jane@mail.example", 0, "x.example") for user in "uv"]
    seen = counts_of(SafeLogClick(noise_scale=1, above=9), duckdb_engine, rows, ["jane@mail.example"])
    assert seen["query",] == {}
    assert seen["query", "url"] == {}


def test_an_empty_url_is_no_click(duckdb_engine: Engine) -> None:
    """As everywhere else in searchveil (the item click)."""
    rows: list[Row] = [(user, "weather", 0, url) for user, url in (("u", ""), ("v", "sun.example"))]
    seen = counts_of(SafeLogClick(noise_scale=1, above=9), duckdb_engine, rows, ["weather"])
    assert seen["query", "url"] == {("weather", "sun.example"): 1}


def test_candidate_transitions_meet_the_log_in_normal_form_on_both_ends(duckdb_engine: Engine) -> None:
    rows: list[Row] = [
        (f"u{u}", query, minute, None) for u in range(300) for minute, query in enumerate(["Weather", "News"])
    ]
    mechanism = SafeLogClick(
        epsilon=30, delta=1e-6, clicks_per_user=0, transitions=True,
        transition_candidates=pa.table({"query": ["Weather "], "next": ["News"]}),
    )  # fmt: skip
    tables = mechanism.release(log_of(duckdb_engine, rows), source=keyed(b"ends")).tables
    found = {(row["query"], row["next"]): row["count"] for row in tables["transitions"].to_pylist()}
    assert abs(found.get(("weather", "news"), 0) - 300) < 10


def test_candidates_that_are_numbers_are_texts(duckdb_engine: Engine) -> None:
    """As a CSV of numeric queries is read; the release would fail after it was paid."""
    mechanism = SafeLogClick(
        epsilon=30, delta=1e-6, candidates=pa.table({"query": [911, 411], "url": ["help.example", "info.example"]})
    )
    rows: list[Row] = [(f"u{u}", "911", 0, "help.example") for u in range(300)]
    tables = mechanism.release(log_of(duckdb_engine, rows), source=keyed(b"numbers")).tables
    found = {(row["query"], row["url"]): row["count"] for row in tables["clicks"].to_pylist()}
    assert abs(found["911", "help.example"] - 300) < 10


# --- end to end -------------------------------------------------------------------------------------------------------


def everything(**more: Any) -> SafeLogClick:
    return SafeLogClick(epsilon=20, delta=1e-6, transitions=True, **more)


def test_the_tables_of_a_release(duckdb_engine: Engine) -> None:
    users = 300
    tables = everything().release(log_of(duckdb_engine, crowd(users)), source=keyed(b"tables")).tables
    assert list(tables) == ["data", "clicks", "transitions"]
    for name, columns in (("data", ["query"]), ("clicks", ["query", "url"]), ("transitions", ["query", "next"])):
        assert tables[name].column_names == [*columns, "count"]
        assert [str(field.type) for field in tables[name].schema] == ["string"] * len(columns) + ["int64"]
    keys = [
        {tuple(v for k, v in row.items() if k != "count") for row in table.to_pylist()} for table in tables.values()
    ]
    assert keys == [
        {("weather",), ("news",)},
        {("weather", "sun.example"), ("news", "paper.example")},
        {("weather", "news")},
    ]
    for table in tables.values():
        assert all(abs(row["count"] - users) < 15 for row in table.to_pylist())
    assert list(everything(clicks_per_user=0).parts[1:]) == everything().parts[2:], "0 clicks: no such table"


def test_clicks_and_transitions_over_candidates(duckdb_engine: Engine) -> None:
    users = 300
    mechanism = everything(candidates=CLICK_CANDIDATES, transition_candidates=NEXT_CANDIDATES)
    tables = mechanism.release(log_of(duckdb_engine, crowd(users)), source=keyed(b"candidates")).tables
    clicks = {(row["query"], row["url"]): row["count"] for row in tables["clicks"].to_pylist()}
    assert abs(clicks["weather", "sun.example"] - users) < 10
    assert set(clicks) <= {("weather", "sun.example"), ("weather", "rain.example")}
    (transition,) = tables["transitions"].to_pylist()
    assert (transition["query"], transition["next"]) == ("weather", "news")
    assert abs(transition["count"] - users) < 10


def test_fresh_counts_may_fall_below_the_threshold(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(f"u{u}", f"q{u % 40}", 0, None) for u in range(40 * 12)]
    same: dict[str, Any] = {"noise_scale": 4, "above": 11, "queries_per_user": 1, "clicks_per_user": 0}
    counts = {}
    for fresh in (False, True):
        mechanism = SafeLogClick(**same, fresh_counts=fresh)
        table = mechanism.release(log_of(duckdb_engine, rows), source=keyed(b"fresh")).table
        counts[fresh] = [row["count"] for row in table.to_pylist()]
    assert min(counts[False]) >= 12
    assert min(counts[True]) < 12


@pytest.mark.slow
def test_one_key_gives_one_release_on_every_engine(engine: Engine, duckdb_engine: Engine) -> None:
    """Which queries survive, in what order, with what noise: all from the source, nothing from the engine."""
    rows = crowd(60) + [(f"w{u}", f"rare {u % 25}", 0, None) for u in range(200)]
    mechanism = SafeLogClick(noise_scale=2, above=7, transitions=True, keep_personal=True)
    release = mechanism.release(log_of(engine, rows), source=keyed(b"key"))
    again = mechanism.release(log_of(duckdb_engine, rows[::-1]), source=keyed(b"key"))
    assert release.tables == again.tables
    assert 3 < release.table.num_rows < 60, "some by chance, not all"
    other = mechanism.release(log_of(duckdb_engine, rows), source=keyed(b"another"))
    assert release.tables != other.tables


def test_the_default_filter_on_every_engine(engine: Engine) -> None:
    rows = [*crowd(60), *((f"u{u}", "jane@mail.example", -1, None) for u in range(60))]
    release = SafeLogClick(epsilon=40, delta=1e-3).release(log_of(engine, rows), source=keyed(b"filter"))
    assert set(release.table["query"].to_pylist()) == {"weather", "news"}


def test_noise_over_the_pool_alone_needs_neither_threshold_nor_delta(tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("weather\nnews\nmaps\n")
    pool = QueryPool.from_file(tmp_path / "public.txt", tmp_path / "pool.parquet")
    plan = SafeLogClick(noise_scale=3.0, clicks_per_user=0, domain="pool", pool=pool).plan()
    assert plan.guarantee.delta == 0
    with pytest.raises(InputError, match="a threshold hides rare queries, which needs delta"):
        SafeLogClick(noise_scale=3.0, clicks_per_user=0).plan()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_scale": 3.0}, "give epsilon or noise_scale, one of them"),
        ({"epsilon": None}, "give epsilon or noise_scale, one of them"),
        ({"epsilon": 0.0}, "epsilon must be a positive number, not 0"),
        ({"epsilon": float("inf")}, "epsilon must be a positive number"),
        ({"delta": 1.0}, "delta must be a number above 0 and below 1, not 1"),
        ({"epsilon": None, "noise_scale": 0.0}, "noise_scale must be a number from 0.01 to 20000, not 0"),
        ({"epsilon": None, "noise_scale": float("nan")}, "noise_scale must be a number from 0.01 to 20000, not nan"),
        ({"above": -1.0}, "above must be a number of at least 0, not -1"),
        ({"above": float("nan")}, "above must be a number of at least 0, not nan"),
        ({"above": float("inf")}, "above"),
        ({"queries_per_user": 2.5}, "not 2.5"),
        ({"clicks_per_user": 1.5}, "not 1.5"),
        ({"at_least": -1}, "not -1"),
        ({"queries_per_user": 0}, r"queries_per_user .*at least 1, not 0"),
        ({"clicks_per_user": -1}, r"clicks.per.user .*not -1"),
        ({"domain": "log"}, "no domain 'log'; there are pool and pool"),
        ({"neighbours": "swap"}, "no neighbours 'swap'"),
        ({"transitions": True, "queries_per_user": 1}, "transitions need two queries"),
        ({"pool_coverage": 0.0}, "pool_coverage must be a number above 0 and at most 1, not 0; try pool_coverage=1"),
        ({"pool_coverage": 1.5}, "pool_coverage must be a number above 0 and at most 1, not 1.5"),
        ({"candidates": NEXT_CANDIDATES}, "candidates need the columns query and url"),
        ({"transition_candidates": CLICK_CANDIDATES}, "the transition candidates need the columns query and next"),
        ({"patterns": ("fine", "(")}, "is not a regular expression"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        SafeLogClick(**{"epsilon": 1.0, "delta": 1e-6} | wrong).plan()
    assert "\n" not in str(refusal.value)


def test_a_hidden_part_needs_a_delta_and_says_which() -> None:
    with pytest.raises(InputError, match="hides rare queries, clicks, which needs delta"):
        SafeLogClick(epsilon=1).plan()
    with pytest.raises(InputError, match="hides rare clicks, which needs delta"):
        SafeLogClick(epsilon=1, domain="pool").plan()


def test_a_threshold_that_cannot_keep_the_delta_is_refused_with_what_it_would_be() -> None:
    with pytest.raises(InputError, match=r"20 is infeasible: delta would be 0\.0[0-9]+; raise above"):
        SafeLogClick(noise_scale=5, above=20, delta=1e-6).plan()
    assert SafeLogClick(noise_scale=5, above=100, delta=1e-6).plan().guarantee.delta == 1e-6
    reached = SafeLogClick(noise_scale=5, above=1, queries_per_user=3).plan().guarantee
    assert reached.delta == 1, "a user who reaches the threshold alone is promised nothing"


@pytest.mark.parametrize(("scale", "threshold"), [(1.0, 1_000.0), (0.05, 60.0)])
def test_a_generous_threshold_is_no_error(scale: float, threshold: float) -> None:
    """Beyond the turning point α = e^(1/b), however large e^((K-1)/b) is."""
    plan = SafeLogClick(noise_scale=scale, above=threshold).plan()
    assert plan.claims["paper_epsilon"] == pytest.approx(9 / scale)
    assert plan.guarantee.epsilon == pytest.approx(6 / scale)


def test_the_papers_epsilon_is_finite_or_said_to_be_infinite_at_every_threshold() -> None:
    """Where 2e^((K-1)/b) ≤ 1 the paper's second form of α is no bound at all; it must not make ε small again."""
    scale = 1 / ln(2)
    low = [SafeLogClick(noise_scale=s, above=0).plan().claims["paper_epsilon"] for s in (scale, 1.0)]
    higher = [SafeLogClick(noise_scale=s, above=1).plan().claims["paper_epsilon"] for s in (scale, 1.0)]
    assert all(a >= b for a, b in zip(low, higher, strict=True)), "a lower threshold never costs less"


def test_what_a_log_lacks_is_named_and_nothing_is_charged(duckdb_engine: Engine, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "account", budget_epsilon=10, budget_delta=1e-3)
    table = pa.table({"user": ["u", "v"], "query": ["a", "b"]})
    timed = table.append_column("time", pa.array([NOON, NOON], pa.timestamp("us")))
    bare, no_url = (SearchLog(duckdb_engine.load(t), duckdb_engine) for t in (table, timed))
    whole = log_of(duckdb_engine, crowd(3))
    lonely = log_of(duckdb_engine, crowd(1))
    for mechanism, log, message in (
        (SafeLogClick(epsilon=1, delta=1e-6), bare, "no time, which a user's first queries needs"),
        (SafeLogClick(epsilon=1, delta=1e-6), no_url, "no url, which counting clicks"),
        (SafeLogClick(epsilon=1, domain="pool", clicks_per_user=0), whole, "the domain pool needs a pool; make one"),
        (SafeLogClick(epsilon=1, delta=1e-6), lonely, "has a single user"),
        (SafeLogClick(epsilon=1, delta=1e-6), log_of(duckdb_engine, []), "is empty"),
    ):
        with pytest.raises(InputError, match=message):
            mechanism.release(log, ledger=ledger)
    assert list(ledger.spent().entries) == []
    SafeLogClick(epsilon=1, delta=1e-6, clicks_per_user=0).release(no_url, ledger=ledger, source=keyed(b"paid"))
    assert len(ledger.spent().entries) == 1
