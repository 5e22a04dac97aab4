"""What may be published: a way to read (user, item) rows off a log."""

from collections.abc import Callable
from dataclasses import dataclass

import ibis.expr.types as ir

from searchveil.log import SearchLog
from searchveil.log.normalize import Normalization


def _as_it_is(rows: ir.Table, normalization: Normalization) -> ir.Table:
    return rows


@dataclass(frozen=True)
class Item:
    """A kind of item: its columns, its rows per user, and what is still to be done to the few rows that are kept.

    `needs` names the columns of the log, beyond user and query, without which there are none.

    Normalising ten million texts costs more than everything else, so kinds whose rows can be chosen as typed are
    normalised after the choice, by `finish`. A user's rows that become the same item then are one item.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[SearchLog], ir.Table]
    needs: tuple[str, ...] = ()
    finish: Callable[[ir.Table, Normalization], ir.Table] = _as_it_is

    def __str__(self) -> str:
        return self.name

    def check(self, log: SearchLog) -> None:
        log.require(*self.needs, why=f"the item '{self.name}'")

    def of(self, log: SearchLog) -> ir.Table:
        """Every user's different items: the (user, item) table."""
        return self.not_blank(self.finish(self.rows(log), log.normalization).distinct())

    def not_blank(self, table: ir.Table) -> ir.Table:
        """Without what normalising left nothing of. Cheap on a staged table; before, it would normalise twice."""
        for column in self.columns:
            table = table.filter(table[column] != "")
        return table


def normal_query(rows: ir.Table, normalization: Normalization) -> ir.Table:
    """The query column in its normal form, which may be nothing at all."""
    return rows.mutate(query=normalization.apply(rows["query"]))


def normalize_query(rows: ir.Table, normalization: Normalization) -> ir.Table:
    """The query column in its normal form, without the rows of which nothing is left."""
    typed = rows["query"]
    # Letters and digits are in the normal form too, so nearly every text is seen not to be blank without it.
    some = rows.filter(typed.re_search("[0-9A-Za-z]") | (normalization.apply(typed) != ""))
    return normal_query(some, normalization)
