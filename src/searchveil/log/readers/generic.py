"""CSV, TSV and JSON lines of any layout: which column is which is told, or guessed from its name."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from searchveil.engine.sql import literal
from searchveil.errors import Blank, InputError, Text, printable, setting
from searchveil.log.readers.base import Reader, Request, wrong_option
from searchveil.log.readers.jsonlines import MALFORMED, first_objects, json_lines, path_of
from searchveil.log.readers.records import Dialect, Record
from searchveil.log.readers.source import BYTE_ORDER_MARK, HEAD_BYTES, Source, first_lines
from searchveil.log.readers.staging import Layout, Parsed, Parser, Part, stage
from searchveil.log.readers.times import bad_time, time_sql
from searchveil.log.schema import COLUMNS

# Names seen in the wild, compared without case, spaces, dots, hyphens and underscores; the first match wins.
USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "user": ("user", "userid", "anonid", "uid", "username", "clientid", "visitorid", "idvisitor", "deviceid"),
    "query": (
        "query",
        "userquery",
        "querytext",
        "searchquery",
        "searchterm",
        "searchterms",
        "searchkeyword",
        "sitesearchkeyword",
        "keyword",
        "keywords",
        "q",
    ),
    "time": (
        "time",
        "timestamp",
        "querytime",
        "datetime",
        "servertime",
        "searchtime",
        "searchtimestamp",
        "eventtime",
        "createdat",
        "date",
        "ts",
    ),
    "rank": ("rank", "itemrank", "position", "clickrank", "ordinal"),
    "url": ("url", "clickurl", "clickedurl", "link", "docid", "documentid", "objectid"),
}
REQUIRED = ("user", "query")
NAME = Blank("NAME")  # of a column, which the reader of a message knows
# Never taken for a user without being told: one person has many.
LESS_THAN_A_USER = ("sessionid", "session", "cookieid", "cookie")
_UNITS = re.compile(
    r"(?P<session>sess)|(?P<visit>visit(?!or))|(?P<cookie>cookie)|(?P<device>device|client|visitor)|(?P<user>user)"
)


_EMPTY_LINES = re.compile(rb"\A(\r?\n)*")
_NOT_IN_A_HEADER = re.compile("[\0\r\ud800-\udfff]")  # surrogates: what is not UTF-8


def match_columns(
    present: Sequence[str], given: Mapping[str, str], where: str, *, may_be_a_row: bool = False
) -> dict[str, str]:
    """Our names -> the file's, as told and otherwise as guessed; an error shows what to type.

    Names that may be the values of somebody's row are not shown.
    """
    names = _first_line(present) if may_be_a_row else Text.of(", ".join(present))
    _check_given(given, present, names, where)
    free = {_plain(name): name for name in reversed(present) if name not in given.values()}
    matched = {**_usual_columns(free), **given}
    if "user" not in matched:
        _refuse_less_than_a_user(free, names, where)
    missing = {ours: NAME for ours in REQUIRED if ours not in matched}
    if missing:
        asked = "type " + setting("columns", missing) + ", a NAME out of " + names
        raise InputError(f"{where}: which column is it? " + asked, parameter="columns")
    return {ours: matched[ours] for ours in COLUMNS if ours in matched}


def _check_given(given: Mapping[str, str], present: Sequence[str], names: Text, where: str) -> None:
    for ours, theirs in given.items():
        if ours not in COLUMNS:
            raise InputError(
                setting("columns", {ours: theirs}) + f": '{ours}' is not one of {', '.join(COLUMNS)}",
                parameter="columns",
                value=theirs,
            )
        if theirs not in present:
            raise InputError(
                setting("columns", {ours: theirs}) + f": {where} has no column '{theirs}'",
                parameter="columns",
                value=theirs,
                instead="it has " + names,
            )


def _usual_columns(free: Mapping[str, str]) -> dict[str, str]:
    """Our names -> the file's, where one of them is called as usual."""
    guesses = {ours: next((free[name] for name in usual if name in free), None) for ours, usual in USUAL_NAMES.items()}
    return {ours: guess for ours, guess in guesses.items() if guess is not None}


def _first_line(values: Sequence[str]) -> Text:
    numbers = setting("columns", {"user": "1", "query": "2"})
    no_header = f"the {len(values)} in its first line; if that line is a row, add " + setting(
        "options", {"header": "no"}
    )
    title = "; if a title stands above the names, add " + setting("skip_lines", 1)
    return no_header + " and type numbers: " + numbers + title


def _refuse_less_than_a_user(free: Mapping[str, str], names: Text, where: str) -> None:
    column = next((free[name] for name in LESS_THAN_A_USER if name in free), None)
    if column is not None:
        asked = "type " + setting("columns", {"user": NAME}) + ", a NAME out of " + names
        less = setting("columns", {"user": column}) + f", a guarantee is per {unit_of(column)}, not per person"
        raise InputError(f"{where}: which column is the user? " + asked, parameter="columns", instead="with " + less)


def unit_of(column: str) -> str:
    """What a column holds the ids of, by the last telling word in its name: user_session_id those of sessions."""
    words = [match.lastgroup or "user" for match in _UNITS.finditer(_plain(column))]
    return words[-1] if words else "user"


def is_user_column(name: str) -> bool:
    """Whether it is called as the columns of users usually are."""
    return _plain(name) in (*USUAL_NAMES["user"], *LESS_THAN_A_USER)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in " _-.@")


# Text


def _outputs_and_checks(
    matched: Mapping[str, str], options: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The log's columns and the faults of a row, given the SQL of each matched column as text."""
    outputs = dict(matched)
    checks = {"no user": f"{matched['user']} is null", "no query": f"{matched['query']} is null"}
    if "time" in matched:
        outputs["time"] = time_sql(matched["time"], options.get("time_format"))
        checks["bad time"] = bad_time(outputs["time"])
    if "rank" in matched:
        outputs["rank"] = f"try_cast({matched['rank']} as integer)"
        checks["bad rank"] = f"{matched['rank']} is not null and {outputs['rank']} is null"
    return outputs, checks


def _parse_separated(parser: Parser, request: Request, delimiter: str, quote: str) -> Parsed:
    delimiter = _one_character(request, "delimiter", delimiter)
    quote = _one_character(request, "quote", quote)
    if quote == delimiter:
        raise wrong_option("quote", quote, "the delimiter cannot be the quote as well")
    _check_time_format(request.options.get("time_format"))
    has_header = request.choice("header", ("yes", "no")) == "yes"
    parts = []
    units: dict[str, str] = {}  # unit -> the first file with it
    matched: dict[str, str] = {}
    for names, sources in _by_columns(request.sources, delimiter, quote, has_header).items():
        may_be_a_row = has_header and not _name_a_log(names)
        matched = match_columns(names, request.columns, sources[0].shown, may_be_a_row=may_be_a_row)
        columns = {name: f"column_{i}" for i, name in enumerate(names, 1)}  # to DuckDB, user and User are one name
        layout = Layout(dict.fromkeys(columns.values(), "VARCHAR"), delimiter, quote, has_header)
        texts = _texts({ours: columns[theirs] for ours, theirs in matched.items()}, quote)
        parts.append(Part(layout, sources, *_outputs_and_checks(texts, request.options)))
        units.setdefault(unit_of(matched["user"]), sources[0].shown)
    _same_outputs(parts)
    _one_unit(units)
    staged = stage(parser, *parts)
    public = [] if has_header else ["the number of columns, inferred from the first row"]
    if quote:  # said of every file: a record that told which ones have a broken quote would tell of somebody's row
        public.append("that quotes are well-formed: a broken one can swallow rows of others")
    return staged.parsed(next(iter(units)), public, matched)


def _texts(columns: Mapping[str, str], quote: str) -> Mapping[str, str]:
    """Texts without quotes can only be missing as databases and our releases write it: \\N."""
    if quote:
        return columns
    return {ours: one if ours in REQUIRED else f"nullif({one}, '\\N')" for ours, one in columns.items()}


def _one_unit(units: Mapping[str, str]) -> None:
    if len(units) > 1:
        described = " but ".join(f"{path} is one of {unit}s" for unit, path in units.items())
        instead = "read them apart, or type " + setting("columns", {"user": NAME})
        raise InputError(described, parameter="columns", instead=instead)


def _one_character(request: Request, option: str, usual: str) -> str:
    value = {"tab": "\t", "none": ""}.get(given := request.options.get(option, usual), given)
    if len(value) > 1 or (option == "delimiter" and not value) or not value.isascii() or value in ("\0", "\r", "\n"):
        raise wrong_option(option, value, "it is one ASCII character, and no line end")
    return value


def _check_time_format(time_format: str | None) -> None:
    if time_format is None:
        return
    import duckdb

    try:
        duckdb.connect().execute(f"select try_strptime('', {literal(time_format)})")
    except duckdb.Error as problem:
        expected = "is no format of times; write for example %d/%m/%Y %H:%M"
        raise wrong_option("time_format", time_format, expected) from problem


def _by_columns(
    sources: Sequence[Source], delimiter: str, quote: str, has_header: bool
) -> dict[tuple[str, ...], list[Source]]:
    """Files with the same columns in the same order are read together."""
    groups: dict[tuple[str, ...], list[Source]] = {}
    for source in sources:
        first = _first_record(source, delimiter, quote, has_header)
        names = tuple(first) if has_header else tuple(str(i) for i in range(1, len(first) + 1))
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            called = f" named '{repeated}'" if _name_a_log(names) else " of one name"
            raise InputError(
                f"{source.shown}: its first line has two columns{called}",
                instead="rename one or, if that line is a row, add "
                + setting("options", {"header": "no"})
                + "; if a title stands above the names, add "
                + setting("skip_lines", 1),
            )
        groups.setdefault(names, []).append(source)
    return groups


def _first_record(source: Source, delimiter: str, quote: str, has_header: bool) -> list[str]:
    head = _EMPTY_LINES.sub(b"", source.head.removeprefix(BYTE_ORDER_MARK))
    if not head:
        raise InputError(f"{source.shown}: is empty")
    end = Record(Dialect(quote, delimiter)).end(head) if quote else head.find(b"\n") + 1 or None
    if end is None and len(source.head) >= HEAD_BYTES:
        raise InputError(f"{source.shown}: its first line is longer than 64 KiB")
    text = head[:end].removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape")
    if has_header and _NOT_IN_A_HEADER.search(text):
        raise InputError(f"{source.shown}: its first line is no header: it holds NUL, a carriage return or no UTF-8")
    if not quote:
        return text.split(delimiter)
    text = text.replace("\r", " ")  # to csv, one would end the record
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote, strict=True))
    except csv.Error as problem:
        raise InputError(f"{source.shown}: its first line has broken quotes") from problem


def _same_outputs(parts: Sequence[Part]) -> None:
    for part in parts[1:]:
        if part.outputs.keys() != parts[0].outputs.keys():
            first, other = parts[0].sources[0].shown, part.sources[0].shown
            raise InputError(
                f"{first} has {', '.join(parts[0].outputs)} but {other} has {', '.join(part.outputs)}; read them apart"
            )


def _parse_csv(parser: Parser, request: Request) -> Parsed:
    has_header = request.choice("header", ("yes", "no")) == "yes"  # without one, the first line is somebody's row
    return _parse_separated(parser, request, _between(request.sources[0]) if has_header else ",", '"')


def _between(source: Source) -> str:
    """What stands between the columns of a CSV, by its header: a semicolon where the comma is a decimal point."""
    header = next(iter(source.first_lines(1)), "")
    semicolons = _header_names_a_log(source.head, ";") or (";" in header and "," not in header)
    return ";" if semicolons and not _header_names_a_log(source.head, ",") else ","


def _parse_tsv(parser: Parser, request: Request) -> Parsed:
    return _parse_separated(parser, request, "\t", "")


def _parse_jsonl(parser: Parser, request: Request) -> Parsed:
    _check_time_format(request.options.get("time_format"))
    looked_at = [value for source in request.sources for value in first_objects(source.first_lines())]
    matched = match_columns(_keys(looked_at, request.columns), request.columns, request.sources[0].shown)
    if "user" not in request.columns:
        _refuse_unless_everywhere(matched["user"], looked_at, request.sources[0].shown)
    # Whether session.id is an id in a session or a key of that name is a matter of each row.
    paths = [path for name in matched.values() for path in (path_of(*name.split(".")), path_of(name))]
    texts = {ours: f"nullif(coalesce(found[{i}], found[{i + 1}]), '')" for i, ours in zip(count(1, 2), matched)}
    outputs, checks = _outputs_and_checks(texts, request.options)
    nul = {"NUL byte": f"contains({texts['query']}, chr(0)) or contains({texts['user']}, chr(0))"}
    staged = stage(parser, Part(json_lines(paths), request.sources, outputs, MALFORMED | checks | nul))
    return staged.parsed(unit_of(matched["user"]), _guessed(matched, request.columns), matched)


def _keys(looked_at: Sequence[Mapping[str, Any]], asked_for: Mapping[str, str]) -> list[str]:
    """Those of the first rows, and the nested ones that are asked for."""
    keys = list(dict.fromkeys(key for value in looked_at for key in value))
    nested = [name for name in asked_for.values() if "." in name and name not in keys]
    return [*(keys or asked_for.values()), *nested]  # a first row may be too long to be looked at


def _refuse_unless_everywhere(key: str, looked_at: Sequence[Mapping[str, Any]], where: str) -> None:
    """Absent keys are left out of JSON: a key that some rows lack may be there for the sake of a single user."""
    if not all(key in value for value in looked_at):
        raise InputError(
            f"{where}: some of the first rows have '{key}' and some have not",
            parameter="columns",
            instead="if it is the user, type "
            + setting("columns", {"user": key})
            + ", otherwise "
            + setting("columns", {"user": NAME}),
        )


def _guessed(matched: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    """Keys are part of the rows, no header: which ones were there to choose from is inferred from rows."""
    guesses = [f"{ours} ({printable(matched.get(ours, 'none'))})" for ours in COLUMNS if ours not in given]
    return [f"which keys hold {', '.join(guesses)}, inferred from the first rows"] if guesses else []


# Recognising


def _header_names_a_log(head: bytes, delimiter: str) -> bool:
    return _name_a_log([name.strip('"') for line in first_lines(head, 1) for name in line.split(delimiter)])


def _name_a_log(names: Iterable[str]) -> bool:
    """Whether these can only be names: of a user and of a query, as they are usual."""
    usual = {"user": {*USUAL_NAMES["user"], *LESS_THAN_A_USER}, "query": {*USUAL_NAMES["query"]}}
    return all({*map(_plain, names)} & usual[column] for column in REQUIRED)


def _declared_csv(head: bytes, name: str) -> bool:
    return named(name, ".csv") or any(_header_names_a_log(head, between) for between in ",;")


def _declared_tsv(head: bytes, name: str) -> bool:
    return _header_names_a_log(head, "\t")


def _recognises_tsv(head: bytes, name: str) -> bool:
    return named(name, ".tsv") or _declared_tsv(head, name)


def _recognises_jsonl(head: bytes, name: str) -> bool:
    return named(name, ".jsonl", ".ndjson") or bool(first_objects(first_lines(head)))


def named(name: str, *endings: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(endings)


_TIME_FORMAT = {
    "time_format": "how times are written, for example %d/%m/%Y %H:%M (default: ISO, or a number since 1970)"
}
_SEPARATED: dict[str, Any] = {
    "options": {
        "delimiter": "the character between columns",
        "quote": 'the character around values, or none (default: " in CSV, none in TSV)',
        "header": "yes (default), or no: columns are then numbered from 1",
        **_TIME_FORMAT,
    },
    "takes_columns": True,
}
CSV = Reader("csv", _declared_csv, _parse_csv, declared=_declared_csv, **_SEPARATED)
TSV = Reader("tsv", _recognises_tsv, _parse_tsv, declared=_declared_tsv, **_SEPARATED)
JSONL = Reader("jsonl", _recognises_jsonl, _parse_jsonl, _TIME_FORMAT, takes_columns=True)
