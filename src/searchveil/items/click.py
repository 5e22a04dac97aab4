"""A click: a query together with a result that was chosen for it."""

import ibis.expr.types as ir

from searchveil.items.item import Derivation, Item, normal_query
from searchveil.items.normal import NormalLog, count_rows, sum_counts
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    clicked = log.table.select("user", "query", "url")
    return clicked.filter(clicked["url"].notnull() & (clicked["url"] != ""))


def occurrences(normal: NormalLog) -> ir.Table:
    return sum_counts(normal.clicks, "query", "url")


def users(normal: NormalLog) -> ir.Table:
    return count_rows(normal.clicks, "query", "url")  # which hold a user's click once


CLICK = Item(
    "click",
    ("query", "url"),
    rows,
    needs=("url",),
    finish=normal_query,
    occurrences=occurrences,
    users=users,
    derivations=(
        Derivation("query", "click", lambda clicks: sum_counts(clicks, "query")),
        Derivation("url", "click", lambda clicks: sum_counts(clicks, "url")),
    ),
    searches=(1,),
)
