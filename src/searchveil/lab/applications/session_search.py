"""Session search: documents for a whole session of queries (Zhang 2017, section 4.3.2)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from searchveil.lab.applications.graph import ClickGraph, chances_of
from searchveil.lab.applications.ranking import answered, judge
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View


@dataclass(frozen=True)
class SessionSearch:
    """Σ γ^(n−i)·score(q_i, d), where score is 1/rank of d by a random walk from q_i; relevant is what was clicked.

    The thesis leaves γ open ("close to 1"); 0.92 is the value of the work it takes the sum from. Where it links
    queries that follow at any distance in a session, the links here are the view's transitions: pairs of all queries
    grow with the square of a session, and a release of pairs has only adjacent ones. MAP is the usual one; the
    thesis stops at place 10 and divides by at most 10. Sessions here have two or more different queries; those with a
    click are asked, and answered if the view knows any of their queries.
    """

    needs: ClassVar[tuple[str, ...]] = ("click",)
    score: ClassVar[str] = "nDCG@10 over all"

    discount: float = 0.92
    self_loop: float = 0.1
    steps: int = 3
    depth: int = 1_000

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        asked = [session for session in test.sessions if session.clicks]
        queries = sorted({query for session in asked for query in session.queries})
        graph = ClickGraph.of(view)
        found = graph.search(chances_of(graph.weights, self.self_loop), queries, self.steps, self.depth)
        rankings, relevance = {}, {}
        for number, session in enumerate(asked):
            ranking = merge([found.get(query, ()) for query in session.queries], self.discount)[: self.depth]
            if ranking:
                rankings[str(number)] = ranking
                relevance[str(number)] = dict.fromkeys(session.clicks, 1)
        return answered(judge(rankings, relevance, ("nDCG@10", "AP")), len(rankings), len(asked), headline="nDCG@10")


def merge(rankings: Sequence[Sequence[str]], discount: float) -> list[str]:
    """One ranking from those of a session's queries, first query first; equal floats in the order of the texts."""
    scores: Mapping[str, float] = _sums(rankings, discount)
    return sorted(scores, key=lambda url: (-scores[url], url))


def _sums(rankings: Sequence[Sequence[str]], discount: float) -> Mapping[str, float]:
    scores: defaultdict[str, float] = defaultdict(float)
    for age, ranking in enumerate(reversed(rankings)):
        for rank, url in enumerate(ranking, start=1):
            scores[url] += discount**age / rank
    return scores
