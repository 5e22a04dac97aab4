"""Files as people have them become files that readers read: archives, workbooks, JSON arrays, folders, prefaces.

Copies lie in a temporary folder for as long as a log is read. Every row is copied for itself; what can only be opened
as a whole (an archive, a workbook, an array) is taken as public to be whole, and the record says so.
"""

import gzip
import json
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from errno import EDQUOT, EFBIG, ENOSPC
from itertools import islice
from pathlib import Path
from typing import IO, Any

from searchveil.errors import InputError, printable, setting
from searchveil.extras import require_extra
from searchveil.log.readers.source import BYTE_ORDER_MARK, GZIP_MAGIC, expand

# Rotated logs are texts too: access.log.1, access.log-20240501.
TEXTS = re.compile(r"\.(?:(?:csv|tsv|txt|log|json|jsonl|ndjson|xml)(?:[.-]\d+)*|zip|xlsx|gz)\Z", re.IGNORECASE)
NESTED = re.compile(r"\.(?:parquet|zip|xlsx)\Z", re.IGNORECASE)  # what is not unpacked a second time
# What the libraries say of files that are not what they seem.
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError),
    *(ValueError, KeyError, IndexError, TypeError, SyntaxError, RecursionError, NotImplementedError, RuntimeError),
)
ZIP_MAGIC = b"PK\x03\x04"
WHOLE = {
    "zip": "that the archive can be unpacked",
    "xlsx": "that the workbook can be opened",
    "array": "that the array is well-formed JSON: a fault in one element would refuse the file",
}


@dataclass
class Unpacked:
    """The files to read, what to call those that are copies, and what was taken as public to make them."""

    paths: list[str] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)  # path of a copy -> what people call it
    taken_as_public: dict[str, None] = field(default_factory=dict)  # in order, each once
    passed_over: list[str] = field(default_factory=list)  # by their names no texts; other sheets of a workbook

    def add(self, copies: Iterable[tuple[Path, str]]) -> None:
        for copy, called in copies:
            self.paths.append(str(copy))
            self.called[str(copy)] = called


def unpack(
    asked: Sequence[str | Path],
    scratch: Path,
    *,
    skip_lines: int = 0,
    sheet: str | None = None,
    may_copy: bool = True,
) -> Unpacked:
    """What can be read as it is stays where it is. `may_copy` is false where others would have to see the copies.

    `sheet` is which one of a workbook.
    """
    if skip_lines < 0:
        raise InputError(
            setting("skip_lines") + f" must be a number from 0 on, not {skip_lines}",
            parameter="skip_lines",
            value=skip_lines,
        )
    found = Unpacked()
    for path in (file for one in asked for file in _files(str(one), found.passed_over)):
        kind = "" if "://" in path or not Path(path).is_file() else _kind(Path(path))
        if not kind and not (skip_lines and Path(path).is_file()):
            found.paths.append(path)
            continue
        if not may_copy:
            raise InputError(
                f"{path}: is unpacked or rewritten before it is read, which Spark's workers cannot see",
                instead="do that first, or add " + setting("engine", "duckdb"),
            )
        if kind:
            found.taken_as_public[WHOLE[kind]] = None
        folder = scratch / f"unpacked-{len(found.called)}"
        folder.mkdir()
        found.add(_copied(Path(path), kind, folder, skip_lines, sheet, found.passed_over))
    return found


def _copied(
    path: Path, kind: str, folder: Path, skip_lines: int, sheet: str | None, passed_over: list[str]
) -> list[tuple[Path, str]]:
    try:
        if kind == "xlsx":
            return list(_from_workbook(path, folder, passed_over, sheet, skip_lines))
        copies = list(_COPIES[kind](path, folder, passed_over)) if kind else [(path, str(path))]
        if not skip_lines:
            return copies
        return [
            (  # beside its copy: members of an archive may have the same name
                _without_first_lines(copy, copy.parent if kind else folder, skip_lines),
                f"{called} (after line {skip_lines})",
            )
            for copy, called in copies
        ]
    except BROKEN as problem:
        if isinstance(problem, OSError) and problem.errno in (ENOSPC, EDQUOT, EFBIG):  # no fault of the file
            raise
        raise InputError(f"{path}: cannot be unpacked ({type(problem).__name__})") from problem


def _files(path: str, passed_over: list[str]) -> list[str]:
    """A folder of texts is its files; one of Parquet, or of anything else, is left to the reader."""
    if "://" not in path and Path(path).is_dir() and not any(Path(path).rglob("*.parquet")):
        inside = sorted(file for file in Path(path).rglob("*") if file.is_file() and not _hidden(file, Path(path)))
        texts = [str(file) for file in inside if _is_text(file)]
        if texts:
            passed_over += [file.name for file in inside if not _is_text(file)]
            return texts
    return expand(path)


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _is_text(file: Path) -> bool:
    return TEXTS.search(file.name) is not None


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(4)
    if head == ZIP_MAGIC:
        try:
            with zipfile.ZipFile(path) as archive:
                return "xlsx" if "xl/workbook.xml" in archive.namelist() else "zip"
        except (zipfile.BadZipFile, OSError, ValueError):
            return "zip"
    return "array" if _begins_with_a_bracket(path) else ""


def _begins_with_a_bracket(path: Path) -> bool:
    """Of an unpacked or gzipped text: an array, unless it is the first line of a log of some kind (an XML never is)."""
    try:
        with _opened(path) as file:
            head = file.read(1 << 12).removeprefix(BYTE_ORDER_MARK).lstrip()
    except (OSError, EOFError, zlib.error):
        return False
    return head[:1] == b"[" and head[1:].lstrip()[:1] in (b"{", b"]")


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        gzipped = file.read(2) == GZIP_MAGIC
    return gzip.open(path) if gzipped else path.open("rb")  # type: ignore[return-value]


def _from_zip(path: Path, folder: Path, passed_over: list[str]) -> Iterator[tuple[Path, str]]:
    """The texts in an archive, each by its own name."""
    with zipfile.ZipFile(path) as archive:
        for number, member in enumerate(_members(archive, path, passed_over)):
            copy = folder / str(number) / Path(member.filename).name
            copy.parent.mkdir()
            with archive.open(member) as inside, copy.open("wb") as out:
                shutil.copyfileobj(inside, out, 1 << 20)
            called = f"{path.name}/{member.filename}"
            if _kind(copy) == "array":
                copy = next(_from_array(copy, copy.parent, passed_over))[0]
            yield copy, called


def _members(archive: zipfile.ZipFile, path: Path, passed_over: list[str]) -> list[zipfile.ZipInfo]:
    listed = [one for one in archive.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
    if not listed:
        raise InputError(f"{path}: holds no file")
    known = [one for one in listed if TEXTS.search(one.filename) or NESTED.search(one.filename)]
    members = known or listed  # of no ending that is known: the reader will say what it makes of them
    passed_over += [one.filename for one in listed if one not in members]
    for member in members:
        _check_member(member, path)
    return members


def _check_member(member: zipfile.ZipInfo, path: Path) -> None:
    if member.flag_bits & 1:
        raise InputError(f"{path}: is encrypted; unpack it first")
    if NESTED.search(member.filename):
        raise InputError(f"{path}: holds {printable(member.filename)}; unpack it first")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in Path(name).parts)


def _from_workbook(
    path: Path, folder: Path, passed_over: list[str], sheet: str | None, skip_lines: int
) -> Iterator[tuple[Path, str]]:
    """One sheet as CSV, the first unless it is named. A cell becomes the text that people see in it, or an ISO time.

    Empty rows are nobody's. Rows to skip are counted as the workbook shows them, empty ones too.
    """
    require_extra("xlsx", "openpyxl", what="workbooks need another package")
    import csv

    import openpyxl

    copy = folder / f"{path.stem}.csv"
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        chosen, others = _sheet(book, path, sheet)
        passed_over += [f"the sheet {title}" for title in others]
        with copy.open("w", encoding="utf-8", errors="replace", newline="") as out:
            rows = csv.writer(out, lineterminator="\n")
            for row in islice(chosen.iter_rows(values_only=True), skip_lines, None):
                if any(cell is not None for cell in row):
                    rows.writerow([_cell(cell) for cell in row])
    finally:
        book.close()
    of_several = f" (sheet {chosen.title})" if others else ""
    yield copy, path.name + of_several + (f" (after line {skip_lines})" if skip_lines else "")


def _sheet(book: Any, path: Path, named: str | None) -> tuple[Any, list[str]]:
    """The sheet to read, and the titles of the others."""
    titles = [one.title for one in book.worksheets]
    if named is not None and named not in titles:
        raise InputError(
            setting("options", {"sheet": named}) + f": {path} has no such sheet; it has {', '.join(titles)}",
            parameter="options",
            value=named,
        )
    chosen = book.worksheets[0 if named is None else titles.index(named)]
    return chosen, [title for title in titles if title != chosen.title]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).upper() if isinstance(value, bool) else str(value)


def _from_array(path: Path, folder: Path, passed_over: list[str]) -> Iterator[tuple[Path, str]]:
    """A JSON array as lines, one for each element; a Matomo export of visits as one for each search."""
    copy = folder / f"{path.name.removesuffix('.gz').removesuffix('.json')}.jsonl"
    with _opened(path) as file:
        elements = json.loads(file.read().removeprefix(BYTE_ORDER_MARK))
    with copy.open("w", encoding="utf-8", errors="replace") as out:
        for element in elements:
            for line in _lines_of(element):
                out.write(json.dumps(line, ensure_ascii=True) + "\n")
    yield copy, path.name


def _lines_of(element: Any) -> Iterable[Any]:
    """Matomo (Live.getLastVisitsDetails) nests the searches of a visit among its other actions."""
    if not (isinstance(element, dict) and isinstance(element.get("actionDetails"), list)):
        return [element]
    searches = [one for one in element["actionDetails"] if isinstance(one, dict) and one.get("type") == "search"]
    return [
        {
            "visitorId": element.get("visitorId"),
            "siteSearchKeyword": one.get("siteSearchKeyword"),
            "timestamp": one.get("timestamp"),
        }
        for one in searches
    ]


def _without_first_lines(path: Path, folder: Path, lines: int) -> Path:
    copy = folder / f"from-{lines + 1}-{path.name.removesuffix('.gz')}"
    with _opened(path) as file, copy.open("wb") as out:
        for _ in range(lines):
            file.readline()
        shutil.copyfileobj(file, out, 1 << 20)
    return copy


_COPIES = {"zip": _from_zip, "array": _from_array}
