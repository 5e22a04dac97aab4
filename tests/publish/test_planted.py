"""The personal queries planted in the demo log never come out: two hundred releases under fixed keys."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine, open_engine
from searchveil.log import SearchLog
from searchveil.log.demo import planted_personal_queries, write_demo
from searchveil.log.read import read_log
from searchveil.progress import silent
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.zealous import Zealous

USERS, SEED, RELEASES = 2000, 1, 200

# An ε so large that much is published and the threshold is near: what is planted has to be kept in by the threshold.
EPSILON, DELTA = 10.0, 1e-6
MECHANISMS: dict[str, Mechanism] = {
    "zealous": Zealous(EPSILON, DELTA),
    "zealous, probabilistic": Zealous(EPSILON, DELTA, notion="probabilistic"),
    "zealous, indistinguishable": Zealous(EPSILON, DELTA, notion="indistinguishable"),
    "zealous, clicks": Zealous(EPSILON, DELTA, item="click"),
    "zealous, keywords": Zealous(EPSILON, DELTA, item="keyword"),
    "zealous, replace-one": Zealous(EPSILON, DELTA, neighbours="replace-one"),
    "korolova": Korolova(EPSILON, DELTA),
    "korolova, as published": Korolova(EPSILON, DELTA, variant="published"),
}


@dataclass(frozen=True)
class Planted:
    """What must not come out: whole texts, and the words of them that nobody else uses."""

    texts: frozenset[str]
    words: frozenset[str]

    @classmethod
    def in_the_log(cls, log: SearchLog) -> "Planted":
        texts = frozenset(map(str, planted_personal_queries(USERS, SEED)["query"].to_pylist()))
        rows: list[Any] = log.engine.fetch(log.table.select("query").distinct())["query"].to_pylist()
        assert texts <= set(rows), "every planted query is in the log"
        elsewhere = {word for query in rows if query not in texts for word in query.split()}
        return cls(texts, frozenset(word for text in texts for word in text.split()) - elsewhere)

    def found_in(self, table: pa.Table) -> set[str]:
        values = {str(value) for name in table.column_names if name != "count" for value in table[name].to_pylist()}
        return values & (self.texts | self.words if "keyword" in table.column_names else self.texts)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchLog]:
    path: Path = write_demo(tmp_path_factory.mktemp("planted") / "log.parquet", users=USERS, seed=SEED).path
    engine: Engine = open_engine()
    read = read_log(path, engine=engine)
    yield replace(read, table=engine.stage(read.table))
    engine.close()


@pytest.fixture(scope="module")
def planted(log: SearchLog) -> Planted:
    return Planted.in_the_log(log)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_planted_queries_stay_in(log: SearchLog, planted: Planted, name: str) -> None:
    published = 0
    for number in range(RELEASES // len(MECHANISMS)):
        release = MECHANISMS[name].release(log, source=keyed(f"{name} {number}".encode()))
        for table in release.tables.values():
            assert planted.found_in(table) == set()
            published += table.num_rows
    assert published > 0, "releases of nothing would show nothing"


def test_there_are_two_hundred_releases() -> None:
    assert RELEASES // len(MECHANISMS) * len(MECHANISMS) == RELEASES


@pytest.mark.parametrize("name", MECHANISMS)
def test_without_the_threshold_planted_queries_would_come_out(log: SearchLog, planted: Planted, name: str) -> None:
    """The control: the same mechanism with the threshold 1, which nobody can ask for."""
    mechanism, source = MECHANISMS[name], keyed(name.encode())
    plan = mechanism.prepare(mechanism.plan(log), source)
    selection = replace(plan.settings.selection, first_threshold=1, threshold=1)
    careless = replace(plan, settings=replace(plan.settings, selection=selection))
    tables = mechanism.publish(log, careless, source, silent).tables
    assert any(planted.found_in(table) for table in tables.values())
