"""The layout of the AOL log: user, query, time, rank, url, tab-separated; the last two empty without a click."""

import re

from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.source import Source, first_lines, mostly
from searchveil.log.readers.staging import Layout, Parsed, Parser, Part, stage
from searchveil.log.readers.times import bad_time

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
COLUMNS = {"user": "VARCHAR", "query": "VARCHAR", "time": "TIMESTAMP", "rank": "INTEGER", "url": "VARCHAR"}
CHECKS = {"no user": '"user" is null', "no query": "query is null", "bad time": bad_time("time")}
_ROW = re.compile(r"[^\t]*\t[^\t]*\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\t\d*\t[^\t]*")


def has_header(source: Source) -> bool:
    return source.first_lines(1) == [HEADER]


def declared(head: bytes, name: str) -> bool:
    return first_lines(head, 1) == [HEADER]


def recognises(head: bytes, name: str) -> bool:
    return declared(head, name) or mostly(_ROW, first_lines(head))


def parse(parser: Parser, request: Request) -> Parsed:
    outputs = {name: f'"{name}"' for name in COLUMNS}
    parts = []
    for header in (True, False):
        files = [source for source in request.sources if has_header(source) == header]
        if files:
            parts.append(Part(Layout(COLUMNS, header=header), files, outputs, CHECKS))
    return stage(parser, *parts).parsed()


READER = Reader("aol", recognises, parse, declared=declared)
