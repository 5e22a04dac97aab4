"""Korolova et al. through the public API: selection, counts, clicks on public urls, and what is refused."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.publish.korolova import Korolova

CANDIDATES = pa.table(
    {"query": ["weather", "weather", "news"], "url": ["sun.example", "rain.example", "paper.example"]}
)
NOON = datetime(2024, 5, 1, 12)


def log_of(engine: Engine, rows: Iterable[tuple[str, str, int, str | None]]) -> SearchLog:
    """Rows of user, query, second and url."""
    rows = list(rows)
    times = [NOON + timedelta(seconds=row[2]) for row in rows]
    table = pa.table(
        {
            "user": pa.array([row[0] for row in rows], pa.string()),
            "query": pa.array([row[1] for row in rows], pa.string()),
            "time": pa.array(times, pa.timestamp("us")),
            "url": pa.array([row[3] for row in rows], pa.string()),
        }
    )
    return SearchLog(engine.load(table), engine)


def crowd(users: int) -> list[tuple[str, str, int, str | None]]:
    rows: list[tuple[str, str, int, str | None]] = []
    for u in range(users):
        rows.append((f"u{u}", "Weather", 0, "sun.example"))
        rows.append((f"u{u}", "weather ", 0, "own.example"))  # a second click of the same submission
        rows.append((f"u{u}", f"secret {u}", 1, f"u{u}.example"))
    return rows


@pytest.mark.parametrize("variant", ["exact", "published"])
def test_the_shared_query_is_released_and_nobodys_own(engine: Engine, variant: Any) -> None:
    users = 600
    korolova = Korolova(6, 1e-9, queries_per_user=2, variant=variant)
    release = korolova.release(log_of(engine, crowd(users)), source=keyed(b"shared"))
    (row,) = release.table.to_pylist()
    assert row["query"] == "weather"
    assert abs(row["count"] - users) < 25 * release.plan.parameters["noise_scale"]


def test_occurrences_count_each_time_and_users_once(engine: Engine) -> None:
    rows = [(f"u{u}", "again", second, None) for u in range(100) for second in range(3)]
    counts = {
        counting: Korolova(20, 1e-3, queries_per_user=3, counting=counting)
        .release(log_of(engine, rows), source=keyed(b"times"))
        .table.to_pylist()[0]["count"]
        for counting in ("occurrences", "users")
    }
    assert abs(counts["occurrences"] - 300) < 10
    assert abs(counts["users"] - 100) < 10


def test_only_the_first_queries_of_a_user_count(duckdb_engine: Engine) -> None:
    rows = [(f"u{u}", query, second, None) for u in range(100) for second, query in enumerate(["a", "b", "c", "d"])]
    release = Korolova(20, 1e-3, queries_per_user=2).release(log_of(duckdb_engine, reversed(rows)), source=keyed(b"2"))
    assert {row["query"] for row in release.table.to_pylist()} == {"a", "b"}


rows_of_few = st.lists(
    st.tuples(
        st.sampled_from("uvw"), st.sampled_from(["a", "A", "b", "c", " ", "Ä"]), st.integers(0, 3), st.just(None)
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.slow
@given(rows=rows_of_few, per_user=st.integers(1, 3), counting=st.sampled_from(["occurrences", "users"]))
@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_one_user_changes_the_counts_by_at_most_what_is_allowed(
    duckdb_engine: Engine, rows: list[tuple[str, str, int, str | None]], per_user: int, counting: Any
) -> None:
    korolova = Korolova(1, 1e-6, queries_per_user=per_user, counting=counting)
    gone = rows[0][0]

    def counts(of: list[tuple[str, str, int, str | None]]) -> dict[str, int]:
        counted = korolova._query_counts(log_of(duckdb_engine, of), keyed(b"one seed"))
        return {r["query"]: r["count"] for r in duckdb_engine.fetch(counted).to_pylist()}

    full, less = counts(rows), counts([row for row in rows if row[0] != gone])
    changes = [full.get(query, 0) - less.get(query, 0) for query in full | less]
    assert min(changes, default=0) >= 0
    assert sum(changes) <= per_user
    assert max(changes, default=0) <= (per_user if counting == "occurrences" else 1)


# --- clicks -----------------------------------------------------------------------------------------------------------


def test_clicks_are_counted_for_public_urls_of_published_queries_only(engine: Engine) -> None:
    users = 400
    korolova = Korolova(12, 1e-6, queries_per_user=2, clicks_per_user=2, candidates=CANDIDATES)
    release = korolova.release(log_of(engine, crowd(users)), source=keyed(b"clicks"))
    assert release.tables["data"]["query"].to_pylist() == ["weather"]
    clicks = {(row["query"], row["url"]): row["count"] for row in release.tables["clicks"].to_pylist()}
    assert set(clicks) <= {("weather", "sun.example"), ("weather", "rain.example")}, "no url of a user's own"
    assert abs(clicks["weather", "sun.example"] - users) < 20
    assert all(0 < count < 20 for pair, count in clicks.items() if pair[1] == "rain.example")


def test_one_user_clicks_no_more_than_allowed(duckdb_engine: Engine) -> None:
    rows = crowd(200) + [("u0", "weather", second, "rain.example") for second in range(500)]
    korolova = Korolova(12, 1e-6, queries_per_user=2, clicks_per_user=3, candidates=CANDIDATES)
    release = korolova.release(log_of(duckdb_engine, rows), source=keyed(b"busy"))
    clicks = {row["url"]: row["count"] for row in release.tables["clicks"].to_pylist()}
    assert abs(clicks["sun.example"] - 200) < 20
    assert clicks.get("rain.example", 0) < 20, "500 clicks of one user count for at most 3"


def test_candidates_that_nobody_clicked_get_noise_too(duckdb_engine: Engine) -> None:
    """Were they left out, a published url would prove a click: δ = 1 for who clicked it alone."""
    urls = [f"url{i}.example" for i in range(400)]
    candidates = pa.table({"query": ["weather"] * len(urls), "url": urls})
    korolova = Korolova(4, 1e-3, queries_per_user=1, clicks_per_user=1, candidates=candidates)
    release = korolova.release(log_of(duckdb_engine, crowd(200)), source=keyed(b"unclicked"))
    p = float(pow(2.718281828459045, -1 / release.plan.parameters["click_scale"]))
    positive = p / (1 + p)
    spread = (400 * positive * (1 - positive)) ** 0.5
    assert abs(release.tables["clicks"].num_rows - 400 * positive) < 5 * spread


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_the_plan_names_its_parameters_and_what_is_public() -> None:
    plan = Korolova(1, 1e-6, candidates=CANDIDATES).plan().to_json()
    assert set(plan["parameters"]) == {
        "queries_per_user",
        "noise_scale",
        "second_threshold",
        "clicks_per_user",
        "click_scale",
    }
    assert plan["guarantee"]["notion"] == "approximate"
    assert "the candidate urls of every query" in plan["guarantee"]["assumed_public"]
    published = Korolova(1, 1e-6, variant="published").plan().parameters
    assert set(published) == {"queries_per_user", "noise_scale", "count_scale", "second_threshold"}


@pytest.mark.parametrize("epsilon", [0.76, 1.0, 2.5, 3.04, 4.52])
@pytest.mark.parametrize("variant", ["exact", "published"])
def test_the_parts_never_cost_more_than_epsilon_not_even_by_a_rounding(epsilon: float, variant: Any) -> None:
    """A third of ε is not a float: three parts of it, each rounded up, are more than ε."""
    for queries, clicks, neighbours in ((1, 1, "add-remove"), (1, 8, "add-remove"), (2, 5, "replace-one")):
        korolova = Korolova(
            epsilon,
            1e-6,
            queries_per_user=queries,
            clicks_per_user=clicks,
            variant=variant,
            neighbours=neighbours,  # type: ignore[arg-type]
            candidates=CANDIDATES,
        )
        scales = korolova.plan().parameters
        cost = Fraction(queries) / Fraction(scales["noise_scale"]) + Fraction(clicks) / Fraction(scales["click_scale"])
        if "count_scale" in scales:
            cost += Fraction(queries) / Fraction(scales["count_scale"])
        assert cost * (1 if neighbours == "add-remove" else 2) <= Fraction(epsilon)


@pytest.mark.parametrize("counting", ["occurrences", "users"])
def test_replace_one_doubles_the_noise(counting: Any) -> None:
    plain, replaced = (
        Korolova(1, 1e-6, counting=counting, neighbours=n).plan().parameters["noise_scale"]
        for n in ("add-remove", "replace-one")
    )
    assert replaced == 2 * plain


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive number, not 0"),
        ({"delta": 1}, "delta must be a number above 0 and below 1, not 1"),
        ({"queries_per_user": 0}, "queries_per_user must be a whole number of at least 1, not 0"),
        ({"clicks_per_user": 0}, "clicks_per_user must be a whole number of at least 1, not 0"),
        ({"counting": "rows"}, "no counting 'rows'; there are occurrences and users"),
        ({"variant": "new"}, "no variant 'new'; there are exact and published"),
        ({"neighbours": "swap"}, "no neighbours 'swap'"),
        ({"variant": "published", "counting": "users"}, "the published variant counts occurrences"),
        ({"candidates": pa.table({"text": ["a"]})}, "need the columns query and url; they have text"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line_that_echoes_it(wrong: dict[str, Any], message: str) -> None:
    parameters: dict[str, Any] = {"epsilon": 1, "delta": 1e-6} | wrong
    with pytest.raises(InputError, match=message) as refusal:
        Korolova(**parameters)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("wrong", [{"queries_per_user": 2.5}, {"clicks_per_user": 1.5}], ids=str)
def test_a_fraction_is_refused_where_a_whole_number_is_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Korolova(**{"epsilon": 1, "delta": 1e-6} | wrong).plan()


def test_a_log_without_times_has_no_first_queries(duckdb_engine: Engine) -> None:
    log = SearchLog(duckdb_engine.load(pa.table({"user": ["u", "v"], "query": ["a", "b"]})), duckdb_engine)
    with pytest.raises(InputError, match="no time, which counting a user's first queries"):
        Korolova(1, 1e-6).release(log)
    assert Korolova(1, 1e-6, counting="users").release(log, source=keyed(b"t")).table.num_rows == 0


def test_a_log_of_one_user_or_of_nobody_is_refused(engine: Engine) -> None:
    with pytest.raises(InputError, match="has a single user"):
        Korolova(1, 1e-3).release(log_of(engine, [("u", "a", 0, None), ("u", "b", 1, None)]))
    with pytest.raises(InputError, match="is empty: there is nothing to publish"):
        Korolova(1, 1e-3).release(log_of(engine, []))
