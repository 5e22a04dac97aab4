"""SafeLog's formulas as Zhang's thesis states them (2017, chapters 3 and 4): the paper's claims, printed beside ours.

docs/errata.md says where they do not hold. Our own guarantees come from `calibrate`.
"""

from math import exp, inf, log

from searchveil.privacy import calibrate

MOST_QUERIES_PER_SESSION = 12


def alpha(scale: float, threshold: float, coverage: float = 1.0) -> float:
    """α of Theorem 1; `coverage` is p_g, the probability that the pool contains a query."""
    exponent = (threshold - 1) / scale
    if exponent > 700:  # e^700 is beyond floating point, and its reciprocal is nothing
        return exp(1 / scale) / coverage
    rest = 2 * exp(exponent) - 1
    return max(exp(1 / scale) / coverage, 1 + 1 / rest) if rest > 0 else inf


def click_epsilon(queries: int, clicks: int, scale: float, threshold: float, coverage: float = 1.0) -> float:
    """ε of A_Click: q_f ln α + q_f/b_q + c_f/b_c, all noise of one scale."""
    return queries * log(alpha(scale, threshold, coverage)) + (queries + clicks) / scale


def scale_with_transitions(epsilon: float, queries: int) -> float:
    """b of Table 3.10, whose ε column is (4 q_f − 1)/b: queries twice, clicks, and q_f − 1 transitions."""
    return (4 * queries - 1) / epsilon


def subsequences(sessions: int, queries: int) -> int:
    """Δf: how many subsequences of two or more queries a user's kept sessions have at most."""
    return int(sessions * (2**queries - 1 - queries))


def session_epsilon(changes: int, scale: float, threshold: float) -> float:
    """ε of A_Session's part 1 with Δf = `changes`, or of part 2 with l = `changes`."""
    return changes * (log(alpha(scale, threshold)) + 1 / scale)


def session_delta(changes: int, scale: float, threshold: float) -> float:
    exponent = (changes - threshold) / scale
    return changes / 2 * exp(exponent) if exponent < 700 else inf


def expected_slips(pool_size: int, scale: float, threshold: int) -> float:
    """How many pool queries nobody searched come out all the same."""
    return pool_size * calibrate.tail(scale, threshold)


def threshold_for_slips(pool_size: int, scale: float, slips: float = 1.0) -> int:
    """The smallest T at which no more than `slips` of them are expected."""
    start = max(1, round(scale * log(max(1.0, pool_size / slips))))
    return calibrate.smallest_integer(start, lambda t: t >= 1 and expected_slips(pool_size, scale, t) <= slips)
