"""Searches and clicks that Elasticsearch or OpenSearch recorded, as NDJSON: nested keys, or flat ones with dots.

`@timestamp`, `event.action` (search, search_click, others), `session.id`, `user.id`, `search.query`, `document.id`. A
document of a `_search` answer, with its fields under `_source`, is read alike.
"""

from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.jsonlines import MALFORMED, first_objects, json_lines, path_of
from searchveil.log.readers.source import first_lines
from searchveil.log.readers.staging import Parsed, Parser, Part, stage
from searchveil.log.readers.times import bad_time, time_sql

USERS = {"user.id": "user", "session.id": "session"}
KEYS = ("@timestamp", "event.action", "search.query", "document.id")
SEARCHES = ("search", "search_click")


def recognises(head: bytes, name: str) -> bool:
    found = first_objects(first_lines(head))
    return bool(found) and _is_event(found[0])


def _is_event(one: dict[str, object]) -> bool:
    inner = one.get("_source")
    fields = inner if isinstance(inner, dict) else one
    search = fields.get("search")
    has_query = "search.query" in fields or (isinstance(search, dict) and "query" in search)
    return "@timestamp" in fields and has_query


def _ways(key: str) -> tuple[str, ...]:
    """Where it may be, the first one counts: nested or flat, at the top or under _source."""
    nested = key.split(".")
    return path_of(*nested), path_of(key), path_of("_source", *nested), path_of("_source", key)


def parse(parser: Parser, request: Request) -> Parsed:
    user = request.choice("user", tuple(USERS))
    keys = (*KEYS, user)
    ways = [path for key in keys for path in _ways(key)]
    found = {
        key: f"nullif(coalesce({', '.join(f'found[{4 * i + j}]' for j in (1, 2, 3, 4))}), '')"
        for i, key in enumerate(keys)
    }
    time = time_sql(found["@timestamp"])
    action = f"coalesce({found['event.action']}, 'search')"
    outputs = {
        "user": found[user],
        "query": found["search.query"],
        "time": time,
        "url": f"case when {action} = 'search_click' then {found['document.id']} end",
    }
    known = ", ".join(f"'{name}'" for name in SEARCHES)
    checks = MALFORMED | {
        f"no search: its event.action is none of {', '.join(SEARCHES)}": f"{action} not in ({known})",
        f"no {user}": f"{outputs['user']} is null",
        "no query": f"{outputs['query']} is null",
        "bad time": bad_time(time),
        "NUL byte": f"contains({outputs['query']}, chr(0)) or contains({outputs['user']}, chr(0))",
    }
    return stage(parser, Part(json_lines(ways), request.sources, outputs, checks)).parsed(USERS[user])


READER = Reader("elastic", recognises, parse, {"user": "user.id (default) or session.id"})
