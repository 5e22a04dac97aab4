"""What each statistic costs and how much of it a user may add: public numbers, which noise and thresholds follow."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, sqrt

from searchveil.privacy.composition import not_below
from searchveil.privacy.gaussian import (
    LARGEST_EPSILON,
    GaussianAccount,
    crossing_probability,
    crossing_threshold,
    most_likely,
    sigma_for,
)
from searchveil.privacy.guarantee import Neighbours
from searchveil.publish.priorities import Policy, policy_named
from searchveil.publish.weighted import COUNT_UNIT

NOISE_SHARE = 0.7  # of δ, for the noise; the rest is for items that one user alone holds
TAIL_QUERIES = 64  # of a user, whose texts are looked at

# Domains that are not known beforehand, in the order in which they are named: how many items of a user take part.
CANDIDATES = {"queries": 200, "pairs": 50, "transitions": 50, "words": 200, "bigrams": 100, "urls": 100}

# Parts of the account, in thousandths. What a log has no columns for is not spent.
SHARES = {
    "queries": 400,
    "volume": 110,
    "pairs": 80,
    "pair_volume": 45,
    "pair_rank": 20,
    "transitions": 25,
    "transition_volume": 15,
    "words": 40,
    "word_volume": 20,
    "bigrams": 25,
    "bigram_volume": 15,
    "shape": 10,
    "holders": 10,
    "urls": 20,
    "url_volume": 10,
    "sessions": 30,
    "lengths": 30,
    "hours": 20,
    "days": 15,
    "gaps": 10,
    "moves": 20,
    "clicks": 15,
    "ranks": 15,
}

# The longest vector that a user may add to each statistic, in occurrences. A longer one is scaled down to it.
LENGTHS = {
    "pair_volume": 3,
    "pair_rank": 3,
    "transition_volume": 2,
    "word_volume": 5,
    "bigram_volume": 5,
    "shape": 8,
    "holders": TAIL_QUERIES,
    "url_volume": 5,
    "sessions": 1,
    "lengths": 5,
    "hours": 4,
    "days": 3,
    "gaps": 30,
    "moves": 48,
    "clicks": 200,
    "ranks": 48,
}

# Squared length of a usual vector, in percent of the square of its sum, and some more: see `scaled_totals`.
CONCENTRATED = {"lengths": 42, "clicks": 56, "ranks": 30, "moves": 25, "gaps": 14, "shape": 25}
VOLUME = 14  # over σ: where there is little noise, often repeated searches may count for more


@dataclass(frozen=True)
class Budget:
    """The noise of every measurement and the threshold of every domain, for one (ε,δ)."""

    sigma: float  # 1/μ of the account
    neighbours: Neighbours
    thresholds: dict[str, float]  # in units of weight
    crossing: float  # how likely noise alone names an item that one user alone holds, in any domain: at most

    @classmethod
    def of(cls, epsilon: float, delta: float, neighbours: Neighbours) -> "Budget":
        for_noise = NOISE_SHARE * delta
        sigma = sigma_for(epsilon, for_noise)
        # Items that one user alone holds: e^ε from her log to the one without her, and one more for the other's.
        times = exp(min(epsilon, LARGEST_EPSILON)) + (neighbours == "replace-one")
        each = (delta - for_noise) / (times * len(CANDIDATES)) * (1 - 1e-12)
        budget = cls(sigma, neighbours, {}, 0.0)
        thresholds, crossing = {}, 0.0
        for domain, candidates in CANDIDATES.items():
            variances = budget.variances(domain)
            thresholds[domain] = crossing_threshold(each / candidates, variances)
            crossing += crossing_probability(thresholds[domain], variances) * candidates * (1 + 1e-15)
        return cls(sigma, neighbours, thresholds, crossing * (1 + 1e-14))

    @cached_property
    def policy(self) -> Policy:
        return policy_named("learned")

    @property
    def mu(self) -> float:
        return not_below(1 / Fraction(self.sigma))

    @property
    def mu_delta(self) -> float:
        """How likely an item that one user alone holds is named, on either of two neighbouring logs: at most."""
        hers = most_likely(self.crossing, self.mu)
        return hers if self.neighbours == "add-remove" else min(1.0, (hers + self.crossing) * (1 + 1e-15))

    def account(self) -> GaussianAccount:
        return GaussianAccount(self.sigma, self.neighbours)

    def variances(self, domain: str) -> list[Fraction]:
        """Of an item's summed noise after each round, in units of weight."""
        variance = self.account().variance(1, share_of(domain))
        return [variance * part for part in self.policy.variances]

    def set_sigma(self, domain: str) -> float:
        return sqrt(float(self.account().variance(1, share_of(domain))))

    def length(self, statistic: str) -> int:
        """The longest vector that a user may add, in occurrences."""
        return min(max(round(VOLUME / self.sigma), 2), 64) if statistic == "volume" else LENGTHS[statistic]

    def squared_length(self, statistic: str) -> int:
        """The largest Σv² that a user may add, in the integers that are added up."""
        return (self.length(statistic) * COUNT_UNIT) ** 2

    def deviation(self, statistic: str) -> float:
        """Of the noise in one cell of a statistic, in occurrences."""
        return sqrt(float(self.account().variance(self.squared_length(statistic), share_of(statistic)))) / COUNT_UNIT


def share_of(statistic: str) -> Fraction:
    return Fraction(SHARES[statistic], sum(SHARES.values()))
