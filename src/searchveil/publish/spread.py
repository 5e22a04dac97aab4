"""How noisy a published count is, in a number that people can use: the noise is smaller in 95 of 100 cases."""

from collections.abc import Callable, Mapping
from math import ceil, exp, log

CASES = 95  # of a hundred
NORMAL = 1.959963985  # a normal number is as far from its mean, or less, in 95 of 100 cases; rounded up


def laplace_below(scale: float) -> int:
    """The smallest whole t with P(|X| < t) ≥ 95 % for discrete Laplace noise: P(|X| ≥ t) is 2p^t/(1 + p)."""
    p = exp(-1 / scale)
    return max(1, ceil(scale * log(2 / ((1 - CASES / 100) * (1 + p)))))


def gaussian_below(deviation: float) -> int:
    """The same of Gaussian noise in a count that is rounded to a whole number afterwards."""
    return ceil(NORMAL * deviation + 0.5)


def smallest_below(tail: Callable[[int], float]) -> int:
    """The same of any symmetric noise, by P(X ≥ t)."""
    low, high = 0, 1
    while 2 * tail(high) > 1 - CASES / 100:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 2 * tail(middle) > 1 - CASES / 100 else (low, middle)
    return high


def in_words(noise_below: Mapping[str, int]) -> str:
    """By table; the main table is called data."""
    if not noise_below:
        return ""
    tables = [f"less than {below:,}" + ("" if name == "data" else f" in {name}") for name, below in noise_below.items()]
    return f"Noise moves a count by {', '.join(tables)}, in {CASES} of 100 cases."
