"""Ad-hoc search on logs whose rankings are plain to see."""

from math import log2

import pytest
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications.ad_hoc_search import AdHocSearch
from searchveil.lab.applications.implicit_feedback import PublishedFeedback, TrainingFeedback, merge


def test_scores_of_a_walk_in_closed_form(duckdb_engine: Engine) -> None:
    """From q1 the walk finds a, then b, and by way of b and q2 also c; a and c are right."""
    view = tiny_view(duckdb_engine, click=[("q1", "a", 3), ("q1", "b", 1), ("q2", "b", 1), ("q2", "c", 1)])
    test = tiny_test(view, clicks={"q1": {"a": 2, "c": 1}, "unknown": {"a": 1}, "never clicked": {}})
    ndcg = (1 + 1 / log2(4)) / (1 + 1 / log2(3))
    assert AdHocSearch().run(view, test) == pytest.approx(
        {
            "nDCG@10": ndcg,
            "MAP": (1 + 2 / 3) / 2,
            "P@5": 2 / 5,
            "P@10": 2 / 10,
            "nDCG@10 over all": ndcg / 2,
            "answered": 1,
            "asked": 2,
        }
    )


def test_one_step_does_not_reach_what_other_queries_found(duckdb_engine: Engine) -> None:
    view = tiny_view(duckdb_engine, click=[("q1", "b", 1), ("q2", "b", 1), ("q2", "c", 1)])
    test = tiny_test(view, clicks={"q1": {"c": 1}})
    assert AdHocSearch(steps=1).run(view, test)["MAP"] == 0
    assert AdHocSearch(steps=3).run(view, test)["MAP"] == 0.5


def test_transitions_lead_to_the_clicks_of_the_next_query(duckdb_engine: Engine) -> None:
    clicks = [("q", "u", 1)]
    with_transitions = tiny_view(duckdb_engine, click=clicks, transition=[("typo", "q", 1)])
    without = tiny_view(duckdb_engine, click=clicks)
    test = tiny_test(with_transitions, clicks={"typo": {"u": 1}})
    assert AdHocSearch().run(with_transitions, test)["nDCG@10"] == 1
    assert AdHocSearch().run(without, test)["answered"] == 0


def test_merging_follows_the_formula() -> None:
    clicks = {"a": 5, "b": 3, "c": 1}  # 1/2, 1/3, 1/4
    assert merge(clicks, {}, 0.6) == ["a", "b", "c"]
    assert merge(clicks, {"c": 9}, 0.6) == ["a", "c", "b"]  # c: 0.6/2 + 0.4/4 = 0.4
    assert merge(clicks, {"c": 9}, 0.9) == ["a", "c", "b"]  # c: 0.9/2 + 0.1/4 = 0.475
    assert merge(clicks, {"c": 9, "a": 2}, 0.6) == ["a", "c", "b"]  # a: 0.6/3 + 0.4/2 = 0.4 and stands first by name
    assert merge(clicks, {"c": 9, "a": 2}, 0.7) == ["c", "a", "b"]  # c: 0.425, a: 0.3833
    assert merge(clicks, {"unseen": 9}, 0.6) == ["a", "b", "c"]  # feedback finds nothing that the view does not have
    assert merge({"b": 1, "a": 1}, {}, 0.6) == ["a", "b"]


def test_training_feedback_is_the_original_logs(duckdb_engine: Engine) -> None:
    """A release has z before y; the engine's own clicks turn them back: y 0.6/3 + 0.4/4, z 0.6/4 + 0.4/3."""
    original = tiny_view(duckdb_engine, click=[("q", "x", 9), ("q", "y", 5), ("q", "z", 1)])
    release = tiny_view(duckdb_engine, click=[("q", "x", 9), ("q", "z", 4), ("q", "y", 3), ("q", "gone", 0)])
    test = tiny_test(original, clicks={"q": {"y": 1}})
    assert TrainingFeedback(weight=0.0).run(release, test)["MAP"] == pytest.approx(1 / 3)
    assert TrainingFeedback().run(release, test)["MAP"] == pytest.approx(1 / 2)


def test_feedback_that_turns_the_ranking(duckdb_engine: Engine) -> None:
    """Three urls; the view ranks z last, the feedback of the test lifts it over y, that of the training does not."""
    original = tiny_view(duckdb_engine, click=[("q", "x", 9), ("q", "y", 5), ("q", "z", 1)])
    test = tiny_test(original, clicks={"q": {"z": 1}, "unknown": {"z": 1}})
    assert PublishedFeedback().run(original, test) == pytest.approx(
        {
            "nDCG@10": 1 / log2(3),
            "MAP": 1 / 2,
            "P@5": 1 / 5,
            "P@10": 1 / 10,
            "nDCG@10 over all": 1 / log2(3) / 2,
            "answered": 1,
            "asked": 2,
        }
    )
    assert TrainingFeedback().run(original, test)["MAP"] == pytest.approx(1 / 3)
