"""Weighted selection on Spark: the same rounds as in one process, and nothing but named items leaves the cluster.

What runs in the engine is written for any: here most of it runs in DuckDB too, where it takes no time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.engine.spark import SparkEngine
from searchveil.items import QUERY
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import RoundedGaussian, Source, Streams
from searchveil.publish.priorities import LARGEST, ONE, ByFormula, policy_named
from searchveil.publish.rounds import UNIT, Holdings, Rule, total_weights
from searchveil.publish.rounds_in_engine import AFTER_ROUND, HeldInEngine, Step
from searchveil.publish.rounds_in_memory import HeldInMemory
from searchveil.publish.weighted import Weighted, _count_parts


@pytest.fixture
def hardly_any_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of σ so small that they go the same way whatever is drawn."""
    monkeypatch.setattr("searchveil.publish.weighted.sigma_for", lambda *_: 1e-4)
    monkeypatch.setattr("searchveil.publish.weighted.crossing_threshold", lambda *_: 5.37)


class Elsewhere(DuckDBEngine):
    """DuckDB that does as a cluster does; `fetched` has the rows of every answer."""

    in_process: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[int] = []

    def fetch(self, table: Any) -> pa.Table:
        answer = super().fetch(table)
        self.fetched.append(answer.num_rows)
        return answer

    def map(self, table: Any, function: Callable[[pa.Table], pa.Table], types: Any) -> Any:
        """In parts of three rows; these do not come to the caller."""
        rows = DuckDBEngine.fetch(self, table)
        parts = [function(rows.slice(start, 3)) for start in range(0, rows.num_rows, 3)]
        return self.load(pa.concat_tables(parts) if parts else function(rows))


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    engine = Elsewhere()
    yield engine
    engine.close()


def table(**columns: Any) -> pa.Table:
    return pa.table({f"_{name}" if name in ("id", "holder") else name: pa.array(c) for name, c in columns.items()})


def zipf(engine: Engine, users: int = 300) -> SearchLog:
    drawn = np.random.default_rng(7).zipf(1.5, (users, 8)).clip(max=10**6)
    rows = [(f"u{user}", f"{'Q' if user % 3 else 'q'}{text}") for user in range(users) for text in drawn[user]]
    columns = {"user": [user for user, _ in rows], "query": [query for _, query in rows]}
    return SearchLog(engine.load(pa.table(columns)), engine)


def few_rounds(policy: str, rounds: int = 3) -> Any:
    """The first rounds of a policy, with all of the account: a round on Spark takes a second."""
    whole = policy_named(policy)
    shares, evidence = whole.shares[: rounds - 1], whole.evidence[: rounds - 1]
    return replace(whole, shares=(*shares, ONE - sum(shares)), evidence=(*evidence, ONE - sum(evidence)))


@contextmanager
def shortened(policy: str) -> Iterator[None]:
    with patch("searchveil.publish.weighted.policy_named", lambda _: few_rounds(policy)):
        yield


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> QueryPool:
    folder = tmp_path_factory.mktemp("pool")
    (folder / "queries.txt").write_text("\n".join(f"q{i}" for i in range(1, 40)) + "\nnobody's\n")
    return QueryPool.from_file(folder / "queries.txt", folder / "pool.parquet")


CASES: dict[str, dict[str, Any]] = {
    "learned": {},
    "formula": {"policy": "formula"},
    "replace-one": {"neighbours": "replace-one", "counts": "none"},
    "score": {"counts": "score", "policy": "formula"},
    "pool": {"pool": True},
}


def asked(case: str, pool: QueryPool) -> Weighted:
    parameters: dict[str, Any] = {"epsilon": 1, "delta": 1e-6} | CASES[case]
    return Weighted(**(parameters | ({"pool": pool} if "pool" in parameters else {})))


@pytest.mark.slow
@pytest.mark.usefixtures("hardly_any_noise")
@pytest.mark.parametrize("case", CASES)
def test_the_same_items_come_out_as_in_one_process(
    case: str, duckdb_engine: Engine, elsewhere: Elsewhere, pool: QueryPool
) -> None:
    mechanism = asked(case, pool)
    here = mechanism.release(zipf(duckdb_engine), source=keyed(b"1")).table.to_pylist()
    there = mechanism.release(zipf(elsewhere), source=keyed(b"2")).table.to_pylist()
    assert len(here) > 5
    assert near(here, there)


def near(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> bool:
    """Scores have a little noise even so."""
    texts = {row["query"]: row for row in b}
    numbers = [key for key in a[0] if key != "query"]
    return {row["query"] for row in a} == texts.keys() and all(
        abs(row[key] - texts[row["query"]][key]) <= 0.02 for row in a for key in numbers
    )


@pytest.mark.spark
@pytest.mark.usefixtures("hardly_any_noise")
@pytest.mark.parametrize("case", ["learned", "pool"])
def test_spark_names_the_same_and_hands_out_nothing_else(
    case: str, duckdb_engine: Engine, spark_engine: SparkEngine, pool: QueryPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, fetched = asked(case, pool), []
    fetch = spark_engine.fetch

    def counting(table: Any) -> pa.Table:
        answer = fetch(table)
        fetched.append(answer.num_rows)
        return answer

    monkeypatch.setattr(spark_engine, "fetch", counting)
    with shortened(mechanism.policy):
        there = mechanism.release(zipf(spark_engine), source=keyed(b"2")).table.to_pylist()
        here = mechanism.release(zipf(duckdb_engine), source=keyed(b"1")).table.to_pylist()
    assert len(here) > 5
    assert near(here, there)
    # Its two ends of the users, what each round names, counts of the named, texts of the named.
    assert sum(fetched) <= 1 + 3 * len(there)


@pytest.mark.slow
@pytest.mark.parametrize("counts", ["users", "searches"])
def test_nothing_but_named_items_is_fetched(counts: Any, elsewhere: Elsewhere) -> None:
    log = zipf(elsewhere)
    elsewhere.fetched.clear()
    named = Weighted(5, 1e-6, counts=counts).release(log, source=keyed(b"3")).table.num_rows
    assert named > 3
    assert sum(elsewhere.fetched) == 1 + 3 * named


def test_a_user_keeps_so_many_items(elsewhere: Elsewhere) -> None:
    held = HeldInEngine.of(zipf(elsewhere), QUERY, None, 2, keyed(b"4"))
    numbers = elsewhere.fetch(held.pairs.group_by("_holder").agg(n=held.pairs.count()))["n"].to_numpy()
    assert numbers.max() == 2
    items = elsewhere.fetch(held.items).num_rows
    assert items == elsewhere.fetch(held.pairs.select("_id").distinct()).num_rows  # what nobody keeps is no item


def test_weights_are_those_of_one_process(elsewhere: Elsewhere) -> None:
    """For random priorities, to the last unit, and with the length of every holder's weights beside them."""
    random = np.random.default_rng(5)
    held = [random.choice(60, random.integers(1, 60), replace=False) for _ in range(80)]
    priorities = random.integers(1, LARGEST + 1, 80)
    holdings = Holdings.of(np.concatenate(held).astype(np.int32), np.array([len(users) for users in held]))
    pairs = table(holder=np.concatenate(held), id=np.repeat(np.arange(80), holdings.degrees))
    active = table(id=np.arange(80), total=np.zeros(80, np.int64), priority=priorities)
    tables = HeldInEngine(elsewhere, elsewhere.load(active), elsewhere.load(pairs))
    weighed = elsewhere.fetch(tables.weighed(elsewhere.load(active))).sort_by("_id")
    assert weighed["weight"].to_pylist() == total_weights(holdings, priorities).tolist()
    assert 0.9 * UNIT**2 < weighed["longest"].to_numpy().max() <= UNIT**2


def step(key: bytes, done: int = 1) -> Step:
    noise = GaussianAccount(4.0, "add-remove").spend(squared_length=UNIT**2, share=Fraction(1))
    return Step(Rule(policy_named("formula"), 25.0, 4.0), done, noise, key)


def standing(ids: Any, longest: int = 0) -> pa.Table:
    zeros = np.zeros(len(ids), np.int64)
    return table(id=ids, total=zeros, weight=zeros, longest=np.full(len(ids), longest))


def test_weights_that_are_too_long_end_the_round() -> None:
    assert step(bytes(32))(standing(np.arange(5), UNIT**2)).num_rows == 5
    with pytest.raises(AssertionError, match="longer than the noise is for"):
        step(bytes(32))(standing(np.arange(5), UNIT**2 + 1))


def test_noise_is_a_function_of_round_and_item() -> None:
    ids = np.arange(1000) * 12345
    whole = step(bytes(32))(standing(ids))
    mixed = np.random.default_rng(1).permutation(ids)
    parts = [step(bytes(32))(standing(part)) for part in np.array_split(mixed, 7)]
    assert pa.concat_tables(parts).sort_by("_id").to_pylist() == whole.to_pylist()
    other = step(bytes(31) + b"\1")(standing(ids))
    drawn, again = (table["total"].to_numpy() / 1e8 for table in (whole, other))
    # Correlations of 1,000 independent draws: beyond 4.5 standard deviations once in 10^5.
    assert abs(np.corrcoef(drawn, again)[0, 1]) < 0.143
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.143


def test_streams_of_numbers_are_blocks_of_one_cipher() -> None:
    """What a number's stream says is what the source under the same key says at its block: no two share one."""
    streams, numbers = Streams(bytes(range(32))), np.array([0, 1, 2**40 + 3])
    for number, word in zip(numbers.tolist(), streams.words(numbers).tolist(), strict=True):
        source = Source(bytes(range(32)), first_block=number << 64)
        assert source.words(2)[0] == word
        assert source.bits(128) == streams.rest(number).bits(128)


def test_draws_of_numbers_are_decided_by_more_bits_of_their_own() -> None:
    """With a tiny variance hardly a draw is decided by its first bits alone where they lie beside a boundary."""
    noise, streams = RoundedGaussian(Fraction(1, 4)), Streams(bytes(32))
    numbers = np.arange(20_000)
    with patch("searchveil.privacy.noise._Quantiles.ERROR", 0.01):  # thousands are undecided
        assert (noise.of_each(numbers, streams) == noise.of_each(numbers[::-1], streams)[::-1]).all()
    drawn = noise.of_each(numbers, streams)
    assert abs((drawn == 0).mean() - 0.682689) < 4.5 * (0.2166 / 20_000) ** 0.5


def test_every_item_of_a_pool_gets_noise(elsewhere: Elsewhere) -> None:
    """Also those that nobody holds, and as often as the normal tail says: a false alarm once in 10^5."""
    items = elsewhere.load(table(id=np.arange(4000)))
    nobody = elsewhere.load(table(holder=np.zeros(0, np.int64), id=np.zeros(0, np.int64)))
    known = {"policy": ByFormula((ONE,), (ONE,)), "threshold": 4.0, "sigma": 4.0, "share": Fraction(1)}
    account = GaussianAccount(4.0, "add-remove")
    named = HeldInEngine(elsewhere, items, nobody).select(account=account, source=keyed(b"6"), **known)  # type: ignore[arg-type]
    assert abs(len(named.items) - 4000 * 0.158655) < 4.5 * (4000 * 0.158655 * 0.841345) ** 0.5
    with pytest.raises(ValueError, match="0 is left"):
        account.spend(squared_length=1, share=Fraction(1, 10))


@pytest.mark.slow
def test_counts_are_those_of_one_process(duckdb_engine: Engine, elsewhere: Elsewhere) -> None:
    """Of users of more named items than are counted in full, too."""
    parts = _count_parts(200)
    counts = []
    for engine, where in ((duckdb_engine, HeldInMemory), (elsewhere, HeldInEngine)):
        rows = {
            "user": [f"u{u}" for u in range(50) for _ in range(u)],
            "query": [f"q{i}" for u in range(50) for i in range(u)],
        }
        held = where.of(SearchLog(engine.load(pa.table(rows)), engine), QUERY, None, 200, keyed(b"7"))
        account = GaussianAccount(1e-3, "add-remove")
        known = {"policy": few_rounds("formula"), "threshold": 0.05, "sigma": 1e-3, "share": Fraction(1)}
        named = held.select(account=account, source=keyed(b"8"), **known)
        texts = held.texts(named)["query"].to_pylist()
        counts.append(dict(zip(texts, held.totals(named, parts).tolist(), strict=True)))
    assert len(counts[0]) > 40
    assert counts[0] == counts[1]
    assert counts[0]["q0"] < 49 * parts[1]  # the users of many give less than one


# What Spark keeps, loses and computes again


@pytest.mark.spark
def test_what_is_lost_is_computed_again_with_the_same_numbers_and_noise(spark_engine: SparkEngine) -> None:
    texts = spark_engine.load(pa.table({"text": [f"t{i}" for i in range(500)]}))
    numbered = spark_engine.number(texts, "_id", ["text"])
    zero = numbered["_id"] * 0
    now = spark_engine.stage(
        spark_engine.map(numbered.select("_id", total=zero, weight=zero, longest=zero), step(bytes(32)), AFTER_ROUND)
    )
    both = numbered.join(now, "_id").select("text", "_id", "total")
    before = spark_engine.fetch(both).sort_by("text")
    assert sorted(before["_id"].to_numpy()) == list(range(500))
    for frame in spark_engine._kept[-2:]:
        assert frame.is_cached
        frame.unpersist(blocking=True)
    after = spark_engine.fetch(both).sort_by("text")
    assert after.to_pylist() == before.to_pylist()


@pytest.mark.spark
def test_plans_do_not_grow_with_the_rounds(spark_engine: SparkEngine) -> None:
    table = spark_engine.load(pa.table({"n": [1, 2, 3]}))
    sizes = []
    for _ in range(4):
        table = spark_engine.stage(table.filter(table["n"] > 0).select(n=table["n"] + 1))
        sizes.append(len(spark_engine._frame(table)._jdf.queryExecution().analyzed().toString()))
    assert spark_engine.fetch(table)["n"].to_pylist() == [5, 6, 7]
    assert max(sizes) < min(sizes) + 20
