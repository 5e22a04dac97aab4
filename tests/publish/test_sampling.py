"""Sampling: who may appear, checked user by user with other arithmetic; exact draws; what is said about it."""

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from math import expm1, log
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
from searchveil.errors import BudgetRefused, InputError
from searchveil.log import SearchLog
from searchveil.optimize.certify import UNITS, LogOf
from searchveil.optimize.program import ClickCounts
from searchveil.optimize.solution import Solution
from searchveil.privacy.ledger import Ledger
from searchveil.progress import silent
from searchveil.publish import sampling
from searchveil.publish.click_counts import click_counts
from searchveil.publish.draws import draw, pick_users
from searchveil.publish.release import Release
from searchveil.publish.sampling import Sampling, smallest_exposure

OBJECTIVES: list[Any] = ["size", "frequent", "diversity", "kl"]
SAMPLERS: list[Any] = ["poisson", "multinomial"]

# Fig. 1 of the paper, with a url for each query.
FIGURE_1 = {
    "081": {"pregnancy test": 2, "book": 3, "google": 15},
    "082": {"car price": 2, "google": 7},
    "083": {"google": 17, "diabetes": 1, "book": 1, "car price": 5},
}
SHARED = {"book", "google", "car price"}


def log_of(engine: Engine, clicks: dict[str, dict[str, int]]) -> SearchLog:
    rows = [(user, query) for user, held in clicks.items() for query, times in held.items() for _ in range(times)]
    table = pa.table(
        {
            "user": pa.array([user for user, _ in rows], pa.string()),
            "query": pa.array([query for _, query in rows], pa.string()),
            "time": pa.array([datetime(2024, 5, 1)] * len(rows), pa.timestamp("us")),
            "url": pa.array([f"{query.replace(' ', '-')}.example" for _, query in rows], pa.string()),
        }
    )
    return SearchLog(engine.load(table), engine)


def random_clicks(users: int, queries: int, seed: int) -> dict[str, dict[str, int]]:
    chance = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, queries + 1)
    clicks: dict[str, dict[str, int]] = {}
    for user in range(users):
        held = chance.choice(queries, size=1 + chance.geometric(0.3), p=popularity / popularity.sum())
        clicks[f"u{user}"] = {f"q{query}": int(chance.geometric(0.6)) for query in held}
    return clicks


def amounts(mechanism: Sampling, counts: ClickCounts) -> Any:
    """What the mechanism would draw from: whole draws, or expected counts in units."""
    size, largest = mechanism._output_size(counts, silent)
    return mechanism._certified(counts, mechanism._solved(counts, size, largest, silent))


def largest_load(counts: ClickCounts, sampler: str, drawn: Any) -> mpmath.mpf:
    """The largest exposure of a user, by rational numbers or with 60 digits: nothing of `certify`."""
    dense, totals = counts.matrix.toarray().tolist(), counts.totals.tolist()
    worst = mpmath.mpf(0)
    with mpmath.workdps(60):
        for held in dense:
            pairs = [(int(w), c, h) for w, c, h in zip(drawn.tolist(), totals, held, strict=True) if h and w]
            if sampler == "poisson":
                exact = sum((Fraction(w * h, c * UNITS) for w, c, h in pairs), Fraction(0))
                load = mpmath.mpf(exact.numerator) / exact.denominator
            else:
                load = sum((w * mpmath.log(mpmath.mpf(c) / (c - h)) for w, c, h in pairs), mpmath.mpf(0))
            worst = max(worst, load)
    return worst


# --- what comes out ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_pairs_of_one_user_stay_out_of_the_papers_example(engine: Engine, sampler: Any) -> None:
    log = log_of(engine, FIGURE_1)
    seen: Counter[str] = Counter()
    for run in range(5):
        release = Sampling(delta=0.9, sampler=sampler, seconds=0.2).release(log, source=keyed(b"%d" % run))
        assert release.table.column_names == ["user", "query", "url", "count"]
        rows: list[dict[str, Any]] = release.table.to_pylist()
        seen.update(row["query"] for row in rows)
        assert all(row["query"] in SHARED and isinstance(row["user"], int) for row in rows)
        assert release.plan.figures["users"] == 3
        assert release.plan.figures["pairs"] == 3
    assert seen, "with δ = 0.9 something of five releases comes out"


def test_the_papers_counts_need_an_exposure_of_seventeen() -> None:
    counts = ClickCounts.of([0, 0, 1, 1, 2, 2, 2], [0, 1, 1, 2, 1, 0, 2], [3, 15, 7, 2, 17, 1, 5])
    assert largest_load(counts, "multinomial", np.array([3, 20, 4])) == pytest.approx(17.3, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_record_tells_what_was_done(duckdb_engine: Engine, objective: Any, sampler: Any) -> None:
    log = log_of(duckdb_engine, random_clicks(60, 12, seed=1))
    release = Sampling(delta=0.5, objective=objective, sampler=sampler, seconds=0.5).release(log)
    figures = release.plan.to_json()
    assert figures["limit"] == pytest.approx(figures["users"] * log_two())
    assert 0 < figures["total"] <= figures["limit"]
    assert figures["objective_value"] <= figures["upper_bound"] * (1 + 1e-9) + 1e-9
    assert 0 < figures["expected_users_exposed"] <= figures["users"] / 2
    assert figures["users_published"] == len(set(release.table["user"].to_pylist()))
    drawn = sum(row["count"] for row in release.table.to_pylist())
    if sampler == "multinomial":
        assert drawn == figures["total"]
    else:
        assert abs(drawn - figures["total"]) < 6 * figures["total"] ** 0.5 + 6


def log_two() -> float:
    return log(2)


@pytest.mark.slow
def test_pseudonyms_are_fresh_and_the_order_tells_nothing(duckdb_engine: Engine) -> None:
    """In 20 releases of a log in which two users are sure to appear, their counts come in different orders."""
    log = log_of(duckdb_engine, {"a": {"x": 50}, "b": {"x": 50}})
    mechanism = Sampling(delta=1 - 2.0**-50, seconds=0.1, sampler="poisson")
    first = set()
    for run in range(20):
        table = mechanism.release(log, source=keyed(b"%d" % run)).table
        assert table["user"].to_pylist() == list(range(1, table.num_rows + 1))
        first.add(tuple(table["count"].to_pylist()))
    assert len(first) > 1


# --- the condition ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), users=st.integers(2, 25), delta=st.floats(0.01, 0.95), data=st.data())
def test_nobody_is_exposed_beyond_the_limit_and_the_output_keeps_to_it(
    seed: int, users: int, delta: float, data: st.DataObject
) -> None:
    counts = matrix(random_clicks(users, 8, seed))
    sampler: Any = data.draw(st.sampled_from(SAMPLERS))
    objective: Any = data.draw(st.sampled_from(OBJECTIVES))
    epsilon = data.draw(st.none() | st.floats(0.01, 3))
    mechanism = Sampling(delta=delta, epsilon=epsilon, sampler=sampler, objective=objective, seconds=0.1)
    drawn = amounts(mechanism, counts)
    with mpmath.workdps(60):
        b = -mpmath.log(1 - mpmath.mpf(delta))
        b = b if epsilon is None else min(b, mpmath.mpf(epsilon))
    assert largest_load(counts, sampler, drawn) <= b
    assert int(drawn.sum()) / (UNITS if sampler == "poisson" else 1) <= counts.users * b


def matrix(clicks: dict[str, dict[str, int]]) -> ClickCounts:
    holders = Counter(query for held in clicks.values() for query in held)
    kept = {user: {q: n for q, n in held.items() if holders[q] > 1} for user, held in clicks.items()}
    kept = {user: held for user, held in kept.items() if held}
    queries = sorted({query for held in kept.values() for query in held})
    entries = [(k, queries.index(q), n) for k, held in enumerate(kept.values()) for q, n in held.items()]
    return ClickCounts.of(*([entry[i] for entry in entries] for i in range(3)))


def test_the_engine_builds_the_matrix_that_python_builds(engine: Engine) -> None:
    clicks = random_clicks(40, 10, seed=3)
    ours, theirs = click_counts(log_of(engine, clicks)).counts, matrix(clicks)
    # Users and pairs may be numbered differently; the multiset of rows, each as sorted counts, may not.
    assert sorted(sorted(row) for row in ours.matrix.toarray().tolist()) == sorted(
        sorted(row) for row in theirs.matrix.toarray().tolist()
    )
    assert sorted(ours.totals.tolist()) == sorted(theirs.totals.tolist())


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_tampered_solver_is_caught(duckdb_engine: Engine, sampler: Any) -> None:
    """Whatever a solver says, what is drawn from keeps to the limit; if even the repair lies, nothing is drawn."""
    log = log_of(duckdb_engine, random_clicks(30, 6, seed=5))
    counts = click_counts(log).counts
    mechanism = Sampling(delta=0.5, sampler=sampler, seconds=0.1)

    def greedy(*_: Any, **__: Any) -> Solution:
        return Solution(np.full(counts.pairs, 50.0), 50.0 * counts.pairs, 1e9, "tampered", 0.0)

    with patch.object(Sampling, "_solved", greedy):
        release = mechanism.release(log, source=keyed(b"tampered"))
        assert release.plan.figures["total"] <= release.plan.figures["limit"]
        with (
            patch.object(sampling, "repair", lambda counts, sampler, x, b: x),
            pytest.raises(RuntimeError, match="expos"),
        ):
            mechanism.release(log, source=keyed(b"tampered"))


def test_what_is_judged_cannot_be_overwritten() -> None:
    counts = matrix(random_clicks(10, 4, seed=2))
    with pytest.raises(ValueError, match="read-only"):
        counts.matrix.data[0] = 1


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("table", ["parquet", "csv", "tsv"])
def test_whoever_holds_the_log_can_check_the_condition_by_the_released_folder(
    duckdb_engine: Engine, tmp_path: Path, sampler: Any, table: str
) -> None:
    """From the files and the clicks alone, in Python: none of the mechanism's arithmetic."""
    clicks = random_clicks(60, 12, seed=11)
    release = Sampling(delta=0.5, sampler=sampler, seconds=0.2).release(
        log_of(duckdb_engine, clicks), source=keyed(b"check")
    )
    folder = release.write(tmp_path / "out", format=table)
    record = json.loads((folder / "guarantee.json").read_text())
    assert list(record["files"]) == [f"data.{table}", f"rates.{table}"]
    assert any("in the table rates" in fact for fact in record["guarantee"]["assumed_public"])
    data, rates = (duckdb_engine.fetch(read).to_pylist() for read in Release.read(folder).load(duckdb_engine).values())

    draws = {(row["query"], row["url"]): Fraction(row["draws"]) for row in rates}
    assert len(draws) == len(rates)
    assert min(draws.values()) > 0
    totals: Counter[str] = Counter()
    for held in clicks.values():
        totals.update(held)
    with mpmath.workdps(60):
        b = mpmath.log(1 / (1 - mpmath.mpf(record["guarantee"]["delta"])))
        worst = mpmath.mpf(0)
        for held in clicks.values():
            load = mpmath.mpf(0)
            for query, times in held.items():
                x = draws.get((query, f"{query}.example"), Fraction(0))
                share = mpmath.mpf(times) / totals[query]
                load += (
                    mpmath.mpf(x.numerator) / x.denominator * (share if sampler == "poisson" else -mpmath.log1p(-share))
                    if x
                    else 0
                )
            worst = max(worst, load)
    assert worst <= b * (1 + mpmath.mpf(10) ** -50)
    assert worst > b / 2, "the limit is what stops it, so the check can fail"

    drawn: Counter[tuple[str, str]] = Counter()
    for row in data:
        drawn[row["query"], row["url"]] += row["count"]
    assert set(drawn) <= set(draws)
    assert sum(draws.values()) == pytest.approx(record["total"])
    if sampler == "multinomial":
        assert drawn == draws, "every whole draw is made"


# --- the draws --------------------------------------------------------------------------------------------------------


def test_users_are_drawn_in_proportion_to_their_clicks() -> None:
    """Chi-square at a false alarm rate of 1e-6, with a fixed key."""
    counts = ClickCounts.of([0, 1, 2, 0, 2], [0, 0, 0, 1, 1], [3, 5, 2, 1, 4])
    drawn = np.repeat([0, 1], [40_000, 20_000])
    users = pick_users(counts, drawn, keyed(b"chi-square"))
    for pair, shares in ((0, {0: 0.3, 1: 0.5, 2: 0.2}), (1, {0: 0.2, 2: 0.8})):
        seen = Counter(users[drawn == pair].tolist())
        assert set(seen) == set(shares)
        n = (drawn == pair).sum()
        statistic = sum((seen[user] - n * share) ** 2 / (n * share) for user, share in shares.items())
        assert statistic < chi2.ppf(1 - 1e-6, len(shares) - 1)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_user_appears_as_often_as_her_load_says(sampler: Any) -> None:
    """1 − e^(−load) for each user, within 5 standard deviations over 4,000 draws: a false alarm rate below 4e-6."""
    counts = matrix(FIGURE_1)
    mechanism, source, runs = Sampling(delta=0.4, sampler=sampler, seconds=0.1), keyed(b"appears"), 4_000
    drawn_from = np.maximum(amounts(mechanism, counts), 1 if sampler == "multinomial" else 0)
    loads = counts.exposure(sampler) @ (drawn_from / (UNITS if sampler == "poisson" else 1))
    appeared = np.zeros(counts.users)
    for _ in range(runs):
        drawn = draw(sampler, drawn_from, source)
        appeared[np.unique(pick_users(counts, drawn, source))] += 1
    assert appeared / runs == pytest.approx(-np.expm1(-loads), abs=5 * 0.5 / runs**0.5)


# --- objectives -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_frequent_pairs_of_the_output_are_frequent_in_the_log_and_more_come_with_b(sampler: Any) -> None:
    counts = matrix(random_clicks(400, 80, seed=7))
    support, size = 0.005, 44
    frequent = counts.totals >= support * counts.size
    recalls = []
    for delta in (0.2, 0.4, 0.6, 0.8):
        mechanism = Sampling(
            delta=delta, objective="frequent", support=support, output_size=size, sampler=sampler, seconds=1
        )
        drawn = amounts(mechanism, counts)
        shown = drawn >= support * drawn.sum() * (1 - 1e-9)
        assert (frequent & shown).sum() == shown.sum(), "precision 1"
        recalls.append((frequent & shown).sum() / frequent.sum())
    assert recalls == sorted(recalls)
    assert recalls[-1] > recalls[0]


def test_every_solver_of_the_most_diverse_draws_is_certified_and_the_default_is_the_best() -> None:
    counts = matrix(random_clicks(150, 40, seed=8))
    found = {}
    for solver in ("spe", "greedy", "lp-rounding", "branch-and-bound", "best"):
        mechanism: Any = Sampling(
            delta=0.5, objective="diversity", sampler="multinomial", seconds=1, **dict[str, Any](solver=solver)
        )
        drawn = amounts(mechanism, counts)
        assert set(drawn.tolist()) <= {0, 1}
        assert largest_load(counts, "multinomial", drawn) <= mpmath.log(2) + mpmath.mpf(10) ** -14
        found[solver] = int(drawn.sum())
    assert found["spe"] < found["greedy"] <= found["best"]
    assert found["best"] >= found["lp-rounding"] * 0.95


@pytest.mark.slow
def test_poisson_allows_more_than_whole_draws(duckdb_engine: Engine) -> None:
    counts = matrix(random_clicks(200, 40, seed=9))
    expected = amounts(Sampling(delta=0.5, sampler="poisson"), counts).sum() / UNITS
    whole = amounts(Sampling(delta=0.5, sampler="multinomial", seconds=1), counts).sum()
    assert expected > whole


@pytest.mark.slow
def test_the_smallest_delta_for_a_wanted_size(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, random_clicks(80, 15, seed=4))
    for sampler in SAMPLERS:
        found = smallest_exposure(log, sampler=sampler, size=12)
        counts = click_counts(log).counts
        mechanism = Sampling(delta=-expm1(-found.b), sampler=sampler, seconds=1)
        reached = amounts(mechanism, counts).sum() / (UNITS if sampler == "poisson" else 1)
        assert reached >= 12 * (1 - 1e-6)
        assert found.at_least <= found.b
    with pytest.raises(InputError, match="say what is wanted: size=N or recall=SHARE"):
        smallest_exposure(log)


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_record_never_speaks_of_the_whole_release() -> None:
    plan = Sampling(delta=0.5, epsilon=1, sampler="poisson").plan(1980)
    guarantee = plan.guarantee
    assert guarantee.notion == "sampling-step"
    assert not guarantee.is_private
    assert guarantee.epsilon == 0
    assert guarantee.delta == 0.5
    assert "NOT differentially private" in str(guarantee)
    assert "Of the sampling step, with the counts x taken as public" in str(guarantee)
    assert plan.figures["limit"] == pytest.approx(1372.4, abs=0.05)
    assert plan.advice is None


def test_epsilon_only_lowers_the_limit() -> None:
    assert isinstance(Sampling(delta=0.5, sampler="poisson").b, LogOf)
    assert float(Sampling(delta=0.5, sampler="poisson").b) == pytest.approx(log(2))
    lower = Sampling(delta=0.5, epsilon=0.1, sampler="poisson")
    assert lower.b == 0.1
    assert lower.plan().guarantee.delta == pytest.approx(-expm1(-0.1))


def test_less_than_one_tuple_is_advised_against(duckdb_engine: Engine) -> None:
    plan = Sampling(delta=1e-4, sampler="poisson").plan(1980)
    assert plan.figures["limit"] == pytest.approx(0.198, abs=0.001)
    assert plan.advice is not None
    assert "the method zealous" in plan.advice
    log = log_of(duckdb_engine, FIGURE_1)
    with pytest.raises(InputError, match="nothing would come out"):
        Sampling(delta=1e-4, sampler="multinomial", seconds=0.1).release(log)
    release = Sampling(delta=0.002, sampler="multinomial", seconds=0.1).release(log)
    assert release.table.num_rows == 0
    assert release.plan.figures["total"] == 0
    assert release.plan.advice is not None


@pytest.mark.slow
def test_a_size_that_is_not_reached_is_told(duckdb_engine: Engine) -> None:
    """One draw of 150 is more than a share of 0.005, so infrequent pairs stay out; the frequent ones do not suffice."""
    log = log_of(duckdb_engine, random_clicks(400, 80, seed=7))
    mechanism = Sampling(
        delta=0.8, objective="frequent", support=0.005, output_size=150, sampler="multinomial", seconds=0.5
    )
    release = mechanism.release(log)
    record = release.plan.to_json()
    drawn = sum(row["count"] for row in release.table.to_pylist())
    assert record["output_size"] == 150
    assert record["total"] == drawn < 150
    assert f"The output is {drawn} tuples where 150 were asked for" in record["advice"]
    assert "frequent" in record["advice"]
    totals: Counter[str] = Counter()
    for held in random_clicks(400, 80, seed=7).values():
        totals.update(held)
    shown: Counter[str] = Counter()
    for row in release.table.to_pylist():
        shown[row["query"]] += row["count"]
    frequent = {query: times / totals.total() for query, times in totals.items() if times >= 0.005 * totals.total()}
    distance = sum(abs(shown[query] / drawn - share) for query, share in frequent.items())
    assert record["sum_of_distances"] == pytest.approx(distance, abs=0.02), "of what is drawn, not of 150"
    reached = Sampling(delta=0.8, objective="kl", output_size=20, sampler="poisson").release(log).plan
    assert reached.figures["output_size"] == 20
    assert reached.advice is None


@pytest.mark.slow
def test_an_empty_sample_is_advised_in_the_words_of_sampling(duckdb_engine: Engine) -> None:
    """Of thresholds and items per user sampling knows nothing; each way of coming out empty has its own reason."""
    alone = log_of(duckdb_engine, {"a": {"x": 2}, "b": {"y": 3}})
    few = log_of(duckdb_engine, {f"u{i}": {f"q{i // 2}": 1} for i in range(40)})
    likely_empty = Sampling(delta=0.05, sampler="poisson")
    empty = next(
        release
        for release in (likely_empty.release(few, source=keyed(b"%d" % run)) for run in range(50))
        if not release.table.num_rows
    )
    for release, reason in (
        (Sampling(delta=0.5, sampler="poisson").release(alone), "No pair of query and url was clicked by two users"),
        (Sampling(delta=0.4, sampler="multinomial", seconds=0.1).release(few), "No whole draw was found"),
        (empty, "Chance drew nothing"),
    ):
        assert release.table.num_rows == 0
        assert release.plan.advice is not None
        assert release.plan.advice.startswith(reason)
        assert "threshold" not in release.plan.advice


def test_a_ledger_refuses_it(duckdb_engine: Engine, tmp_path: Any) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=100, budget_delta=0.9)
    with pytest.raises(BudgetRefused, match="without differential privacy"):
        Sampling(delta=0.5, sampler="poisson").release(log_of(duckdb_engine, FIGURE_1), ledger=ledger)


def test_the_papers_noise_is_labelled(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, random_clicks(40, 10, seed=6))
    mechanism = Sampling(delta=0.5, sampler="multinomial", noise_counts=True, most_change=2, seconds=0.2)
    steps: list[str] = []
    release = mechanism.release(log, source=keyed(b"noise"), progress=steps.append)
    assert any("H2" in caveat for caveat in release.guarantee.caveats)
    assert release.plan.figures["total"] <= release.plan.figures["limit"]
    assert any("how much does one user matter" in step for step in steps)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"objective": "fame"}, "no objective 'fame'; there are size, frequent, diversity and kl"),
        ({"sampler": "dice"}, "no sampler 'dice'; there are individual, poisson and multinomial"),
        ({"support": 0.0}, "support must be a number above 0 and at most 1, not 0; it is a share of all clicks"),
        ({"output_size": 5.0}, "leave out output_size"),
        ({"objective": "kl", "output_size": -1.0}, "output_size must be a positive number, not -1"),
        ({"objective": "kl", "output_size": 1.5, "sampler": "multinomial"}, "whole output_size, not 1.5"),
        ({"seconds": -1.0}, "seconds must be a number of at least 0, not -1"),
        ({"solver": "luck"}, "no solver 'luck'; there are best, spe, greedy, lp-rounding and branch-and-bound"),
        ({"solver": "spe"}, "leave it out"),
        ({"noise_counts": True}, "add sampler='multinomial', objective='size'"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"delta": 0.5, "sampler": "poisson"}
    with pytest.raises(InputError, match=message):
        Sampling(**good | wrong)


def test_a_support_that_no_pair_has_and_a_size_that_no_chance_gives_are_refused(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, random_clicks(40, 10, seed=6))
    with pytest.raises(InputError, match=r"no pair holds 0.99 of all clicks; try a smaller support"):
        Sampling(delta=0.5, objective="frequent", support=0.99, sampler="poisson").release(log)
    with pytest.raises(InputError, match="appear for certain"):
        smallest_exposure(log, size=1e9)


def test_a_log_without_urls_is_refused(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, FIGURE_1)
    with pytest.raises(InputError, match="no url"):
        Sampling(delta=0.5, sampler="poisson").release(replace(log, table=log.table.drop("url")))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_nothing_shared_is_an_empty_release(duckdb_engine: Engine, objective: Any, sampler: Any) -> None:
    log = log_of(duckdb_engine, {"a": {"x": 2}, "b": {"y": 3}})
    release = Sampling(delta=0.5, objective=objective, sampler=sampler, seconds=0.1).release(log)
    assert release.table.num_rows == 0
    assert release.table.column_names == ["user", "query", "url", "count"]


def test_counts_in_any_order_are_the_same_counts() -> None:
    """Entries out of order, or twice, are put in order before anybody judges by them."""
    shuffled = ClickCounts.of([1, 0, 0, 1, 0], [1, 1, 0, 0, 0], [4, 3, 1, 2, 1])
    reordered = ClickCounts(shuffled.matrix[:, [1, 0]])
    assert shuffled.totals.tolist() == [4, 7]
    assert reordered.totals.tolist() == [7, 4]
    assert reordered.exposure("poisson").toarray().tolist() == [[3 / 7, 0.5], [4 / 7, 0.5]]


def test_the_record_is_about_removal_and_what_was_looked_for_in_the_log(duckdb_engine: Engine) -> None:
    guarantee = Sampling(delta=0.1234564, sampler="poisson").plan().guarantee
    assert guarantee.neighbours == "remove", "of adding somebody nothing is promised"
    assert guarantee.neighbours_in_words == "removing one user that is in the log"
    assert "with a probability of at most 0.123457" in guarantee.caveats[0], "rounded up"
    assert "δ, where it was looked for in the log" in str(guarantee)
    sessions = replace(log_of(duckdb_engine, FIGURE_1), unit="session")
    told = str(Sampling(delta=0.5, sampler="poisson").plan(sessions).guarantee)
    assert "a session that is in the log appears" in told
