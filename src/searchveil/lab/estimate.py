"""What repeated releases prove about ε: a lower bound from how often an event is seen on either of two neighbours."""

from math import inf, log

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


def epsilon_at_least(
    seen: int, seen_by_neighbour: int, runs: int, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """The ε that these counts prove, at this δ and confidence: P(E) ≤ e^ε P′(E) + δ fails for any smaller one.

    Each of the two intervals gets half of the error, so the pair holds with the confidence asked for.
    """
    each = 1 - (1 - confidence) / 2
    low, _ = clopper_pearson(seen, runs, each)
    _, high = clopper_pearson(seen_by_neighbour, runs, each)
    if low <= delta:
        return 0.0
    return max(0.0, log((low - delta) / high)) if high > 0 else inf
