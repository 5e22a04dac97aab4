"""Access logs of web servers (Common and Combined, as Apache and nginx write them): the searches of a site.

A search is a request whose address has the parameter of the site's search. Who asked is known by address and agent
alone: both together, hashed when they are read, are the user, and guarantees are per address and agent. Common logs
have no agents: there the address is the user, and guarantees say so.
"""

import re
from collections.abc import Sequence

from searchveil.engine.sql import literal
from searchveil.log.readers.base import Reader, Request, wrong_option
from searchveil.log.readers.source import Source, first_lines, mostly
from searchveil.log.readers.staging import Layout, Parsed, Parser, Part, stage
from searchveil.log.readers.times import bad_time

USERS = {"address-and-agent": "sha256(address || ' ' || agent)", "address": "sha256(address)"}  # unit → what names it
PARAMETERS = ("q", "query", "search", "s")  # that sites use; the first one with a value in an address
_ADDRESS = r"(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f.]{0,15}){2,7}"
# The virtual host may stand first, with its port or without: then the second field is the address.
_WHO = rf"(?:\S+ ({_ADDRESS})|(?:[^\s:]+:\d+ )?([^\s-]\S*))"
_LINE = (
    rf'^{_WHO} \S+ .{{0,200}}?\[([^\]\s]+ [+-]\d{{4}})\] "((?:[^"\\]|\\.)*)" \d{{3}} \S+'
    r'(?: "(?:[^"\\]|\\.)*" "((?:[^"\\]|\\.)*)")?.*$'
)
_ROW = re.compile(_LINE)
_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")


def recognises(head: bytes, name: str) -> bool:
    return mostly(_ROW, first_lines(head))


def _has_agents(sources: Sequence[Source]) -> bool:
    rows = (_ROW.fullmatch(line) for source in sources for line in source.first_lines())
    return any(row is not None and row[5] is not None for row in rows)


def parse(parser: Parser, request: Request) -> Parsed:
    unit, public = request.choice("user", ("auto", *USERS)), []
    if unit == "auto":
        unit = "address-and-agent" if _has_agents(request.sources) else "address"
        public = [f"that a user is an {unit}, for the first rows {'' if unit != 'address' else 'do not '}name agents"]
    names = request.options.get("parameter", ",".join(PARAMETERS)).split(",")
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise wrong_option("parameter", name, "it is the name of a parameter, such as q in /search?q=shoes")
    part = f"regexp_extract(line, {literal(_LINE)}, %d)"
    wanted = "|".join(map(re.escape, names))
    asked = rf"^[A-Z]+ [^?\s]*\?(?:[^\s#]*?&)??(?:{wanted})=([^&#\s]+)"
    raw = f"nullif(regexp_extract({part % 4}, {literal(asked)}, 1), '')"
    # An address may hold what is no UTF-8; that is the matter of its row.
    query = f"try(url_decode(replace({raw}, '+', ' ')))"
    time = f"(try_strptime({part % 3}, '%d/%b/%Y:%H:%M:%S %z') at time zone 'UTC')"
    layout = Layout(
        {"line": "VARCHAR"},
        delimiter="\x01",  # no line of such a log has one, so every line is one column
        derived={"address": f"{part % 1} || {part % 2}", "agent": part % 5, "raw": raw, "text": query, "moment": time},
    )
    outputs = {"user": USERS[unit], "query": "text", "time": "moment"}
    checks = {
        "no line of an access log": "address = ''",
        f"no search: its address has no parameter {' or '.join(names)}": "raw is null",
        "a search that is no UTF-8": "text is null or contains(text, chr(0))",
        "bad time": bad_time("moment"),
    }
    return stage(parser, Part(layout, request.sources, outputs, checks)).parsed(unit, public)


READER = Reader(
    "access-log",
    recognises,
    parse,
    {
        "parameter": f"of the site's search, several with commas between (default: {','.join(PARAMETERS)})",
        "user": "address-and-agent or address; the former where the first rows name agents (default: auto)",
    },
)
