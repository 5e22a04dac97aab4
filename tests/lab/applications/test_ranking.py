"""Rankings are measured as their definitions say, whatever the texts are and however scores tie."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchveil.lab.applications.ranking import answered, best_first, judge

TEXTS = st.sampled_from(["a", "b b", "ü", "", "c\td", "e\nf", "g\x00h", "0", "missing 0"])


@given(st.lists(TEXTS, unique=True), st.sets(TEXTS, min_size=1))
def test_judging_agrees_with_the_definitions(ranking: list[str], relevant: set[str]) -> None:
    hits = [text in relevant for text in ranking]
    gain = sum(hit / log2(i + 2) for i, hit in enumerate(hits[:10]))
    ideal = sum(1 / log2(i + 2) for i in range(min(10, len(relevant))))
    precisions = [sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit]
    found = judge({"q": ranking}, {"q": dict.fromkeys(relevant, 1)}, ("nDCG@10", "AP", "P@5", "R@5"))
    assert found == pytest.approx(
        {
            "nDCG@10": gain / ideal,
            "MAP": sum(precisions) / len(relevant),
            "P@5": sum(hits[:5]) / 5,
            "R@5": sum(hits[:5]) / len(relevant),
        }
    )


def test_the_mean_is_over_the_rankings_there_are() -> None:
    relevance = {"one": {"a": 1}, "two": {"b": 1}, "not asked": {"c": 1}}
    assert judge({"one": ["a"], "two": ["a"]}, relevance, ("P@5", "AP")) == pytest.approx({"P@5": 0.1, "MAP": 0.5})
    assert judge({}, relevance, ("P@5", "AP")) == {"P@5": 0.0, "MAP": 0.0}


def test_grades_count_in_ndcg() -> None:
    found = judge({"q": ["second", "first"]}, {"q": {"first": 2, "second": 1}}, ("nDCG@2",))
    assert found["nDCG@2"] == pytest.approx((1 + 2 / log2(3)) / (2 + 1 / log2(3)))


def test_silence_is_told_and_counted_as_nothing() -> None:
    assert answered({"P@5": 0.6}, 1, 4, headline="P@5") == {
        "P@5": 0.6,
        "P@5 over all": pytest.approx(0.15),
        "answered": 1.0,
        "asked": 4.0,
    }
    assert answered({"P@5": 0.0}, 0, 0, headline="P@5")["P@5 over all"] == 0.0


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 6))
def test_the_best_come_first_and_ties_by_name(values: list[int], depth: int) -> None:
    names = np.arange(len(values))[::-1] * 3
    expected = sorted(names.tolist(), key=lambda name: (-values[len(values) - 1 - name // 3], name))[:depth]
    assert best_first(np.array(values, dtype=float), names, depth).tolist() == expected


def test_sums_added_in_another_order_tie() -> None:
    scores = np.array([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1])
    assert scores[0] > scores[1]
    assert best_first(scores, np.array([9, 4]), 2).tolist() == [4, 9]
