"""Opening an engine by name; the heavy imports wait until one is asked for."""

from collections.abc import Mapping

from searchveil.engine.base import Engine
from searchveil.errors import InputError, setting


def open_engine(
    name: str = "duckdb",
    *,
    master: str | None = None,
    memory: str | None = None,
    executor_memory: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Engine:
    """DuckDB inside this process, or Spark at `master` (for example local[2], spark://host:7077, yarn).

    >>> sv.open_engine("duckdb").name
    'duckdb'
    """
    if name == "duckdb":
        of_spark = {"master": master, "executor_memory": executor_memory, "spark_conf": spark_conf or None}
        for parameter, value in of_spark.items():
            if value is not None:
                instead = "add " + setting("engine", "spark")
                raise InputError(
                    setting(parameter) + " is for Spark", parameter=parameter, value=value, instead=instead
                )
        from searchveil.engine.duckdb import DuckDBEngine

        return DuckDBEngine(memory=memory)
    if name == "spark":
        from searchveil.engine.spark import SparkEngine

        return SparkEngine(master=master, memory=memory, executor_memory=executor_memory, conf=spark_conf)
    raise InputError(f"no engine '{name}'; there are duckdb and spark")
