"""Lines that DuckDB's parser cannot be given are taken out first, counted and remembered.

DuckDB reads text at full speed on all cores and says which lines it refused, but (version 2.0) it skips empty lines
without a word, stops at a lone carriage return or at mixed line ends, loses lines longer than its buffer, lets NUL
through, and reads quoted values that hold line ends wrongly. A quick survey of the bytes finds whether a file has any
of these. Most files have none; one that has is copied without those lines, and one with quotes record by record.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from searchveil.log.readers import records
from searchveil.log.readers.source import BYTE_ORDER_MARK, Source, Stream

LONGEST_LINE = 1 << 20  # bytes
NEWLINE = ord("\n")
SHOWN = 5  # how many places of each problem are named

TOO_LONG = "line longer than 1 MiB"
EMPTY_LINE = "empty line"
NUL = "NUL byte"
STRAY_RETURN = "carriage return inside the line"
BROKEN_QUOTES = "broken quotes; rows after it may be missing too"
BAD_ENCODING = "invalid {encoding}"
FAULTS_OF_RECORDS = {
    records.TOO_LONG: TOO_LONG,
    records.EMPTY: EMPTY_LINE,
    records.NUL: NUL,
    records.STRAY_RETURN: STRAY_RETURN,
    records.BROKEN: BROKEN_QUOTES,
}
_names = count(1)


@dataclass
class LeftOut:
    """Rows left out for one reason."""

    rows: int = 0
    first: list[int] = field(default_factory=list)  # the first few line numbers


@dataclass(frozen=True)
class CleanText:
    """A file as DuckDB may read it, and what had to be left out of it."""

    source: Source
    path: str
    gzipped: bool
    rows: int  # of the file: header, rows read and rows left out
    encoded: bool = False  # a copy as in records.py
    left_out: dict[str, LeftOut] = field(default_factory=dict)  # by reason
    shifts: Path | None = None  # where the copy's line numbers differ from the file's

    def original_line(self, line: int) -> int:
        """The line number in the file of a line in the clean copy."""
        if self.shifts is None or not self.shifts.stat().st_size:
            return line
        shifts = np.memmap(self.shifts, np.int64, "r").reshape(-1, 2)
        before = bisect_right(range(len(shifts)), line, key=lambda i: int(shifts[i, 0]))
        return line + (int(shifts[before - 1, 1]) if before else 0)


def nth_left(n: int, absent: npt.NDArray[np.int64]) -> int:
    """The n-th number from 1 on that is not among the absent ones, which are sorted."""
    return n + int(np.searchsorted(absent - np.arange(len(absent)), n, side="right"))


class _Copy:
    """A clean copy in the making: what is kept goes to disk, and so does where line numbers begin to differ."""

    def __init__(self, path: Path) -> None:
        self.path, self.shifts = path, path.with_suffix(".shifts")
        self.left_out: dict[str, LeftOut] = {}
        self.kept = 0
        self._shift = 0

    def __enter__(self) -> "_Copy":
        self._text, self._shifts = self.path.open("wb"), self.shifts.open("wb")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._text.close()
        self._shifts.close()

    def keep(self, text: bytes, lines: npt.NDArray[np.int64]) -> None:
        """Write rows, given the line of the file in which each begins."""
        self._text.write(text)
        numbers = np.arange(self.kept + 1, self.kept + 1 + len(lines))
        self.kept += len(lines)
        shifts = lines - numbers
        changed = np.flatnonzero(np.diff(shifts, prepend=self._shift))
        if len(changed):
            np.stack([numbers[changed], shifts[changed]], axis=1).tofile(self._shifts)
            self._shift = int(shifts[-1])

    def leave_out(self, reason: str, lines: Iterable[int]) -> None:
        left_out = self.left_out.setdefault(reason, LeftOut())
        for line in lines:
            left_out.rows += 1
            if len(left_out.first) < SHOWN:
                left_out.first.append(line)

    def clean_text(self, source: Source, encoded: bool) -> CleanText:
        rows = self.kept + sum(left_out.rows for left_out in self.left_out.values())
        return CleanText(source, str(self.path), False, rows, encoded, self.left_out, self.shifts)


def clean_text(
    source: Source, scratch: Path, *, quote: str = "", delimiter: str = "\t", encoding: str = "utf-8"
) -> CleanText:
    survey = _survey(source, quote)
    if survey.clean and not survey.quoted and encoding == "utf-8":
        return CleanText(source, _plain_name(source, scratch), source.gzipped, survey.lines)
    with _Copy(scratch / f"clean-{next(_names)}.txt") as copy:
        if survey.quoted:
            _RecordCopier(copy, records.Dialect(quote, delimiter)).run(source)
        else:
            _copy_clean_lines(source, copy, encoding)
    return copy.clean_text(source, survey.quoted)


@dataclass
class _Survey:
    lines: int = 0
    clean: bool = True
    quoted: bool = False


def _survey(source: Source, quote: str) -> _Survey:
    survey = _Survey()
    quotes = quote.encode()
    unfinished = 0  # bytes of the line that goes on in the next chunk
    with source.open() as stream:
        for chunk in _chunks(stream):
            if quotes and quotes in chunk:
                survey.quoted = True
                return survey  # the copy finds the rest
            ends = np.frombuffer(chunk, np.uint8) == NEWLINE
            survey.lines += int(np.count_nonzero(ends))
            first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
            ends_a_long_line = unfinished + (len(chunk) if first < 0 else first) > LONGEST_LINE
            has_empty_line = (unfinished == 0 and first == 0) or bool((ends[1:] & ends[:-1]).any())
            if ends_a_long_line or has_empty_line or b"\r" in chunk or b"\0" in chunk:
                survey.clean = False
            unfinished = unfinished + len(chunk) if last < 0 else len(chunk) - last - 1
    survey.lines += unfinished > 0
    return survey


def _chunks(stream: Stream) -> Iterator[bytes]:
    while chunk := stream.read(LONGEST_LINE):
        yield chunk


@dataclass
class _RecordCopier:
    """Copies a file record by record. A record may span lines, and a long one chunks."""

    copy: _Copy
    dialect: records.Dialect
    line: int = 1  # the one that the text begins with
    rest: bytes = b""  # the beginning of a record that goes on in the next chunk
    long: records.Record | None = None  # a record that is too long to be kept
    long_at: int = 0

    def run(self, source: Source) -> None:
        with source.open() as stream:
            for chunk in _chunks(stream):
                if self.long is not None:
                    chunk = self._after_long(self.long, chunk)
                if chunk:
                    self._take(chunk)
        self._finish()

    def _take(self, chunk: bytes) -> None:
        text = self.rest + chunk
        if self.line == 1:
            text = text.removeprefix(BYTE_ORDER_MARK)
        found = records.cut(text, self.dialect)
        self._add(text, found)
        self.rest = text[found.stop :]
        if len(self.rest) > LONGEST_LINE:
            self.long, self.long_at = records.Record(self.dialect), self.line
            self.long.end(self.rest)
            self.line += self.rest.count(b"\n")
            self.rest = b""

    def _after_long(self, long: records.Record, chunk: bytes) -> bytes:
        """What follows the long record, if it ends in this chunk."""
        end = long.end(chunk)
        self.line += chunk.count(b"\n", 0, end)
        if end is None:
            return b""
        self._leave_out_long(long, ended=True)
        return chunk[end:]

    def _leave_out_long(self, long: records.Record, ended: bool) -> None:
        self.copy.leave_out(TOO_LONG if ended and not long.broken else BROKEN_QUOTES, [self.long_at])
        self.long = None

    def _add(self, text: bytes, found: records.Cut) -> None:
        encoded = records.encode(text, found, self.dialect, LONGEST_LINE)
        lines = self.line + encoded.lines_before
        self.copy.keep(encoded.lines, lines[encoded.faults == records.NO_FAULT])
        for fault, reason in FAULTS_OF_RECORDS.items():
            if fault in encoded.faults:
                self.copy.leave_out(reason, lines[encoded.faults == fault].tolist())
        self.line += encoded.line_ends

    def _finish(self) -> None:
        if self.long is not None:
            self._leave_out_long(self.long, ended=self.long.end(b"\n") is not None)
        elif self.rest:
            text = self.rest if self.rest.endswith(b"\n") else self.rest + b"\n"
            found = records.cut(text, self.dialect)
            if found.stop < len(text):  # a quote that is never closed
                found.broken.append((found.stop, len(text)))
                found.stop = len(text)
            self._add(text, found)


def _blocks(stream: Stream) -> Iterator[bytes | None]:
    """Whole lines, many at a time; None stands for one line that is too long."""
    unfinished, overlong = b"", False
    for chunk in _chunks(stream):
        first, after_last = chunk.find(b"\n"), chunk.rfind(b"\n") + 1
        overlong = overlong or len(unfinished) + (len(chunk) if first < 0 else first) > LONGEST_LINE
        if first < 0:
            unfinished = b"" if overlong else unfinished + chunk
            continue
        if overlong:
            yield None
            yield chunk[first + 1 : after_last]
        else:
            yield unfinished + chunk[:after_last]
        unfinished, overlong = chunk[after_last:], False
    yield None if overlong else unfinished


def _copy_clean_lines(source: Source, copy: _Copy, encoding: str) -> None:
    line = 1  # the one that the block begins with
    with source.open() as stream:
        for block in _blocks(stream):
            if block is None:
                copy.leave_out(TOO_LONG, [line])
                line += 1
                continue
            block = block.replace(b"\r\n", b"\n")
            if _block_is_clean(block, encoding):
                lines = block.count(b"\n") + (not block.endswith(b"\n"))
                copy.keep(_to_utf8(block, encoding), np.arange(line, line + lines))
                line += lines
            elif block:
                line += _copy_line_by_line(block, copy, line, encoding)


def _copy_line_by_line(block: bytes, copy: _Copy, first: int, encoding: str) -> int:
    kept, numbers, line = [], [], first
    for line, text in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
        text = text.removesuffix(b"\r")
        reason = _fault(text, encoding)
        if reason is None:
            kept.append(_to_utf8(text, encoding) + b"\n")
            numbers.append(line)
        else:
            copy.leave_out(reason, [line])
    copy.keep(b"".join(kept), np.array(numbers, np.int64))
    return line + 1 - first


def _block_is_clean(block: bytes, encoding: str) -> bool:
    if not block or b"\0" in block or b"\r" in block or b"\n\n" in block or block.startswith(b"\n"):
        return False
    return _decodes(block, encoding)


def _fault(line: bytes, encoding: str) -> str | None:
    if b"\0" in line:
        return NUL
    if not line:
        return EMPTY_LINE
    if b"\r" in line:
        return STRAY_RETURN
    return None if _decodes(line, encoding) else BAD_ENCODING.format(encoding=encoding.upper())


def _decodes(text: bytes, encoding: str) -> bool:
    if encoding == "utf-8":  # DuckDB checks it
        return True
    try:
        text.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _to_utf8(text: bytes, encoding: str) -> bytes:
    return text if encoding == "utf-8" else text.decode(encoding).encode()


def _plain_name(source: Source, scratch: Path) -> str:
    """DuckDB takes a path for a pattern where it can; a link gives such a file a name that is none."""
    if not any(mark in source.path for mark in "*?[{"):
        return source.path
    link = scratch / f"link-{next(_names)}"
    link.symlink_to(Path(source.path).absolute())
    return str(link)
