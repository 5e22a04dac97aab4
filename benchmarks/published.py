"""Methods that name items of many users, re-implemented from their papers. Continuous noise: for yields, not for use.

Each takes who holds what and gives the number of items that it names at (ε,δ), for users who come and go. Where a paper
leaves a parameter open, one value was taken and kept for all logs; only greedy's cut-off was looked for (on the Zipf
log of benchmarks/selection.py), so the others may reach somewhat more than is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Held:
    """Each user's items, once each, sorted by user; `searches` says how often the user searched the item."""

    users: Integers
    items: Integers
    searches: Integers

    @classmethod
    def of(cls, users: Integers, items: Integers) -> "Held":
        pairs, searches = np.unique(users << 32 | items, return_counts=True)
        _, numbered = np.unique(pairs & 0xFFFFFFFF, return_inverse=True)
        _, people = np.unique(pairs >> 32, return_inverse=True)
        return cls(people, numbered, searches)

    @cached_property
    def sizes(self) -> Integers:
        return np.bincount(self.users)

    @cached_property
    def number_of_items(self) -> int:
        return int(self.items.max()) + 1 if len(self.items) else 0

    def totals(self, weights: Floats) -> Floats:
        totals: Floats = np.bincount(self.items, weights=weights, minlength=self.number_of_items).astype(np.float64)
        return totals

    def bounded(self, most: int, random: np.random.Generator) -> "Held":
        """A uniform choice of at most so many items of each user."""
        order = np.lexsort((random.random(len(self.users)), self.users))
        first = np.cumsum(self.sizes) - self.sizes
        kept = np.sort(order[np.arange(len(order)) - first[self.users[order]] < most])
        return Held(self.users[kept], self.items[kept], self.searches[kept])

    def only(self, kept: npt.NDArray[np.bool_]) -> "Held":
        return Held(self.users[kept], self.items[kept], self.searches[kept])


def sigma_for(epsilon: float, delta: float) -> float:
    """Of the analytic Gaussian mechanism (Balle and Wang 2018), for vectors of length one."""
    low, high = 1e-3, 1e4
    for _ in range(200):
        middle = sqrt(low * high)
        half, shift = 1 / (2 * middle), epsilon * middle
        low, high = (middle, high) if ndtr(half - shift) - exp(epsilon) * ndtr(-half - shift) > delta else (low, middle)
    return high


def gaussian_threshold(sigma: float, delta: float, most: int) -> float:
    """Theorem 5.1 of Gopi et al. 2020: the largest over t ≤ most of 1/√t + σΦ⁻¹((1 − δ)^(1/t))."""
    t = np.arange(1, most + 1)
    return float(np.max(1 / np.sqrt(t) - sigma * ndtri(-np.expm1(np.log1p(-delta) / t))))


def count_laplace(held: Held, epsilon: float, delta: float, seed: int, per_user: int = 5) -> int:
    """Korolova et al. 2009 in its exact form: some items of each user, Laplace noise, one threshold."""
    random = np.random.default_rng(seed)
    kept = held.bounded(per_user, random)
    counts = np.bincount(kept.items)
    threshold = 1 + per_user / epsilon * log(per_user / (2 * delta))
    return int((counts + random.laplace(0, per_user / epsilon, len(counts)) >= threshold)[counts > 0].sum())


def weighted_gaussian(held: Held, epsilon: float, delta: float, seed: int, most: int = 200) -> int:
    """Gopi et al. 2020: each of a user's n items gets 1/√n."""
    random = np.random.default_rng(seed)
    kept = held.bounded(most, random)
    sigma = sigma_for(epsilon, delta / 2)
    totals = kept.totals(1 / np.sqrt(kept.sizes[kept.users]))
    return _passing(totals, sigma, gaussian_threshold(sigma, delta / 2, most), random)


def _passing(totals: Floats, sigma: float, threshold: float, random: np.random.Generator) -> int:
    some = totals[totals > 0]
    return int((some + random.normal(0, sigma, len(some)) >= threshold).sum())


def policy_gaussian(held: Held, epsilon: float, delta: float, seed: int, most: int = 50, beyond: float = 3.0) -> int:
    """Gopi et al. 2020, Algorithm 8: users in turn move the totals towards a cut-off, by at most 1 in L2."""
    random = np.random.default_rng(seed)
    kept = held.bounded(most, random)
    sigma = sigma_for(epsilon, delta / 2)
    threshold = gaussian_threshold(sigma, delta / 2, most)
    cut_off = threshold + beyond * sigma
    totals = np.zeros(kept.number_of_items)
    ends = np.cumsum(kept.sizes)
    for user in random.permutation(len(ends)):
        own = kept.items[ends[user] - kept.sizes[user] : ends[user]]
        gaps = cut_off - totals[own]
        length = sqrt(float(gaps @ gaps))
        if length > 0:
            totals[own] += gaps * min(1.0, 1 / length)
    return _passing(totals, sigma, threshold, random)


def greedy(held: Held, epsilon: float, delta: float, seed: int, beyond: float = 5.0) -> int:
    """Carvalho et al. 2022: a user fills the item she searched most often up to a cut-off, then the next; 1 in all."""
    random = np.random.default_rng(seed)
    threshold = 1 - log(2 * delta) / epsilon
    cut_off = threshold + beyond / epsilon
    order = np.lexsort((random.random(len(held.users)), -held.searches, held.users))
    items, ends, sizes = held.items[order].tolist(), np.cumsum(held.sizes).tolist(), held.sizes.tolist()
    totals = [0.0] * held.number_of_items
    for user in random.permutation(len(ends)).tolist():
        left = 1.0
        for item in items[ends[user] - sizes[user] : ends[user]]:
            given = min(left, cut_off - totals[item])
            totals[item] += given
            left -= given
            if left <= 0:
                break
    some = np.array([total for total in totals if total > 0])
    return int((some + random.laplace(0, 1 / epsilon, len(some)) > threshold).sum())


def dp_sips(
    held: Held, epsilon: float, delta: float, seed: int, most: int = 100, rounds: int = 3, growth: float = 3.0
) -> int:
    """Swanberg et al. 2023: weighted Gaussian again and again with growing budgets; what was found is left out."""
    random = np.random.default_rng(seed)
    shares = np.array([growth**r for r in range(rounds)])
    shares /= shares.sum()
    found = 0
    for share in shares:
        kept = held.bounded(most, random)
        sigma = sigma_for(epsilon, delta / 2) / sqrt(share)  # zCDP and GDP add up alike: shares of 1/σ²
        threshold = gaussian_threshold(sigma, delta / 2 * share, most)
        totals = kept.totals(1 / np.sqrt(kept.sizes[kept.users]))
        named = (totals > 0) & (totals + random.normal(0, sigma, len(totals)) >= threshold)
        found += int(named.sum())
        everywhere = np.zeros(held.number_of_items, np.bool_)
        everywhere[: len(named)] = named
        left = ~everywhere[held.items]
        if not left.any():
            break
        held = Held.of(held.users[left], held.items[left])
    return found


def mad2r(
    held: Held, epsilon: float, delta: float, seed: int, most: int = 100, first: float = 0.1, hopeless: float = 6.0
) -> int:
    """Chen et al. 2025, MAD2R: a first round names some and bounds the others from above; the second leaves both out.

    Written after the paper's description: weights far beyond the threshold are given back, and the first round biases
    the second. Its bias of items that are likely to be named is left out, so the paper's own may name more.
    """
    random = np.random.default_rng(seed)
    whole = sigma_for(epsilon, delta / 2)
    named, noisy = _adaptive_round(held, whole / sqrt(first), delta / 4, most, random)
    left = ~named[held.items] & (noisy[held.items] + 2 * whole / sqrt(first) >= hopeless)
    if not left.any():
        return int(named.sum())
    again, _ = _adaptive_round(
        Held.of(held.users[left], held.items[left]), whole / sqrt(1 - first), delta / 4, most, random
    )
    return int(named.sum() + again.sum())


def _adaptive_round(
    held: Held, sigma: float, delta: float, most: int, random: np.random.Generator, beyond: float = 2.0
) -> tuple[npt.NDArray[np.bool_], Floats]:
    """MAD: users give 1/n to each of n items, get back what is beyond a cut-off, and spread it and 1/√n − 1/n again."""
    kept = held.bounded(most, random)
    sizes = kept.sizes[kept.users]
    threshold = gaussian_threshold(sigma, delta, most)
    first = kept.totals(1 / sizes)
    excess = np.maximum(0, 1 - (threshold + beyond * sigma) / np.maximum(first, 1e-12))[kept.items]
    back = np.bincount(kept.users, weights=excess / sizes)[kept.users]
    totals = kept.totals((1 - excess) / sizes + back / sizes + 1 / np.sqrt(sizes) - 1 / sizes)
    noisy = totals + random.normal(0, sigma, len(totals))
    found = (totals > 0) & (noisy >= threshold)
    missing = held.number_of_items - len(totals)
    return np.pad(found, (0, missing)), np.pad(noisy, (0, missing))


PUBLISHED: dict[str, Callable[[Held, float, float, int], int]] = {
    "counts, Laplace (Korolova et al. 2009)": count_laplace,
    "weighted Gaussian (Gopi et al. 2020)": weighted_gaussian,
    "policy Gaussian (Gopi et al. 2020)": policy_gaussian,
    "greedy (Carvalho et al. 2022)": greedy,
    "DP-SIPS (Swanberg et al. 2023)": dp_sips,
    "MAD2R (Chen et al. 2025)": mad2r,
}
