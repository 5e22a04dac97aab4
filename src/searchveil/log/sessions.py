"""Which searches belong together? A session ends when the user is silent for longer than the gap."""

import ibis
import ibis.expr.types as ir

from searchveil.errors import InputError
from searchveil.log.schema import SearchLog

GAP_MINUTES = 30


def submissions(log: SearchLog) -> ir.Table:
    """One row for each time a user sent a query: user, query (normalised) and time.

    A submission with several clicks is several rows of the log with the same user, query and time; here it is one.
    Rows whose time is unknown are not in it.
    """
    log.require("time", why="telling submissions apart")
    rows = log.table.filter(log.table.time.notnull())
    return rows.select("user", query=log.normalization.apply(rows["query"]), time=rows.time).distinct()


def with_sessions(log: SearchLog, gap_minutes: float = GAP_MINUTES) -> ir.Table:
    """The log's rows, texts as typed, with `session`: 1, 2, … within each user, in the order of time.

    A row more than `gap_minutes` after the user's previous row starts a new session. Rows of one submission share
    their time, hence their session. Rows whose time is unknown are left out.
    """
    log.require("time", why="session segmentation")
    if not gap_minutes > 0:
        raise InputError(f"the session gap must be more than 0 minutes, not {gap_minutes}")
    return number_sessions(log.table.filter(log.table.time.notnull()), gap_minutes)


def number_sessions(rows: ir.Table, gap_minutes: float = GAP_MINUTES) -> ir.Table:
    """Add `session` to any table that has user and time."""
    # Microseconds, so that no engine rounds a silence of just over the gap down to it.
    at = rows.time.epoch_seconds() * 1_000_000 + rows.time.microsecond()
    timed = rows.mutate(_at=at)
    by_time = ibis.window(group_by="user", order_by="_at")
    silence = timed._at - timed._at.lag().over(by_time)
    marked = timed.mutate(_starts=ibis.ifelse(silence.isnull() | (silence > round(gap_minutes * 60e6)), 1, 0))
    # A range window: rows of the same time count together, in whatever order the engine meets them.
    until_now = ibis.range_window(group_by="user", order_by="_at", preceding=None, following=0)
    return marked.mutate(session=marked._starts.sum().over(until_now)).drop("_at", "_starts")
