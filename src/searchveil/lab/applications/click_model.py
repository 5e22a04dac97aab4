"""A click model: which result will the next person click for this query?"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.lab.applications.implicit_feedback import clicks_of
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View

UNKNOWN_RESULTS = 10_000_000  # among which a click on a result that is not known is a guess


@dataclass(frozen=True)
class ClickModel:
    """p(url | query) = (clicks of both + κ·p(url)) / (clicks of the query + κ), p(url) the url's share of all clicks.

    A part of every p(url) is left for results that the view does not have, each of 10 million alike. Asked is about
    every click of the test queries. "bits" is the mean surprise, −log₂ p; "first result" is how often the click is on
    the url that the model finds most likely, among all clicks.
    """

    needs: ClassVar[tuple[str, ...]] = ("click",)
    score: ClassVar[str] = "first result over all"

    prior: float = 10.0  # κ, in clicks
    unknown: float = 0.1  # of all clicks, on results that are not known

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        asked = [query for query in test.queries if test.clicks[query]]
        clicked = sorted({url for query in asked for url in test.clicks[query]})
        known, shares = clicks_of(view, asked), _shares(view, clicked)
        bits, first, clicks, answered = 0.0, 0, 0, 0
        for query in asked:
            own = known.get(query, {})
            best = min(own, key=lambda url: (-own[url], url), default=None)
            answered += best is not None
            for url, times in test.clicks[query].items():
                clicks += times
                first += times * (url == best)
                bits -= times * log2(self.chance(own, url, shares))
        return {
            "bits": bits / max(clicks, 1),
            "first result over all": first / max(clicks, 1),
            "answered": float(answered),
            "asked": float(len(asked)),
        }

    def chance(self, own: Mapping[str, int], url: str, shares: Mapping[str, float]) -> float:
        overall = (1 - self.unknown) * shares.get(url, 0.0) + self.unknown / UNKNOWN_RESULTS
        return (own.get(url, 0) + self.prior * overall) / (sum(own.values()) + self.prior)


def _shares(view: View, urls: list[str]) -> dict[str, float]:
    """Of all clicks, those on each of these urls that the view has."""
    clicks = view.tables["click"]
    counts: ir.Table = clicks.filter(clicks["count"] > 0)
    total = int(view.engine.value(counts["count"].sum()) or 0)
    wanted = counts.semi_join(view.engine.load(pa.table({"url": pa.array(urls, pa.string())})), "url")
    found = view.engine.fetch(wanted.group_by("url").agg(clicks=ibis._["count"].sum()))
    return {row["url"]: row["clicks"] / total for row in found.to_pylist()}
