"""What the applications are asked, and the right answers: queries with their clicks and sessions of users set apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import ibis.expr.types as ir

from searchveil.errors import InputError
from searchveil.items.item import normal_query
from searchveil.lab.view import View
from searchveil.log import SearchLog
from searchveil.log.sessions import number_sessions


@dataclass(frozen=True)
class TestSession:
    """The queries of one session in their order, repeats in a row once, and the different urls clicked in it."""

    __test__: ClassVar[bool] = False  # no test case, whatever pytest makes of the name

    queries: tuple[str, ...]
    clicks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TestSet:
    """Drawn from a test log; every view of the same evaluation is asked the same.

    `clicks` holds the test queries: for each, how often which url was clicked (nothing where the log has no clicks).
    `workload` counts the whole test log. `original` counts the log that was published: the ranking that some papers
    take for the truth, and the clicks and documents that the publisher, not the reader of a release, knows.
    """

    __test__: ClassVar[bool] = False

    clicks: Mapping[str, Mapping[str, int]]
    sessions: tuple[TestSession, ...]
    workload: View
    original: View

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self.clicks)

    @classmethod
    def draw(
        cls, log: SearchLog, *, original: View, queries: int = 1_000, sessions: int = 1_000, seed: int = 1
    ) -> "TestSet":
        """Up to that many different queries and sessions of the test log, the same ones whenever the seed is.

        A query is drawn in proportion to the users who clicked for it: most different queries are typed once in a
        lifetime, and a test of those alone would ask no release anything it could know. Sessions of two or more
        queries are equally likely.
        """
        for name, number in (("queries", queries), ("sessions", sessions)):
            if number < 1:
                raise InputError(f"a test needs at least 1 of its {name}, not {number}")
        clicks = _draw_queries(log, queries, seed)
        return cls(clicks, _draw_sessions(log, sessions, seed), View.of_log(log), original)


def _draw_queries(log: SearchLog, number: int, seed: int) -> dict[str, dict[str, int]]:
    if "url" in log.table.columns:
        rows = normal_query(log.table.select("user", "query", "url"), log.normalization)
        rows = log.engine.stage(rows.filter(rows["url"].notnull() & (rows["url"] != "")))
        chosen = _draw(rows, number, seed, log)
        asked = rows.semi_join(chosen, "query")
        counts = asked.group_by(["query", "url"]).agg(count=asked.count())
        drawn: dict[str, dict[str, int]] = {}
        for row in log.engine.fetch(counts.order_by("query", "url")).to_pylist():
            drawn.setdefault(row["query"], {})[row["url"]] = row["count"]
        if drawn:
            return drawn
    rows = log.engine.stage(normal_query(log.table.select("user", "query"), log.normalization))
    return {row["query"]: {} for row in log.engine.fetch(_draw(rows, number, seed, log)).to_pylist()}


def _draw(rows: ir.Table, number: int, seed: int, log: SearchLog) -> ir.Table:
    """A race: each user's hash of a query runs for it, so a query's chance to be early grows with its users."""
    hashed = rows.filter(rows["query"] != "").mutate(draw=log.engine.fast_hash([rows["query"], rows["user"]], seed))
    race = hashed.group_by("query").agg(draw=hashed["draw"].min())
    return log.engine.stage(race.order_by("draw", "query").limit(number).select("query").order_by("query"))


def _draw_sessions(log: SearchLog, number: int, seed: int) -> tuple[TestSession, ...]:
    if "time" not in log.table.columns:
        return ()
    urls = ["url"] if "url" in log.table.columns else []
    rows = normal_query(log.table.select("user", "query", "time", *urls), log.normalization)
    normal = log.engine.stage(rows.filter(rows["time"].notnull()))
    numbered = log.engine.stage(number_sessions(normal.filter(normal["query"] != "")))
    # Two different queries are told by the first and the last in the alphabet, before anything needs an order.
    held = numbered.group_by(["user", "session"]).agg(low=numbered["query"].min(), high=numbered["query"].max())
    several = held.filter(held["low"] != held["high"]).select("user", "session")
    hashed = several.mutate(draw=log.engine.fast_hash([several["session"], several["user"]], seed))
    chosen = log.engine.stage(hashed.order_by("draw", "user", "session").limit(number))
    drawn = numbered.join(chosen, ["user", "session"]).order_by("draw", "user", "session", "time", "query")
    found = log.engine.fetch(drawn.select("user", "session", "query", *urls)).to_pylist()
    return tuple(
        TestSession(
            queries=tuple(query for query, _ in groupby(row["query"] for row in together)),
            clicks=tuple(sorted({row["url"] for row in together if row.get("url")})),
        )
        for together in (list(rows) for _, rows in groupby(found, key=lambda row: (row["user"], row["session"])))
    )
