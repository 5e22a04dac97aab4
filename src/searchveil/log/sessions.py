"""Which searches belong together? A session ends when the user is silent for longer than the gap."""

from typing import Any

import ibis
import ibis.expr.types as ir

from searchveil.errors import InputError
from searchveil.log.schema import SearchLog

GAP_MINUTES = 30
SHORTEST_GAP_MINUTES = 1 / 60
LONGEST_GAP_MINUTES = 366 * 24 * 60  # a year: any engine can add it to any time of a log


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
    return number_sessions(log.table.filter(log.table.time.notnull()), gap_minutes)


def check_gap(gap_minutes: float) -> None:
    if not SHORTEST_GAP_MINUTES <= gap_minutes <= LONGEST_GAP_MINUTES:
        raise InputError(
            f"the session gap must be from a second to a year ({LONGEST_GAP_MINUTES} minutes), not {gap_minutes:g}"
        )


def number_sessions(rows: ir.Table, gap_minutes: float = GAP_MINUTES) -> ir.Table:
    """Add `session` to any table that has user and time."""
    check_gap(gap_minutes)
    by_time = ibis.window(group_by="user", order_by="time")
    marked = rows.mutate(_starts=starts_session(rows.time, by_time, gap_minutes).cast("int64"))
    # A range window: rows of the same time count together, in whatever order the engine meets them.
    until_now = ibis.range_window(group_by="user", order_by="time", preceding=None, following=0)
    return marked.mutate(session=marked._starts.sum().over(until_now)).drop("_starts")


def starts_session(time: ir.TimestampColumn, in_order: Any, gap_minutes: float) -> ir.BooleanColumn:
    """Whether a row comes first, or later than the gap after the row before it in this window."""
    ends_at = time.lag().over(in_order) + ibis.interval(seconds=round(gap_minutes * 60))
    return ends_at.isnull() | (time > ends_at)
