"""The embedded engine: one process, all cores, spills to disk when the log is larger than memory."""

import tempfile
from collections.abc import Sequence
from itertools import count

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from searchveil.engine.base import Engine
from searchveil.errors import InputError


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _hash_3(a, b, c) -> dt.uint64: ...  # type: ignore[no-untyped-def]


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _hash_4(a, b, c, d) -> dt.uint64: ...  # type: ignore[no-untyped-def]


@ibis.udf.agg.builtin(name="min")  # type: ignore[untyped-decorator]
def _smallest(value, n) -> dt.Array(dt.uint64): ...  # type: ignore[no-untyped-def,valid-type]


@ibis.udf.agg.builtin(name="min")  # type: ignore[untyped-decorator]
def _earliest(time, n) -> dt.Array(dt.timestamp): ...  # type: ignore[no-untyped-def,valid-type]


class DuckDBEngine(Engine):
    name = "duckdb"

    def __init__(self, *, memory: str | None = None, threads: int | None = None) -> None:
        # The database lives in a temporary folder, so that staged tables and spills have one place and one end.
        self._folder = tempfile.TemporaryDirectory(prefix="searchveil-", ignore_cleanup_errors=True)
        self.connection = ibis.duckdb.connect(f"{self._folder.name}/engine.duckdb")
        self._staged = count(1)
        self.sql(f"set temp_directory = '{self._folder.name}/spill'")
        self.sql("set preserve_insertion_order = false")
        self.sql("set lambda_syntax = 'ENABLE_SINGLE_ARROW'")  # ibis 12 writes lambdas the way DuckDB 2 deprecates
        if memory is not None:
            try:
                self.sql(f"set memory_limit = '{memory}'")
            except Exception as problem:
                raise InputError(f"--memory {memory}: {problem}; write for example 3GB") from problem
        if threads is not None:
            self.sql(f"set threads = {threads}")

    def sql(self, statement: str) -> None:
        self.connection.con.execute(statement)

    def read_parquet(self, paths: Sequence[str]) -> ir.Table:
        return self.connection.read_parquet(list(paths))

    def stage(self, table: ir.Table) -> ir.Table:
        return self.connection.create_table(f"staged_{next(self._staged)}", table, temp=True)

    def fast_hash(self, values: Sequence[ir.Value], seed: int) -> ir.IntegerColumn:
        # The seed comes first: DuckDB folds the values in from left to right, so everything after it is mixed anew.
        return {2: _hash_3, 3: _hash_4}[len(values)](seed, *values)

    def prefilter(self, rows: ir.Table, hashed: str, per_user: int) -> ir.Table:
        """One pass finds, for most users, the hash of their last item to keep; rows above it need not be told apart.

        The n smallest hashes of a user's rows may hold repeats. If they hold `per_user` different ones, the last of
        these is exactly the cut; if not, that user's rows all stay.
        """
        look_at = 2 * per_user
        seen = rows.group_by("user").agg(smallest=_smallest(rows[hashed], look_at).unique().sort())
        cuts = self.stage(
            seen.filter(seen.smallest.length() >= per_user).select("user", cut=seen.smallest[per_user - 1])
        )
        joined = rows.left_join(cuts, "user")
        return joined.filter(joined.cut.isnull() | (joined[hashed] <= joined.cut)).select(*rows.columns)

    def early_rows(self, rows: ir.Table, n: int) -> tuple[ir.Table, ir.Table] | None:
        timed = rows.group_by("user").agg(first=_earliest(rows["time"], n), rows=rows["time"].count())
        cuts = self.stage(timed.filter(timed.rows > n).select("user", cut=timed.first[n - 1]))
        joined = rows.left_join(cuts, "user")
        early = joined.filter(joined.cut.isnull() | (joined.time <= joined.cut)).select(*rows.columns)
        return early, cuts.select("user")

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
