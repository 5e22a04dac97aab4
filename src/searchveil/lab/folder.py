"""The tables of a release folder, in any of the formats it may have been written in."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.csv

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import ITEMS
from searchveil.publish.folder import TSV_ESCAPES, TSV_MISSING
from searchveil.publish.mechanism import Counted
from searchveil.release_folder import release_files, release_record

if TYPE_CHECKING:
    from searchveil.publish.mechanism import Release


def released_tables(release: "str | Path | Release", engine: Engine) -> list[ir.Table]:
    """The tables of a release inside the engine, the main one first."""
    if not isinstance(release, str | Path):
        return [engine.load(table) for table in release.tables.values()]
    item = ITEMS.get(released_item(release))
    return [_read(path, engine, item.columns if item else ()) for path in release_files(release)]


def released_item(release: "str | Path | Release") -> str:
    """The kind of item that it says it is of."""
    if not isinstance(release, str | Path):
        return release.plan.item
    return str(release_record(release).get("item", ""))


def released_counts(release: "str | Path | Release") -> "Counted":
    """What its counts are numbers of; a folder that does not say so is taken to have counted occurrences."""
    if not isinstance(release, str | Path):
        return release.plan.counts
    counts: Counted = release_record(release).get("counts", "occurrences")
    if counts not in get_args(Counted):
        raise InputError(f"{release}: guarantee.json says that counts are of '{counts}'; make the folder anew")
    return counts


def _read(path: Path, engine: Engine, texts: Sequence[str]) -> ir.Table:
    if path.suffix == ".parquet":
        return engine.read_parquet([str(path.resolve())])
    if path.suffix not in READERS:
        raise InputError(f"{path} is in no format of a release; there are parquet, {', '.join(READERS)}")
    try:
        return engine.load(_typed(READERS[path.suffix](path), texts))
    except (ValueError, KeyError) as problem:  # Arrow's own errors are ValueErrors too
        raise InputError(f"{path} is not as it was written: {str(problem).splitlines()[0]}") from problem


def _read_csv(path: Path) -> pa.Table:
    """All columns as texts: a query that looks like a number is one still."""
    as_written = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pyarrow.csv.open_csv(path, parse_options=as_written) as rows:
        texts = dict.fromkeys(rows.schema.names, pa.string())
    return pyarrow.csv.read_csv(
        path, parse_options=as_written, convert_options=pyarrow.csv.ConvertOptions(column_types=texts)
    )


def _read_tsv(path: Path) -> pa.Table:
    written = {escape[1]: character for character, escape in TSV_ESCAPES.items()}
    with path.open(encoding="utf-8", newline="\n") as lines:
        rows = [line.removesuffix("\n").split("\t") for line in lines]
    header, *values = [[_unescaped(text, written) for text in row] for row in rows]
    columns = zip(*values, strict=True) if values else [()] * len(header)
    return pa.table({str(name): pa.array(column, pa.string()) for name, column in zip(header, columns, strict=True)})


def _unescaped(text: str, written: Mapping[str, str]) -> str | None:
    if text == TSV_MISSING:
        return None
    if "\\" not in text:
        return text
    characters = iter(text)
    return "".join(written[next(characters)] if character == "\\" else character for character in characters)


def _typed(texts: pa.Table, of_item: Sequence[str]) -> pa.Table:
    """Numbers, truth values and lists again, where a text format had only texts; an item's own columns stay texts."""
    for i, name in enumerate(texts.column_names):
        if name in of_item:
            continue
        if name in ("count", "position"):
            texts = texts.set_column(i, name, texts[name].cast(pa.int64()))
        elif name == "draws":
            texts = texts.set_column(i, name, texts[name].cast(pa.float64()))
        elif name == "generalised":
            texts = texts.set_column(i, name, texts[name].cast(pa.bool_()))
        elif name == "session" and "count" in texts.column_names:  # a list of queries; elsewhere the id of a session
            lists = [json.loads(str(text)) for text in texts[name].to_pylist()]
            texts = texts.set_column(i, name, pa.array(lists, pa.list_(pa.string())))
    return texts


READERS: dict[str, Callable[[Path], pa.Table]] = {".csv": _read_csv, ".tsv": _read_tsv}
