"""A url that was clicked, whatever the query."""

import ibis.expr.types as ir

from searchveil.items.item import Item
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    clicked = log.table.select("user", "url")
    return clicked.filter(clicked["url"].notnull() & (clicked["url"] != ""))


URL = Item("url", ("url",), rows, needs=("url",))
