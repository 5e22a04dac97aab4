"""The embedded engine: one process, all cores, spills to disk when the log is larger than memory."""

import tempfile
from collections.abc import Sequence
from itertools import count

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from searchveil.engine.base import EarlyRows, Engine, Look
from searchveil.errors import InputError


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _hash_3(a, b, c) -> dt.uint64: ...  # type: ignore[no-untyped-def]


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _hash_4(a, b, c, d) -> dt.uint64: ...  # type: ignore[no-untyped-def]


@ibis.udf.scalar.builtin(name="bit_count")  # type: ignore[untyped-decorator]
def _bit_count(bits) -> dt.int64: ...  # type: ignore[no-untyped-def]


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
                self.close()
                raise InputError(f"--memory {memory} is no size; write for example --memory 3GB") from problem
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
        """One cheap pass bounds the hash of each user's last item to keep; rows above it need not be told apart.

        The range of the hash is cut into 64 parts. Which of them a user's items fall into is one word of bits, whatever
        repeats there are; in the parts up to the `per_user`-th that is taken lie at least that many different items.
        """
        parts = 64
        if per_user > parts // 2:  # most users would not fill so many
            return rows
        part = rows[hashed] >> 58
        one = ibis.literal(1, "uint64")
        taken = rows.group_by("user").agg(taken=(one << part).bit_or())
        too_few = [
            (_bit_count(taken.taken & ibis.literal((1 << (i + 1)) - 1, "uint64")) < per_user).cast("int64")
            for i in range(parts)
        ]
        last = self.stage(taken.select("user", last=sum(too_few[1:], too_few[0])))
        joined = rows.join(last, "user")
        return joined.filter((joined[hashed] >> 58) <= joined["last"]).select(*rows.columns)

    def early_rows(self, rows: ir.Table, looks: Sequence[Look]) -> EarlyRows:
        """One pass finds the time of each user's n-th row of each kind, a second keeps the rows that are not later."""
        cuts = {}
        for i, (counts, n) in enumerate(looks):
            time = ibis.ifelse(counts(rows), rows["time"], ibis.null("timestamp"))
            cuts[f"cut_{i}"] = ibis.ifelse(time.count() > n, _earliest(time, n)[n - 1], ibis.null("timestamp"))
        users = rows.group_by("user").agg(**cuts)
        cut = self.stage(users.filter(ibis.or_(*(users[name].notnull() for name in cuts))))
        joined = rows.left_join(cut, "user")
        seen = {
            f"early_{i}": look.counts(joined) & (joined[f"cut_{i}"].isnull() | (joined["time"] <= joined[f"cut_{i}"]))
            for i, look in enumerate(looks)
        }
        flagged = joined.select(*rows.columns, **seen)
        some = flagged.filter(ibis.or_(*(flagged[name] for name in seen)))
        return EarlyRows(some, [cut.filter(cut[name].notnull()).select("user") for name in cuts])

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
