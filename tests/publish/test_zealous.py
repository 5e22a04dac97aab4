"""ZEALOUS through the public API: what is promised, what is refused, what is never released."""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.publish.zealous import Zealous

NOTIONS = pytest.mark.parametrize("notion", ["approximate", "probabilistic", "indistinguishable"])


def log_of(engine: Engine, rows: Iterable[tuple[str, str]]) -> SearchLog:
    rows = list(rows)
    columns = {"user": [user for user, _ in rows], "query": [query for _, query in rows]}
    return SearchLog(engine.load(pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})), engine)


def crowd(users: int, own: int = 1) -> list[tuple[str, str]]:
    """Everybody searched for the weather, in their own way of typing, and for something of their own."""
    typed = ("weather", "Weather ", "WEATHER")
    return [(f"u{u}", typed[u % 3]) for u in range(users)] + [
        (f"u{u}", f"secret {u} {i}") for u in range(users) for i in range(own)
    ]


# --- what is released -------------------------------------------------------------------------------------------------


@NOTIONS
def test_the_shared_item_is_released_and_nobodys_own(engine: Engine, notion: Any) -> None:
    """Counts far above and far below every threshold: the same release on each engine, but for the noise."""
    users = 600
    zealous = Zealous(4, 1e-9, per_user=2, notion=notion)
    release = zealous.release(log_of(engine, crowd(users)), source=keyed(b"shared"))
    (row,) = release.table.to_pylist()
    scale = release.plan.parameters["noise_scale"]
    assert row["query"] == "weather"
    assert abs(row["count"] - users) < 25 * scale, "off by more once in 10^11"
    assert [str(kind) for kind in release.table.schema.types] == ["string", "int64"]


def test_a_user_counts_once_however_often_and_however_they_type_it(engine: Engine) -> None:
    """The choice is made among texts as typed; what becomes the same item afterwards is one item of that user."""
    rows = [(f"u{u}", typed) for u in range(200) for typed in ("popular", "Popular", " POPULAR ")]
    rows += [("u0", "mine"), ("u0", "MINE")] * 300
    release = Zealous(5, 1e-6, per_user=5).release(log_of(engine, rows), source=keyed(b"once"))
    (row,) = release.table.to_pylist()
    assert row["query"] == "popular"
    assert abs(row["count"] - 200) < 25


few_logs = st.lists(st.tuples(st.sampled_from("uvwxyz"), st.sampled_from("abcABC")), min_size=2, max_size=25)


@pytest.mark.slow
@given(
    rows=few_logs,
    first=st.integers(2, 4),
    notion=st.sampled_from(["approximate", "probabilistic"]),
    key=st.binary(min_size=1, max_size=8),
)
@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_no_item_of_fewer_users_than_the_first_threshold_is_ever_released(
    duckdb_engine: Engine, rows: list[tuple[str, str]], first: int, notion: Any, key: bytes
) -> None:
    """With δ near 1 and as much noise, an item below it would pass in a good part of these runs."""
    rows = [*rows, ("u", "a"), ("v", "b")]
    log = log_of(duckdb_engine, rows)
    zealous = Zealous(5, 0.999, per_user=3, notion=notion, first_threshold=first)
    if notion == "probabilistic" and log.users * 3 < first:
        return
    holders: dict[str, set[str]] = {}
    for user, query in rows:
        holders.setdefault(query.lower(), set()).add(user)
    for row in zealous.release(log, source=keyed(key)).table.to_pylist():
        assert len(holders[row["query"]]) >= first


def test_the_first_threshold_is_met_by_exactly_as_many_users_and_missed_by_one_fewer(engine: Engine) -> None:
    """The boundary itself, many items at a time: τ users may pass, τ - 1 never do."""
    first, items = 4, 40
    rows = [(f"u{u} of {i}", f"enough {i}") for i in range(items) for u in range(first)]
    rows += [(f"v{u} of {i}", f"too few {i}") for i in range(items) for u in range(first - 1)]
    release = Zealous(2, 0.9, per_user=1, first_threshold=first).release(log_of(engine, rows), source=keyed(b"edge"))
    released = [row["query"] for row in release.table.to_pylist()]
    assert release.plan.parameters["second_threshold"] == first, "so that an item of τ users passes more often than not"
    assert any(item.startswith("enough") for item in released)
    assert not any(item.startswith("too few") for item in released)


@NOTIONS
def test_no_released_count_is_below_the_second_threshold(duckdb_engine: Engine, notion: Any) -> None:
    rows = [(f"u{u}", f"q{i}") for i in range(1, 13) for u in range(10 * i)]
    log = log_of(duckdb_engine, rows)
    release = Zealous(20, 0.5, per_user=12, notion=notion, threshold=40).release(log, source=keyed(b"second"))
    counts = [row["count"] for row in release.table.to_pylist()]
    assert counts
    assert min(counts) >= release.plan.parameters["second_threshold"] == 40


@pytest.mark.slow
def test_the_same_source_gives_the_same_release_and_another_does_not(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, crowd(100, own=5))
    one, again, other = (Zealous(1, 0.5, per_user=2).release(log, source=keyed(key)) for key in (b"k", b"k", b"l"))
    assert one.table.equals(again.table)
    assert not one.table.equals(other.table)
    fresh = [Zealous(1, 0.5, per_user=2).release(log).table for _ in range(2)]
    assert not fresh[0].equals(fresh[1]), "without a source, fresh noise"


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_the_plan_has_exactly_these_fields() -> None:
    plan = json.loads(json.dumps(Zealous(1, 1e-6, per_user=2).plan().to_json(), allow_nan=False))
    assert set(plan) == {"method", "item", "counts", "parameters", "guarantee", "noise_below"}
    assert (plan["method"], plan["item"], plan["counts"]) == ("zealous", "query", "users")
    assert plan["parameters"] == {"per_user": 2, "noise_scale": 2.0, "first_threshold": 1, "second_threshold": 30}
    guarantee = plan["guarantee"]
    proof = guarantee.pop("proof")
    assert proof == "docs/guarantees/zealous.md#approximate"
    assert guarantee == {
        "notion": "approximate",
        "epsilon": 1,
        "delta": 1e-6,
        "unit": "user",
        "neighbours": "add-remove",
        "assumed_public": ["that the log has at least two users"],
        "unprotected": [],
        "caveats": [],
        "trust": "central",
    }


def test_the_probabilistic_plan_names_the_users_and_its_weakness() -> None:
    plan = Zealous(1, 1e-6, per_user=2, notion="probabilistic").plan(500_000).to_json()
    assert set(plan["parameters"]) == {"per_user", "noise_scale", "first_threshold", "second_threshold", "users"}
    assert plan["parameters"]["users"] == 500_000
    guarantee = plan["guarantee"]
    assert (guarantee["notion"], guarantee["neighbours"]) == ("probabilistic", "replace-one")
    assert any("500000 users" in public for public in guarantee["assumed_public"])
    assert any("seed" in public for public in guarantee["assumed_public"])
    assert any("not closed under post-processing" in caveat for caveat in guarantee["caveats"])
    assert any("choice_seed" in caveat for caveat in guarantee["caveats"]), "the card: no seed unless a caveat says so"


def test_the_probabilistic_release_publishes_the_seed_of_its_choice_and_no_other_does(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, crowd(30))
    seeds = [
        Zealous(5, 0.1, notion=notion).release(log).plan.parameters.get("choice_seed")
        for notion in ("probabilistic", "approximate", "indistinguishable")
    ]
    assert isinstance(seeds[0], int)
    assert seeds[1:] == [None, None]


def test_a_higher_threshold_than_needed_is_taken_and_a_lower_one_refused() -> None:
    assert Zealous(1, 1e-6, per_user=2, threshold=30).plan().parameters["second_threshold"] == 30
    assert Zealous(1, 1e-6, per_user=2, threshold=99).plan().parameters["second_threshold"] == 99
    with pytest.raises(InputError, match="the threshold 29 is infeasible: delta 1e-06 needs at least 30"):
        Zealous(1, 1e-6, per_user=2, threshold=29).plan()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive number, not 0"),
        ({"epsilon": -1}, "epsilon must be a positive number, not -1"),
        ({"epsilon": float("nan")}, "epsilon must be a positive number, not nan"),
        ({"epsilon": float("inf")}, "epsilon must be a positive number, not inf"),
        ({"delta": 0}, "delta must be a number above 0 and below 1, not 0"),
        ({"delta": 1}, "delta must be a number above 0 and below 1, not 1"),
        ({"per_user": 0}, "per_user must be a whole number of at least 1, not 0"),
        ({"item": "ngram"}, "no item 'ngram'"),
        ({"notion": "vague"}, "no notion 'vague'"),
        ({"neighbours": "swap"}, "no neighbours 'swap'"),
        ({"notion": "probabilistic", "neighbours": "add-remove"}, "proved for replace-one"),
        ({"notion": "indistinguishable", "neighbours": "add-remove"}, "proved for replace-one"),
        ({"notion": "indistinguishable", "first_threshold": 2}, "has the first threshold 1"),
        ({"first_threshold": 0}, "first_threshold must be a whole number of at least 1, not 0"),
        ({"users": 0}, "users must be a whole number of at least 1, not 0"),
        ({"users": 10}, "approximate notion takes no public number of users, for neighbouring logs differ in it"),
        ({"users": 10, "neighbours": "replace-one"}, "takes no public number of users, for nothing depends on it"),
        ({"users": 10, "notion": "indistinguishable"}, "takes no public number of users, for nothing depends on it"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line_that_echoes_it(wrong: dict[str, Any], message: str) -> None:
    parameters: dict[str, Any] = {"epsilon": 1, "delta": 1e-6} | wrong
    with pytest.raises(InputError, match=message) as refusal:
        Zealous(**parameters)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("wrong", [{"per_user": 2.5}, {"first_threshold": 1.5}, {"threshold": 200.5}], ids=str)
def test_a_fraction_is_refused_where_a_whole_number_is_meant(wrong: dict[str, Any]) -> None:
    """2.5 items per user would keep 3 (places 0, 1, 2 are below 2.5) with noise for 2.5: a broken promise."""
    with pytest.raises(InputError):
        Zealous(**{"epsilon": 1, "delta": 1e-6} | wrong).plan()


def test_an_infeasible_first_threshold_is_refused() -> None:
    with pytest.raises(InputError, match="first threshold 30 is infeasible: 10 users keep at most 20 items"):
        Zealous(1, 1e-6, per_user=2, notion="probabilistic", first_threshold=30).plan(10)


def test_the_claimed_number_of_users_must_be_the_logs(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, crowd(10))
    probabilistic: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "notion": "probabilistic"}
    with pytest.raises(InputError, match="claims more users than the log's 10; leave it out or make it 10"):
        Zealous(**probabilistic, users=11).plan(log)
    with pytest.raises(InputError, match="claims fewer users than the log's 10"):
        Zealous(**probabilistic, users=9).release(log)
    assert Zealous(**probabilistic, users=10).plan(log).parameters["users"] == 10
    with pytest.raises(InputError, match="needs the public number of users; add users=N"):
        Zealous(**probabilistic).plan()


@NOTIONS
def test_a_log_of_one_user_or_of_nobody_is_refused(engine: Engine, notion: Any) -> None:
    zealous = Zealous(1, 1e-3, notion=notion)
    with pytest.raises(InputError, match="has a single user"):
        zealous.release(log_of(engine, [("u", "a"), ("u", "b")]))
    with pytest.raises(InputError, match="is empty: there is nothing to publish"):
        zealous.release(log_of(engine, []))


def test_two_users_with_nothing_in_common_get_an_empty_release(duckdb_engine: Engine) -> None:
    release = Zealous(1, 1e-9).release(log_of(duckdb_engine, [("u", "a"), ("v", "b"), ("v", " ")]), source=keyed(b"2"))
    assert release.table.num_rows == 0
    assert release.table.column_names == ["query", "count"]


def test_queries_of_blanks_only_are_no_items(duckdb_engine: Engine) -> None:
    rows = [(f"u{u}", blank) for u in range(300) for blank in ("", " ", "\u3000")]
    assert Zealous(5, 0.5, per_user=3).release(log_of(duckdb_engine, rows)).table.num_rows == 0
