"""The columns of a text without a header, given as a list in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from searchveil.errors import Blank, InputError, printable, setting
from searchveil.log.readers.source import Source
from searchveil.log.schema import COLUMNS

Columns: TypeAlias = Mapping[str, str] | Sequence[str] | None  # our names -> the file's, or ours in the file's order
DELIMITERS = ("\t", ",", ";", "|")
PASSED_OVER = "-"


@dataclass(frozen=True)
class Asked:
    """How the files are to be read: what the caller said, and what follows from a list of columns."""

    format: str
    columns: Mapping[str, str]
    options: Mapping[str, str]
    taken_as_public: tuple[str, ...] = ()


def asked_of(sources: Sequence[Source], columns: Columns, format: str, options: Mapping[str, str]) -> Asked:
    if columns is None or isinstance(columns, Mapping):
        return Asked(format, columns or {}, options)
    _check_names(columns)
    places = {name: str(place) for place, name in enumerate(columns, 1) if name != PASSED_OVER}
    options = {**options, "header": "no"}
    if format != "auto" or "delimiter" in options:
        return Asked("csv" if format == "auto" else format, places, options)
    delimiter = _delimiter(sources[0], len(columns))
    inferred = ("what stands between columns, inferred from the first row",)
    if delimiter == "\t":
        return Asked("tsv", places, {**options, "delimiter": "tab"}, inferred)
    return Asked("csv", places, {**options, "delimiter": delimiter}, inferred)


def _check_names(names: Sequence[str]) -> None:
    repeated = next((name for name in names if name != PASSED_OVER and names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(
            f"'{printable(repeated)}' stands twice among the columns",
            parameter="columns",
            value=list(names),
            instead="name one of each, - those to pass over",
        )
    wrong = next((name for name in names if name not in (*COLUMNS, PASSED_OVER)), None)
    if wrong is not None or not {"user", "query"} <= set(names):
        but = "" if wrong is None else f"not '{printable(wrong)}', "
        raise InputError(
            "the columns of a text without a header are user and query and, where it has them, time, rank and url",
            parameter="columns",
            value=list(names),
            instead=f"write them in the file's order, {but}- for one to pass over",
        )


def _delimiter(source: Source, columns: int) -> str:
    """Of those that cut the first line into enough columns, one that makes just as many; a tab before others."""
    first = next(iter(source.first_lines(1)), "")
    fitting = [mark for mark in DELIMITERS if first.count(mark) >= columns - 1 > 0]
    if not fitting:
        raise InputError(
            f"{source.shown}: its first line has not {columns} columns between tabs, commas, semicolons or bars",
            parameter="columns",
            instead="name what stands between with " + setting("options", {"delimiter": Blank("CHARACTER")}),
        )
    return max(fitting, key=lambda mark: (first.count(mark) == columns - 1, mark == "\t"))
