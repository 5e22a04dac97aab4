"""Query substitution: the ratio against two independent ways, phrases and rankings in closed form."""

from math import log, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2_contingency
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications.query_substitution import (
    Phrases,
    QuerySubstitution,
    compare,
    log_likelihood_ratio,
    map_as_published,
    one_change,
    significant,
)

CELLS = st.tuples(*[st.integers(1, 500)] * 4)


def ratio(both: float, first: float, second: float, total: float) -> float:
    return float(log_likelihood_ratio(np.array([both]), np.array([first]), np.array([second]), total)[0])


@given(CELLS)
def test_the_ratio_is_that_of_two_binomials_against_one(cells: tuple[int, int, int, int]) -> None:
    """Directly: P(second | first) and P(second | not first) each at its own best, against one for both."""
    both, first_only, second_only, neither = cells
    first, other = both + first_only, second_only + neither
    p, p_first, p_other = (both + second_only) / (first + other), both / first, second_only / other
    logpmf = binom.logpmf
    apart = logpmf(both, first, p_first) + logpmf(second_only, other, p_other)
    together = logpmf(both, first, p) + logpmf(second_only, other, p)
    found = ratio(both, first, both + second_only, first + other)
    assert found == pytest.approx(max(0.0, 2 * (apart - together)), abs=1e-6)


@given(CELLS)
def test_the_ratio_is_scipys(cells: tuple[int, int, int, int]) -> None:
    table = np.array(cells).reshape(2, 2)
    expected = chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
    found = ratio(table[0, 0], table[0].sum(), table[:, 0].sum(), table.sum())
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_ratio_at_the_edges() -> None:
    assert ratio(5, 10, 50, 100) == pytest.approx(0, abs=1e-9)  # independent
    assert ratio(10, 10, 10, 20) == pytest.approx(2 * 20 * log(2))  # the one is the other
    assert ratio(0, 10, 10, 20) == pytest.approx(2 * 20 * log(2))  # the one excludes the other


def test_only_pairs_that_attract_are_significant() -> None:
    pairs = {("a", "b"): 50, ("a", "c"): 1, ("d", "c"): 50, ("d", "b"): 1, ("e", "f"): 1}
    found = significant(pairs, ["a", "e", "nobody"], 3.84)
    assert found == {"a": {"b": pytest.approx(ratio(50, 51, 51, 103))}, "e": {"f": pytest.approx(ratio(1, 1, 1, 103))}}
    assert "e" not in significant(pairs, ["a", "e"], 12)


def test_words_met_oftener_than_chance_form_a_phrase() -> None:
    """Of 75 words new and york are 10 each, and 10 of 35 neighbours; maps are 30, and 5 times after york."""
    pairs = {("new york", "new york maps"): 5, ("red maps", "blue maps"): 10, ("maps", "green"): 5}
    information, of_york_maps = log(10 / 35 / (10 / 75) ** 2), log(5 / 35 / (10 / 75 * 30 / 75))
    assert Phrases.of(pairs, information - 1e-9).split("new york maps") == ["new york", "maps"]
    assert Phrases.of(pairs, information + 1e-9).split("new york maps") == ["new", "york", "maps"]
    assert Phrases.of(pairs, of_york_maps + 1e-9).split("new york maps") == ["new york", "maps"]
    assert Phrases.of(pairs, of_york_maps - 1e-9).split("new york maps") == ["new york maps"]
    assert Phrases.of({}, 1).split("a b") == ["a", "b"]
    assert Phrases.of({}, 1).split("") == []


def test_what_changed_is_one_phrase_or_nothing() -> None:
    assert one_change(["new york", "maps"], ["boston", "maps"]) == ("new york", "boston")
    assert one_change(["maps"], ["map"]) == ("maps", "map")
    assert one_change(["a", "b"], ["c", "d"]) is None
    assert one_change(["a"], ["a", "b"]) is None
    assert one_change(["a"], ["a"]) is None


def test_substitutions_of_queries_and_of_phrases(duckdb_engine: Engine) -> None:
    """cheap turns into low-cost in many queries, so also in one that was never rewritten."""
    rows = [(f"cheap {thing}", f"low-cost {thing}", 10) for thing in ("cars", "beds", "pens")]
    rows += [("boats", "ships", 8), ("x1", "x2", 50), ("gone", "never", 0)]
    found = QuerySubstitution(least_information=99).substitutions(
        tiny_view(duckdb_engine, transition=rows), ["cheap boats", "cheap cars", "boats", "gone", "unheard of"]
    )
    assert found == {
        # The phrase pairs: cheap → low-cost 30, boats → ships 8, x1 → x2 50, of 88.
        "cheap boats": ["low-cost boats", "cheap ships"],
        "cheap cars": ["low-cost cars"],
        "boats": ["ships"],
    }


def test_only_the_most_frequent_pairs_are_read(duckdb_engine: Engine) -> None:
    view = tiny_view(duckdb_engine, transition=[("a", "b", 9), ("c", "d", 9), ("e", "f", 8)])
    assert set(QuerySubstitution(most_pairs=2).substitutions(view, ["a", "c", "e"])) == {"a", "c"}


def test_the_papers_map_is_no_mean_and_rewards_what_is_missing() -> None:
    assert map_as_published(["a", "b", "c"], ["a", "b", "c"]) == 3
    assert map_as_published(["b", "a"], ["a", "b"]) == pytest.approx(1 / 2 + 2 / 1)
    assert map_as_published([], ["a", "b"]) == 1 + 2
    assert map_as_published(["x"], ["a"]) == 1


def test_comparison_in_closed_form() -> None:
    """q: half of two are right, in second place; r has no answer; s has no truth and is not asked."""
    found = {"q": ["wrong", "best", "too deep"], "s": ["x"]}
    truth = {"q": ["best", "good"], "r": ["only"]}
    assert compare(found, truth, 2) == pytest.approx(
        {
            "precision@2": 1 / 2,
            "recall@2": (1 / 2 + 0) / 2,
            "nDCG@2": (2 / log2(3)) / (2 + 1 / log2(3)),
            "MAP@2": (1 / 2) / 2,
            "MAP@2 as published": 1 / 2 + 2 / 1,
        }
    )
    assert set(compare({}, {}, 5).values()) == {0.0}


def test_a_release_is_compared_with_the_original(duckdb_engine: Engine) -> None:
    original = tiny_view(duckdb_engine, transition=[("a", "b", 30), ("a", "c", 20), ("d", "e", 40)])
    release = tiny_view(duckdb_engine, transition=[("a", "c", 25), ("x", "y", 40)])
    test = tiny_test(original, clicks={"a": {}, "d": {}, "x": {}})
    assert QuerySubstitution(depths=(2,)).run(original, test) == pytest.approx(
        {
            "precision@2": 1,
            "recall@2": 1,
            "nDCG@2": 1,
            "MAP@2": 1,
            "MAP@2 as published": (2 + 1) / 2,
            "answered": 2,
            "asked": 2,
        }
    )
    assert QuerySubstitution(depths=(2,)).run(release, test) == pytest.approx(
        {
            "precision@2": 1,
            "recall@2": (1 / 2 + 0) / 2,
            "nDCG@2": 1 / (2 + 1 / log2(3)),
            "MAP@2": 1 / 2,
            "MAP@2 as published": 1 + 2 / 1,
            "answered": 1,
            "asked": 2,
        }
    )
