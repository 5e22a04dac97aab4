"""What a method is expected to publish, from a public guess at the log: no log is read, so nothing is paid.

ZEALOUS is worked out. Weighted selection, whose rounds depend on each other, and votes are tried on a log drawn from
the guess.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, sqrt
from typing import Any

import numpy as np

from searchveil.errors import InputError, setting
from searchveil.privacy.calibrate import TYPICALLY_HELD, Assumption
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Integers, Source
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.plan import VoteSelection
from searchveil.publish.priorities import Policy
from searchveil.publish.rounds import MOST_ITEMS, Holdings, select
from searchveil.publish.votes import Votes, elected
from searchveil.publish.weighted import Calibration, Weighted
from searchveil.publish.zealous import Zealous

PREDICTED: tuple[type[Mechanism], ...] = (Weighted, Votes, Zealous)
MOST_PAIRS = 1_000_000  # of user and item, in a log that is tried: a second or two
ENOUGH_NOISE = 3.0  # a standard deviation that many users' weights are still small beside
FEW_ITEMS = 6  # of a user: votes may publish more than weighted selection
FEW_PAIRS = 200_000  # in a log that is tried many times


def forecast(mechanism: Mechanism, assumption: Assumption | None) -> dict[str, Any]:
    """All that can be said: users that an item needs, items expected, and the method that would publish more."""
    found: dict[str, Any] = {}
    held = TYPICALLY_HELD if assumption is None else assumption.held
    needed = needed_users(mechanism, held)
    if needed is not None:
        found["needed_users"] = {"users": needed, "held": held}
    if assumption is not None:
        found["expected_rows"] = expected_rows(mechanism, assumption)
        other = other_than(mechanism, assumption)
        if other is not None:
            found["instead"] = other
    return found


def expected_rows(mechanism: Mechanism, assumption: Assumption) -> float:
    """How many items come out of a log such as the guess says."""
    if isinstance(mechanism, Zealous):
        chosen = mechanism.plan(assumption.users).settings.selection
        return assumption.expected_published(
            chosen.per_user, chosen.noise_scale, chosen.threshold, chosen.first_threshold
        )
    if isinstance(mechanism, Votes):
        return _expected(Election.of(mechanism), assumption)
    if not isinstance(mechanism, Weighted):
        raise InputError(f"what {mechanism.method} publishes is not predicted; weighted, votes and zealous are")
    if mechanism.pool is not None:
        raise InputError(
            "a guess cannot know which items a pool holds", parameter="pool", instead="leave out " + setting("pool")
        )
    rounds = Rounds.of(mechanism)
    too_many = assumption.users * assumption.held / MOST_PAIRS
    if too_many > 1:
        rounds = rounds.thinned(min(too_many, rounds.thinner))
    return _expected(rounds, assumption)


def _expected(rounds: "Rounds | Election", assumption: Assumption) -> float:
    users = assumption.users / rounds.one_for
    tried = min(users, MOST_PAIRS / assumption.held)
    rows = _tried(rounds, assumption, ceil(tried))
    if tried == users or not rows:
        return float(rows)
    # More users than can be tried: as many holders as the last item that came out has will be enough there too.
    ranks, holding = np.cumsum(assumption.popularity[1]), assumption.expected_counts(rounds.candidates_per_user)
    enough = np.interp(rows, ranks, holding) * tried / users
    return float(np.interp(-enough, -holding, ranks))


def other_than(mechanism: Mechanism, assumption: Assumption) -> tuple[Mechanism, float] | None:
    """Weighted instead of votes, or votes with the better guide instead of weighted, and what it would publish.

    Only where users have few items.
    """
    if assumption.held > FEW_ITEMS:
        return None
    others: list[Mechanism]
    if isinstance(mechanism, Votes):
        others = [
            Weighted(
                mechanism.epsilon, mechanism.delta, mechanism.item, mechanism.counts, neighbours=mechanism.neighbours
            )
        ]
    elif isinstance(mechanism, Weighted) and mechanism.counts in ("users", "none") and mechanism.pool is None:
        votes = Votes(
            mechanism.epsilon, mechanism.delta, mechanism.item, mechanism.counts, neighbours=mechanism.neighbours
        )
        others = [votes, replace(votes, guide_share=0.0)]  # a guide is worth its part of ε to who has a choice
    else:
        return None
    rows = [expected_rows(other, assumption) for other in others]
    best = rows.index(max(rows))
    return others[best], rows[best]


def needed_users(mechanism: Mechanism, held: int) -> int | None:
    """Of how many users, each with so many items, one must be to come out with probability ½; the others are lone."""
    if isinstance(mechanism, Zealous):
        threshold = mechanism.plan(2).settings.selection.threshold
        return -(-threshold * max(held, mechanism.per_user) // mechanism.per_user)
    rounds: Rounds | Election
    if isinstance(mechanism, Votes):
        rounds = Election.of(mechanism)
        low, high = rounds.selection.threshold / 2, 2.0 * rounds.selection.threshold * held
    elif isinstance(mechanism, Weighted):
        rounds = Rounds.of(mechanism)
        rounds = rounds.thinned(rounds.thinner)
        low, high = rounds.threshold / 2, 2 * rounds.threshold * sqrt(held)
    else:
        return None
    while high - low > max(0.03 * high, 1):
        middle = (low + high) / 2
        low, high = (low, middle) if _comes_out(rounds, round(middle), held) >= 0.5 else (middle, high)
    return ceil(high * rounds.one_for)


@dataclass(frozen=True)
class Rounds:
    """Weighted selection as it would be run, on an invented log of which one user may stand for several."""

    policy: Policy
    candidates_per_user: int
    threshold: float
    sigma: float
    one_for: float = 1.0

    @classmethod
    def of(cls, asked: Weighted) -> "Rounds":
        found = Calibration.of(asked)
        return cls(found.policy, asked.candidates_per_user, found.threshold, found.set_sigma)

    @property
    def thinner(self) -> float:
        """By what users, noise and threshold may be divided, and nearly the same items still come out."""
        return max(1.0, self.sigma / ENOUGH_NOISE)

    def thinned(self, by: float) -> "Rounds":
        return replace(self, threshold=self.threshold / by, sigma=self.sigma / by, one_for=self.one_for * by)

    def named(self, holdings: Holdings) -> Integers:
        source = Source(bytes(32))  # the noise hides nobody, so it may be the same each time
        return select(
            holdings.bounded(self.candidates_per_user, source),
            policy=self.policy,
            threshold=self.threshold,
            sigma=self.sigma,
            account=GaussianAccount(self.sigma, "add-remove"),
            share=Fraction(1),
            source=source,
        ).items


@dataclass(frozen=True)
class Election:
    """Votes as they would be cast, on an invented log."""

    selection: VoteSelection
    one_for: float = 1.0
    candidates_per_user: int = MOST_ITEMS

    @classmethod
    def of(cls, asked: Votes) -> "Election":
        return cls(asked.plan().settings.votes)

    def named(self, holdings: Holdings) -> Integers:
        return elected(holdings, self.selection, Source(bytes(32)))


def _tried(rounds: Rounds | Election, assumption: Assumption, users: int) -> int:
    """Items named of a log that is drawn from the guess."""
    random = np.random.default_rng(1)
    places = random.random(users)
    quantiles = (np.arange(len(assumption.activity[0])) + 0.5) / len(assumption.activity[0])
    held, searches = (np.exp(np.interp(places, quantiles, np.log(values))) for values in assumption.activity)
    shares, numbers = assumption.popularity
    ends, firsts = np.cumsum(shares * numbers), np.cumsum(numbers) - numbers
    user = np.repeat(np.arange(users), random.poisson(searches))
    group = np.searchsorted(ends, random.random(len(user)) * ends[-1])
    item = (firsts[group] + numbers[group] * random.random(len(user))).astype(np.int64)
    alone = np.repeat(np.arange(users), random.poisson(assumption.alone * held))
    user = np.concatenate([user, alone])
    item = np.concatenate([item, assumption.items + 1 + np.arange(len(alone))])
    pairs = np.unique(item << 32 | user)
    _, degrees = np.unique(pairs >> 32, return_counts=True)
    return len(rounds.named(Holdings.of((pairs & 0xFFFFFFFF).astype(np.int32), degrees)))


def _comes_out(rounds: Rounds | Election, users: int, held: int) -> float:
    """How often an item of so many users is named, each of whom has `held` items and the others alone."""
    copies = min(40, max(5, FEW_PAIRS // (users * held)))
    shared = np.arange(copies * users, dtype=np.int32)
    lone = np.tile(shared, held - 1)
    degrees = np.concatenate([np.full(copies, users), np.ones(len(lone), np.int64)])
    named = rounds.named(Holdings.of(np.concatenate([shared, lone]), degrees))
    return int((named < copies).sum()) / copies
