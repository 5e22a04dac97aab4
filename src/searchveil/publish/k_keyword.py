"""k-keyword anonymity (after He and Naughton 2009): shorten rare keywords to prefixes that k users share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.items import KEYWORD
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.publish.k_anonymity import KAnonymity
from searchveil.publish.mechanism import Plan, Progress

LONGEST_PREFIX = 32  # rare keywords are cut to this first, so that a pasted text does not decide the number of rounds


@dataclass(frozen=True)
class KKeyword(KAnonymity):
    """Publish how many users hold each keyword, or the longest prefix of it that k users hold."""

    method: ClassVar[str] = "k-keyword"
    item: ClassVar[str] = "keyword"
    caveats: ClassVar[tuple[str, ...]] = (
        "Every published keyword or prefix is in the histories of at least k accounts, and its count is exact.",
    )

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Mapping[str, pa.Table]:
        engine = log.engine
        progress(f"counting the keywords of at least {self.k} users")
        held = engine.stage(with_count(KEYWORD.of(log), "keyword"))
        exact = held.filter(held["count"] >= self.k).select("keyword", "count").distinct()
        histogram = exact.mutate(generalised=ibis.literal(False))

        rare = held.filter(held["count"] < self.k)
        for prefixes in self._shared_prefixes(rare, engine, progress):
            histogram = histogram.union(
                prefixes.select(keyword=prefixes["prefix"] + "*", count="count", generalised=ibis.literal(True))
            )
        released = histogram.select("keyword", "generalised", "count")
        return {"data": engine.fetch(released.order_by(ibis.desc("count"), "keyword", "generalised"))}

    def _shared_prefixes(self, rare: ir.Table, engine: Engine, progress: Progress) -> list[ir.Table]:
        """From the longest prefixes down: those of k users stay, the others lose their last character."""
        rare = engine.stage(rare.select("user", prefix=rare["keyword"].left(LONGEST_PREFIX)))
        longest = engine.value(rare["prefix"].length().max()) or 0
        shared = []
        shortened = rare.limit(0)
        for length in range(longest, 0, -1):
            progress(f"sharing prefixes of {length} characters")
            joining = rare.filter(rare["prefix"].length() == length)
            prefixes = engine.stage(with_count(joining.union(shortened, distinct=True), "prefix"))
            shared.append(prefixes.filter(prefixes["count"] >= self.k).select("prefix", "count").distinct())
            unshared = prefixes.filter(prefixes["count"] < self.k)
            shortened = unshared.select("user", prefix=unshared["prefix"].left(length - 1))
        return shared


def with_count(held: ir.Table, column: str) -> ir.Table:
    """The different (user, text) rows with the number of users who hold the text."""
    return held.mutate(count=held.count().over(ibis.window(group_by=column)))
