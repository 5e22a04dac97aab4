"""Opening an engine by name; the heavy imports wait until one is asked for."""

from searchveil.engine.base import Engine
from searchveil.errors import InputError


def open_engine(name: str = "duckdb", *, master: str | None = None, memory: str | None = None) -> Engine:
    """DuckDB inside this process, or Spark at `master` (for example local[2], spark://host:7077, yarn)."""
    if name == "duckdb":
        if master is not None:
            raise InputError("--master is for Spark; add --engine spark")
        from searchveil.engine.duckdb import DuckDBEngine

        return DuckDBEngine(memory=memory)
    if name == "spark":
        from searchveil.engine.spark import SparkEngine

        return SparkEngine(master=master, memory=memory)
    raise InputError(f"no engine '{name}'; there are duckdb and spark")
