"""From files to a SearchLog: find the files, tell their format, parse once, say what could not be read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ibis.expr.types as ir

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError, printable, setting
from searchveil.log.normalize import USUAL, Normalization
from searchveil.log.readers import READERS, Reader, Request
from searchveil.log.readers.base import wrong_option
from searchveil.log.readers.parquet import read_parquet
from searchveil.log.readers.source import Source, find_sources
from searchveil.log.readers.staging import Parsed, Parser, Remarks
from searchveil.log.schema import COLUMNS, SearchLog
from searchveil.scratch import Scratch

if TYPE_CHECKING:
    from searchveil.engine.spark import SparkEngine


def read_log(
    paths: str | Path | Sequence[str | Path],
    *,
    format: str = "auto",
    engine: Engine | None = None,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
    normalization: Normalization = USUAL,
    options: Mapping[str, str] | None = None,
) -> SearchLog:
    """Read a search log from one or more files or globs.

    `columns` says which column of a CSV, TSV, JSON lines or Parquet file is our user, query, time, rank or url.
    `options` are those of the format (docs/formats.md). With `strict` any bad row is an error; otherwise bad rows are
    in `problems` of the log.
    """
    sources = find_sources(paths)
    on_spark = engine is not None and engine.name == "spark"
    if on_spark:
        from searchveil.log.on_spark import look_into

        sources = look_into(cast("SparkEngine", engine), sources)
    reader, declared = _reader_for(sources, format)
    request = Request(sources, columns or {}, options or {})
    _check_request(reader, request, on_spark)
    engine = engine or open_engine()
    if reader.parse is None:
        table, remarks = read_parquet(engine, request)
    else:
        table, remarks = _parse_into(engine, reader, request)
    guessed = [] if declared else [f"the format {reader.name}, inferred from the first rows"]
    public = (*guessed, *remarks.taken_as_public)
    log = SearchLog(
        table,
        engine,
        normalization,
        remarks.problems,
        _called(sources),
        remarks.unit,
        format=reader.name,
        names=remarks.names,
        taken_as_public=public,
    )
    _refuse_if_wanting(log, strict)
    return log


def _reader_for(sources: Sequence[Source], format: str) -> tuple[Reader, bool]:
    """The reader, and whether it was declared: by the caller or by something in the files that is no row."""
    if format != "auto":
        if format not in READERS:
            raise InputError(
                setting("format", format) + f": it is one of auto, {', '.join(READERS)}",
                parameter="format",
                value=format,
            )
        return READERS[format], True
    readers = {source.path: _recognise(source) for source in sources}
    first, *others = readers
    for other in others:
        if readers[other] is not readers[first]:
            raise InputError(
                f"{first} looks like {readers[first].name} but {other} like {readers[other].name}",
                parameter="format",
                instead="name one with " + setting("format") + ", or read them apart",
            )
    return readers[first], all(readers[first].declared(source.head, source.name) for source in sources)


def _recognise(source: Source) -> Reader:
    if not source.head and Path(source.path).is_file():
        raise InputError(f"{source.path}: is empty")
    for reader in READERS.values():  # first what a header says, for no row can change that
        if reader.declared(source.head, source.name):
            return reader
    for reader in READERS.values():
        if reader.recognises(source.head, source.name):
            return reader
    raise InputError(
        f"{source.path}: its format is none I know",
        parameter="format",
        instead="type " + setting("format") + f" with one of {', '.join(READERS)}",
    )


def _check_request(reader: Reader, request: Request, on_spark: bool) -> None:
    if request.columns and not reader.takes_columns:
        raise InputError(
            setting("columns")
            + f": is for csv, tsv, jsonl and parquet; {request.sources[0].path} is read as {reader.name}",
            parameter="columns",
        )
    for option, value in request.options.items():
        if option not in reader.options:
            known = ", ".join(reader.options) or "none"
            raise wrong_option(option, value, f"{reader.name} has no such option; it has {known}")
    for source in request.sources:
        if reader.parse is None:
            _check_parquet(source)
        else:
            _check_text(source, on_spark)


def _check_parquet(source: Source) -> None:
    if source.gzipped or (source.head and not source.head.startswith(b"PAR1")):
        raise InputError(
            f"{source.path}: is not a Parquet file",
            parameter="format",
            instead="type another " + setting("format") + f", one of {', '.join(READERS)}",
        )
    if Path(source.path).is_dir() and not any(Path(source.path).rglob("*.parquet")):
        raise _folder(source)


def _check_text(source: Source, on_spark: bool) -> None:
    if Path(source.path).is_dir():
        raise _folder(source)
    if "://" in source.path and not on_spark:
        raise InputError(
            f"{source.path}: only Spark reads text from afar",
            parameter="engine",
            instead="add " + setting("engine", "spark") + ", or copy it here",
        )


def _folder(source: Source) -> InputError:
    return InputError(f"{source.path}: is a folder; name the files in it, for example '{source.path}/*'")


def _parse_into(engine: Engine, reader: Reader, request: Request) -> tuple[ir.Table, Remarks]:
    """Parse text by DuckDB, here or in Spark's workers: one parser for each format, one meaning of a bad row."""
    from searchveil.engine.duckdb import DuckDBEngine

    if isinstance(engine, DuckDBEngine):
        parsed = _parse(engine, reader, request)
        staged = engine.connection.table(parsed.table, database=("temp", "main"))
        flawed = "problem" in staged.columns and parsed.remarks.problems
        kept = staged.filter(staged.problem.isnull()) if flawed else staged
        return kept.select(*[column for column in COLUMNS if column in staged.columns]), parsed.remarks
    from searchveil.log.on_spark import parse_on_spark

    return parse_on_spark(cast("SparkEngine", engine), reader, request)


def _parse(engine: Any, reader: Reader, request: Request) -> Parsed:
    assert reader.parse is not None
    with Scratch() as scratch:
        connection = engine.connection.con
        connection.execute("set timezone = 'UTC'")  # times without an offset are taken as they are written
        return reader.parse(Parser(connection, scratch), request)


def _called(sources: Sequence[Source]) -> str:
    more = len(sources) - 1
    return printable(sources[0].path) + (f" and {more} more file{'s' if more > 1 else ''}" if more else "")


def _refuse_if_wanting(log: SearchLog, strict: bool) -> None:
    described = "; ".join(map(str, log.problems))
    if strict and log.problems:
        instead = "correct them, or leave out " + setting("strict")
        raise InputError(f"{log.source}: {described}", parameter="strict", value=True, instead=instead)
    if log.engine.value(log.table.limit(1).count()) == 0:
        raise InputError(f"{log.source}: no row could be read{': ' + described if described else ', it is empty'}")
