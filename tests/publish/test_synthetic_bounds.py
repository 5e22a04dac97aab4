"""Adding any user changes every integer statistic by at most its bound, given equal outcomes; mistakes break that."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_logs import PERIOD, START, GivenOutcomes, History, Row, faults, given_outcomes, log_of

from searchveil.engine import Engine
from searchveil.log import SearchLog
from searchveil.publish.synthetic import bins
from searchveil.publish.synthetic.budget import CANDIDATES, LENGTHS, SHARES, Budget, share_of
from searchveil.publish.synthetic.searches import Period, Searches
from searchveil.publish.synthetic.statistics import Floats
from searchveil.publish.weighted import COUNT_UNIT

QUERIES = ["a", "b", "A ", "one two", "one two three", "two three one two", "lone", "one lone", "~1", "x" * 30]
URLS = [None, "http://x", "http://y", "http://z", "http://lone"]
ROWS = st.tuples(st.integers(0, 14 * 24 * 60 - 1), st.sampled_from(QUERIES), st.sampled_from(URLS))
HISTORIES = st.lists(ROWS, min_size=1, max_size=12)

OTHERS: dict[str, History] = {
    "first": [(10, "a", "http://x"), (12, "b", None), (5000, "one two", "http://z")],
    "second": [(10, "b", "http://y"), (11, "b", "http://y"), (12, "a", None), (70, "two three", None)],
    "third": [(9000, "lone", "http://lone"), (9001, "a", "http://x"), (9002, "b", "http://z")],
}
HEAVY: History = [
    *((60 * i, "a", "http://x") for i in range(150)),
    *((60 * i + 1, "b", "http://y") for i in range(150)),
    *((60 * i + j, f"one two three {i} {j}", "http://z") for i in range(100) for j in range(2, 6)),
]
EARLIEST: History = [(0, "a", None)]


@pytest.fixture(scope="module")
def before(duckdb_engine: Engine) -> GivenOutcomes:
    """The statistics of the others, which nobody changes."""
    return given_outcomes(log_of(OTHERS, duckdb_engine))


@pytest.fixture(scope="module")
def with_heavy(duckdb_engine: Engine) -> GivenOutcomes:
    return given_outcomes(log_of({**OTHERS, "added": HEAVY}, duckdb_engine))


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_adding_a_user_changes_every_statistic_by_at_most_its_bound(
    duckdb_engine: Engine, before: GivenOutcomes, history: list[Row]
) -> None:
    changes(before, given_outcomes(log_of({**OTHERS, "added": history}, duckdb_engine)))


@pytest.mark.slow
def test_so_does_a_heavy_user(before: GivenOutcomes, with_heavy: GivenOutcomes) -> None:
    assert_felt(changes(before, with_heavy))


@pytest.mark.slow
def test_so_does_the_earliest_user(duckdb_engine: Engine, before: GivenOutcomes) -> None:
    assert_felt(changes(before, given_outcomes(log_of({**OTHERS, "added": EARLIEST}, duckdb_engine))))


def assert_felt(changes: dict[str, Any]) -> None:
    assert all(change.any() for name, change in changes.items() if name in ("sessions", "days", "moves"))


def changes(before: GivenOutcomes, after: GivenOutcomes) -> dict[str, Any]:
    assert set(after.totals) == set(SHARES) - set(CANDIDATES), "every statistic is looked at"
    assert set(after.held) == set(CANDIDATES), "and every domain"
    assert faults(before, after, "added") == []
    return {name: totals - before.totals[name] for name, totals in after.totals.items()}


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["clicks", "volume", "gaps", "holders"])
def test_a_heavy_user_comes_near_the_bound(before: GivenOutcomes, with_heavy: GivenOutcomes, statistic: str) -> None:
    """Or else a bound that is never felt would be tested by nobody."""
    change = changes(before, with_heavy)[statistic]
    bound = Budget.of(1.0, 1e-6, "add-remove").squared_length(statistic)
    assert sum(entry * entry for entry in change.tolist()) > 0.5 * bound


class MeanBeforeNoise(GivenOutcomes):
    """Amounts are divided by what all users have together: one user moves everybody's."""

    def histogram(self, statistic: str, cells: ir.Table, size: int) -> Floats:
        counts = cells.group_by("_place").agg(n=cells.count())
        found = self.log.engine.fetch(counts)
        totals = np.zeros(size)
        totals[found["_place"].to_numpy()] = found["n"].to_numpy()
        shares = totals / max(totals.sum(), 1) * COUNT_UNIT
        return self.measured(statistic, np.rint(shares).astype(np.int64))


class OwnDates(GivenOutcomes):
    """Days count from the first that is in the log."""

    def _of_times(self, searches: Searches) -> None:
        first = self.log.engine.value(searches.sessions["at"].min()) // 86400
        start = START.date() + timedelta(days=int(first) - (START.date() - type(START.date())(1970, 1, 1)).days)
        object.__setattr__(self, "period", Period(start, start + timedelta(days=13)))
        super()._of_times(searches)


class Unscaled(GivenOutcomes):
    """Occurrences are added up as they are."""

    def histogram(self, statistic: str, cells: ir.Table, size: int) -> Floats:
        found = self.log.engine.fetch(cells.group_by("_place").agg(n=cells.count()))
        totals = np.zeros(size, np.int64)
        totals[found["_place"].to_numpy()] = found["n"].to_numpy() * COUNT_UNIT
        return self.measured(statistic, totals)


class TrueVocabulary(GivenOutcomes):
    """All words of the log are the domain, not those that were named."""

    def named(self, domain: str, held: ir.Table, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
        named = super().named(domain, held, columns)
        if domain != "words":
            return named
        return sorted({row[1:] for row in self.held[domain]})


@dataclass(frozen=True)
class Mistake:
    kind: type[GivenOutcomes]
    history: History
    statistic: str


MISTAKES = [
    Mistake(MeanBeforeNoise, HEAVY, "hours: an entry fell"),
    Mistake(OwnDates, EARLIEST, "days: an entry fell"),
    Mistake(Unscaled, HEAVY, "volume: longer than its bound"),
    Mistake(TrueVocabulary, [(3, "unheard word", None)], "word_volume: other cells"),
]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.kind.__name__)
def test_mistakes_are_found(duckdb_engine: Engine, mistake: Mistake) -> None:
    late: dict[str, History] = {
        user: [(minute + 1440, query, url) for minute, query, url in history] for user, history in OTHERS.items()
    }
    before = given_outcomes(log_of(late, duckdb_engine), mistake.kind)
    after = given_outcomes(log_of({**late, "added": mistake.history}, duckdb_engine), mistake.kind)
    assert mistake.statistic in faults(before, after, "added")


@pytest.mark.slow
def test_rows_of_other_days_count_nowhere(duckdb_engine: Engine, before: GivenOutcomes) -> None:
    outside: History = [(-1, "a", "http://x"), (14 * 24 * 60, "b", "http://y")]
    after = given_outcomes(log_of({**OTHERS, "added": outside}, duckdb_engine))
    assert all((totals == before.totals[name]).all() for name, totals in after.totals.items())
    assert after.held == before.held


@pytest.mark.slow
def test_days_before_1970_are_days_as_others(duckdb_engine: Engine, before: GivenOutcomes) -> None:
    """The same log, whole weeks earlier, has the same statistics: also of a period in which 1970 begins."""
    earlier = timedelta(weeks=2827)
    period = Period(PERIOD.first - earlier, PERIOD.last - earlier)
    assert period.first.year == 1969
    assert period.last.year == 1970
    there = given_outcomes(log_of(OTHERS, duckdb_engine, START - earlier), period=period)
    assert {name: totals.tolist() for name, totals in there.totals.items()} == {
        name: totals.tolist() for name, totals in before.totals.items()
    }


@pytest.mark.slow
def test_the_last_second_of_the_period_is_in_its_last_hour(duckdb_engine: Engine) -> None:
    almost = START - timedelta(milliseconds=300)  # an engine that rounds would put it into the next second
    totals = given_outcomes(log_of({"one": [(14 * 24 * 60, "a", None)]}, duckdb_engine, almost)).totals
    assert np.flatnonzero(totals["days"]).tolist() == [13]
    assert np.flatnonzero(totals["hours"]).tolist() == [3 * 24 + 23], "a Thursday"


@pytest.mark.slow
@pytest.mark.parametrize("history", [["a"], ["a"] * 30 + ["b", "one two"] * 9], ids=["one row", "many rows"])
def test_a_log_without_times_keeps_the_bounds(duckdb_engine: Engine, history: list[str]) -> None:
    """Searches for one query then have nothing that orders them: enough users that two sorts would differ."""
    others = {f"user {n}": ["a", "b", "one two"] * 4 for n in range(3000)}
    before = given_outcomes(without_times(others, duckdb_engine))
    after = given_outcomes(without_times({**others, "added": history}, duckdb_engine))
    assert faults(before, after, "added") == []
    sessions = before.totals["lengths"].reshape(len(bins.CLASSES), -1)[0]
    assert np.flatnonzero(sessions).tolist() == [bins.LENGTHS.index(10)], "each has one session, of 12 searches"


def without_times(histories: dict[str, list[str]], engine: Engine) -> SearchLog:
    rows = [(user, query) for user, queries in histories.items() for query in queries]
    table = pa.table({name: pa.array([row[i] for row in rows]) for i, name in enumerate(("user", "query"))})
    return SearchLog(engine.stage(engine.load(table)), engine)


@pytest.mark.spark
def test_the_statistics_are_the_same_on_spark(
    duckdb_engine: Engine, spark_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And they are worked out there: what comes back are sums by cells, and no row of anybody."""
    fetched: list[tuple[str, ...]] = []
    fetch = spark_engine.fetch

    def watched(table: ir.Table) -> pa.Table:
        fetched.append(tuple(table.columns))
        return fetch(table)

    monkeypatch.setattr(spark_engine, "fetch", watched)
    here, there = (given_outcomes(log_of(OTHERS, engine)) for engine in (duckdb_engine, spark_engine))
    back = [columns for columns in fetched if "user" not in columns]  # the others are those of the test itself
    assert set(back) == {("_place", "total", "longest"), ("users", "queries")}
    assert len(back) == len(SHARES) - len(CANDIDATES)
    assert {name: totals.tolist() for name, totals in there.totals.items()} == {
        name: totals.tolist() for name, totals in here.totals.items()
    }
    assert there.held == here.held


@pytest.mark.slow
def test_moves_and_states_by_hand(duckdb_engine: Engine) -> None:
    """first a (new, named), the same again, b (new), then a once more; next session: a, then a new other query."""
    history: History = [
        (0, "a", None),
        (1, "a", None),
        (2, "b", None),
        (3, "a", None),
        (90, "a", None),
        (91, "new", None),
    ]
    totals = given_outcomes(log_of({"one": history}, duckdb_engine)).totals["moves"].reshape(4, 4, 5)
    found = {
        (int(state), int(move)): int(n) // COUNT_UNIT
        for state, move in np.argwhere(totals[0])
        for n in [totals[0, state, move]]
    }
    assert found == {(0, 3): 1, (2, 0): 1, (2, 3): 1, (2, 1): 1, (1, 1): 1, (2, 4): 1}


def test_the_shares_are_the_whole_account() -> None:
    assert sum(share_of(name) for name in SHARES) == 1
    assert set(LENGTHS) | {"volume"} == set(SHARES) - set(CANDIDATES)


@pytest.mark.parametrize(("value", "place"), [(0, 0), (1, 0), (2, 1), (3, 2), (50, 2)])
def test_places_in_bins(duckdb_engine: Engine, value: int, place: int) -> None:
    assert duckdb_engine.value(bins.place_in(ibis.literal(value), (1, 2, 3))) == place
