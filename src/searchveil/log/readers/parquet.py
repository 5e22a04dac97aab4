"""Parquet of any layout, read in place by the engine: which column is which is told, or guessed from its name.

What a column may hold is a matter of the file's schema. What a cell holds is a matter of its row: a row with a cell
that does not fit is a bad row, on every engine.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import ibis
import ibis.expr.types as ir

from searchveil.engine import Engine
from searchveil.errors import InputError, setting, was_interrupted
from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.generic import NAME, match_columns, named, unit_of
from searchveil.log.readers.staging import Remarks
from searchveil.log.schema import COLUMNS, FIRST_TIME, LAST_TIME, Problem

TAKEN_AS_PUBLIC = "that every cell can be decoded: its texts UTF-8, its times within the range of the engine"
# What every engine takes for the same time; others also know words, such as "now".
_WRITTEN_TIME = (
    r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}(:[0-9]{2})?)?)?$"
)
_WHOLE_NUMBER = r"^-?[0-9]{1,18}$"
_RANKS = (-(2**31), 2**31 - 1)


class Cell(NamedTuple):
    """A column as the log has it, and whether it fits: false in a bad row, NULL or true in the others."""

    value: ir.Value
    fits: ir.BooleanValue


def recognises(head: bytes, name: str) -> bool:
    return head.startswith(b"PAR1") or (
        not head and not named(name, ".csv", ".tsv", ".jsonl", ".ndjson", ".xml", ".txt")
    )


def read_parquet(engine: Engine, request: Request) -> tuple[ir.Table, Remarks]:
    """The files in place, nothing staged; one pass finds the bad rows before anything is made of the others."""
    paths = [source.path for source in request.sources]
    try:
        raw = engine.read_parquet(paths)
    except InputError:  # the engine says itself what is wrong
        raise
    except Exception as problem:
        raise InputError(f"{paths[0]}: cannot be read as Parquet ({str(problem).splitlines()[0]})") from problem
    return read_table(engine, raw, request.columns, paths[0])


def read_table(engine: Engine, raw: ir.Table, columns: Mapping[str, str], where: str) -> tuple[ir.Table, Remarks]:
    """A table of the engine, whatever it came from; its columns have names and types, as those of Parquet have."""
    matched = match_columns(raw.columns, columns, where)
    cells = {ours: _CELLS[ours](raw[theirs], where) for ours, theirs in matched.items()}
    faults = _faults(cells, engine)
    fault = ibis.cases(*((condition, reason) for reason, condition in faults.items()))
    problems = _count(raw, list(matched.values()), fault, faults, engine, where)
    table = raw.select(**{ours: cell.value for ours, cell in cells.items()}, fault=fault)
    if problems:
        table = table.filter(table.fault.isnull())
    return table.drop("fault"), Remarks(problems, unit_of(matched["user"]), (TAKEN_AS_PUBLIC,), matched)


def _faults(cells: dict[str, Cell], engine: Engine) -> dict[str, ir.BooleanValue]:
    """Reason -> where it holds, never NULL; a row counts for the first one."""
    texts = [cell.value for cell in cells.values() if cell.value.type().is_string()]
    faults = {"invalid UTF-8": ibis.or_(*((~engine.is_utf8(text)).fill_null(False) for text in texts))}
    user = cells["user"].value
    nobody = user == "" if user.type().is_string() else ibis.literal(False)
    faults["no user"] = user.isnull() | nobody.fill_null(False)
    faults["no query"] = cells["query"].value.isnull()
    for column in ("time", "rank"):
        if column in cells:
            faults[f"bad {column}"] = (~cells[column].fits).fill_null(False)
    return faults


def _count(
    raw: ir.Table, columns: Iterable[str], fault: ir.StringValue, reasons: Iterable[str], engine: Engine, where: str
) -> tuple[Problem, ...]:
    # Something of every cell as the file has it, or an engine may not look at columns whose statistics tell enough.
    seen = {f"seen_{name}": engine.trace(raw[name]) for name in columns}
    looked_at = raw.select(fault=fault, **seen)
    largest = {name: looked_at[name].max() for name in seen}
    try:
        counts = engine.fetch(looked_at.group_by("fault").agg(rows=looked_at.count(), **largest)).to_pylist()
    except Exception as problem:
        if was_interrupted(problem):
            raise
        # What the engine says may quote the cell.
        raise InputError(
            f"{where}: a cell of it cannot be decoded (text that is not UTF-8, a time out of range, a damaged file); "
            "write the file anew without it"
        ) from None
    known = {row["fault"]: row["rows"] for row in counts}
    return tuple(Problem(reason, known[reason]) for reason in reasons if reason in known)


def _user(column: ir.Column, where: str) -> Cell:
    """Ids must be exact: a float makes one user of several, and NaN one of all who have none."""
    kind = column.type()
    if kind.is_uuid():
        return _any(column.cast("string"))
    if kind.is_string() or kind.is_integer() or (kind.is_decimal() and kind.scale == 0):
        return _any(column)
    raise InputError(
        f"{where}: the user column '{column.get_name()}' holds {kind}",
        parameter="columns",
        instead="store it as text or whole numbers, or type " + setting("columns", {"user": NAME}),
    )


def _not_of_kind(column: ir.Column, ours: str, wanted: str, where: str) -> InputError:
    return InputError(
        f"{where}: the {ours} column '{column.get_name()}' holds {column.type()}, not {wanted}",
        parameter="columns",
        instead="type " + setting("columns", {ours: NAME}),
    )


def _query(column: ir.Column, where: str) -> Cell:
    kind = column.type()
    if not kind.is_string():
        raise _not_of_kind(column, "query", "text", where)
    return _any(column)


def _url(column: ir.Column, where: str) -> Cell:
    kind = column.type()
    if kind.is_string() or kind.is_integer() or kind.is_uuid():
        return _any(column.cast("string"))
    raise _not_of_kind(column, "url", "text", where)


def _time(column: ir.Column, where: str) -> Cell:
    kind = column.type()
    if kind.is_string():
        moment = ibis.ifelse(column.re_search(_WRITTEN_TIME), column, ibis.null("string")).try_cast("timestamp('UTC')")
        return Cell(_within(moment).cast("timestamp"), column.isnull() | _within(moment).notnull())
    if kind.is_date():
        return Cell(_within(column).cast("timestamp"), _in_range(column))
    if kind.is_timestamp():
        if kind.scale == 9:  # nanoseconds since 1970 cannot hold the ends of our range to compare with
            column = column.cast("timestamp")
        return Cell(_within(column).cast("timestamp"), _in_range(column))
    raise InputError(
        f"{where}: the time column '{column.get_name()}' holds {kind}; store it as a timestamp of microseconds"
    )


def _in_range(moment: ir.Column) -> ir.BooleanValue:
    if moment.type().is_date():
        return moment.between(ibis.date(FIRST_TIME.date()), ibis.date(LAST_TIME.date()))
    zone = moment.type().timezone
    first, last = (
        ibis.literal(end, f"timestamp('{zone}')" if zone else "timestamp") for end in (FIRST_TIME, LAST_TIME)
    )
    return moment.between(first, last)


def _within(moment: ir.Column) -> ir.Column:
    """NULL where it is out of range, before anything is made of it: a cast of such a time can fail."""
    return ibis.ifelse(_in_range(moment), moment, ibis.null(moment.type()))


def _rank(column: ir.Column, where: str) -> Cell:
    kind = column.type()
    if kind.is_string():
        whole = column.re_search(_WHOLE_NUMBER)
        number = ibis.ifelse(whole, column, ibis.null("string")).cast("int64")
        fits = whole & number.between(*_RANKS)
    elif kind.is_integer() or kind.is_floating() or kind.is_decimal():
        number = column
        fits = column.between(*_RANKS)
        if not kind.is_integer():
            fits = fits & (column % 1 == 0)  # infinities and NaN are in no range
    else:
        raise _not_of_kind(column, "rank", "numbers", where)
    return Cell(ibis.ifelse(fits, number, ibis.null(number.type())).cast("int32"), fits)


def _any(column: ir.Value) -> Cell:
    return Cell(column, ibis.literal(True))


_CELLS = {"user": _user, "query": _query, "time": _time, "rank": _rank, "url": _url}
assert set(_CELLS) == set(COLUMNS)

READER = Reader("parquet", recognises, None, takes_columns=True, declared=recognises)
