"""Engines for the tests: one suite runs on every engine."""

from collections.abc import Iterator

import pytest

from searchveil.engine import Engine, open_engine


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[Engine]:
    engine = open_engine("duckdb")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[Engine]:
    engine = open_engine("spark", master="local[2]")
    yield engine
    engine.close()


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn; Spark is started once, by the first test that needs it."""
    opened: Engine = request.getfixturevalue(f"{request.param}_engine")
    return opened
