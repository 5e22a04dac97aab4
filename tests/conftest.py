"""Engines for the tests, one suite runs on every engine; and the command line without a new process."""

import gc
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from java import SHORT_LIVED_JAVA

from searchveil.engine import Engine, open_engine

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# No example fails for the time it takes. What lands is judged by the same examples every time; new ones are looked for
# wherever people work on it.
settings.register_profile(
    "unhurried", deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# Every Spark that a test starts, in this process or by a command, takes this from here. On a machine where much else
# runs, Spark waits longer before it takes a slow part of itself for a dead one.
os.environ["SPARK_SUBMIT_OPTS"] = " ".join(
    (
        SHORT_LIVED_JAVA,
        f'"-Dspark.executor.extraJavaOptions={SHORT_LIVED_JAVA}"',
        "-Dspark.network.timeout=900s",
        "-Dspark.executor.heartbeatInterval=60s",
        "-Dspark.python.authenticate.socketTimeout=600s",
        "-Dspark.sql.broadcastTimeout=900",
    )
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark comes first, in a row: of several workers one gets it all, and only that one starts Java."""
    items.sort(key=lambda item: "spark" not in item.keywords)


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[Engine]:
    engine = open_engine("duckdb")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[Engine]:
    # Small logs in two parts show what eight would, and take a fifth less of the CPU.
    engine = open_engine("spark", master="local[2]", spark_conf={"spark.sql.shuffle.partitions": "2"})
    yield engine
    engine.close()


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn; Spark is started once, by the first test that needs it."""
    opened: Engine = request.getfixturevalue(f"{request.param}_engine")
    return opened


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        pytest.skip("no Chromium was found; `make browser` installs one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable)
        yield running
        running.close()


@pytest.fixture
def searchveil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command in an empty folder, without a new process: most of these say no before they have done anything."""
    from commandline import Outcome  # beside the tests that use this

    from searchveil.cli import answer

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Any:
        monkeypatch.setattr(sys, "argv", ["searchveil", *map(str, arguments)])
        code: Any = 1
        try:
            answer()
        except SystemExit as stop:
            code = stop.code
        except Exception:
            traceback.print_exc()
        gc.collect()  # a process that ends need not close the engine of a log it refuses
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return run


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Any]:
    """A community inside this process."""
    from local import LocalCrowd  # beside the tests that use this

    made = LocalCrowd(tmp_path)
    yield made
    made.close()
