"""Index caching: the greedy fill against a loop, hit probabilities in closed form."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications.index_caching import IndexCaching, fill


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9))), st.integers(0, 30))
def test_filling_agrees_with_a_loop(lists: list[tuple[int, int]], room: int) -> None:
    left, expected = room, [False] * len(lists)
    for i in sorted(range(len(lists)), key=lambda i: -lists[i][0]):
        if lists[i][1] <= left:
            expected[i], left = True, left - lists[i][1]
    scores, sizes = np.array([s for s, _ in lists], dtype=float), np.array([n for _, n in lists], dtype=np.int64)
    assert fill(scores, sizes, room).tolist() == expected


@example([(50, 9, 1_000), (40, 9, 1_000), (1, 0, 1), (1, 0, 1), (1, 0, 1)], 2, 4)  # the log has 90 hits, not 43
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 1_000)), min_size=1),
    st.integers(1, 10),
    st.integers(0, 60),
)
def test_no_release_beats_the_log_by_more_than_the_first_list_that_did_not_fit(
    keywords: list[tuple[int, int, int]], longest: int, room: int
) -> None:
    """Asked what the log itself asks. The first list that does not fit is found by a loop of our own."""
    original, release, documents = np.array(keywords).T
    caching = IndexCaching(memory=room, bytes_per_posting=1, longest_list=longest)
    ours, theirs = (original[caching.choose(counts, documents)[0]].sum() for counts in (original, release))
    left, not_fitting = room, 0
    lengths = np.minimum(documents, longest).tolist()
    for i in sorted(range(len(keywords)), key=lambda i: -original[i] / lengths[i]):
        if lengths[i] > left:
            not_fitting = original[i]
            break
        left -= lengths[i]
    assert theirs <= ours + not_fitting


def test_a_long_list_costs_no_more_than_what_is_held_of_it(duckdb_engine: Engine) -> None:
    """a is in 1,000 documents, of which 10 are held: for them it answers more than b does for its 10."""
    view = tiny_view(duckdb_engine, keyword=[("a", 90), ("b", 10)])
    caching = IndexCaching(memory=10, bytes_per_posting=1, longest_list=10, documents={"a": 1_000, "b": 10})
    assert caching.run(view, tiny_test(view))["hit probability"] == pytest.approx(0.9)


def test_hit_probability_in_closed_form(duckdb_engine: Engine) -> None:
    """Room for ten postings: b (score 4, 2 postings), then c (score 2, 5) fit; a (score 10/8, 10 cut to 8) does not."""
    view = tiny_view(duckdb_engine, keyword=[("a", 10), ("b", 8), ("c", 10), ("not indexed", 99), ("no documents", 5)])
    workload = tiny_view(duckdb_engine, keyword=[("a", 5), ("b", 3), ("c", 1), ("d", 1)])
    documents = {"a": 10, "b": 2, "c": 5, "no documents": 0}
    caching = IndexCaching(memory=80, bytes_per_posting=8, longest_list=8, documents=documents)
    assert caching.run(view, tiny_test(view, workload=workload)) == pytest.approx(
        {"hit probability": 0.4, "cached lists": 2, "memory used": 0.7}
    )
    # Cut at three postings, all three lists have room: 2 + 3 + 3.
    short = IndexCaching(memory=80, bytes_per_posting=8, longest_list=3, documents=documents)
    assert short.run(view, tiny_test(view, workload=workload)) == pytest.approx(
        {"hit probability": 0.9, "cached lists": 3, "memory used": 0.8}
    )


def test_different_queries_stand_for_documents(engine: Engine) -> None:
    """Of four different queries free is in three, songs in two, maps in one; a repeated word is one document's.

    Documents: free 300, songs 200, maps 100. Scores: 0.1, 0.15, 0.02. Songs go first, then free has no room, maps has.
    """
    original = tiny_view(
        engine, query=[("free songs", 50), ("free free maps", 1), ("free", 1), ("songs", 1)], keyword=[("free", 1)]
    )
    release = tiny_view(engine, keyword=[("free", 30), ("songs", 30), ("maps", 2)])
    workload = tiny_view(engine, keyword=[("free", 1), ("songs", 2), ("maps", 4)])
    caching = IndexCaching(memory=499, bytes_per_posting=1, collection=400)
    assert caching.run(release, tiny_test(original, workload=workload)) == pytest.approx(
        {"hit probability": 6 / 7, "cached lists": 2, "memory used": 300 / 499}
    )


def test_an_empty_release_and_an_empty_workload(duckdb_engine: Engine) -> None:
    full = tiny_view(duckdb_engine, query=[("a", 1)], keyword=[("a", 1)])
    empty = tiny_view(duckdb_engine, query=[], keyword=[])
    nothing = {"hit probability": 0.0, "cached lists": 0.0, "memory used": 0.0}
    assert IndexCaching().run(empty, tiny_test(full)) == nothing
    assert IndexCaching().run(full, tiny_test(full, workload=empty))["hit probability"] == 0
