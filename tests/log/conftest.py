"""What the libraries under the readers need in these tests."""

import os
import sys
from pathlib import Path

import pytest

# The functions that run in Spark's workers need the interpreter that runs the tests.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# What DuckDB, pandas and Python hold against ibis and pyspark; the calls are not ours to change.
NOT_OURS = (
    "ignore:fetch_arrow_table:DeprecationWarning",
    "ignore:The copy keyword is deprecated",
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:The 'future.infer_string' option is deprecated",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for advice in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(advice))
