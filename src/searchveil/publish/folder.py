"""The release folder: data, guarantee and cards, written completely or not at all."""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import yaml

from searchveil.atomic import atomic_path
from searchveil.errors import InputError, setting
from searchveil.publish.card import PROOF, DataFile, Description, croissant, deployment, proof_text, readme
from searchveil.publish.release import Release

BATCH = 1 << 16  # rows turned into text at a time

# In a TSV file a backslash, a tab and the ends of lines are written as two characters each; a missing value is \N.
TSV_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
TSV_MISSING = "\\N"


class Format(NamedTuple):
    media_type: str
    write: Callable[[pa.Table, IO[bytes]], None]


@contextmanager
def claimed(folder: Path, format: str = "parquet") -> Iterator[None]:
    """The place for a release that is still to be made: of two that want it, one is refused before it has paid.

    A lock that the system takes back when the process ends, however it ends; its file means nothing by itself.
    """
    check_writable(folder, format)
    name = folder.with_name(f".{folder.name}.lock")
    while True:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise InputError(
                f"{folder} is being made by another process, and nothing was paid for this one: choose another "
                + setting("folder"),
                parameter="folder",
            ) from None
        except OSError:  # a file system without locks: whoever comes second finds out when it writes
            pass
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), os.stat(name)):
                break
        os.close(file)  # the one before removed it just now
    try:
        check_writable(folder, format)  # it may have been made while this one waited for its turn
        yield
    finally:
        with suppress(OSError):
            name.unlink()
        os.close(file)


def write_folder(release: Release, folder: Path, format: str = "parquet") -> Path:
    """Write the release beside its final place under a hidden name, and move it there once it is safely on disk."""
    try:
        check_writable(folder, format)
    except InputError as refusal:
        raise InputError(refusal.text + _still_spent(release), parameter=refusal.parameter) from None
    try:
        with atomic_path(folder) as partial:
            partial.mkdir()
            _fill(partial, release, format)
            _sync(partial)
            if os.path.lexists(folder):  # which moving would replace, were it empty; a full one it refuses by itself
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    except OSError as error:
        raise InputError(_complaint(error, folder, release)) from error
    with suppress(OSError):  # the release is complete either way; some file systems cannot sync a folder
        _sync(folder.parent)
    return folder


def check_writable(folder: Path, format: str = "parquet") -> None:
    """Find out before any budget is spent whether the release could be written there."""
    _check_format(format)
    if os.path.lexists(folder):
        instead = "choose another " + setting("folder") + " or remove it first"
        raise InputError(f"{folder} exists already: " + instead, parameter="folder")
    if not folder.name:
        raise InputError(
            f"{folder} is not a name for a new folder: choose another " + setting("folder"), parameter="folder"
        )
    if not folder.parent.is_dir():
        raise InputError(f"{folder} cannot be made, because {folder.parent} is not a folder: make that first")
    probe = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:  # trying says more than asking: permissions, read-only disks and too long names all show
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        instead = "choose another " + setting("folder")
        raise InputError(f"{folder} cannot be made: {error.strerror}", parameter="folder", instead=instead) from error


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise InputError(f"no table format '{format}'; there are {', '.join(FORMATS)}")


def _fill(folder: Path, release: Release, format: str) -> None:
    names = ["data", *list(release.tables)[1:]]  # the first table is the data; further ones keep their names
    tables = zip(names, release.tables.values(), strict=True)
    files = tuple(_write_table(folder, name, table, format) for name, table in tables)
    documents = {name: _json(dict(document)) for name, document in release.documents.items()}
    for name, text in documents.items():
        _write_text(folder / f"{name}.json", text)
    described = Description(
        plan=release.plan,
        files=files,
        documents={f"{name}.json": sha256(text) for name, text in documents.items()},
        date=datetime.now(UTC).date().isoformat(),
        version=version("searchveil"),
        in_ledger=release.entry is not None,
        proof=proof_text(release.guarantee.proof),
    )
    if described.proof is not None:
        _write_text(folder / PROOF, described.proof)
    _write_text(folder / "guarantee.json", _json(_guarantee(described)))
    _write_text(folder / "README.md", readme(described))
    _write_text(folder / "croissant.json", _json(croissant(described)))
    _write_text(folder / "deployment.yaml", yaml.safe_dump(deployment(described), sort_keys=False, allow_unicode=True))


def _guarantee(release: Description) -> dict[str, Any]:
    return {
        **release.plan.to_json(),
        "searchveil": release.version,
        "date": release.date,
        "files": {file.name: {"sha256": file.sha256, "rows": file.rows} for file in release.files},
        **({"documents": dict(release.documents)} if release.documents else {}),
        **({"proof": {PROOF: sha256(release.proof)}} if release.proof is not None else {}),
    }


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _write_table(folder: Path, name: str, table: pa.Table, format: str) -> DataFile:
    media_type, write = FORMATS[format]
    table = table if format == "parquet" else _flat(table)
    path = folder / f"{name}.{format}"
    with path.open("xb") as file:
        write(table, file)
        _settle(file)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return DataFile(name, path.name, media_type, table.schema, table.num_rows, path.stat().st_size, sha256)


def _write_text(path: Path, text: str) -> None:
    with path.open("xb") as file:
        file.write(text.encode())
        _settle(file)


def _write_parquet(table: pa.Table, file: IO[bytes]) -> None:
    """Without the writer's own copy of the schema and without metadata that came along from elsewhere."""
    pq.write_table(table.replace_schema_metadata(None), file, compression="zstd", store_schema=False)


def _write_csv(table: pa.Table, file: IO[bytes]) -> None:
    """RFC 4180: texts in quotes, quotes doubled. A missing value is empty, an empty text is two quotes."""
    pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(quoting_style="needed"))


def write_tsv(table: pa.Table, file: IO[bytes], *, header: bool = True) -> None:
    """One line per row, whatever the texts hold."""
    if header:
        names = _escaped(pa.array(table.column_names, pa.large_string())).to_pylist()
        file.write(("\t".join(names) + "\n").encode())
    tab = pa.scalar("\t", pa.large_string())
    for batch in table.to_batches(BATCH):
        columns = [_escaped(pc.cast(column, pa.large_string())) for column in batch.columns]
        lines = pc.binary_join_element_wise(*columns, tab).to_pylist()
        file.write("".join(f"{line}\n" for line in lines).encode())


def _escaped(column: Any) -> Any:
    for character, written in TSV_ESCAPES.items():
        column = pc.replace_substring(column, character, written)
    return pc.fill_null(column, TSV_MISSING)


def _flat(table: pa.Table) -> pa.Table:
    """Lists and records as JSON, because a line of text has no place for them."""
    for i, column in enumerate(table.schema):
        if pa.types.is_nested(column.type):
            table = table.set_column(i, column.name, pa.array(map(_as_json, table[i].to_pylist()), pa.large_string()))
    return table


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


FORMATS = {
    "parquet": Format("application/x-parquet", _write_parquet),
    "csv": Format("text/csv", _write_csv),
    "tsv": Format("text/tab-separated-values", write_tsv),
}


def _settle(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _complaint(error: OSError, folder: Path, release: Release) -> str:
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and os.path.lexists(folder):
        trouble = f"{folder} appeared while the release was being made and was left as it is"
    else:
        trouble = f"{folder} could not be written: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        needed, free = sum(table.nbytes for table in release.tables.values()), shutil.disk_usage(folder.parent).free
        trouble += f" (about {_in_kilobytes(needed)} needed, {_in_kilobytes(free)} free)"
    return f"{trouble}; nothing was left behind{_still_spent(release)}"


def _still_spent(release: Release) -> str:
    if release.entry is None:
        return ""
    return f", but the budget reserved for it (entry {release.entry.id}) stays spent"


def _in_kilobytes(size: int) -> str:
    return f"{-(-size // 1000):,} kB"
