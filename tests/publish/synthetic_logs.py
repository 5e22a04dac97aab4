"""Small logs for the tests of synthetic logs, and a way to measure them with outcomes that the test chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import ibis.expr.types as ir
import pyarrow as pa
from keyed import keyed

from searchveil.engine import Engine
from searchveil.log import SearchLog
from searchveil.privacy.noise import Integers
from searchveil.progress import silent
from searchveil.publish.synthetic.budget import Budget
from searchveil.publish.synthetic.searches import Period
from searchveil.publish.synthetic.statistics import Floats, Measuring

PERIOD = Period(date(2024, 3, 1), date(2024, 3, 14))
START = datetime(2024, 3, 1)

Row = tuple[int, str, str | None]  # minutes after the start, query, clicked url
History = Sequence[Row]

TYPES: dict[str, Any] = {"time": pa.timestamp("us"), "rank": pa.int64()}


def log_of(histories: Mapping[str, History], engine: Engine, start: datetime = START) -> SearchLog:
    rows = [
        (user, query, start + timedelta(minutes=minutes), None if url is None else len(url) % 30 + 1, url)
        for user, history in histories.items()
        for minutes, query, url in history
    ]
    names = ("user", "query", "time", "rank", "url")
    table = {name: pa.array([row[i] for row in rows], TYPES.get(name, pa.string())) for i, name in enumerate(names)}
    return SearchLog(engine.stage(engine.load(pa.table(table))), engine)


@dataclass(frozen=True, eq=False)
class GivenOutcomes(Measuring):
    """Measures without noise, and takes given items for the named ones: two logs with equal outcomes so far."""

    outcomes: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    totals: dict[str, Integers] = field(default_factory=dict)
    held: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)

    def named(self, domain: str, held: ir.Table, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
        rows = self.log.engine.fetch(held.select("user", *columns).distinct())
        self.held[domain] = set(zip(*(map(str, rows[name].to_pylist()) for name in ("user", *columns)), strict=True))
        return sorted(self.outcomes[domain])

    def measured(self, statistic: str, totals: Integers) -> Floats:
        self.totals[statistic] = totals
        return totals.astype(float)


OUTCOMES: dict[str, list[tuple[str, ...]]] = {
    "queries": [("a",), ("b",), ("nobody's",)],
    "pairs": [("0", "http://x"), ("1", "http://y")],
    "transitions": [("0", "1"), ("1", "0")],
    "words": [("one",), ("two",), ("three",)],
    "bigrams": [("0", "1"), ("1", "2"), ("2", "0")],
    "urls": [("http://y",), ("http://z",)],
}


def given_outcomes(log: SearchLog, kind: type[GivenOutcomes] = GivenOutcomes, period: Period = PERIOD) -> GivenOutcomes:
    budget = Budget.of(1.0, 1e-6, "add-remove")
    made = kind(log, period, budget, keyed(b"outcomes"), silent, budget.account(), outcomes=OUTCOMES)
    made.statistics()
    return made


def faults(before: GivenOutcomes, after: GivenOutcomes, user: str) -> list[str]:
    """What one user more may not do to the statistics, and did."""
    found = []
    for statistic, totals in after.totals.items():
        if len(totals) != len(before.totals[statistic]):
            found.append(f"{statistic}: other cells")
            continue
        change = (totals - before.totals[statistic]).tolist()
        if min(change, default=0) < 0:
            found.append(f"{statistic}: an entry fell")
        if sum(entry * entry for entry in change) > before.budget.squared_length(statistic):
            found.append(f"{statistic}: longer than its bound")
    for domain, held in after.held.items():
        if {row for row in held ^ before.held[domain] if row[0] != user}:
            found.append(f"{domain}: somebody else's items changed")
    return found
