"""Votes: every user votes for one of her items, and items of many votes are named. For logs of few items per user.

A first, noisy vote tells which items have a chance; then everybody votes for the most promising of hers that still
needs votes (after Carvalho et al. 2022, who order a user's items by her own searches), and items are named as often as
(ε,δ) allows (Desfontaines et al. 2022). Laplace noise for one item is smaller than Gaussian noise for many: this names
more than weighted selection where users have up to about three items.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.items import QUERY, item_named
from searchveil.log import SearchLog
from searchveil.privacy.calibrate import scale_for
from searchveil.privacy.composition import decimal
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.naming import NamingChance
from searchveil.privacy.noise import DiscreteLaplace, Integers, Source, binomial
from searchveil.progress import Progress
from searchveil.publish.ballot import Ballot
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.parameters import Declared, Delta, Epsilon, ItemKind, NeighboursKind
from searchveil.publish.plan import Plan, Settings, VoteSelection, given
from searchveil.publish.rounds import MOST_ITEMS, Holdings, Named
from searchveil.publish.rounds_in_engine import HeldInEngine
from searchveil.publish.rounds_in_memory import HeldInMemory
from searchveil.publish.spread import laplace_below
from searchveil.publish.weighted import in_order

Counts = Literal["users", "none"]

ENOUGH = 0.98  # an item that is named with this probability takes no more votes
COUNT_UNIT = 12  # a count of one, in the integers that are added up


@dataclass(frozen=True, kw_only=True)
class VotesSettings(Settings):
    votes: VoteSelection = field()
    counts: Counts
    count_share: float
    counted_items: int | None
    guide_share: float

    @property
    def noise_below(self) -> dict[str, int]:
        scale = self.votes.count_scale  # of the integers that are added up; half a count more by rounding
        return {} if scale is None else {"data": ceil(laplace_below(scale) / COUNT_UNIT + 0.5)}

    def to_json(self) -> dict[str, Any]:
        return given(
            needed_votes=self.votes.threshold,
            most_votes=self.votes.most_votes,
            naming_epsilon=float(self.votes.epsilon),
            guide_scale=self.votes.guide_scale,
            guide_share=self.guide_share,
            counts=self.counts,
            count_scale=None if self.votes.count_scale is None else self.votes.count_scale / COUNT_UNIT,  # in users
            count_share=self.count_share,
            counted_items=self.counted_items,
        )


@dataclass(frozen=True, repr=False)
class Votes(Mechanism[VotesSettings]):
    """Name the items that get many votes, one vote of each user: more than weighted where users have few items.

    `guide_share` of ε is for a first vote that tells which items are promising; with one item per user there is nothing
    to choose and 0 is best. `counts` are how many users hold each named item, measured with `count_share` of ε.

    Proof: docs/guarantees/votes.md.

    >>> sorted(sv.Votes(epsilon=100, delta=1e-6).release(log).table["query"].to_pylist())
    ['news', 'weather']
    """

    method: ClassVar[str] = "votes"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate",)
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 1e-6}

    epsilon: Epsilon
    delta: Delta
    item: ItemKind = QUERY
    counts: Annotated[Counts, Declared("What is published beside the items.")] = "users"
    count_share: Annotated[
        float | None, Declared("The part of the budget that counts take.", above=0, below=1, example=0.15)
    ] = None
    counted_items: Annotated[
        int, Declared("A user of more named items than this adds less than one to the count of each.", least=1)
    ] = 3
    guide_share: Annotated[
        float, Declared("The part of ε for a first vote that guides the second.", least=0, below=1)
    ] = 0.1
    neighbours: NeighboursKind = "add-remove"

    def __post_init__(self) -> None:
        if self.counts == "none" and self.count_share == 0:  # what it is set to below: a copy is made with it
            object.__setattr__(self, "count_share", None)
        super().__post_init__()
        if self.counts == "none" and self.count_share is not None:
            raise InputError(
                setting("counts", self.counts) + " measures no counts",
                parameter="count_share",
                value=self.count_share,
                instead="leave out " + setting("count_share"),
            )
        if self.count_share is None:
            object.__setattr__(self, "count_share", 0.15 if self.counts == "users" else 0.0)
        assert self.count_share is not None
        if self.guide_share + self.count_share > 0.9:
            raise InputError(
                f"the first vote and the counts take {self.guide_share + self.count_share:g} of the budget, and 0.1 "
                "must be left for naming items",
                parameter="guide_share",
                value=self.guide_share,
                instead="lower it or " + setting("count_share"),
            )

    def planned(self, log: SearchLog | int | None) -> Plan[VotesSettings]:
        assert self.count_share is not None
        settings = VotesSettings(
            votes=self._selection,
            counts=self.counts,
            count_share=self.count_share,
            counted_items=self.counted_items if self.counts == "users" else None,
            guide_share=self.guide_share,
        )
        guarantee = Guarantee(
            notion="approximate",
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            proof="docs/guarantees/votes.md",
            assumed_public=(AT_LEAST_TWO_USERS,),
        )
        return Plan(self.method, str(self.item), settings, guarantee)

    @cached_property
    def _selection(self) -> VoteSelection:
        """Noise for the shares of the guide and of the counts; naming has the very rest of ε."""
        assert self.count_share is not None
        changed = 1 if self.neighbours == "add-remove" else 2
        counted = changed * self.counted_items * COUNT_UNIT
        guide = scale_for(self.guide_share * self.epsilon, changed) if self.guide_share else None
        counts = scale_for(self.count_share * self.epsilon, counted) if self.count_share else None
        # Right for the floats, and for the decimals they print as, which a ledger adds up.
        left = min(Fraction(self.epsilon), decimal(self.epsilon))
        left -= changed / Fraction(guide) if guide else 0
        left -= counted / Fraction(counts) if counts else 0
        # Where a user is replaced, one item may lose a vote and another get one: each has half.
        epsilon, delta = left / changed, min(Fraction(self.delta), decimal(self.delta)) / changed
        chance = NamingChance(epsilon, delta)
        return VoteSelection(
            threshold=max(1, chance.needed(0.5)),
            most_votes=chance.needed(ENOUGH),
            epsilon=epsilon,
            delta=delta,
            guide_scale=guide,
            count_scale=counts,
        )

    def check(self, log: SearchLog) -> None:
        item_named(self.item).check(log)

    def publish(self, log: SearchLog, plan: Plan[VotesSettings], source: Source, progress: Progress) -> Published:
        item, selection = item_named(self.item), plan.settings.votes
        progress("gathering who holds what")
        where = HeldInMemory if log.engine.in_process else HeldInEngine
        held = where.of(log, item, None, MOST_ITEMS, source)
        ids, holdings = numbered(held)
        progress("votes")
        chosen = Named(ids[elected(holdings, selection, source)], np.zeros(0, np.int64))
        published = held.texts(chosen)
        if self.counts == "users":
            assert selection.count_scale is not None
            progress("counting users")
            most = int(np.bincount(holdings.users).max(initial=0))
            totals = held.totals(chosen, count_parts(self.counted_items, most))
            noisy = totals + DiscreteLaplace(selection.count_scale).sample(len(totals), source)
            counts = np.maximum(1, np.rint(noisy / COUNT_UNIT).astype(np.int64))
            published = published.append_column("count", pa.array(counts))
        return Published({"data": in_order(published, item.columns)})


def numbered(held: HeldInMemory | HeldInEngine) -> tuple[Integers, Holdings]:
    """The items' numbers and who holds them. From an engine come pairs of numbers; the texts stay where they are."""
    if isinstance(held, HeldInMemory):
        return np.arange(len(held.holdings.degrees)), held.holdings
    pairs = held.engine.fetch(held.pairs).sort_by([("_id", "ascending"), ("_holder", "ascending")])
    ids, degrees = np.unique(pairs["_id"].to_numpy(), return_counts=True)
    return ids, Holdings.of(pairs["_holder"].to_numpy().astype(np.int32), degrees)


def elected(holdings: Holdings, selection: VoteSelection, source: Source) -> Integers:
    """The places of the items that are named, in their order."""
    number = len(holdings.degrees)
    if not selection.threshold:  # the control of an audit; of a plan it is at least 1
        return np.arange(number)
    items = np.repeat(np.arange(number), holdings.degrees)
    ballot = Ballot.drawn(holdings.users.astype(np.int64), items, number, source)
    noise = None
    if selection.guide_scale is not None:  # for every item that somebody holds, also without a vote
        noise = DiscreteLaplace(selection.guide_scale).sample(number, source)
    votes = cast(ballot, noise, selection.most_votes)
    return named(votes, NamingChance(selection.epsilon, selection.delta), source)


def cast(ballot: Ballot, noise: Integers | None, most_votes: int) -> Integers:
    """Each item's votes. With noise for a first vote, the more promising of a user's items come first in the second."""
    if noise is not None:
        ballot = ballot.sorted(ballot.first_choices() + noise)
    return ballot.votes(most_votes)


def named(votes: Integers, chance: NamingChance, source: Source) -> Integers:
    """The places of items that are named: each by itself, with the chance that its votes give it."""
    found = [np.zeros(0, np.int64)]
    for n in np.unique(votes[votes > 0]).tolist():
        places = np.flatnonzero(votes == n)
        if n < chance.certain:
            passing = binomial(len(places), lambda bits, n=n: chance.bounds(n, bits), source)  # type: ignore[misc]
            places = places[source.order(len(places))[:passing]] if passing else places[:0]
        found.append(places)
    return np.sort(np.concatenate(found))


def count_parts(counted_items: int, most: int) -> Integers:
    """For n = 0 … most, what a user of n named items adds to the count of each: one, or less beyond counted_items."""
    whole = counted_items * COUNT_UNIT
    parts = [COUNT_UNIT if n <= counted_items else whole // n for n in range(most + 1)]
    if max(n * part for n, part in enumerate(parts)) > whole:
        raise AssertionError("a user adds more to the counts than the noise is for")
    return np.array(parts, np.int64)
