"""What may be published: a way to read (user, item) rows off a log, and all that the rest of the package asks of it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import ibis
import ibis.expr.types as ir

from searchveil.errors import InputError
from searchveil.items.normal import NormalLog, count_rows, count_users_of
from searchveil.log import SearchLog
from searchveil.log.normalize import Normalization

# Columns that stand beside an item's own: in its rows, and in what is published.
TAKEN = ("user", "count", "score")


class Search(NamedTuple):
    """A search with the result that was clicked, if any, and its rank."""

    query: str
    url: str | None = None
    rank: int | None = None


class Derivation(NamedTuple):
    """Counts of `table` that whoever has the counts of another table can work out."""

    table: str
    origin: str
    derive: Callable[[ir.Table], ir.Table]


Count = Callable[[NormalLog], ir.Table]


def _as_it_is(rows: ir.Table, normalization: Normalization) -> ir.Table:
    return rows


def clicked(texts: Sequence[str]) -> list[Search]:
    """A search for each text, with a click on a result of its own."""
    return [Search(text, f"http://{text}.example", 1) for text in texts]


@dataclass(frozen=True)
class Item:
    """A kind of item. The first three fields are all that a simple one needs; docs/design.md has the recipe.

    Its columns are texts: values of other types are published as texts, and rows without a value are none. `rows` has
    `user` and these columns; a user's row may repeat. `needs` names the columns of the log, beyond user and query,
    without which there are none.

    Normalising ten million texts costs more than everything else, so kinds whose rows can be chosen as typed are
    normalised after the choice, by `finish`, which keeps all other columns. A user's rows that become the same item
    then are one item.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[SearchLog], ir.Table]
    needs: tuple[str, ...] = ()
    finish: Callable[[ir.Table, Normalization], ir.Table] = _as_it_is

    # In reports and evaluations.
    plural: str = ""  # the name and an s, unless given
    table: str = ""  # under which its counts and figures stand; the name, unless given

    # How an evaluation counts a log: the item's columns and `count`. Without them, it is counted by `rows`.
    occurrences: Count | None = None
    users: Count | None = None
    sessions: Count | None = None
    derivations: tuple[Derivation, ...] = ()  # what follows from its counts, and from what they follow

    # How the audit makes one of them: so many searches with these texts. Numbers are tried in this order.
    searches: tuple[int, ...] = (1, 2, 3)
    example: Callable[[Sequence[str]], Sequence[Search]] = clicked

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", self.name):
            raise InputError(f"item '{self.name}': a name has small letters, digits, - and _, as in query-site")
        object.__setattr__(self, "plural", self.plural or f"{self.name}s")
        object.__setattr__(self, "table", self.table or self.name)
        different = {column.casefold() for column in self.columns}  # engines do not tell capitals apart
        if not self.columns or len(different) < len(self.columns):
            raise InputError(f"item '{self.name}': needs at least one column, and no two of the same name")
        for column in self.columns:
            if column.casefold() in TAKEN or column.startswith("_"):
                raise InputError(
                    f"item '{self.name}': a column cannot be called '{column}': {', '.join(TAKEN)} and names that "
                    "begin with _ are taken; rename it"
                )

    def __str__(self) -> str:
        return self.name

    def check(self, log: SearchLog) -> None:
        log.require(*self.needs, why=f"the item '{self.name}'")

    def is_in(self, log: SearchLog) -> bool:
        """Whether the log has the columns that it is read from."""
        return set(self.needs) <= set(log.table.columns)

    def held(self, log: SearchLog) -> ir.Table:
        """(user, item) rows before `finish`; a user's item may repeat."""
        rows = self.rows(log)
        rows = rows.filter([rows[column].notnull() for column in self.columns])
        return rows.select("user", **{column: rows[column].cast("string") for column in self.columns})

    def of(self, log: SearchLog) -> ir.Table:
        """Every user's different items: the (user, item) table."""
        return self.not_blank(self.finish(self.held(log), log.normalization).distinct())

    def leaves(self, table: ir.Table, normalization: Normalization) -> ir.BooleanValue:
        """Which rows `finish` surely leaves as they are. Nothing is known of a kind that has a `finish` of its own."""
        if self.finish is normal_query:
            return normalization.leaves(table["query"])
        return ibis.literal(self.finish is _as_it_is)

    def not_blank(self, table: ir.Table) -> ir.Table:
        """Without what normalising left nothing of. Cheap on a staged table; before, it would normalise twice."""
        for column in self.columns:
            table = table.filter(table[column] != "")
        return table

    def count_occurrences(self, normal: NormalLog) -> ir.Table:
        """How often each item is in the log."""
        if self.occurrences is not None:
            return self.occurrences(normal)
        log = normal.log
        return count_rows(
            self.not_blank(log.engine.stage(self.finish(self.held(log), log.normalization))), *self.columns
        )

    def count_users(self, normal: NormalLog) -> ir.Table:
        """How many users have each item."""
        if self.users is not None:
            return self.users(normal)
        return count_users_of(self.of(normal.log), *self.columns)


def normal_query(rows: ir.Table, normalization: Normalization) -> ir.Table:
    """The query column in its normal form, which may be nothing at all."""
    return rows.mutate(query=normalization.apply(rows["query"]))


def normalize_query(rows: ir.Table, normalization: Normalization) -> ir.Table:
    """The query column in its normal form, without the rows of which nothing is left."""
    typed = rows["query"]
    # Letters and digits are in the normal form too, so nearly every text is seen not to be blank without it; and of
    # nearly every text the first character is one, which takes no regular expression.
    first = ibis.or_(*((typed >= one) & (typed < beyond) for one, beyond in ("0:", "A[", "a{")))
    some = rows.filter(first | typed.re_search("[0-9A-Za-z]") | (normalization.apply(typed) != ""))
    return normal_query(some, normalization)
