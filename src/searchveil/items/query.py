"""A query: the whole text of a submission."""

import ibis.expr.types as ir

from searchveil.items.item import Item, normal_query
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    return log.table.select("user", "query")


QUERY = Item("query", ("query",), rows, finish=normal_query)
