"""k-keyword anonymity (after He and Naughton 2009): shorten rare keywords to prefixes that k users share."""

from dataclasses import dataclass
from typing import ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.items import KEYWORD
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.progress import Progress
from searchveil.publish.k_anonymity import KAnonymity, KAnonymitySettings
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Counted, Plan

LONGEST_PREFIX = 32  # rare keywords are cut to this first, so that a pasted text does not decide the number of rounds


@dataclass(frozen=True, repr=False)
class KKeyword(KAnonymity):
    """Publish how many users hold each keyword, or the longest prefix of it that k users hold.

    >>> sv.KKeyword(k=5).plan().guarantee.is_private
    False
    """

    method: ClassVar[str] = "k-keyword"
    item: ClassVar[str] = "keyword"
    counts: ClassVar[Counted] = "users"
    caveats: ClassVar[tuple[str, ...]] = (
        "Every published keyword or prefix is in the histories of at least k accounts, and its count is exact.",
    )

    def publish(self, log: SearchLog, plan: Plan[KAnonymitySettings], source: Source, progress: Progress) -> Published:
        engine = log.engine
        progress(f"counting the keywords of at least {self.k} users")
        held = engine.stage(with_count(KEYWORD.of(log).select("user", text="keyword")))
        published = [self._shared(held, engine, generalised=False)]

        # From the longest prefixes down: those of k users stay, the others lose their last character. A rare keyword
        # counts as a prefix of its own length: `car*` stands for car and for all rare words that begin with it.
        rare = held.filter(held["count"] < self.k)
        rare = engine.stage(rare.select("user", text=rare["text"].left(LONGEST_PREFIX)))
        longest = engine.value(rare["text"].length().max()) or 0
        shortened = rare.limit(0)
        for length in range(longest, 0, -1):
            progress(f"sharing prefixes of {length} characters")
            joining = rare.filter(rare["text"].length() == length)
            prefixes = engine.stage(with_count(joining.union(shortened, distinct=True)))
            published.append(self._shared(prefixes, engine, generalised=True))
            unshared = prefixes.filter(prefixes["count"] < self.k)
            shortened = unshared.select("user", text=unshared["text"].left(length - 1))

        histogram = pa.concat_tables(published)
        ordered = histogram.sort_by([("count", "descending"), ("keyword", "ascending"), ("generalised", "ascending")])
        return Published({"data": ordered})

    def _shared(self, held: ir.Table, engine: Engine, *, generalised: bool) -> pa.Table:
        """The rows to publish: the texts that at least k users hold, prefixes marked by a star."""
        shared = held.filter(held["count"] >= self.k).select("text", "count").distinct()
        keyword = shared["text"] + "*" if generalised else shared["text"]
        return engine.fetch(shared.select(keyword=keyword, generalised=ibis.literal(generalised), count="count"))


def with_count(held: ir.Table) -> ir.Table:
    """The different (user, text) rows with the number of users who hold the text."""
    return held.mutate(count=held.count().over(ibis.window(group_by="text")))
