"""A log as the statistics see it: tables inside the engine, in which every row is a matter of one user's own rows.

What is known of the named sets (which queries, which words) enters as an outcome of earlier measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.items.item import normalize_query
from searchveil.log import SearchLog
from searchveil.log.normalize import Normalization
from searchveil.log.words import words
from searchveil.publish.synthetic.bins import CLASSES, GAP_SECONDS, place_in

MOST_WORDS = 20  # of a query that are looked at

STATES = ("first of the user", "first of the session", "after a named query", "after another query")
MOVES = ("the same query", "a named query again", "another query again", "a new named query", "a new other query")


class Period(NamedTuple):
    """The first and the last day that a release is about. Public: said by the publisher, never read off a log."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, datetime.min.time())


def rows_of(log: SearchLog, period: Period | None, seed: int) -> ir.Table:
    """The log's rows within the period: user, query in normal form, its hash, seconds since 1970, url and rank.

    In a log without times all rows of a user are one session at no time. Without a period all rows count: no release
    may do that (`Synthetic.check`), an evaluation does.
    """
    table, engine = log.table, log.engine
    if period is not None and "time" in table.columns:
        end = period.start + timedelta(days=period.days)
        table = table.filter((table["time"] >= ibis.literal(period.start)) & (table["time"] < ibis.literal(end)))
    normal = normalize_query(table, log.normalization)
    columns = {"user": normal["user"], "query": normal["query"]}
    if "time" in table.columns:
        # Cut to the second first: an engine may round, and the last second of the period must not fall behind it.
        columns["at"] = normal["time"].truncate("s").epoch_seconds().cast("int64")
    if "url" in table.columns:
        columns["url"] = ibis.ifelse(normal["url"] == "", ibis.null("string"), normal["url"])
        if "rank" in table.columns:
            columns["rank"] = normal["rank"].cast("int64")
    staged = engine.stage(normal.select(**columns))
    hashed = engine.stage(staged.mutate(_hash=engine.fast_hash([staged["query"]], seed)))
    engine.forget(staged)
    return hashed


@dataclass(frozen=True, eq=False)
class Searches:
    """The searches of a log, of which it is known by `named` whether their query is one of those that are named."""

    engine: Engine
    rows: ir.Table  # of `rows_of`, with `named`: the number of the query, or −1

    @classmethod
    def of(cls, rows: ir.Table, queries: Sequence[str], engine: Engine) -> "Searches":
        numbered = engine.load(
            pa.table({"query": pa.array(queries, pa.string()), "_number": pa.array(range(len(queries)), pa.int32())})
        )
        joined = rows.left_join(numbered, "query")
        columns = [name for name in rows.columns if name != "query"]
        named = joined["_number"].fill_null(-1).name("named")
        return cls(engine, engine.stage(joined.select(*columns, rows["query"], named)))

    @property
    def timed(self) -> bool:
        return "at" in self.rows.columns

    @property
    def clicked(self) -> bool:
        return "url" in self.rows.columns

    @property
    def ranked(self) -> bool:
        return "rank" in self.rows.columns

    @cached_property
    def table(self) -> ir.Table:
        """A row for each search: user, session, named, clicks, state and move; with times at and gap.

        Half of a release's memory is here: numbers are as short as they may be, and no table stays longer than needed.
        """
        rows = self.rows
        clicks = rows["url"].count().cast("int32") if self.clicked else ibis.literal(0, "int32")
        if self.timed:  # a search with several clicks is several rows of one time
            each = rows.group_by(["user", "at", "_hash"]).agg(named=rows["named"].max(), clicks=clicks)
            order = ["at", "_hash"]
        else:
            one = rows["url"].notnull().cast("int32") if self.clicked else ibis.literal(0, "int32")
            each = rows.select("user", "_hash", "named", clicks=one, at=ibis.literal(0, "int64"))
            # All windows below must see one order. Searches for the same query have equal keys, and two sorts may
            # place them differently: so they are numbered once. Those that still tie here are equal rows.
            by_text = ibis.window(group_by="user", order_by=["_hash", "named", "clicks"])
            each = self.engine.stage(each.mutate(_number=ibis.row_number().over(by_text)))
            order = ["_number"]
        in_order = ibis.window(group_by="user", order_by=order)
        of_query = ibis.window(group_by=["user", "_hash"], order_by=order)
        before = {name: each[name].lag().over(in_order) for name in ("at", "_hash", "named")}
        placed = each.mutate(
            _before=before["at"],
            _same=each["_hash"] == before["_hash"],
            _named=before["named"],
            _again=ibis.row_number().over(of_query) > 0,
        )
        staged = self.engine.stage(placed)
        starts = staged["_before"].isnull() | (staged["at"] - staged["_before"] > GAP_SECONDS)
        state = ibis.cases((staged["_before"].isnull(), 0), (starts, 1), (staged["_named"] >= 0, 2), else_=3)
        again = staged["_again"]
        move = ibis.cases(
            (~starts & staged["_same"], 0),
            (again & (staged["named"] >= 0), 1),
            (again, 2),
            (staged["named"] >= 0, 3),
            else_=4,
        )
        until_now = ibis.cumulative_window(group_by="user", order_by=order)
        marked = staged.mutate(
            _starts=starts.cast("int32"),
            state=state.cast("int32"),
            move=move.cast("int32"),
            gap=ibis.ifelse(starts, ibis.null("int64"), staged["at"] - staged["_before"]).cast("int32"),
        )
        numbered = marked.mutate(session=marked["_starts"].sum().over(until_now).cast("int32"))
        kept = ("user", "at", "session", "named", "clicks", "state", "move", "gap", "_named")
        searches = self.engine.stage(numbered.select(*kept))
        self.engine.forget(staged)
        classified = self.engine.stage(searches.join(self.classes_of(searches), "user"))
        self.engine.forget(searches)
        return classified

    @staticmethod
    def classes_of(searches: ir.Table) -> ir.Table:
        sessions = searches.group_by("user").agg(sessions=searches["session"].max())
        return sessions.mutate(group=place_in(sessions["sessions"], CLASSES).cast("int32"))

    @cached_property
    def sessions(self) -> ir.Table:
        """A row for each session: user, group, at, length."""
        table = self.table
        return table.group_by(["user", "group", "session"]).agg(at=table["at"].min(), length=table.count())

    @cached_property
    def followed(self) -> ir.Table:
        """(user, named, next): a named query and another that came next in the session."""
        table = self.table
        both = table.filter((table["state"] == 2) & (table["named"] >= 0) & (table["move"] != 0))
        return both.select("user", named=both["_named"], next=both["named"])

    @cached_property
    def clicks(self) -> ir.Table:
        """A row for each click: user, named, url and, where known, rank."""
        rows = self.rows.filter(self.rows["url"].notnull())
        return rows.select("user", "named", "url", *(["rank"] if self.ranked else []))


def words_of(queries: ir.Table, normalization: Normalization) -> ir.Table:
    """(user, query, place, word, next) for each of a user's queries; `next` is null after the last word."""
    split = queries.select("user", "query", words=words(queries["query"], normalization))
    length = ibis.least(split["words"].length(), MOST_WORDS)
    placed = split.mutate(_length=length, place=ibis.range(length).unnest())
    place = placed["place"].cast("int64")
    following = ibis.ifelse(place + 1 < placed["_length"], placed["words"][place + 1], ibis.null("string"))
    split_up = placed.select("user", "query", place=place, word=placed["words"][place], next=following)
    return split_up.filter(split_up["word"] != "")
