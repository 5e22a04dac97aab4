"""What an engine must be able to do beyond what ibis already makes the same everywhere."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends import BaseBackend

from searchveil.errors import InputError, setting

SHARED_MEMORY = 3_000_000_000  # bytes


class FirstRows(NamedTuple):
    """The first `n` of each user's rows that count."""

    counts: Callable[[ir.Table], ir.BooleanValue]
    n: int


class EarlyRows(NamedTuple):
    """Rows that are among some first rows, with a flag for each kind (early_0, …), and the users who have more."""

    rows: ir.Table
    cut_off: list[ir.Table]


class Engine(ABC):
    name: ClassVar[str]
    in_process: ClassVar[bool]  # works inside this process: what fits there fits here
    connection: BaseBackend

    @abstractmethod
    def read_parquet(self, paths: Sequence[str]) -> ir.Table:
        """A lazy table over Parquet files."""

    @abstractmethod
    def stage(self, table: ir.Table) -> ir.Table:
        """Compute once and keep inside the engine (spilling to disk where needed), for tables that are read again."""

    def forget(self, staged: ir.Table) -> None:  # noqa: B027
        """A table that was staged is not used any more, so an engine may free its memory."""

    def number(self, table: ir.Table, name: str, by: Sequence[str]) -> ir.Table:
        """Number the rows from 0 on, without gaps, and keep the table. No two rows may agree in the columns `by`.

        The numbers are the same if an engine computes the table again: here, they follow the order of these columns.
        """
        import ibis

        return self.stage(table.mutate(**{name: ibis.row_number().over(ibis.window(order_by=list(by)))}))

    def map(self, table: ir.Table, function: Callable[[pa.Table], pa.Table], types: Mapping[str, str]) -> ir.Table:
        """What a function makes of the rows: it is called on any parts of the table, and perhaps again on the same.

        It must answer the same each time, row by row, whatever part a row is in. It may be sent to other machines.
        """
        return self.load(function(self.fetch(table)))

    @abstractmethod
    def fast_hash(self, values: Sequence[ir.Value], seed: int) -> ir.IntegerColumn:
        """A 64-bit hash under a seed: quick, not cryptographic, different from engine to engine.

        Good enough only for a choice that depends on one user's own history.
        """

    @abstractmethod
    def is_utf8(self, text: ir.StringValue) -> ir.BooleanValue:
        """Whether a text as a file holds it is one; an engine that reads no other may fail instead."""

    @abstractmethod
    def trace(self, cell: ir.Value) -> ir.IntegerValue:
        """A number that cannot be told without decoding the cell; the cheapest."""

    def prefilter(self, rows: ir.Table, hashed: str, per_user: int) -> ir.Table:
        """Optionally drop rows that cannot be among a user's `per_user` smallest hashes; never any other."""
        return rows

    def early_rows(self, rows: ir.Table, wanted: Sequence[FirstRows]) -> EarlyRows | None:
        """Of each kind that is wanted, the rows that count up to the time of a user's n-th.

        None if there is no quick way. Rows without a time may be left out.
        """
        return None

    @contextmanager
    def forgetting_staged(self) -> Iterator[None]:
        """Tables staged in this block are not used after it, so an engine may free their memory."""
        yield

    @contextmanager
    def sharing_memory(self, most: int = SHARED_MEMORY) -> Iterator[None]:
        """While large things are worked out beside it in this process, the engine keeps to a smaller part of memory."""
        yield

    def load(self, table: pa.Table) -> ir.Table:
        """Bring a small Arrow table into the engine."""
        import ibis

        return ibis.memtable(table)

    def fetch(self, table: ir.Table) -> pa.Table:
        """Bring a small result out of the engine."""
        result: pa.Table = self.connection.to_pyarrow(table)
        return result

    def value(self, expression: ir.Scalar) -> Any:
        return self.connection.to_pyarrow(expression).as_py()

    def keep_order(self) -> None:
        """From here on rows are read, and come out, in the order in which they stand in their files."""
        raise InputError(
            f"{self.name} does not keep the order of a log's rows, and it matters here",
            parameter="engine",
            instead="leave out " + setting("engine", self.name),
        )

    def close(self) -> None:
        """Give back what the engine holds."""
        self.connection.disconnect()
