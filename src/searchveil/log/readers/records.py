"""Records of text with quotes, each written on one line of a copy that has no quotes.

DuckDB (version 2.0) cuts a file into parts to read them side by side, and takes the inside of a quoted value for rows
where a cut falls into it. So a file with quotes is cut into records here, from its beginning to its end. In the copy
a line end always ends a record, UNIT_SEPARATOR always ends a value, and what a value holds of these is escaped.

A block in which quotes stand only around whole values, doubled inside of them, is cut by array operations. In a block
with any other quote, the records with quoted values are cut one by one.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

UNIT_SEPARATOR = "\x1f"
ESCAPE = "\x1e"
# What follows ESCAPE in the place of a character; ESCAPE itself comes first when encoding and last when decoding.
CODES = {ESCAPE: "0", UNIT_SEPARATOR: "1", "\n": "2", "\r": "3"}

_NEWLINE, _RETURN, _NUL = b"\n\r\0"
Positions = npt.NDArray[np.int64]


def decoded(sql: str) -> str:
    """SQL for the value that the SQL text is the escaped form of."""
    plain = sql
    for character, code in reversed(CODES.items()):
        plain = f"replace({plain}, chr({ord(ESCAPE)}) || '{code}', chr({ord(character)}))"
    return f"case when contains({sql}, chr({ord(ESCAPE)})) then {plain} else {sql} end"


class Dialect:
    """The two characters that structure a text, as bytes: both are ASCII."""

    def __init__(self, quote: str, delimiter: str) -> None:
        self.quote, self.delimiter = (*quote.encode("ascii"), *delimiter.encode("ascii"))
        self.end_of_plain = re.compile(b"[\n" + re.escape(delimiter.encode()) + b"]")


class Record:
    """Finds where one record ends; its text may come in pieces.

    A value is quoted if a quote is its first character. A quote that ends it stands before a delimiter or a line end;
    other quotes in it are doubled, and where they are not, the quotes of the record are broken: it then ends with the
    line. In a value that is not quoted, a quote is a character like others.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.broken = False
        self.quoted: list[tuple[int, int]] = []  # where the quoted values of the last piece are
        self._state = self._at_value
        self._opened = 0

    def end(self, text: bytes, start: int = 0) -> int | None:
        """Where the record ends, behind its line end; None if not in this piece."""
        self._text, self._next = text, start
        while self._next < len(text):
            if self._state():
                return self._next
        return None

    def _at_value(self) -> bool:
        if self._text[self._next] == self.dialect.quote:
            self._opened, self._next, self._state = self._next, self._next + 1, self._in_quotes
        else:
            self._state = self._in_plain
        return False

    def _in_plain(self) -> bool:
        found = self.dialect.end_of_plain.search(self._text, self._next)
        self._next = len(self._text) if found is None else found.end()
        if found is not None:
            self._state = self._at_value
        return found is not None and found[0] == b"\n"

    def _in_quotes(self) -> bool:
        found = self._text.find(self.dialect.quote, self._next)
        self._next = len(self._text) if found < 0 else found + 1
        if found >= 0:
            self._state = self._behind_quote
        return False

    def _behind_quote(self) -> bool:
        following = self._text[self._next]
        if following == self.dialect.quote:
            self._next, self._state = self._next + 1, self._in_quotes
        elif following in (self.dialect.delimiter, _NEWLINE, _RETURN):
            self.quoted.append((self._opened, self._next))
            self._state = self._in_plain  # which ends at once, or at the line end behind the carriage return
        else:
            self.broken, self._state = True, self._in_broken
        return False

    def _in_broken(self) -> bool:
        found = self._text.find(b"\n", self._next)
        self._next = len(self._text) if found < 0 else found + 1
        return found >= 0


@dataclass
class Cut:
    """Where the whole records of a text are."""

    stop: int  # where the last whole record ends
    quotes: Positions  # of quoted values: around them, and doubled inside of them
    broken: list[tuple[int, int]] = field(default_factory=list)  # records with broken quotes


def cut(text: bytes, dialect: Dialect) -> Cut:
    """Cut a text that begins with a record."""
    found = _cut_if_regular(text, dialect)
    return _cut_one_by_one(text, dialect) if found is None else found


def _cut_if_regular(text: bytes, dialect: Dialect) -> Cut | None:
    """The cut, if every quote begins a value, ends one, or is doubled inside of one.

    Then a byte is inside of quotes if the number of quotes up to it is odd, a doubled quote ending and beginning again.
    """
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == dialect.quote)
    ends = np.flatnonzero(letters == _NEWLINE)
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0] if len(quotes) else ends
    if not len(outside):
        return None
    stop = int(outside[-1]) + 1
    quotes = quotes[: np.searchsorted(quotes, stop)]
    opening, closing = quotes[::2], quotes[1::2]
    before, behind = letters[opening - 1], letters[closing + 1]
    allowed = np.zeros(256, bool)
    allowed[[dialect.quote, dialect.delimiter, _NEWLINE]] = True
    begins = allowed[before] | (opening == 0)
    ends_well = allowed[behind]
    if not ends_well.all():
        ends_well |= (behind == _RETURN) & (letters[np.minimum(closing + 2, stop - 1)] == _NEWLINE)
    return Cut(stop, quotes) if begins.all() and ends_well.all() else None


def _cut_one_by_one(text: bytes, dialect: Dialect) -> Cut:
    stop, broken = 0, []
    quoted: list[tuple[int, int]] = []
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == dialect.quote)
    before = letters[quotes - 1]
    at_value = quotes[(before == dialect.delimiter) | (before == _NEWLINE) | (quotes == 0)]
    for quote in at_value.tolist():
        if quote < stop:
            continue
        start = text.rfind(b"\n", stop, quote) + 1 or stop  # the lines before quote no value: each is a record
        record = Record(dialect)
        end = record.end(text, start)
        if end is None:
            stop = start
            break
        if record.broken:
            broken.append((start, end))
        else:
            quoted += record.quoted
        stop = end
    else:
        stop = text.rfind(b"\n", stop) + 1 or stop
    begins, ends = np.array(quoted, np.int64).reshape(-1, 2).T
    of_values = np.searchsorted(begins, quotes, side="right") > np.searchsorted(ends, quotes, side="right")
    return Cut(stop, quotes[of_values], broken)


NO_FAULT, STRAY_RETURN, EMPTY, NUL, TOO_LONG, BROKEN = range(6)  # of two faults, the later counts


@dataclass
class Encoded:
    """The whole records of a text, and what is wrong with them."""

    lines: bytes  # one line for each record without a fault
    faults: npt.NDArray[np.uint8]  # of each record
    lines_before: Positions  # of each record, in the text
    line_ends: int  # in the text, inside of quotes or not


def encode(text: bytes, found: Cut, dialect: Dialect, longest: int) -> Encoded:
    letters = np.frombuffer(text, np.uint8)[: found.stop]
    inside = _inside(found)
    line_ends = np.flatnonzero(letters == _NEWLINE)
    ends = line_ends[~inside[line_ends]]
    starts = np.concatenate([ends[:0], [0], ends[:-1] + 1])[: len(ends)]
    kept = np.ones(len(letters), bool)
    _leave_out_quotes(kept, found.quotes)
    returns = np.flatnonzero((letters == _RETURN) & ~inside) if b"\r" in text else ends[:0]
    at_line_end = letters[returns + 1] == _NEWLINE  # a record ends with a line end: there is always a next letter
    kept[returns[at_line_end]] = False

    faults = np.zeros(len(ends), np.uint8)
    lengths = ends - starts
    faults[np.searchsorted(ends, returns[~at_line_end])] = STRAY_RETURN
    if (lengths < len('""\r\n')).any():
        faults[np.add.reduceat(kept, starts, dtype=np.int64) == 1] = EMPTY  # nothing but the line end
    if b"\0" in text:
        faults[np.searchsorted(ends, np.flatnonzero(letters == _NUL))] = NUL
    faults[lengths > longest] = TOO_LONG
    faults[np.searchsorted(ends, [end - 1 for _, end in found.broken])] = BROKEN
    if faults.any():
        kept &= np.repeat(faults == NO_FAULT, lengths + 1)

    lines = _one_line_each(letters, inside, kept, dialect)
    one_line_each = len(line_ends) == len(ends)
    before = np.arange(len(ends)) if one_line_each else np.searchsorted(line_ends, starts)
    return Encoded(lines, faults, before, len(line_ends))


def _leave_out_quotes(kept: npt.NDArray[np.bool_], quotes: Positions) -> None:
    kept[quotes] = False
    ending, next_beginning = quotes[1:-1:2], quotes[2::2]
    kept[next_beginning[next_beginning - ending == 1]] = True  # two quotes inside of a value stand for one


def _one_line_each(
    letters: npt.NDArray[np.uint8], inside: npt.NDArray[np.bool_], kept: npt.NDArray[np.bool_], dialect: Dialect
) -> bytes:
    delimiters = (letters == dialect.delimiter) & ~inside
    escaped = np.isin(letters, [ord(ESCAPE), ord(UNIT_SEPARATOR)]) & ~delimiters
    escaped |= inside & ((letters == _NEWLINE) | (letters == _RETURN))
    escaped &= kept
    letters = letters.copy()
    letters[delimiters] = ord(UNIT_SEPARATOR)
    if not escaped.any():
        return letters[kept].tobytes()
    copies = kept.astype(np.uint8) + escaped
    written = np.repeat(letters, copies)
    at = np.cumsum(copies, dtype=np.int64)[escaped] - 2
    codes = np.zeros(256, np.uint8)
    for character, code in CODES.items():
        codes[ord(character)] = ord(code)
    written[at + 1] = codes[written[at]]
    written[at] = ord(ESCAPE)
    return written.tobytes()


def _inside(found: Cut) -> npt.NDArray[np.bool_]:
    """Which letters are inside of quotes; of the quotes themselves, those that open."""
    between = np.diff(found.quotes, prepend=0, append=found.stop)
    inside: npt.NDArray[np.bool_] = np.repeat(np.arange(len(between)) % 2 == 1, between)
    for start, end in found.broken:
        inside[start : end - 1] = True  # all of it is one record
    return inside
