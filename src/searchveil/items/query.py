"""A query: the whole text of a submission."""

import ibis.expr.types as ir

from searchveil.items.item import Item, normal_query
from searchveil.items.normal import NormalLog, count_rows, count_users_of
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    return log.table.select("user", "query")


def occurrences(normal: NormalLog) -> ir.Table:
    """Submissions, however many results were clicked."""
    return count_rows(normal.searches, "query")


def users(normal: NormalLog) -> ir.Table:
    return count_users_of(normal.searches, "query")


QUERY = Item(
    "query",
    ("query",),
    rows,
    finish=normal_query,
    plural="queries",
    occurrences=occurrences,
    users=users,
    searches=(1,),
)
