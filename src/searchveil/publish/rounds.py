"""The rounds of weighted selection, on whole numbers: which items are named, and with which score.

Each user spreads an L2 budget over her active items by their priorities; the totals get noise from the account; the
noisy totals are added up over the rounds and compared with one threshold. docs/guarantees/weighted.md proves it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from searchveil.cores import on_all_cores, usable_cores
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Integers, Source
from searchveil.publish.priorities import LARGEST, ONE, Policy

MOST_ITEMS = 1 << 22  # of a user
UNIT = 1 << 12  # a weight of one, in the integers that are added up
RUN = 1 << 15  # pairs of users and items that are worked on at once: what is computed of them fits into a cache

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Holdings:
    """Who holds what, each user's item once, sorted by item: `degrees` says how many users hold each."""

    users: npt.NDArray[np.int32]
    degrees: Integers

    def only(self, items: npt.NDArray[np.bool_]) -> "Holdings":
        if items.all():
            return self
        users = on_all_cores(lambda run: run.users[np.repeat(items[run.items], run.degrees)], self.runs)
        return Holdings(joined(users, np.int32), self.degrees[items])

    @cached_property
    def runs(self) -> list["Run"]:
        """The items in runs of about RUN pairs: what is computed of one fits into a cache, and cores share them."""
        ends = np.cumsum(self.degrees)
        pairs = len(self.users)
        cuts = np.searchsorted(ends, np.arange(RUN, pairs, RUN), side="right")
        edges = np.unique(np.concatenate([[0], cuts, [len(ends)]])).tolist()
        starts = np.concatenate([[0], ends])[edges].tolist()
        return [
            Run(slice(*items), slice(*places), self.users[slice(*places)], self.degrees[slice(*items)])
            for items, places in zip(pairwise(edges), pairwise(starts), strict=True)
        ]

    def totals(self, parts: Integers) -> Integers:
        """The sum over each item's holders."""
        return _sums(parts, self.degrees)

    def bounded(self, most: int, source: Source) -> "Holdings":
        """At most so many items of each user, a uniform choice that depends on nothing but her own number of items."""
        held = np.bincount(self.users)
        too_many = held > most
        heavy = joined(
            on_all_cores(lambda run: run.places.start + np.flatnonzero(too_many.take(run.users)), self.runs), np.int64
        )
        if not len(heavy):
            return self
        drawn = _shuffled_within(self.users[heavy], source)
        users = self.users[heavy[drawn]]
        first = np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1]]))
        place = np.arange(len(users)) - np.repeat(first, np.diff(first, append=len(users)))
        dropped = np.sort(heavy[drawn[place >= most]])
        kept = np.ones(len(self.users), np.bool_)
        kept[dropped] = False
        items = np.searchsorted(np.cumsum(self.degrees), dropped, side="right")
        fewer = np.bincount(items, minlength=len(self.degrees))
        left = on_all_cores(lambda run: run.users[kept[run.places]], self.runs)
        return Holdings(joined(left, np.int32), self.degrees - fewer)


def _shuffled_within(users: npt.NDArray[np.int32], source: Source) -> Integers:
    """Places that put a user's pairs together, in a uniform order: keys are drawn anew if two agree."""
    bits = np.uint64(64 - int(users.max()).bit_length())
    prefix = users.astype(np.uint64) << bits
    while True:
        keys = prefix | (source.words(len(users)) >> (np.uint64(64) - bits))
        order = np.argsort(keys)
        if np.all(keys[order[1:]] != keys[order[:-1]]):
            return order


@dataclass(frozen=True)
class Run:
    """Neighbouring items with their holders."""

    items: slice
    places: slice  # of the pairs
    users: npt.NDArray[np.int32]
    degrees: Integers

    def holders(self) -> npt.NDArray[np.intp]:
        """The users of the pairs, in the type by which NumPy finds places at once."""
        return self.users.astype(np.intp)

    def spread(self, of_items: npt.NDArray[Any]) -> Floats:
        """The item's number for each of its holders."""
        return np.repeat(of_items, self.degrees)


def _by_user(holdings: Holdings, of_pairs: Callable[[Run, npt.NDArray[np.intp]], Floats]) -> Floats:
    """The sum over each user's items of a number for each pair, on all cores."""
    users = int(holdings.users.max(initial=-1)) + 1

    def add_up(some: list[Run]) -> Floats:
        sums = np.zeros(users)
        for run in some:
            holders = run.holders()
            np.add.at(sums, holders, of_pairs(run, holders))
        return sums

    cores = min(usable_cores(), len(holdings.runs))
    shares = on_all_cores(add_up, [holdings.runs[core::cores] for core in range(cores)])
    return sum(shares, start=np.zeros(users))


def joined(parts: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    """The parts as one array, copied on all cores; empty if there are no parts."""
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    whole = np.empty(ends[-1] if parts else 0, kind)

    def copy(place: tuple[int, npt.NDArray[Any]]) -> None:
        end, part = place
        whole[end - len(part) : end] = part

    on_all_cores(copy, zip(ends.tolist(), parts, strict=True))
    return whole


def _sums(parts: npt.NDArray[Any], degrees: Integers) -> npt.NDArray[Any]:
    """Of each item's run of parts, exactly: they are whole numbers, and all of them together are below 2^53."""
    up_to = np.zeros(len(parts) + 1, parts.dtype)
    np.cumsum(parts, out=up_to[1:])
    ends = np.zeros(len(degrees) + 1, np.int64)
    np.cumsum(degrees, out=ends[1:])
    return np.diff(up_to.take(ends))


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
    items = np.arange(len(holdings.degrees))
    totals = np.zeros(len(items), np.int64)
    priorities = np.full(len(items), LARGEST, np.int32)
    named: list[Named] = []
    for done, part in enumerate(policy.shares, 1):
        spent = share * Fraction(part, ONE)
        noisy = account.measure(
            total_weights(holdings, priorities), squared_length=UNIT * UNIT, share=spent, source=source
        )
        found, active, items, totals, priorities = _after(rule, done, items, totals, noisy)
        holdings = holdings.only(active)
        named.append(found)
    return Named(np.concatenate([one.items for one in named]), np.concatenate([one.scores for one in named]))


def _after(
    rule: Rule, done: int, items: Integers, totals: Integers, noisy: Integers
) -> tuple[Named, npt.NDArray[np.bool_], Integers, Integers, npt.NDArray[np.int32]]:
    """What a round names; which items stay active; and of these the places, the totals and the priorities."""
    active, priorities = np.empty(len(items), np.bool_), np.empty(len(items), np.int32)

    def look(part: slice) -> tuple[npt.NDArray[Any], ...]:
        now = rule.after(done, totals[part], noisy[part])
        totals[part], priorities[part] = now.totals, now.priorities
        active[part] = now.priorities > 0
        return items[part][now.reached], now.totals[now.reached]

    def left(known: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return joined(on_all_cores(lambda part: known[part][active[part]], parts), known.dtype.type)

    parts = [slice(start, start + RUN) for start in range(0, max(1, len(items)), RUN)]
    found, scores = (joined(one, one[0].dtype.type) for one in zip(*on_all_cores(look, parts), strict=True))
    return Named(found, scores), active, left(items), left(totals), left(priorities)


def total_weights(holdings: Holdings, priorities: npt.NDArray[Any]) -> Integers:
    """The sum of the weights that an item's holders give it."""
    totals, divisors = np.zeros(len(holdings.degrees), np.int64), _divisors(holdings, priorities)

    def weigh(run: Run, holders: npt.NDArray[np.intp]) -> Floats:
        weights = _weights(run, holders, priorities, divisors)
        totals[run.items] = _sums(weights, run.degrees)
        weights *= weights
        return weights

    if _by_user(holdings, weigh).max(initial=0) > UNIT * UNIT:
        raise AssertionError("a user's weights are longer than the noise is for")
    return totals


# Floats are exact here: all are whole numbers below 2^53, for a squared priority is at most 2^30 and a user has
# at most MOST_ITEMS. A quotient that is no whole number is at least 2^-27 away from one, and is not rounded to it.


def _divisors(holdings: Holdings, priorities: npt.NDArray[Any]) -> Floats:
    """⌈√Σp²⌉ over each user's items."""
    squares = _by_user(holdings, lambda run, _: run.spread(priorities[run.items].astype(np.float64) ** 2))
    roots = np.ceil(np.sqrt(squares))
    roots += roots * roots < squares
    return np.maximum(roots, 1)


def _weights(run: Run, holders: npt.NDArray[np.intp], priorities: npt.NDArray[Any], divisors: Floats) -> Floats:
    """w = ⌊UNIT·p/⌈√Σp²⌉⌋ for each pair of user and item; Σw² over a user's items is at most UNIT², exactly."""
    weights = run.spread(UNIT * priorities[run.items].astype(np.float64))
    weights /= divisors.take(holders)
    return np.floor(weights, out=weights)
