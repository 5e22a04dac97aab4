"""Query suggestion: which query comes next (Zhang 2017, section 4.3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from scipy import sparse

from searchveil.lab.applications.graph import BLOCK, ClickGraph, Matrix, weights_between
from searchveil.lab.applications.ranking import Ints, best_first, judge
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View


@dataclass(frozen=True)
class QuerySuggestion:
    """λ·cosine of the click vectors + (1−λ)·share of the later queries; right is any query later in the session.

    Asked is every query of a test session but the last. Later is what follows at any distance in the same session,
    each pair once a session; of a view without sessions, its transitions. (Where parts of sessions are published
    beside them, a pair counts in each part: the thesis counts co-occurrences in what is published.) The query itself
    is neither suggested nor right. The thesis leaves open λ, here one half, and how prefixes are averaged: here
    each counts the same. A query with one clicked url in common has a cosine of 1, however rare: see
    docs/evaluate.md on when a release without such queries beats the log. A prefix is answered if there is anything
    to suggest; "over all" counts the others as 0.
    """

    needs: ClassVar[tuple[str, ...]] = ("transition",)

    click_weight: float = 0.5
    depth: int = 5

    @property
    def score(self) -> str:
        return f"R@{self.depth} over all"

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        prefixes = [
            (number, query, later)
            for number, session in enumerate(test.sessions)
            for place, query in enumerate(session.queries)
            if (later := set(session.queries[place + 1 :]) - {query})
        ]
        suggestions = self.suggest(view, sorted({query for _, query, _ in prefixes}))
        answers = {str(i): prefix for i, prefix in enumerate(prefixes) if prefix[1] in suggestions}
        scores = judge(
            {i: suggestions[query] for i, (_, query, _) in answers.items()},
            {i: dict.fromkeys(sorted(later), 1) for i, (_, _, later) in answers.items()},
            (f"P@{self.depth}", f"R@{self.depth}"),
        )
        share = len(answers) / len(prefixes) if prefixes else 0.0
        return {
            **scores,
            f"R@{self.depth} over all": scores[f"R@{self.depth}"] * share,
            "answered": float(len(answers)),
            "asked": float(len(prefixes)),
            "evaluated sessions": float(len({number for number, _, _ in answers.values()})),
            "sessions": float(len(test.sessions)),
        }

    def suggest(self, view: View, queries: Sequence[str]) -> dict[str, list[str]]:
        """The best suggestions for each query that the view has any for."""
        graph = ClickGraph.of(view)
        numbers = graph.query_numbers(queries)
        known = [(query, node) for query, node in zip(queries, numbers.tolist(), strict=True) if node >= 0]
        nodes = np.array([node for _, node in known], dtype=np.int64)
        directions = _rows_divided(graph.clicks, np.sqrt((graph.clicks**2).sum(axis=1)))
        onto = sparse.csr_array(directions.T)
        later = _later_shares(view, graph, queries) if self.click_weight < 1 else None
        best: dict[str, Ints] = {}
        for begin in range(0, len(nodes), BLOCK):
            some = nodes[begin : begin + BLOCK]
            scores = self.click_weight * (directions[some] @ onto)
            if later is not None:
                scores = sparse.csr_array(scores + (1 - self.click_weight) * later[some])
            for i, (query, node) in enumerate(known[begin : begin + BLOCK]):
                row = slice(scores.indptr[i], scores.indptr[i + 1])
                candidates, chances = scores.indices[row], scores.data[row]
                others = (candidates != node) & (chances > 0)
                if others.any():
                    best[query] = best_first(chances[others], candidates[others], self.depth)
        texts = graph.query_texts(np.concatenate([*best.values(), np.array([], dtype=np.int64)]))
        return {query: [texts[number] for number in numbers.tolist()] for query, numbers in best.items()}


@dataclass(frozen=True)
class ClickSuggestion(QuerySuggestion):
    """The same by clicks alone (λ = 1), for releases that tell nothing of what follows what."""

    needs: ClassVar[tuple[str, ...]] = ("click",)

    click_weight: float = 1.0


def later_pairs(view: View, queries: Sequence[str]) -> pa.Table:
    """How many sessions have `next` anywhere after one of these queries: query, next, count."""
    wanted = view.engine.load(pa.table({"query": pa.array(queries, pa.string())}))
    if not view.has("session"):
        return view.engine.fetch(view.tables["transition"].semi_join(wanted, "query"))
    sessions = view.tables["session"]
    placed = sessions.mutate(query=sessions["session"]).unnest("query", offset="place").semi_join(wanted, "query")
    first = placed.filter(placed["place"] == placed["session"].index(placed["query"]))
    later = first["session"][first["place"] + 1 :].unique()
    pairs = first.select("query", "count", next=later.unnest())
    pairs = pairs.filter(pairs["query"] != pairs["next"])
    return view.engine.fetch(pairs.group_by(["query", "next"]).agg(count=pairs["count"].sum()))


def _later_shares(view: View, graph: ClickGraph, queries: Sequence[str]) -> Matrix:
    """e(q_i, q_j)/d(q_i) for these queries; the rows of other queries are empty."""
    pairs = later_pairs(view, queries)
    first, second = graph.query_numbers(pairs["query"]), graph.query_numbers(pairs["next"])
    number = graph.clicks.shape[0]
    edges = weights_between(pairs["count"], first, second, (number, number))
    return _rows_divided(edges, edges.sum(axis=1))


def _rows_divided(matrix: Matrix, by: Matrix) -> Matrix:
    """Each row divided by its number; where that is 0 the row is empty anyway."""
    return sparse.csr_array(sparse.diags_array(np.divide(1, by, out=np.zeros_like(by), where=by > 0)) @ matrix)
