"""The distribution of counts, and the exponent of its fall."""

from math import log

import numpy as np
import pytest
import scipy.stats
from tiny import views_of_queries

from searchveil.engine import Engine
from searchveil.lab.measures.count_distribution import CountDistribution, distribution, exponent, most_frequent


def test_how_many_items_have_each_count(duckdb_engine: Engine) -> None:
    original, release = views_of_queries(duckdb_engine, {"a": 5, "b": 2, "c": 2, "d": 1}, {"a": 9, "x": 9})
    assert distribution(original, "query") == [(1, 1), (2, 2), (5, 1)]
    assert distribution(release, "query") == [(9, 2)]


@pytest.mark.slow
def test_figures_of_both(duckdb_engine: Engine) -> None:
    """Expected is the exponent of the original's three most frequent items, as the release has three."""
    views = views_of_queries(duckdb_engine, {"a": 8, "b": 4, "c": 2, "d": 1, "e": 1}, {"a": 12, "b": 6, "c": 6})
    figures = CountDistribution().measure(*views)
    assert {name: value for name, value in figures.items() if name.startswith("query.")} == {
        "query.items_original": 5,
        "query.total_original": 16,
        "query.exponent_original": pytest.approx(likeliest([8, 4, 2, 1, 1]), abs=1e-3),
        "query.items_release": 3,
        "query.total_release": 24,
        "query.exponent_release": pytest.approx(likeliest([12, 6, 6]), abs=1e-3),
        "query.exponent_expected": pytest.approx(likeliest([8, 4, 2]), abs=1e-3),
    }


def likeliest(counts: list[int]) -> float:
    """By trying: the exponent of largest likelihood, normalised over a million whole numbers and an integral beyond."""
    numbers = np.arange(min(counts), 10**6, dtype=np.float64)
    tried = np.arange(1.2, 8, 2e-3)

    def likelihood(a: float) -> float:
        norm = float((numbers**-a).sum()) + (10**6) ** (1 - a) / (a - 1)
        return -a * sum(log(count) for count in counts) - len(counts) * log(norm)

    coarse = max(tried[::50], key=likelihood)
    return float(max(tried[abs(tried - coarse) <= 0.1], key=likelihood))


def test_the_most_frequent_are_taken_with_all_of_their_count() -> None:
    counts = [(1, 10), (2, 5), (7, 1)]
    assert most_frequent(counts, 1) == [(7, 1)]
    assert most_frequent(counts, 2) == [(2, 5), (7, 1)]
    assert most_frequent(counts, 0) == []
    assert most_frequent(counts, 99) == counts


def test_one_count_has_no_exponent() -> None:
    assert exponent([(3, 40)]) is None
    assert exponent([]) is None
    assert exponent([(0, 5), (3, 40)]) is None  # what is not positive is in no power law


def test_the_exponent_of_a_power_law_is_found() -> None:
    """Ten thousand draws of exponent 2.5 from 10 on: the standard error is 1.5/√10000, and 5 of it a 6e-7 chance."""
    draws = np.floor(9.5 * (1 - np.random.default_rng(1).random(10_000)) ** (-1 / 1.5) + 0.5).astype(int)
    values, numbers = np.unique(draws, return_counts=True)
    assert exponent(list(zip(values.tolist(), numbers.tolist(), strict=True))) == pytest.approx(2.5, abs=0.075 + 0.01)


def test_the_exponent_is_right_from_a_count_of_one_on() -> None:
    """Where the approximation by a continuous law is off by a quarter; the error allowed is five standard ones."""
    draws = scipy.stats.zipf(2.2).rvs(20_000, random_state=1)
    values, numbers = np.unique(draws, return_counts=True)
    assert exponent(list(zip(values.tolist(), numbers.tolist(), strict=True))) == pytest.approx(2.2, abs=0.06)
