"""The rounds of weighted selection, on whole numbers: which items are named, and with which score.

Each user spreads an L2 budget over her active items by their priorities; the totals get noise from the account; the
noisy totals are added up over the rounds and compared with one threshold. docs/guarantees/weighted.md proves it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from searchveil.cores import on_all_cores, usable_cores
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Integers, Source
from searchveil.publish.priorities import LARGEST, ONE, Policy

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_ITEMS = 1 << 22  # of a user
UNIT = 1 << 12  # a weight of one, in the integers that are added up
BLOCK = 1 << 21  # pairs of user and item: the system gives larger arrays new memory each time, and that is slow

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Holdings:
    """Who holds what, each user's item once.

    In blocks: a row for each of some neighbouring items, a column for each user, and a one where she holds it.
    """

    blocks: Sequence["csr_array"]

    @classmethod
    def of(cls, users: npt.NDArray[np.int32], degrees: Integers) -> "Holdings":
        """Users go by the items they hold, and `degrees` says how many hold each."""
        starts = np.concatenate([[0], np.cumsum(degrees)])
        cuts = np.searchsorted(starts, range(BLOCK, len(users), BLOCK))
        edges = [0, *sorted({*cuts.tolist()} - {0, len(degrees)}), len(degrees)]
        ones, numbered = np.ones(len(users)), int(users.max(initial=-1)) + 1

        def block(first: int, last: int) -> "csr_array":
            return block_of(starts[first : last + 1], users[starts[first] : starts[last]], numbered, ones)

        return cls([block(*items) for items in pairwise(edges)])

    @property
    def users(self) -> npt.NDArray[np.int32]:
        return joined([block.indices for block in self.blocks], np.int32)

    @property
    def degrees(self) -> Integers:
        return joined([np.diff(block.indptr) for block in self.blocks], np.int64)

    @property
    def parts(self) -> list[tuple["csr_array", slice]]:
        """Each block, and which items are in it."""
        ends = accumulate((block.shape[0] for block in self.blocks), initial=0)
        return [(block, slice(*items)) for block, items in zip(self.blocks, pairwise(ends), strict=True)]

    def only(self, items: npt.NDArray[np.bool_]) -> "Holdings":
        if items.all():
            return self
        return Holdings(on_all_cores(lambda part: part[0][items[part[1]]], self.parts))

    def by_user(self, of_block: Callable[["csr_array", slice], Floats]) -> Floats:
        """Sums for each user, added up over the blocks on all cores."""

        def add_up(parts: Sequence[tuple["csr_array", slice]]) -> Floats:
            sums = of_block(*parts[0])
            for part in parts[1:]:
                sums += of_block(*part)
            return sums

        cores = min(usable_cores(), len(self.blocks))
        sums: Floats = np.sum(on_all_cores(add_up, [self.parts[core::cores] for core in range(cores)]), axis=0)
        return sums

    def held_by_user(self) -> Integers:
        """How many items each user holds."""
        return self.by_user(lambda block, _: block.T @ np.ones(block.shape[0])).astype(np.int64)

    def totals(self, of_users: Integers) -> Integers:
        """The sum over each item's holders; it is exact below 2^53."""
        return joined(on_all_cores(lambda block: block @ of_users, self.blocks), np.int64)

    def bounded(self, most: int, source: Source) -> "Holdings":
        """At most so many items of each user, a uniform choice that depends on nothing but her own number of items."""
        too_many = self.held_by_user() > most
        if not too_many.any():
            return self
        places = on_all_cores(lambda block: np.flatnonzero(too_many.take(block.indices)), self.blocks)
        heavy = np.concatenate([block.indices[own] for block, own in zip(self.blocks, places, strict=True)])
        drawn = _shuffled_within(heavy, source)
        users = heavy[drawn]
        first = np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1]]))
        place = np.arange(len(users)) - np.repeat(first, np.diff(first, append=len(users)))
        dropped = np.zeros(len(users), np.bool_)
        dropped[drawn[place >= most]] = True
        of_blocks = np.split(dropped, np.cumsum([len(own) for own in places])[:-1])
        parts = zip(self.blocks, (own[gone] for own, gone in zip(places, of_blocks, strict=True)), strict=True)
        return Holdings(on_all_cores(lambda part: _without(*part), parts))


def block_of(bounds: Integers, users: npt.NDArray[np.int32], numbered: int, ones: Floats) -> "csr_array":
    """Of items with these users from one bound to the next. `ones` are at least as many; blocks may share them."""
    from scipy.sparse import csr_array  # which takes longer to load than NumPy, and few methods need it

    bounds = (bounds - bounds[0]).astype(np.int32 if len(users) < 1 << 31 else np.int64)
    return csr_array((ones[: len(users)], users, bounds), shape=(len(bounds) - 1, numbered))


def _without(block: "csr_array", places: Integers) -> "csr_array":
    """The block without some of its pairs."""
    items = np.searchsorted(block.indptr, places, side="right") - 1
    fewer = np.cumsum(np.bincount(items, minlength=block.shape[0]))
    bounds = block.indptr.copy()
    bounds[1:] -= fewer
    users = np.delete(block.indices, places)
    return type(block)((block.data[: len(users)], users, bounds), shape=block.shape)


def _shuffled_within(users: npt.NDArray[np.int32], source: Source) -> Integers:
    """Places that put a user's pairs together, in a uniform order: keys are drawn anew if two agree."""
    bits = np.uint64(64 - int(users.max()).bit_length())
    prefix = users.astype(np.uint64) << bits
    while True:
        keys = prefix | (source.words(len(users)) >> (np.uint64(64) - bits))
        order = np.argsort(keys)
        if np.all(keys[order[1:]] != keys[order[:-1]]):
            return order


def joined(parts: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    """The parts as one array, copied on all cores; empty if there are no parts."""
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    whole = np.empty(ends[-1] if parts else 0, kind)

    def copy(place: tuple[int, npt.NDArray[Any]]) -> None:
        end, part = place
        whole[end - len(part) : end] = part

    on_all_cores(copy, zip(ends.tolist(), parts, strict=True))
    return whole


@dataclass(frozen=True)
class Rule:
    """What the rounds make of noisy totals, and of nothing else. `threshold` and `sigma` are in units of weight."""

    policy: Policy
    threshold: float
    sigma: float

    @cached_property
    def limit(self) -> int:
        # Rounding each round's noise moves an item's sum by at most half of that round's evidence.
        return ceil(Fraction(self.threshold) * UNIT * ONE + Fraction(sum(self.policy.evidence), 2))

    def after(self, done: int, totals: Integers, noisy: Integers) -> "AfterRound":
        """Where items stand after so many rounds, the last of which brought these noisy weights."""
        totals = totals + self.policy.evidence[done - 1] * noisy
        reached = totals >= self.limit
        if done == self.policy.rounds:
            return AfterRound(totals, reached, np.zeros(len(totals), np.int64))
        priorities = self.policy.by_table(done, totals, UNIT * ONE, self.threshold, self.sigma)
        return AfterRound(totals, reached, np.where(reached, 0, priorities))


@dataclass(frozen=True)
class AfterRound:
    totals: Integers  # noisy, in units of 1/(UNIT·ONE)
    reached: npt.NDArray[np.bool_]  # named in this round
    priorities: Integers  # for the next round, 0 for those that are out of it


@dataclass(frozen=True)
class Named:
    items: Integers  # places among the holdings' items, or the items' numbers in an engine
    scores: Integers  # noisy totals when they were named, in units of 1/(UNIT·ONE)


def select(
    holdings: Holdings,
    *,
    policy: Policy,
    threshold: float,
    sigma: float,
    account: GaussianAccount,
    share: Fraction,
    source: Source,
) -> Named:
    """Run the rounds. Every item of `holdings` is active at first and gets noise, also those of one user.

    `threshold` and `sigma` are in units of weight; the rounds spend `share` of the account.
    """
    rule = Rule(policy, threshold, sigma)
    items = [np.arange(places.start, places.stop) for _, places in holdings.parts]
    totals, priorities = [np.zeros_like(block) for block in items], np.full(sum(map(len, items)), LARGEST, np.int32)
    active = Active(holdings, items, totals, priorities)
    named: list[Named] = []
    for done, part in enumerate(policy.shares, 1):
        weights, spent = total_weights(active.holdings, active.priorities), share * Fraction(part, ONE)
        noisy = account.measure(weights, squared_length=UNIT * UNIT, share=spent, source=source)
        found, active = active.after(rule, done, noisy)
        named += found
    return Named(np.concatenate([one.items for one in named]), np.concatenate([one.scores for one in named]))


@dataclass(frozen=True)
class Active:
    """The items that may still be named, who holds them, and where they stand. Block by block but for priorities."""

    holdings: Holdings
    items: Sequence[Integers]
    totals: Sequence[Integers]
    priorities: npt.NDArray[np.int32]

    def after(self, rule: Rule, done: int, noisy: Integers) -> tuple[list[Named], "Active"]:
        """What a round of these noisy weights names, and what stays active."""

        def look(known: tuple[tuple["csr_array", slice], Integers, Integers]) -> tuple[Named, Any, Any, Any, Any]:
            (block, part), items, totals = known
            now = rule.after(done, totals, noisy[part])
            left = now.priorities > 0
            priorities = now.priorities[left].astype(np.int32)
            kept = block if left.all() else block[left]
            return Named(items[now.reached], now.totals[now.reached]), kept, items[left], now.totals[left], priorities

        looked = on_all_cores(look, zip(self.holdings.parts, self.items, self.totals, strict=True))
        named, blocks, items, totals, priorities = zip(*looked, strict=True)
        return [*named], Active(Holdings(blocks), items, totals, joined(priorities, np.int32))


def total_weights(holdings: Holdings, priorities: npt.NDArray[Any]) -> Integers:
    """The sum of the weights that an item's holders give it."""
    totals, divisors = np.zeros(len(priorities), np.int64), _divisors(holdings, priorities)

    def squared_lengths(block: "csr_array", items: slice) -> Floats:
        weights = _weights(block, priorities[items], divisors)
        totals[items] = weights @ np.ones(weights.shape[1])
        weights.data *= weights.data
        lengths: Floats = weights.T @ np.ones(weights.shape[0])
        return lengths

    if holdings.by_user(squared_lengths).max(initial=0) > UNIT * UNIT:
        raise AssertionError("a user's weights are longer than the noise is for")
    return totals


# Floats are exact here: all are whole numbers below 2^53, for a squared priority is at most 2^30 and a user has
# at most MOST_ITEMS. A quotient that is no whole number is at least 2^-27 away from one, and is not rounded to it.


def _divisors(holdings: Holdings, priorities: npt.NDArray[Any]) -> Floats:
    """⌈√Σp²⌉ over each user's items."""
    squares = holdings.by_user(lambda block, items: block.T @ priorities[items].astype(np.float64) ** 2)
    roots = np.ceil(np.sqrt(squares))
    roots += roots * roots < squares
    return np.maximum(roots, 1)


def _weights(block: "csr_array", priorities: npt.NDArray[Any], divisors: Floats) -> "csr_array":
    """w = ⌊UNIT·p/⌈√Σp²⌉⌋ for each pair of item and user; Σw² over a user's items is at most UNIT², exactly."""
    weights = np.repeat(UNIT * priorities.astype(np.float64), np.diff(block.indptr))
    weights /= divisors.take(block.indices)
    np.floor(weights, out=weights)
    return type(block)((weights, block.indices, block.indptr), shape=block.shape)
