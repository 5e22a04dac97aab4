"""Web-site clustering (Zhang 2017, section 6.3): sites that the same queries lead to belong together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from searchveil.lab.applications.graph import Matrix, edges, fetch_texts, number_texts
from searchveil.lab.applications.ranking import Ints
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View

SITE = r"^(?:[A-Za-z][A-Za-z0-9+.-]*://)?([^/?#]*)"


@dataclass(frozen=True)
class SiteClustering:
    """Single link at similarity ≥ 0.5 among the most clicked sites; purity is the share that sits with its own kind.

    The thesis labelled ten clusters by hand. Give such `labels` (site → class); without them a site's class is its
    cluster in the original log, so the question is whether a release groups sites as the log does. Purity is taken
    over sites in clusters of two or more, as there; it alone would praise a release that joins hardly anything, so
    inverse purity (of the classes, looking at the clusters) and the number of sites stand beside it. "over all" counts
    as wrong the sites that belong to others and are joined with none.
    """

    needs: ClassVar[tuple[str, ...]] = ("click",)
    score: ClassVar[str] = "purity over all"

    sites: int = 1_000
    similarity: float = 0.5
    labels: Mapping[str, str] | None = None

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        chosen = _most_clicked(test.original, self.sites)
        clusters = self.clusters(view, chosen)
        classes = self.labels or (clusters if view is test.original else self.clusters(test.original, chosen))
        joined = _members_of_groups(clusters)
        together = _members_of_groups(classes)
        pairs = [(clusters[site], classes[site]) for site in joined if site in classes]
        either = {*joined, *together}
        return {
            "purity": purity(pairs),
            "purity over all": purity(pairs) * len(pairs) / len(either) if either else 0.0,
            "inverse purity": purity([(classes[site], clusters.get(site, site)) for site in together]),
            "clusters": float(len({clusters[site] for site in joined})),
            "clustered sites": float(len(joined)),
            "sites": float(len(clusters)),
        }

    def clusters(self, view: View, chosen: Sequence[str]) -> dict[str, str]:
        """Each of the chosen sites that the view knows, and the first site of its cluster."""
        clicks = _by_site(view).semi_join(view.engine.load(pa.table({"site": pa.array(chosen, pa.string())})), "site")
        counts = view.engine.stage(clicks.group_by(["query", "site"]).agg(count=clicks["count"].sum()))
        queries, sites = (number_texts(view.engine, counts[column]) for column in ("query", "site"))
        numbers = single_link(edges(view.engine, counts, {"query": queries, "site": sites}), self.similarity)
        first: dict[int, str] = {}
        return {
            name: first.setdefault(number, name)
            for name, number in zip(fetch_texts(view.engine, sites).to_pylist(), numbers.tolist(), strict=True)
        }


def single_link(clicks: Matrix, least: float) -> Ints:
    """The cluster of each column of a queries × sites matrix: single link joins what a chain of similar ones joins."""
    shared = (clicks.T @ (clicks > 0).astype(np.float64)).toarray()  # clicks of a site from queries common with another
    share = shared / np.maximum(clicks.sum(axis=0), 1)[:, None]
    similar = np.minimum(share, share.T) >= least
    _, numbers = connected_components(sparse.csr_array(similar), directed=False)
    found: Ints = numbers
    return found


def purity(pairs: Sequence[tuple[str, str]]) -> float:
    """Of (cluster, class) pairs, the share whose class is the most frequent one of its cluster; 0 of none."""
    sizes: dict[str, Counter[str]] = {}
    for cluster, kind in pairs:
        sizes.setdefault(cluster, Counter())[kind] += 1
    return sum(max(kinds.values()) for kinds in sizes.values()) / len(pairs) if pairs else 0.0


def _members_of_groups(groups: Mapping[str, str]) -> list[str]:
    sizes = Counter(groups.values())
    return [site for site, group in groups.items() if sizes[group] > 1]


def _by_site(view: View) -> ir.Table:
    """Clicks by the host of their url: several pages of one site are one site."""
    clicks = view.tables["click"]
    clicks = clicks.filter(clicks["count"] > 0)
    return clicks.select("query", "count", site=clicks["url"].re_extract(SITE, 1).lower())


def _most_clicked(view: View, number: int) -> list[str]:
    clicks = _by_site(view)
    totals = clicks.group_by("site").agg(count=clicks["count"].sum())
    most = totals.order_by(totals["count"].desc(), "site").limit(number)
    return [row["site"] for row in view.engine.fetch(most).to_pylist()]
