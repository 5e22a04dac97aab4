"""Text read by Spark itself, where it lies: no row passes through the driver.

Spark cuts files into blocks at line ends. Python workers write the lines of a block to a private file, some MiB at a
time, and hand it to the reader of the format as a file of its own: one parser for each format, one meaning of a bad row
on every engine. What a block says about its lines (how many there are, which ones are bad) travels as a note among its
rows; line numbers in the file follow from the notes of the blocks before it.
"""

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from searchveil.engine.duckdb import DuckDBEngine
from searchveil.engine.spark import SparkEngine, cause_of, spark_path
from searchveil.errors import InputError, setting, was_interrupted
from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.lines import LONGEST_LINE
from searchveil.log.readers.source import GZIP_MAGIC, HEAD_BYTES, Source
from searchveil.log.readers.staging import SHOWN, Parser, Part, Remarks, Staged, Tally, stage
from searchveil.log.schema import COLUMNS
from searchveil.scratch import Scratch

CHUNK = 32 << 20  # bytes of text that are parsed at a time
BOM = b"\xef\xbb\xbf"
ROWS_PER_BATCH = 50_000
TYPES: dict[str, tuple[pa.DataType, str]] = {  # how DuckDB's columns come in Arrow, and what Spark calls it
    "time": (pa.timestamp("us"), "timestamp_ntz"),
    "rank": (pa.int32(), "int"),
}
TEXT = (pa.string(), "string")
NOTE = "note"
OTHER_CODECS = (".bz2", ".deflate", ".lz4", ".snappy", ".xz", ".zst")
FITS_IN_MEMORY = "that every line fits into the memory of a Spark worker"


# In the driver


def parse_on_spark(engine: SparkEngine, reader: Reader, request: Request) -> tuple[ir.Table, Remarks]:
    """The log's table and what is to be said of it; the reader's own `parse` plans, the workers' stage() reads."""
    assert reader.parse is not None
    path = request.sources[0].path
    if reader.whole_files is not None:
        raise InputError(
            f"{path}: Spark reads text line by line, and {reader.name} is not: {reader.whole_files}",
            parameter="engine",
            instead="leave out " + setting("engine", "spark") + ", or bring it as Parquet",
        )
    parsed = reader.parse(Parser(None, Path(), lambda parts: _stage(engine, parts)), request)
    table = engine.connection.table(parsed.table)
    public = (*parsed.remarks.taken_as_public, FITS_IN_MEMORY)
    kept = table.select(*[name for name in COLUMNS if name in table.columns])
    return kept, replace(parsed.remarks, taken_as_public=public)


def look_into(engine: SparkEngine, sources: Sequence[Source]) -> list[Source]:
    """Paths that only Spark can open, as the files they mean, with their first bytes."""
    found: list[Source] = []
    for source in sources:
        found += _behind(engine, source.path) if "://" in source.path else [source]
    return [replace(source, position=i) for i, source in enumerate(found)]


def _behind(engine: SparkEngine, path: str) -> Iterator[Source]:
    hadoop = engine.session._jvm.org.apache.hadoop.fs
    try:
        asked = hadoop.Path(path)
        store = asked.getFileSystem(engine.session._jsc.hadoopConfiguration())
        matches = store.globStatus(asked) or []
        if not matches:
            raise InputError(f"{path}: no such file")
        for status in matches:
            name = re.sub("^([^:/]+):/(?!/)", r"\1:///", status.getPath().toString())  # Hadoop writes file:/
            if status.isDirectory():  # Parquet; the files of a folder of text have to be named
                yield Source(name, shown=name)
            else:
                stream = store.open(status.getPath())
                try:
                    yield _with_head(name, bytes(stream.readNBytes(HEAD_BYTES)))
                finally:
                    stream.close()
    except InputError:
        raise
    except Exception as problem:
        if was_interrupted(problem):
            raise
        raise InputError(f"{path}: cannot be read ({cause_of(problem)})") from problem


def _with_head(path: str, first: bytes) -> Source:
    gzipped = first.startswith(GZIP_MAGIC)
    try:
        head = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(first, HEAD_BYTES) if gzipped else first
    except zlib.error as problem:
        raise InputError(f"{path}: cannot be read ({problem})") from problem
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: is UTF-16; write it in UTF-8 first")
    return Source(path, head, gzipped, shown=path)


def _stage(engine: SparkEngine, parts: Sequence[Part]) -> Staged:
    """What stage() does, by the workers: a view with the good rows, and a tally of the bad ones."""
    from pyspark.sql import functions

    for part in parts:
        _refuse_what_spark_reads_otherwise(part)
    frames = [_rows_and_notes(engine, part) for part in parts]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(other)
    frame = engine.keep(frame)
    sources = sorted((source for part in parts for source in part.sources), key=lambda source: source.position)
    is_note = functions.col(NOTE).isNotNull()
    try:
        notes = [json.loads(note) for (note,) in frame.where(is_note).select(NOTE).collect()]
    except Exception as problem:
        if was_interrupted(problem):
            raise
        raise InputError(
            f"{', '.join(source.shown for source in sources[:SHOWN])}: Spark cannot read it ({cause_of(problem)}); "
            "it must lie where every worker can read it"
        ) from problem
    return Staged(engine.named_view(frame.where(~is_note).drop(NOTE)), [], _tally(engine, notes, sources))


def _refuse_what_spark_reads_otherwise(part: Part) -> None:
    for source in part.sources:
        if part.layout.quote:
            raise InputError(
                f"{source.path}: quoted values may hold line ends, and Spark cuts files there",
                instead="if no value is quoted add "
                + setting("options", {"quote": "none"})
                + ", otherwise leave out "
                + setting("engine", "spark")
                + " or bring it as Parquet",
            )
        if not source.head:
            raise InputError(f"{source.path}: is empty, or a folder; name the files in it")
        if source.gzipped != source.name.endswith(".gz") or source.name.endswith(OTHER_CODECS):
            ending = "to end in .gz, as it is gzipped" if source.gzipped else "without an ending of packed files"
            raise InputError(f"{source.path}: Spark unpacks a file by its name alone; rename it {ending}")
        if source.name.startswith((".", "_")):
            raise InputError(f"{source.path}: Spark passes over files whose names begin with . or _; rename it")


def _rows_and_notes(engine: SparkEngine, part: Part) -> Any:
    """One row for each row of the log, and one for each block's note."""
    from pyspark.sql import functions

    lines = engine.session.read.option("lineSep", "\n").text([spark_path(source.path) for source in part.sources])
    raw = functions.col("value").cast("binary")  # what is no UTF-8 survives
    lines = lines.select(
        functions.substring(raw, 1, LONGEST_LINE + 2).alias("line"),  # too long stays too long
        functions.xxhash64(_one_spelling(functions.col("_metadata.file_path"))).alias("file"),
        functions.col("_metadata.file_block_start").alias("start"),
    )
    marked = {file for file, source in _by_hash(engine, part.sources).items() if source.head.startswith(BOM)}
    sent, chunk = replace(part, sources=()), CHUNK

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return parse_blocks(sent, marked, chunk, batches)

    columns = {name: TYPES.get(name, TEXT)[1] for name in part.outputs}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in (columns | {NOTE: "string"}).items())
    return lines.mapInArrow(parse, schema)


def _one_spelling(path: Any) -> Any:
    """Spark writes file:/ and file:/// for the same."""
    from pyspark.sql import functions

    return functions.regexp_replace(path, "^file:/+", "file:/")


def _by_hash(engine: SparkEngine, sources: Sequence[Source]) -> dict[int, Source]:
    from pyspark.sql import functions

    hadoop = engine.session._jvm.org.apache.hadoop.fs
    rows = []
    for i, source in enumerate(sources):
        path = hadoop.Path(source.path if "://" in source.path else f"file://{Path(source.path).absolute()}")
        store = path.getFileSystem(engine.session._jsc.hadoopConfiguration())
        rows.append((i, store.makeQualified(path).toUri().toString()))
    named = engine.session.createDataFrame(rows, "i int, path string")
    hashed = named.select("i", functions.xxhash64(_one_spelling(functions.col("path")))).collect()
    return {file: sources[i] for i, file in hashed}


def _tally(engine: SparkEngine, notes: Iterable[dict[str, Any]], sources: Sequence[Source]) -> Tally:
    files = _by_hash(engine, sources)
    tally = Tally()
    before: dict[int, int] = defaultdict(int)  # lines of a file before the block
    for note in sorted(notes, key=lambda note: (note["file"], note["start"])):
        source = files[note["file"]]
        for reason, (rows, first) in note["problems"].items():
            tally.add(reason, rows, [f"{source.shown}:{before[note['file']] + line}" for line in first])
        before[note["file"]] += note["lines"]
    tally.sort(sources)
    return tally


# In the workers


@dataclass
class _Block:
    """The lines of one block of a file, those that wait and what was found out about the others."""

    file: int
    start: int
    waiting: bytearray = field(default_factory=bytearray)
    lines_waiting: int = 0
    lines: int = 0  # that were parsed
    problems: dict[str, tuple[int, list[int]]] = field(default_factory=dict)  # reason -> rows, the first lines

    def note(self) -> str:
        return json.dumps({"file": self.file, "start": self.start, "lines": self.lines, "problems": self.problems})


def parse_blocks(
    part: Part, marked: set[int], chunk: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of the log in these lines, and a note after each block; `marked` files begin with a byte order mark.

    About `chunk` bytes are parsed at a time.
    """
    names = {name: TYPES.get(name, TEXT)[0] for name in part.outputs}
    schema = pa.schema([*names.items(), (NOTE, pa.string())])
    block: _Block | None = None
    with closing(DuckDBEngine(threads=1)) as engine:
        engine.sql("set timezone = 'UTC'")
        for file, start, lines in _stretches(batches):
            if block is None or (file, start) != (block.file, block.start):
                if block is not None:
                    yield from _finish(engine, part, schema, block)
                block = _Block(file, start)
                if start == 0 and file in marked and part.layout.encoding != "utf-8":
                    block.waiting += BOM  # Spark took it off; only in UTF-8 is that what the reader does
            block.waiting += b"\n".join(lines.to_pylist()) + b"\n"
            block.lines_waiting += len(lines)
            if len(block.waiting) >= chunk:
                yield from _parse_waiting(engine, part, schema, block)
        if block is not None:
            yield from _finish(engine, part, schema, block)


def _stretches(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, Any]]:
    """Lines that follow each other in one block; a batch may hold lines of several."""
    for batch in batches:
        files, starts = (batch.column(name).to_numpy() for name in ("file", "start"))
        changes = np.flatnonzero((np.diff(files) != 0) | (np.diff(starts) != 0)) + 1
        ends = [*changes.tolist(), batch.num_rows]
        for first, end in zip([0, *ends], ends, strict=False):
            if end > first:
                yield int(files[first]), int(starts[first]), batch.column("line").slice(first, end - first)


def _finish(engine: DuckDBEngine, part: Part, schema: pa.Schema, block: _Block) -> Iterator[pa.RecordBatch]:
    if block.waiting:
        yield from _parse_waiting(engine, part, schema, block)
    empty: list[Any] = [pa.array([None], kind) for kind in schema.types[:-1]]
    yield pa.RecordBatch.from_arrays([*empty, pa.array([block.note()], pa.string())], schema=schema)


def _parse_waiting(engine: DuckDBEngine, part: Part, schema: pa.Schema, block: _Block) -> Iterator[pa.RecordBatch]:
    """The waiting lines as a file of their own, to the same stage() that reads whole files."""
    first = block.start == 0 and block.lines == 0
    layout = replace(part.layout, header=part.layout.header and first)
    connection = engine.connection.con
    with Scratch() as scratch:
        path = scratch / "lines.txt"
        with path.open("wb") as out:
            if part.layout.encoding == "utf-8" and block.waiting.startswith(BOM):
                out.write(BOM)  # a mark inside the file belongs to its line; DuckDB takes off the first
            out.write(block.waiting)
        block.waiting.clear()
        source = Source(str(path), shown="a part of the log")
        staged = stage(Parser(connection, scratch), replace(part, layout=layout, sources=[source]))
    for problem in staged.tally.problems():
        rows, places = block.problems.get(problem.reason, (0, []))
        places += [block.lines + int(place.rpartition(":")[2]) for place in problem.first]
        block.problems[problem.reason] = (rows + problem.rows, places[:SHOWN])
    block.lines, block.lines_waiting = block.lines + block.lines_waiting, 0
    table = engine.connection.table(staged.table, database=("temp", "main"))
    good = engine.fetch(table.filter(table.problem.isnull()).select(*schema.names[:-1]))
    note = pa.array([None] * len(good), pa.string())
    yield from good.append_column(NOTE, note).cast(schema).to_batches(max_chunksize=ROWS_PER_BATCH)
    connection.execute(f"drop table {staged.table}")
