"""A shorter number never promises more than the longer one."""

from decimal import Decimal
from fractions import Fraction
from math import exp, inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from searchveil.privacy.rounding import at_least, at_most

POSITIVE = st.floats(min_value=1e-300, max_value=1e300)


@given(POSITIVE, st.integers(1, 12))
@example(0.1, 6)
@example(1e-6, 6)
@example(999999.5, 6)
def test_rounding_goes_one_way_and_by_less_than_one_unit_of_the_last_digit(number: float, digits: int) -> None:
    above, below = at_most(number, digits), at_least(number, digits)
    assert float(below) <= number <= float(above)
    unit = Decimal(10) ** (Decimal(repr(number)).adjusted() - digits + 1)
    assert Decimal(above) - Decimal(repr(number)) < unit
    assert Decimal(repr(number)) - Decimal(below) < unit
    assert len(Decimal(above).as_tuple().digits) <= digits


@pytest.mark.parametrize(
    ("number", "digits", "above", "below"),
    [
        (1, 6, "1", "1"),
        (0.0, 6, "0", "0"),
        (0.1, 6, "0.1", "0.1"),
        (1e-6, 6, "1e-06", "1e-06"),
        (3 / 7, 6, "0.428572", "0.428571"),  # :g says 0.428571, which is too little for an ε
        (0.00030439473, 3, "0.000305", "0.000304"),
        (0.00030439473, 6, "0.000304395", "0.000304394"),
        (exp(0.7), 3, "2.02", "2.01"),
        (1.0000004, 6, "1.00001", "1"),
        (0.1234564, 6, "0.123457", "0.123456"),
        (Fraction(1, 3), 6, "0.333334", "0.333333"),
        (Decimal("73.1058578630"), 4, "73.11", "73.1"),
        (inf, 6, "inf", "inf"),
        (5e-324, 1, "5e-324", "5e-324"),
    ],
)
def test_known_answers(number: float, digits: int, above: str, below: str) -> None:
    assert (at_most(number, digits), at_least(number, digits)) == (above, below)
