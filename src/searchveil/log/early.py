"""Work that looks only at the beginning of each user's history need not read all of it."""

from collections.abc import Callable
from dataclasses import replace

import ibis.expr.types as ir

from searchveil.log.schema import SearchLog


def on_early_rows(log: SearchLog, work: Callable[[SearchLog], ir.Table], *, needed: int, look_at: int) -> ir.Table:
    """The result of `work`, which finds the first `needed` things of each user, without sorting whole histories.

    `work` returns rows with `user` and a boolean `settled`: true where no later row of the user could change the row.
    It runs on each user's earliest `look_at` rows; users for whom these did not settle enough, though more rows exist,
    are done again with all of their rows. The result is that of `work(log)`, user by user.
    """
    early = log.engine.early_rows(log.table, look_at)
    if early is None:
        return work(log).drop("settled")
    rows, cut_off = early
    some = log.engine.stage(work(replace(log, table=rows)))
    settled = some.filter(some["settled"])
    enough = settled.group_by("user").agg(found=settled.count())
    wanting = log.engine.stage(cut_off.anti_join(enough.filter(enough["found"] >= needed), "user"))
    again = work(replace(log, table=log.table.semi_join(wanting, "user")))
    return some.anti_join(wanting, "user").union(again).drop("settled")
