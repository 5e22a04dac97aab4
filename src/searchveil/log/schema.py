"""The one shape every reader produces and every mechanism takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import ibis.expr.types as ir

from searchveil.engine import Engine
from searchveil.errors import InputError, Text, printable
from searchveil.log.normalize import Normalization

COLUMNS = ("user", "query", "time", "rank", "url")
# Every engine and Python hold these times, and a session's gap after each. A row with another has a bad time: near the
# ends of an engine's own range one row could end the whole run.
FIRST_TIME = datetime.min
LAST_TIME = datetime.max


@dataclass(frozen=True)
class Problem:
    """Rows that could not be read: how many, why, and where the first ones are."""

    reason: str
    rows: int
    first: tuple[str, ...] = ()  # "file:line", the first few
    and_more: bool = False  # rows are lost with these that nobody can count

    def __str__(self) -> str:
        at = "at" if len(self.first) == self.rows else "first at"
        where = f" ({at} {', '.join(self.first)})" if self.first else ""
        number = f"{'at least ' if self.and_more else ''}{self.rows}"
        return printable(f"{number} row{'' if self.rows == 1 else 's'}: {self.reason}{where}")


@dataclass(frozen=True)
class SearchLog:
    """A table with the columns user, query and, where known, time, rank and url; texts as they were typed.

    `user` may be of any type that names exactly, so no float; `time` is a timestamp of the years 1 to 9999, `rank` a
    32-bit integer. Rows that are otherwise are not in it: they are in `problems`.

    Which rows a user has must be a matter of her own rows alone. `unit` says what a user of this log really is;
    `taken_as_public` names each choice about the reading that was inferred from rows, not made by the caller or by a
    header: there one user's rows could decide how another's are read.

    >>> log.users, log.rows, log.table.columns
    (20, 40, ('user', 'query', 'time'))
    """

    table: ir.Table
    engine: Engine
    normalization: Normalization = field(default_factory=Normalization)
    problems: tuple[Problem, ...] = ()
    source: str = "a table"
    unit: str = "user"  # or "session", "visit", "cookie", "device": one noun
    format: str = ""  # the reader's name, of a log that was read from files
    names: Mapping[str, str] = field(default_factory=dict)  # our columns -> what the files call them
    taken_as_public: tuple[str, ...] = ()  # parts of a sentence: "the encoding gbk, inferred from the first rows"

    def __post_init__(self) -> None:
        for column in ("user", "query"):
            if column not in self.table.columns:
                raise InputError(f"{self.source} has no column '{column}'; it has {', '.join(self.table.columns)}")

    def require(self, *columns: str, why: str, or_add: Text | None = None) -> None:
        """Refuse a log without these columns; `or_add` is what to add to do without them."""
        missing = [column for column in columns if column not in self.table.columns]
        if missing:
            instead = None if or_add is None else "add " + or_add + " to do without"
            raise InputError(f"{self.source} has no {' and no '.join(missing)}, which {why} needs", instead=instead)

    @cached_property
    def users(self) -> int:
        """How many users the log has. A private figure, unless the number of users is public."""
        return int(self.engine.value(self.table["user"].nunique()))

    @cached_property
    def rows(self) -> int:
        return int(self.engine.value(self.table.count()))
