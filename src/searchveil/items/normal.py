"""A log in normal form, for whoever counts several kinds of items in it: what they share is computed once."""

from dataclasses import dataclass
from functools import cached_property

import ibis.expr.types as ir

from searchveil.log import SearchLog


@dataclass(frozen=True, eq=False)
class NormalLog:
    """The searches and clicks of a log, queries in normal form and not blank. They are kept inside the engine."""

    log: SearchLog

    @property
    def has_times(self) -> bool:
        return "time" in self.log.table.columns

    @property
    def has_clicks(self) -> bool:
        return "url" in self.log.table.columns

    @cached_property
    def searches(self) -> ir.Table:
        """A row for each submission; in a log without times, for each row. Those of unknown time count once a query."""
        rows = self.log.table.select("user", "query", *(["time"] if self.has_times else []))
        normal = rows.mutate(query=self.log.normalization.apply(rows["query"]))
        staged = self.log.engine.stage(normal.distinct() if self.has_times else normal)
        return staged.filter(staged["query"] != "")

    @property
    def timed(self) -> ir.Table:
        return self.searches.filter(self.searches["time"].notnull())

    @cached_property
    def clicks(self) -> ir.Table:
        """Who clicked which result of which query, and how often: user, query, url and count."""
        rows = self.log.table.filter(self.log.table["url"] != "").select("user", "query", "url")  # nor is it missing
        normal = rows.mutate(query=self.log.normalization.apply(rows["query"]))
        staged = self.log.engine.stage(count_rows(normal, "user", "query", "url"))
        return staged.filter(staged["query"] != "")


def count_rows(rows: ir.Table, *columns: str) -> ir.Table:
    return rows.group_by(list(columns)).agg(count=rows.count())


def count_users_of(rows: ir.Table, *columns: str) -> ir.Table:
    """How many users have each; a user's row may repeat."""
    return count_rows(rows.select("user", *columns).distinct(), *columns)


def sum_counts(counts: ir.Table, *columns: str) -> ir.Table:
    return counts.group_by(list(columns)).agg(count=counts["count"].sum().cast("int64"))
