"""The top of the original, beside the release; the measures of it, with values worked out by hand."""

from itertools import pairwise
from math import log

import numpy as np
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import release_of_counts, views_of_queries

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.measures import MEASURES, measure_named
from searchveil.lab.measures.compare import Joint, Top, top_items
from searchveil.lab.measures.coverage import Coverage
from searchveil.lab.measures.jensen_shannon import JensenShannon
from searchveil.lab.measures.jensen_shannon import divergence as jensen_shannon
from searchveil.lab.measures.kl import KL, divergence
from searchveil.lab.measures.l1 import L1, average_l1
from searchveil.lab.view import View

ORIGINAL = {"a": 8, "b": 4, "c": 2, "d": 2}  # of 16
RELEASE = {"a": 6, "c": 1, "of a pool": 3}  # of 10


def test_every_registered_measure_is_there() -> None:
    for name in MEASURES:
        assert isinstance(measure_named(name)().needs, tuple), name
    with pytest.raises(InputError, match="no measure 'beauty'; there are jensen-shannon, coverage, l1"):
        measure_named("beauty")


def test_the_top_is_ordered_and_equal_counts_by_text(duckdb_engine: Engine) -> None:
    top = top_items(*views_of_queries(duckdb_engine, ORIGINAL, RELEASE), "query", 3)
    assert top.original.tolist() == [8, 4, 2]
    assert top.release.tolist() == [6, 0, 1]  # c is in the top and d is not
    assert top.published.tolist() == [True, False, True]
    assert (top.original_total, top.release_total) == (16, 10)


def test_coverage(duckdb_engine: Engine) -> None:
    views = views_of_queries(duckdb_engine, ORIGINAL, RELEASE)
    figures = Coverage(ranks=(1, 2, 3, 4, 5)).measure(*views)
    assert {name: value for name, value in figures.items() if name.startswith("query")} == {
        "query@1": 1,
        "query@2": 1 / 2,
        "query@3": 2 / 3,
        "query@4": 1 / 2,
    }  # no fifth: the log has four queries


def test_a_log_of_few_items_is_measured_as_far_as_it_goes(duckdb_engine: Engine) -> None:
    figures = Coverage().measure(*views_of_queries(duckdb_engine, ORIGINAL, RELEASE))
    assert figures == {"query@4": 1 / 2, "keyword@4": 1 / 2}


def test_a_count_of_nothing_is_still_published(duckdb_engine: Engine) -> None:
    """Fresh noise may leave a published query with a count that is not positive: it is in the release all the same."""
    figures = Coverage().measure(*views_of_queries(duckdb_engine, {"a": 2, "b": 1}, {"a": 4, "b": -3}))
    assert figures["query@2"] == 1
    assert L1().measure(*views_of_queries(duckdb_engine, {"a": 2, "b": 1}, {"a": 4, "b": -3}))["query@2"] == (
        pytest.approx(1 / 3)
    )  # |2/3 − 1| and |1/3 − 0|


def test_average_l1(duckdb_engine: Engine) -> None:
    figures = L1(ranks=(1, 4)).measure(*views_of_queries(duckdb_engine, ORIGINAL, RELEASE))
    assert figures["query@1"] == pytest.approx(6 / 10 - 8 / 16)
    assert figures["query@4"] == pytest.approx((0.1 + 4 / 16 + (2 / 16 - 1 / 10) + 2 / 16) / 4)


def test_kl(duckdb_engine: Engine) -> None:
    """Over the top three, b missing: p = (8, 4, 2)/14 and q = (6, ½, 1)/7½."""
    figures = KL(ranks=(1, 3)).measure(*views_of_queries(duckdb_engine, ORIGINAL, RELEASE))
    by_hand = 8 / 14 * log(8 * 7.5 / (14 * 6)) + 4 / 14 * log(4 * 7.5 / (14 * 0.5)) + 2 / 14 * log(2 * 7.5 / 14)
    assert figures["query@3"] == pytest.approx(by_hand)
    assert figures["query@1"] == 0


def test_an_empty_release_covers_nothing_and_has_no_frequencies_to_compare(duckdb_engine: Engine) -> None:
    views = views_of_queries(duckdb_engine, ORIGINAL, {})
    assert Coverage(ranks=(4,)).measure(*views) == {"query@4": 0, "keyword@4": 0}
    assert L1(ranks=(4,)).measure(*views) == {}
    assert KL(ranks=(4,)).measure(*views) == {}


def test_a_release_without_any_of_the_top_has_no_divergence(duckdb_engine: Engine) -> None:
    views = views_of_queries(duckdb_engine, ORIGINAL, {"d": 5})
    assert KL(ranks=(2, 4)).measure(*views).keys() == {"query@4", "keyword@4"}
    assert L1(ranks=(2,)).measure(*views)["query@2"] == pytest.approx((8 / 16 + 4 / 16) / 2)


counts = st.lists(st.integers(1, 10**6), min_size=1, max_size=30)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(counts, st.data())
def test_l1_and_kl_agree_with_numpy_and_scipy(original: list[int], data: st.DataObject) -> None:
    release = data.draw(st.lists(st.integers(0, 10**6), min_size=len(original), max_size=len(original)).filter(any))
    rest = data.draw(st.integers(0, 100))
    top = _top(original, release, sum(original) + rest, sum(release) + rest)
    p, q = np.array(original) / (sum(original) + rest), np.array(release) / (sum(release) + rest)
    assert average_l1(top) == pytest.approx(np.linalg.norm(p - q, 1) / len(p))
    assert divergence(top) == pytest.approx(scipy.stats.entropy(original, np.maximum(release, 0.5)), abs=1e-9)


@settings(deadline=None)
@given(counts, st.integers(1, 1000))
def test_a_faithful_release_of_any_scale_is_at_no_distance(original: list[int], factor: int) -> None:
    scaled = [factor * count for count in original]
    top = _top(original, scaled, sum(original), sum(scaled))
    assert average_l1(top) == pytest.approx(0, abs=1e-12)
    assert divergence(top) == pytest.approx(0, abs=1e-9)


# --- Jensen-Shannon ---------------------------------------------------------------------------------------------------


def test_jensen_shannon_by_hand(duckdb_engine: Engine) -> None:
    """Of a, b, c, d and what is of a pool alone."""
    p, q = np.array([8, 4, 2, 2, 0]) / 16, np.array([6, 0, 1, 0, 3]) / 10
    mean = (p + q) / 2
    by_hand = (scipy.stats.entropy(p, mean, base=2) + scipy.stats.entropy(q, mean, base=2)) / 2
    figures = JensenShannon().measure(*views_of_queries(duckdb_engine, ORIGINAL, RELEASE))
    assert figures["query"] == pytest.approx(by_hand)


@pytest.mark.slow
def test_what_has_nothing_in_common_is_one_bit_apart(duckdb_engine: Engine) -> None:
    for release in ({"other": 5}, {}, {"a": -3}):
        figures = JensenShannon().measure(*views_of_queries(duckdb_engine, ORIGINAL, release))
        assert figures["query"] == 1, release
    assert JensenShannon().measure(*views_of_queries(duckdb_engine, {}, {"a": 1})) == {}


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=60), st.integers(1, 1000))
def test_jensen_shannon_prefers_a_release_that_tells_more(original: list[int], factor: int) -> None:
    """The top 1, 2, … of the log with its own frequencies: ever nearer, and all of it is at no distance."""
    original.sort(reverse=True)
    distances = [
        jensen_shannon(_joint(original, [factor * count if i < kept else 0 for i, count in enumerate(original)]))
        for kept in range(len(original) + 1)
    ]
    assert distances[0] == 1
    assert distances[-1] == pytest.approx(0, abs=1e-9)
    assert all(after < before + 1e-12 for before, after in pairwise(distances))


def test_where_kl_prefers_three_queries_jensen_shannon_prefers_most(duckdb_engine: Engine) -> None:
    """A log of 1,000 queries; a release of three of small counts, and one of 240 with large ones."""
    original = {f"q{i}": 60_000 // i for i in range(1, 1_001)}
    tiny = {f"q{i}": 6 // i for i in range(1, 4)}
    large = {f"q{i}": 60_000 // i for i in range(1, 301) if i % 5}
    kl, js = {}, {}
    for name, release in (("tiny", tiny), ("large", large)):
        views = views_of_counts(duckdb_engine, original, release)
        kl[name], js[name] = KL().measure(*views)["query@500"], JensenShannon().measure(*views)["query"]
    assert kl["tiny"] < kl["large"]
    assert js["tiny"] > js["large"]


def views_of_counts(engine: Engine, original: dict[str, int], release: dict[str, int]) -> tuple[View, View]:
    """Without a log of as many rows."""
    tables = [release_of_counts(["query"], {(query,): n for query, n in held.items()}) for held in (original, release)]
    return View.of_release(tables[0], engine), View.of_release(tables[1], engine)


def _joint(original: list[int], release: list[int]) -> Joint:
    before, after = np.array(original, dtype=np.float64), np.array(release, dtype=np.float64)
    return Joint(before, after, after > 0, np.ones(len(before)))


def _top(original: list[int], release: list[int], original_total: int, release_total: int) -> Top:
    before, after = np.array(original, dtype=np.float64), np.array(release, dtype=np.float64)
    return Top(before, after, after > 0, original_total, release_total)
