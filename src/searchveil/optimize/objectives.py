"""What a good output is: four ways to value counts, each a sum of concave functions of one pair's count.

A solver needs three answers of an objective, for all pairs at once: what counts are worth, the best step from where it
stands (`prox`), and the best counts at given prices (`best_response`), which is what bounds every solution from above.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from searchveil.errors import InputError
from searchveil.optimize.program import ClickCounts, Integers, Reals

Goal = Literal["size", "frequent", "diversity", "kl"]

NEWTON_STEPS = 6  # from the starting point chosen below, enough for the last bits of a float


class Objective(ABC):
    total: float | None  # the output size that the formula itself speaks of, if it does

    @abstractmethod
    def values(self, x: Reals) -> Reals:
        """What each pair's count is worth."""

    def value(self, x: Reals) -> float:
        """What they are worth together: the number to maximise."""
        return float(self.values(x).sum())

    @abstractmethod
    def prox(self, v: Reals, step: Reals) -> Reals:
        """The x ≥ 0 that maximises f(x) − (x − v)²/(2 step)."""

    @abstractmethod
    def best_response(self, price: Reals, most: Reals) -> Reals:
        """The x in [0, most] that maximises f(x) − price·x."""

    @property
    def most_draws(self) -> Integers | None:
        """How many whole draws of each pair make sense, if not any number."""
        return None

    def only(self, pairs: Integers) -> "Objective":
        """The same for a log of these pairs alone."""
        return self

    def kinks(self, most: Reals) -> list[Reals] | None:
        """Between which counts it is linear, apart from 0 and most; None if it bends everywhere."""
        return None


class Size(Objective):
    """O-UMP: as many tuples as possible, f(x) = x."""

    total = None

    def values(self, x: Reals) -> Reals:
        return x

    def prox(self, v: Reals, step: Reals) -> Reals:
        return np.maximum(v + step, 0)

    def best_response(self, price: Reals, most: Reals) -> Reals:
        return np.where(price < 1, most, 0.0)

    def kinks(self, most: Reals) -> list[Reals]:
        return []


class Diversity(Objective):
    """As many different pairs as possible where counts are Poisson: one shows up with probability f(x) = 1 − e^(−x)."""

    total = None

    def values(self, x: Reals) -> Reals:
        return -np.expm1(-x)

    def prox(self, v: Reals, step: Reals) -> Reals:
        """The root of x − v = step·e^(−x).

        In w = x − v it reads w + ln w = L. Since w ≥ L − ln L for L ≥ 1 (and w ≥ 0 always), we start left of the
        root, from where Newton's iteration on this increasing concave function climbs and never overshoots.
        """
        level = np.maximum(np.log(step) - v, 1)
        x = np.maximum(v + np.where(level > 1, level - np.log(level), 0), 0)
        for _ in range(NEWTON_STEPS):
            pull = step * np.exp(-x)
            x = np.maximum(x - (x - v - pull) / (1 + pull), 0)
        return x

    def best_response(self, price: Reals, most: Reals) -> Reals:
        worth_the_most = price <= np.exp(-most)  # which also keeps the logarithm away from prices ≤ 0
        return np.where(worth_the_most, most, np.maximum(-np.log(np.where(worth_the_most, 1, price)), 0))


@dataclass(frozen=True)
class KL(Objective):
    """Closest to the log in relative entropy: f(x) = c ln(1 + x), at a fixed output size."""

    counts: Reals  # c_i
    total = None

    @classmethod
    def of(cls, counts: ClickCounts) -> "KL":
        return cls(counts.totals.astype(np.float64))

    def only(self, pairs: Integers) -> "KL":
        return KL(self.counts[pairs])

    def values(self, x: Reals) -> Reals:
        return self.counts * np.log1p(x)

    def prox(self, v: Reals, step: Reals) -> Reals:
        """c/(1 + x) = (x − v)/step is a quadratic with one root above −1."""
        reach = np.sqrt((v + 1) ** 2 + 4 * step * self.counts)
        right = v + 1 > 0  # there the plain formula loses small counts to the 1
        added = 2 * step * self.counts / np.where(right, reach + v + 1, 1)
        return np.maximum(np.where(right, v + added, (v - 1 + reach) / 2), 0)

    def best_response(self, price: Reals, most: Reals) -> Reals:
        worth_the_most = price * (1 + most) <= self.counts  # which also keeps the division away from prices ≤ 0
        return np.where(worth_the_most, most, np.maximum(self.counts / np.where(worth_the_most, 1, price) - 1, 0))


BELOW = 1 - 1e-6  # how far below the support an infrequent pair has to stay, as a share of it
FALSE_FREQUENT = 2.0  # what a share of the output costs there, against 1 where it only misses a target


@dataclass(frozen=True)
class Frequent(Objective):
    """F-UMP: keep the relative support of the frequent pairs, f(x) = −|x/|O| − c/|D||.

    The others are worth nothing, up to the support. The paper says that they never become frequent in the output; with
    a fixed |O| nothing but a price ensures that, so beyond the support theirs is twice that of a missed target.
    """

    target: Reals  # where f turns: |O|·c_i/|D| of a frequent pair, |O|·s of another
    frequent: npt.NDArray[np.bool_]
    total: float  # |O|

    @classmethod
    def of(cls, counts: ClickCounts, support: float, total: float) -> "Frequent":
        """Pairs of relative support at least `support` in an output of size `total`."""
        return cls.of_totals(counts.totals, support, total)

    @classmethod
    def of_totals(cls, totals: Integers, support: float, total: float) -> "Frequent":
        if not 0 < support <= 1:
            raise InputError(f"the support must be above 0 and at most 1, not {support}: try 0.001")
        if not total > 0:
            raise InputError(f"the output size must be above 0, not {total}")
        shares = totals / max(int(totals.sum()), 1)
        frequent = shares >= support
        return cls(total * np.where(frequent, shares, BELOW * support), frequent, total)

    @cached_property
    def rise(self) -> Reals:
        """The slope before the target."""
        return np.where(self.frequent, 1 / self.total, 0.0)

    @cached_property
    def fall(self) -> Reals:
        """The slope after it, downwards."""
        return np.where(self.frequent, 1 / self.total, FALSE_FREQUENT / self.total)

    @property
    def most_draws(self) -> Integers:
        """An infrequent pair stays infrequent; of a frequent one there may be as many as you like."""
        return np.where(self.frequent, 2.0**62, np.ceil(self.target) - 1).astype(np.int64)

    def only(self, pairs: Integers) -> "Frequent":
        return Frequent(self.target[pairs], self.frequent[pairs], self.total)

    def still_infrequent(self, x: Any, support: float, *, whole: bool) -> Any:
        """Without what makes an infrequent pair frequent in the output, as its size turned out."""
        while (x[~self.frequent] >= (bar := support * x.sum())).any() and bar > 0:
            below = np.ceil(bar) - 1 if whole else BELOW * bar
            x = np.where(self.frequent, x, np.minimum(x, below)).astype(x.dtype)
        return x

    def values(self, x: Reals) -> Reals:
        away = x - self.target
        return -np.where(away < 0, -away * self.rise, away * self.fall)

    def prox(self, v: Reals, step: Reals) -> Reals:
        """Towards the target by the step times the slope, and no further than it."""
        away = v - self.target
        return np.maximum(v - np.clip(away, -step * self.rise, step * self.fall), 0)

    def best_response(self, price: Reals, most: Reals) -> Reals:
        turn = np.minimum(self.target, most)
        return np.where(price < -self.fall, most, np.where(price > self.rise, 0.0, turn))

    def kinks(self, most: Reals) -> list[Reals]:
        return [np.minimum(self.target, most)]
