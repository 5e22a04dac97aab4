"""The layout of the Excite logs: user, yymmddHHMMSS, query, tab-separated; no clicks."""

import re

from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.source import first_lines, mostly
from searchveil.log.readers.staging import Layout, Parsed, Parser, Part, stage
from searchveil.log.readers.times import bad_time

LAYOUT = Layout({"user": "VARCHAR", "stamp": "VARCHAR", "query": "VARCHAR"})
# DuckDB's own format would take a short stamp and words such as "infinity"; twelve digits are asked for here.
TIME = "case when regexp_full_match(stamp, '[0-9]{12}') then try_strptime(stamp, '%y%m%d%H%M%S') end"
CHECKS = {"no user": '"user" is null', "no query": "query is null", "bad time": bad_time(TIME)}
_ROW = re.compile(r"[^\t]*\t\d{12}\t[^\t]*")


def recognises(head: bytes, name: str) -> bool:
    lines = first_lines(head)
    return mostly(_ROW, lines)


def parse(parser: Parser, request: Request) -> Parsed:
    outputs = {"user": '"user"', "query": "query", "time": TIME}
    return stage(parser, Part(LAYOUT, request.sources, outputs, CHECKS)).parsed()


READER = Reader("excite", recognises, parse)
