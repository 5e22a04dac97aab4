"""What the holder of some searches can count: the same tables of a release and of the original log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import ibis
import ibis.expr.types as ir

from searchveil.engine import Engine
from searchveil.items.item import normal_query
from searchveil.items.pair import pairs
from searchveil.log import SearchLog
from searchveil.log.sessions import GAP_MINUTES, number_sessions, starts_session
from searchveil.publish.plan import Counted
from searchveil.publish.release import Release

# The columns that name an item, table by table; each table has `count` (int64) beside them.
KEYS: Mapping[str, tuple[str, ...]] = {
    "query": ("query",),
    "keyword": ("keyword",),
    "click": ("query", "url"),
    "url": ("url",),
    "transition": ("query", "next"),
    "session": ("session",),  # an array of queries in their order
    "user": ("user",),
    "history": ("user", "query", "url"),  # whose clicks: known of a log, and of a release that samples users
}
CALLED: Mapping[str, str] = {
    "query": "queries",
    "keyword": "keywords",
    "click": "clicks",
    "url": "urls",
    "transition": "query transitions",
    "session": "sessions",
    "user": "users",
    "history": "clicks by user",
}
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

    `tables` holds any of those in KEYS, texts in normal form. Counts of a log are occurrences: submissions, clicks. A
    release says what its `counts` are numbers of, and `published` names the tables that it holds itself; the others
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
            beside = {"click": {"history"}, "session": {"transition"}}
            names = release.published.union({"user"}, *(beside.get(name, ()) for name in release.published))
            self._counted[key] = View(self.engine, self.ways[release.counts].only(names), release.counts)
        return self._counted[key]

    @classmethod
    def of_release(cls, release: "str | Path | Release", engine: Engine) -> "View":
        """From a release folder or a Release. To be joined with the view of a log, it needs that log's engine."""
        release = Release.read(release)
        recipes: dict[str, Recipe] = {}
        for table in release.load(engine).values():
            recipes = _published(table) | recipes  # the main table comes first and wins
        return cls(engine, Tables(engine, _with_derived(recipes)), release.plan.counts, frozenset(recipes))


def _of_log(log: SearchLog) -> "dict[Counted, Tables]":
    """How to count a log's occurrences, its users (each once an item) and, for keywords, its sessions."""
    engine, columns = log.engine, log.table.columns

    @cache
    def searches() -> ir.Table:
        """A row for each submission; in a log without times, for each row. Those of unknown time count once a query."""
        timed = "time" in columns
        rows = normal_query(log.table.select("user", "query", *(["time"] if timed else [])), log.normalization)
        staged = engine.stage(rows.distinct() if timed else rows)
        return staged.filter(staged["query"] != "")

    def timed() -> ir.Table:
        return searches().filter(searches()["time"].notnull())

    def history(_: Tables) -> ir.Table:
        clicked = log.table.filter(log.table["url"] != "").select("user", "query", "url")  # nor is it missing then
        staged = engine.stage(_occurrences(normal_query(clicked, log.normalization), *KEYS["history"]))
        return staged.filter(staged["query"] != "")

    def users_of(rows: ir.Table, *columns: str) -> ir.Table:
        return _occurrences(rows.select("user", *columns).distinct(), *columns)

    recipes: dict[str, Recipe] = {
        "user": lambda _: _occurrences(log.table, "user"),
        "query": lambda _: _occurrences(searches(), "query"),
    }
    users: dict[str, Recipe] = {
        "user": recipes["user"],
        "query": lambda _: users_of(searches(), "query"),
        "keyword": lambda _: users_of(_words(searches(), "user"), "keyword"),
    }
    sessions: dict[str, Recipe] = {"user": recipes["user"]}
    if "time" in columns:
        recipes["transition"] = lambda _: _occurrences(pairs(timed()), *KEYS["transition"])
        recipes["session"] = lambda _: _sessions_by_time(timed())
        users["transition"] = lambda _: users_of(pairs(timed()), *KEYS["transition"])
        sessions["keyword"] = lambda _: _occurrences(
            _words(number_sessions(timed()), "user", "session").distinct(), "keyword"
        )
    else:  # where every row is a session of its own
        sessions["keyword"] = lambda _: occurrences["keyword"]
    if "url" in columns:
        recipes["history"] = history
        users["history"] = lambda _: occurrences["history"].mutate(count=ibis.literal(1, "int64"))
        users["url"] = lambda _: users_of(occurrences["history"], "url")
    occurrences = Tables(engine, _with_derived(recipes))
    return {
        "occurrences": occurrences,
        "users": Tables(engine, _with_derived(users)),
        "sessions": Tables(engine, sessions),
    }


def _published(table: ir.Table) -> dict[str, Recipe]:
    """What a published table holds, which its columns tell: every way of publishing has its own."""
    columns = set(table.columns)
    if {"session", "position", "query"} <= columns:
        return {
            "query": lambda _: _occurrences(table, "query"),
            "transition": lambda _: _transitions(table, by=("session",)),
            "session": lambda _: _sessions(table, by=("session",)),
        }
    if {"session", "keywords"} <= columns:  # a row a session: how many sessions hold a keyword
        return {"keyword": lambda _: _keywords(_occurrences(table.select(query="keywords"), "query"))}
    if "generalised" in columns:  # a prefix that stands for several keywords is none of them
        table = table.filter(~table["generalised"])
    if "count" in columns:
        table = table.mutate(count=ibis.greatest(table["count"], 0))  # fresh noise can leave a count below nothing
    wider_first = ("history", "click", "transition", "session", "query", "keyword", "url")
    name = next((name for name in wider_first if {*KEYS[name], "count"} <= columns), None)
    return {} if name is None else {name: lambda _: _sums(table, *KEYS[name])}


def _with_derived(recipes: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """Add what a holder can work out; what is there already wins, then the earlier rule."""
    rules: Sequence[tuple[str, str, Callable[[ir.Table], ir.Table]]] = (
        ("click", "history", lambda history: _sums(history, *KEYS["click"])),
        ("user", "history", lambda history: _sums(history, *KEYS["user"])),
        ("transition", "session", _transitions_of_subsequences),
        ("query", "transition", _queries_of_transitions),
        ("query", "click", lambda click: _sums(click, *KEYS["query"])),
        ("url", "click", lambda click: _sums(click, *KEYS["url"])),
        ("keyword", "query", _keywords),
    )
    complete = dict(recipes)
    for name, origin, derive in rules:
        if name not in complete and origin in complete:
            complete[name] = partial(_derived, origin, derive)
    return complete


def _derived(origin: str, derive: Callable[[ir.Table], ir.Table], tables: Tables) -> ir.Table:
    return derive(tables[origin])


def _occurrences(rows: ir.Table, *columns: str) -> ir.Table:
    return rows.group_by(list(columns)).agg(count=rows.count())


def _sums(counts: ir.Table, *columns: str) -> ir.Table:
    return counts.group_by(list(columns)).agg(count=counts["count"].sum().cast("int64"))


def _keywords(queries: ir.Table) -> ir.Table:
    """How many searches hold a keyword: one that a query repeats counts once."""
    return _sums(_words(queries, "count"), "keyword")


def _words(queries: ir.Table, *beside: str) -> ir.Table:
    words = queries.select(*beside, keyword=queries["query"].re_split(r"\s+").unique().unnest())
    return words.filter(words["keyword"] != "")


def _transitions(searches: ir.Table, by: Sequence[str]) -> ir.Table:
    """How often a different query came next in the same session."""
    return _occurrences(_followed(searches, by), *KEYS["transition"])


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
    return _occurrences(several.select(session=several["places"].sort().map(lambda place: place["query"])), "session")


def _transitions_of_subsequences(sessions: ir.Table) -> ir.Table:
    """Neighbours in a published sequence. Its parts are published beside it and counted the same users already.

    So the largest count says most, and the sum would count a user once for every sequence.
    """
    last = sessions["session"].length() - 1
    placed = sessions.mutate(place=ibis.range(last).unnest())
    queries, place = placed["session"], placed["place"]
    adjacent = placed.select("count", query=queries[place], next=queries[place + 1])
    return adjacent.group_by(list(KEYS["transition"])).agg(count=adjacent["count"].max())


def _queries_of_transitions(transitions: ir.Table) -> ir.Table:
    before = transitions.select("query", "count")
    after = transitions.select(query=transitions["next"], count=transitions["count"])
    return _sums(before.union(after), "query")


def lacking(needs: Sequence[str], original: View, release: View) -> str | None:
    """What is not there that a comparison needs, in words; None where all of it is."""
    for side, view in (("release", release), ("log", original)):
        if missing := [CALLED[name] for name in needs if not view.has(name)]:
            return f"the {side} has no {' and no '.join(missing)}"
    return None
