"""From files to a SearchLog: find the files, tell their format, parse once, say what could not be read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import ibis.expr.types as ir
import pyarrow as pa
from ibis.formats.pyarrow import PyArrowType

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError, printable, setting
from searchveil.log.listed import Columns, asked_of
from searchveil.log.normalize import USUAL, Normalization
from searchveil.log.readers import READERS, Reader, Request
from searchveil.log.readers.base import wrong_option
from searchveil.log.readers.parquet import read_parquet, read_table
from searchveil.log.readers.source import Source, find_sources, named_paths
from searchveil.log.readers.staging import Parsed, Parser, Remarks
from searchveil.log.schema import COLUMNS, SearchLog
from searchveil.log.unpack import WHOLE, Unpacked, unpack
from searchveil.log.unread import refuse_what_does_not_say_who
from searchveil.scratch import Scratch

if TYPE_CHECKING:
    from searchveil.engine.spark import SparkEngine


@runtime_checkable
class Tabular(Protocol):
    """Whatever streams itself as Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def read_log(
    paths: str | Path | Sequence[str | Path] | Tabular,
    *,
    format: str = "auto",
    engine: Engine | None = None,
    columns: Columns = None,
    strict: bool = False,
    normalization: Normalization = USUAL,
    options: Mapping[str, str] | None = None,
    skip_lines: int = 0,
) -> SearchLog:
    """Read a search log from files, folders and globs, or from a table in memory.

    A table is a DataFrame of pandas or Polars, an Arrow table, a relation of DuckDB or a table of ibis: whatever can
    be streamed as Arrow. `columns` says which column of a CSV, TSV, JSON lines or Parquet file or of a table is our
    user, query, time, rank or url; as a list, it names the columns of a text without a header, `-` those to pass over.
    `options` are those of the format (docs/formats.md). `skip_lines` is how many lines stand before the log in each
    file. With `strict` any bad row is an error; otherwise bad rows are in `problems` of the log.

    >>> found = sv.read_log(pa.table({"user": ["ann", "bob"], "query": ["weather", "news"]}))
    >>> found.users, found.rows
    (2, 2)
    """
    if isinstance(paths, Tabular):
        _refuse_what_is_of_files(format=(format, "auto"), options=(options or {}, {}), skip_lines=(skip_lines, 0))
        return _read_table(paths, engine or open_engine(), columns, strict, normalization)
    on_spark = engine is not None and engine.name == "spark"
    options = dict(options or {})
    with Scratch() as scratch:
        unpacked = unpack(
            named_paths(paths), scratch, skip_lines=skip_lines, sheet=options.get("sheet"), may_copy=not on_spark
        )
        if WHOLE["xlsx"] in unpacked.taken_as_public:
            options.pop("sheet", None)  # which is of the workbook, not of the text in it
        sources = _sources_of(unpacked, engine if on_spark else None)
        asked = asked_of(sources, columns, format, options)
        reader, declared = _reader_for(sources, asked.format)
        request = Request(sources, asked.columns, asked.options)
        _check_request(reader, request, on_spark)
        engine = engine or open_engine()
        if reader.parse is None:
            table, remarks = read_parquet(engine, request)
        else:
            table, remarks = _parse_into(engine, reader, request)
    guessed = [] if declared else [f"the format {reader.name}, inferred from the first rows"]
    public = (*unpacked.taken_as_public, *guessed, *asked.taken_as_public, *remarks.taken_as_public)
    log = SearchLog(
        table,
        engine,
        normalization,
        remarks.problems,
        _called([unpacked.called.get(source.path, source.path) for source in sources], unpacked.passed_over),
        remarks.unit,
        format=reader.name,
        names=remarks.names,
        taken_as_public=public,
    )
    _refuse_flawed_or_empty(log, strict)
    return log


def _sources_of(unpacked: Unpacked, spark: Engine | None) -> list[Source]:
    """The files under the names that people know; text on a cluster is looked into by its workers."""
    sources = [
        replace(source, shown=printable(unpacked.called.get(source.path, source.shown)))
        for source in find_sources(unpacked.paths, unpacked.called)
    ]
    if spark is None:
        return sources
    from searchveil.log.on_spark import look_into

    return look_into(cast("SparkEngine", spark), sources)


def _read_table(
    given: Tabular, engine: Engine, columns: Columns, strict: bool, normalization: Normalization
) -> SearchLog:
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError("a table has names of its own", parameter="columns", instead="say user=NAME, query=NAME, …")
    where = "the table"
    try:
        loaded = engine.load(_plain(_streamed(given, where), where))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as problem:  # of a type that has no place in Arrow
        raise InputError(f"{where} cannot be read ({type(problem).__name__})") from problem
    table, remarks = read_table(engine, loaded, columns or {}, where)
    log = SearchLog(
        table,
        engine,
        normalization,
        remarks.problems,
        where,
        remarks.unit,
        format="table",
        names=remarks.names,
        taken_as_public=remarks.taken_as_public,
    )
    _refuse_flawed_or_empty(log, strict)
    return log


def _refuse_what_is_of_files(**settings: tuple[Any, Any]) -> None:
    """Each with its value and that of one who did not ask for anything."""
    for name, (value, usual) in settings.items():
        if value != usual:
            raise InputError(
                "a table is read as it is: " + setting(name, value) + " is for files",
                parameter=name,
                value=value,
                instead="leave it out",
            )


def _streamed(given: Tabular, where: str) -> pa.Table:
    two_of_one_name = InputError(f"{where} has two columns of one name; rename one, or leave it out")
    if getattr(getattr(given, "columns", None), "is_unique", True) is False:  # pandas does not stream these
        raise two_of_one_name
    try:
        table = pa.RecordBatchReader.from_stream(given).read_all()
    except UnicodeEncodeError:  # which quotes the cell
        raise InputError(f"{where}: a text in it is no Unicode (a lone surrogate); leave out that row") from None
    if len({*table.column_names}) < len(table.column_names):
        raise two_of_one_name
    return table


def _plain(table: pa.Table, where: str) -> pa.Table:
    """With types that every engine knows: categories and views become the texts that they stand for."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        texts = (pa.types.is_large_string, pa.types.is_string_view)
        return pa.string() if any(is_such(kind) for is_such in texts) else kind

    fields = [pa.field(one.name, plain(one.type)) for one in table.schema]
    for one in fields:
        try:
            PyArrowType.to_ibis(one.type)
        except KeyError as problem:
            raise InputError(
                f"{where}: its column '{printable(one.name)}' holds {one.type}, which no engine knows; make it text, "
                "or leave it out"
            ) from problem
    return table.cast(pa.schema(fields))


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
    reader = _recognise(sources[0])
    for source in sources[1:]:
        other = _recognise(source)
        if other is not reader:
            raise InputError(
                f"{sources[0].shown} looks like {reader.name} but {source.shown} like {other.name}",
                parameter="format",
                instead="name one with " + setting("format") + ", or read them apart",
            )
    return reader, all(reader.declared(source.head, source.name) for source in sources)


def _recognise(source: Source) -> Reader:
    if not source.head and Path(source.path).is_file():
        raise InputError(f"{source.shown}: is empty")
    refuse_what_does_not_say_who(source.head, source.shown)
    for reader in READERS.values():  # first what a header says, for no row can change that
        if reader.declared(source.head, source.name):
            return reader
    for reader in READERS.values():
        if reader.recognises(source.head, source.name):
            return reader
    raise InputError(
        f"{source.shown}: its format is none I know",
        parameter="format",
        instead="type " + setting("format") + f" with one of {', '.join(READERS)}",
    )


def _check_request(reader: Reader, request: Request, on_spark: bool) -> None:
    if request.columns and not reader.takes_columns:
        raise InputError(
            setting("columns")
            + f": is for csv, tsv, jsonl and parquet; {request.sources[0].path} is read as {reader.name}",
            parameter="columns",
            instead="leave it out, or add " + setting("format", "tsv") + " if this is a table of your own",
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
            f"{source.shown}: is not a Parquet file",
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


def _called(paths: Sequence[str], passed_over: Sequence[str]) -> str:
    """The first file and how many more; where a folder was named, also which files in it were not read."""
    without = f" (passed over: {_first_of(passed_over)})" if passed_over else ""
    return _first_of(paths) + without


def _first_of(paths: Sequence[str]) -> str:
    more = len(paths) - 1
    return printable(paths[0]) + (f" and {more} more file{'s' if more > 1 else ''}" if more else "")


def _refuse_flawed_or_empty(log: SearchLog, strict: bool) -> None:
    described = "; ".join(map(str, log.problems))
    if strict and log.problems:
        instead = "correct them, or leave out " + setting("strict")
        raise InputError(f"{log.source}: {described}", parameter="strict", value=True, instead=instead)
    if log.engine.value(log.table.limit(1).count()) == 0:
        raise InputError(f"{log.source}: no row could be read{': ' + described if described else ', it is empty'}")
