"""DuckDB for one small computation done a thousand times: every expression becomes SQL only once.

On a log of some thousand rows a release spends its time on writing SQL, not on running it. Tables that are staged or
loaded keep their names from run to run, and the seed of a choice travels as a variable instead of a literal, so that
the expressions of one run are those of the next and their SQL can be kept.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine.duckdb import DuckDBEngine

MOST_TEXTS = 500


@ibis.udf.scalar.builtin(name="getvariable")  # type: ignore[untyped-decorator]
def _variable(called: str) -> dt.int64: ...


class RepeatingEngine(DuckDBEngine):
    """Call `begin` before each repetition: what the one before has staged is then overwritten."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self._texts: dict[ops.Node, str] = {}
        self.begin()

    def begin(self) -> None:
        self._made = count(1)

    def stage(self, table: ir.Table) -> ir.Table:
        return self._create(f"repeated_{next(self._made)}", self._text(table), table.schema())

    def load(self, table: pa.Table) -> ir.Table:
        self.connection.con.register("incoming", table)
        schema = ibis.Schema.from_pyarrow(table.schema)
        loaded = self._create(f"repeated_{next(self._made)}", "from incoming", schema)
        self.connection.con.unregister("incoming")
        return loaded

    def fetch(self, table: ir.Table) -> pa.Table:
        fetched: pa.Table = self.connection.con.sql(self._text(table)).to_arrow_table()
        return fetched.cast(table.schema().to_pyarrow())

    def value(self, expression: ir.Scalar) -> Any:
        return self.fetch(expression.as_table())[0][0].as_py()

    def fast_hash(self, values: Sequence[ir.Value], seed: int) -> ir.IntegerColumn:
        name = f"seed_{next(self._made)}"
        self.sql(f"set variable {name} = {seed}::bigint")
        return super().fast_hash(values, _variable(name))

    def prefilter(self, rows: ir.Table, hashed: str, per_user: int) -> ir.Table:
        """Nothing: it saves time on long logs and never changes what is kept."""
        return rows

    def _create(self, name: str, sql: str, schema: ibis.Schema) -> ir.Table:
        self.sql(f"create or replace temp table {name} as {sql}")
        place = ops.Namespace(catalog="temp", database="main")
        return ops.DatabaseTable(name=name, schema=schema, source=self.connection, namespace=place).to_expr()

    def _text(self, table: ir.Table) -> str:
        node = table.op()
        if node not in self._texts:
            self.connection._run_pre_execute_hooks(table)  # functions written in Python are made known
            text = str(self.connection.compile(table))
            if node.find(ops.InMemoryTable):  # its name is never the same again
                return text
            if len(self._texts) >= MOST_TEXTS:  # those that hold the key of a release come only once
                self._texts.clear()
            self._texts[node] = text
        return self._texts[node]
