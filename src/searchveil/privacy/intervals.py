"""Interval arithmetic with rigorous ends: the one place that chooses its precision."""

from fractions import Fraction
from threading import local
from typing import Any

import mpmath

Intervals = Any  # an interval context of mpmath
Interval = Any  # an interval in such a context

_of_thread = local()


def context(bits: int) -> Intervals:
    """Interval arithmetic with this many bits. Threads do not share one, and nobody changes its precision."""
    known: dict[int, Intervals] = _of_thread.__dict__.setdefault("contexts", {})
    if bits not in known:
        if len(known) > 50:
            known.clear()
        known[bits] = mpmath.MPIntervalContext()
        known[bits].prec = bits
    return known[bits]


def exactly(intervals: Intervals, number: Fraction) -> Interval:
    """An interval around a fraction, as narrow as the context allows."""
    return intervals.mpf(number.numerator) / number.denominator


def scaled(interval: Interval, bits: int) -> tuple[int, int]:
    """An interval's ends times 2^bits, rounded outwards to integers."""
    (low_sign, low_man, low_exp, _), (high_sign, high_man, high_exp, _) = interval._mpi_
    low, high = (-low_man if low_sign else low_man), (-high_man if high_sign else high_man)
    return _shifted(low, low_exp + bits), -_shifted(-high, high_exp + bits)


def _shifted(mantissa: int, exponent: int) -> int:
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent
