"""What repeated releases prove about ε: a lower bound from how often an event is seen on either of two neighbours.

The ends are those of Clopper and Pearson, as quantiles of scipy's beta distribution: `scipy.stats.binomtest` looks for
the same ends by root finding, to 1e-12 only, where these are right to the last digits.
"""

from math import log
from typing import Any

import numpy as np

from searchveil.errors import InputError


def lower_end(seen: Any, runs: int, error: float) -> Any:
    """The probability of an event is smaller than this with a chance of at most `error`. Takes arrays, too."""
    from scipy.stats import beta

    _check_share(seen, runs)
    return np.where(seen == 0, 0.0, beta.ppf(error, np.maximum(seen, 1), runs - seen + 1))


def upper_end(seen: Any, runs: int, error: float) -> Any:
    """The probability of an event is larger than this with a chance of at most `error`. Takes arrays, too."""
    from scipy.stats import beta

    _check_share(seen, runs)
    return np.where(seen == runs, 1.0, beta.ppf(1 - error, seen + 1, np.maximum(runs - seen, 1)))


def epsilon_proved(often: int, n_often: int, seldom: int, n_seldom: int, delta: float, error: float = 0.05) -> float:
    """P ≤ e^ε P′ + δ fails for any smaller ε, but for a chance of `error`, half of it for each of the two ends."""
    if not n_often or not n_seldom:
        return 0.0
    low, high = float(lower_end(often, n_often, error / 2)), float(upper_end(seldom, n_seldom, error / 2))
    return max(0.0, log((low - delta) / high)) if low > delta else 0.0


def _check_share(seen: Any, runs: int) -> None:
    if runs < 1 or np.any((seen < 0) | (seen > runs)):
        raise InputError(f"{seen} of {runs} runs is not a share")
