"""The exact distribution of what the rounds of weighted selection publish, of a few items in two rounds.

The rounds are those of the product (or a mutant's). An account with a script stands in for the Gaussian one: in the
first round it hands out every outcome of the noise there is, each to a copy of the log of its own; in the second it
writes down the totals it is given. Given both, the noise of the second round acts on each item alone, and its
probabilities are those of rounded normal variables, from `privacy/normal.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil, exp, sqrt
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from searchveil.privacy import normal
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.intervals import context, exactly
from searchveil.privacy.noise import Integers, Source
from searchveil.publish import rounds, weighted
from searchveil.publish.priorities import ONE, Policy
from searchveil.publish.rounds import Holdings, Named
from searchveil.publish.weighted import Calibration, Weighted

Floats = npt.NDArray[np.float64]
Log = Sequence[Sequence[int]]  # for each user the items she holds
Select = Callable[..., Named]

FAR = 1 << 40  # noise that names an item for sure
DEVIATIONS = 7.5  # beyond them lies 7e-14 of a normal distribution
# Masses are rounded once and added up, some thousand at a time, all of them positive.
ROUNDING = 1e-11


@dataclass
class Scripted:
    """Stands in for a `GaussianAccount`: noise by script in the first round, in the second what names everything."""

    first: Integers
    totals: list[Integers] = field(default_factory=list)

    def measure(self, totals: Integers, *, squared_length: int, share: Fraction, source: Any) -> Integers:
        self.totals.append(totals)
        return totals + (self.first if len(self.totals) == 1 else FAR)


@dataclass(frozen=True)
class Case:
    """How a release is made: what is asked for, the policy of two rounds, units to a weight of one."""

    asked: Weighted
    policy: Policy
    unit: int
    select: Select = rounds.select
    threshold: float | None = None  # another one than the right one
    held_only: bool = False  # of a public list, too, only what somebody holds gets noise

    def calibration(self) -> Calibration:
        with patch.object(weighted, "policy_named", lambda name: self.policy):
            return Calibration.of(self.asked)

    def variance(self, calibration: Calibration, part: int) -> Fraction:
        account = GaussianAccount(calibration.account_sigma, self.asked.neighbours)
        return account.variance(self.unit**2, calibration.set_share * Fraction(part, ONE))


@dataclass(frozen=True)
class Masses:
    """P(round(e) = k) for |k| ≤ `reach`, and P(round(e) < k), of a normal variable e."""

    reach: int
    mass: Floats
    below: Floats  # of k = −reach … reach + 1

    @classmethod
    def of(cls, variance: Fraction) -> "Masses":
        reach = ceil(DEVIATIONS * sqrt(float(variance)))
        intervals = context(160)
        deviation = intervals.sqrt(exactly(intervals, variance))
        above = [normal.upper_tail(intervals, (intervals.mpf(2 * k - 1) / 2) / deviation) for k in range(reach + 2)]
        mass = [float((above[k] - above[k + 1]).mid) for k in range(reach + 1)]
        below = [float((1 - one).mid) for one in above]  # of k = 0 … reach + 1
        mirrored = [float(one.mid) for one in above[:1:-1]]  # P(round(e) < −k) = P(round(e) ≥ k + 1)
        return cls(reach, np.array([*mass[:0:-1], *mass]), np.array([*mirrored, *below]))

    def at(self, values: Integers) -> Floats:
        return np.where(
            np.abs(values) <= self.reach, self.mass[np.clip(values, -self.reach, self.reach) + self.reach], 0.0
        )

    def less(self, values: Integers) -> Floats:
        return self.below[np.clip(values, -self.reach, self.reach + 1) + self.reach]


def distribution(log: Log, items: int, case: Case, *, scores: bool = True) -> Floats:
    """The probability of every outcome: an axis for each item, place 0 if it is not named, else by its score.

    Without scores an axis has two places. Without a pool, an item that nobody holds is not there.
    """
    calibration = case.calibration()
    held = [
        i
        for i in range(items)
        if (case.asked.pool is not None and not case.held_only) or any(i in user for user in log)
    ]
    first, second = (Masses.of(case.variance(calibration, part)) for part in case.policy.shares)
    noise = np.array(list(product(range(-first.reach, first.reach + 1), repeat=len(held))), np.int64)
    copies = len(noise)
    account = Scripted(noise.ravel())
    with patch.object(rounds, "UNIT", case.unit):
        named = case.select(
            _copied(log, held, copies),
            policy=case.policy,
            threshold=case.threshold or calibration.threshold,
            sigma=calibration.set_sigma,
            account=account,
            share=calibration.set_share,
            source=Source(bytes(32)),
        )
    chances = np.prod(first.at(noise), axis=1) if held else np.ones(1)
    outcomes = _Outcomes(case, calibration, named, account, chances, len(held), second)
    joint = _joint(chances, [outcomes.of(i, scores) for i in range(len(held))])
    for i in range(items):
        if i not in held:  # never named
            joint = np.expand_dims(joint, i)
    return joint


def _copied(log: Log, held: Sequence[int], copies: int) -> Holdings:
    holders = [[user for user, its in enumerate(log) if item in its] for item in held]
    one = np.array([user for users in holders for user in users], np.int64)
    users = (one + len(log) * np.arange(copies)[:, None]).ravel().astype(np.int32)
    return Holdings.of(users, np.tile([len(users) for users in holders], copies).astype(np.int64))


@dataclass
class _Outcomes:
    case: Case
    calibration: Calibration
    named: Named
    account: Scripted
    chances: Floats  # of each copy
    items: int
    second: Masses

    def of(self, item: int, scores: bool) -> Floats:
        """For each copy, the probability of each outcome of this item, given the first round."""
        evidence, step = self.case.policy.evidence, min(self.case.policy.evidence)
        assert all(part % step == 0 for part in evidence), "scores must be whole multiples of one step"
        threshold = Fraction(self.case.threshold or self.calibration.threshold)
        limit = ceil(threshold * self.case.unit * ONE + Fraction(sum(evidence), 2))
        sure = self.named.scores >= evidence[1] * (FAR // 2)
        early = self.named.items[~sure]
        mine = early % self.items == item
        at_first = early[mine] // self.items
        active = self.named.items[sure]
        place = active % self.items == item
        rows, totals = active[place] // self.items, self.account.totals[1][place]
        before = evidence[0] * (self.account.totals[0] + self.account.first)[rows * self.items + item]
        # Named in the second round iff before + evidence·(totals + noise) ≥ limit.
        least = -((before - limit) // evidence[1]) - totals
        chances = np.zeros((len(self.chances), 2))
        chances[:, 0] = 1.0
        chances[at_first] = (0.0, 1.0)
        chances[rows, 0] = self.second.less(least)
        chances[rows, 1] = 1 - chances[rows, 0]
        if not scores:
            return chances
        lowest = limit // step
        top = int((before + evidence[1] * (totals + self.second.reach)).max(initial=limit)) // step
        top = max(top, int(self.named.scores[~sure].max(initial=limit)) // step)
        found = np.zeros((len(self.chances), top - lowest + 2))
        found[:, 0] = chances[:, 0]
        found[at_first, self.named.scores[~sure][mine] // step - lowest + 1] = 1.0
        for k in range(-self.second.reach, self.second.reach + 1):
            passes = k >= least
            score = (before + evidence[1] * (totals + k))[passes] // step
            found[rows[passes], score - lowest + 1] += self.second.mass[k + self.second.reach]
        return found


def _joint(chances: Floats, given: Sequence[Floats]) -> Floats:
    if not given:
        return np.array(1.0)
    if len(given) == 1:
        return np.asarray(chances @ given[0])
    if len(given) == 2:
        return np.asarray((given[0] * chances[:, None]).T @ given[1])
    return np.asarray(np.einsum("c,ci,cj,ck->ijk", chances, *given, optimize=True))


def delta(first: Floats, second: Floats, epsilon: float) -> float:
    """The hockey-stick divergence Σ max(0, P − e^ε P′)."""
    shape = [max(sizes) for sizes in zip(first.shape, second.shape, strict=True)]
    p, q = (
        np.pad(one, [(0, most - size) for size, most in zip(one.shape, shape, strict=True)]) for one in (first, second)
    )
    return float(np.maximum(0, p - exp(epsilon) * q).sum())


def deltas(logs: tuple[Log, Log], items: int, case: Case, *, scores: bool = True) -> tuple[float, float]:
    """The exact δ at the claimed ε in both directions, but for `ROUNDING` and for what lies beyond `DEVIATIONS`."""
    one, other = (distribution(log, items, case, scores=scores) for log in logs)
    return delta(one, other, case.asked.epsilon), delta(other, one, case.asked.epsilon)
