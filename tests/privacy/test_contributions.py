"""One user changes the counts by at most what the proofs assume: the bound is enforced in the data path.

Hypothesis makes small, nasty logs: repeats, case variants, blanks, Unicode, texts that collide when glued together.
"""

import gc
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import ibis.expr.types as ir
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.items import CLICK, KEYWORD, QUERY, Item
from searchveil.items.histogram import bounded_histogram
from searchveil.log import SearchLog
from searchveil.privacy.contributions import bound_contributions, first_of_each_user

Row: TypeAlias = tuple[str, str, str]  # user, query, url
Kept: TypeAlias = dict[str, set[tuple[str, ...]]]

QUERIES = [
    "a",
    "A",
    " a ",
    "a b",
    "A  B",
    "b",
    "",
    "   ",
    "Ä",
    "ä",
    "a\u0308",
    "ﬁ",
    "fi",
    "\x1f",
    "日本",
    "🙂",
    "a\x1fb",
    "'",
]
rows = st.lists(
    st.tuples(st.sampled_from(["u1", "u2", "u3", "U1", ""]), st.sampled_from(QUERIES), st.sampled_from(["", "x", "y"])),
    min_size=1,
    max_size=25,
)
seeds = st.integers(0, 2**63 - 1)
# The logs are small as they are: shrinking them would take an engine minutes.
few = settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))


def log_of(engine: Engine, table: Sequence[Row]) -> SearchLog:
    users, queries, urls = zip(*table, strict=True) if table else ((), (), ())
    columns = {"user": users, "query": queries, "url": urls}
    return SearchLog(engine.load(pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})), engine)


def kept_items(log: SearchLog, item: Item, per_user: int, seed: int) -> ir.Table:
    """As `bounded_histogram` keeps them."""
    chosen = bound_contributions(item.held(log), item.columns, per_user, seed, log.engine)
    return item.not_blank(item.finish(chosen, log.normalization).distinct())


def fetched(table: ir.Table, columns: Sequence[str], engine: Engine) -> Kept:
    kept: Kept = {}
    for row in engine.fetch(table).to_pylist():
        kept.setdefault(row["user"], set()).add(tuple(row[column] for column in columns))
    return kept


def histogram(log: SearchLog, item: Item, per_user: int, seed: int) -> Counter[tuple[str, ...]]:
    counts = log.engine.fetch(bounded_histogram(log, item, per_user=per_user, seed=seed)).to_pylist()
    found = Counter({tuple(row[column] for column in item.columns): row["count"] for row in counts})
    assert len(found) == len(counts), "an item is counted once"
    return found


def check_one_user_matters_little(engine: Engine, table: list[Row], item: Item, per_user: int, seed: int) -> None:
    """The heart of every proof: Lemma "bounded contribution" of docs/guarantees.md on a real engine."""
    gone = table[0][0]
    without = [row for row in table if row[0] != gone]
    logs = [log_of(engine, t) for t in (table, without)]
    before, after = (fetched(kept_items(log, item, per_user, seed), item.columns, engine) for log in logs)
    assert all(len(items) <= per_user for items in before.values()), "nobody keeps more than allowed"
    before.pop(gone, None)
    assert before == after, "the others keep what they kept"
    full, less = (histogram(log, item, per_user, seed) for log in logs)
    changes = {key: full[key] - less[key] for key in full | less}
    assert sum(abs(change) for change in changes.values()) <= per_user
    assert set(changes.values()) <= {0, 1}


@pytest.mark.slow
@given(table=rows, item=st.sampled_from([QUERY, CLICK, KEYWORD]), per_user=st.integers(1, 4), seed=seeds)
@settings(parent=few, max_examples=25)
def test_one_user_changes_few_counts_by_one(
    duckdb_engine: Engine, table: list[Row], item: Item, per_user: int, seed: int
) -> None:
    check_one_user_matters_little(duckdb_engine, table, item, per_user, seed)


@pytest.mark.spark
@pytest.mark.slow
def test_one_user_changes_few_counts_by_one_on_spark(spark_engine: Engine) -> None:
    """Every nasty text at once, shared by all users: a drawn log for each example would take Spark minutes."""
    table = [(user, query, "x") for user in ("u1", "u2", "U1", "") for query in QUERIES for _ in range(2)]
    check_one_user_matters_little(spark_engine, table, QUERY, per_user=4, seed=2**62 + 1)


@pytest.mark.slow
@given(table=rows, per_user=st.integers(1, 4), seed=seeds, random=st.randoms(use_true_random=False))
@few
def test_the_order_and_the_repetition_of_rows_change_nothing(
    duckdb_engine: Engine, table: list[Row], per_user: int, seed: int, random: object
) -> None:
    shuffled = table + table[: len(table) // 2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (
        fetched(kept_items(log_of(duckdb_engine, t), QUERY, per_user, seed), QUERY.columns, duckdb_engine)
        for t in (table, shuffled)
    )
    assert one == other


@pytest.mark.slow
@given(table=rows, columns=st.sampled_from([("query",), ("query", "url")]), per_user=st.integers(1, 4), seed=seeds)
@few
def test_the_prefilter_of_duckdb_changes_nothing(
    duckdb_engine: Engine, table: list[Row], columns: tuple[str, ...], per_user: int, seed: int
) -> None:
    """Including users whose smallest hashes are all repeats of one row: they must not lose their other items."""
    table = table + [table[0]] * (3 * per_user)
    source = log_of(duckdb_engine, table).table.select("user", *columns)
    hashed = source.mutate(choice=duckdb_engine.fast_hash([*(source[c] for c in columns), source["user"]], seed))
    identity = Engine.prefilter(duckdb_engine, hashed, "choice", per_user)
    assert identity is hashed
    unfiltered = first_of_each_user(identity.distinct(), ["choice", *columns], per_user).select("user", *columns)
    quick = bound_contributions(source, columns, per_user, seed, duckdb_engine)
    assert fetched(quick, columns, duckdb_engine) == fetched(unfiltered, columns, duckdb_engine)


def test_users_keep_as_many_as_they_may(engine: Engine) -> None:
    """No more than the bound, and no fewer where there are more."""
    table = [(f"u{u}", f"query {q}", "") for u in range(6) for q in range(u + 1) for _ in range(3)]
    kept = fetched(
        bound_contributions(QUERY.rows(log_of(engine, table)), QUERY.columns, 3, 11, engine), QUERY.columns, engine
    )
    assert {user: len(items) for user, items in kept.items()} == {f"u{u}": min(3, u + 1) for u in range(6)}


def test_another_seed_chooses_other_items_and_every_item_has_its_chance(engine: Engine) -> None:
    """100 users with the same 5 items, 1 kept: the choice differs from user to user and from seed to seed."""
    table = [(f"u{u}", f"query {q}", "") for u in range(100) for q in range(5)]
    log = log_of(engine, table)
    one, other = (
        fetched(bound_contributions(QUERY.rows(log), QUERY.columns, 1, seed, engine), QUERY.columns, engine)
        for seed in (1, 2)
    )
    assert one != other
    counts = Counter(item for items in one.values() for item in items)
    assert len(counts) == 5
    assert max(counts.values()) < 50, "about 20 each"


def test_both_engines_keep_as_many_and_count_the_same(engine: Engine) -> None:
    """With nothing to choose there is one answer, whatever the hash."""
    table = [("u1", "A", "x"), ("u1", "a ", "x"), ("u1", "", "x"), ("u2", "a", ""), ("u2", "Ä", "y"), ("u3", "ä", "y")]
    log = log_of(engine, table)
    assert histogram(log, QUERY, 10, 1) == {("a",): 2, ("ä",): 2}
    assert histogram(log, CLICK, 10, 1) == {("a", "x"): 1, ("ä", "y"): 2}


def test_integer_users_are_users(engine: Engine) -> None:
    table = pa.table({"user": pa.array([1, 1, 2], pa.int64()), "query": ["a", "b", "a"]})
    log = SearchLog(engine.load(table), engine)
    kept = engine.fetch(bound_contributions(QUERY.rows(log), QUERY.columns, 1, 5, engine))
    assert Counter(row["user"] for row in kept.to_pylist()) == {1: 1, 2: 1}


def test_the_first_rows_of_each_user_are_the_first_in_order(engine: Engine) -> None:
    table = [("u1", "c", "3"), ("u1", "a", "1"), ("u1", "b", "2"), ("u2", "z", "9")]
    first = first_of_each_user(log_of(engine, table).table, ["url"], 2)
    assert fetched(first, ("query",), engine) == {"u1": {("a",), ("b",)}, "u2": {("z",)}}


def test_staging_keeps_the_rows_and_a_value_comes_out_plain(engine: Engine) -> None:
    staged = engine.stage(log_of(engine, [("u1", "a", ""), ("u2", "b", "")]).table)
    assert engine.value(staged.count()) == 2
    assert {row["query"] for row in engine.fetch(staged).to_pylist()} == {"a", "b"}


def test_an_unknown_engine_and_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError, match="no engine 'flink'; there are duckdb and spark"):
        open_engine("flink")
    with pytest.raises(InputError, match="master is for Spark; add engine='spark'"):
        open_engine("duckdb", master="local[2]")


def test_a_refused_memory_limit_leaves_no_open_database_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match="memory 'lots' is no size; write for example memory='3GB'"):
        open_engine("duckdb", memory="lots")
    left = list(tmp_path.iterdir())
    gc.collect()  # else the garbage collector complains about it in some later test
    assert not left, "the folder of a database that was never used"
