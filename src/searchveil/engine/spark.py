"""Spark through ibis, local or on a cluster."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine.base import Engine
from searchveil.errors import InputError


@ibis.udf.scalar.builtin(name="xxhash64")  # type: ignore[untyped-decorator]
def _hash_3(a, b, c) -> dt.int64: ...  # type: ignore[no-untyped-def]


@ibis.udf.scalar.builtin(name="xxhash64")  # type: ignore[untyped-decorator]
def _hash_4(a, b, c, d) -> dt.int64: ...  # type: ignore[no-untyped-def]


class SparkEngine(Engine):
    name = "spark"

    def __init__(self, *, master: str | None = None, memory: str | None = None, session: Any = None) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError as missing:
            raise InputError("Spark is not installed; type: pip install 'searchveil[spark]'") from missing
        if session is None:
            settings = SparkSession.builder.appName("searchveil").master(master or "local[*]")
            settings = settings.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
            if memory is not None:
                settings = settings.config("spark.driver.memory", memory)
            settings = settings.config("spark.ui.showConsoleProgress", "false")
            quiet = Path(__file__).with_name("spark-log4j2.properties").as_uri()
            settings = settings.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet}")
            if (master or "local").startswith("local"):
                # Workers on this machine run the Python that is running now; a cluster's need a searchveil there.
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                settings = settings.config("spark.driver.bindAddress", "127.0.0.1")
                settings = settings.config("spark.driver.host", "127.0.0.1")
                settings = settings.config("spark.sql.shuffle.partitions", "8")
            try:
                session = settings.getOrCreate()
            except Exception as problem:
                raise InputError(
                    f"Spark did not start ({type(problem).__name__}); it needs Java 17: "
                    "apt-get install openjdk-17-jre-headless"
                ) from problem
        self.session = session
        self.connection = ibis.pyspark.connect(session)
        self._kept: list[Any] = []

    def read_parquet(self, paths: Sequence[str]) -> ir.Table:
        return self._view(self.session.read.parquet(*paths))

    def stage(self, table: ir.Table) -> ir.Table:
        frame = self._frame(table).persist()
        self._kept.append(frame)
        return self._view(frame)

    def fetch(self, table: ir.Table) -> pa.Table:
        result: pa.Table = self._frame(table).toArrow()
        return result

    def _frame(self, table: ir.Table) -> Any:
        self.connection._run_pre_execute_hooks(table)  # registers functions and in-memory tables the plan refers to
        return self.session.sql(self.connection.compile(table))

    def load(self, table: pa.Table) -> ir.Table:
        return self._view(self.session.createDataFrame(table))

    def _view(self, frame: Any) -> ir.Table:
        name = ibis.util.gen_name("searchveil")
        frame.createOrReplaceTempView(name)
        return self.connection.table(name)

    def fast_hash(self, values: Sequence[ir.Value], seed: int) -> ir.IntegerColumn:
        return {2: _hash_3, 3: _hash_4}[len(values)](seed, *values)

    def close(self) -> None:
        for frame in self._kept:
            frame.unpersist()
        self.session.stop()
