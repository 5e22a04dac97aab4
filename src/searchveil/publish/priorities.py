"""How weighted selection steers: after each round, which items deserve weight in the next one.

A policy is public and fixed before any log is seen. It may be any function of the noisy totals so far: the proof asks
nothing else of it (docs/guarantees/weighted.md). Never tune one on a log that is to be released.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import accumulate
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

Floats = npt.NDArray[np.float64]

ONE = 1 << 16  # shares and evidence are whole multiples of 1/ONE
BINS = 1 << 12  # of the table of priorities, from eight deviations of pure noise below zero to the threshold
LARGEST = 1 << 15  # of a priority; they are whole numbers


@dataclass(frozen=True)
class Policy(ABC):
    """`shares`: how the rounds divide the account. `evidence`: the weight of a round's noisy totals in the sum."""

    shares: tuple[int, ...]
    evidence: tuple[int, ...]

    @property
    def rounds(self) -> int:
        return len(self.shares)

    @cached_property
    def variances(self) -> list[Fraction]:
        """After each round, the variance of an item's summed noise, in units of what one round of the whole has."""
        terms = (Fraction(c * c, f * ONE) for c, f in zip(self.evidence, self.shares, strict=True))
        return list(accumulate(terms))

    def by_table(
        self, after: int, totals: npt.NDArray[np.int64], unit: int, threshold: float, sigma: float
    ) -> npt.NDArray[np.int64]:
        """The priorities of totals in whole multiples of 1/unit, looked up in a table over the range that matters.

        The proof asks for a function of an item's own total. What a vectorised exponential returns may depend, in its
        last bit, on the length of an array and on the place in it, and these depend on who holds what. The table is
        the same whatever the log is, and a place in it is found in whole numbers.
        """
        first = floor(-8 * sigma * float(self.variances[after - 1]) ** 0.5 * unit)
        width = max(1, ceil((threshold * unit - first) / BINS))
        table = self.priorities(after, (first + width * (np.arange(BINS + 1) + 0.5)) / unit, threshold, sigma)
        found: npt.NDArray[np.int64] = table.take((totals - first) // width, mode="clip")
        return found

    @abstractmethod
    def priorities(self, after: int, totals: Floats, threshold: float, sigma: float) -> npt.NDArray[np.int64]:
        """Of items with these noisy totals after so many rounds, in units of weight; 0 drops an item for good."""


def _fractions_of_one(numbers: list[float]) -> tuple[int, ...]:
    """Whole multiples of 1/ONE in these proportions that add up to exactly one: the largest takes the rounding."""
    parts = [round(ONE * number / sum(numbers)) for number in numbers]
    parts[parts.index(max(parts))] += ONE - sum(parts)
    return tuple(parts)


class ByFormula(Policy):
    """Twelve rounds, each with a larger share than the one before, and priorities that a person can read."""

    def priorities(self, after: int, totals: Floats, threshold: float, sigma: float) -> npt.NDArray[np.int64]:
        done = float(self.variances[after - 1])
        rate = totals / done
        # Can it still make it?
        certainty = expit((1.5 + 4 * done) * (rate - (0.2 + 0.7 * done) * threshold) * np.sqrt(done) / sigma - 0.5)
        certainty[certainty < 0.005] = 0.0
        # One that is on course gets only what it needs.
        needed = (threshold + 0.56 * sigma * np.sqrt(1 - done) - totals) / max(1 - done, 1e-9)
        up = np.clip(needed / np.maximum(1.24 * rate, 1e-9), 0.05, 1.0) ** 1.4
        priorities: npt.NDArray[np.int64] = np.rint(LARGEST * certainty * up).astype(np.int64)
        return priorities


@dataclass(frozen=True)
class Learned(Policy):
    """Priorities that gradients found on synthetic logs: log p is linear between knots."""

    log_priority: tuple[tuple[float, ...], ...]

    DROPPED = 0.1  # below this part of the largest priority, on the side of small totals

    def priorities(self, after: int, totals: Floats, threshold: float, sigma: float) -> npt.NDArray[np.int64]:
        log_priority = np.array(self.log_priority[after]) - max(self.log_priority[after])
        origin = 3 * sigma * float(self.variances[after - 1]) ** 0.5
        last = len(log_priority) - 1
        places = np.clip(last * (totals + origin) / (threshold + origin), 0, last)
        relative = np.exp(np.interp(places, np.arange(last + 1), log_priority))
        hopeless = (relative < self.DROPPED) & (places < log_priority.argmax())
        return np.where(hopeless, 0, np.maximum(1, np.rint(LARGEST * relative))).astype(np.int64)


@lru_cache
def policy_named(name: str) -> Policy:
    if name == "formula":
        shares = _fractions_of_one([1.2**r for r in range(1, 13)])
        return ByFormula(shares, shares)
    learned: dict[str, Any] = json.loads(files("searchveil.publish").joinpath("learned_policy.json").read_text())
    return Learned(
        _fractions_of_one(learned["shares"]),
        tuple(round(ONE * part) for part in learned["evidence"]),
        tuple(map(tuple, learned["log_priority"])),
    )
