"""What holds of every mechanism: whom a log's promise is about, and what reading the log took as public."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import ibis.expr.types as ir
import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.errors import InputError
from searchveil.items import ITEMS
from searchveil.log import SearchLog
from searchveil.log.schema import Problem
from searchveil.privacy.ledger import Ledger
from searchveil.publish.k_query import KQuery
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.sampling import Sampling
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

MECHANISMS = [
    Weighted(1, 1e-6),
    Zealous(1, 1e-6),
    Zealous(1, 1e-6, notion="probabilistic"),
    Korolova(1, 1e-6),
    SafeLogClick(1, 1e-6),
    SafeLogSession(1, 1e-6),
    Sampling(0.01, epsilon=1),
    Sampling(0.5, sampler="poisson"),
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
    assert [entry.guarantee.unit for entry in ledger.spent().entries] == ["session", "session"]


SESSIONS = SafeLogSession(1, 1e-6, queries_per_session=12, clicks_per_user=1, keep_personal=True)
ANY_QUERY = [
    *(Zealous(1, 1e-6, item=item) for item in ITEMS.values()),
    Korolova(1, 1e-6),
    SafeLogClick(1, 1e-6, transitions=True),
    pytest.param(SESSIONS, marks=pytest.mark.slow),
    KQuery(2),
]


def one_user_pasted(engine: Engine) -> SearchLog:
    """12 queries of 100,000 characters in one session would be gigabytes of subsequences."""
    queries = [f"{i} " + text * 25_000 for i in range(6) for text in ("a.b ", "Öl ä")]
    times = pa.array([datetime(2024, 5, 1, 12, i) for i in range(12)] + [datetime(2024, 5, 1)], pa.timestamp("us"))
    users = ["pasted"] * 12 + ["typed"]
    table = pa.table({"user": users, "query": [*queries, "shoe"], "time": times, "url": ["u"] * 13})
    return SearchLog(engine.load(table), engine)


@pytest.mark.parametrize("mechanism", ANY_QUERY, ids=lambda mechanism: f"{mechanism.method} {mechanism.plan(2).item}")
def test_very_long_queries_end_no_run(duckdb_engine: Engine, mechanism: Mechanism) -> None:
    assert mechanism.release(one_user_pasted(duckdb_engine)).table.num_rows == 0


@pytest.mark.spark
def test_very_long_queries_end_no_run_on_spark(spark_engine: Engine) -> None:
    assert SESSIONS.release(one_user_pasted(spark_engine)).table.num_rows == 0


PAYING = [mechanism for mechanism in MECHANISMS if mechanism.plan(10).guarantee.is_private]


class Spying(DuckDBEngine):
    """Notes before each query how many releases the ledger has recorded."""

    ledger: Ledger | None = None
    recorded: ClassVar[list[int]] = []

    def note(self) -> None:
        if self.ledger is not None:
            self.recorded.append(len(Ledger.open(self.ledger.path).spent().entries))

    def stage(self, table: ir.Table) -> ir.Table:
        self.note()
        return super().stage(table)

    def fetch(self, table: ir.Table) -> pa.Table:
        self.note()
        return super().fetch(table)


@pytest.mark.parametrize("mechanism", PAYING, ids=lambda mechanism: mechanism.method)
def test_a_release_is_recorded_before_anything_is_computed(
    tmp_path: Path, mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing starts with the entry on the disk, as another process would read it there."""
    engine = Spying()
    log = replace(sessions(engine), unit="user")
    engine.ledger = Ledger.open(tmp_path / "account", budget_epsilon=9, budget_delta=0.1, neighbours="replace-one")
    publish = type(mechanism).publish

    def watched(*given: Any) -> Any:
        Spying.recorded.clear()
        return publish(*given)

    monkeypatch.setattr(type(mechanism), "publish", watched)
    released = mechanism.release(log, ledger=engine.ledger)
    assert Spying.recorded, "a release asks the engine something"
    assert set(Spying.recorded) == {1}
    assert released.entry is not None
    assert released.entry.status == "reserved"
    engine.close()


def test_a_release_that_fails_while_it_is_made_is_paid(tmp_path: Path, duckdb_engine: Engine) -> None:
    class Fails(Zealous):
        def publish(self, *given: Any) -> Any:
            raise MemoryError

    ledger = Ledger.open(tmp_path / "account", budget_epsilon=9, budget_delta=0.1)
    with pytest.raises(MemoryError):
        Fails(1, 1e-6).release(sessions(duckdb_engine), ledger=ledger)
    assert [entry.status for entry in ledger.spent().entries] == ["reserved"]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.method)
def test_a_log_whose_users_took_rows_from_each_other_is_refused(duckdb_engine: Engine, mechanism: Mechanism) -> None:
    """Its record would take as given what is known to be false; a bad row that took only itself is left out."""
    own, others = Problem("bad time", 1), Problem("broken quotes", 1, and_more=True)
    mechanism.release(replace(sessions(duckdb_engine), problems=(own,)))
    with pytest.raises(InputError, match="left out at least 1 row: broken quotes, so no guarantee would hold"):
        mechanism.release(replace(sessions(duckdb_engine), problems=(own, others)))
