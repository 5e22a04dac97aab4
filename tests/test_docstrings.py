"""Every public noun has an example in its docstring, and the example is true."""

import doctest
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import searchveil as sv

SLOW = ("audit",)
NOUNS = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in sv.__all__ if name != "__version__"
]


@pytest.fixture(scope="module")
def log() -> sv.SearchLog:
    rows = [(user, query) for user in range(20) for query in ("news", "weather")]
    columns: dict[str, list[object]] = {
        "user": [user for user, _ in rows],
        "query": [query for _, query in rows],
        "time": [datetime(2024, 5, 1, user) for user, _ in rows],
    }
    return sv.read_log(pa.table(columns))


@pytest.mark.parametrize("name", NOUNS)
def test_the_example_of_a_public_noun(name: str, log: sv.SearchLog, tmp_path: Path) -> None:
    noun = getattr(sv, name)
    assert ">>>" in (noun.__doc__ or ""), f"{name} has no example"
    known: dict[str, Any] = {"sv": sv, "pa": pa, "log": log, "folder": tmp_path}
    examples = doctest.DocTestParser().get_doctest(noun.__doc__, known, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(examples, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
