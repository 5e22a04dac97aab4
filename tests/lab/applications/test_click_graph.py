"""The click graph and its walks, against dense matrix powers and the thesis's formulas written as loops."""

from math import log

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tiny_logs import tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications import graph as graph_module
from searchveil.lab.applications.graph import ClickGraph, chances_of, walk_ends

Dense = npt.NDArray[np.float64]
WEIGHTS = st.integers(2, 6).flatmap(
    lambda n: st.lists(st.lists(st.sampled_from([0, 0, 1, 2, 7]), min_size=n, max_size=n), min_size=n, max_size=n)
)


def by_the_formula(weights: Dense, self_loop: float, impact: Dense | None = None) -> Dense:
    """P(k|j) of equations 3.5 and 3.7, entry by entry."""
    n = len(weights)
    chances = np.zeros((n, n))
    for j in range(n):
        out = sum(weights[j, i] for i in range(n) if i != j)
        for k in range(n):
            chances[j, k] = (self_loop if out else 1) if j == k else (1 - self_loop) * weights[j, k] / (out or 1)
        if impact is not None:
            links = [i for i in range(n) if i != j and weights[j, i] > 0]
            raised = [impact[k] / (sum(impact[i] for i in links) or 1) * chances[j, k] for k in range(n)]
            chances[j] = np.array(raised) / sum(raised)
    return chances


def dense_ends(weights: Dense, starts: list[int], steps: int, first_end: int, **options: int) -> Dense:
    step = chances_of(sparse.csr_array(weights), 0.1)
    found = np.zeros((len(starts), len(weights) - first_end))
    for i, (chances, nodes) in enumerate(walk_ends(step, np.array(starts), steps, first_end=first_end, **options)):
        found[i, nodes] = chances
    return found


@given(WEIGHTS, st.floats(0, 0.9))
def test_chances_are_those_of_the_formula(weights: list[list[int]], self_loop: float) -> None:
    table = np.array(weights, dtype=float)
    chances = chances_of(sparse.csr_array(table), self_loop).toarray()
    np.testing.assert_allclose(chances, by_the_formula(table, self_loop), atol=1e-15)
    np.testing.assert_allclose(chances.sum(axis=1), 1)


@pytest.mark.slow
@given(WEIGHTS)
def test_impact_draws_the_walk_as_the_formula_says(weights: list[list[int]]) -> None:
    table = np.array(weights, dtype=float)
    impact = 1 + np.log1p(table.sum(axis=0))
    chances = chances_of(sparse.csr_array(table), 0.1, impact).toarray()
    np.testing.assert_allclose(chances, by_the_formula(table, 0.1, impact), atol=1e-15)


@pytest.mark.slow
@given(WEIGHTS, st.integers(1, 6), st.integers(0, 1))
def test_a_walk_is_a_power_of_the_matrix(weights: list[list[int]], steps: int, first_end: int) -> None:
    table = np.array(weights, dtype=float)
    starts = [0, len(table) - 1, 0]
    powers = np.linalg.matrix_power(by_the_formula(table, 0.1), steps)[starts, first_end:]
    np.testing.assert_allclose(dense_ends(table, starts, steps, first_end), powers, atol=1e-15)


@pytest.mark.parametrize("block", [1, 7, 100])
@pytest.mark.parametrize("crowded", [0.0, 1.0])
def test_blocks_and_full_matrices_change_nothing(block: int, crowded: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "CROWDED", crowded)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, (40, 40)).astype(float)
    starts = rng.integers(0, 40, 25).tolist()
    powers = np.linalg.matrix_power(by_the_formula(weights, 0.1), 4)[starts, 10:]
    np.testing.assert_allclose(dense_ends(weights, starts, 4, 10, block=block), powers, atol=1e-14)


def test_one_step_follows_clicks_and_transitions_in_proportion(duckdb_engine: Engine) -> None:
    view = tiny_view(
        duckdb_engine,
        click=[("b", "y", 1), ("a", "y", 3), ("a", "x", 2), ("c", "z", 0), ("b", "z", -4)],
        transition=[("a", "d", 5)],
    )
    graph = ClickGraph.of(view)
    assert graph.query_texts(np.arange(4)) == dict(enumerate("abcd"))
    assert graph.urls.to_pylist() == ["x", "y", "z"]
    assert graph.query_numbers(["d", "nobody asks", "a"]).tolist() == [3, -1, 0]
    chances = chances_of(graph.weights, 0.1).toarray()
    np.testing.assert_allclose(chances[0], [0.1, 0, 0, 0.9 * 0.5, 0.9 * 0.2, 0.9 * 0.3, 0])
    np.testing.assert_allclose(chances[1], [0, 0.1, 0, 0, 0, 0.9, 0])  # a count below one is no link
    np.testing.assert_allclose(chances[2], [0, 0, 1, 0, 0, 0, 0])  # nowhere to go
    np.testing.assert_allclose(chances[3], [0, 0, 0, 1, 0, 0, 0])  # a transition leads one way
    np.testing.assert_allclose(chances[5], [0.9 * 0.75, 0.9 * 0.25, 0, 0, 0, 0.1, 0])  # a click leads both


def test_urls_come_in_the_order_of_their_chances_then_of_their_texts(duckdb_engine: Engine) -> None:
    view = tiny_view(
        duckdb_engine, click=[("q", "c", 1), ("q", "a", 1), ("q", "b", 2), ("lone", "z", 1), ("silent", "y", 0)]
    )
    graph = ClickGraph.of(view)
    step = chances_of(graph.weights, 0.1)
    assert graph.search(step, ["q", "unknown", "lone", "silent"], 3, 10) == {"q": ["b", "a", "c"], "lone": ["z"]}
    assert graph.search(step, ["q"], 3, 2) == {"q": ["b", "a"]}
    assert graph.search(step, ["unknown"], 3, 2) == {}


def test_a_graph_is_read_once_for_each_view(duckdb_engine: Engine) -> None:
    rows = [("q", "u", 1)]
    view, other = tiny_view(duckdb_engine, click=rows), tiny_view(duckdb_engine, click=rows)
    assert ClickGraph.of(view) is ClickGraph.of(view)
    assert ClickGraph.of(view) is not ClickGraph.of(other)


def test_every_step_shares_the_links_of_the_graph(duckdb_engine: Engine) -> None:
    """Of a log of 36 million rows they take half a gigabyte; a copy for each application would not fit in memory."""
    from searchveil.lab.applications.ad_hoc_search import AdHocSearch, ImpactSearch

    view = tiny_view(duckdb_engine, click=[("q", "u", 1), ("p", "u", 2)], transition=[("q", "p", 1)])
    graph = ClickGraph.of(view)
    assert AdHocSearch().step(graph).links is ImpactSearch().step(graph).links is graph.weights


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.permutations([("q", "u", 3), ("q", "v", 1), ("p", "v", 2), ("r", "w", 4), ("r", "v", 1)]))
def test_the_order_of_rows_does_not_matter(duckdb_engine: Engine, rows: list[tuple[str, str, int]]) -> None:
    graph = ClickGraph.of(tiny_view(duckdb_engine, click=rows))
    assert graph.clicks.toarray().tolist() == [[0, 2, 0], [3, 1, 0], [0, 1, 4]]


def test_the_impact_of_a_page_is_one_plus_a_logarithm(duckdb_engine: Engine) -> None:
    """Two clicks to u and one to v, but v has 99 more elsewhere: the walk prefers v."""
    from searchveil.lab.applications.ad_hoc_search import AdHocSearch, ImpactSearch

    graph = ClickGraph.of(tiny_view(duckdb_engine, click=[("q", "u", 2), ("q", "v", 1), ("p", "v", 99)]))
    of_u, of_v = 1 + log(3), 1 + log(101)
    total = 0.1 + 0.6 * of_u + 0.3 * of_v
    chances = ImpactSearch().step(graph).toarray()[1]
    np.testing.assert_allclose(chances, [0, 0.1 / total, 0.6 * of_u / total, 0.3 * of_v / total])
    assert graph.search(ImpactSearch().step(graph), ["q"], 1, 2) == {"q": ["v", "u"]}
    assert graph.search(AdHocSearch().step(graph), ["q"], 1, 2) == {"q": ["u", "v"]}
