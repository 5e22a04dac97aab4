"""The embedded engine: one process, all cores, spills to disk when the log is larger than memory."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from searchveil.engine.base import SHARED_MEMORY, EarlyRows, Engine, FirstRows
from searchveil.engine.builtin import builtin
from searchveil.engine.size import memory_in_bytes
from searchveil.errors import InputError, setting
from searchveil.scratch import Scratch

# A query or a path must not make DuckDB fetch and run code from the network.
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "allocator_background_threads": "true",  # memory that a query is done with goes back to the system at once
    "lambda_syntax": "ENABLE_SINGLE_ARROW",  # ibis 12 writes lambdas the way DuckDB 2 deprecates
}


PARTS = 64
# The place of the n-th bit that is set, from the lowest; 64 if fewer are. A macro, because ibis needs a tenth of a
# second to write 64 terms down.
PLACE_OF_BIT = "create temp macro place_of_bit(bits, n) as " + " + ".join(
    f"(bit_count(bits & {(1 << (i + 1)) - 1}::ubigint) < n)::bigint" for i in range(PARTS)
)


@ibis.udf.scalar.builtin(name="place_of_bit")  # type: ignore[untyped-decorator]
def _place_of_bit(bits, n) -> dt.int64: ...  # type: ignore[no-untyped-def]


@ibis.udf.agg.builtin(name="min")  # type: ignore[untyped-decorator]
def _earliest(time, n) -> dt.Array(dt.timestamp): ...  # type: ignore[no-untyped-def,valid-type]


UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")  # as DuckDB writes its settings


def not_a_pattern(path: str) -> str:
    """A path as DuckDB takes it for itself: it would read log1.parquet for log[1].parquet."""
    if "://" in path or not any(mark in path for mark in "*?["):
        return path
    if "\\" in path:  # nothing escapes it
        raise InputError(f"{path}: a name with a backslash and one of * ? [ in it cannot be read; rename it")
    inside = "/**/*.parquet" if Path(path).is_dir() else ""
    return re.sub(r"([*?[])", r"[\1]", path) + inside


class DuckDBEngine(Engine):
    name = "duckdb"
    in_process = True

    def __init__(self, *, memory: str | None = None, threads: int | None = None) -> None:
        settings: dict[str, str | int] = dict(SETTINGS)
        self._limited = memory is not None
        if memory is not None:
            settings["memory_limit"] = f"{memory_in_bytes(memory)}B"
        if threads is not None:
            settings["threads"] = threads
        # The database lives in a temporary folder, so that staged tables and spills have one place and one end.
        self._folder = Scratch()
        settings["temp_directory"] = str(self._folder.path / "spill")
        self.connection = ibis.duckdb.connect(self._folder.path / "engine.duckdb", **settings)
        self._staged = count(1)
        self.sql(PLACE_OF_BIT)

    def sql(self, statement: str) -> None:
        self.connection.con.execute(statement)

    def read_parquet(self, paths: Sequence[str]) -> ir.Table:
        for path in paths:
            if "://" in path and not path.startswith("file://"):
                raise InputError(
                    f"{path}: DuckDB reads files of this machine only, for it would download what reads others",
                    parameter="engine",
                    instead="copy it here first, or add " + setting("engine", "spark"),
                )
        return self.connection.read_parquet([not_a_pattern(path) for path in paths])

    def stage(self, table: ir.Table) -> ir.Table:
        return self.connection.create_table(f"staged_{next(self._staged)}", table, temp=True)

    def forget(self, staged: ir.Table) -> None:
        self.sql(f"drop table temp.{staged.op().name}")

    def number(self, table: ir.Table, name: str, by: Sequence[str]) -> ir.Table:
        """What is staged here is never computed again: any order will do, and sorting is saved."""
        return self.stage(table.mutate(**{name: ibis.row_number()}))

    def fast_hash(self, values: Sequence[ir.Value], seed: int) -> ir.IntegerColumn:
        # The seed comes first: DuckDB folds the values in from left to right, so everything after it is mixed anew.
        return builtin("hash", 1 + len(values), dt.uint64)(seed, *values)

    def is_utf8(self, text: ir.StringValue) -> ir.BooleanValue:
        return ibis.literal(True)  # DuckDB checks texts when it decodes them, and fails where one is not UTF-8

    def trace(self, cell: ir.Value) -> ir.IntegerValue:
        return builtin("hash", 1, dt.uint64)(cell)  # of a text not its length, which a file of Parquet tells by itself

    def prefilter(self, rows: ir.Table, hashed: str, per_user: int) -> ir.Table:
        """One cheap pass bounds the hash of each user's last item to keep; rows above it need not be told apart.

        The range of the hash is cut into 64 parts. Which of them a user's items fall into is one word of bits, whatever
        repeats there are; in the parts up to the `per_user`-th that is taken lie at least that many different items.
        """
        if per_user > PARTS // 2:  # most users would not fill so many
            return rows
        part = rows[hashed] >> 58
        one = ibis.literal(1, "uint64")
        taken = rows.group_by("user").agg(taken=(one << part).bit_or())
        last = self.stage(taken.select("user", _last=_place_of_bit(taken.taken, per_user)))
        joined = rows.join(last, "user")
        return joined.filter((joined[hashed] >> 58) <= joined["_last"]).select(*rows.columns)

    def early_rows(self, rows: ir.Table, wanted: Sequence[FirstRows]) -> EarlyRows:
        """One pass finds the time of each user's n-th row of each kind, a second keeps the rows that are not later."""
        cuts = {}
        for i, (counts, n) in enumerate(wanted):
            time = ibis.ifelse(counts(rows), rows["time"], ibis.null("timestamp"))
            cuts[f"cut_{i}"] = ibis.ifelse(time.count() > n, _earliest(time, n)[n - 1], ibis.null("timestamp"))
        users = rows.group_by("user").agg(**cuts)
        cut = self.stage(users.filter(ibis.or_(*(users[name].notnull() for name in cuts))))
        joined = rows.left_join(cut, "user")
        seen = {
            f"early_{i}": first.counts(joined) & (joined[f"cut_{i}"].isnull() | (joined["time"] <= joined[f"cut_{i}"]))
            for i, first in enumerate(wanted)
        }
        flagged = joined.select(*rows.columns, **seen)
        some = flagged.filter(ibis.or_(*(flagged[name] for name in seen)))
        return EarlyRows(some, [cut.filter(cut[name].notnull()).select("user") for name in cuts])

    @contextmanager
    def forgetting_staged(self) -> Iterator[None]:
        first = next(self._staged)
        try:
            yield
        finally:
            for number in range(first, next(self._staged)):
                self.sql(f"drop table if exists staged_{number}")

    @contextmanager
    def sharing_memory(self, most: int = SHARED_MEMORY) -> Iterator[None]:
        """Unless the user has set a limit: staged tables fill whatever there is, though they do well on disk."""
        usual = str(self.connection.con.sql("select current_setting('memory_limit')").fetchall()[0][0])
        number, unit = usual.split()
        if self._limited or float(number) * 1024 ** UNITS.index(unit) <= most:
            yield
            return
        self.sql(f"set memory_limit = '{most}B'")
        try:
            yield
        finally:
            self.sql("reset memory_limit")

    def keep_order(self) -> None:
        self.sql("set preserve_insertion_order = true")

    def close(self) -> None:
        super().close()
        self._folder.close()
