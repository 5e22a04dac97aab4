"""CSV, TSV, JSON lines and Parquet of any layout: which column is which is told, or guessed from its name."""

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ibis.expr.types as ir

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log.readers.base import Reader, Request
from searchveil.log.readers.jsonlines import MALFORMED, first_objects, json_lines, path_of
from searchveil.log.readers.source import Source, first_lines
from searchveil.log.readers.staging import Layout, Parsed, Part, Remarks, Workshop, identifier, stage
from searchveil.log.readers.times import bad_time, time_sql
from searchveil.log.schema import COLUMNS, Problem

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
        "keyword",
        "keywords",
        "q",
    ),
    "time": ("time", "timestamp", "querytime", "datetime", "servertime", "eventtime", "createdat", "date", "ts"),
    "rank": ("rank", "itemrank", "position", "clickrank", "ordinal"),
    "url": ("url", "clickurl", "clickedurl", "link", "docid", "documentid", "objectid"),
}
REQUIRED = ("user", "query")
# Never taken for a user without being told: one person has many.
LESS_THAN_A_USER = ("sessionid", "session", "cookieid", "cookie")
_UNITS = re.compile(r"(?P<session>sess)|(?P<visit>visit(?!or))|(?P<cookie>cookie)|(?P<device>device)|(?P<user>user)")


def match_columns(present: Sequence[str], told: Mapping[str, str], where: str) -> dict[str, str]:
    """Our names -> the file's, as told and otherwise as guessed; an error shows what to type."""
    for ours, theirs in told.items():
        if ours not in COLUMNS:
            raise InputError(f"--column {ours}={theirs}: '{ours}' is not one of {', '.join(COLUMNS)}")
        if theirs not in present:
            raise InputError(f"--column {ours}={theirs}: {where} has no column '{theirs}'; it has {', '.join(present)}")
    matched = dict(told)
    free = {_plain(name): name for name in reversed(present) if name not in told.values()}
    for ours, usual in USUAL_NAMES.items():
        guess = next((free[name] for name in usual if name in free), None)
        if ours not in matched and guess is not None:
            matched[ours] = guess
    if "user" not in matched:
        _refuse_less_than_a_user(free, present, where)
    missing = [f"--column {ours}=NAME" for ours in REQUIRED if ours not in matched]
    if missing:
        raise InputError(f"{where}: which column is it? type {' '.join(missing)}, a NAME out of {', '.join(present)}")
    return {ours: matched[ours] for ours in COLUMNS if ours in matched}


def _refuse_less_than_a_user(free: Mapping[str, str], present: Sequence[str], where: str) -> None:
    column = next((free[name] for name in LESS_THAN_A_USER if name in free), None)
    if column is not None:
        raise InputError(
            f"{where}: which column is the user? type --column user=NAME, a NAME out of {', '.join(present)}; "
            f"with --column user={column}, a guarantee is per {unit_of(column)}, not per person"
        )


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


def _parse_separated(shop: Workshop, request: Request, delimiter: str, quote: str) -> Parsed:
    delimiter = _one_character(request, "delimiter", delimiter)
    quote = _one_character(request, "quote", quote)
    has_header = request.choice("header", ("yes", "no")) == "yes"
    parts = []
    units: dict[str, str] = {}  # unit -> the first file with it
    for names, sources in _by_columns(request.sources, delimiter, quote, has_header).items():
        matched = match_columns(names, request.columns, sources[0].path)
        layout = Layout(dict.fromkeys(names, "VARCHAR"), delimiter, quote, has_header)
        outputs, checks = _outputs_and_checks({k: identifier(v) for k, v in matched.items()}, request.options)
        parts.append(Part(layout, sources, outputs, checks))
        units.setdefault(unit_of(matched["user"]), sources[0].path)
    _same_outputs(parts)
    if len(units) > 1:
        described = " but ".join(f"{path} is one of {unit}s" for unit, path in units.items())
        raise InputError(f"{described}; read them apart, or type --column user=NAME")
    staged = stage(shop, *parts)
    public = [] if has_header else ["the number of columns, told from the first row"]
    if quote:  # said of every file: a record that told which ones have a broken quote would tell of somebody's row
        public.append("that quotes are well-formed: a broken one can swallow rows of others")
    return staged.parsed(next(iter(units)), public)


def _one_character(request: Request, option: str, usual: str) -> str:
    value = {"tab": "\t", "none": ""}.get(given := request.options.get(option, usual), given)
    if len(value) > 1 or (option == "delimiter" and not value):
        raise InputError(f"--reader-option {option}={value}: it is one character")
    return value


def _by_columns(
    sources: Sequence[Source], delimiter: str, quote: str, has_header: bool
) -> dict[tuple[str, ...], list[Source]]:
    """Files with the same columns in the same order are read together."""
    groups: dict[tuple[str, ...], list[Source]] = {}
    for source in sources:
        lines = source.first_lines(1)
        if not lines:
            raise InputError(f"{source.path}: is empty")
        quoting: Any = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
        try:
            first = next(csv.reader(lines, delimiter=delimiter, quotechar=quote or None, quoting=quoting))
        except csv.Error as problem:
            raise InputError(f"{source.path}: its first line is no line of a table ({problem})") from problem
        names = tuple(first) if has_header else tuple(str(i) for i in range(1, len(first) + 1))
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise InputError(f"{source.path}: two columns are named '{repeated}' in its first line; rename one")
        groups.setdefault(names, []).append(source)
    return groups


def _same_outputs(parts: Sequence[Part]) -> None:
    for part in parts[1:]:
        if part.outputs.keys() != parts[0].outputs.keys():
            first, other = parts[0].sources[0].path, part.sources[0].path
            raise InputError(
                f"{first} has {', '.join(parts[0].outputs)} but {other} has {', '.join(part.outputs)}; read them apart"
            )


def _parse_csv(shop: Workshop, request: Request) -> Parsed:
    return _parse_separated(shop, request, ",", '"')


def _parse_tsv(shop: Workshop, request: Request) -> Parsed:
    return _parse_separated(shop, request, "\t", "")


def _parse_jsonl(shop: Workshop, request: Request) -> Parsed:
    looked_at = [value for source in request.sources for value in first_objects(source.first_lines())]
    keys = list(dict.fromkeys(key for value in looked_at for key in value))
    told = {ours: name for ours, name in request.columns.items() if name in keys or "." not in name}
    nested = {
        ours: name for ours, name in request.columns.items() if ours not in told
    }  # session.id: an id in a session
    matched = match_columns([*keys, *nested.values()], told | nested, request.sources[0].path)
    if "user" not in request.columns:
        _refuse_unless_everywhere(matched["user"], looked_at, request.sources[0].path)
    paths = [path_of(*name.split(".")) if name in nested.values() else path_of(name) for name in matched.values()]
    texts = {ours: f"nullif(found[{i}], '')" for i, ours in enumerate(matched, 1)}
    outputs, checks = _outputs_and_checks(texts, request.options)
    nul = {"NUL byte": f"contains({texts['query']}, chr(0)) or contains({texts['user']}, chr(0))"}
    staged = stage(shop, Part(json_lines(paths), request.sources, outputs, MALFORMED | checks | nul))
    return staged.parsed(unit_of(matched["user"]), _guessed(matched, request.columns))


def _refuse_unless_everywhere(key: str, looked_at: Sequence[Mapping[str, Any]], where: str) -> None:
    """Absent keys are left out of JSON: a key that some rows lack may be there for the sake of a single user."""
    if not all(key in value for value in looked_at):
        raise InputError(
            f"{where}: some of the first rows have '{key}' and some have not; if it is the user, type "
            f"--column user={key}, otherwise --column user=NAME"
        )


def _guessed(matched: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """Keys are part of the rows, no header: which ones were there to choose from is told from rows."""
    guesses = [f"{ours} ({matched.get(ours, 'none')})" for ours in COLUMNS if ours not in told]
    return [f"which keys hold {', '.join(guesses)}, told from the first rows"] if guesses else []


# Parquet


def read_parquet(engine: Engine, request: Request) -> tuple[ir.Table, Remarks]:
    """The files in place, nothing staged: rows without a user or a query are counted from the files' statistics."""
    paths = [source.path for source in request.sources]
    try:
        raw = engine.read_parquet(paths)
    except Exception as problem:
        raise InputError(f"{paths[0]}: cannot be read as Parquet ({str(problem).splitlines()[0]})") from problem
    matched = match_columns(raw.columns, request.columns, paths[0])
    table = raw.select(**{ours: _typed(raw[theirs], ours, paths[0]) for ours, theirs in matched.items()})
    counts = engine.fetch(
        raw.aggregate(rows=raw.count(), user=raw[matched["user"]].count(), query=raw[matched["query"]].count())
    ).to_pylist()[0]
    problems: list[Problem] = []
    for column in REQUIRED:
        if counts[column] < counts["rows"]:
            absent = table[column].isnull()
            if column == "query" and problems:  # a row without both counts once
                absent = absent & table.user.notnull()
            rows = int(engine.value(absent.sum()))
            problems += [Problem(f"no {column}", rows)] if rows else []
    if problems:
        table = table.filter(table.user.notnull(), table["query"].notnull())
    return table, Remarks(tuple(problems), unit_of(matched["user"]))


def _typed(column: ir.Column, ours: str, where: str) -> ir.Value:
    kind = column.type()
    if ours == "query" and not kind.is_string():
        raise InputError(
            f"{where}: the query column '{column.get_name()}' holds {kind}, not text; type --column query=NAME"
        )
    if ours == "time" and not kind.is_timestamp():
        if kind.is_date() or kind.is_string():
            return column.cast("timestamp")
        raise InputError(f"{where}: the time column '{column.get_name()}' holds {kind}; store it as a timestamp")
    if ours == "rank" and not kind.is_integer():
        return column.cast("int32")
    return column


# Recognising


def _header_names_a_log(head: bytes, delimiter: str) -> bool:
    names = {_plain(name.strip('"')) for line in first_lines(head, 1) for name in line.split(delimiter)}
    usual = {"user": {*USUAL_NAMES["user"], *LESS_THAN_A_USER}, "query": {*USUAL_NAMES["query"]}}
    return all(names & usual[column] for column in REQUIRED)


def _declared_csv(head: bytes, name: str) -> bool:
    return _named(name, ".csv") or _header_names_a_log(head, ",")


def _declared_tsv(head: bytes, name: str) -> bool:
    return _header_names_a_log(head, "\t")


def _recognises_tsv(head: bytes, name: str) -> bool:
    return _named(name, ".tsv") or _declared_tsv(head, name)


def _recognises_jsonl(head: bytes, name: str) -> bool:
    return _named(name, ".jsonl", ".ndjson") or bool(first_objects(first_lines(head)))


def _recognises_parquet(head: bytes, name: str) -> bool:
    return head.startswith(b"PAR1") or (
        not head and not _named(name, ".csv", ".tsv", ".jsonl", ".ndjson", ".xml", ".txt")
    )


def _named(name: str, *endings: str) -> bool:
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
PARQUET = Reader("parquet", _recognises_parquet, None, takes_columns=True, declared=_recognises_parquet)
