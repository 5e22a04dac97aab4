"""A url that was clicked, whatever the query."""

import ibis.expr.types as ir

from searchveil.items.item import Item
from searchveil.items.normal import NormalLog, count_users_of
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    clicked = log.table.select("user", "url")
    return clicked.filter(clicked["url"].notnull() & (clicked["url"] != ""))


def users(normal: NormalLog) -> ir.Table:
    return count_users_of(normal.clicks, "url")


URL = Item("url", ("url",), rows, needs=("url",), users=users, searches=(1,))
