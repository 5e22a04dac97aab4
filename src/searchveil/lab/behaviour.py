"""How users of a log behave, as tables of counts: `value` and `count`. They stand in a view beside those of items."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import ibis
import ibis.expr.types as ir

from searchveil.items.normal import NormalLog, count_rows
from searchveil.lab.visits import visits_of
from searchveil.publish.synthetic.bins import GAPS, place_in
from searchveil.publish.synthetic.searches import Searches, rows_of

LARGEST = 100  # sessions, searches and ranks beyond it count as so many
MOST_CLICKS = 7
TRANSITIONS = "transition overlap"  # a figure of its own: the part of all transitions that both have
SEED = 1  # of the hash that tells queries apart


@dataclass(frozen=True, eq=False)
class Behaviour:
    """The searches of a log with times, put in order once for all distributions."""

    normal: NormalLog

    @cached_property
    def searches(self) -> Searches:
        log = self.normal.log
        timed = replace(log, table=log.table.filter(log.table["time"].notnull()))
        return Searches.of(rows_of(timed, None, SEED), [], log.engine)

    def counts(self, name: str) -> ir.Table:
        values = DISTRIBUTIONS[name](self.searches)
        return count_rows(values.select(value=values["value"].cast("int64")), "value")


def _lengths(searches: Searches) -> ir.Table:
    return searches.sessions.select(value=ibis.least(searches.sessions["length"], LARGEST))


def _sessions(searches: Searches) -> ir.Table:
    users = searches.table.select("user", "sessions").distinct()
    return users.select(value=ibis.least(users["sessions"], LARGEST))


def _hours(searches: Searches) -> ir.Table:
    return searches.table.select(value=(searches.table["at"] % 86400) // 3600)


def _gaps(searches: Searches) -> ir.Table:
    gaps = searches.table.filter(searches.table["gap"].notnull())
    return gaps.select(value=place_in(gaps["gap"], GAPS))


def _ranks(searches: Searches) -> ir.Table:
    ranked = searches.clicks.filter(searches.clicks["rank"].notnull())
    return ranked.select(value=ibis.least(ranked["rank"], LARGEST))


def _clicks(searches: Searches) -> ir.Table:
    return searches.table.select(value=ibis.least(searches.table["clicks"], MOST_CLICKS))


def _new(searches: Searches) -> ir.Table:
    return searches.table.select(value=searches.table["move"] == 4)


Values = Callable[[Searches], ir.Table]

DISTRIBUTIONS: dict[str, Values] = {
    "session length": _lengths,
    "sessions per user": _sessions,
    "hour of day": _hours,
    "gap": _gaps,
    "click rank": _ranks,
    "clicks per search": _clicks,
    "new to user": _new,
}
# What a value is, on the axis of a picture.
AXES = {
    "session length": "searches in a session",
    "sessions per user": "sessions of a user",
    "hour of day": "hour of the day, as logged",
    "gap": "time between searches of a session, in bins that grow",
    "click rank": "rank of a clicked result",
    "clicks per search": "clicks of a search",
    "new to user": "0: the user searched for it before; 1: for the first time",
    TRANSITIONS: "place among the log's most frequent steps from one query to the next",
}
NEEDS = {"click rank": {"url", "rank"}, "clicks per search": {"url"}}


def recipes_of(normal: NormalLog) -> dict[str, Callable[[object], ir.Table]]:
    """How to count what the log's columns tell; nothing without times."""
    if not normal.has_times:
        return {}
    behaviour, columns = Behaviour(normal), set(normal.log.table.columns)

    def counted(name: str) -> Callable[[object], ir.Table]:
        return lambda _: behaviour.counts(name)

    recipes: dict[str, Callable[[object], ir.Table]] = {"visit": lambda _: visits_of(behaviour.searches)}
    return recipes | {name: counted(name) for name in DISTRIBUTIONS if NEEDS.get(name, set()) <= columns}
