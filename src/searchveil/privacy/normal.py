"""The normal distribution with rigorous error bounds."""

from searchveil.privacy.intervals import Interval, Intervals, scaled


def upper_tail(intervals: Intervals, x: Interval) -> Interval:
    """P(Z > x) for a standard normal Z and a narrow interval x.

    For x ≥ 0, P(0 < Z ≤ x) = φ(x)·x·(1 + x²/3 + x⁴/(3·5) + …), computed on integers rounded outwards. All terms are
    positive; once each is at most half of the one before, what is left out is at most the last one.
    """
    if x.a < 0:
        if x.b > 0:  # around zero: the tail falls with x, so its ends are the tails at the ends
            ends = (upper_tail(intervals, intervals.mpf(end)) for end in (x.b, x.a))
            return intervals.mpf([next(ends).a, next(ends).b])
        return 1 - upper_tail(intervals, -x)
    bits = intervals.prec
    square_low, square_high = scaled(x * x, bits)
    low = high = total_low = total_high = 1 << bits
    odd = 1
    while high > 2 or 2 * square_high > odd << bits:
        odd += 2
        low, high = (low * square_low >> bits) // odd, ((high * square_high >> bits) + 1) // odd + 1
        total_low, total_high = total_low + low, total_high + high
    series = intervals.mpf([total_low, total_high + high]) / (1 << bits)
    density = intervals.exp(-x * x / 2) / intervals.sqrt(2 * intervals.pi)
    return intervals.mpf(1) / 2 - density * x * series
