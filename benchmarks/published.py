"""Methods that name items of many users, re-implemented from their papers. Continuous noise: for yields, not for use.

Each takes who holds what and gives the number of items that it names at (ε,δ), for users who come and go. Where a paper
leaves a parameter open, `PUBLISHED` has several settings, and the best of them on each log is what is shown. That is in
their favour: a publisher cannot look for it on the log without paying.
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

DEGREE = 50  # users of more items do not reroute weight


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
    held: Held, epsilon: float, delta: float, seed: int, first: float = 0.1, hopeless: float = 1.0, most: int = 100
) -> int:
    """Chen et al. 2025, MAD2R: a first round names some items and says of the others what to do in the second.

    Written after the paper's description, not from its code. Left out in the second round is what was named, and what
    even `hopeless` deviations above its noisy weight is below the threshold. What is likely to pass, by its noisy
    weight less one deviation, is biased downwards in proportion, to one half at most. Uncertain: the paper's own
    constants, that rerouted weight is spread in proportion to a user's weights, and how δ is divided (here in halves,
    one for the noise and the other for the two thresholds). That rerouting keeps a user's length at one is the paper's
    claim, and was not checked for this form.
    """
    random = np.random.default_rng(seed)
    whole = sigma_for(epsilon, delta / 2)
    before, after = whole / sqrt(first), whole / sqrt(1 - first)
    named, noisy = _adaptive_round(held, np.ones(held.number_of_items), before, delta / 4, most, random)
    threshold = gaussian_threshold(after, delta / 4, most)
    left = ~named[held.items] & (noisy[held.items] + hopeless * before >= threshold)
    if not left.any():
        return int(named.sum())
    _, users = np.unique(held.users[left], return_inverse=True)
    rest = Held(users, held.items[left], held.searches[left])
    bias = np.clip(threshold / np.maximum(noisy - before, 1e-9), 0.5, 1)
    again, _ = _adaptive_round(rest, bias, after, delta / 4, most, random)
    return int(named.sum() + again.sum())


def _adaptive_round(
    held: Held, bias: Floats, sigma: float, delta: float, most: int, random: np.random.Generator, beyond: float = 2.0
) -> tuple[npt.NDArray[np.bool_], Floats]:
    """MAD: of weights whose sum is one, users get back what is beyond a cut-off and spread it over their items again.

    Users of more than DEGREE items take no part in this. Everybody adds what brings her weights to length one.
    """
    kept = held.bounded(most, random)
    biased = bias[kept.items]
    whole = biased / np.bincount(kept.users, weights=biased)[kept.users]
    longest = biased / np.sqrt(np.bincount(kept.users, weights=biased * biased))[kept.users]
    adaptive = kept.sizes[kept.users] <= DEGREE
    given = np.where(adaptive, whole, 0.0)
    threshold = gaussian_threshold(sigma, delta, most)
    first = np.bincount(kept.items, weights=given, minlength=len(bias))
    excess = np.maximum(0, 1 - (threshold + beyond * sigma) / np.maximum(first, 1e-12))[kept.items]
    back = np.bincount(kept.users, weights=given * excess)[kept.users]
    weights = longest - given * excess + given * back
    totals = np.bincount(kept.items, weights=weights, minlength=len(bias))
    noisy: Floats = totals + random.normal(0, sigma, len(totals))
    found: npt.NDArray[np.bool_] = (totals > 0) & (noisy >= threshold)
    return found, noisy


Method = Callable[..., int]
PUBLISHED: dict[str, tuple[Method, tuple[dict[str, float], ...]]] = {
    "counts, Laplace (Korolova et al. 2009)": (count_laplace, tuple({"per_user": m} for m in (1, 2, 5, 10))),
    "weighted Gaussian (Gopi et al. 2020)": (weighted_gaussian, tuple({"most": most} for most in (30, 100, 200))),
    "policy Gaussian (Gopi et al. 2020)": (
        policy_gaussian,
        ({"most": 30, "beyond": 5.0}, {"most": 100, "beyond": 5.0}),
    ),
    "greedy (Carvalho et al. 2022)": (greedy, ({"beyond": 3.0}, {"beyond": 5.0})),
    "DP-SIPS (Swanberg et al. 2023)": (
        dp_sips,
        ({"rounds": 2, "growth": 9.0}, {"rounds": 3, "growth": 3.0}, {"rounds": 2, "growth": 9.0, "most": 50}),
    ),
    "MAD2R (Chen et al. 2025)": (
        mad2r,
        tuple({"first": f, "hopeless": h} for f, h in ((0.1, 1.0), (0.2, 1.5), (0.2, 2.0), (0.3, 2.0), (0.4, 3.0))),
    ),
}
