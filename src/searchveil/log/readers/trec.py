"""TREC Session Track: XML of sessions, their interactions and the clicks on results.

The user is the session's userid, which the files of 2011 and 2012 lack, or on request the session itself: the caller
says which, because a choice inferred from the sessions could be one session's doing. Times are clock times in 2011 and
2012, put on 1 January 1970 where no date is given, and seconds from the session's start in 2013, which count from
1 January 1970. A time of -1 or NA is unknown: the row stays, without a time.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pyarrow as pa

from searchveil.errors import InputError
from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.source import Source
from searchveil.log.readers.staging import BROKEN_XML, Parsed, Parser, Remarks, Tally

TYPES: dict[str, pa.DataType] = {
    "user": pa.string(),
    "query": pa.string(),
    "time": pa.timestamp("us"),
    "rank": pa.int32(),
    "url": pa.string(),
}
SCHEMA = pa.schema(TYPES)
EPOCH = datetime(1970, 1, 1)
USERS = {"userid": "user", "session": "session"}  # which id is the user -> what a guarantee is then about
NO_ID = {
    "userid": "no userid; with the reader option user=session each session is a user of its own",
    "session": "session without a num",
}
LARGEST_RANK = 2**31 - 1
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)")
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NUMBER = re.compile("[0-9]{1,18}")
_CHUNK = 1 << 20
_SESSIONS_PER_BATCH = 1000
_numbers = count(1)

Row = tuple[str, str, datetime | None, int | None, str | None]


def recognises(head: bytes, name: str) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") and b"<session" in head and b"num=" in head


def parse(parser: Parser, request: Request) -> Parsed:
    user = request.choice("user", tuple(USERS))
    tally = Tally()
    refusals: list[InputError] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from _batches(request, user, tally)
        except InputError as refusal:  # DuckDB would pass it on as an error of its own
            refusals.append(refusal)

    table = f"parsed_sessions_{next(_numbers)}"  # an engine may hold several logs
    parser.connection.register("sessions", pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    parser.run(f"create temp table {table} as select * from sessions")
    parser.connection.unregister("sessions")
    if refusals:
        raise refusals[0]
    public = ["that the XML is well-formed: nothing after a fault is read"]
    if user == "session":
        public.append("that each session of a file has a number of its own")
    elif len(request.sources) > 1:
        public.append("that a userid is the same person's in all files")
    return Parsed(table, Remarks(tally.problems(), USERS[user], tuple(public)))


def _batches(request: Request, user: str, tally: Tally) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    for place, source in enumerate(request.sources, 1):
        for number, session in enumerate(_sessions(source, tally), 1):
            rows += _rows_of(session, _user_of(session, user, place), source, user, tally)
            if number % _SESSIONS_PER_BATCH == 0:
                yield _batch(rows)
                rows = []
    yield _batch(rows)


def _user_of(session: ET.Element, user: str, file: int) -> str | None:
    """The id of a session's user, which nothing decides but the session's own attributes and its file."""
    if user == "userid":
        return session.get("userid") or None
    number = session.get("num")
    return f"{file}:{number}" if number else None  # every file counts its sessions from 1


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


def _rows_of(session: ET.Element, user: str | None, source: Source, kind: str, tally: Tally) -> Iterator[Row]:
    number = session.get("num", "")
    place = [f"{source.shown}: session {number if _NUMBER.fullmatch(number) else '?'}"]
    # Children alone: the searches of a session inside a session are those of the inner one.
    searches = [*session.iterfind("interaction"), *session.iterfind("currentquery")]
    if user is None:
        tally.add(NO_ID[kind], len(searches), place)
        return
    for search in searches:
        query = _text(search.find("query"))
        if not query:
            tally.add("no query", 1, place)
            continue
        try:
            time = _time(search.get("starttime"))
        except (ValueError, OverflowError):
            tally.add("bad time", 1, place)
            continue
        if search.find("clicked/click") is None:
            yield user, query, time, None, None
        for rank, url in _clicks_of(search, place, tally):
            yield user, query, time, rank, url


def _clicks_of(search: ET.Element, place: list[str], tally: Tally) -> Iterator[tuple[int, str | None]]:
    urls = {_text(result.get("rank")): _text(result.find("url")) for result in search.iterfind("results/result")}
    for click in search.iterfind("clicked/click"):
        rank = _text(click.find("rank"))
        if _NUMBER.fullmatch(rank) and int(rank) <= LARGEST_RANK:
            yield int(rank), urls.get(rank) or _text(click.find("docno")) or None
        else:
            tally.add("bad rank", 1, place)


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
        time = datetime.fromisoformat(text.replace("/", "-"))
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    hours, minutes, seconds = text.split(":")
    return EPOCH + timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))


READER = Reader(
    "trec",
    recognises,
    parse,
    {"user": "who is the user: userid (default), or session, each session a user of its own (2011 and 2012)"},
    whole_files="its sessions span many lines",
)
