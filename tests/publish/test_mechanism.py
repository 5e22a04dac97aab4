"""What holds of every mechanism: whom a log's promise is about, and what reading the log took as public."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.log.schema import Problem
from searchveil.privacy.ledger import Ledger
from searchveil.publish.k_query import KQuery
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.sampling import Sampling
from searchveil.publish.zealous import Zealous

MECHANISMS = [
    Zealous(1, 1e-6),
    Zealous(1, 1e-6, notion="probabilistic"),
    Korolova(1, 1e-6),
    SafeLogClick(1, 1e-6),
    SafeLogSession(1, 1e-6),
    Sampling(0.5),
    KQuery(2),
]
CONDITION = "which column is the user"


def sessions(engine: Engine) -> SearchLog:
    times = pa.array([datetime(2024, 5, 1)] * 4, pa.timestamp("us"))
    table = pa.table({"user": list("abab"), "query": list("xxyy"), "time": times, "url": list("uvuv")})
    return SearchLog(engine.load(table), engine, unit="session", taken_as_public=(CONDITION,))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.method)
def test_unit_and_conditions_of_a_log_are_in_the_plan_and_in_the_release(
    duckdb_engine: Engine, mechanism: Mechanism
) -> None:
    log = sessions(duckdb_engine)
    for guarantee in (mechanism.plan(log).guarantee, mechanism.release(log).guarantee):
        assert guarantee.unit == "session"
        assert guarantee.assumed_public[-1] == CONDITION
        assert "one session" in guarantee.neighbours_in_words
        assert CONDITION in str(guarantee)
    assert mechanism.plan(10).guarantee.unit == "user"
    assert CONDITION not in mechanism.plan(10).guarantee.assumed_public


def test_a_ledger_does_not_add_up_users_and_sessions(duckdb_engine: Engine, tmp_path: Path) -> None:
    log, ledger = sessions(duckdb_engine), Ledger.open(tmp_path / "account", budget_epsilon=10, budget_delta=1e-3)
    Zealous(1, 1e-6).release(log, ledger=ledger)
    with pytest.raises(InputError, match="counts per session and the release promises per user"):
        Zealous(1, 1e-6).release(replace(log, unit="user"), ledger=ledger)
    Zealous(1, 1e-6).release(log, ledger=ledger)
    assert [entry.guarantee["unit"] for entry in ledger.spent().entries] == ["session", "session"]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.method)
def test_a_log_whose_users_took_rows_from_each_other_is_refused(duckdb_engine: Engine, mechanism: Mechanism) -> None:
    """Its record would take as given what is known to be false; a bad row that took only itself is left out."""
    own, others = Problem("bad time", 1), Problem("broken quotes", 1, and_more=True)
    mechanism.release(replace(sessions(duckdb_engine), problems=(own,)))
    with pytest.raises(InputError, match="left out at least 1 row: broken quotes, so no guarantee would hold"):
        mechanism.release(replace(sessions(duckdb_engine), problems=(own, others)))
