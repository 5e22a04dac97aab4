"""What is in a log, at a glance. Every figure is private: none is covered by any guarantee."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import ibis

from searchveil.log.schema import SearchLog
from searchveil.log.sessions import GAP_MINUTES, number_sessions, submissions

WARNING = "private figures for the log's owner; no guarantee covers them, do not publish them"


@dataclass(frozen=True)
class LogSummary:
    source: str
    format: str
    columns: tuple[str, ...]
    column_names: dict[str, str]  # what the files call them, where they have names of their own
    unit: str  # what a user of this log really is
    rows: int
    users: int
    queries: int  # distinct, after normalisation
    clicks: int | None  # None: the log does not say what was clicked
    submissions: int | None  # None, like the next three: the log has no time
    sessions: int | None
    first_time: datetime | None
    last_time: datetime | None
    rows_per_user: dict[str, float]  # mean, median, p99, max
    problems: tuple[str, ...]
    warning: str = WARNING

    def to_json(self) -> dict[str, Any]:
        figures = asdict(self)
        for name in ("first_time", "last_time"):
            figures[name] = None if figures[name] is None else figures[name].isoformat(sep=" ")
        return figures | {"columns": list(self.columns), "problems": list(self.problems)}


def as_read(log: SearchLog) -> dict[str, Any]:
    """How it is read, and which rows could not be: without a figure of what is in it."""
    return {
        "source": log.source,
        "format": log.format,
        "columns": list(log.table.columns),
        "column_names": dict(log.names),
        "unit": log.unit,
        "taken_as_public": list(log.taken_as_public),
        "problems": list(map(str, log.problems)),
    }


def summarize(log: SearchLog, gap_minutes: float = GAP_MINUTES) -> LogSummary:
    table, engine = log.table, log.engine
    each_user = table.group_by("user").agg(n=table.count())
    spread = each_user.agg(
        users=each_user.count(),
        rows=each_user.n.sum(),
        mean=each_user.n.mean(),
        median=each_user.n.quantile(0.5),
        p99=each_user.n.quantile(0.99),
        max=each_user.n.max(),
    )
    figures = engine.fetch(spread).to_pylist()[0]
    timed = "time" in table.columns
    clicked = next((table[column] for column in ("url", "rank") if column in table.columns), None)
    span = engine.fetch(table.agg(first=table.time.min(), last=table.time.max())).to_pylist()[0] if timed else {}
    return LogSummary(
        source=log.source,
        format=log.format,
        columns=tuple(table.columns),
        column_names=dict(log.names),
        unit=log.unit,
        rows=int(figures["rows"]),
        users=int(figures["users"]),
        queries=int(engine.value(log.normalization.apply(table["query"]).nunique())),
        clicks=None if clicked is None else int(engine.value(clicked.count())),
        submissions=int(engine.value(submissions(log).count())) if timed else None,
        sessions=_sessions(log, gap_minutes) if timed else None,
        first_time=_plain(span.get("first")),
        last_time=_plain(span.get("last")),
        rows_per_user={name: float(figures[name]) for name in ("mean", "median", "p99", "max")},
        problems=tuple(map(str, log.problems)),
    )


def _sessions(log: SearchLog, gap_minutes: float) -> int:
    moments = log.table.filter(log.table.time.notnull()).select("user", "time").distinct()
    numbered = number_sessions(moments, gap_minutes)
    of_each_user = numbered.group_by("user").agg(sessions=numbered.session.max())
    return int(log.engine.value(ibis.coalesce(of_each_user.sessions.sum(), 0)))


def _plain(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=None)
