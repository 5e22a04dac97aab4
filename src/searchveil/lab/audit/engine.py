"""DuckDB for one small computation done a thousand times: every expression becomes SQL only once.

On a log of some thousand rows a release spends its time on writing SQL, not on running it. Tables that are staged or
loaded keep their names from run to run, and the seed of a choice travels as a variable instead of a literal, so that
the expressions of one run are those of the next and their SQL can be kept.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.engine.sql import literal

MOST_TEXTS = 500
NO_KEY = "-" * 64


@ibis.udf.scalar.builtin(name="getvariable")  # type: ignore[untyped-decorator]
def _variable(called: str) -> dt.int64: ...


OfSlots = Callable[[Sequence[str]], ir.Table]


def rows_by_slot(engine: Engine, rows: pa.Table) -> OfSlots:
    """Rows inside an engine, of which those in some slots can be taken; `slot` itself is not among their columns."""
    if isinstance(engine, RepeatingEngine):
        return engine.rows_by_slot(rows)
    kept = engine.stage(engine.load(rows))
    return lambda slots: kept.filter(kept["slot"].isin(list(slots))).drop("slot")


class RepeatingEngine(DuckDBEngine):
    """Call `begin` before each repetition: what the one before has staged is then overwritten."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.sql("pragma disable_optimizer")  # planning the best way costs more than any way on some thousand rows
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

    def rows_by_slot(self, rows: pa.Table) -> OfSlots:
        """Each call begins a repetition, with the rows of these slots in a table of always the same name."""
        self.connection.con.register("arriving", rows)
        self.sql("create or replace temp table scenes as from arriving")
        self.connection.con.unregister("arriving")
        schema = ibis.Schema.from_pyarrow(rows.schema)
        return lambda slots: self._repeat(slots, ibis.schema({name: schema[name] for name in schema if name != "slot"}))

    def _repeat(self, slots: Sequence[str], schema: ibis.Schema) -> ir.Table:
        self.begin()
        there = ", ".join(map(literal, slots))
        return self._create("audited", f"select * exclude (slot) from scenes where slot in ({there})", schema)

    def _create(self, name: str, sql: str, schema: ibis.Schema) -> ir.Table:
        self.sql(f"create or replace temp table {name} as {sql}")
        place = ops.Namespace(catalog="temp", database="main")
        return ops.DatabaseTable(name=name, schema=schema, source=self.connection, namespace=place).to_expr()

    def _text(self, table: ir.Table) -> str:
        node = table.op()
        if node in self._texts:
            return self._texts[node]
        # The key of a release never comes again. With a stand-in of the same length the text is known all the same.
        keys = {literal.value: literal for literal in node.find(ops.Literal) if _is_key(literal)}
        if len(keys) == 1:
            ((key, literal),) = keys.items()
            return self._text(node.replace({literal: literal.copy(value=NO_KEY)}).to_expr()).replace(NO_KEY, key)
        self.connection._run_pre_execute_hooks(table)  # functions written in Python are made known
        text = str(self.connection.compile(table))
        if not node.find(ops.InMemoryTable):  # whose name never comes again either
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            self._texts[node] = text
        return text


def _is_key(literal: ops.Literal) -> bool:
    return isinstance(literal.value, str) and len(literal.value) == len(NO_KEY) and literal.value != NO_KEY
