"""A_Session: the promise and its exactness, what one user can change, and releases end to end."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, groupby, product
from math import log as ln
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import mpmath
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items.session import as_lists
from searchveil.log import SearchLog
from searchveil.privacy.ledger import Ledger
from searchveil.progress import silent
from searchveil.publish import safelog_session
from searchveil.publish.safelog_session import SafeLogSession

Row = tuple[str, str, int, str | None]  # user, query, minutes, url
NOON = datetime(2024, 5, 1, 12)


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


# --- the plan ---------------------------------------------------------------------------------------------------------


def q(scale: float, t: int) -> Any:
    """P(η ≥ t), t ≥ 0, to fifty digits."""
    with mpmath.workdps(50):
        p = mpmath.exp(-1 / mpmath.mpf(scale))
        return p**t / (1 + p)


def once_each(scale: float, threshold: int, changes: int) -> Any:
    with mpmath.workdps(50):
        return 1 - (1 - q(scale, threshold - 1)) ** changes


def parts_of(sessions: int, queries: int, clicks: int) -> list[int]:
    return [sessions * (2**queries - 1 - queries)] + [clicks] * (clicks > 0)


SHAPES = [(1, 2, 0), (1, 3, 0), (1, 3, 4), (2, 3, 0), (3, 4, 2), (1, 12, 1)]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("sessions", "queries", "clicks"), SHAPES)
def test_the_promise_of_a_noise_scale_and_a_threshold(
    sessions: int, queries: int, clicks: int, neighbours: Any
) -> None:
    scale, threshold = 40.0, 801
    plan = SafeLogSession(
        noise_scale=scale, above=800.9, sessions_per_user=sessions, queries_per_session=queries,
        clicks_per_user=clicks, neighbours=neighbours,
    ).plan()  # fmt: skip
    parts = parts_of(sessions, queries, clicks)
    times = 2 if neighbours == "replace-one" else 1
    assert Fraction(plan.guarantee.epsilon) * Fraction(scale) >= times * sum(parts)
    assert plan.guarantee.epsilon == pytest.approx(times * sum(parts) / scale, rel=1e-12)
    delta = sum(once_each(scale, threshold, part) for part in parts)
    assert plan.guarantee.delta >= delta
    assert plan.guarantee.delta == pytest.approx(float(delta), rel=1e-9)
    assert plan.parameters["second_threshold"] == threshold


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("sessions", "queries", "clicks"), SHAPES)
def test_the_noise_and_thresholds_of_a_promise(sessions: int, queries: int, clicks: int, neighbours: Any) -> None:
    epsilon, delta = 1.7, 1e-7
    same: dict[str, Any] = {
        "sessions_per_user": sessions, "queries_per_session": queries, "clicks_per_user": clicks,
        "neighbours": neighbours,
    }  # fmt: skip
    plan = SafeLogSession(epsilon=epsilon, delta=delta, **same).plan()
    parts = parts_of(sessions, queries, clicks)
    scale = plan.parameters["noise_scale"]
    changes = sum(parts) * (2 if neighbours == "replace-one" else 1)
    assert Fraction(changes) / Fraction(scale) <= Fraction(epsilon)
    assert scale == pytest.approx(changes / epsilon, rel=1e-12)
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (epsilon, delta)
    for name, part in zip(("second_threshold", "clicks_threshold"), parts, strict=False):
        threshold = plan.parameters[name]
        assert once_each(scale, threshold, part) <= delta / len(parts) < once_each(scale, threshold - 1, part)

    if not clicks:  # and back again
        back = SafeLogSession(noise_scale=scale, above=plan.parameters["second_threshold"] - 1, **same).plan()
        assert back.parameters == plan.parameters
        assert back.guarantee.epsilon == pytest.approx(epsilon, rel=1e-12)
        assert back.guarantee.delta <= delta
        again = SafeLogSession(epsilon=back.guarantee.epsilon, delta=back.guarantee.delta, **same).plan()
        assert again.parameters["second_threshold"] == plan.parameters["second_threshold"]


@pytest.mark.parametrize(("sessions", "queries", "clicks"), SHAPES[:4])
def test_the_published_variant_promises_what_the_paper_claims_and_no_less_than_is_true(
    sessions: int, queries: int, clicks: int
) -> None:
    scale, threshold = 2.0, 30
    plan = SafeLogSession(
        noise_scale=scale, above=threshold, sessions_per_user=sessions, queries_per_session=queries,
        clicks_per_user=clicks, variant="published",
    ).plan()  # fmt: skip
    parts = parts_of(sessions, queries, clicks)
    with mpmath.workdps(50):
        true = sum(max(once_each(scale, threshold + 1, d), q(scale, threshold + 1 - d)) for d in parts)
        claimed = sum(mpmath.mpf(d) / 2 * mpmath.exp((d - threshold) / mpmath.mpf(scale)) for d in parts)
    assert plan.guarantee.epsilon == pytest.approx(2 * sum(parts) / scale)
    assert plan.guarantee.delta >= true
    assert plan.guarantee.delta == pytest.approx(float(max(true, claimed)), rel=1e-9)
    assert plan.claims["paper_delta"] == pytest.approx(float(claimed), rel=1e-9)
    assert plan.parameters["count_scale"] == scale


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_published_variant_from_a_promise_keeps_it(neighbours: Any) -> None:
    for clicks in (0, 4):
        plan = SafeLogSession(
            epsilon=2, delta=1e-6, clicks_per_user=clicks, variant="published", neighbours=neighbours
        ).plan()
        scale, threshold = plan.parameters["noise_scale"], plan.parameters["second_threshold"]
        parts = parts_of(1, 3, clicks)
        assert 2 * sum(parts) * (2 if neighbours == "replace-one" else 1) / scale <= 2 * (1 + 1e-12)
        assert sum(max(once_each(scale, threshold, d), q(scale, threshold - d)) for d in parts) <= 1e-6
        assert plan.claims["paper_delta"] <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize("changes", [1, 4])
@pytest.mark.parametrize("threshold", [1, 2, 4])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(2, 3)], ids=str)
def test_delta_is_exact(changes: int, threshold: int, p: Fraction) -> None:
    """All ways in which a user adds one to up to Δf counts that others have or nobody has, in rational arithmetic."""

    def reaches(t: int) -> Fraction:
        return p**t / (1 + p) if t >= 0 else 1 - p ** (1 - t) / (1 + p)

    def outputs(count: int, last: int) -> list[Fraction]:
        if count == 0:
            return [Fraction(1), *[Fraction(0)] * (last - threshold + 1)]
        values = [reaches(v - count) - reaches(v + 1 - count) for v in range(threshold, last)]
        return [1 - reaches(threshold - count), *values, reaches(last - count)]

    def item(others: int) -> list[tuple[Fraction, Fraction]]:
        last = max(threshold, others + 1)  # from there on all values have one ratio
        return list(zip(outputs(others + 1, last), outputs(others, last), strict=True))

    found = Fraction(0)
    for backgrounds in combinations_with_replacement(sorted({0, 1, threshold - 1, threshold}), changes):
        joint: Counter[tuple[Fraction, Fraction]] = Counter({(Fraction(1), Fraction(1)): 1})
        for others in backgrounds:
            further: Counter[tuple[Fraction, Fraction]] = Counter()
            for ((a, b), times), (c, d) in product(joint.items(), item(others)):
                further[a * c, b * d] += times
            joint = further
        for sign in (1, -1):
            pairs = [((a, b) if sign == 1 else (b, a), times) for (a, b), times in joint.items()]
            loss = sum((n * max(Fraction(0), a - b * p**-changes) for (a, b), n in pairs), Fraction(0))
            found = max(found, loss)
    assert found == 1 - (1 - p ** (threshold - 1) / (1 + p)) ** changes
    stated = SafeLogSession(
        noise_scale=1 / -ln(p), above=threshold - 0.5, queries_per_session=2 if changes == 1 else 3
    ).plan()
    assert stated.guarantee.delta == pytest.approx(float(found), rel=1e-9)


# --- what is counted --------------------------------------------------------------------------------------------------


def counts_of(mechanism: SafeLogSession, engine: Engine, rows: list[Row]) -> list[Counter[Any]]:
    """The counts of sessions and of clicks, in place of adding noise to them."""
    seen: list[Counter[Any]] = []

    def note(counts: Any, columns: list[str], **rest: Any) -> pa.Table:
        table = engine.fetch(counts)
        named = as_lists(table) if columns == ["session"] else table
        keys = [
            tuple(row["session"]) if columns == ["session"] else (row["query"], row["url"]) for row in named.to_pylist()
        ]
        assert len(set(keys)) == len(keys)
        seen.append(Counter(dict(zip(keys, table["count"].to_pylist(), strict=True))))
        return table

    with patch.object(safelog_session, "survivors", note):
        mechanism.publish(log_of(engine, rows), mechanism.plan(), keyed(b"unused"), silent)
    return seen


def by_hand(mechanism: SafeLogSession, rows: list[Row]) -> list[Counter[Any]]:
    sessions: Counter[Any] = Counter()
    clicks: Counter[Any] = Counter()
    for user in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == user and row[1].strip()]
        runs: list[list[str]] = []
        last: int | None = None
        for time, query in sorted({(row[2], row[1]) for row in own}):
            if last is None or time - last > mechanism.gap_minutes:
                runs.append([])
            runs[-1].append(query)
            last = time
        collapsed = [[query for query, _ in groupby(run)] for run in runs]
        found = [
            chosen
            for run in [run for run in collapsed if len(run) >= 2][: mechanism.sessions_per_user]
            for length in range(2, mechanism.queries_per_session + 1)
            for chosen in combinations(run[: mechanism.queries_per_session], length)
        ]
        hits = sorted({(row[2], row[1], row[3]) for row in own if row[3]})[: mechanism.clicks_per_user]
        pairs = [(query, url) for _, query, url in hits]
        sessions.update(set(found) if mechanism.variant == "ours" else found)
        clicks.update(set(pairs) if mechanism.variant == "ours" else pairs)
    return [sessions, clicks]


rows_of_few = st.lists(
    st.tuples(
        st.sampled_from("uvw"),
        st.sampled_from(["a", "b", "c", " "]),
        st.sampled_from([0, 1, 2, 3, 33, 34, 90, 121, 122, 300, 301]),
        st.sampled_from([None, "x.example", "y.example"]),
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.slow
@given(
    rows=rows_of_few,
    sessions=st.integers(1, 2),
    queries=st.integers(2, 3),
    clicks=st.integers(1, 3),
    variant=st.sampled_from(["ours", "published"]),
)
@settings(max_examples=8, deadline=None)
def test_counts_are_those_of_plain_loops_and_one_user_moves_them_by_no_more_than_stated(
    duckdb_engine: Engine, rows: list[Row], sessions: int, queries: int, clicks: int, variant: Any
) -> None:
    mechanism = SafeLogSession(
        noise_scale=1, above=9, sessions_per_user=sessions, queries_per_session=queries, clicks_per_user=clicks,
        variant=variant,
    )  # fmt: skip
    full = counts_of(mechanism, duckdb_engine, rows)
    assert full == by_hand(mechanism, rows)
    less = counts_of(mechanism, duckdb_engine, [row for row in rows if row[0] != rows[0][0]])
    for with_user, without, most in zip(full, less, mechanism.parts, strict=True):
        moved = [with_user[key] - without[key] for key in with_user | without]
        assert min(moved, default=0) >= 0
        assert sum(moved) <= most
        assert variant == "published" or max(moved, default=0) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("sessions", "queries", "clicks"), [(1, 2, 1), (1, 3, 2), (2, 3, 3)])
def test_long_histories_are_counted_like_short_ones(
    duckdb_engine: Engine, sessions: int, queries: int, clicks: int
) -> None:
    """Only the beginning of a history matters, and how much that is differs: long sessions, long silences, ties."""
    draw = Random(10 * sessions + queries)
    rows: list[Row] = []
    for u in range(60):
        minute, pace = 0, draw.choice([[0, 0, 1], [31, 40], [0, 1, 31], [0] * 30 + [1], [31] * 20 + [1]])
        for _ in range(draw.randint(1, 90)):
            minute += draw.choice(pace)
            rows.append((f"u{u}", draw.choice("aab"), minute, draw.choice([None] * draw.randint(1, 9) + ["x.example"])))
    # One session at once, the next after much that is none; and one that stays of a single query for long.
    rows += [("late", query, minute, None) for query, minute in (("a", 0), ("b", 1))]
    rows += [("late", "a", 100 * i, None) for i in range(1, 60)]
    rows += [("late", query, 100 * 60 + minute, None) for minute, query in enumerate("cde")]
    rows += [("slow", query, minute, None) for query, minute in (("a", 0), ("b", 1))]
    rows += [("slow", "c", 100 + i, None) for i in range(60)] + [("slow", "d", 161, "x.example")]
    rows += [("cut", "a" if i < 40 else "b", i, "x.example" if i % 7 == 3 else None) for i in range(50)]
    mechanism = SafeLogSession(
        noise_scale=1, above=9, sessions_per_user=sessions, queries_per_session=queries, clicks_per_user=clicks
    )
    assert counts_of(mechanism, duckdb_engine, rows) == by_hand(mechanism, rows)


@pytest.mark.slow
def test_personal_rows_are_in_neither_sessions_nor_clicks(duckdb_engine: Engine) -> None:
    rows: list[Row] = [
        (user, query, minute, f"{minute}.example")
        for user in "uv"
        for minute, query in enumerate(["a", "jane@mail.example", "acme 17", "b"])
    ]
    expected = {(): {("a", "acme 17"), ("acme 17", "b"), ("a", "b"), ("a", "acme 17", "b")}, ("acme",): {("a", "b")}}
    for patterns, sessions in expected.items():
        mechanism = SafeLogSession(noise_scale=1, above=9, clicks_per_user=9, patterns=patterns)
        found, clicks = counts_of(mechanism, duckdb_engine, rows)
        assert set(found) == sessions
        assert {query for query, _ in clicks} == {query for session in sessions for query in session}


def test_ones_own_pattern_holds_even_where_ours_are_switched_off(duckdb_engine: Engine) -> None:
    rows: list[Row] = [(user, query, minute, None) for user in "uv" for minute, query in enumerate(["a", "acme", "b"])]
    mechanism = SafeLogSession(noise_scale=1, above=9, keep_personal=True, patterns=("acme",))
    assert counts_of(mechanism, duckdb_engine, rows) == [{("a", "b"): 2}]


@pytest.mark.slow
def test_an_empty_url_is_no_click(duckdb_engine: Engine) -> None:
    rows: list[Row] = [("u", "a", 0, ""), ("u", "b", 1, "x.example"), ("v", "a", 0, "")]
    _, clicks = counts_of(SafeLogSession(noise_scale=1, above=9, clicks_per_user=1), duckdb_engine, rows)
    assert clicks == {("b", "x.example"): 1}


# --- end to end -------------------------------------------------------------------------------------------------------


def crowd(users: int) -> list[Row]:
    rows: list[Row] = []
    for u in range(users):
        for minute, query in enumerate(["Weather", "weather ", "news", f"secret {u}"]):
            rows.append((f"u{u}", query, minute, "sun.example" if minute == 0 else None))
        rows.append((f"u{u}", "later", 500, None))
        rows.append((f"u{u}", "latest", 501, None))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["ours", "published"])
def test_the_tables_of_a_release(duckdb_engine: Engine, variant: Any) -> None:
    users = 400
    mechanism = SafeLogSession(epsilon=30, delta=1e-6, clicks_per_user=2, variant=variant)
    release = mechanism.release(log_of(duckdb_engine, crowd(users)), source=keyed(b"tables"))
    assert list(release.tables) == ["data", "clicks"]
    assert [(field.name, str(field.type)) for field in release.table.schema] == [
        ("session", str(pa.list_(pa.string()))),
        ("count", "int64"),
    ]
    assert release.tables["clicks"].column_names == ["query", "url", "count"]
    assert release.tables["clicks"].schema.field("count").type == pa.int64()
    (session,), (click,) = (table.to_pylist() for table in release.tables.values())
    assert session["session"] == ["weather", "news"]
    assert (click["query"], click["url"]) == ("weather", "sun.example")
    assert abs(session["count"] - users) < 15
    assert abs(click["count"] - users) < 15


def test_no_clicks_unless_asked_for_and_no_url_needed(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, crowd(200))
    log = SearchLog(log.table.drop("url"), duckdb_engine)
    release = SafeLogSession(epsilon=30, delta=1e-6, sessions_per_user=2).release(log, source=keyed(b"two"))
    assert list(release.tables) == ["data"]
    assert {tuple(row["session"]) for row in release.table.to_pylist()} == {("weather", "news"), ("later", "latest")}


@pytest.mark.slow
def test_one_key_gives_one_release_on_every_engine(engine: Engine, duckdb_engine: Engine) -> None:
    draw = Random(4)
    rows: list[Row] = [
        (f"u{u}", draw.choice("abcdef"), minute, draw.choice([None, "x.example", "y.example"]))
        for u in range(120)
        for minute in range(40)
    ]
    mechanism = SafeLogSession(
        noise_scale=3, above=6, sessions_per_user=1, queries_per_session=3, clicks_per_user=2, keep_personal=True
    )
    release = mechanism.release(log_of(engine, rows), source=keyed(b"key"))
    again = mechanism.release(log_of(duckdb_engine, rows[::-1]), source=keyed(b"key"))
    assert release.tables == again.tables
    assert 5 < release.table.num_rows < 200
    assert release.tables != mechanism.release(log_of(duckdb_engine, rows), source=keyed(b"another")).tables


def test_the_default_filter(duckdb_engine: Engine) -> None:
    rows = [*crowd(80), *((f"u{u}", "jane@mail.example", 1, None) for u in range(80))]
    release = SafeLogSession(epsilon=60, delta=1e-3).release(log_of(duckdb_engine, rows), source=keyed(b"filter"))
    assert release.table["session"].to_pylist() == [["weather", "news"]]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_scale": 3.0}, "give epsilon or noise_scale, one of them"),
        ({"epsilon": None}, "give epsilon or noise_scale, one of them"),
        ({"delta": None}, "needs delta or above beside epsilon"),
        ({"epsilon": None, "noise_scale": 3.0, "delta": None}, "needs delta or above beside noise_scale"),
        ({"sessions_per_user": 0}, r"sessions_per_user .*at least 1, not 0"),
        ({"queries_per_session": 1}, r"queries.per.session .*not 1"),
        ({"queries_per_session": 13}, "queries_per_session .*from 2 to 12, not 13; the noise grows .*4,083"),
        ({"sessions_per_user": 1.5}, "not 1.5"),
        ({"queries_per_session": 2.5}, "not 2.5"),
        ({"clicks_per_user": -2}, r"clicks.per.user .*not -2"),
        ({"gap_minutes": 0.0}, "gap_minutes .*, not 0; a gap is from a second to a year"),
        ({"gap_minutes": float("nan")}, "gap_minutes .*, not nan; a gap is from a second to a year"),
        ({"gap_minutes": float("inf")}, "gap"),
        ({"above": float("inf")}, "above"),
        ({"variant": "new"}, "no variant 'new'; there are ours and published"),
        ({"neighbours": "swap"}, "no neighbours 'swap'"),
        ({"patterns": ("*",)}, "is not a regular expression"),
        ({"above": 20.0}, "20 is infeasible: delta would be"),
        ({"sessions_per_user": 10_000, "queries_per_session": 12}, "noise scale .* is outside"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        SafeLogSession(**{"epsilon": 1.0, "delta": 1e-6} | wrong).plan()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("queries", "scale", "threshold"), [(3, 1.0, 1_000.0), (10, 1.0, 20.0), (12, 4.0, 90.0)], ids=str
)
def test_what_the_paper_claims_is_a_number_for_every_plan(queries: int, scale: float, threshold: float) -> None:
    """A claim far above one, or a threshold far beyond need, is no reason to break off."""
    plan = SafeLogSession(noise_scale=scale, above=threshold, queries_per_session=queries).plan()
    assert plan.guarantee.epsilon == pytest.approx((2**queries - 1 - queries) / scale)
    assert plan.claims["paper_epsilon"] == pytest.approx(2 * plan.guarantee.epsilon)


def test_what_a_log_lacks_is_named_and_nothing_is_charged(duckdb_engine: Engine, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "account", budget_epsilon=10, budget_delta=1e-3)
    table = pa.table({"user": ["u", "v"], "query": ["a", "b"]})
    timed = table.append_column("time", pa.array([NOON, NOON], pa.timestamp("us")))
    bare, no_url = (SearchLog(duckdb_engine.load(t), duckdb_engine) for t in (table, timed))
    for clicks, log, message in (
        (0, bare, "no time, which telling sessions apart needs"),
        (1, no_url, "no url, which counting clicks"),
        (0, log_of(duckdb_engine, crowd(1)), "has a single user"),
    ):
        with pytest.raises(InputError, match=message):
            SafeLogSession(epsilon=1, delta=1e-6, clicks_per_user=clicks).release(log, ledger=ledger)
    assert list(ledger.spent().entries) == []


def test_a_pattern_that_the_engine_does_not_know_costs_nothing(duckdb_engine: Engine, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "account", budget_epsilon=10, budget_delta=1e-3)
    log = log_of(duckdb_engine, crowd(5))
    with pytest.raises(InputError):
        SafeLogSession(epsilon=1, delta=1e-6, patterns=("foo(?=bar)",)).release(log, ledger=ledger)
    assert list(ledger.spent().entries) == []
