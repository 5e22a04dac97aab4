"""Text parsed by DuckDB, once, into a table inside it; every row that could not be read is counted and located."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from searchveil.engine.sql import identifier, literal
from searchveil.errors import InputError, was_interrupted
from searchveil.log.readers import records
from searchveil.log.readers.lines import BROKEN_QUOTES, LONGEST_LINE, TOO_LONG, CleanText, clean_text, nth_left
from searchveil.log.readers.lines import SHOWN as SHOWN
from searchveil.log.readers.source import Source
from searchveil.log.schema import Problem

BROKEN_XML = "broken XML; the rest of the file is not read"
NOT_OF_ONE_ROW = (BROKEN_QUOTES, BROKEN_XML)  # faults of one row that may take others with it, nobody knows how many

# What DuckDB calls it, the worst first: a line is counted once, under the worst of its faults.
REFUSALS = {
    "INVALID ENCODING": "invalid UTF-8",
    "LINE SIZE OVER MAXIMUM": TOO_LONG,
    "TOO MANY COLUMNS": "wrong number of columns",
    "MISSING COLUMNS": "wrong number of columns",
    "CAST": "bad {column}",
}
_numbers = count(1)


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are cut into typed columns. With a quote, all columns are text."""

    columns: Mapping[str, str]  # name -> DuckDB type
    delimiter: str = "\t"
    quote: str = ""
    header: bool = False
    time_format: str | None = None
    encoding: str = "utf-8"
    derived: Mapping[str, str] = field(default_factory=dict)  # more columns, as SQL over the others


@dataclass(frozen=True)
class Parser:
    """The DuckDB that parses, and a folder for files that are gone when the parsing is done."""

    connection: Any
    scratch: Path
    staged_by: "Callable[[Sequence[Part]], Staged] | None" = None  # parses instead of the connection, on a cluster

    def run(self, statement: str) -> None:
        self.connection.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        fetched: list[tuple[Any, ...]] = self.connection.execute(statement).fetchall()
        return fetched

    @property
    def keeps_order(self) -> bool:
        ((kept,),) = self.rows("select current_setting('preserve_insertion_order')")
        return bool(kept)

    @contextmanager
    def in_file_order(self) -> Iterator[None]:
        before = self.keeps_order
        self.run("set preserve_insertion_order = true")
        try:
            yield
        finally:
            self.run(f"set preserve_insertion_order = {before}")


@dataclass(frozen=True)
class Remarks:
    """What is to be said of a reading besides its rows; SearchLog tells what each is."""

    problems: tuple[Problem, ...] = ()
    unit: str = "user"
    taken_as_public: tuple[str, ...] = ()
    names: Mapping[str, str] = field(
        default_factory=dict
    )  # our columns -> what the file calls them, where it may differ


@dataclass(frozen=True)
class Parsed:
    """A table inside the parsing DuckDB. `problem`, where it has that column, is NULL for the rows of the log."""

    table: str
    remarks: Remarks = field(default_factory=Remarks)


@dataclass
class Scan:
    """Files of one layout, the rows DuckDB makes of them, and the lines it refuses."""

    parser: Parser
    layout: Layout
    files: list[CleanText]
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def sql(self) -> str:
        paths = [file.path for file in self.files]
        return f"(select *{self._derived} from {self._read_csv(paths, f', store_rejects = true, {self._rejects}')})"

    @property
    def _encoded(self) -> bool:
        return self.files[0].encoded

    @property
    def _derived(self) -> str:
        """What is selected besides the columns, and in the place of those that are escaped in the copy."""
        texts = [f"{records.decoded(name)} as {name}" for name in map(identifier, self.layout.columns)]
        replaced = f" replace ({', '.join(texts)})" if self._encoded else ""
        return replaced + "".join(f", {sql} as {identifier(name)}" for name, sql in self.layout.derived.items())

    @property
    def _rejects(self) -> str:
        return f"rejects_table = 'refused_{self.number}', rejects_scan = 'refusing_{self.number}'"

    def _read_csv(self, paths: Iterable[str], more: str = "") -> str:
        columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in self.layout.columns.items())
        delimiter = records.UNIT_SEPARATOR if self._encoded else self.layout.delimiter
        if self._encoded:  # a record may be twice as long there
            more += f", max_line_size = {3 * LONGEST_LINE}"
        time_format = f", timestampformat = {literal(self.layout.time_format)}" if self.layout.time_format else ""
        return (
            f"read_csv([{', '.join(map(literal, paths))}], auto_detect = false, columns = {{{columns}}}, "
            f"delim = {literal(delimiter)}, quote = '', escape = '', new_line = '\\n', "
            f"header = {self.layout.header}, compression = '{'gzip' if self.files[0].gzipped else 'none'}', "
            f"ignore_errors = true{time_format}{more})"
        )

    @property
    def _refused(self) -> str:
        """SQL for the lines DuckDB refused, each with the worst of its faults."""
        severity = " ".join(f"when {literal(kind)} then {rank}" for rank, kind in enumerate(REFUSALS))
        return (
            f"select file_path as path, line, arg_min(error_type, rank) as kind, arg_min(column_name, rank) as cell "
            f"from ("
            f"  select *, case error_type {severity} else {len(REFUSALS)} end * 1000 + coalesce(column_idx, 0) as rank"
            f"  from refused_{self.number} join refusing_{self.number} using (scan_id, file_id)"
            f") group by all"
        )

    def count_refused(self) -> Iterator[tuple[CleanText, str, int, list[int]]]:
        """The lines DuckDB refused, by file and reason: how many, and the first few."""
        files = {file.path: file for file in self.files}
        for path, kind, cell, rows, first in self.parser.rows(
            f"select path, kind, if(kind = 'CAST', cell, null) as cell, count(*), min(line, {SHOWN}) "
            f"from ({self._refused}) group by path, kind, if(kind = 'CAST', cell, null) "
            "order by path, min(line)"
        ):
            yield files[path], REFUSALS.get(kind, kind.lower()).format(column=cell), rows, first

    def _refused_lines(self, path: str) -> npt.NDArray[np.int64]:
        lines = (
            f"select distinct line::bigint as line from ({self._refused}) where path = {literal(path)} order by line"
        )
        found: npt.NDArray[np.int64] = self.parser.connection.execute(lines).fetchnumpy()["line"]
        return found

    def locate(self, conditions: Mapping[str, str], enough: int = SHOWN) -> dict[str, list[str]]:
        """Where the first rows are that meet each condition: a second look, taken only when something is wrong."""
        places: dict[str, list[str]] = {reason: [] for reason in conditions}
        for file in self.files:
            wanted = {reason: sql for reason, sql in conditions.items() if len(places[reason]) < enough}
            if not wanted:
                break
            firsts = ", ".join(f"min(n, {enough}) filter (where {sql})" for sql in wanted.values())
            # DuckDB checks only the columns it is asked for; the same lines must be refused as the first time.
            every_column = ", ".join(f"count({identifier(name)})" for name in self.layout.columns)
            with self.parser.in_file_order():
                (found,) = self.parser.rows(
                    f"select {firsts}, {every_column} from "
                    f"(select row_number() over () as n, *{self._derived} from {self._read_csv([file.path])})"
                )
            refused = self._refused_lines(file.path)
            for reason, rows in zip(wanted, found, strict=False):
                places[reason] += [self._place(file, row, refused) for row in rows or ()]
        return {reason: found[:enough] for reason, found in places.items()}

    def _place(self, file: CleanText, row: int, refused: npt.NDArray[np.int64]) -> str:
        line = nth_left(row + self.layout.header, refused)
        return f"{file.source.shown}:{file.original_line(line)}"


class Tally:
    """Counts problems by reason and keeps their first places, file by file in the order given."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.first: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, rows: int, first: Iterable[str] = ()) -> None:
        if rows:
            self.rows[reason] += rows
            self.first[reason] += first

    def sort(self, sources: Iterable[Source]) -> None:
        """Put the places in the order of the files and of their lines."""
        positions = {source.shown: source.position for source in sources}
        for places in self.first.values():
            places.sort(key=lambda place: (positions[place.rpartition(":")[0]], int(place.rpartition(":")[2])))

    def problems(self) -> tuple[Problem, ...]:
        return tuple(
            Problem(reason, rows, tuple(self.first[reason][:SHOWN]), reason in NOT_OF_ONE_ROW)
            for reason, rows in self.rows.most_common()
        )


@dataclass(frozen=True)
class Part:
    """Files of one layout, and the SQL over its columns that makes the log's columns and finds the bad rows."""

    layout: Layout
    sources: Sequence[Source]
    outputs: Mapping[str, str]  # column of the log -> SQL
    checks: Mapping[str, str]  # reason -> SQL that is true for a bad row; the first one that is true counts


@dataclass
class Staged:
    table: str
    scans: list[Scan]
    tally: Tally

    def parsed(
        self, unit: str = "user", taken_as_public: Iterable[str] = (), names: Mapping[str, str] | None = None
    ) -> Parsed:
        return Parsed(self.table, Remarks(self.tally.problems(), unit, tuple(taken_as_public), names or {}))


def stage(parser: Parser, *parts: Part) -> Staged:
    """One pass over all files into one table: the outputs, and in `problem` which check a row failed, if any."""
    if parser.staged_by is not None:
        return parser.staged_by(parts)
    scans = [(part, scan) for part in parts for scan in _scans(parser, part)]
    scans.sort(key=lambda one: one[1].files[0].source.position)
    reasons = list(dict.fromkeys(reason for part in parts for reason in part.checks))
    staged = Staged(_parsed_by_duckdb(parser, scans, reasons), [scan for _, scan in scans], Tally())
    _count_lines_left_out(staged)
    found = dict(parser.rows(f"select problem, count(*) from {staged.table} group by all"))
    _check_that_nothing_is_lost(staged, sum(found.values()))
    _count_bad_rows(staged, scans, {reasons[code]: rows for code, rows in found.items() if code is not None})
    staged.tally.sort(source for part in parts for source in part.sources)
    return staged


def _parsed_by_duckdb(parser: Parser, scans: list[tuple[Part, Scan]], reasons: list[str]) -> str:
    """The name of the new table."""
    table = f"parsed_{next(_numbers)}"
    selects = " union all ".join(_select(part, scan, reasons) for part, scan in scans)
    try:
        parser.run(f"create temp table {table} as {selects}")
    except Exception as problem:
        if was_interrupted(problem):  # not a bad file
            raise
        named = ", ".join(file.source.shown for _, scan in scans for file in scan.files)
        kind = type(problem).__name__  # what it says may hold a value of a row
        raise InputError(f"{named}: cannot be parsed (DuckDB stopped with {kind})") from problem
    return table


def _scans(parser: Parser, part: Part) -> list[Scan]:
    def clean(source: Source) -> CleanText:
        layout = part.layout
        return clean_text(
            source, parser.scratch, quote=layout.quote, delimiter=layout.delimiter, encoding=layout.encoding
        )

    with ThreadPoolExecutor() as threads:  # unpacking and searching bytes happen outside the interpreter's lock
        files = list(threads.map(clean, part.sources))
    if parser.keeps_order:  # only files that follow each other in the log can be read together
        return [Scan(parser, part.layout, run) for run in _runs(files)]
    groups: dict[tuple[bool, bool], list[CleanText]] = defaultdict(list)
    for file in files:
        groups[file.gzipped, file.encoded].append(file)
    return [Scan(parser, part.layout, group) for group in groups.values()]


def _runs(files: Sequence[CleanText]) -> list[list[CleanText]]:
    runs: list[list[CleanText]] = []
    for file in files:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and (last.gzipped, last.encoded) == (file.gzipped, file.encoded)
            and last.source.position + 1 == file.source.position
        ):
            runs[-1].append(file)
        else:
            runs.append([file])
    return runs


def _select(part: Part, scan: Scan, reasons: list[str]) -> str:
    outputs = ", ".join(f"{sql} as {identifier(name)}" for name, sql in part.outputs.items())
    failed = " ".join(f"when {sql} then {reasons.index(reason)}" for reason, sql in part.checks.items())
    return f"select {outputs}, (case {failed} end)::utinyint as problem from {scan.sql}"


def _count_lines_left_out(staged: Staged) -> None:
    for scan in staged.scans:
        for file in scan.files:
            for reason, left_out in file.left_out.items():
                staged.tally.add(reason, left_out.rows, [f"{file.source.shown}:{line}" for line in left_out.first])
        for file, reason, rows, refused in scan.count_refused():
            places = [f"{file.source.shown}:{file.original_line(line)}" for line in refused]
            staged.tally.add(reason, rows, places)


def _check_that_nothing_is_lost(staged: Staged, rows: int) -> None:
    files = [(scan, file) for scan in staged.scans for file in scan.files]
    present = sum(file.rows for _, file in files)
    headers = sum(scan.layout.header for scan, _ in files)
    left_out = sum(staged.tally.rows.values())
    if rows + left_out + headers != present:
        names = ", ".join(file.source.shown for _, file in files)
        raise InputError(
            f"{names}: of {present} rows, {present - headers - left_out - rows} are neither read nor refused; "
            "please report this with the file's format and size, and no row of it"
        )


def _count_bad_rows(staged: Staged, scans: list[tuple[Part, Scan]], found: Mapping[str, int]) -> None:
    if not found:
        return
    first: dict[str, list[str]] = defaultdict(list)
    for part, scan in scans:
        earlier = "false"
        conditions = {}
        for reason, sql in part.checks.items():  # a row counts for the first check it fails
            conditions[reason] = f"({sql}) and not coalesce({earlier}, false)"
            earlier = f"({earlier} or coalesce({sql}, false))"
        for reason, places in scan.locate({r: sql for r, sql in conditions.items() if r in found}).items():
            first[reason] += places
    for reason, rows in found.items():
        staged.tally.add(reason, rows, first[reason])
