"""A query pair: a query and the next different one in the same session."""

import ibis
import ibis.expr.types as ir

from searchveil.items.item import Item, normalize_query
from searchveil.log import SearchLog
from searchveil.log.sessions import GAP_MINUTES, starts_session


def pairs(searches: ir.Table) -> ir.Table:
    """(user, query, next), a row for each time that a different query came next in the user's session.

    `searches` has user, query and time. One window does it: a session ends where the time since the row before it is
    too long, and rows of one submission with several clicks stand together, where a query does not follow itself.
    """
    in_order = ibis.window(group_by="user", order_by=["time", "query"])
    marked = searches.select(
        "user",
        query=searches["query"].lag().over(in_order),
        next=searches["query"],
        starts=starts_session(searches["time"], in_order, GAP_MINUTES),
    )
    return marked.filter(~marked["starts"] & (marked["query"] != marked["next"])).drop("starts")


def rows(log: SearchLog) -> ir.Table:
    timed = log.table.filter(log.table["time"].notnull()).select("user", "query", "time")
    # Staged: who chooses among them reads them twice.
    return log.engine.stage(pairs(normalize_query(timed, log.normalization)))


PAIR = Item("pair", ("query", "next"), rows, needs=("time",))
