"""Sampling at individual rates: who may appear, by exact enumeration; what decides a user's rows; what is said."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from itertools import product
from math import factorial, prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed import keyed
from scipy.stats import chi2

from searchveil.engine import Engine
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.errors import InputError
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy.calibrate import poisson_mean
from searchveil.privacy.ledger import Ledger
from searchveil.privacy.noise import Poisson
from searchveil.publish.individual import Drawn, Individual, draw
from searchveil.publish.sampling import Sampling
from searchveil.publish.weighted import Weighted

Clicks = Mapping[str, list[tuple[str, int]]]  # user: query and rank of each click
PAIRS = pa.table({"query": ["News", "maps", "nobody"], "url": ["news.example", "maps.example", "nobody.example"]})


def log_of(engine: Engine, clicks: Clicks, *columns: str) -> SearchLog:
    rows = [(user, query, rank) for user, held in clicks.items() for query, rank in held]
    table = pa.table(
        {
            "user": pa.array([user for user, _, _ in rows], pa.string()),
            "query": pa.array([query for _, query, _ in rows], pa.string()),
            "time": pa.array([datetime(2024, 5, 1, 10, 59, 30 + rank) for _, _, rank in rows], pa.timestamp("us")),
            "rank": pa.array([rank for _, _, rank in rows], pa.int32()),
            "url": pa.array([f"{query.strip().lower()}.example" for _, query, _ in rows], pa.string()),
        }
    )
    return SearchLog(engine.load(table.select(columns or table.column_names)), engine)


def crowd(users: int) -> Clicks:
    """All click the news, in three spellings, the first half the maps too; everybody has a secret."""
    typed = ("news", "News", " NEWS ")
    return {
        f"u{i}": [(typed[i % 3], 1 + i % 5), *([("maps", 2)] * (i < users // 2)), (f"secret {i}", 9)]
        for i in range(users)
    }


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_only_named_pairs_come_out_with_time_and_rank(engine: Engine) -> None:
    release = Sampling(epsilon=3, delta=0.9).release(log_of(engine, crowd(120)), source=keyed(b"out"))
    assert release.table.column_names == ["user", "query", "url", "time", "rank", "count"]
    rows: list[dict[str, Any]] = release.table.to_pylist()
    assert {row["query"] for row in rows} == {"news", "maps"}
    assert {row["time"] for row in rows} == {datetime(2024, 5, 1, 10)}, "rounded down to the hour"
    assert {row["rank"] for row in rows if row["query"] == "maps"} == {2}
    assert {row["rank"] for row in rows if row["query"] == "news"} == {1, 2, 3, 4, 5}
    named: list[dict[str, Any]] = release.tables["vocabulary"].to_pylist()
    assert {(row["query"], row["url"]) for row in named} == {("news", "news.example"), ("maps", "maps.example")}
    record = release.plan.to_json()
    assert record["pairs"] == 2
    assert record["users_published"] == len({row["user"] for row in rows})
    assert abs(record["users"] - 120) <= 20, "estimated by what is published"
    assert 0.99 * record["limit"] <= record["total"] <= record["limit"]
    assert record["clicks_drawn"] == sum(row["count"] for row in rows)
    assert abs(record["clicks_drawn"] - 120 * 2.302) < 5 * 276**0.5


@pytest.mark.parametrize(
    ("unit", "time"),
    [
        ("second", datetime(2024, 5, 1, 10, 59, 31)),
        ("minute", datetime(2024, 5, 1, 10, 59)),
        ("day", datetime(2024, 5, 1)),
        ("month", datetime(2024, 5, 1)),
        ("none", None),
    ],
)
def test_times_are_rounded_down(engine: Engine, unit: Any, time: datetime | None) -> None:
    log = log_of(engine, {"a": [("news", 1)], "b": [("news", 1)]})
    table = Sampling(delta=1 - 2.0**-30, candidates=PAIRS, time_unit=unit).release(log).table
    rows: list[dict[str, Any]] = table.to_pylist()
    assert len(rows) == 2
    assert [row.get("time") for row in rows] == [time, time]


def test_columns_that_the_log_lacks_and_values_that_are_missing(engine: Engine) -> None:
    bare = log_of(engine, crowd(10), "user", "query", "url")
    mechanism = Sampling(delta=0.9, candidates=PAIRS)
    assert mechanism.release(bare, source=keyed(b"1")).table.column_names == ["user", "query", "url", "count"]
    table = pa.table(
        {
            "user": ["a", "a", "b", "b"],
            "query": ["news", "news", "news", ""],
            "url": ["news.example", None, "news.example", "news.example"],
            "time": pa.array([None, None, datetime(2024, 5, 1), None], pa.timestamp("us")),
            "rank": pa.array([None, 1, 1, 1], pa.int32()),
        }
    )
    log = SearchLog(engine.load(table), engine)
    rows: list[dict[str, Any]] = Sampling(delta=1 - 2.0**-30, candidates=PAIRS).release(log).table.to_pylist()
    shown = Counter((row["query"], row["time"], row["rank"]) for row in rows)
    assert shown == {("news", None, None): 1, ("news", datetime(2024, 5, 1), 1): 1}, "each user's one click on it"


def test_a_pool_lets_every_click_on_its_queries_out(duckdb_engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("NEWS\nweather\n")
    pool = QueryPool.from_file(tmp_path / "queries.txt", tmp_path / "pool.parquet")
    mechanism = Sampling(delta=0.99, pool=pool)
    release = mechanism.release(log_of(duckdb_engine, crowd(30)), source=keyed(b"pool"))
    assert set(release.table["query"].to_pylist()) == {"news"}
    assert list(release.tables) == ["data"], "the pool is public already"
    assert release.plan.figures["pairs"] == 2
    assert "the pool" in release.guarantee.assumed_public
    assert any("urls of a user who appears" in caveat for caveat in release.guarantee.caveats)


def test_nothing_named_and_nothing_drawn_are_empty_releases_with_advice(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, crowd(6))
    release = Sampling(epsilon=1, delta=0.5).release(log)
    assert release.table.num_rows == 0
    assert release.table.column_names == ["user", "query", "url", "time", "rank", "count"]
    assert (release.plan.figures["pairs"], release.plan.figures["users"], release.plan.figures["limit"]) == (0, 0, 0)
    assert release.plan.advice is not None
    assert "common enough to be named" in release.plan.advice
    with pytest.raises(InputError, match="nothing would come out"):
        Sampling(delta=1e-9, candidates=PAIRS).release(log)
    unlucky = Sampling(delta=0.002, candidates=PAIRS).release(log, source=keyed(b"unlucky"))
    assert unlucky.table.num_rows == 0
    assert unlucky.plan.advice is not None
    assert "Chance drew nothing" in unlucky.plan.advice


@pytest.mark.slow
def test_pseudonyms_are_fresh_and_the_order_tells_nothing(duckdb_engine: Engine) -> None:
    """In 20 releases of a log in which two users are sure to appear, their ranks come in both orders."""
    log = log_of(duckdb_engine, {"a": [("news", 1)], "b": [("news", 2)]})
    mechanism = Sampling(delta=1 - 2.0**-50, candidates=PAIRS)
    orders = set()
    for run in range(20):
        table = mechanism.release(log, source=keyed(b"%d" % run)).table
        assert table["user"].to_pylist() == [1, 2]
        orders.add(tuple(table["rank"].to_pylist()))
    assert orders == {(1, 2), (2, 1)}


# --- who appears, exactly ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.floats(5e-324, 1 - 2.0**-53), st.floats(0, 1), st.none() | st.floats(0.01, 10))
def test_nobody_appears_more_often_than_what_is_left_of_delta(delta: float, part: float, epsilon: float | None) -> None:
    """δ₁ + P(she appears) ≤ δ in rational arithmetic, for the floats and for the decimals that are printed."""
    first = part * delta
    split = epsilon is not None and 0 < first < delta
    mechanism = Individual(
        delta,
        epsilon if split else None,
        first if split else None,
        candidates=None if split else PAIRS,
    )
    mean = mechanism.rate
    assert mean >= 0
    not_drawn = lower_bound_of_zero(mean)
    for reading in (Fraction, lambda number: Fraction(repr(number))):
        assert (reading(first) if split else 0) + 1 - not_drawn <= reading(delta)
    if mechanism.chance > Fraction(1, 10**12):
        limit = -mpmath.log1p(-mpmath.mpf(mechanism.chance.numerator) / mechanism.chance.denominator)
        assert mean >= 0.99 * limit, "little of the limit is given away"


def lower_bound_of_zero(mean: float) -> Fraction:
    """At most P(Poisson(mean) = 0) = Σ (−mean)^j/j!: an odd number of terms less one, in rational arithmetic."""
    if mean > 1:  # e^(−mean) = (e^(−mean/2))², and squaring keeps the bound below
        return lower_bound_of_zero(mean / 2) ** 2
    m, terms = Fraction(mean), 40
    return sum(((-m) ** j / factorial(j) for j in range(terms)), Fraction(0))  # ends with a negative term


def test_the_sampler_draws_nothing_as_often_as_that() -> None:
    """The table from which is drawn: its bounds on P(0) enclose e^(−b), of which the promise speaks."""
    mean = poisson_mean(Fraction(1, 2))
    first, lower, upper = Poisson(mean).bounds(200)
    assert first == 0
    assert Fraction(lower[0], 2**200) <= lower_bound_of_zero(mean) + Fraction(1, 10**40)
    assert Fraction(upper[0], 2**200) >= Fraction(1, 2)


MOST = 4  # draws of a user that are told apart; more are one outcome, which only makes logs easier to tell apart


def outcomes(clicks: list[str], rate: Fraction) -> Iterator[tuple[tuple[str, ...], Fraction]]:
    """What a user with these clicks (of which nothing else is shown) may show, up to a common factor e^(−rate)."""
    seen: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for n in range(MOST + 1 if clicks else 1):
        for drawn in product(clicks, repeat=n):
            seen[tuple(sorted(drawn))] += rate**n / factorial(n) / len(clicks) ** n if n else 1
    yield from seen.items()


def sample(log: Mapping[str, list[str]], vocabulary: set[str], rate: Fraction) -> dict[tuple[Any, ...], mpmath.mpf]:
    """The distribution of what all users show together, under pseudonyms: a multiset of shown rows."""
    result: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    users = [[click for click in clicks if click in vocabulary] for clicks in log.values()]
    for shown in product(*(list(outcomes(clicks, rate)) for clicks in users)):
        key = tuple(sorted(rows for rows, _ in shown if rows))
        result[key] += prod((weight for _, weight in shown), start=Fraction(1))
    holders = sum(bool(clicks) for clicks in users)
    with mpmath.workdps(50):
        factor = mpmath.exp(-holders * mpmath.mpf(rate.numerator) / rate.denominator)
        return {key: factor * value.numerator / value.denominator for key, value in result.items()}


def divergence(one: Mapping[Any, Any], other: Mapping[Any, Any], epsilon: float = 0) -> Any:
    """The smallest δ at ε, with what the first may show beyond the outcomes that are told apart all on top."""
    with mpmath.workdps(50):
        told = sum(max(mpmath.mpf(0), p - mpmath.exp(epsilon) * other.get(key, 0)) for key, p in one.items())
        return told + 1 - sum(one.values())


OTHERS = {"a": ["x", "x", "y"], "b": ["y"]}
HERS = [["x"], ["x", "y", "z"], ["z"] * 5, ["secret"], ["y"]]


@pytest.mark.parametrize("hers", HERS, ids=str)
@pytest.mark.parametrize("delta", [0.1, 0.4])
def test_the_drawing_is_private_given_the_pairs_in_every_direction(hers: list[str], delta: float) -> None:
    """By all outcomes: adding, removing and replacing, at ε = 0. The rate of 2·b breaks it: the bound is attained."""
    rate = Fraction(poisson_mean(Fraction(delta)))
    vocabulary, without = {"x", "y", "z"}, OTHERS
    beyond = 3 * rate ** (MOST + 1) / factorial(MOST + 1)  # what three users may draw beyond what is told apart
    logs = [without, *({**OTHERS, "u": clicks} for clicks in HERS)]
    found = sample({**OTHERS, "u": hers}, vocabulary, rate)
    for neighbour in logs:
        other = sample(neighbour, vocabulary, rate)
        assert divergence(found, other) <= delta + float(beyond)
        assert divergence(other, found) <= delta + float(beyond)
    if hers != ["secret"]:
        alone, nobody = sample({"u": hers}, vocabulary, rate), sample({}, vocabulary, rate)
        assert divergence(alone, nobody) == pytest.approx(delta, abs=1e-12), "no smaller δ is true"
        assert divergence(sample({"u": hers}, vocabulary, 2 * rate), nobody) > 1.4 * delta


def test_chosen_pairs_and_drawn_clicks_together_cost_the_sums() -> None:
    """A choice of pairs that attains (ε, δ₁), then the drawing: all outcomes of both are within (ε, δ₁ + δ₂)."""
    epsilon, first, second = 0.7, 0.05, 0.3
    rate = Fraction(poisson_mean(Fraction(second)))
    with mpmath.workdps(50):
        e = mpmath.exp(epsilon)
        # With her, y is named e^ε times as often, and her own z with probability δ₁, otherwise never.
        low = mpmath.mpf("0.2")
        chosen = {
            True: {"wx": 1 - e * low - first, "wxy": e * low, "wxz": mpmath.mpf(first)},
            False: {"wx": 1 - low, "wxy": low},
        }
    logs = {True: {**OTHERS, "u": ["w", "z"]}, False: OTHERS}  # w is named whoever clicked it

    def whole(here: bool) -> dict[Any, Any]:
        return {
            (pairs, rows): p * q
            for pairs, p in chosen[here].items()
            for rows, q in sample(logs[here], set(pairs), rate).items()
        }

    slack = float(3 * rate ** (MOST + 1) / factorial(MOST + 1))
    apart = [divergence(whole(a), whole(not a), epsilon) for a in (True, False)]
    assert max(apart) <= first + second + slack
    assert max(apart) > second, "more than the drawing alone"


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_draws_follow_the_distribution_that_is_proved() -> None:
    """Users of 1 and 3 clicks, 40,000 times each: what each shows against all outcomes, chi-square at 1e-6."""
    rate, n = 0.9, 40_000
    drawn = draw(np.tile([1, 3], n), rate, keyed(b"distribution"))
    shown: list[list[str]] = [[] for _ in range(2 * n)]
    for holder, place, times in zip(*(part.tolist() for part in drawn), strict=True):
        shown[holder] += ["xyz"[place]] * times
    for kind, clicks in ((0, ["x"]), (1, ["x", "y", "z"])):
        expected = {rows: float(np.exp(-rate)) * n * float(weight) for rows, weight in outcomes(clicks, Fraction(rate))}
        seen = Counter(tuple(sorted(rows)) for rows in shown[kind::2])
        common = [rows for rows in expected if expected[rows] > 8]
        cells = [(seen[rows], expected[rows]) for rows in common]
        cells.append((n - sum(s for s, _ in cells), n - sum(e for _, e in cells)))
        assert sum((s - e) ** 2 / e for s, e in cells) < chi2.ppf(1 - 1e-6, len(cells) - 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=20), st.integers(1, 10**9), st.integers(0, 2**64))
def test_a_users_draws_do_not_depend_on_what_others_clicked(clicks: list[int], another: int, key: int) -> None:
    """With the same random numbers: whatever the first user's history becomes, all others show the same."""
    source = f"{key}".encode()
    before = draw(np.array(clicks), 1.5, keyed(source))
    after = draw(np.array([another, *clicks[1:]]), 1.5, keyed(source))
    for one, other in zip(before, after, strict=True):
        assert one[before.holders > 0].tolist() == other[after.holders > 0].tolist()


def test_the_rows_of_others_do_not_depend_on_hers_given_the_pairs(engine: Engine) -> None:
    """The same through the engine: she clicks other pairs, more often, at other ranks; the others show the same."""

    def rows_of_others(hers: list[tuple[str, int]]) -> Any:
        log = log_of(engine, {**crowd(40), "zz": hers})
        with patch.object(DuckDBEngine, "number", Engine.number):  # users in their order, so that all draws are theirs
            release = Sampling(delta=0.98, candidates=PAIRS).release(log, source=keyed(b"others"))
        rows: list[dict[str, Any]] = release.table.to_pylist()
        shown = Counter((row["query"], row["rank"], row["count"]) for row in rows if row["rank"] < 20)
        return shown, sum(row["count"] for row in rows if row["rank"] >= 20)

    (one, hers), (other, also_hers) = rows_of_others([("maps", 20)]), rows_of_others([("news", 21)] * 50)
    assert hers == also_hers > 0, "she is seen, as often whatever she clicked"
    assert one == other


def test_a_heavy_user_is_expected_as_often_as_a_light_one() -> None:
    """Over 20,000 users of each kind, within 5 standard deviations: a false alarm rate below 1e-6."""
    n, rate = 20_000, 0.7
    drawn = draw(np.tile([1, 1000], n), rate, keyed(b"heavy"))
    for kind in (0, 1):
        mine = drawn.holders % 2 == kind
        assert abs(drawn.times[mine].sum() - n * rate) < 5 * (n * rate) ** 0.5
        appeared = len(np.unique(drawn.holders[mine]))
        chance = 1 - np.exp(-rate)
        assert abs(appeared - n * chance) < 5 * (n * chance * (1 - chance)) ** 0.5


def test_the_limit_is_reached_where_one_rate_for_each_pair_stays_below(duckdb_engine: Engine) -> None:
    """The expected size is that of all holders times b; the programs' is far below, on the same pairs and b."""
    from searchveil.optimize.objectives import Size
    from searchveil.optimize.solve import relax
    from searchveil.publish.click_counts import click_counts

    chance = np.random.default_rng(1)
    clicks = {f"u{i}": [("news" if chance.random() < 0.7 else "maps", 1)] * chance.geometric(0.1) for i in range(400)}
    mechanism = Individual(0.5, candidates=PAIRS)
    relaxed = relax(click_counts(log_of(duckdb_engine, clicks)).counts, "poisson", Size(), float(np.log(2)))
    assert 400 * mechanism.rate >= 0.99 * 400 * np.log(2)
    assert relaxed.objective < 0.5 * 400 * mechanism.rate


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_record_promises_the_whole_release(duckdb_engine: Engine, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=5, budget_delta=0.95)
    log = log_of(duckdb_engine, crowd(60))
    release = Sampling(epsilon=2, delta=0.4).release(log, ledger=ledger)
    folder = release.write(tmp_path / "out")
    record = json.loads((folder / "guarantee.json").read_text())
    assert record["guarantee"]["notion"] == "approximate"
    assert (record["guarantee"]["epsilon"], record["guarantee"]["delta"]) == (2, 0.4)
    assert record["guarantee"]["unprotected"] == []
    assert record["guarantee"]["proof"] == "docs/guarantees/individual-rates.md"
    assert record["parameters"]["selection_delta"] == 1e-6
    assert {"total", "limit", "users", "pairs"} <= set(record)
    assert "The release is (2, 0.4)-differentially private" in str(release.guarantee)
    assert "estimates" in (folder / "README.md").read_text()
    spent = ledger.spent()
    assert (spent.basic_epsilon, spent.basic_delta) == (2, 0.4)
    Sampling(delta=0.5, candidates=PAIRS).release(log, ledger=ledger)
    assert (ledger.spent().basic_epsilon, ledger.spent().basic_delta) == (2, 0.9)
    assert ledger.spent().best_epsilon <= 2


def test_figures_are_functions_of_what_is_published(duckdb_engine: Engine) -> None:
    """Logs of 60 and of 61 users, the same published rows: nothing of the record tells the two apart."""
    records = []
    for users in (60, 61):
        log = log_of(duckdb_engine, {f"u{i}": [("news", 1)] for i in range(users)})
        nothing = Drawn(*(np.zeros(0, np.int64) for _ in Drawn._fields))
        with patch("searchveil.publish.individual.draw", lambda *_, nothing=nothing: nothing):
            records.append(Sampling(delta=0.5, candidates=PAIRS).release(log).plan.to_json())
    assert records[0] == records[1]


def test_delta_is_divided() -> None:
    chosen = Individual(0.5, 1.0)
    assert chosen.selection_delta == 1e-6
    assert chosen.selection == Weighted(1.0, 1e-6, "click", counts="none")
    assert chosen.rate == pytest.approx(np.log(2) - 2e-6, abs=1e-11)
    assert Individual(1e-6, 1.0).selection_delta == pytest.approx(1e-7), "never most of δ"
    assert Individual(0.5, 1.0, selection_delta=0.25).rate == pytest.approx(-np.log(0.75))
    public = Individual(0.5, candidates=PAIRS)
    assert public.rate == pytest.approx(np.log(2), abs=1e-15)
    assert public.rate < np.log(2)
    assert (public.plan().guarantee.epsilon, public.plan().guarantee.delta) == (0, 0.5)
    replacing = Individual(0.5, 1.0, neighbours="replace-one").plan()
    assert replacing.guarantee.neighbours == "replace-one"
    assert replacing.parameters["sigma"] > chosen.plan().parameters["sigma"]


def test_a_plan_for_a_number_of_users_tells_the_limit() -> None:
    plan = Sampling(epsilon=1, delta=0.5).plan(1980)
    assert plan.figures["limit"] == pytest.approx(1372.4, abs=0.05)
    assert plan.advice is None
    assert Sampling(epsilon=1, delta=1e-4).plan(1980).advice is not None
    assert any("a user appears with a probability of at most 0.499999" in c for c in plan.guarantee.caveats)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delta": 1.0}, "delta"),
        ({"epsilon": None}, "needs epsilon, which chooses the pairs; try epsilon=1"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"selection_delta": 0.5}, "part of delta=0.5"),
        ({"selection_delta": 0.0}, "above 0"),
        ({"time_unit": "week"}, "no time unit 'week'; there are second, minute"),
        ({"neighbours": "nobody"}, "no neighbours 'nobody'"),
        ({"candidates": PAIRS}, "leave out epsilon"),
        ({"epsilon": None, "candidates": PAIRS, "selection_delta": 0.1}, "leave out selection_delta"),
        ({"epsilon": None, "candidates": pa.table({"query": ["a"]})}, "columns query and url; they have query"),
        ({"objective": "kl"}, "objective is for the sampler poisson or multinomial; choose that, or leave it out"),
        ({"seconds": 3.0}, "seconds is for the sampler poisson"),
        ({"sampler": "poisson", "time_unit": "day"}, "time_unit is for the sampler individual"),
        ({"sampler": "poisson", "candidates": PAIRS}, "candidates is for the sampler individual"),
        ({"sampler": "multinomial", "neighbours": "replace-one"}, "neighbours is for the sampler individual"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"delta": 0.5, "epsilon": 1.0}
    with pytest.raises(InputError, match=message):
        Sampling(**good | wrong)


def test_public_pairs_and_public_queries_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("news\n")
    pool = QueryPool.from_file(tmp_path / "queries.txt", tmp_path / "pool.parquet")
    with pytest.raises(InputError, match="not both"):
        Individual(0.5, candidates=PAIRS, pool=pool)


def test_a_log_without_urls_is_refused(duckdb_engine: Engine) -> None:
    with pytest.raises(InputError, match="no url"):
        Sampling(epsilon=1, delta=0.5).release(log_of(duckdb_engine, crowd(5), "user", "query"))
