"""On a real cluster: what its workers lack costs nothing, every method works there, and a worker may die."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from cluster import Cluster
from every_release import RELEASES, every_release

import searchveil as sv
from searchveil.engine import spark
from searchveil.errors import InputError
from searchveil.log.demo import write_demo
from searchveil.privacy.ledger import Ledger

SECONDS = 800  # after which a command hangs, on a machine however busy
pytestmark = pytest.mark.timeout(900)
NOBODY = 65534
EXACT = ("--method", "zealous", "--epsilon", "50000", "--delta", "1e-6", "--per-user", "1000")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests here: a master and two workers."""
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for _ in range(2):
            started.add_worker()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With some bad rows, and larger than a block."""
    path = write_demo(tmp_path_factory.mktemp("log") / "log.tsv", users=250, seed=1).path
    path.write_bytes(path.read_bytes() + b"bad row\n\n")
    return path


def command(folder: Path, *arguments: object, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "searchveil", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    return process.returncode, out, err


def budget(folder: Path) -> list[str]:
    return ["--ledger", str(folder / "account.sqlite"), "--budget-epsilon", "1e6", "--budget-delta", "0.1"]


def refused(err: str) -> str:
    """The one line on standard error that is neither progress nor what Java says when it starts."""
    assert "Traceback" not in err, err
    (line,) = [line for line in err.splitlines() if line.startswith("searchveil: ")]
    return line


@pytest.mark.spark
@pytest.mark.slow
def test_every_method_and_item_come_out_as_on_duckdb(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    loopback = ["spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
    small = ["spark.sql.shuffle.partitions=2", "spark.sql.files.maxPartitionBytes=200000"]
    options = {"engine": "spark", "master": cluster.url, "executor_memory": "600MB", "spark_conf": loopback + small}
    script = Path(__file__).with_name("every_release.py")
    ran = subprocess.run(
        [sys.executable, str(script), str(log), json.dumps(options), str(tmp_path / "results.json")],
        env=os.environ | cluster.environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    there: dict[str, Any] = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    opened = sv.read_log(log)
    here = every_release(opened)
    opened.engine.close()
    assert there.keys() == RELEASES.keys()
    for name in RELEASES:
        assert there[name]["guarantee"] == here[name]["guarantee"], name
        assert there[name]["columns"] == here[name]["columns"], name
        if not name.startswith("sampling"):  # its output is drawn
            assert there[name]["tables"] == here[name]["tables"], name
        assert all(here[name]["tables"][table] for table in ("data",)), name


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_without_our_packages_costs_no_budget(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    env = cluster.environment(PYSPARK_PYTHON=str(tmp_path / "bare" / "bin" / "python"))
    out = ["--out", str(tmp_path / "out")]
    code, _, err = finish(command(tmp_path, "release", log, *EXACT, *budget(tmp_path), *out, *cluster.options, **env))
    assert code == 2
    said = refused(err)
    assert f"has no {', '.join(spark.NEEDED_BY_WORKERS)}; set" in said
    assert "PYSPARK_PYTHON" in said
    assert not (tmp_path / "account.sqlite").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_python_that_no_worker_has_costs_no_budget(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    env = cluster.environment(PYSPARK_PYTHON="/no/such/python")
    out = ["--out", str(tmp_path / "out")]
    code, _, err = finish(command(tmp_path, "release", log, *EXACT, *budget(tmp_path), *out, *cluster.options, **env))
    assert code == 2
    assert "cannot run the Python '/no/such/python'" in refused(err)
    assert not (tmp_path / "account.sqlite").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_that_dies_in_the_middle_is_survived(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    """It dies with its part of the log, after the ledger has paid; the other one reads that part again."""
    victim = cluster.add_worker()
    out = ["--out", str(tmp_path / "out")]
    running = command(
        tmp_path,
        "release", log, *EXACT, *budget(tmp_path), *out, *cluster.options, "--memory", "1GB",
        **cluster.environment(),
    )  # fmt: skip
    assert running.stderr is not None
    said = []
    while line := running.stderr.readline():
        said.append(line)
        if line.startswith("… ") and "reading" not in line:  # the log is read, the budget paid
            victim.kill()
            break
    code, _, err = finish(running)
    assert code == 0, [*said, err]
    assert victim.process.returncode is not None
    assert len(Ledger.open(tmp_path / "account.sqlite").spent().entries) == 1
    opened = sv.read_log(log)
    expected = sv.Zealous(epsilon=50_000, delta=1e-6, per_user=1000).release(opened).table
    opened.engine.close()
    assert sorted(map(str, pq.read_table(tmp_path / "out" / "data.parquet").to_pylist())) == sorted(
        map(str, expected.to_pylist())
    )


@pytest.mark.spark
@pytest.mark.slow
def test_workers_of_another_user(tmp_path_factory: pytest.TempPathFactory, log: Path, tmp_path: Path) -> None:
    """They read the log where it lies, and nothing that only the user who asks may read."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a worker as another user")
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    imports = ["sh", "-c", 'exec "$0" -c "import pyarrow"', sys.executable]  # a shell has lost root's rights by then
    if subprocess.run([*as_nobody, *imports], check=False, capture_output=True).returncode != 0:
        pytest.skip("another user cannot run this Python")
    elsewhere = Cluster(tmp_path_factory.mktemp("of-nobody"))
    places = {elsewhere.folder, *elsewhere.folder.parents, *log.parents}
    closed = {place: place.stat().st_mode for place in places if not place.stat().st_mode & 0o001}
    try:
        for place, mode in closed.items():
            place.chmod(mode | 0o055)
        elsewhere.add_worker(user=NOBODY)
        asked = ("inspect", log, "--json", *elsewhere.options)
        code, out, err = finish(command(tmp_path, *asked, **elsewhere.environment()))
        assert code == 0, err
        assert json.loads(out)["users"] == 250
    finally:
        elsewhere.stop()
        for place, mode in closed.items():
            place.chmod(mode)


# What is wrong is told before Java starts, or in one line after it


def java_of(version: str, folder: Path) -> str:
    """A Java of this version that does nothing but say so."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit 1\n")
    java.chmod(0o755)
    return str(folder)


NOT_SPARKS_FAULT = {
    "no Java": ((), {"JAVA_HOME": "/no/such/java"}, "there is no java in JAVA_HOME=/no/such/java"),
    "an old Java": ((), {"JAVA_HOME": "11.0.2"}, "is Java 11; set JAVA_HOME"),
    "a Java that stops at once": ((), {"JAVA_HOME": "17.0.2"}, "Java stopped at once"),
    "a setting with a wrong value": (
        ("--spark-conf", "spark.driver.maxResultSize=lots"),
        {},
        "Spark did not start: NumberFormatException: Size must be specified",
    ),
}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_SPARKS_FAULT)
def test_what_keeps_spark_from_starting(name: str, log: Path, tmp_path: Path) -> None:
    options, env, says = NOT_SPARKS_FAULT[name]
    if "." in (version := env.get("JAVA_HOME", "")):
        env = {"JAVA_HOME": java_of(version, tmp_path / "java")}
    source = {"PYTHONPATH": str(Path(sv.__file__).parents[1])}
    asked = ("--engine", "spark", "--master", "local[1]", *options)
    code, _, err = finish(command(tmp_path, "inspect", log, *asked, **source, **env))
    assert code == 2, err
    assert says in refused(err)


def test_java_8_calls_itself_otherwise(tmp_path: Path) -> None:
    assert spark._java_version(java_of("1.8.0_392", tmp_path) + "/bin/java") == 8


REFUSED_BEFORE_JAVA: dict[str, tuple[dict[str, Any], str]] = {
    "no master there": ({"master": "spark://127.0.0.1:9"}, "no Spark master answers there (Connection refused)"),
    "no port": ({"master": "spark://host"}, "spark://host:7077"),
    "no such kind of master": ({"master": "steam"}, "master='steam': is none that Spark knows"),
    "an option of its own": ({"spark_conf": {"spark.executor.memory": "3g"}}, "use executor_memory"),
    "no setting of Spark": ({"spark_conf": {"colour": "red"}}, "begin with spark."),
    "memory that is no size": ({"memory": "lots"}, "memory 'lots'"),
    "executor memory that is no size": ({"executor_memory": "-5GB"}, "executor_memory '-5GB'"),
}


@pytest.mark.parametrize("name", REFUSED_BEFORE_JAVA)
def test_what_is_refused_before_java_starts(name: str) -> None:
    given, says = REFUSED_BEFORE_JAVA[name]
    with pytest.raises(InputError) as refusal:
        sv.open_engine("spark", **given)
    assert says in str(refusal.value)


@pytest.mark.spark
@pytest.mark.slow
def test_memory_is_written_as_people_write_it(log: Path, tmp_path: Path) -> None:
    """The example of --help, which Spark's own spelling of sizes does not allow."""
    source = {"PYTHONPATH": str(Path(sv.__file__).parents[1])}
    asked = ("--engine", "spark", "--master", "local[1]", "--memory", "3GB", "--json")
    code, out, err = finish(command(tmp_path, "inspect", log, *asked, **source))
    assert code == 0, err
    assert json.loads(out)["users"] == 250


@pytest.mark.parametrize(
    ("said", "tells"),
    [
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than 3.11", "another version"),
        ('Caused by: java.io.IOException: Cannot run program "python3": error=2', "cannot run the Python"),
        ("x\nCaused by: java.io.IOException: No space left on device\n\tat y", "IOException: No space left on device"),
    ],
)
def test_why_workers_fail(said: str, tells: str) -> None:
    line = spark._why_workers_fail(RuntimeError(said))
    assert tells in line
    assert "PYSPARK_PYTHON" in line
    assert "\n" not in line


def test_no_value_of_a_row_is_in_what_is_said_of_a_failure() -> None:
    said = (
        "job failed\nCaused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'secret' is"
    )
    assert "secret" not in spark.cause_of(RuntimeError(said))


def test_options_of_spark_need_spark() -> None:
    for given in ({"executor_memory": "1GB"}, {"spark_conf": {"spark.x": "y"}}, {"master": "local[1]"}):
        with pytest.raises(InputError, match="add engine='spark'"):
            sv.open_engine("duckdb", **given)
