"""A query pair: a query and the next different one in the same session."""

import ibis
import ibis.expr.types as ir

from searchveil.items.item import Derivation, Item, normalize_query
from searchveil.items.normal import NormalLog, count_rows, count_users_of, sum_counts
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


def occurrences(normal: NormalLog) -> ir.Table:
    return count_rows(pairs(normal.timed), "query", "next")


def users(normal: NormalLog) -> ir.Table:
    return count_users_of(pairs(normal.timed), "query", "next")


def queries_of_pairs(counts: ir.Table) -> ir.Table:
    before = counts.select("query", "count")
    after = counts.select(query=counts["next"], count=counts["count"])
    return sum_counts(before.union(after), "query")


PAIR = Item(
    "pair",
    ("query", "next"),
    rows,
    needs=("time",),
    plural="query transitions",
    table="transition",
    occurrences=occurrences,
    users=users,
    derivations=(Derivation("query", "transition", queries_of_pairs),),
    searches=(2,),
)
