"""k-query anonymity (Adar 2007): drop the queries of fewer than k users, cut the rest into sessions with fresh ids."""

from dataclasses import dataclass
from typing import ClassVar

import ibis

from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.progress import Progress
from searchveil.publish.k_anonymity import KAnonymity, KAnonymitySettings, searches_in_sessions
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Counted, Plan


@dataclass(frozen=True, repr=False)
class KQuery(KAnonymity):
    """Publish every search whose query at least k users posed, under its session's fresh id.

    >>> sv.KQuery(k=5).plan().guarantee.is_private
    False
    """

    method: ClassVar[str] = "k-query"
    item: ClassVar[str] = "query"
    counts: ClassVar[Counted] = "occurrences"
    caveats: ClassVar[tuple[str, ...]] = (
        "Every published query was posed by at least k accounts, but the queries of a session stay together, "
        "and together they may name a person.",
    )

    def publish(self, log: SearchLog, plan: Plan[KAnonymitySettings], source: Source, progress: Progress) -> Published:
        progress("cutting the log into sessions")
        searches = log.engine.stage(searches_in_sessions(log, source.key()))

        progress(f"keeping the queries of at least {self.k} users")
        crowds = searches.group_by("query").agg(users=searches["user"].nunique())
        kept = searches.semi_join(crowds.filter(crowds["users"] >= self.k), "query")

        # Places are counted among what is kept: a gap would tell that something rare was searched there.
        place = ibis.row_number().over(ibis.window(group_by="session", order_by=["moment", "query"]))
        released = kept.select("session", "query", position=place + 1)
        ordered = released.select("session", "position", "query").order_by("session", "position")
        return Published({"data": log.engine.fetch(ordered)})
