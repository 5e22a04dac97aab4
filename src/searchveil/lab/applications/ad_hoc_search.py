"""Ad-hoc search by a random walk on the click graph (Zhang 2017, section 3.4)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from searchveil.lab.applications.graph import ClickGraph, Step, chances_of
from searchveil.lab.applications.ranking import answered, judge
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View

MEASURES = ("nDCG@10", "AP", "P@5", "P@10")


@dataclass(frozen=True)
class AdHocSearch:
    """Rank urls by the chance that a walk from the query stands there; relevant is what was clicked in the test.

    The thesis leaves open how long the walk is and whether it leads back from a url to its queries. Here it does, as
    in the click model it builds on (Craswell & Szummer 2007), and takes three steps: the fewest that reach, by way of
    a shared url, what was clicked for other queries. Query transitions are links where there are any. As in the
    thesis only queries that the view knows are scored; "over all" counts the others as 0.
    """

    needs: ClassVar[tuple[str, ...]] = ("click",)
    score: ClassVar[str] = "nDCG@10 over all"

    self_loop: float = 0.1
    steps: int = 3
    depth: int = 1_000  # where rankings are cut, as is usual for MAP

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        graph = ClickGraph.of(view)
        asked = [query for query in test.queries if test.clicks[query]]
        found = graph.search(self.step(graph), asked, self.steps, self.depth)
        relevance = {query: dict.fromkeys(test.clicks[query], 1) for query in found}
        return answered(judge(found, relevance, MEASURES), len(found), len(asked), headline="nDCG@10")

    def step(self, graph: ClickGraph) -> Step:
        return chances_of(graph.weights, self.self_loop)


@dataclass(frozen=True)
class ImpactSearch(AdHocSearch):
    """The walk prefers pages that are clicked much: page impact 1 + ln(1 + all clicks of the page), 1 for queries.

    The whole row is scaled to 1 again, its self-loop included, which is the formula read literally: the divisor in
    it, the sum of the impacts of a node's links, is the same for the whole row and cancels.
    """

    def step(self, graph: ClickGraph) -> Step:
        pages = 1 + np.log1p(graph.clicks.sum(axis=0))
        impact = np.concatenate([np.ones(graph.clicks.shape[0]), pages])
        return chances_of(graph.weights, self.self_loop, impact)
