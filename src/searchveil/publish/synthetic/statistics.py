"""The statistics of a log: which texts are named, and noisy histograms over public cells and named texts.

Every measurement goes through one Gaussian account. A cell's number is a function of public bins and of what earlier
measurements named; what a user adds is a function of her own rows and of these. docs/guarantees/synthetic.md proves it.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from searchveil.items.item import Item
from searchveil.log import SearchLog
from searchveil.log.normalize import AS_TYPED
from searchveil.privacy.contributions import bound_contributions
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Integers, Source
from searchveil.progress import Progress
from searchveil.publish.rounds_in_engine import HeldInEngine
from searchveil.publish.rounds_in_memory import HeldInMemory
from searchveil.publish.synthetic.bins import (
    CLASSES,
    CLICKS,
    GAPS,
    HOLDERS,
    LENGTHS,
    PAIR_RANKS,
    RANKS,
    SESSIONS,
    WORDS,
    place_in,
)
from searchveil.publish.synthetic.budget import CANDIDATES, CONCENTRATED, TAIL_QUERIES, Budget, share_of
from searchveil.publish.synthetic.searches import MOVES, STATES, Period, Searches, rows_of, words_of
from searchveil.publish.weighted import COUNT_UNIT, scaled_totals

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """Everything that was measured, and all that a sampler may look at. Noisy numbers are in occurrences."""

    queries: list[str] = field(default_factory=list)
    pairs: list[tuple[int, str]] = field(default_factory=list)  # a query's number and a url
    transitions: list[tuple[int, int]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    bigrams: list[tuple[int, int]] = field(default_factory=list)  # numbers of words
    urls: list[str] = field(default_factory=list)
    noisy: dict[str, Floats] = field(default_factory=dict)  # by statistic
    deviation: dict[str, float] = field(default_factory=dict)  # of the noise in a cell, by statistic
    least: dict[str, float] = field(default_factory=dict)  # users of a named item, about: the threshold of its domain
    period: Period | None = None


@dataclass(frozen=True, eq=False)
class Measuring:
    """One log on its way through the account."""

    log: SearchLog
    period: Period | None
    budget: Budget
    source: Source
    progress: Progress
    account: GaussianAccount
    noisy: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def start(
        cls, log: SearchLog, period: Period | None, budget: Budget, source: Source, progress: Progress
    ) -> "Measuring":
        return cls(log, period, budget, source, progress, budget.account())

    def statistics(self) -> Statistics:
        engine = self.log.engine
        self.progress("reading searches")
        rows = rows_of(self.log, self.period, self.source.seed())
        queries = [str(text) for (text,) in self.named("queries", rows.select("user", "query"), ("query",))]
        self.progress("searches in their order")
        searches = Searches.of(rows, queries, engine)
        engine.forget(rows)
        with engine.forgetting_staged():
            self._of_searches(searches, len(queries))
            pairs, urls = self._of_clicks(searches, len(queries)) if searches.clicked else ([], [])
            transitions = self._of_transitions(searches) if searches.timed else []
        words, bigrams = self._of_texts(searches)
        deviation = {name: self.budget.deviation(name) for name in self.noisy}
        return Statistics(
            queries,
            pairs,
            transitions,
            words,
            bigrams,
            urls,
            self.noisy,
            deviation,
            self.budget.thresholds,
            self.period if searches.timed else None,
        )

    def named(self, domain: str, held: ir.Table, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The items of a domain that the rounds name, sorted: an order that tells nothing else."""
        self.progress(f"naming {domain}")
        table = held if "query" in held.columns else held.mutate(query=ibis.literal(""))  # a log has queries
        log = SearchLog(table, self.log.engine, AS_TYPED)
        where = HeldInMemory if self.log.engine.in_process else HeldInEngine
        with self.log.engine.forgetting_staged():
            holding = where.of(log, Item(domain, columns, lambda _: held), None, CANDIDATES[domain], self.source)
            found = holding.select(
                policy=self.budget.policy,
                threshold=self.budget.thresholds[domain],
                sigma=self.budget.set_sigma(domain),
                account=self.account,
                share=share_of(domain),
                source=self.source,
            )
            texts = holding.texts(found)
        return sorted(zip(*(map(str, texts[column].to_pylist()) for column in columns), strict=True))

    def histogram(self, statistic: str, cells: ir.Table, size: int) -> Floats:
        """`cells` has a row for each occurrence: user and _place. Every cell gets noise, also the empty ones."""
        amounts = self.log.engine.stage(cells.group_by(["user", "_place"]).agg(_amount=cells.count().cast("int64")))
        squared, percent = self.budget.squared_length(statistic), CONCENTRATED.get(statistic, 0)
        totals = scaled_totals(amounts, size, squared, self.log.engine, percent)
        self.log.engine.forget(amounts)
        return self.measured(statistic, totals)

    def measured(self, statistic: str, totals: Integers) -> Floats:
        noisy = self.account.measure(
            totals, squared_length=self.budget.squared_length(statistic), share=share_of(statistic), source=self.source
        )
        values: Floats = noisy / COUNT_UNIT
        self.noisy[statistic] = values
        return values

    def _of_searches(self, searches: Searches, named: int) -> None:
        self.progress("measuring sessions")
        table, sessions = searches.table, searches.sessions
        users = table.select("user", _place=place_in(table["sessions"], SESSIONS)).distinct()
        self.histogram("sessions", users, len(SESSIONS))
        length = place_in(sessions["length"], LENGTHS)
        self.histogram(
            "lengths",
            sessions.select("user", _place=sessions["group"] * len(LENGTHS) + length),
            len(CLASSES) * len(LENGTHS),
        )
        place = (table["group"] * len(STATES) + table["state"]) * len(MOVES) + table["move"]
        self.histogram("moves", table.select("user", _place=place), len(CLASSES) * len(STATES) * len(MOVES))
        if searches.timed:
            self._of_times(searches)
        inside = table.filter(table["named"] >= 0)
        clicked = (inside["clicks"] > 0).cast("int64")
        self.histogram("volume", inside.select("user", _place=inside["named"] * 2 + clicked), 2 * named)

    def _of_times(self, searches: Searches) -> None:
        assert self.period is not None
        sessions, table = searches.sessions, searches.table
        # Counted from the first day on: the remainder of a negative number is negative, as those before 1970 are.
        passed = sessions["at"] - int((self.period.start - datetime(1970, 1, 1)).total_seconds())
        day = passed // 86400
        weekday = (day + self.period.first.weekday()) % 7  # 0 is Monday
        hour = (passed % 86400) // 3600
        self.histogram("hours", sessions.select("user", _place=weekday * 24 + hour), 168)
        self.histogram("days", sessions.select("user", _place=day), self.period.days)
        gaps = table.filter(table["gap"].notnull())
        self.histogram("gaps", gaps.select("user", _place=place_in(gaps["gap"], GAPS)), len(GAPS))

    def _of_clicks(self, searches: Searches, named: int) -> tuple[list[tuple[int, str]], list[str]]:
        self.progress("measuring clicks")
        engine, table, clicks = self.log.engine, searches.table, searches.clicks
        inside = (table["named"] >= 0).cast("int64")
        place = inside * len(CLICKS) + place_in(table["clicks"], CLICKS)
        self.histogram("clicks", table.select("user", _place=place), 2 * len(CLICKS))
        of_named = clicks.filter(clicks["named"] >= 0)
        held = of_named.select("user", number=of_named["named"].cast("string"), url=of_named["url"])
        pairs = sorted((int(number), url) for number, url in self.named("pairs", held, ("number", "url")))
        numbers, addresses = [number for number, _ in pairs], [url for _, url in pairs]
        known = engine.load(
            pa.table(
                {
                    "named": pa.array(numbers, pa.int64()),
                    "url": pa.array(addresses, pa.string()),
                    "_pair": pa.array(range(len(pairs)), pa.int64()),
                }
            )
        )
        with_pairs = clicks.left_join(known, ["named", "url"])
        rank = [clicks["rank"]] if searches.ranked else []
        number = with_pairs["_pair"].fill_null(-1).name("_pair")
        paired = engine.stage(with_pairs.select(clicks["user"], clicks["named"], clicks["url"], *rank, number))
        # One more cell for the clicks of named queries that are no pair: how many there are is needed, and no more.
        of_named = paired.filter(paired["named"] >= 0)
        place = ibis.ifelse(of_named["_pair"] >= 0, of_named["_pair"], len(pairs))
        self.histogram("pair_volume", of_named.select("user", _place=place), len(pairs) + 1)
        if searches.ranked:
            ranked = paired.filter(paired["rank"].notnull())
            group = (ranked["named"] >= 0).cast("int64")
            place = group * len(RANKS) + place_in(ranked["rank"], RANKS)
            self.histogram("ranks", ranked.select("user", _place=place), 2 * len(RANKS))
            of_pairs = ranked.filter(ranked["_pair"] >= 0)
            place = of_pairs["_pair"] * len(PAIR_RANKS) + place_in(of_pairs["rank"], PAIR_RANKS)
            self.histogram("pair_rank", of_pairs.select("user", _place=place), len(pairs) * len(PAIR_RANKS))
        others = paired.filter(paired["_pair"] < 0)
        urls = [url for (url,) in self.named("urls", others.select("user", "url"), ("url",))]
        numbered = engine.load(_numbered(urls, "url"))
        joined = others.left_join(numbered, "url")
        place = joined["_number"].fill_null(len(urls))
        self.histogram("url_volume", joined.select(others["user"], _place=place), len(urls) + 1)
        return pairs, urls

    def _of_transitions(self, searches: Searches) -> list[tuple[int, int]]:
        followed = self.log.engine.stage(searches.followed)
        held = followed.select(
            "user", number=followed["named"].cast("string"), follower=followed["next"].cast("string")
        )
        named = self.named("transitions", held, ("number", "follower"))
        transitions = sorted((int(first), int(second)) for first, second in named)
        known = _numbered_pairs(transitions, ("named", "next"))
        joined = followed.left_join(self.log.engine.load(known), ["named", "next"])
        place = joined["_number"].fill_null(len(transitions))  # one more cell for those that are not named
        self.histogram("transition_volume", joined.select(followed["user"], _place=place), len(transitions) + 1)
        return transitions

    def _of_texts(self, searches: Searches) -> tuple[list[str], list[tuple[int, int]]]:
        self.progress("measuring the words of other queries")
        engine, rows = self.log.engine, searches.rows
        others = rows.filter(rows["named"] < 0).select("user", "query")
        kept = engine.stage(bound_contributions(others, ["query"], TAIL_QUERIES, self.source.seed(), engine))
        self._holders(kept)
        texts = engine.stage(words_of(kept, self.log.normalization))
        words = [word for (word,) in self.named("words", texts.select("user", "word"), ("word",))]
        numbered = engine.load(_numbered(words, "word"))
        first = texts.left_join(numbered, "word").select(
            texts["user"], texts["query"], texts["next"], number=ibis._["_number"].fill_null(-1)
        )
        again = numbered.select(next="word", _number="_number")
        both = first.left_join(again, "next")
        known = engine.stage(
            both.select(first["user"], first["query"], first["number"], follower=both["_number"].fill_null(-1))
        )
        volume = known.filter(known["number"] >= 0)
        self.histogram("word_volume", volume.select("user", _place=volume["number"]), len(words))
        self._shape(known)
        adjacent = engine.stage(known.filter((known["number"] >= 0) & (known["follower"] >= 0)))
        held = adjacent.select(
            "user", number=adjacent["number"].cast("string"), follower=adjacent["follower"].cast("string")
        )
        named = self.named("bigrams", held, ("number", "follower"))
        bigrams = sorted((int(left), int(right)) for left, right in named)
        joined = adjacent.join(engine.load(_numbered_pairs(bigrams, ("number", "follower"))), ["number", "follower"])
        self.histogram("bigram_volume", joined.select("user", _place=joined["_number"]), len(bigrams))
        return words, bigrams

    def _shape(self, known: ir.Table) -> None:
        """How many words other queries have, and how many of these are known."""
        each = known.group_by(["user", "query"]).agg(
            words=ibis.least(known.count(), WORDS), known=(known["number"] >= 0).cast("int64").sum()
        )
        place = (each["words"] - 1) * (WORDS + 1) + ibis.least(each["known"], WORDS)
        self.histogram("shape", each.select("user", _place=place.cast("int64")), WORDS * (WORDS + 1))

    def _holders(self, kept: ir.Table) -> None:
        """How many other queries have at least so many users.

        One user more raises the number of users of at most TAIL_QUERIES queries by one, so each passes at most one of
        the limits: what she adds sums up to at most TAIL_QUERIES, and is no longer than that.
        """
        of_query = kept.group_by("query").agg(users=kept.count())
        of_number = of_query.group_by("users").agg(queries=of_query.count())
        found = self.log.engine.fetch(of_number)
        users, queries = found["users"].to_numpy(), found["queries"].to_numpy()
        at_least = [int(queries[users >= limit].sum()) for limit in HOLDERS]
        self.measured("holders", np.array(at_least, np.int64) * COUNT_UNIT)


def _numbered(texts: list[str], name: str) -> pa.Table:
    return pa.table({name: pa.array(texts, pa.string()), "_number": pa.array(range(len(texts)), pa.int64())})


def _numbered_pairs(pairs: list[tuple[int, int]], names: tuple[str, str]) -> pa.Table:
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    columns: list[Any] = [first, second, list(range(len(pairs)))]
    return pa.table([pa.array(column, pa.int64()) for column in columns], names=[*names, "_number"])
