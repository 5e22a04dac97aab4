"""Spark through ibis, local or on a cluster."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine.base import Engine
from searchveil.engine.builtin import builtin
from searchveil.engine.size import memory_in_bytes
from searchveil.errors import InputError, Text, setting
from searchveil.extras import install_command
from searchveil.scratch import Scratch

NEEDED_BY_WORKERS = ("cryptography", "duckdb", "ibis", "icu4py", "mpmath", "numpy", "pandas", "pyarrow", "scipy")
OLDEST_JAVA = 17
GET_JAVA = "apt-get install openjdk-17-jre-headless"
# Settings that have an option of their own, or that our results rely on.
NOT_TO_BE_SET = {
    "spark.master": "use " + setting("master"),
    "spark.driver.memory": "use " + setting("memory"),
    "spark.executor.memory": "use " + setting("executor_memory"),
    "spark.sql.session.timeZone": Text.of("times are read as UTC"),
}
PLACE_BITS = 33  # of a number of Spark's that grows, the lower ones are a row's place in its part
SECONDS_TO_REACH_A_MASTER = 10
SECONDS_TO_GET_A_WORKER = 180


@ibis.udf.scalar.builtin(name="is_valid_utf8")  # type: ignore[untyped-decorator]
def _is_valid_utf8(text: str) -> bool: ...  # type: ignore[empty-body]


class SparkEngine(Engine):
    name = "spark"
    in_process = False

    def __init__(
        self,
        *,
        master: str | None = None,
        memory: str | None = None,
        executor_memory: str | None = None,
        conf: Mapping[str, str] | None = None,
        session: Any = None,
    ) -> None:
        if session is None:
            session = _start(master or "local[*]", _settings(master or "local[*]", memory, executor_memory, conf or {}))
        self.session = session
        self.connection = ibis.pyspark.connect(session)
        self._kept: list[Any] = []
        try:
            self._ship_searchveil()
            if not _same_python(session.sparkContext.master):
                _check_workers(session.sparkContext)
        except BaseException:
            self.close()
            raise

    def read_parquet(self, paths: Sequence[str]) -> ir.Table:
        return self._view(self.session.read.parquet(*map(spark_path, paths)))

    def stage(self, table: ir.Table) -> ir.Table:
        return self._view(self._leaf(self.keep(self._frame(table))))

    def _leaf(self, kept: Any) -> Any:
        """The kept frame as one node of a plan, as Dataset.checkpoint makes it, but what is lost is computed again.

        Otherwise a plan holds the plans of all tables that it was made from, and what is made in rounds takes longer
        to plan with each of them.
        """
        from pyspark.sql.classic.dataframe import DataFrame

        kept.count()  # now that it is computed, its size is known to what is planned next
        spark = self.session._jvm.org.apache.spark.sql
        rows = getattr(spark.execution, "LogicalRDD$")
        frames = getattr(spark.classic, "Dataset$")
        computed = kept.select("*")._jdf
        leaf = getattr(rows, "MODULE$").fromDataset(computed.queryExecution().toRdd(), computed, False)
        return DataFrame(getattr(frames, "MODULE$").ofRows(self.session._jsparkSession, leaf), self.session)

    def number(self, table: ir.Table, name: str, by: Sequence[str]) -> ir.Table:
        """By place in a part, after the parts before: which rows a part has follows from the columns `by` alone."""
        from pyspark.sql import functions

        parts = int(self.session.conf.get("spark.sql.shuffle.partitions"))  # without it Spark chooses by the rows
        frame = self._frame(table).repartition(parts, *by).sortWithinPartitions(*by)
        placed = self._leaf(self.keep(frame.withColumn(name, functions.monotonically_increasing_id())))
        part, place = functions.shiftright(name, PLACE_BITS), functions.col(name).bitwiseAND((1 << PLACE_BITS) - 1)
        sizes = dict(placed.groupBy(part.cast("int")).count().collect())
        before = accumulate((sizes.get(i, 0) for i in range(parts)), initial=0)
        starts = functions.array(*map(functions.lit, before))
        return self._view(placed.withColumn(name, place + functions.get(starts, part.cast("int")).cast("bigint")))

    def map(self, table: ir.Table, function: Callable[[pa.Table], pa.Table], types: Mapping[str, str]) -> ir.Table:
        from ibis.backends.pyspark.datatypes import PySparkSchema

        def by_batches(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for batch in batches:
                yield from function(pa.Table.from_batches([batch])).to_batches()

        # Each task of a Python worker costs a fifth of a second, however few its rows: few rows become few tasks.
        frame = self._frame(table).hint("rebalance")
        return self._view(frame.mapInArrow(by_batches, PySparkSchema.from_ibis(ibis.schema(types))))

    def keep(self, frame: Any) -> Any:
        """Computed once, when it is first asked for, and kept in the executors' memory and on their disks.

        Where an executor is lost, its part is computed again: a frame must be a function of what it is made from.
        """
        self._kept.append(frame.persist())
        return frame

    def fetch(self, table: ir.Table) -> pa.Table:
        result: pa.Table = self._frame(table).toArrow()
        return result

    def _frame(self, table: ir.Table) -> Any:
        self.connection._run_pre_execute_hooks(table)  # registers functions and in-memory tables the plan refers to
        return self.session.sql(self.connection.compile(table))

    def load(self, table: pa.Table) -> ir.Table:
        return self._view(self.session.createDataFrame(table))

    def _view(self, frame: Any) -> ir.Table:
        return self.connection.table(self.named_view(frame))

    def named_view(self, frame: Any) -> str:
        name: str = ibis.util.gen_name("searchveil")
        frame.createOrReplaceTempView(name)
        return name

    def fast_hash(self, values: Sequence[ir.Value], seed: int) -> ir.IntegerColumn:
        return builtin("xxhash64", 1 + len(values), dt.int64)(seed, *values)

    def is_utf8(self, text: ir.StringValue) -> ir.BooleanValue:
        return _is_valid_utf8(text)

    def trace(self, cell: ir.Value) -> ir.IntegerValue:
        return cell.length() if cell.type().is_string() else cell.hash()

    def close(self) -> None:
        for frame in self._kept:
            frame.unpersist()
        self.session.stop()

    def _ship_searchveil(self) -> None:
        """The workers run this very code, whatever searchveil is installed there."""
        self._shipped = Scratch()  # Spark serves it from there for as long as it lives
        archive = self._shipped.path / "searchveil-for-workers.zip"
        package = Path(__file__).parents[1]
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in sorted(package.rglob("*.py")):
                packed.write(file, Path("searchveil") / file.relative_to(package))
        before = list(sys.path)
        self.session.sparkContext.addPyFile(str(archive))
        sys.path[:] = before  # this process has no use for it


def spark_path(path: str) -> str:
    """A path as Spark takes it: it reads every path as a pattern, and one without a scheme as one of its own store."""
    exact = path if "://" in path else f"file://{os.path.abspath(path)}"
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", exact)


def cause_of(problem: BaseException) -> str:
    """The innermost reason of a failure of Spark in one line. It names no value: Spark quotes what it cannot cast."""
    condition = getattr(problem, "getCondition", lambda: None)()
    text = str(problem)
    ours = re.findall(r"^(?:searchveil\.errors\.InputError|\w*ModuleNotFoundError|ImportError): (.+)$", text, re.M)
    if ours:
        return str(ours[-1])
    java = re.findall(r"^(?:Caused by: |: )((?:[a-z]\w*\.)+([A-Z]\w+)(?:: (.*))?)$", text, re.M)
    informative = [
        (name, said) for _, name, said in java if said and not name.startswith(("SparkRuntime", "PythonExcep"))
    ]
    if informative:
        name, said = informative[-1]
        return f"{name}: {_without_values(said)}"
    if condition:
        return str(condition)
    return f"{type(problem).__name__}: {_without_values(text.splitlines()[0] if text else '')}"


def _without_values(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "…", text) if text.startswith("[") else text


def _settings(master: str, memory: str | None, executor_memory: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Everything Spark is told, ours before the caller's; what is wrong with it is said before Java starts."""
    quiet = Path(__file__).with_name("spark-log4j2.properties").as_uri()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # A small table that is kept gets few parts: what is made of it in Python workers costs by the part.
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet}",
    }
    if memory is not None:
        settings["spark.driver.memory"] = _in_mebibytes(memory, "memory")
    if executor_memory is not None:
        settings["spark.executor.memory"] = _in_mebibytes(executor_memory, "executor_memory")
    if _is_local(master):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        settings["spark.sql.shuffle.partitions"] = "8"
    for key, value in conf.items():
        if key in NOT_TO_BE_SET:
            raise _wrong_setting(key, value, "not this way", NOT_TO_BE_SET[key])
        if not key.startswith("spark."):
            raise _wrong_setting(key, value, "Spark's settings begin with spark.")
        settings[key] = f"{settings[key]} {value}" if key == "spark.driver.extraJavaOptions" else value
    return settings


def _wrong_setting(key: str, value: str, problem: str, instead: Text | None = None) -> InputError:
    said = setting("spark_conf", {key: value}) + f": {problem}"
    return InputError(said, parameter="spark_conf", value=value, instead=instead)


def _in_mebibytes(size: str, parameter: str) -> str:
    return f"{memory_in_bytes(size, parameter) // 2**20}m"


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _same_python(master: str) -> bool:
    """Whether the workers run the Python of this process, so that they have what it has."""
    return _is_local(master) and os.environ.get("PYSPARK_PYTHON") == sys.executable


def _start(master: str, settings: Mapping[str, str]) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise InputError(f"Spark is not installed; type: {install_command('spark')}") from missing
    if _is_local(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _check_master(master)
    builder = SparkSession.builder.appName("searchveil").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as problem:
        raise InputError(_why_not_started(problem)) from problem


def _check_master(master: str) -> None:
    """Spark itself would try for a minute to reach one, and then say something about a stopped context."""
    if not re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+", master):
        instead = "write for example local[2], spark://host:7077 or yarn"
        raise _wrong_master(master, "is none that Spark knows", instead)
    standalone = re.fullmatch(r"spark://(.+)", master)
    if standalone is None:
        return
    refusals = []
    for place in standalone[1].split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal():
            raise _wrong_master(master, "has no host and port", "write for example spark://host:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_REACH_A_MASTER).close()
            return
        except (OSError, OverflowError) as problem:
            refusals.append(str(getattr(problem, "strerror", None) or problem))
    raise _wrong_master(master, f"no Spark master answers there ({'; '.join(refusals)})", "start it or correct it")


def _wrong_master(master: str, problem: str, instead: str) -> InputError:
    return InputError(setting("master", master) + f": {problem}", parameter="master", value=master, instead=instead)


def _why_not_started(problem: Exception) -> str | Text:
    said = str(problem)
    if "JAVA_GATEWAY_EXITED" not in said and not isinstance(problem, FileNotFoundError):
        return f"Spark did not start: {cause_of(problem)}"
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        return f"Spark needs Java {OLDEST_JAVA} or later, and there is no java {where}; type: {GET_JAVA}"
    version = _java_version(java)
    if version is not None and version < OLDEST_JAVA:
        return (
            f"Spark needs Java {OLDEST_JAVA} or later, and {java} is Java {version}; set JAVA_HOME, or type: {GET_JAVA}"
        )
    look_at = setting("memory") + ", " + setting("spark_conf") + " and what Java said above"
    return "Spark's Java stopped at once, mostly for an option or a size that it cannot have; look at " + look_at


def _java_version(java: str) -> int | None:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)  # Java 8 calls itself 1.8
    return int(found[1]) if found else None


def _check_workers(context: Any) -> None:
    """A tiny job in the workers' Python, before anything is paid for: have they what our functions need?"""
    needed = NEEDED_BY_WORKERS

    def missing(numbers: Iterable[int]) -> Iterable[tuple[str, str]]:
        import importlib
        import socket

        for module in needed:
            try:
                importlib.import_module(module)
            except Exception as problem:
                yield socket.gethostname(), module if isinstance(problem, ImportError) else f"a {module} that works"

    slots = max(2, context.defaultParallelism)
    gave_up = threading.Event()

    def give_up() -> None:
        gave_up.set()
        context.cancelAllJobs()

    timer = threading.Timer(SECONDS_TO_GET_A_WORKER, give_up)
    timer.start()
    try:
        found = context.parallelize(range(2 * slots), 2 * slots).mapPartitions(missing).distinct().collect()
    except Exception as problem:
        if gave_up.is_set():
            raise InputError(
                f"{context.master}: no worker took a job in {SECONDS_TO_GET_A_WORKER} seconds; are there workers with "
                "enough free cores and memory? " + setting("executor_memory") + " asks for less"
            ) from problem
        raise InputError(_why_workers_fail(problem)) from problem
    finally:
        timer.cancel()
    if found:
        host = sorted(found)[0][0]
        lacking = ", ".join(sorted(module for where, module in found if where == host))
        raise InputError(f"the Python of the Spark worker {host} has no {lacking}; {_SET_PYTHON}")


_SET_PYTHON = (
    "set PYSPARK_PYTHON to a Python on the workers that has 'searchveil[spark]', of the version "
    f"{sys.version_info.major}.{sys.version_info.minor} as here"
)


def _why_workers_fail(problem: Exception) -> str:
    said = str(problem)
    python = os.environ.get("PYSPARK_PYTHON", "python3")
    if "Cannot run program" in said:
        return f"the Spark workers cannot run the Python '{python}'; {_SET_PYTHON}"
    versions = re.search(r"worker .{0,80}?(\d+[., ]+\d+).{0,80}?driver .{0,20}?(\d+[., ]+\d+)", said, re.S)
    if "PYTHON_VERSION_MISMATCH" in said or (versions and "different" in said):
        return f"the Python '{python}' of the Spark workers is of another version than the one here; {_SET_PYTHON}"
    return f"the Python '{python}' of the Spark workers does not work ({cause_of(problem)}); {_SET_PYTHON}"
