"""The classifier test: a guess where there is nothing to tell, nearly certain where times are rounded."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from searchveil.engine import open_engine
from searchveil.lab.measures.classifier import Classifier, auc
from searchveil.lab.split import split
from searchveil.lab.view import View
from searchveil.log import SearchLog
from searchveil.log.demo import write_demo
from searchveil.log.read import read_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchLog]:
    path = write_demo(tmp_path_factory.mktemp("classifier") / "log.parquet", users=500, seed=4).path
    engine = open_engine()
    read = read_log(path, engine=engine)
    yield replace(read, table=engine.stage(read.table))
    engine.close()


def test_auc_by_hand() -> None:
    scores, positive = np.array([1.0, 2.0, 2.0, 3.0]), np.array([0, 0, 1, 1])
    assert auc(scores, positive, np.ones(4)) == (1 + 0.5 + 1 + 1) / 4
    assert auc(scores, positive, np.array([1, 3, 2, 0])) == (1 * 2 + 3 * 2 * 0.5) / 8
    assert np.isnan(auc(scores, positive, np.array([1, 1, 0, 0])))


@pytest.mark.slow
def test_users_of_one_log_are_told_apart_by_a_guess(log: SearchLog) -> None:
    first, second = split(log, fraction=0.5, seed=1)
    found = Classifier(resamples=50).measure(View.of_log(first), View.of_log(second))
    assert 0.42 < found["AUC by actions"] < 0.58
    assert found["AUC, at least"] < found["AUC"] < found["AUC, at most"]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [["rank", "url"], []], ids=["with clicks", "without"])
def test_what_differs_is_found(log: SearchLog, columns: list[str]) -> None:
    table = log.table.select("user", "query", "time", *columns)
    first, second = split(replace(log, table=table), fraction=0.5, seed=1)
    rounded = replace(second, table=second.table.mutate(time=second.table["time"].truncate("h")))
    views = View.of_log(first), View.of_log(rounded)
    found = Classifier(resamples=50).measure(*views)
    assert found["AUC by actions, at least"] > 0.75
    assert found == Classifier(resamples=50).measure(*views), "the same every time"


@pytest.mark.slow
def test_logs_without_sessions_or_of_few_users_are_not_compared(log: SearchLog) -> None:
    without = replace(log, table=log.table.select("user", "query"))
    assert Classifier().measure(View.of_log(log), View.of_log(without)) == {}
    few = replace(log, table=log.table.filter(log.table["user"] == log.table["user"].min().as_scalar()))
    assert Classifier().measure(View.of_log(log), View.of_log(few)) == {}
