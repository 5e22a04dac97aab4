"""What repeated releases prove about ε: a lower bound from how often an event is seen on either of two neighbours."""

from math import log

from searchveil.errors import InputError


def clopper_pearson(seen: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """An interval that contains the probability of an event with at least this confidence."""
    from scipy.stats import beta

    if not 0 <= seen <= runs or runs < 1:
        raise InputError(f"{seen} of {runs} runs is not a share")
    tail = (1 - confidence) / 2
    low = 0.0 if seen == 0 else float(beta.ppf(tail, seen, runs - seen + 1))
    high = 1.0 if seen == runs else float(beta.ppf(1 - tail, seen + 1, runs - seen))
    return low, high


def epsilon_proved(often: int, n_often: int, seldom: int, n_seldom: int, delta: float, error: float = 0.05) -> float:
    """P ≤ e^ε P′ + δ fails for any smaller ε, but for a chance of `error`, half of it for each of the two ends."""
    if not n_often or not n_seldom:
        return 0.0
    low, _ = clopper_pearson(often, n_often, 1 - error)
    _, high = clopper_pearson(seldom, n_seldom, 1 - error)
    return max(0.0, log((low - delta) / high)) if low > delta else 0.0
