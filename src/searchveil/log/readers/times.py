"""Times in text and number, as SQL: everything becomes a timestamp in UTC without a zone."""

from searchveil.engine.sql import literal
from searchveil.log.schema import FIRST_TIME, LAST_TIME


def time_sql(text: str, time_format: str | None = None) -> str:
    """SQL that reads the SQL text as a time; NULL where it is none.

    Without a format: ISO dates and times, with or without an offset, and seconds, milliseconds or microseconds since
    1970, told apart by their size.
    """
    if time_format is not None:
        return f"try_strptime({text}, {literal(time_format)})"
    number = f"try_cast({text} as double)"
    size = f"abs({number})"
    since_1970 = f"round({number} * case when {size} < 1e11 then 1e6 when {size} < 1e14 then 1e3 else 1 end)"
    written = f"(try_cast({text} as timestamptz) at time zone 'UTC')"
    return (
        f"case when regexp_full_match({text}, '-?[0-9]+([.][0-9]+)?') then "
        f"case when {size} < 1e17 then make_timestamp({since_1970}::bigint) end else {written} end"
    )


def bad_time(time: str) -> str:
    """SQL that holds where a time is missing or none that a log may have, such as DuckDB's infinity."""
    return f"({time} between timestamp '{FIRST_TIME}' and timestamp '{LAST_TIME}') is not true"
