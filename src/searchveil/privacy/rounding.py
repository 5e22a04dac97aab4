"""Numbers of a promise in few digits, rounded so that the shorter sentence promises no more than the longer one."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

Number = float | Fraction | Decimal


def at_most(number: Number, digits: int = 6) -> str:
    """What a number is at most, in so many digits; one that has no more of them is printed as it is."""
    return _rounded(number, digits, ROUND_CEILING)


def at_least(number: Number, digits: int = 6) -> str:
    """What a number is at least: for what remains, where rounding up would promise too much."""
    return _rounded(number, digits, ROUND_FLOOR)


def _rounded(number: Number, digits: int, rounding: str) -> str:
    """A float stands for the decimal that a person reads, the shortest one (docs/ledger.md, Why decimals)."""
    context = Context(prec=digits, rounding=rounding)
    if isinstance(number, Fraction):
        rounded = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    else:
        rounded = context.plus(number if isinstance(number, Decimal) else Decimal(repr(float(number))))
    return f"{float(rounded):.{digits}g}"
