"""Query pools: where they come from, how they meet a log, and that drawing survivors equals noise for every query.

Fixed keys, so nothing fails by chance on unchanged code; a change draws anew and then raises a false alarm with
probability at most FALSE_ALARM in each test.
"""

import gzip
from collections import Counter
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod, sqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyed import keyed
from scipy.stats import binom, chi2, norm

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items.pool import QueryPool, counts_with_pool
from searchveil.log import SearchLog
from searchveil.log.normalize import USUAL
from searchveil.privacy.calibrate import tail
from searchveil.privacy.noise import DiscreteLaplace, Distribution, Source
from searchveil.publish.release import Release
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.threshold import survivors

FALSE_ALARM = 1e-6
FAR = float(norm.isf(FALSE_ALARM / 2))
NASTY = ["weather", 'he said "no"', '"new york', "a, b", "semi; colon", "it's", "# tag", "NULL", "back\\slash", "ça va"]


def queries_in(pool: QueryPool) -> list[str]:
    return [row["query"] for row in pq.read_table(pool.path).to_pylist()]


def pool_of(tmp_path: Path, queries: list[str]) -> QueryPool:
    pq.write_table(pa.table({"query": pa.array(queries, pa.string())}), tmp_path / "made.parquet")
    return QueryPool.open(tmp_path / "made.parquet")


def log_of(engine: Engine, users: int, queries: tuple[str, ...] = ("Weather", "news")) -> SearchLog:
    """Every user searches all these queries, a minute apart."""
    rows = [(u, i) for u in range(users) for i in range(len(queries))]
    table = pa.table(
        {
            "user": [u for u, _ in rows],
            "query": [queries[i] for _, i in rows],
            "time": pa.array([datetime(2024, 5, 1) + timedelta(minutes=i) for _, i in rows], pa.timestamp("us")),
        }
    )
    return SearchLog(engine.load(table), engine)


# --- building ---------------------------------------------------------------------------------------------------------


def test_from_lines_of_text_as_they_are(tmp_path: Path) -> None:
    lines = [*NASTY, "tab\there", "", "   ", NASTY[0]]
    (tmp_path / "q.txt").write_text("\n".join(lines), encoding="utf-8")
    pool = QueryPool.from_file(tmp_path / "q.txt", tmp_path / "pool.parquet")
    assert queries_in(pool) == sorted({*NASTY, "tab\there"}, key=str.encode), (
        "each once, in order, blank lines left out"
    )
    assert pool.size == len(NASTY) + 1
    assert QueryPool.open(tmp_path / "pool.parquet").size == pool.size


def test_lines_may_end_the_windows_way(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_bytes(b"weather\r\nnews\r\n")
    assert queries_in(QueryPool.from_file(tmp_path / "q.txt", tmp_path / "p.parquet")) == ["news", "weather"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", 'query,url\nnews,n.example\n"a, b",x.example\nweather,w.example\n'),
        ("q.csv", 'query\nnews\n"a, b"\nweather\n'),
        ("q.csv", 'count,query\n3,news\n2,weather\n1,"a, b"\n'),
        ("q.tsv", "query\turl\nnews\tn.example\na, b\tx.example\nweather\tw.example\n"),
        ("q.txt", "news\na, b\nweather\nnews\n"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
def test_from_tables_and_texts_also_zipped(tmp_path: Path, name: str, text: str, zipped: bool) -> None:
    file = tmp_path / (f"{name}.gz" if zipped else name)
    file.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    assert queries_in(QueryPool.from_file(file, tmp_path / "pool.parquet")) == ["a, b", "news", "weather"]


def test_from_a_tsv_with_queries_alone_even_if_they_hold_commas(tmp_path: Path) -> None:
    """The name says what parts the columns; guessing from the text finds commas here."""
    (tmp_path / "q.tsv").write_text("query\nweather, berlin\nnews, today\nflights, cheap\n")
    made = QueryPool.from_file(tmp_path / "q.tsv", tmp_path / "pool.parquet")
    assert queries_in(made) == ["flights, cheap", "news, today", "weather, berlin"]


def test_from_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"count": [1, 2, 3, 4], "query": ["b", None, "a", "b"]}), tmp_path / "q.parquet")
    assert queries_in(QueryPool.from_file(tmp_path / "q.parquet", tmp_path / "pool.parquet")) == ["a", "b"]


@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
def test_from_a_release_in_every_format(tmp_path: Path, format: str) -> None:
    release = Release(
        {"data": pa.table({"query": NASTY, "count": list(range(len(NASTY)))})},
        SafeLogClick(epsilon=1, delta=1e-6).plan(),
    )
    folder = release.write(tmp_path / "release", format=format)
    pool = Release.read(folder).pool(tmp_path / "pool.parquet")
    assert set(queries_in(pool)) == set(NASTY)


def test_a_release_of_sessions_has_no_queries_to_make_a_pool_from(tmp_path: Path) -> None:
    data = pa.table({"session": pa.array([["a", "b"]]), "count": [9]})
    folder = Release({"data": data}, SafeLogSession(epsilon=1, delta=1e-6).plan()).write(tmp_path / "release")
    with pytest.raises(InputError, match="has no column 'query'; it has session, count") as refusal:
        Release.read(folder).pool(tmp_path / "pool.parquet")
    assert "\n" not in str(refusal.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"], "nothing is left behind"


def test_from_n_grams_that_end_like_a_noun(tmp_path: Path) -> None:
    lines = ["50\tred house", "40 cheap flights", "30\tcar", "9 run quickly", "8 the", "7 going", "6.5 train ticket"]
    lines += ["word first 3", "", "5 covid 19", "4 famous", "3 it's", "2 of of"]
    (tmp_path / "n.txt").write_text("\n".join(lines))
    pool = QueryPool.from_ngrams(tmp_path / "n.txt", tmp_path / "pool.parquet", size=20)
    good = {"red house", "cheap flights", "car", "train ticket"}
    single, joined = good, {f"{a} {b}" for a in good for b in good}
    made = queries_in(pool)
    assert len(made) == len(set(made)) == 20, "4 + 16 different ones exist"
    assert set(made) == single | joined


def test_n_grams_are_drawn_by_frequency_and_the_seed_repeats_them(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text(
        "".join(f"{1_000_000 if i < 10 else 1} {chr(97 + i // 10)}{chr(97 + i % 10)}x\n" for i in range(100))
    )
    common = {f"a{chr(97 + i)}x" for i in range(10)}
    one, again, other = (
        queries_in(QueryPool.from_ngrams(tmp_path / "n.txt", tmp_path / name, size=60, seed=seed))
        for name, seed in (("1.parquet", 5), ("2.parquet", 5), ("3.parquet", 6))
    )
    assert one == again != other
    words = [word for query in one for word in query.split()]
    assert len(one) == 60
    assert sum(word in common for word in words) / len(words) > 0.9


def test_a_short_list_gives_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("1 car\n")
    pool = QueryPool.from_ngrams(tmp_path / "n.txt", tmp_path / "pool.parquet", size=1000)
    assert queries_in(pool) == ["car", "car car"]


def test_n_grams_that_never_occur_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("0 car\n0 house\n")
    with pytest.raises(InputError):
        QueryPool.from_ngrams(tmp_path / "n.txt", tmp_path / "pool.parquet", size=5)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
def test_a_file_without_a_query_is_refused_and_leaves_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.txt").write_text(text)
    with pytest.raises(InputError, match="has no query in it"):
        QueryPool.from_file(tmp_path / "q.txt", tmp_path / "pool.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.txt"]


def test_an_empty_pool_is_refused_when_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is empty"):
        pool_of(tmp_path, [])


def test_what_is_no_pool_is_refused_when_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no pool .*make one with: searchveil pool --queries"):
        QueryPool.open(tmp_path / "none.parquet")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="is not a pool, which has a column 'query' and no other: text"):
        QueryPool.open(tmp_path / "other.parquet")


@pytest.mark.parametrize("text", ["weather\nnews\n", ""], ids=["text", "empty"])
def test_a_text_file_given_as_a_pool_is_refused_with_how_to_make_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.txt").write_text(text)
    with pytest.raises(InputError, match="is not a pool; make one with: searchveil pool --queries"):
        QueryPool.open(tmp_path / "q.txt")


def test_an_existing_pool_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("weather\n")
    (tmp_path / "pool.parquet").write_text("mine")
    with pytest.raises(InputError, match="exists"):
        QueryPool.from_file(tmp_path / "q.txt", tmp_path / "pool.parquet")
    assert (tmp_path / "pool.parquet").read_text() == "mine"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda at: QueryPool.from_file(at / "none.txt", at / "p"), "there is no file"),
        (lambda at: QueryPool.from_ngrams(at / "none.txt", at / "p", size=3), "there is no file"),
        (lambda at: Release.read(at).pool(at / "p"), "is no release folder"),
        (lambda at: QueryPool.from_ngrams(at / "none.txt", at / "p", size=0), "at least one query, not 0"),
    ],
)
def test_a_source_that_is_not_there_is_named(tmp_path: Path, make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make(tmp_path)


# --- a pool meets a log -----------------------------------------------------------------------------------------------


def test_counts_over_the_pool_and_over_both(engine: Engine, tmp_path: Path) -> None:
    """Normal forms meet: what is typed in several ways, in the pool or in the log, is one query, counted once."""
    pool = pool_of(tmp_path, ["weather", "Weather ", "hotels", "café", "cafe\u0301"]).table(engine, USUAL)
    counts = engine.load(pa.table({"query": ["weather", "own"], "count": pa.array([7, 1], pa.int64())}))
    found = {}
    for keep_log in (False, True):
        rows = engine.fetch(counts_with_pool(counts, pool, keep_log=keep_log)).to_pylist()
        found[keep_log] = {row["query"]: row["count"] for row in rows}
        assert len(rows) == len(found[keep_log]), "each query once"
    assert found[False] == {"weather": 7, "hotels": 0, "café": 0}
    assert found[True] == {"weather": 7, "hotels": 0, "café": 0, "own": 1}


@pytest.mark.parametrize("domain", ["pool", "pool+log"])
def test_a_pool_query_that_users_searched_has_their_count_and_no_second_chance(
    duckdb_engine: Engine, tmp_path: Path, domain: Any
) -> None:
    users = 400
    mechanism = SafeLogClick(
        epsilon=40, delta=1e-9, clicks_per_user=0, domain=domain, pool=pool_of(tmp_path, ["WEATHER", "weather", "own"])
    )
    table = mechanism.release(log_of(duckdb_engine, users), source=keyed(b"met")).table
    counts = {row["query"]: row["count"] for row in table.to_pylist()}
    assert table.num_rows == len(counts)
    assert set(counts) - {"own"} == ({"weather"} if domain == "pool" else {"weather", "news"})
    assert all(abs(counts[query] - users) < 5 for query in counts if query != "own")


def test_a_pool_of_one_query(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Searched or not, it comes out as its noisy count says."""
    pool = pool_of(tmp_path, ["weather"])
    mechanism = SafeLogClick(noise_scale=1, above=50, clicks_per_user=0, domain="pool", pool=pool)
    for users, expected in ((200, ["weather"]), (2, [])):
        release = mechanism.release(log_of(duckdb_engine, users), source=keyed(b"one"))
        assert release.table["query"].to_pylist() == expected
    assert release.guarantee.delta == 0
    assert release.plan.parameters["pool_size"] == 1


# --- the short way equals the naive way -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(2, 3)])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_binomial_then_uniform_then_geometric_is_noise_for_every_query_exactly(p: Fraction, n: int) -> None:
    """Lemma 2 in rational numbers: every outcome (which of n zero-count queries, published as what) is as likely."""
    threshold, values = 2, range(2, 5)

    def noise(t: int) -> Fraction:
        return (1 - p) / (1 + p) * p ** abs(t)

    q = 1 - sum((noise(t) for t in range(-60, threshold)), p**61 / (1 + p))  # P(η ≥ T), summed up
    assert q == p**threshold / (1 + p)
    for k in range(n + 1):
        for chosen in combinations(range(n), k):
            for published in product(values, repeat=k):
                naive = prod(noise(value) for value in published) * (1 - q) ** (n - k)
                number, which = comb(n, k) * q**k * (1 - q) ** (n - k), Fraction(1, comb(n, k))
                short = number * which * prod((1 - p) * p ** (value - threshold) for value in published)
                assert naive == short, chosen


def outcomes(engine: Engine, tmp_path: Path, runs: int, threshold: int, scale: float) -> list[dict[str, int]]:
    """Releases of a log with one query of its own that meets a pool of three others and of itself."""
    pool = pool_of(tmp_path, ["a", "b", "c", "weather"]).table(engine, USUAL)
    counts = engine.load(pa.table({"query": ["weather"], "count": pa.array([90], pa.int64())}))
    staged = engine.stage(counts_with_pool(counts, pool, keep_log=True))
    source = keyed(b"short and naive")
    released = []
    for _ in range(runs):
        table = survivors(
            staged, ["query"], threshold=threshold, noise=DiscreteLaplace(scale), engine=engine, source=source
        )
        released.append({row["query"]: row["count"] for row in table.to_pylist()})
    return released


def agrees(observed: Counter[Any], expected: dict[Any, float]) -> bool:
    assert min(expected.values()) > 5
    assert set(observed) <= set(expected)
    statistic = sum((observed[cell] - e) ** 2 / e for cell, e in expected.items())
    return float(chi2.sf(statistic, len(expected) - 1)) > FALSE_ALARM


@pytest.mark.slow
def test_which_pool_queries_survive_how_many_and_with_what_counts(duckdb_engine: Engine, tmp_path: Path) -> None:
    runs, threshold, scale = 200, 1, 2.0
    released = outcomes(duckdb_engine, tmp_path, runs, threshold, scale)
    assert all("weather" in outcome for outcome in released)
    assert len({outcome["weather"] for outcome in released}) > 3, "its count is noisy too"
    slips = [{query: count for query, count in outcome.items() if query != "weather"} for outcome in released]
    q = tail(scale, threshold)

    sets = {
        frozenset(chosen): runs * q ** len(chosen) * (1 - q) ** (3 - len(chosen))
        for k in range(4)
        for chosen in combinations("abc", k)
    }
    assert agrees(Counter(frozenset(slip) for slip in slips), sets), "every set, hence every number and identity"
    numbers = Counter(len(slip) for slip in slips)
    assert agrees(numbers, {k: runs * float(binom.pmf(k, 3, q)) for k in range(4)})
    assert not agrees(numbers, {k: runs * float(binom.pmf(k, 3, q + 0.15)) for k in range(4)}), "the test can tell"

    for query in "abc":
        seen = Counter(min(slip.get(query, 0), 3) for slip in slips)
        each = {v: runs * (tail(scale, v) - tail(scale, v + 1)) for v in (1, 2)}
        assert agrees(seen, {0: runs * (1 - q), **each, 3: runs * tail(scale, 3)}), query


def test_the_published_counts_of_surviving_pool_queries_are_those_of_noise(
    duckdb_engine: Engine, tmp_path: Path
) -> None:
    """A whole release of a log and a pool that share a query: what became of 3,000 queries that nobody searched."""
    n, threshold, scale = 3_000, 3, 3.0
    pool = pool_of(tmp_path, [f"pool query {i}" for i in range(n)] + ["weather"])
    mechanism = SafeLogClick(noise_scale=scale, above=threshold - 1, clicks_per_user=0, domain="pool", pool=pool)
    release = mechanism.release(log_of(duckdb_engine, 60), source=keyed(b"counts"))
    counts = {row["query"]: row["count"] for row in release.table.to_pylist()}
    assert abs(counts.pop("weather") - 60) < FAR * 2 * scale
    end = threshold + 9
    seen = Counter(min(count, end) for count in counts.values()) + Counter({0: n - len(counts)})
    each = {value: n * (tail(scale, value) - tail(scale, value + 1)) for value in range(threshold, end)}
    assert agrees(seen, {0: n * (1 - tail(scale, threshold)), **each, end: n * tail(scale, end)})
    thirds = Counter(int(query.split()[-1]) * 3 // n for query in counts)
    assert agrees(thirds, dict.fromkeys(range(3), len(counts) / 3)), "wherever in the pool they are"


@pytest.mark.slow
def test_three_hundred_thousand_pool_queries_and_only_survivors_leave_the_engine(
    duckdb_engine: Engine, tmp_path: Path
) -> None:
    n, threshold, scale = 300_000, 20, 2.0
    pool = pool_of(tmp_path, [f"pool query {i}" for i in range(n)] + ["weather"])
    mechanism = SafeLogClick(noise_scale=scale, above=threshold - 1, clicks_per_user=0, domain="pool", pool=pool)
    fetched: list[int] = []
    drawn: list[int] = []
    fetch, sample = type(duckdb_engine).fetch, Distribution.sample

    def watched_fetch(engine: Engine, table: Any) -> pa.Table:
        fetched.append((result := fetch(engine, table)).num_rows)
        return result

    def watched_sample(self: Distribution, size: int, source: Source) -> Any:
        drawn.append(size)
        return sample(self, size, source)

    with (
        patch.object(type(duckdb_engine), "fetch", watched_fetch),
        patch.object(Distribution, "sample", watched_sample),
    ):
        release = mechanism.release(log_of(duckdb_engine, 60), source=keyed(b"many"))
    queries = release.table["query"].to_pylist()
    slips = [row["count"] for row in release.table.to_pylist() if row["query"] != "weather"]
    expected = n * tail(scale, threshold)
    assert "weather" in queries
    assert "news" not in queries
    assert abs(len(slips) - expected) < FAR * sqrt(expected)
    assert min(slips) >= threshold
    assert release.plan.parameters["expected_pool_slips"] == pytest.approx(expected, rel=1e-3)
    assert max(fetched) < 100
    assert sum(drawn) < 100


def test_a_column_may_be_called_query_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "list.tsv").write_text("Query\tfrequency\nweather\t9\nnews\t3\n")
    made = QueryPool.from_file(tmp_path / "list.tsv", tmp_path / "pool.parquet")
    assert QueryPool.open(made.path).size == 2


def test_a_log_is_no_list_of_public_queries(tmp_path: Path) -> None:
    """Nor is it a pool, when it is named as both by a slip of the hand."""
    (tmp_path / "log.tsv").write_text("AnonID\tQuery\tQueryTime\n1\tmy name\t2006-03-01 00:00:00\n")
    with pytest.raises(InputError, match=r"has a column 'AnonID', as logs have"):
        QueryPool.from_file(tmp_path / "log.tsv", tmp_path / "pool.parquet")
    assert not (tmp_path / "pool.parquet").exists()
    pq.write_table(pa.table({"user": [1], "query": ["my name"]}), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"is not a pool, .*: user, query"):
        QueryPool.open(tmp_path / "log.parquet")
