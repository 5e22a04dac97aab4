"""Ad-hoc search that merges the ranking by clicks with implicit feedback (Zhang 2017, section 3.4, after Agichtein)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from searchveil.lab.applications.ad_hoc_search import MEASURES
from searchveil.lab.applications.ranking import answered, judge
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View

Clicks = Mapping[str, Mapping[str, int]]  # of a query: the clicks of each url


@dataclass(frozen=True)
class FeedbackSearch(ABC):
    """S(d) = w/(I+1) + (1−w)/(O+1): O is a url's place by the view's clicks for the query, I by the feedback's clicks.

    A url without feedback scores 1/(O+1). Places count from 1, equal clicks stand in the order of the urls. Only
    urls that the view has for the query are retrieved; feedback for others finds no original place to merge with.
    """

    needs: ClassVar[tuple[str, ...]] = ("click",)
    score: ClassVar[str] = "nDCG@10 over all"

    weight: float = 0.6

    @abstractmethod
    def feedback(self, test: TestSet) -> Clicks:
        """The clicks that the search engine takes for approval."""

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        asked = [query for query in test.queries if test.clicks[query]]
        feedback = self.feedback(test)
        known = clicks_of(view, asked)
        found = {query: merge(clicks, feedback.get(query, {}), self.weight) for query, clicks in known.items()}
        relevance = {query: dict.fromkeys(test.clicks[query], 1) for query in found}
        return answered(judge(found, relevance, MEASURES), len(found), len(asked), headline="nDCG@10")


@dataclass(frozen=True)
class TrainingFeedback(FeedbackSearch):
    """Feedback from the clicks of the original log, which the engine itself has: nothing of the answers is in it.

    Unless the test users are part of that log; the evaluation says so when they are. On the original log itself both
    places are the same, and the ranking is that by clicks.
    """

    def feedback(self, test: TestSet) -> Clicks:
        return clicks_of(test.original, list(test.queries)) if test.original.has("click") else {}


@dataclass(frozen=True)
class PublishedFeedback(FeedbackSearch):
    """As published: the feedback is the clicks of the test, which are also the right answers. Its scores flatter."""

    def feedback(self, test: TestSet) -> Clicks:
        return test.clicks


def merge(clicks: Mapping[str, int], feedback: Mapping[str, int], weight: float) -> list[str]:
    original, implicit = _places(clicks), _places(feedback)
    scores = {
        url: weight / (implicit[url] + 1) + (1 - weight) / (place + 1) if url in implicit else 1 / (place + 1)
        for url, place in original.items()
    }
    return sorted(scores, key=lambda url: (-scores[url], url))


def clicks_of(view: View, queries: list[str]) -> dict[str, dict[str, int]]:
    """The clicks of these queries: counted, chosen and only then brought out of the engine."""
    wanted = view.engine.load(pa.table({"query": pa.array(queries, pa.string())}))
    clicks = view.tables["click"]
    found: dict[str, dict[str, int]] = {}
    for row in view.engine.fetch(clicks.filter(clicks["count"] > 0).semi_join(wanted, "query")).to_pylist():
        found.setdefault(row["query"], {})[row["url"]] = row["count"]
    return found


def _places(clicks: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(clicks, key=lambda url: (-clicks[url], url))
    return {url: place for place, url in enumerate(ordered, start=1)}
