"""OpenSearch User Behavior Insights 1.3: ubi_queries, and ubi_events with the clicks, as one JSON object per line."""

from searchveil.errors import InputError
from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.jsonlines import MALFORMED, first_objects, json_lines, path_of
from searchveil.log.readers.source import Source, first_lines
from searchveil.log.readers.staging import Parsed, Part, Staged, Tally, Workshop, literal, stage
from searchveil.log.readers.times import bad_time, time_sql
from searchveil.log.schema import Problem

USERS = ("client_id", "session_id", "user_id")
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


def parse(shop: Workshop, request: Request) -> Parsed:
    user = request.choice("user", USERS)
    events = [source for source in request.sources if _holds_events(source)]
    queries = [source for source in request.sources if source not in events]
    if not queries:
        raise InputError(f"{events[0].path} holds UBI events only; name the file with ubi_queries as well")
    if user != "client_id" and not events:
        raise InputError(f"--reader-option user={user}: only ubi_events has it; name that file as well")
    asked = _stage_queries(shop, queries, user_is_in_events=user != "client_id")
    if not events:
        return asked.parsed()
    click = request.options.get("click", "click")
    happened = _stage_events(shop, events, click)
    joined = _join(shop, asked, happened, user, click)
    _count_unmatched(shop, asked, happened)
    return Parsed(joined, _combined(asked.tally, happened.tally, _users_missing(shop, joined, user)))


def _stage_queries(shop: Workshop, files: list[Source], user_is_in_events: bool) -> Staged:
    query_id, client, text, _ = (f"nullif(found[{i}], '')" for i in range(1, len(QUERY) + 1))
    checks = dict(MALFORMED)
    if user_is_in_events:
        checks["no query_id"] = f"{query_id} is null"
    else:
        checks["no user"] = f"{client} is null"
    checks |= {"no query": f"{text} is null", "NUL byte": f"contains({text}, chr(0))", "bad time": bad_time(QUERY_TIME)}
    outputs = {"user": client, "query": text, "time": QUERY_TIME}
    if user_is_in_events:
        outputs["user"] = "null::varchar"
    layout = json_lines([path_of(key) for key in QUERY])
    return stage(shop, Part(layout, files, outputs | {"query_id": query_id}, checks))


def _stage_events(shop: Workshop, files: list[Source], click: str) -> Staged:
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
        "bad rank": f"{ordinal} is not null and {rank} is null",
    }
    return stage(shop, Part(json_lines(paths), files, outputs | {"rank": rank, "url": url}, checks))


def _join(shop: Workshop, asked: Staged, happened: Staged, user: str, click: str) -> str:
    """One row for each click, and one for each query without; clicks belong to the first query of their query_id."""
    joined = f"{asked.table}_joined"
    events = f"(select * from {happened.table} where problem is null)"
    shop.run(
        f"""
        create temp table {joined} as
        select {"q.user" if user == "client_id" else "u.known"} as "user", q.query, q.time, e.rank, e.url
        from (select *, row_number() over (partition by query_id order by time) as nth
              from {asked.table} where problem is null) q
        left join (select * from {events} where action = {literal(click)}) e on e.query_id = q.query_id and q.nth = 1
        left join (select query_id, min({user}) as known from {events} group by query_id) u on u.query_id = q.query_id
        """
    )
    return joined


def _count_unmatched(shop: Workshop, asked: Staged, happened: Staged) -> None:
    """Events of no known query: their clicks belong to no row."""
    known = f"(select query_id from {asked.table} where query_id is not null)"
    ((rows,),) = shop.rows(
        f"select count(*) from {happened.table} "
        f"where problem is null and query_id is not null and query_id not in {known}"
    )
    if rows:
        unknown = {"": f"nullif(found[1], '') is not null and found[1] not in {known}"}
        first = [place for scan in happened.scans for place in scan.locate(unknown)[""]]
        happened.tally.add("event of an unknown query_id", rows, first)


def _users_missing(shop: Workshop, joined: str, user: str) -> Tally:
    tally = Tally()
    if user != "client_id":
        ((rows,),) = shop.rows(f'select count(*) from {joined} where "user" is null')
        shop.run(f'delete from {joined} where "user" is null')
        tally.add(f"query without an event that names its {user}", rows)
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
        "user": "which id is the user: client_id (default), session_id or user_id; the last two only events have",
        "click": "the action_name of a click (default: click)",
    },
)
