"""Sample and threshold: what a count promises when users take part by a coin and small groups stay closed.

Each of a user's at most d items is sent with probability p, and the number of senders is published where it is at least
τ (after Bharadwaj & Cormode 2022). Nobody adds noise. docs/guarantees/crowd.md#st_u proves what is computed here.
"""

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, inf, log1p

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from searchveil.errors import InputError
from searchveil.privacy.intervals import Interval, Intervals, context, exactly

Floats = npt.NDArray[np.float64]

COIN_BITS = 64  # of a client's coin: heads iff the number drawn is below p·2^64
STEP = 0.005  # of the grid of privacy losses, for several items
LARGEST_LOSS = 12.0  # losses above count as unbounded
LARGEST_THRESHOLD = 2_000
MOST_ITEMS = 20
MOST_NUMBERS = 300  # of users beyond τ to look at: a member's machine works out the promise of every job
_MORE, _AND_MORE = 1 + 1e-6, 1e-13  # far above what floating-point numbers can be off, far below any δ asked for


def coin(p: float) -> Fraction:
    """The probability that a client's coin really has: p rounded down to what COIN_BITS can express."""
    return Fraction(int(Fraction(p) * 2**COIN_BITS), 2**COIN_BITS)


def smallest_epsilon(p: float, per_user: int) -> float:
    """No smaller ε is possible, whatever the threshold: what a user's absence could be told by."""
    return -per_user * log1p(-p)


def sample_threshold_delta(epsilon: float, p: float, threshold: int, per_user: int = 1) -> float:
    """δ of publishing all counts of at least `threshold` users, or what is above it where that takes long to work out.

    1 where ε is too small for any, or p and ε are so small that nothing can be said soon.
    """
    _check(p, threshold, per_user)
    threshold = min(threshold, LARGEST_THRESHOLD)  # δ falls with τ
    if not _ratio_is_bounded(epsilon, p, per_user):
        return 1.0
    if per_user == 1:
        while _last_count(epsilon, p, threshold) > threshold + MOST_NUMBERS:
            threshold //= 2  # δ falls with τ
            if threshold == 0:
                return 1.0
        return _exactly_one(epsilon, p, threshold)
    return _composed(epsilon, p, threshold, per_user)


def sample_threshold(epsilon: float, delta: float, p: float, per_user: int = 1) -> int:
    """The smallest τ that keeps δ."""
    if not _ratio_is_bounded(epsilon, p, per_user):
        raise InputError(
            f"sampling with p {p:g} and {per_user} items per user needs an epsilon of at least "
            f"{smallest_epsilon(p, per_user):.4g}, not {epsilon:g}",
            parameter="epsilon",
            instead="lower p or the items per user, or raise epsilon",
        )
    high = 2
    while sample_threshold_delta(epsilon, p, high, per_user) > delta:
        high *= 2
        if high > LARGEST_THRESHOLD:
            raise InputError(
                f"no threshold up to {LARGEST_THRESHOLD} gives delta {delta:g} with p {p:g} and epsilon {epsilon:g}",
                parameter="p",
                instead="lower p, or raise epsilon or delta",
            )
    low = high // 2
    while low < high:  # δ falls with τ: what is cut away with τ + 1 can be cut away after τ
        middle = (low + high) // 2
        if sample_threshold_delta(epsilon, p, middle, per_user) <= delta:
            high = middle
        else:
            low = middle + 1
    return high


def _check(p: float, threshold: int, per_user: int) -> None:
    if not 0 < p < 1:
        raise InputError(f"a sampling probability lies between 0 and 1, not {p}", parameter="p", value=p)
    if threshold < 1 or not 1 <= per_user <= MOST_ITEMS:
        raise InputError(f"a threshold is at least 1, and a user sends 1 to {MOST_ITEMS} items")


def _ratio_is_bounded(epsilon: float, p: float, per_user: int) -> bool:
    """(1−p)^d ≥ e^−ε, decided by intervals."""
    iv = context(200)
    return bool(exactly(iv, 1 - coin(p)).a ** per_user >= iv.exp(-iv.mpf(epsilon)).b)


def _last_count(epsilon: float, p: float, threshold: int) -> int:
    """From this number of users on, one user more makes less and less difference: the cut is no longer active."""
    q = 1 - (1 - p) * exp(-epsilon)
    return max(threshold, ceil(threshold / q * _MORE) + 1) if q > 0 else threshold


def _exactly_one(epsilon: float, p: float, threshold: int) -> float:
    """The largest hockey-stick divergence over all numbers of users, of one item, as a rigorous upper bound."""
    iv = context(60 + 8 * threshold)
    chance, factor = exactly(iv, coin(p)), iv.exp(iv.mpf(epsilon))
    worst = max(
        float(_divergence(iv, chance, factor, n, threshold).b)
        for n in range(threshold - 1, _last_count(epsilon, p, threshold) + 1)
    )
    return min(1.0, float(np.nextafter(worst, inf)))


def _divergence(iv: Intervals, p: Interval, factor: Interval, n: int, threshold: int) -> Interval:
    """Σ over counts j ≥ τ of max(0, P(Bin(n+1) = j) − e^ε P(Bin(n) = j)).

    With r = C(n, j) p^j (1−p)^(n−j), the probabilities are r (1−p)(n+1)/(n+1−j) and r. Going down from j = n + 1, the
    first term that is not positive ends the sum: the ratio grows with j.
    """
    odds = (1 - p) / p
    total = p ** (n + 1)  # of j = n + 1, which n users cannot reach
    r = p**n
    for j in range(n, threshold - 1, -1):
        more = r * ((1 - p) * (n + 1) / (n + 1 - j) - factor)
        if more.b <= 0:
            break
        total += more if more.a >= 0 else iv.mpf([0, more.b])
        r = r * odds * j / (n - j + 1)
    return total


# --- Several items: composition of the pair that dominates every single one ---


def _composed(epsilon: float, p: float, threshold: int, per_user: int) -> float:
    losses, masses, unbounded = _loss_distribution(p, threshold)
    total, offset = masses, losses[0]
    for _ in range(per_user - 1):
        total, offset = np.convolve(total, masses), offset + losses[0]
    reached = offset + STEP * np.arange(len(total))
    hit = -np.expm1(per_user * np.log1p(-unbounded))
    above = reached > epsilon
    delta = hit + float((total[above] * -np.expm1(epsilon - reached[above])).sum())
    return min(1.0, float(delta * _MORE + _AND_MORE))


@lru_cache(maxsize=64)
def _loss_distribution(p: float, threshold: int) -> tuple[Floats, Floats, float]:
    """(losses, their probabilities, the probability of an unbounded loss) of a pair that dominates each item's.

    The profile δ(ε), the largest over all numbers of users, is convex in e^ε. Joining its values on the grid by
    straight lines bounds it from above, and belongs to the pair with these losses (Doroshenko et al. 2022).
    """
    lowest = log1p(-p)
    losses: Floats = lowest + STEP * np.arange(ceil((LARGEST_LOSS - lowest) / STEP) + 1, dtype=np.float64)
    weights = np.exp(losses)
    # Near the lowest loss very many numbers of users matter. There a straight line to the first loss with few is used.
    first = next(i for i in range(1, len(losses)) if _last_count(losses[i], p, threshold) <= threshold + MOST_NUMBERS)
    known = [0, *range(first, len(losses))]
    found = [p, *(_largest_divergence(loss, p, threshold) for loss in losses[first:])]
    profile = np.interp(weights, weights[known], found)
    profile = np.maximum.accumulate(profile[::-1])[::-1]
    # Slopes in e^ε: −Q(loss > ε), where Q is the distribution that the loss is measured against.
    beyond = np.concatenate([[1.0], np.minimum(1.0, -np.diff(profile) / np.diff(weights)), [0.0]])
    masses: Floats = np.maximum(0.0, -np.diff(np.minimum.accumulate(beyond))) * weights
    return losses, masses, float(profile[-1])


def _largest_divergence(epsilon: float, p: float, threshold: int) -> float:
    return max(
        _float_divergence(epsilon, p, n, threshold)
        for n in range(threshold - 1, _last_count(epsilon, p, threshold) + 1)
    )


def _float_divergence(epsilon: float, p: float, n: int, threshold: int) -> float:
    more, fewer = _binomial(n + 1, p), _binomial(n, p)
    gained = more[threshold:] - exp(epsilon) * np.append(fewer[threshold:], 0.0)[: len(more) - threshold]
    hidden = more[:threshold].sum() - exp(epsilon) * fewer[:threshold].sum()
    return float(np.maximum(gained, 0.0).sum() + max(0.0, hidden))


@lru_cache(maxsize=4096)
def _binomial(n: int, p: float) -> Floats:
    j = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    chances: Floats = np.exp(ways + j * np.log(p) + (n - j) * np.log1p(-p))
    return chances
