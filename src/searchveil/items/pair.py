"""A query pair: a query and the next different one in the same session."""

import ibis
import ibis.expr.types as ir

from searchveil.items.item import Item
from searchveil.log import SearchLog
from searchveil.log.sessions import number_sessions, submissions


def rows(log: SearchLog) -> ir.Table:
    sent = submissions(log)
    sessions = number_sessions(sent.filter(sent["query"] != ""))
    in_order = ibis.window(group_by=["user", "session"], order_by=["time", "query"])
    followed = sessions.mutate(next=sessions["query"].lead().over(in_order))
    pairs = followed.filter(followed["next"].notnull() & (followed["next"] != followed["query"]))
    return pairs.select("user", "query", "next")


PAIR = Item("pair", ("query", "next"), rows, needs=("time",))
