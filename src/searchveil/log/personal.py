"""Queries that look personal: e-mail addresses, phone numbers, identity and card numbers, and patterns of one's own.

The filter looks at one row at a time, so it costs no privacy; it also promises none.
"""

import re
from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from searchveil.errors import InputError

# Written for the regular expressions that Python, DuckDB (RE2) and Spark (Java) share.
PATTERNS = {
    "email": r"[a-zA-Z0-9._%+-]+(@| at )[a-zA-Z0-9-]+(\.| dot )[a-zA-Z]{2,}",
    "phone": r"(^|[^0-9])(\+?[0-9]{1,3}[ .-]?)?(\([0-9]{3}\)|[0-9]{3})[ .-]?[0-9]{3}[ .-]?[0-9]{4}($|[^0-9])",
    "ssn": r"(^|[^0-9])[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4}($|[^0-9])",
}
CARD = r"(^|[^0-9])[0-9]([ -]?[0-9]){12,18}($|[^0-9])"


def looks_personal(text: ir.StringValue, patterns: Sequence[str] = ()) -> ir.BooleanValue:
    """Whether a text matches one of the patterns, ours or the caller's own."""
    found = text.re_search(CARD) & has_valid_card(text)
    for pattern in (*PATTERNS.values(), *patterns):
        found = found | text.re_search(pattern)
    return found


def has_valid_card(text: ir.StringValue) -> ir.BooleanValue:
    """Whether the first run of digits as long as a card number ends in the right check digit (Luhn).

    Computed with the engine's own arithmetic: from the right, every second digit is doubled and loses nine above nine.
    """
    run = text.re_extract(r"[0-9]([ -]?[0-9]){12,18}", 0)
    digits = run.re_replace("[^0-9]", "")
    total = ibis.literal(0)
    for place in range(1, 20):
        # A place left of the number is an empty text and counts as zero.
        text_digit = ibis.ifelse(digits.length() >= place, digits.substr(digits.length() - place, 1), "0")
        digit = text_digit.cast("int64")
        if place % 2 == 0:
            digit = digit * 2 - ibis.ifelse(digit > 4, 9, 0)
        total = total + digit
    return total % 10 == 0


def check_patterns(patterns: Sequence[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise InputError(f"the pattern {pattern!r} is not a regular expression: {problem}") from problem
