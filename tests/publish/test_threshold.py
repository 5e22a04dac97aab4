"""Survivors: the short way has exactly the outcome of adding noise to every count and comparing.

Fixed keys, so nothing fails by chance on unchanged code; a change draws anew and then raises a false alarm with
probability at most FALSE_ALARM in each test.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest
from keyed import keyed
from scipy.stats import chi2, norm

from searchveil.engine import Engine
from searchveil.privacy.calibrate import tail
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.publish.threshold import Group, survivors

FALSE_ALARM = 1e-6
FAR = float(norm.isf(FALSE_ALARM / 2))


def item_name(count: int, number: int) -> str:
    return f"{count:03d} {number:05d}"


def counts_of(item: str) -> int:
    return int(item[:3])


def table_of(sizes: dict[int, int]) -> pa.Table:
    """So many items of each true count; an item's name tells its count."""
    names = [item_name(count, number) for count, n in sizes.items() for number in range(n)]
    return pa.table({"item": names, "count": pa.array([counts_of(name) for name in names], pa.int64())})


def release(
    engine: Engine, table: pa.Table, key: bytes | Source, *, threshold: int, scale: float, fresh: float | None = None
) -> list[tuple[str, int]]:
    published = survivors(
        engine.load(table),
        ("item",),
        threshold=threshold,
        noise=DiscreteLaplace(scale),
        engine=engine,
        source=key if isinstance(key, Source) else keyed(key),
        fresh=DiscreteLaplace(fresh) if fresh else None,
    )
    assert [str(kind) for kind in published.schema.types] == ["string", "int64"], "whole numbers only"
    return [(row["item"], row["count"]) for row in published.to_pylist()]


def chi_square_agrees(observed: Sequence[float], expected: Sequence[float]) -> bool:
    assert min(expected) > 5
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(chi2.sf(statistic, len(expected) - 1)) > FALSE_ALARM


def outcome_agrees(published: list[int], n: int, count: int, threshold: int, scale: float) -> bool:
    """What became of n items with one true count: not published, or published as T, T+1, …, and T+j or more."""
    values = Counter(published)
    cells = [(n - len(published), n * (1 - tail(scale, threshold - count)))]
    value = threshold
    while n * tail(scale, value + 1 - count) > 15:
        cells.append((values[value], n * (tail(scale, value - count) - tail(scale, value + 1 - count))))
        value += 1
    cells.append((sum(v >= value for v in published), n * tail(scale, value - count)))
    cells = [cell for cell in cells if cell[1] > 5]
    return chi_square_agrees([o for o, _ in cells], [e for _, e in cells])


@pytest.mark.parametrize(("scale", "threshold"), [(1.0, 4), (3.0, 8)])
def test_the_outcome_of_every_true_count_is_that_of_noise_and_comparison(
    duckdb_engine: Engine, scale: float, threshold: int
) -> None:
    """Counts below, at and above the threshold, so that both ways are seen, and the border between them."""
    sizes = dict.fromkeys(range(1, threshold + 4), 2_000)
    table = table_of(sizes)
    runs = 6
    seen: dict[int, list[int]] = defaultdict(list)
    for run in range(runs):
        for item, noisy in release(duckdb_engine, table, b"outcome %d" % run, threshold=threshold, scale=scale):
            seen[counts_of(item)].append(noisy)
    for count, n in sizes.items():
        assert min(seen[count]) >= threshold
        assert outcome_agrees(seen[count], runs * n, count, threshold, scale), f"true count {count}"
    assert not outcome_agrees(seen[1], runs * sizes[1], 2, threshold, scale), "the test can tell neighbouring counts"


def test_the_outcome_on_spark_is_the_same(engine: Engine) -> None:
    """One release of many items, on each engine."""
    sizes = {1: 4_000, 3: 4_000, 4: 4_000, 6: 1_000}
    seen: dict[int, list[int]] = defaultdict(list)
    for item, noisy in release(engine, table_of(sizes), b"either engine", threshold=4, scale=2.0):
        seen[counts_of(item)].append(noisy)
    for count, n in sizes.items():
        assert outcome_agrees(seen[count], n, count, 4, 2.0), f"true count {count}"


@pytest.mark.slow
def test_which_items_pass_is_uniform_and_how_many_is_binomial(duckdb_engine: Engine) -> None:
    n, runs, threshold, scale = 150, 60, 5, 2.0
    table = table_of({3: n, 4: n, 1: 20})
    passed = {3: np.zeros(n), 4: np.zeros(n)}
    totals: dict[int, list[int]] = {3: [], 4: []}
    for run in range(runs):
        released = [
            item for item, _ in release(duckdb_engine, table, b"which %d" % run, threshold=threshold, scale=scale)
        ]
        for count in passed:
            chosen = [int(item[4:]) for item in released if counts_of(item) == count]
            passed[count][chosen] += 1
            totals[count].append(len(chosen))
    for count in passed:
        q = tail(scale, threshold - count)
        variance = runs * q * (1 - q)
        per_item = float(((passed[count] - runs * q) ** 2).sum() / variance)
        assert FALSE_ALARM < chi2.sf(per_item, n) < 1 - FALSE_ALARM, "every item has the same chance, each time anew"
        per_run = sum((total - n * q) ** 2 for total in totals[count]) / (n * q * (1 - q))
        assert FALSE_ALARM < chi2.sf(per_run, runs) < 1 - FALSE_ALARM, "neither fixed nor too variable"


def test_items_that_read_alike_when_glued_together_are_still_chosen_independently(duckdb_engine: Engine) -> None:
    """The choice of far items orders them by a hash of their texts. Were two items hashed alike, they would be
    published together or not at all, and a user who holds both would not be protected as proved."""
    pairs = 300
    rows = [(f"a{i}\x1fb", "c") for i in range(pairs)] + [(f"a{i}", "b\x1fc") for i in range(pairs)]
    queries, urls = zip(*rows, strict=True)
    table = pa.table({"query": queries, "url": urls, "count": pa.array([3] * len(rows), pa.int64())})
    published = survivors(
        duckdb_engine.load(table),
        ("query", "url"),
        threshold=4,
        noise=DiscreteLaplace(3.0),
        engine=duckdb_engine,
        source=keyed(b"glued"),
    )
    glued = Counter("\x1f".join((row["query"], row["url"])) for row in published.to_pylist())
    q = tail(3.0, 1)
    exactly_one = sum(times == 1 for times in glued.values())
    expected = pairs * 2 * q * (1 - q)
    assert abs(exactly_one - expected) < FAR * sqrt(expected)


def test_noisy_counts_before_selection_are_unbiased_with_the_stated_variance(duckdb_engine: Engine) -> None:
    """With a threshold below every noisy count nothing is selected, and what is published is all noisy counts."""
    n, scale = 20_000, 4.0
    released = release(duckdb_engine, table_of({7: n}), b"unbiased", threshold=-1_000, scale=scale)
    noise = np.array([noisy - counts_of(item) for item, noisy in released], dtype=float)
    assert len(noise) == n
    p = float(np.exp(-1 / scale))
    variance = 2 * p / (1 - p) ** 2
    assert abs(noise.mean()) < FAR * sqrt(variance / n)
    assert abs(np.mean(noise**2) - variance) < FAR * sqrt((np.mean(noise**4) - variance**2) / n)


def test_fresh_noise_is_unbiased_even_for_the_selected(duckdb_engine: Engine) -> None:
    """The same noise published would be at least T by construction; fresh noise knows nothing of the selection."""
    n, threshold, fresh = 4_000, 6, 3.0
    released = release(duckdb_engine, table_of({4: n, 7: n}), b"fresh", threshold=threshold, scale=2.0, fresh=fresh)
    p = float(np.exp(-1 / fresh))
    variance = 2 * p / (1 - p) ** 2
    for count in (4, 7):
        noise = np.array([noisy - count for item, noisy in released if counts_of(item) == count], dtype=float)
        assert abs(len(noise) - n * tail(2.0, threshold - count)) < FAR * sqrt(n) / 2
        assert abs(noise.mean()) < FAR * sqrt(variance / len(noise))
        assert abs(np.mean(noise**2) - variance) < FAR * sqrt((np.mean(noise**4) - variance**2) / len(noise))
        assert noise.min() + count < threshold, "some fall below the threshold that selected them"


def test_the_order_of_the_output_tells_only_the_output(engine: Engine) -> None:
    table = table_of({2: 300, 5: 20, 9: 20})
    released = release(engine, table, b"order", threshold=4, scale=2.0)
    assert released == sorted(released, key=lambda row: (-row[1], row[0]))
    assert {counts_of(item) for item, _ in released} == {2, 5, 9}


def test_the_same_key_gives_the_same_release_whatever_the_order_of_the_input(duckdb_engine: Engine) -> None:
    table = table_of({2: 200, 5: 20})
    backwards = table.take(pa.array(range(len(table) - 1, -1, -1)))
    one, again, other = (
        release(duckdb_engine, t, key, threshold=4, scale=2.0)
        for t, key in ((table, b"same"), (backwards, b"same"), (table, b"another"))
    )
    assert one == again != other


def test_looking_at_the_first_digests_alone_chooses_the_same(
    duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of items only those of small digests are put in order; too few of them, and all are."""
    table = table_of({1: 9_000, 2: 3_000, 3: 50})
    bounds = [Group(9_000, 30).bound, Group(3_000, 0).bound, Group(50, 40).bound]
    assert "0" < bounds[0] < bounds[1] < bounds[2] == "g"
    usual = release(duckdb_engine, table, b"bounded", threshold=12, scale=2.0)
    for bound in ("g", "0", "02"):
        monkeypatch.setattr(Group, "bound", bound)
        assert release(duckdb_engine, table, b"bounded", threshold=12, scale=2.0) == usual
    assert {1, 2} <= {counts_of(item) for item, _ in usual}


def test_no_counts_no_survivors(engine: Engine) -> None:
    assert release(engine, table_of({}), b"none", threshold=4, scale=2.0) == []
    assert release(engine, table_of({1: 5}), b"none", threshold=400, scale=1.0) == [], "nothing near, nothing chosen"
