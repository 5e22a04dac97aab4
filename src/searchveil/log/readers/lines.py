"""Lines that DuckDB's parser cannot be given are taken out first, counted and remembered.

DuckDB reads text at full speed on all cores and says which lines it refused, but (version 2.0) it skips empty lines
without a word, stops at a lone carriage return or at mixed line ends, loses lines longer than its buffer, and lets NUL
through. A quick survey of the bytes finds whether a file has any of these. Nearly no file has; one that has is copied
without those lines.
"""

import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from searchveil.errors import InputError
from searchveil.log.readers.source import Source

LONGEST_LINE = 1 << 20  # bytes
NEWLINE = ord("\n")

TOO_LONG = "line longer than 1 MiB"
EMPTY_LINE = "empty line"
NUL = "NUL byte"
STRAY_RETURN = "carriage return inside the line"
BAD_ENCODING = "invalid {encoding}"
_names = count(1)


@dataclass
class CleanText:
    """A file as DuckDB may read it, and what had to be left out of it."""

    source: Source
    path: str
    gzipped: bool
    lines: int | None  # None where quotes may span lines, so that lines are not rows
    removed: dict[str, "array[int]"] = field(default_factory=dict)  # reason -> line numbers

    def original_line(self, line: int) -> int:
        """The line number in the file of a line in the clean copy."""
        if not self.removed:
            return line
        return nth_left(line, np.sort(np.concatenate([np.asarray(lines) for lines in self.removed.values()])))


def nth_left(n: int, absent: npt.NDArray[np.int64]) -> int:
    """The n-th number from 1 on that is not among the absent ones, which are sorted."""
    return n + int(np.searchsorted(absent - np.arange(len(absent)), n, side="right"))


def clean_text(source: Source, scratch: Path, *, quote: str = "", encoding: str = "utf-8") -> CleanText:
    try:
        survey = _survey(source, quote)
        lines = None if survey.quoted else survey.lines
        if survey.clean and encoding == "utf-8":
            return CleanText(source, _plain_name(source, scratch), source.gzipped, lines)
        copy = scratch / f"clean-{next(_names)}.txt"
        return CleanText(source, str(copy), False, lines, _copy_clean_lines(source, copy, survey.quoted, encoding))
    except (EOFError, zlib.error, OSError) as problem:
        raise InputError(f"{source.path}: cannot be read to its end ({problem})") from problem


@dataclass
class _Survey:
    lines: int = 0
    clean: bool = True
    quoted: bool = False


def _survey(source: Source, quote: str) -> _Survey:
    survey = _Survey()
    quotes = quote.encode()
    unfinished = 0  # bytes of the line that goes on in the next chunk
    has_empty_line = False
    with source.open() as stream:
        for chunk in _chunks(stream):
            ends = np.frombuffer(chunk, np.uint8) == NEWLINE
            survey.lines += int(np.count_nonzero(ends))
            survey.quoted = survey.quoted or (bool(quotes) and quotes in chunk)
            first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
            ends_a_long_line = unfinished + (len(chunk) if first < 0 else first) > LONGEST_LINE
            has_empty_line = has_empty_line or (unfinished == 0 and first == 0) or bool((ends[1:] & ends[:-1]).any())
            if ends_a_long_line or b"\r" in chunk or b"\0" in chunk:
                survey.clean = False
            unfinished = unfinished + len(chunk) if last < 0 else len(chunk) - last - 1
    survey.lines += unfinished > 0
    if has_empty_line and not survey.quoted:
        survey.clean = False
    return survey


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(LONGEST_LINE):
        yield chunk


def _blocks(stream: BinaryIO) -> Iterator[bytes | None]:
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


def _copy_clean_lines(source: Source, copy: Path, quoted: bool, encoding: str) -> dict[str, "array[int]"]:
    removed: dict[str, array[int]] = {}
    number = 0  # lines seen so far
    with source.open() as stream, copy.open("wb") as out:
        for block in _blocks(stream):
            if block is None:
                number += 1
                removed.setdefault(TOO_LONG, array("q")).append(number)
                continue
            block = block.replace(b"\r\n", b"\n")
            if _block_is_clean(block, quoted, encoding):
                out.write(_to_utf8(block, encoding))
                number += block.count(b"\n") + (not block.endswith(b"\n"))
                continue
            for line in block.removesuffix(b"\n").split(b"\n") if block else ():
                number += 1
                line = line.removesuffix(b"\r")
                reason = _fault(line, quoted, encoding)
                if reason is None:
                    out.write(_to_utf8(line, encoding) + b"\n")
                else:
                    removed.setdefault(reason, array("q")).append(number)
    return removed


def _block_is_clean(block: bytes, quoted: bool, encoding: str) -> bool:
    if not block or b"\0" in block:
        return False
    if not quoted and (b"\r" in block or b"\n\n" in block or block.startswith(b"\n")):
        return False
    return _decodes(block, encoding)


def _fault(line: bytes, quoted: bool, encoding: str) -> str | None:
    if b"\0" in line:
        return NUL
    if not quoted and not line:
        return EMPTY_LINE
    if not quoted and b"\r" in line:
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
