"""What the holder of some searches can count: the same tables of a release and of the original log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import ibis
import ibis.expr.types as ir

from searchveil.engine import Engine
from searchveil.items import ITEMS, Derivation, Item
from searchveil.items.keyword import keywords_of_queries
from searchveil.items.normal import NormalLog, count_rows, sum_counts
from searchveil.lab import behaviour as behaviour_of
from searchveil.log import SearchLog
from searchveil.log.normalize import AS_TYPED
from searchveil.log.schema import COLUMNS
from searchveil.log.sessions import GAP_MINUTES, starts_session
from searchveil.publish.plan import Counted
from searchveil.publish.release import Release


class Kind(NamedTuple):
    """A table of counts: the columns that name what is counted (beside them stands `count`, int64), and its words."""

    columns: tuple[str, ...]
    plural: str


SESSION = Kind(("session",), "sessions")  # an array of queries in their order
USER = Kind(("user",), "users")
HISTORY = Kind(("user", "query", "url"), "clicks by user")  # known of a log, and of a release that samples users


def kinds() -> dict[str, Kind]:
    """By the name of the table: every kind of item that is registered, and what is counted beside items."""
    of_items = {item.table: Kind(item.columns, item.plural) for item in ITEMS.values()}
    behaviour = {name: Kind(("value",), name) for name in behaviour_of.DISTRIBUTIONS}
    return of_items | behaviour | {"session": SESSION, "user": USER, "history": HISTORY}


def columns_of(table: str) -> list[str]:
    return list(kinds()[table].columns)


def called(table: str) -> str:
    """The table in words."""
    return kinds()[table].plural


Recipe = Callable[["Tables"], ir.Table]


class Tables(Mapping[str, ir.Table]):
    """Tables by name, each computed inside the engine when it is first asked for, and kept there."""

    def __init__(self, engine: Engine, recipes: Mapping[str, Recipe]) -> None:
        self._engine, self._recipes = engine, recipes
        self._kept: dict[str, ir.Table] = {}
        self._source: Tables | None = None
        self._taken: frozenset[str] = frozenset()

    def only(self, names: Iterable[str]) -> "Tables":
        """These, where there are any, and what follows from them alone; they are computed once for both."""
        taken = {name: self._recipes[name] for name in names if name in self}
        chosen = Tables(self._engine, _with_derived(taken))
        chosen._source, chosen._taken = self, frozenset(taken)
        return chosen

    def __getitem__(self, name: str) -> ir.Table:
        if self._source is not None and name in self._taken:
            return self._source[name]
        if name not in self._kept:
            self._kept[name] = self._engine.stage(self._recipes[name](self))
        return self._kept[name]

    def __contains__(self, name: object) -> bool:  # the inherited way would compute the table
        return name in self._recipes

    def __iter__(self) -> Iterator[str]:
        return iter(self._recipes)

    def __len__(self) -> int:
        return len(self._recipes)


@dataclass(frozen=True, eq=False)
class View:
    """Counts that can be read off a release, or off the original log looked at in the same way.

    `tables` holds any of those in `kinds`, texts in normal form. Counts of a log are occurrences: submissions, clicks.
    A release says what its `counts` are numbers of, and `published` names the tables that it holds itself; the others
    follow from them. `counted_as` counts the log in the same way, so that like is compared with like.
    """

    engine: Engine
    tables: Mapping[str, ir.Table]
    counts: "Counted" = "occurrences"
    published: frozenset[str] = frozenset()
    ways: "Mapping[Counted, Tables]" = field(default_factory=dict)  # of a log: every way to count it
    _counted: "dict[tuple[Counted, frozenset[str]], View]" = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        return all(name in self.tables for name in names)

    @classmethod
    def of_log(cls, log: SearchLog) -> "View":
        ways = _of_log(log)
        return cls(log.engine, ways["occurrences"], ways=ways)

    def counted_as(self, release: "View") -> "View":
        """This log as the release would show it, had it left out nothing and added nothing; of all the log's users.

        What the release tells only through something else (queries through clicks) is worked out here in the same
        way. A view that is not of a log stays what it is.
        """
        if not self.ways:
            return self
        key = release.counts, release.published
        if key not in self._counted:
            # Whose clicks they are is known of a log; neighbours in parts of sessions are nearest to its transitions.
            beside = {"user", *(["history"] if release.has("click") else [])}
            beside |= {"transition"} if "session" in release.published else set()
            names = release.published | beside
            self._counted[key] = View(self.engine, self.ways[release.counts].only(names), release.counts)
        return self._counted[key]

    @classmethod
    def of_release(cls, release: "str | Path | Release", engine: Engine) -> "View":
        """From a release folder or a Release. To be joined with the view of a log, it needs that log's engine."""
        release = Release.read(release)
        recipes: dict[str, Recipe] = {}
        item = ITEMS.get(release.plan.item)
        for table in release.load(engine).values():
            found = _of_invented(table, engine) if _is_log(table) else _published(table, item)
            recipes = found | recipes  # the main table comes first and wins
        return cls(engine, Tables(engine, _with_derived(recipes)), release.plan.counts, frozenset(recipes))


def _is_log(table: ir.Table) -> bool:
    """Whether a published table has searches of users, one by one, and not counts of them."""
    return {"user", "query"} <= set(table.columns) <= set(COLUMNS)


def _of_invented(table: ir.Table, engine: Engine) -> dict[str, Recipe]:
    """A synthetic log is counted as a log is, texts as they stand. Its users are nobody, so nothing is told of them."""
    log = SearchLog(table, engine, AS_TYPED)
    counted = _occurrences(NormalLog(log), [item for item in ITEMS.values() if item.is_in(log)])
    return {name: recipe for name, recipe in counted.items() if name not in ("user", "history")}


def _of_log(log: SearchLog) -> "dict[Counted, Tables]":
    """How to count a log's occurrences, its users (each once an item) and, where an item knows how, its sessions."""
    normal, engine = NormalLog(log), log.engine
    items = [item for item in ITEMS.values() if item.is_in(log)]
    sessions = {item.table: _by(item.sessions, normal) for item in items if item.sessions}
    whose: dict[str, Recipe] = {"user": lambda _: count_rows(log.table, "user")}
    return {
        "occurrences": Tables(engine, _with_derived(whose | _occurrences(normal, items))),
        "users": Tables(engine, _with_derived(whose | _users(normal, items))),
        "sessions": Tables(engine, whose | sessions),
    }


def _occurrences(normal: NormalLog, items: Sequence[Item]) -> dict[str, Recipe]:
    recipes = {item.table: _by(item.count_occurrences, normal) for item in items if item.occurrences}
    if normal.has_times:
        recipes["session"] = lambda _: _sessions_by_time(normal.timed)
        recipes |= behaviour_of.recipes_of(normal)
    if normal.has_clicks:
        recipes["history"] = lambda _: normal.clicks
    return _with_the_others(recipes, {item.table: _by(item.count_occurrences, normal) for item in items})


def _users(normal: NormalLog, items: Sequence[Item]) -> dict[str, Recipe]:
    recipes = {item.table: _by(item.count_users, normal) for item in items if item.users}
    if normal.has_clicks:
        recipes["history"] = lambda _: normal.clicks.mutate(count=ibis.literal(1, "int64"))
    return _with_the_others(recipes, {item.table: _by(item.count_users, normal) for item in items})


def _with_the_others(recipes: dict[str, Recipe], by_rows: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """An item that brings no way of its own to be counted, and follows from nothing else, is counted by its rows."""
    derived = _with_derived(recipes)
    return recipes | {table: recipe for table, recipe in by_rows.items() if table not in derived}


def _by(count: Callable[[NormalLog], ir.Table], normal: NormalLog) -> Recipe:
    return lambda _: count(normal)


def _published(table: ir.Table, item: Item | None) -> dict[str, Recipe]:
    """What a published table holds, which its columns tell: every way of publishing has its own."""
    columns = set(table.columns)
    if item is not None and columns == {*item.columns, "count"}:
        return {item.table: lambda _: _sums_of_noisy(table, item.columns)}
    if {"session", "position", "query"} <= columns:
        return {
            "query": lambda _: count_rows(table, "query"),
            "transition": lambda _: _transitions(table, by=("session",)),
            "session": lambda _: _sessions(table, by=("session",)),
        }
    if {"session", "keywords"} <= columns:  # a row a session: how many sessions hold a keyword
        return {"keyword": lambda _: keywords_of_queries(count_rows(table.select(query="keywords"), "query"))}
    if "generalised" in columns:  # a prefix that stands for several keywords is none of them
        table = table.filter(~table["generalised"])
    fitting = {name: kind.columns for name, kind in kinds().items() if {*kind.columns, "count"} <= columns}
    if not fitting:
        return {}
    widest = max(fitting, key=lambda name: len(fitting[name]))
    return {widest: lambda _: _sums_of_noisy(table, fitting[widest])}


def _sums_of_noisy(table: ir.Table, columns: Sequence[str]) -> ir.Table:
    """Fresh noise can leave a count below nothing."""
    return sum_counts(table.mutate(count=ibis.greatest(table["count"], 0)), *columns)


def _with_derived(recipes: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """Add what a holder can work out, and what follows from that; what is there already wins, then the earlier rule."""
    rules = (*FIRST_RULES, *(rule for item in ITEMS.values() for rule in item.derivations), *LAST_RULES)
    complete = dict(recipes)
    while new := [rule for rule in rules if rule.table not in complete and rule.origin in complete]:
        for rule in new:
            complete.setdefault(rule.table, partial(_derived, rule.origin, rule.derive))
    return complete


def _derived(origin: str, derive: Callable[[ir.Table], ir.Table], tables: Tables) -> ir.Table:
    return derive(tables[origin])


def _transitions(searches: ir.Table, by: Sequence[str]) -> ir.Table:
    """How often a different query came next in the same session."""
    return count_rows(_followed(searches, by), "query", "next")


def _followed(searches: ir.Table, by: Sequence[str]) -> ir.Table:
    in_order = ibis.window(group_by=list(by), order_by="position")
    followed = searches.mutate(next=searches["query"].lead().over(in_order))
    return followed.filter(followed["next"] != followed["query"])


def _sessions(searches: ir.Table, by: Sequence[str]) -> ir.Table:
    """How often each sequence of two or more queries was a session; a query repeated in a row is one of it."""
    in_order = ibis.window(group_by=list(by), order_by="position")
    marked = searches.mutate(previous=searches["query"].lag().over(in_order))
    changed = marked.filter(marked["previous"].isnull() | (marked["previous"] != marked["query"]))
    return _sequences(changed, by, "position")


def _sessions_by_time(searches: ir.Table) -> ir.Table:
    """The same of searches with user and time. What repeats the query before it goes before the second window."""
    in_order = ibis.window(group_by="user", order_by=["time", "query"])
    marked = searches.mutate(
        starts=starts_session(searches["time"], in_order, GAP_MINUTES),
        repeats=searches["query"] == searches["query"].lag().over(in_order),
    )
    changed = marked.filter(marked["starts"] | ~marked["repeats"])
    until_now = ibis.cumulative_window(group_by="user", order_by=["time", "query"])
    session = changed["starts"].cast("int64").sum().over(until_now)
    return _sequences(changed.select("user", "time", "query", session=session), ("user", "session"), "time")


def _sequences(searches: ir.Table, by: Sequence[str], position: str) -> ir.Table:
    """How often each sequence of two or more queries is a group's, in the order of position and query."""
    # Not every engine can collect in an order; all can sort an array of records.
    placed = searches.mutate(placed=ibis.struct({"position": searches[position], "query": searches["query"]}))
    several = placed.group_by(list(by)).agg(places=placed["placed"].collect()).filter(ibis._["places"].length() > 1)
    return count_rows(several.select(session=several["places"].sort().map(lambda place: place["query"])), "session")


def _transitions_of_subsequences(sessions: ir.Table) -> ir.Table:
    """Neighbours in a published sequence. Its parts are published beside it and counted the same users already.

    So the largest count says most, and the sum would count a user once for every sequence.
    """
    last = sessions["session"].length() - 1
    placed = sessions.mutate(place=ibis.range(last).unnest())
    queries, place = placed["session"], placed["place"]
    adjacent = placed.select("count", query=queries[place], next=queries[place + 1])
    return adjacent.group_by(["query", "next"]).agg(count=adjacent["count"].max())


# Before the items' own rules: what follows from sessions follows by their transitions. A log's clicks by user tell its
# clicks last: where a release tells them through an item of its own, those of the log are told through it too.
FIRST_RULES = (
    Derivation("user", "history", lambda history: sum_counts(history, "user")),
    Derivation("transition", "session", _transitions_of_subsequences),
)
LAST_RULES = (Derivation("click", "history", lambda history: sum_counts(history, "query", "url")),)


def lacking(needs: Sequence[str], original: View, release: View) -> str | None:
    """What is not there that a comparison needs, in words; None where all of it is."""
    for side, view in (("release", release), ("log", original)):
        if missing := [called(name) for name in needs if not view.has(name)]:
            return f"the {side} has no {' and no '.join(missing)}"
    return None
