"""A click: a query together with a result that was chosen for it."""

import ibis.expr.types as ir

from searchveil.items.item import Item, normal_query
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    clicked = log.table.select("user", "query", "url")
    return clicked.filter(clicked["url"].notnull() & (clicked["url"] != ""))


CLICK = Item("click", ("query", "url"), rows, needs=("url",), finish=normal_query)
