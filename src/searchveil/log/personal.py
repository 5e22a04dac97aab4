"""Queries that look personal: e-mail addresses, phone numbers, identity and card numbers, and patterns of one's own.

The filter looks at one row at a time, so it costs no privacy; it also promises none. A text longer than LONGEST always
counts as personal. It was pasted, not typed; and Spark's regular expressions, which go back and try again, could take
hours or all of the stack for it: one row would decide whether there is a release.
"""

import re
from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.types as ir

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log.normalize import Normalization

# Written for the regular expressions that Python, DuckDB (RE2) and Spark (Java) share.
EMAIL = r"[a-zA-Z0-9._%+-]+(@| at )([a-zA-Z0-9-]+(\.| dot ))+[a-zA-Z]{2,}"
ABROAD = r"(^|[^0-9A-Za-z])(\+|00)[1-9]([ .()-]{0,2}[0-9]){7,14}($|[^0-9])"  # as dialled from another country
PHONE = r"(^|[^0-9])(\+?[0-9]{1,3}[ .-]?)?(\([0-9]{3}\)|[0-9]{3})[ .-]?[0-9]{3}[ .-]?[0-9]{4}($|[^0-9])"
SSN = r"(^|[^0-9])[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4}($|[^0-9])"
CARD = r"[0-9]([ -]?[0-9]){12,18}"
LONGEST = 1000  # characters that are looked at
WORTH_A_LOOK = "@| at |[0-9]"  # what all of these contain; few queries do
WORTH_A_LOOK_AS_TYPED = "@| [aA][tT] |[0-9]"


def normal_with_suspects(rows: ir.Table, normalization: Normalization) -> ir.Table:
    """The query column in its normal form, and `suspect` where that could match one of our patterns.

    One look at each text serves both: nearly all are plain and hold nothing that a pattern needs. The normal form of a
    plain text is its lower case, so what is not suspect as typed is not worth a look afterwards either.
    """
    text = rows["query"]
    suspect = text.re_search(f"{normalization.not_plain}|{WORTH_A_LOOK_AS_TYPED}")
    normal = ibis.ifelse(suspect, normalization.apply(text), normalization.apply_to_plain(text))
    return rows.mutate(query=normal, suspect=suspect)


def without_personal(rows: ir.Table, *, ours: bool, own: Sequence[str] = ()) -> ir.Table:
    """The rows whose query does not look personal; where there is a column `suspect`, it says who need not be asked.

    `rows` should be staged: an engine would work out a normal form anew for every pattern it looks for.
    """
    suspect = rows["suspect"] if "suspect" in rows.columns else None
    return rows.filter(~looks_personal(rows["query"], ours=ours, own=own, suspect=suspect))


def looks_personal(
    text: ir.StringValue, *, ours: bool = True, own: Sequence[str] = (), suspect: ir.BooleanValue | None = None
) -> ir.BooleanValue:
    """Whether a text matches one of our patterns, if they are wanted, or one of the caller's own, or is very long."""
    too_long = text.length() > LONGEST
    text = text.substr(0, LONGEST)
    found = ibis.literal(False)
    if ours:
        matches = text.re_search("|".join(f"({pattern})" for pattern in (EMAIL, PHONE, ABROAD, SSN)))
        has_card = ibis.ifelse(text.re_search(CARD), _has_card_number(text), False)
        found = ibis.ifelse(text.re_search(WORTH_A_LOOK), matches | has_card, False)
        found = found if suspect is None else ibis.ifelse(suspect, found, False)
    for pattern in own:
        found = found | text.re_search(_in_any_case(pattern))
    return too_long | found


def has_card_number(text: str) -> bool:
    """Whether groups of digits in a row make up a number as long as a card's with the right check digit (Luhn)."""
    for run in re.findall("[0-9]+(?:[ -][0-9]+)*", text):
        groups = re.split("[ -]", run)
        for first in range(len(groups)):
            for last in range(first + 1, len(groups) + 1):
                digits = "".join(groups[first:last])
                if len(digits) > 19:
                    break
                if 13 <= len(digits) <= 19 and _check_digit_fits(digits):
                    return True
    return False


def _check_digit_fits(digits: str) -> bool:
    from_right = [int(digit) for digit in reversed(digits)]
    doubled = (2 * digit - 9 * (digit > 4) for digit in from_right[1::2])
    return (sum(from_right[0::2]) + sum(doubled)) % 10 == 0


@ibis.udf.scalar.pyarrow(signature=((ibis.dtype("string"),), ibis.dtype("boolean")))  # type: ignore[untyped-decorator]
def _has_card_number(texts: Any) -> Any:
    """No engine knows check digits; only the rows with such long numbers take the trip through Python."""
    import pyarrow as pa

    if not hasattr(texts, "to_pylist"):  # DuckDB hands over an array, Spark one text at a time
        return has_card_number(texts) if isinstance(texts, str) else None
    return pa.array([None if text is None else has_card_number(text) for text in texts.to_pylist()], pa.bool_())


def check_patterns_on(engine: Engine, patterns: Sequence[str]) -> None:
    """Whether the engine knows them too: some regular expressions of Python are no others'."""
    for pattern in patterns:
        try:
            engine.value(ibis.literal("a query").re_search(_in_any_case(pattern)))
        except Exception as problem:
            reason = str(problem).splitlines()[0]
            raise InputError(f"the pattern {pattern!r} is not one that {engine.name} knows: {reason}") from problem


def _in_any_case(pattern: str) -> str:
    """Queries are in lower case by the time they are looked at; a pattern need not be."""
    return f"(?i:{pattern})"


def check_patterns(patterns: Sequence[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise InputError(f"the pattern {pattern!r} is not a regular expression: {problem}") from problem


def personal_texts(texts: Any) -> Any:
    """Which texts of an Arrow array look personal by our patterns, without an engine."""
    import pyarrow as pa
    import pyarrow.compute as pc

    too_long = pc.greater(pc.utf8_length(texts), pa.scalar(LONGEST))
    found = too_long.to_numpy(zero_copy_only=False).copy()
    places = pc.indices_nonzero(pc.match_substring_regex(texts, WORTH_A_LOOK)).to_numpy()
    some = texts.take(pa.array(places))
    matches = pc.match_substring_regex(some, "|".join(f"({pattern})" for pattern in (EMAIL, PHONE, ABROAD, SSN)))
    found[places] |= matches.to_numpy(zero_copy_only=False)
    with_long_numbers = places[pc.match_substring_regex(some, CARD).to_numpy(zero_copy_only=False)]
    for place in with_long_numbers.tolist():
        found[place] |= has_card_number(texts[place].as_py())
    return pa.array(found)
