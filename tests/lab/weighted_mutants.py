"""Weighted selection with one mistake each, which promises what the right one does.

The rounds are written once more here, with a place for every mistake; a test sees that without any they are the rounds
of the product. The audit or the exact computation of δ must refute every mistake.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np

from searchveil.log import SearchLog
from searchveil.privacy.gaussian import GaussianAccount, crossing_threshold
from searchveil.privacy.noise import Integers, Source
from searchveil.progress import Progress
from searchveil.publish import rounds, rounds_in_memory
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Plan
from searchveil.publish.priorities import LARGEST, ONE, Policy
from searchveil.publish.rounds import Holdings, Named
from searchveil.publish.weighted import Weighted, WeightedSettings


class Rounds:
    """The rounds of `publish.rounds.select`. A mistake overrides one of the steps."""

    def noisy(self, account: GaussianAccount, weights: Integers, items: Integers, **known: Any) -> Integers:
        return account.measure(weights, **known)

    def priorities(
        self, policy: Policy, done: int, totals: Integers, true: Integers, threshold: float, sigma: float
    ) -> Integers:
        return policy.by_table(done, totals, rounds.UNIT * ONE, threshold, sigma)

    def reached(self, totals: Integers, limit: int, noisy: Integers, done: int, threshold: float) -> Any:
        return totals >= limit

    def select(
        self,
        holdings: Holdings,
        *,
        policy: Policy,
        threshold: float,
        sigma: float,
        account: GaussianAccount,
        share: Fraction,
        source: Source,
    ) -> Named:
        limit = ceil(Fraction(threshold) * rounds.UNIT * ONE + Fraction(sum(policy.evidence), 2))
        items = np.arange(len(holdings.degrees))
        totals, true = np.zeros(len(items), np.int64), np.zeros(len(items), np.int64)
        priorities = np.full(len(items), LARGEST, np.int64)
        named: list[tuple[Integers, Integers]] = []
        for done, (part, evidence) in enumerate(zip(policy.shares, policy.evidence, strict=True), 1):
            weights = rounds.total_weights(holdings, priorities)
            spent = share * Fraction(part, ONE)
            noisy = self.noisy(account, weights, items, squared_length=rounds.UNIT**2, share=spent, source=source)
            totals, true = totals + evidence * noisy, true + evidence * weights
            reached = self.reached(totals, limit, noisy, done, threshold)
            named.append((items[reached], totals[reached]))
            if done == policy.rounds:
                break
            priorities = self.priorities(policy, done, totals, true, threshold, sigma)
            active = ~reached & (priorities > 0)
            holdings, items, totals = holdings.only(active), items[active], totals[active]
            priorities, true = priorities[active], true[active]
        return Named(*(np.concatenate(parts) for parts in zip(*named, strict=True)))


class NoiseReused(Rounds):
    """An item keeps its draw of the first round, at the scale of each round: all rounds are off in one direction."""

    def noisy(self, account: GaussianAccount, weights: Integers, items: Integers, **known: Any) -> Integers:
        if not hasattr(self, "drawn"):
            self.drawn = account.measure(np.zeros_like(weights), **known)
            self.first = known["share"]
        reused: Integers = np.rint(self.drawn[items] * sqrt(self.first / known["share"])).astype(np.int64)
        return weights + reused


class SteeredByTrueCounts(Rounds):
    """Everybody moves her weight by what the totals are, not by what their noisy sums say."""

    def priorities(
        self, policy: Policy, done: int, totals: Integers, true: Integers, threshold: float, sigma: float
    ) -> Integers:
        return super().priorities(policy, done, true, true, threshold, sigma)


class DroppedByTrueCounts(Rounds):
    """Weights go by noisy sums, but what is hopeless is told by the true ones."""

    def priorities(
        self, policy: Policy, done: int, totals: Integers, true: Integers, threshold: float, sigma: float
    ) -> Integers:
        noisy = super().priorities(policy, done, totals, true, threshold, sigma)
        truly = super().priorities(policy, done, true, true, threshold, sigma)
        return np.where(truly > 0, np.maximum(1, noisy), 0)


class LeftByTrueCounts(Rounds):
    """After the first round, weight leaves what is truly on course for the threshold: no noise hides who brought it."""

    def priorities(
        self, policy: Policy, done: int, totals: Integers, true: Integers, threshold: float, sigma: float
    ) -> Integers:
        noisy = super().priorities(policy, done, totals, true, threshold, sigma)
        enough = threshold * rounds.UNIT * ONE * policy.evidence[0] / sum(policy.evidence)
        return np.where(true >= enough, 0, noisy) if done == 1 else noisy


@dataclass
class ThresholdPerRound(Rounds):
    """Each round is compared with a threshold of its own, and each is given the whole δ."""

    times: list[float]  # the threshold of each, in units of the one that all should share

    def reached(self, totals: Integers, limit: int, noisy: Integers, done: int, threshold: float) -> Any:
        return noisy >= self.times[done - 1] * threshold * rounds.UNIT


@contextmanager
def heavier_weights(squared: float) -> Iterator[None]:
    """Σw² is so many times what it should be, and nobody checks."""
    right = rounds.total_weights

    def heavier(holdings: Holdings, priorities: Integers) -> Integers:
        longer: Integers = np.floor(right(holdings, priorities) * sqrt(squared)).astype(np.int64)
        return longer

    with patch.object(rounds, "total_weights", heavier):
        yield


@dataclass(frozen=True)
class OtherRounds(Weighted):
    """Publishes by other rounds."""

    rounds: ClassVar[type[Rounds]]

    def _rounds(self) -> Rounds:
        return self.rounds()

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        with patch.object(rounds_in_memory, "select", self._rounds().select):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class WeightedNoiseReused(OtherRounds):
    rounds = NoiseReused


@dataclass(frozen=True)
class WeightedLeftByTrueCounts(OtherRounds):
    rounds = LeftByTrueCounts


@dataclass(frozen=True)
class WeightedThresholdPerRound(OtherRounds):
    rounds = ThresholdPerRound

    @cached_property
    def _times(self) -> list[float]:
        right = self._calibration
        variances = (right.set_variance * ONE / share for share in right.policy.shares)
        return [
            crossing_threshold(self.delta / self.candidates_per_user, [variance]) / right.threshold
            for variance in variances
        ]

    def _rounds(self) -> Rounds:
        return ThresholdPerRound(self._times)


@dataclass(frozen=True)
class WeightedUnkeptNamed(Weighted):
    """An item that nobody keeps stays a candidate: noise alone may name any of thousands."""

    @cached_property
    def _as_if_listed(self) -> Weighted:
        """Of a public list, what nobody keeps is a candidate, and should be."""
        pool: Any = SimpleNamespace(size=1)
        return replace(self, pool=pool)

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        gather = rounds_in_memory.gather
        with patch.object(rounds_in_memory, "gather", lambda log, item, pool: gather(log, item, None)):
            return Weighted.publish(self._as_if_listed, log, plan, source, progress)


@dataclass(frozen=True)
class WeightedThresholdWithoutCounts(Weighted):
    """The threshold is that of the set alone, though its noise is larger where counts are paid for as well."""

    def planned(self, log: SearchLog | int | None) -> Plan[WeightedSettings]:
        plan = super().planned(log)
        alone = Weighted(**self._asked(), counts="none").planned(log)
        too_low = replace(plan.settings.weights, threshold=alone.settings.weights.threshold)
        return replace(plan, settings=replace(plan.settings, weights=too_low))

    def _asked(self) -> dict[str, Any]:
        names = ("epsilon", "delta", "item", "candidates_per_user", "neighbours", "policy")
        return {name: getattr(self, name) for name in names}
