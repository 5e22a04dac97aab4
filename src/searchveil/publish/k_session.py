"""k-session anonymity (Motwani and Nabar 2008): edit sessions until each has the keywords of k − 1 others."""

from dataclasses import dataclass
from typing import ClassVar

import ibis
import ibis.expr.types as ir

from searchveil.log import SearchLog
from searchveil.log.words import words
from searchveil.privacy.noise import Source
from searchveil.progress import Progress
from searchveil.publish.k_anonymity import KAnonymity, KAnonymitySettings, searches_in_sessions
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Counted, Plan


@dataclass(frozen=True, repr=False)
class KSession(KAnonymity):
    """Cluster like sessions, at least k to a cluster, and publish for all of a cluster the one set that is closest.

    >>> sv.KSession(k=5).plan().guarantee.is_private
    False
    """

    method: ClassVar[str] = "k-session"
    item: ClassVar[str] = "session"
    counts: ClassVar[Counted] = "sessions"
    by_words: ClassVar[bool] = True
    caveats: ClassVar[tuple[str, ...]] = (
        "Every published keyword set is that of at least k sessions, but these may be the sessions of one account.",
    )

    def publish(self, log: SearchLog, plan: Plan[KAnonymitySettings], source: Source, progress: Progress) -> Published:
        engine = log.engine
        progress("reading the sessions' keywords")
        held = engine.stage(session_keywords(searches_in_sessions(log, source.key())))

        progress(f"clustering the sessions, at least {self.k} to a cluster")
        clusters = engine.stage(self._clusters(engine.stage(keyword_sets(held))))

        progress("levelling the clusters")
        released = clusters.join(levelled(held, clusters), "cluster").select("session", "keywords")
        return Published({"data": engine.fetch(released.order_by("session"))})

    def _clusters(self, sets: ir.Table) -> ir.Table:
        """(session, cluster): sessions whose set k share are a cluster already; the others are cut into runs of k.

        In the order of their sets neighbours are alike, so a run is a cluster. What remains after the last full run
        joins it; fewer than k sessions in all make no run and are left out.
        """
        alike = sets.mutate(sharing=sets.count().over(ibis.window(group_by="keywords")))
        # Spark numbers rows in 32 bits and counts them in 64.
        crowd = alike.filter(alike["sharing"] >= self.k).select(
            "session", cluster=alike["keywords"].cast("array<int64>")
        )

        others = alike.filter(alike["sharing"] < self.k)
        in_order = others.mutate(
            place=ibis.row_number().over(ibis.window(order_by=["keywords", "session"])),
            runs=others.count().over(ibis.window()) // self.k,
        ).filter(lambda t: t["runs"] > 0)
        run = ibis.least(in_order["place"] // self.k, in_order["runs"] - 1)
        # Keywords are numbered from 0, so a negative number cannot be mistaken for a set.
        return crowd.union(in_order.select("session", cluster=ibis.array([-1 - run])))


def session_keywords(searches: ir.Table) -> ir.Table:
    """Which session holds which keyword."""
    split = searches.select("session", keyword=words(searches["query"]).unnest())
    return split.filter(split["keyword"] != "").distinct()


def keyword_sets(held: ir.Table) -> ir.Table:
    """Each session's keywords as ascending numbers, 0 the most frequent keyword: sets that begin alike are alike."""
    frequency = held.group_by("keyword").agg(sessions=held.count())
    by_frequency = ibis.window(order_by=[ibis.desc("sessions"), "keyword"])
    numbered = held.join(frequency.mutate(number=ibis.row_number().over(by_frequency)), "keyword")
    return numbered.group_by("session").agg(keywords=numbered["number"].collect().sort())


def levelled(held: ir.Table, clusters: ir.Table) -> ir.Table:
    """(cluster, keywords): the set that takes the fewest edits in all, which is what more than half of them hold."""
    sizes = clusters.group_by("cluster").agg(size=clusters.count())
    holders = held.join(clusters, "session").group_by("cluster", "keyword").agg(holding=ibis._.count())
    voted = holders.join(sizes, "cluster")
    elected = voted.filter(2 * voted["holding"] > voted["size"])
    return elected.group_by("cluster").agg(keywords=elected["keyword"].collect().sort().join(" "))
