"""Streams a demo log to disk, chunk by chunk, in the layout that the file's name asks for."""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from searchveil.atomic import atomic_path
from searchveil.errors import InputError, setting
from searchveil.log.demo.chunk import SCHEMA, USERS_PER_CHUNK, Chunk, make_chunk
from searchveil.log.demo.rough import add_odd_queries, share_address

AOL_HEADER = b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
_WORKERS = 2  # numpy and pyarrow do the work outside the interpreter's lock, so threads suffice


@dataclass(frozen=True)
class DemoLog:
    """What was written."""

    path: Path
    users: int
    rows: int
    submissions: int
    clicks: int
    planted: int  # rows with a planted personal query


def write_demo(
    out: str | Path,
    *,
    users: int,
    seed: int = 1,
    odd_queries: bool = False,
    shared_address: bool = False,
    long_sessions: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> DemoLog:
    """Write a synthetic search log of so many users; the same users and seed give the same rows.

    The name decides the layout: .parquet, or .tsv and .tsv.gz in the layout of the AOL log. `odd_queries` adds queries
    that are "-", in other scripts or pasted; with `shared_address`, user 0 has a sixth of all rows;
    with `long_sessions`, one session in 600 has 30 to 500 submissions.

    >>> sv.write_demo(folder / "demo.tsv", users=50, seed=1).users
    50
    """
    path = Path(out)
    if users < 1:
        raise InputError(setting("users") + f" must be at least 1, not {users}", parameter="users", value=users)
    if not 0 <= seed < 2**63:
        raise InputError(setting("seed") + f" must be from 0 to 2^63 − 1, not {seed}", parameter="seed", value=seed)
    sink = _sink_for(path)
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    rows = submissions = clicks = planted = done = 0
    with _complaining(path), atomic_path(path) as partial, sink(partial) as write:
        for chunk in _chunks_in_order(users, seed, long_sessions):
            table = add_odd_queries(chunk.table, seed) if odd_queries else chunk.table
            write(share_address(table, seed) if shared_address else table)
            rows += chunk.table.num_rows
            submissions += chunk.submissions
            clicks += chunk.clicks
            planted += chunk.planted
            done += chunk.users
            if progress is not None:
                progress(done, users)
    return DemoLog(path, users, rows, submissions, clicks, planted)


def _chunks_in_order(users: int, seed: int, long_sessions: bool) -> Iterator[Chunk]:
    """All chunks of the log, a few of them being made ahead of the one that is being written."""
    waiting: deque[Future[Chunk]] = deque()
    with ThreadPoolExecutor(_WORKERS) as workers:
        for number in range(-(-users // USERS_PER_CHUNK)):
            waiting.append(workers.submit(make_chunk, number, users, seed, long_sessions))
            if len(waiting) > _WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


Sink = Callable[[Path], AbstractContextManager[Callable[[pa.Table], None]]]


def _sink_for(path: Path) -> Sink:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _parquet
    if name.endswith((".tsv", ".tsv.gz")):
        return _aol_gzipped if name.endswith(".gz") else _aol
    raise InputError(f"cannot tell the layout from the name {path.name!r}: end it in .parquet, .tsv or .tsv.gz")


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as file:
        yield file.write_table


@contextmanager
def _aol(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    with path.open("wb") as file:
        yield _aol_rows(file)


@contextmanager
def _aol_gzipped(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    # Neither name nor time in the header, so that the same log gives the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=5, fileobj=file, mtime=0) as zipped:
        yield _aol_rows(cast(IO[bytes], zipped))


def _aol_rows(file: IO[bytes]) -> Callable[[pa.Table], None]:
    options = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    file.write(AOL_HEADER)

    def write(table: pa.Table) -> None:
        time = table["time"].cast(pa.timestamp("s"))
        pa_csv.write_csv(table.set_column(2, "time", time), file, options)

    return write


@contextmanager
def _complaining(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
