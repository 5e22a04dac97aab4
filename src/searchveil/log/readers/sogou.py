"""The layout of the Sogou logs: time, user, [query], rank and click order, url; tab-separated, in GBK or UTF-8.

The log of one day gives only the time of day; it is put on 1 January 1970. Every row is a click.
"""

import re

from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.source import HEAD_BYTES, Source, first_lines, mostly
from searchveil.log.readers.staging import Layout, Parsed, Parser, Part, stage
from searchveil.log.readers.times import bad_time

DAY = "1970-01-01"
COLUMNS = {"clock": "VARCHAR", "user": "VARCHAR", "bracketed": "VARCHAR", "ranks": "VARCHAR", "url": "VARCHAR"}
QUERY = "nullif(case when bracketed[1] = '[' and bracketed[-1] = ']' then bracketed[2:-2] end, '')"
TIME = f"try_strptime('{DAY} ' || clock, '%Y-%m-%d %H:%M:%S')"
RANK = "try_cast(regexp_extract(ranks, '^([0-9]+) [0-9]+$', 1) as integer)"
OUTPUTS = {"user": '"user"', "query": QUERY, "time": TIME, "rank": RANK, "url": "url"}
CHECKS = {
    "no user": '"user" is null',
    "query without [ ]": "bracketed is not null and not (bracketed[1] = '[' and bracketed[-1] = ']')",
    "no query": f"{QUERY} is null",
    "bad time": bad_time(TIME),
    "bad rank": f"{RANK} is null",
}
_ROW = re.compile(r"\d\d:\d\d:\d\d\t[^\t]*\t\[[^\t]*\]\t\d+ \d+\t[^\t]*")
ENCODINGS = ("auto", "utf-8", "gbk")


def recognises(head: bytes, name: str) -> bool:
    lines = first_lines(head)
    return mostly(_ROW, lines)


def parse(parser: Parser, request: Request) -> Parsed:
    asked = request.choice("encoding", ENCODINGS)
    parts, public = [], []
    for encoding in ("utf-8", "gb18030"):  # gb18030 is GBK with what later logs added
        files = [s for s in request.sources if (_encoding(s) if asked == "auto" else _codec(asked)) == encoding]
        if files:
            parts.append(Part(Layout(COLUMNS, encoding=encoding), files, OUTPUTS, CHECKS))
            public += [] if asked != "auto" else [f"the encoding {_named(encoding)}, inferred from the first rows"]
    return stage(parser, *parts).parsed(taken_as_public=public)


def _codec(name: str) -> str:
    return "gb18030" if name == "gbk" else name


def _named(codec: str) -> str:
    return "gbk" if codec == "gb18030" else codec


def _encoding(source: Source) -> str:
    """The encoding that most of the first lines fit; pure ASCII fits both."""
    lines = source.head.split(b"\n")[: -1 if len(source.head) >= HEAD_BYTES else None]
    fits = {codec: sum(_fits(line, codec) for line in lines) for codec in ("utf-8", "gb18030")}
    return "gb18030" if fits["gb18030"] > fits["utf-8"] else "utf-8"


def _fits(line: bytes, codec: str) -> bool:
    try:
        line.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


READER = Reader("sogou", recognises, parse, {"encoding": "auto (default), utf-8 or gbk"})
