"""The one reader of release folders: the record as typed values, and the tables in any format they are written in."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from searchveil.errors import InputError
from searchveil.items import ITEMS
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.folder import TSV_ESCAPES, TSV_MISSING
from searchveil.publish.plan import Counted, Plan, Recorded
from searchveil.publish.release import Record, Release

OF_THE_PLAN = ("method", "item", "counts", "parameters", "guarantee", "noise_below", "words", "advice")
OF_THE_FOLDER = ("searchveil", "date", "files", "documents", "proof")
ANEW = "make the folder anew with searchveil release"


def read_folder(folder: Path) -> Release:
    """The release in a folder, if every data file has the checksum that guarantee.json names."""
    written = _written(folder)
    try:
        plan = _plan(written)
        rows = {name: int(told["rows"]) for name, told in written["files"].items()}
        date = str(written["date"])
    except (KeyError, TypeError, ValueError, InputError) as problem:
        what = f": {problem}" if isinstance(problem, InputError) else ""
        raise InputError(
            f"{folder / 'guarantee.json'} does not say what was published and promised{what}; {ANEW}"
        ) from problem
    _check_proof(folder, written.get("proof", {}))
    files = {Path(name).stem: _checked(folder, name, told.get("sha256")) for name, told in written["files"].items()}
    item = ITEMS.get(plan.item)
    tables = StoredTables(files, item.columns if item else ())
    record = Record(folder, written, files, rows, date)
    return Release(tables, plan, record=record, documents=_documents(folder, written.get("documents", {})))


def _documents(folder: Path, listed: Any) -> dict[str, Mapping[str, Any]]:
    """The JSON files beside the tables, by name."""
    if not isinstance(listed, dict):
        raise InputError(f"{folder / 'guarantee.json'} does not name the files of a release; {ANEW}")
    paths = {name: _unchanged(folder, name, sha256) for name, sha256 in listed.items()}
    return {Path(name).stem: _object(path) for name, path in paths.items()}


def _check_proof(folder: Path, listed: Any) -> None:
    """The proof that a release came with is the one that was written; older ones came with none."""
    if not isinstance(listed, dict):
        raise InputError(f"{folder / 'guarantee.json'} does not name the proof of a release; {ANEW}")
    for name, sha256 in listed.items():
        _unchanged(folder, name, sha256)


def _object(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object; {ANEW}")
    return found


def _written(folder: Path) -> dict[str, Any]:
    path = folder / "guarantee.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(
            f"{folder} is no release folder: it has no readable guarantee.json; make one with searchveil release"
        ) from problem
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict) or not record["files"]:
        raise InputError(f"{path} does not name the files of a release; {ANEW}")
    return record


def _plan(written: Mapping[str, Any]) -> Plan[Recorded]:
    """Older records do not say what was counted: occurrences."""
    counts: Counted = written.get("counts", "occurrences")
    if counts not in get_args(Counted):
        raise InputError(f"counts are of '{counts}', which is none of {', '.join(get_args(Counted))}")
    if not isinstance(written["parameters"], Mapping):
        raise InputError("its parameters have no names")
    noise = written.get("noise_below", {})  # which older records do not tell
    if not isinstance(noise, dict) or not all(type(below) is int for below in noise.values()):
        raise InputError("its noise_below has no numbers")
    beside = {name: value for name, value in written.items() if name not in (*OF_THE_PLAN, *OF_THE_FOLDER)}
    return Plan(
        str(written["method"]),
        str(written["item"]),
        Recorded.of(written["parameters"], noise),
        Guarantee.from_json(written["guarantee"]),
        figures=beside,  # with what a paper claims: a record does not tell the two apart
        advice=written.get("advice"),
        counts=counts,
        words=written.get("words"),
    )


def _checked(folder: Path, name: str, sha256: Any) -> Path:
    path = _unchanged(folder, name, sha256)
    if path.suffix not in READERS:
        raise InputError(f"{path} is in no format of a release; there are {', '.join(READERS)}")
    return path


def _unchanged(folder: Path, name: str, sha256: Any) -> Path:
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise InputError(f"{path} is missing, which guarantee.json beside it names")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != found:
        raise InputError(
            f"{path} is not the file that was released: its SHA-256 is not that in guarantee.json; use the folder as "
            "it was written, or make it anew with searchveil release"
        )
    return path


class StoredTables(Mapping[str, pa.Table]):
    """Tables that stay in their files until they are asked for."""

    def __init__(self, files: Mapping[str, Path], texts: Sequence[str]) -> None:
        self._files, self._texts = files, texts
        self._loaded: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._loaded:
            path = self._files[name]
            try:
                self._loaded[name] = READERS[path.suffix](path, self._texts)
            except (OSError, ValueError, KeyError) as problem:  # Arrow's own errors are ValueErrors too
                raise InputError(f"{path} is not as it was written: {str(problem).splitlines()[0]}") from problem
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _read_csv(path: Path, texts: Sequence[str]) -> pa.Table:
    """All columns as texts at first: a query that looks like a number is one still."""
    as_written = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pyarrow.csv.open_csv(path, parse_options=as_written) as rows:
        types = dict.fromkeys(rows.schema.names, pa.string())
    as_texts = pyarrow.csv.ConvertOptions(column_types=types)
    return _typed(pyarrow.csv.read_csv(path, parse_options=as_written, convert_options=as_texts), texts)


def _read_tsv(path: Path, texts: Sequence[str]) -> pa.Table:
    written = {escape[1]: character for character, escape in TSV_ESCAPES.items()}
    with path.open(encoding="utf-8", newline="\n") as lines:
        rows = [line.removesuffix("\n").split("\t") for line in lines]
    header, *values = [[_unescaped(text, written) for text in row] for row in rows]
    columns = zip(*values, strict=True) if values else [()] * len(header)
    named = {str(name): pa.array(column, pa.string()) for name, column in zip(header, columns, strict=True)}
    return _typed(pa.table(named), texts)


def _unescaped(text: str, written: Mapping[str, str]) -> str | None:
    if text == TSV_MISSING:
        return None
    if "\\" not in text:
        return text
    characters = iter(text)
    return "".join(written[next(characters)] if character == "\\" else character for character in characters)


# Columns that are no texts, in whatever table.
TYPES: dict[str, Any] = {
    "count": pa.int64(),
    "position": pa.int64(),
    "draws": pa.float64(),
    "score": pa.float64(),
    "generalised": pa.bool_(),
}


def _typed(table: pa.Table, texts: Sequence[str]) -> pa.Table:
    """Numbers, truth values and lists again, where a text format had only texts; an item's own columns stay texts."""
    for i, name in enumerate(table.column_names):
        if name in texts:
            continue
        if name in TYPES:
            table = table.set_column(i, name, table[name].cast(TYPES[name]))
        elif name == "session" and "count" in table.column_names:  # a list of queries; elsewhere the id of a session
            lists = [json.loads(str(text)) for text in table[name].to_pylist()]
            table = table.set_column(i, name, pa.array(lists, pa.list_(pa.string())))
    return table


READERS: dict[str, Callable[[Path, Sequence[str]], pa.Table]] = {
    ".parquet": lambda path, texts: pq.read_table(path),
    ".csv": _read_csv,
    ".tsv": _read_tsv,
}
