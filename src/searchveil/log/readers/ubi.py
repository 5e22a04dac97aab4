"""OpenSearch User Behavior Insights 1.3: ubi_queries, and ubi_events with the clicks, as one JSON object per line.

A query_id is made by its client, and nothing keeps two clients from using the same one. A query is therefore known by
its client_id and its query_id together: no client's rows can touch those of another.
"""

from searchveil.engine.sql import literal
from searchveil.errors import InputError
from searchveil.log.readers.base import Reader, Request, wrong_option
from searchveil.log.readers.jsonlines import MALFORMED, first_objects, json_lines, path_of
from searchveil.log.readers.source import Source, first_lines
from searchveil.log.readers.staging import Parsed, Parser, Part, Remarks, Staged, Tally, stage
from searchveil.log.readers.times import bad_time, time_sql
from searchveil.log.schema import Problem

# Which id is the user -> what a guarantee is then about. A client is a browser or an app; a person may use several.
USERS = {"client_id": "device", "session_id": "session", "user_id": "user"}
# The keys of a line, in the order in which `found` holds them.
QUERY = ("query_id", "client_id", "user_query", "timestamp")
EVENT = ("query_id", "action_name", "client_id", "session_id", "user_id")
QUERY_TIME = time_sql(f"found[{QUERY.index('timestamp') + 1}]")


def recognises(head: bytes, name: str) -> bool:
    return any(_is_query(value) or _is_event(value) for value in first_objects(first_lines(head)))


def _is_event(value: dict[str, object]) -> bool:
    return "action_name" in value


def _is_query(value: dict[str, object]) -> bool:
    return not _is_event(value) and "query_id" in value and "user_query" in value


def _holds_events(source: Source) -> bool:
    objects = first_objects(source.first_lines())
    if not objects:  # nothing to go by but the name
        return "event" in source.name.lower()
    return sum(map(_is_event, objects)) * 2 > len(objects)


def parse(parser: Parser, request: Request) -> Parsed:
    user = request.choice("user", tuple(USERS))
    events = [source for source in request.sources if _holds_events(source)]
    queries = [source for source in request.sources if source not in events]
    if not queries:
        raise InputError(f"{events[0].path} holds UBI events only; name the file with ubi_queries as well")
    if user != "client_id" and not events:
        raise wrong_option("user", user, "only ubi_events has it; name that file as well")
    public = ["which files hold queries and which events, inferred from their first rows"]
    asked = _stage_queries(parser, queries, user_is_in_events=user != "client_id")
    if not events:
        return asked.parsed(USERS[user], public)
    click = request.options.get("click", "click")
    happened = _stage_events(parser, events, click)
    joined = _join(parser, asked, happened, user, click)
    _count_unmatched(parser, asked, happened)
    problems = _combined(asked.tally, happened.tally, _users_in_doubt(parser, joined, user))
    if user != "client_id":
        public.append(f"that the events of a client's query all name the same {user}")
    return Parsed(joined, Remarks(problems, USERS[user], tuple(public)))


def _stage_queries(parser: Parser, files: list[Source], user_is_in_events: bool) -> Staged:
    query_id, client, text, _ = (f"nullif(found[{i}], '')" for i in range(1, len(QUERY) + 1))
    checks = dict(MALFORMED)
    if user_is_in_events:
        checks |= {"no query_id": f"{query_id} is null", "no client_id": f"{client} is null"}
    else:
        checks["no user"] = f"{client} is null"
    checks |= {"no query": f"{text} is null", "NUL byte": f"contains({text}, chr(0))", "bad time": bad_time(QUERY_TIME)}
    outputs = {"user": client, "query": text, "time": QUERY_TIME, "query_id": query_id}
    layout = json_lines([path_of(key) for key in QUERY])
    return stage(parser, Part(layout, files, outputs, checks))


def _stage_events(parser: Parser, files: list[Source], click: str) -> Staged:
    paths = [path_of(key) for key in EVENT] + [
        path_of("event_attributes", "position", "ordinal"),
        path_of("event_attributes", "object", "object_id"),
    ]
    query_id, action, client, session, user, ordinal, url = (f"nullif(found[{i}], '')" for i in range(1, 8))
    rank = f"try_cast({ordinal} as integer)"
    outputs = {"query_id": query_id, "action": action, "client_id": client, "session_id": session, "user_id": user}
    checks = MALFORMED | {
        "no action_name": f"{action} is null",
        "click without a query_id": f"{action} = {literal(click)} and {query_id} is null",
        "event without a client_id": f"{query_id} is not null and {client} is null",
        "bad rank": f"{ordinal} is not null and {rank} is null",
    }
    return stage(parser, Part(json_lines(paths), files, outputs | {"rank": rank, "url": url}, checks))


def _join(parser: Parser, asked: Staged, happened: Staged, user: str, click: str) -> str:
    """One row for each click, and one for each query without; `ids` says how many users the query's events name.

    Clicks belong to the first of the queries that a client sent with their query_id.
    """
    joined = f"{asked.table}_joined"
    events = f"(select *, rowid as place from {happened.table} where problem is null)"
    order = "order by q.place, e.place" if parser.keeps_order else ""
    if user == "client_id":
        known, ids, named = "q.user", "1", ""
    else:
        known, ids = "u.known", "coalesce(u.ids, 0)"
        named = f"""
            left join (select client_id, query_id, min({user}) as known, count(distinct {user}) as ids
                       from {events} group by all) u
                on u.client_id = q.user and u.query_id = q.query_id"""
    parser.run(
        f"""
        create temp table {joined} as
        select {known} as "user", q.query, q.time, e.rank, e.url, {ids} as ids
        from (select *, rowid as place, row_number() over (partition by "user", query_id order by time, query) as nth
              from {asked.table} where problem is null) q
        left join (select * from {events} where action = {literal(click)}) e
            on e.client_id = q.user and e.query_id = q.query_id and q.nth = 1
        {named}
        {order}
        """
    )
    return joined


def _count_unmatched(parser: Parser, asked: Staged, happened: Staged) -> None:
    """Events of a query_id that their client has no query of: their clicks belong to no row."""
    known = f'(select "user", query_id from {asked.table} where "user" is not null and query_id is not null)'
    ((rows,),) = parser.rows(
        f"select count(*) from {happened.table} "
        f"where problem is null and query_id is not null and (client_id, query_id) not in {known}"
    )
    if rows:
        query_id, client = (f"nullif(found[{EVENT.index(key) + 1}], '')" for key in ("query_id", "client_id"))
        unknown = {"": f"{query_id} is not null and {client} is not null and ({client}, {query_id}) not in {known}"}
        first = [place for scan in happened.scans for place in scan.locate(unknown)[""]]
        happened.tally.add("event of an unknown query_id", rows, first)


def _users_in_doubt(parser: Parser, joined: str, user: str) -> Tally:
    """Queries whose events name no user, or several: nobody may be chosen for them, so they are left out."""
    tally = Tally()
    for ids, reason in (
        ("= 0", f"query without an event that names its {user}"),
        ("> 1", f"query whose events name more than one {user}"),
    ):
        ((rows,),) = parser.rows(f"select count(*) from {joined} where ids {ids}")
        tally.add(reason, rows)
    if tally.rows:
        parser.run(f"delete from {joined} where ids <> 1")
    return tally


def _combined(*tallies: Tally) -> tuple[Problem, ...]:
    whole = Tally()
    for tally in tallies:
        for problem in tally.problems():
            whole.add(problem.reason, problem.rows, problem.first)
    return whole.problems()


READER = Reader(
    "ubi",
    recognises,
    parse,
    {
        "user": "which id is the user: client_id (a device, default), session_id or user_id, which only events have",
        "click": "the action_name of a click (default: click)",
    },
    whole_files="clicks are joined to queries of other files",
)
