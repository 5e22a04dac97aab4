"""The rounds of weighted selection, on whole numbers: which items are named, and with which score.

Each user spreads an L2 budget over her active items by their priorities; the totals get noise from the account; the
noisy totals are added up over the rounds and compared with one threshold. docs/guarantees.md#weighted proves it.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Integers, Source
from searchveil.publish.priorities import LARGEST, ONE, Policy

UNIT = 1 << 12  # a weight of one, in the integers that are added up


@dataclass(frozen=True)
class Holdings:
    """Who holds what, each user's item once, sorted by item: `degrees` says how many users hold each."""

    users: npt.NDArray[np.int32]
    degrees: Integers

    def only(self, items: npt.NDArray[np.bool_]) -> "Holdings":
        return Holdings(self.users[np.repeat(items, self.degrees)], self.degrees[items])

    def totals(self, parts: Integers) -> Integers:
        """The sum over each item's holders."""
        running = np.concatenate([[0], np.cumsum(parts)])
        ends = np.cumsum(self.degrees)
        total: Integers = running[ends] - running[ends - self.degrees]
        return total

    def bounded(self, most: int, source: Source) -> "Holdings":
        """At most so many items of each user, a uniform choice that depends on nothing but her own number of items."""
        held = np.bincount(self.users)
        heavy = np.flatnonzero(held[self.users] > most)
        if not len(heavy):
            return self
        drawn = _shuffled_within(self.users[heavy], source)
        users = self.users[heavy[drawn]]
        first = np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1]]))
        place = np.arange(len(users)) - np.repeat(first, np.diff([*first, len(users)]))
        kept = np.ones(len(self.users), np.bool_)
        kept[heavy[drawn[place >= most]]] = False
        return Holdings(self.users[kept], self.totals(kept.astype(np.int64)))


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
class Named:
    items: Integers  # places among the holdings' items
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
    # Rounding each round's noise moves an item's sum by at most half of that round's evidence.
    limit = ceil(Fraction(threshold) * UNIT * ONE + Fraction(sum(policy.evidence), 2))
    items = np.arange(len(holdings.degrees))
    totals = np.zeros(len(items), np.int64)
    priorities = np.full(len(items), LARGEST, np.int64)
    named: list[tuple[Integers, Integers]] = []
    for done, (part, evidence) in enumerate(zip(policy.shares, policy.evidence, strict=True), 1):
        weights = holdings.totals(_weights(holdings, priorities))
        spent = share * Fraction(part, ONE)
        noisy = account.measure(weights, squared_length=UNIT * UNIT, share=spent, source=source)
        totals = totals + evidence * noisy
        reached = totals >= limit
        named.append((items[reached], totals[reached]))
        if done == policy.rounds:
            break
        priorities = policy.priorities(done, totals / (UNIT * ONE), threshold, sigma)
        active = ~reached & (priorities > 0)
        holdings, items, totals, priorities = holdings.only(active), items[active], totals[active], priorities[active]
    return Named(*(np.concatenate(parts) for parts in zip(*named, strict=True)))


def _weights(holdings: Holdings, priorities: Integers) -> Integers:
    """w = ⌊UNIT·p/⌈√Σp²⌉⌋ for each pair of user and item; Σw² over a user's items is at most UNIT², exactly."""
    p = np.repeat(priorities, holdings.degrees)
    if not len(p):
        return p
    # Sums of squares stay below 2^53, where floats are whole numbers: 2^30 each, and far fewer than 2^23 items a user.
    squares = np.bincount(holdings.users, weights=(p * p).astype(np.float64))
    roots = np.ceil(np.sqrt(squares))
    roots += roots * roots < squares
    weights: Integers = (UNIT * p) // np.maximum(roots, 1).astype(np.int64)[holdings.users]
    lengths = np.bincount(holdings.users, weights=(weights * weights).astype(np.float64))
    if lengths.max() > UNIT * UNIT:
        raise AssertionError("a user's weights are longer than the noise is for")
    return weights
