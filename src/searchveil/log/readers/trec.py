"""TREC Session Track: XML of sessions, their interactions and the clicks on results.

The user is the session's userid or, where there is none (2011 and 2012), the session's number; the log is then one of
sessions. Times are clock times in 2011 and 2012, put on 1 January 1970 where no date is given, and seconds from the
session's start in 2013, which count from 1 January 1970. A time of -1 or NA is unknown: the row stays, without a time.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.source import Source
from searchveil.log.readers.staging import BROKEN_XML, Parsed, Remarks, Tally, Workshop

TYPES: dict[str, pa.DataType] = {
    "user": pa.string(),
    "query": pa.string(),
    "time": pa.timestamp("us"),
    "rank": pa.int32(),
    "url": pa.string(),
}
SCHEMA = pa.schema(TYPES)
EPOCH = datetime(1970, 1, 1)
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)")
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CHUNK = 1 << 20
_SESSIONS_PER_BATCH = 1000

Row = tuple[str, str, datetime | None, int | None, str | None]


def recognises(head: bytes, name: str) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") and b"<session" in head and b"num=" in head


def parse(shop: Workshop, request: Request) -> Parsed:
    tally = Tally()
    units: set[str] = set()
    batches = pa.RecordBatchReader.from_batches(SCHEMA, _batches(request, tally, units))
    table = "parsed_sessions"
    shop.connection.register("sessions", batches)
    shop.run(f"create or replace temp table {table} as select * from sessions")
    shop.connection.unregister("sessions")
    unit = "session" if "session" in units else "user"
    public = (
        "whether every session has a userid, told from all of them",
        "that the XML is well-formed: nothing after a fault is read",
    )
    return Parsed(table, Remarks(tally.problems(), unit, public))


def _batches(request: Request, tally: Tally, units: set[str]) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    for source in request.sources:
        for number, session in enumerate(_sessions(source, tally), 1):
            units.add("user" if session.get("userid") else "session")
            rows += _rows_of(session, source, tally)
            if number % _SESSIONS_PER_BATCH == 0:
                yield _batch(rows)
                rows = []
    yield _batch(rows)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES.values())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _sessions(source: Source, tally: Tally) -> Iterator[ET.Element]:
    """Session by session, so that the file never has to fit in memory."""
    parser: Any = ET.XMLPullParser(events=("start", "end"))
    root: ET.Element | None = None
    try:
        for piece in _well_formed_pieces(source):
            parser.feed(piece)
            for event, element in parser.read_events():
                if root is None:
                    root = element
                if event == "end" and element.tag == "session":
                    yield element
                    root.clear()
        parser.close()
    except ET.ParseError as problem:
        # What follows cannot be read, and how many sessions that is cannot be known.
        line, _ = problem.position
        tally.add(BROKEN_XML, 1, [f"{source.shown}:{line}"])


def _well_formed_pieces(source: Source) -> Iterator[bytes]:
    """The 2012 file has bare ampersands; an ampersand near the end of a piece waits for the next one."""
    waiting = b""
    with source.open() as stream:
        while piece := stream.read(_CHUNK):
            piece = waiting + piece
            last = piece.rfind(b"&", -16)
            waiting = piece[last:] if last >= 0 else b""
            yield _escaped(piece[:last] if last >= 0 else piece)
    yield _escaped(waiting)


def _escaped(piece: bytes) -> bytes:
    return _NOT_XML.sub(b"", _BARE_AMPERSAND.sub(b"&amp;", piece))


def _rows_of(session: ET.Element, source: Source, tally: Tally) -> Iterator[Row]:
    number = session.get("num", "")
    place = [f"{source.shown}: session {number or '?'}"]
    user = session.get("userid") or number
    searches = [*session.iter("interaction"), *session.iter("currentquery")]
    if not user:
        tally.add("no user", len(searches), place)
        return
    for search in searches:
        query = _text(search.find("query"))
        if not query:
            tally.add("no query", 1, place)
            continue
        try:
            time = _time(search.get("starttime"))
        except ValueError:
            tally.add("bad time", 1, place)
            continue
        clicks = list(search.iterfind("clicked/click"))
        if not clicks:
            yield user, query, time, None, None
        urls = {_text(result.get("rank")): _text(result.find("url")) for result in search.iterfind("results/result")}
        for click in clicks:
            rank = _text(click.find("rank"))
            if not rank.isdecimal():
                tally.add("bad rank", 1, place)
                continue
            yield user, query, time, int(rank), urls.get(rank) or _text(click.find("docno")) or None


def _text(found: ET.Element | str | None) -> str:
    text = found.text if isinstance(found, ET.Element) else found
    return (text or "").strip()


def _time(text: str | None) -> datetime | None:
    text = (text or "").strip()
    if text in ("", "-1", "NA"):
        return None
    if ":" not in text:
        return EPOCH + timedelta(seconds=float(text))
    if "-" in text or "/" in text:
        return datetime.fromisoformat(text.replace("/", "-")).replace(tzinfo=None)
    hours, minutes, seconds = text.split(":")
    return EPOCH + timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))


READER = Reader("trec", recognises, parse)
