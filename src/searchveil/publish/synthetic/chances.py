"""From noisy numbers to chances: what a sampler draws from. Nothing here looks at a log."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from searchveil.privacy.noise import Integers

Floats = npt.NDArray[np.float64]

# Standard deviations. There are 92 bins at whose end noise would weigh a hundred times: at 3 one release in
# nine would have one that stands out by chance, at 4 one in 340.
CLEAR = 4


def projected(noisy: Floats, least: float = 0.0) -> Floats:
    """The nearest vector that has the same sum and no entry below `least`; the least, where the sum is no more."""
    if least:
        return least + projected(noisy - least)
    total = noisy.sum()
    if not len(noisy) or total <= 0:
        return np.zeros(len(noisy))
    falling = np.sort(noisy)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    nearest: Floats = np.maximum(noisy - excess[last], 0.0)
    return nearest


def without_noise_at_the_end(noisy: Floats, deviation: float) -> Floats:
    """Empty the bins beyond the last that stands out of the noise: so few heavy users would weigh too much."""
    clear = np.flatnonzero(noisy > CLEAR * deviation)
    kept = noisy.copy()
    kept[(clear[-1] + 1 if len(clear) else 0) :] = 0.0
    return kept


def shrunk(rows: list[Floats], deviation: float) -> list[Floats]:
    """Rows nearer to the one that all make together, the more their difference may be noise (James and Stein)."""
    together = np.sum(rows, axis=0)
    together = together / max(float(together.sum()), 1e-9)
    nearer = []
    for row in rows:
        total = float(row.sum())
        away = row - total * together
        noise = np.count_nonzero(row) * deviation**2
        nearer.append(total * together + max(0.0, 1 - noise / max(float(away @ away), 1e-9)) * away)
    return nearer


def spread(in_bins: Floats, first: tuple[int, ...], last: int) -> Floats:
    """The weight of every value from first[0] to `last`, which add up to each bin's own.

    Inside a bin they follow a line through the middles of its neighbours, on a logarithmic scale.
    """
    edges = np.array([*first, last + 1])
    middles, width = (edges[:-1] + edges[1:] - 1) / 2, np.diff(edges)
    density = np.log(np.maximum(in_bins, 1e-3 * max(in_bins.max(initial=0), 1e-9)) / width)
    values = np.arange(first[0], last + 1)
    weights = np.exp(np.interp(np.log1p(values), np.log1p(middles), density))
    of_bin = np.repeat(np.arange(len(in_bins)), width)
    sums = np.bincount(of_bin, weights, minlength=len(in_bins))
    spread_out: Floats = weights * (in_bins / np.maximum(sums, 1e-300))[of_bin]
    return spread_out


def stratified(n: int, random: np.random.Generator) -> Floats:
    """n uniform numbers in a random order, one in each n-th part: draws by them follow their weights closely."""
    return (random.permutation(n) + random.random(n)) / max(n, 1)


@dataclass(frozen=True)
class Draws:
    """Places 0, 1, … with these weights."""

    weights: Floats

    @cached_property
    def _upto(self) -> Floats:
        upto = np.cumsum(self.weights)
        return upto / upto[-1] if len(upto) and upto[-1] > 0 else np.linspace(0, 1, len(upto) + 1)[1:]

    def of(self, uniform: Floats) -> Integers:
        found: Integers = np.searchsorted(self._upto, uniform, side="right")
        return np.minimum(found, len(self.weights) - 1)


@dataclass(frozen=True)
class Grouped:
    """For each group, places with weights: entries are sorted by group, and `starts` says where each group begins."""

    starts: Integers  # one more than there are groups
    weights: Floats

    @classmethod
    def of_pairs(cls, groups: Integers, weights: Floats, size: int) -> "Grouped":
        return cls(np.searchsorted(groups, np.arange(size + 1)), weights)

    @cached_property
    def _upto(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.weights)])

    @cached_property
    def sums(self) -> Floats:
        sums: Floats = self._upto[self.starts[1:]] - self._upto[self.starts[:-1]]
        return sums

    def draw(self, groups: Integers, uniform: Floats) -> Integers:
        """An entry of each group. A group without any weight must not be asked for."""
        aim = self._upto[self.starts[groups]] + uniform * self.sums[groups]
        found = np.searchsorted(self._upto, aim, side="right") - 1
        return np.clip(found, self.starts[groups], self.starts[groups + 1] - 1)
