"""The method `synthetic`: a log with the columns of the one that it stands for, at an (ε,δ) that means something."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from math import sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.parameters import Declared, Delta, Epsilon, NeighboursKind
from searchveil.publish.plan import Plan, Recorded, Settings, given
from searchveil.publish.release import Release
from searchveil.publish.spread import gaussian_below
from searchveil.publish.synthetic import record
from searchveil.publish.synthetic.budget import CANDIDATES, SHARES, Budget
from searchveil.publish.synthetic.chances import projected
from searchveil.publish.synthetic.sampler import sample, schema_of
from searchveil.publish.synthetic.searches import Period
from searchveil.publish.synthetic.statistics import Measuring, Statistics
from searchveil.publish.synthetic.texts import Tail, escaped
from searchveil.scratch import Scratch

ITEM = "log"
LONGEST_PERIOD = 36_600  # days
MOST_MEMORY = 2_400_000_000  # bytes for the engine, beside what the rounds hold
CAVEATS = (
    "The users, sessions and searches of data are invented: drawn from noisy statistics, which are in statistics.json. "
    "No single one of them means anything, and none is a person's",
    "What was measured: which queries, clicks, transitions, words, word pairs and results many users share, and how "
    "often; sessions of a user, searches of a session, hours, days, gaps, moves between queries, clicks of a search, "
    "ranks. Whatever follows from none of these is independent in the data, and says nothing about the log",
    "Real texts are the queries of queries, the results of clicks, and the words and urls in statistics.json. Other "
    "queries are put together of such words; ~ and a number stand for words that are not known, and "
    "http://unknown.invalid/ for all results that are not. A real word that begins with ~ has it twice in the tables",
    "Counts in queries, clicks and transitions are noisy sums of occurrences to which a user of many adds less than "
    "she has; take them, and not counts of the invented rows, where counts are wanted",
)


@dataclass(frozen=True, kw_only=True)
class SyntheticSettings(Settings):
    budget: Budget
    tail: Tail
    scale: float
    period: Period | None

    @property
    def noise_below(self) -> dict[str, int]:
        """Of the tables of counts. A query's is the sum of two cells: its searches with and without a click."""
        cells = {"queries": ("volume", 2), "clicks": ("pair_volume", 1), "transitions": ("transition_volume", 1)}
        return {
            table: gaussian_below(self.budget.deviation(statistic) * sqrt(number))
            for table, (statistic, number) in cells.items()
        }

    def to_json(self) -> dict[str, Any]:
        budget = self.budget
        return given(
            sigma=budget.sigma,
            thresholds=budget.thresholds,
            candidates_per_user=CANDIDATES,
            shares=SHARES,
            lengths={name: budget.length(name) for name in SHARES if name not in CANDIDATES},
            first_day=None if self.period is None else self.period.first.isoformat(),
            last_day=None if self.period is None else self.period.last.isoformat(),
            tail=self.tail,
            scale=self.scale,
        )


@dataclass(frozen=True, repr=False)
class Synthetic(Mechanism[SyntheticSettings]):
    """Publish a log of invented users, whose searches and clicks are drawn from noisy statistics of the real ones.

    The data have the columns of the log. A log with times needs `from_` and `to`, which are public: rows of other days
    are left out. Queries that many share come with their texts; `tail` says what stands for the others. `scale` is how
    many users are drawn for each of the log's. `searchveil resample` draws again, for free.

    Proof: docs/guarantees/synthetic.md.

    >>> sv.Synthetic(epsilon=4, delta=1e-6, from_="2024-05-01", to="2024-05-31").plan().guarantee.is_private
    True
    """

    method: ClassVar[str] = "synthetic"
    by_words: ClassVar[bool] = True
    notions: ClassVar[tuple[Notion, ...]] = ("approximate",)
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 4, "delta": 1e-6, "from_": "2024-03-01", "to": "2024-05-31"}

    epsilon: Epsilon
    delta: Delta
    from_: Annotated[str | None, Declared("The first day, as in 2006-03-01. Never read off the log.")] = None
    to: Annotated[str | None, Declared("The last day, as in 2006-05-31. Never read off the log.")] = None
    tail: Annotated[
        Tail, Declared("Queries that are not named: invented of known words, a token as ~123, or left out.")
    ] = "invented"
    scale: Annotated[float, Declared("Users drawn for each of the log's.", above=0, most=100, example=1)] = 1.0
    neighbours: NeighboursKind = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.from_ is None) != (self.to is None):
            missing = "to" if self.to is None else "from_"
            raise InputError("a period has two ends", parameter=missing, instead="add " + setting(missing))
        if self.from_ is not None and self.to is not None:
            days = (_day("to", self.to) - _day("from_", self.from_)).days + 1
            if not 1 <= days <= LONGEST_PERIOD:
                raise InputError(
                    setting("to") + f" must be a day from {self.from_} on, within a hundred years, not {self.to}",
                    parameter="to",
                    value=self.to,
                )

    @property
    def period(self) -> Period | None:
        if self.from_ is None or self.to is None:
            return None
        return Period(_day("from_", self.from_), _day("to", self.to))

    @cached_property
    def _budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta, self.neighbours)

    def planned(self, log: SearchLog | int | None) -> Plan[SyntheticSettings]:
        budget = self._budget
        settings = SyntheticSettings(budget=budget, tail=self.tail, scale=self.scale, period=self.period)
        public = [AT_LEAST_TWO_USERS, "which of the columns time, rank and url the log has"]
        if self.period is not None:
            public.append("the first and the last day")
        guarantee = Guarantee(
            notion="approximate",
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            proof="docs/guarantees/synthetic.md",
            assumed_public=tuple(public),
            caveats=CAVEATS,
            mu=budget.mu,
            mu_delta=budget.mu_delta,
        )
        return Plan(self.method, ITEM, settings, guarantee, counts="occurrences")

    def check(self, log: SearchLog) -> None:
        if "time" in log.table.columns and self.period is None:
            raise InputError(
                f"{log.source} has times, and which days a release is about must be said, not read off the log",
                parameter="from_",
                instead="add " + setting("from_", "2006-03-01") + " and " + setting("to", "2006-05-31"),
            )

    def publish(self, log: SearchLog, plan: Plan[SyntheticSettings], source: Source, progress: Progress) -> Published:
        settings = plan.settings
        with log.engine.sharing_memory(MOST_MEMORY), log.engine.forgetting_staged():
            measured = Measuring.start(log, settings.period, settings.budget, source, progress).statistics()
        tables = tables_of(measured, settings.tail, settings.scale, source.seed(), progress)
        return Published(tables, figures=figures_of(measured), documents={record.NAME: record.to_json(measured)})


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        raise InputError(
            setting(name) + f" must be a day as in 2006-03-01, not {text!r}", parameter=name, value=text
        ) from None


def figures_of(statistics: Statistics) -> dict[str, Any]:
    named = {domain: len(getattr(statistics, domain)) for domain in CANDIDATES}
    return {"named": named}


def tables_of(
    statistics: Statistics, tail: Tail, scale: float, seed: int, progress: Progress = silent
) -> dict[str, pa.Table]:
    """The drawn log, and the noisy counts for people."""
    rows = on_disk(sample(statistics, seed=seed, scale=scale, tail=tail, progress=progress), schema_of(statistics))
    queries, noisy = escaped(statistics.queries), statistics.noisy
    tables = {"data": rows, "queries": _counted(noisy["volume"].reshape(-1, 2).sum(axis=1), query=queries)}
    if "pair_volume" in noisy:
        numbers = [number for number, _ in statistics.pairs]
        tables["clicks"] = _counted(
            noisy["pair_volume"][:-1], query=[queries[n] for n in numbers], url=[url for _, url in statistics.pairs]
        )
    if "transition_volume" in noisy:
        first, second = ([queries[pair[side]] for pair in statistics.transitions] for side in (0, 1))
        tables["transitions"] = _counted(noisy["transition_volume"][:-1], query=first, next=second)
    return tables


def _counted(noisy: Any, **columns: list[str]) -> pa.Table:
    counts = np.maximum(1, np.rint(projected(noisy))).astype(np.int64)
    arrays: dict[str, Any] = {name: pa.array(texts, pa.string()) for name, texts in columns.items()}
    table = pa.table(arrays | {"count": counts})
    return table.sort_by([("count", "descending"), *((name, "ascending") for name in columns)])


def on_disk(blocks: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """The blocks as one table that lies in a file, of which memory holds what is looked at."""
    with Scratch() as folder:  # the file has no name any more when this ends, and is gone with the table
        path = str(folder / "rows.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for block in blocks:
                writer.write_table(block)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()


def resample(
    release: Release, *, seed: int | None, scale: float = 1.0, tail: Any = "invented", progress: Progress = silent
) -> Release:
    """Draw again from the published statistics: post-processing, which costs nothing and needs no log."""
    if record.NAME not in release.documents:
        raise InputError(
            f"{release.source} is no synthetic log: it has no {record.NAME}.json",
            instead="make one with " + setting("method", "synthetic"),
        )
    Synthetic(1.0, 0.5, tail=tail, scale=scale)  # refuses what the method would
    statistics = record.from_json(release.documents[record.NAME], release.source)
    tables = tables_of(statistics, tail, scale, Source().seed() if seed is None else seed, progress)
    noise = release.plan.settings.noise_below
    settings = Recorded.of({**release.plan.parameters, "tail": tail, "scale": scale}, noise)
    return Release(tables, replace(release.plan, settings=settings), documents=release.documents)
