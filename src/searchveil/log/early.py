"""Work that looks only at the beginning of each user's history need not read all of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
from ibis import selectors as cs

from searchveil.engine import FirstRows
from searchveil.log.schema import SearchLog


@dataclass(frozen=True)
class Finder:
    """A way to find the first `needed` things of each user among the rows that count, in any order.

    It is tried on the `first` few of these rows. `find` returns rows with `user`, with `place`, the user's first thing
    being at 0, and with a boolean `settled`: true where no later row of the user could change the row.
    """

    find: Callable[[ir.Table], ir.Table]
    needed: int
    first: FirstRows


def on_early_rows(log: SearchLog, rows: Callable[[ir.Table], ir.Table], finders: Sequence[Finder]) -> list[ir.Table]:
    """What each finder finds in the log, without sorting whole histories.

    `rows` prepares rows one by one, keeping their number. The finders run on each user's earliest rows; users for
    whom these did not settle enough, though more rows exist, are done again with all of their rows. The result is that
    of the whole log, user by user.
    """
    engine = log.engine
    early = engine.early_rows(log.table, [finder.first for finder in finders])
    if early is None:
        everything = engine.stage(rows(log.table))
        return [
            finder.find(everything.filter(finder.first.counts(everything))).drop("place", "settled")
            for finder in finders
        ]
    beginnings = engine.stage(rows(early.rows))
    found = [
        engine.stage(finder.find(beginnings.filter(beginnings[f"early_{i}"]).drop(cs.startswith("early_"))))
        for i, finder in enumerate(finders)
    ]
    lacking = [
        cut_off.anti_join(_satisfied(some, finder), "user")
        for cut_off, some, finder in zip(early.cut_off, found, finders, strict=True)
    ]
    unsettled = engine.stage(ibis.union(*lacking, distinct=True) if len(lacking) > 1 else lacking[0])
    histories = engine.stage(rows(log.table.semi_join(unsettled, "user")))
    return [
        some.anti_join(unsettled, "user")
        .union(finder.find(histories.filter(finder.first.counts(histories))))
        .drop("place", "settled")
        for some, finder in zip(found, finders, strict=True)
    ]


def _satisfied(found: ir.Table, finder: Finder) -> ir.Table:
    """The users of whom enough was found for good."""
    settled = found.filter(found["settled"])
    last = settled.group_by("user").agg(place=settled["place"].max())
    return last.filter(last["place"] + 1 >= finder.needed)
