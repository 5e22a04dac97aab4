"""Session search: discounted sums of reciprocal ranks."""

from fractions import Fraction
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications.session_search import SessionSearch, merge
from searchveil.lab.testset import TestSession


def rankings(longest: int) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(st.sampled_from("abcd"), unique=True, max_size=longest), max_size=5)


def written_out(rankings: list[list[str]]) -> dict[str, Fraction]:
    """The score of each url, exactly, for γ = 1/2."""
    n = len(rankings)
    return {
        url: sum(
            (Fraction(1, 2 ** (n - i) * (r.index(url) + 1)) for i, r in enumerate(rankings, start=1) if url in r),
            Fraction(),
        )
        for url in {url for ranking in rankings for url in ranking}
    }


def test_a_later_query_counts_more() -> None:
    assert merge([["a", "b"], ["b"]], 0.5) == ["b", "a"]  # b: 0.5/2 + 1, a: 0.5
    assert merge([["a"], ["b"]], 0.5) == ["b", "a"]
    assert merge([["a"], ["b"]], 2.0) == ["a", "b"]
    assert merge([["b"], ["a"]], 1.0) == ["a", "b"]  # equal: in the order of the texts
    assert merge([[], []], 0.9) == []


@given(rankings(4))
def test_merging_agrees_with_the_sum_written_out(rankings: list[list[str]]) -> None:
    """Urls of the same exact score may change places: 1/3 + 1/6 is not 1/2 in floating point."""
    score = written_out(rankings)
    merged = merge(rankings, 0.5)
    assert sorted(merged) == sorted(score)
    assert [score[url] for url in merged] == sorted(score.values(), reverse=True)


@given(rankings(2))
def test_equal_scores_are_in_the_order_of_the_texts(rankings: list[list[str]]) -> None:
    """At the places 1 and 2 all scores are sums of powers of 1/2, which floating point holds exactly."""
    score = written_out(rankings)
    assert merge(rankings, 0.5) == sorted(score, key=lambda url: (-score[url], url))


def test_scores_in_closed_form(duckdb_engine: Engine) -> None:
    """The session's ranking is v (1 + 0.92/2), u (0.92): its only click, u, comes second."""
    view = tiny_view(duckdb_engine, click=[("p", "u", 2), ("p", "v", 1), ("q", "v", 1)])
    sessions = [
        TestSession(("p", "q"), ("u",)),
        TestSession(("unknown", "neither"), ("u",)),
        TestSession(("p", "q"), ()),  # no click, no right answer: not asked
    ]
    found = SessionSearch(steps=1).run(view, tiny_test(view, sessions=sessions))
    assert found == pytest.approx(
        {"nDCG@10": 1 / log2(3), "MAP": 0.5, "nDCG@10 over all": 0.5 / log2(3), "answered": 1, "asked": 2}
    )


def test_nothing_to_ask(duckdb_engine: Engine) -> None:
    view = tiny_view(duckdb_engine, click=[("p", "u", 2)])
    assert SessionSearch().run(view, tiny_test(view)) == {
        "nDCG@10": 0.0,
        "MAP": 0.0,
        "nDCG@10 over all": 0.0,
        "answered": 0.0,
        "asked": 0.0,
    }
