"""Was it worth it? A release held against the log it came from, by every measure and application that it serves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from searchveil.errors import InputError
from searchveil.extras import require_package
from searchveil.items import ITEMS
from searchveil.lab.applications import APPLICATIONS, Application, application_named
from searchveil.lab.measures import MEASURES, measure_named
from searchveil.lab.measures.behaviour import pictures
from searchveil.lab.measures.compare import Top, covered_volume, in_both, top_items
from searchveil.lab.measures.count_distribution import distribution
from searchveil.lab.measures.coverage import coverage
from searchveil.lab.split import split
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View, called, columns_of, lacking
from searchveil.lab.words import percent, verdict
from searchveil.log import SearchLog
from searchveil.progress import Progress, silent
from searchveil.publish.release import Release

if TYPE_CHECKING:
    import pandas
    import polars

WARNING = (
    "These figures compare the release with private data. They are not covered by the guarantee: keep them to "
    "yourself, or publish them knowing that they tell something more about the log."
)
IN_SAMPLE = (
    "The searches to test on are those of a fifth of the log's own users, whom the original and the release both saw: "
    "scores are higher than on searches that neither knows."
)
POINTS = 500  # of a chart: as many as an eye can use
EXAMPLES = 8  # of what is in a release, and of what just missed it
DEEPEST = 100_000  # the last rank that charts look at

Scores = dict[str, float]


@dataclass(frozen=True)
class Headline:
    """The answer in short, about the kind of item that was published."""

    items: str  # what they are called
    published: int
    of: int  # different ones in the log
    covered: float  # the share of all searches (or clicks) that is of published ones
    verdict: str
    examples: Sequence[str]  # of what is in, the highest counts first
    missed: Sequence[str]  # the most frequent of what is not: private, for the publisher alone

    @property
    def sentence(self) -> str:
        what = f"{self.published:,} of {self.of:,} different {self.items} were published"
        return f"{self.verdict}: {what}, which are {percent(self.covered)} of all searches."


@dataclass(frozen=True)
class Evaluation:
    """What a release keeps (`measures`), and what it is good for beside the original (`applications`)."""

    applications: Mapping[str, Mapping[str, Scores]]  # name → "original" and "release" → scores
    measures: Mapping[str, Scores]
    skipped: Mapping[str, str]  # name → what there is not
    in_sample: bool
    charts: Mapping[str, Any]
    headline: Headline | None = None
    doubt: str | None = None  # why the release was hardly made of this log

    @property
    def warning(self) -> str:
        parts = [self.doubt, WARNING, IN_SAMPLE if self.in_sample and self.applications else None]
        return " ".join(part for part in parts if part is not None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"warning": self.warning}

    def to_arrow(self) -> pa.Table:
        """Every figure in a row: of what (an application or a measure), its name, and its two sides."""
        from searchveil.lab.report.table import sections

        applications, measures = sections(self.applications, self.measures)
        rows = [
            {"kind": kind, "name": section.name, "figure": row.name, "original": row.original, "release": row.release}
            for kind, found in (("application", applications), ("measure", measures))
            for section in found
            for row in section.rows
        ]
        texts = {name: pa.string() for name in ("kind", "name", "figure")}
        return pa.Table.from_pylist(rows, pa.schema(texts | {"original": pa.float64(), "release": pa.float64()}))

    def to_pandas(self) -> "pandas.DataFrame":
        """Every figure in a row of a DataFrame. Private: it compares with the log."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Every figure in a row of a Polars DataFrame. Private: it compares with the log."""
        require_package("polars")
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _repr_html_(self) -> str:
        """In a notebook: the warning, the verdict, and the figures in words."""
        from searchveil.lab.report.table import in_figures, sections
        from searchveil.publish.notebook import html_table, paragraph

        applications, measures = sections(self.applications, self.measures)
        shown = [
            [section.title, row.title, in_figures(row.original), in_figures(row.release)]
            for section in applications + measures
            for row in section.rows
        ]
        verdict = "" if self.headline is None else paragraph(self.headline.sentence, bold=True)
        table = html_table(["", "figure", "original", "release"], shown)
        return verdict + paragraph(f"Private: {self.warning}") + table


def evaluate(
    release: str | Path | Release,
    log: SearchLog,
    *,
    applications: Sequence[str] | None = None,
    test: SearchLog | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> Evaluation:
    """Compare a release, or its folder, with the log it was made of.

    Every application is tried unless some are named. They are tested on searches of `test`, which should be of users
    that neither the release nor the log has; without it, on those of a fifth of the log's users.

    >>> found = sv.evaluate(sv.Zealous(epsilon=100, delta=1e-6).release(log), log, applications=[])
    >>> found.headline.sentence
    'Good for most uses of frequencies: 2 of 2 different queries were published, which are 100.0 % of all searches.'
    """
    names = list(APPLICATIONS) if applications is None else list(applications)
    running = {name: application_named(name)() for name in names}  # a wrong name is an error before any work
    if test is not None and test.engine is not log.engine:
        raise InputError("the test log and the log are in different engines; read both with the same engine")
    release = Release.read(release)
    original, released = View.of_log(log), View.of_release(release, log.engine)
    if not released.tables:
        raise InputError("the release has no table that can be compared with a log: no counts of queries or clicks")

    doubt = _doubt(original, released, release)
    with log.engine.sharing_memory():  # with the click graph
        measured = original.counted_as(released)
        measures, unmeasured = _measure(measured, released, progress)
        scores, untried = _try(running, original, released, test or split(log, seed=seed)[1], seed, progress)
        progress("drawing charts")
        table = _charted(release)
        charts = _charts(measured, released, table)
        if behaviour := pictures(measured, released):
            charts["behaviour"] = behaviour
        headline = _headline(original, released, table)
    return Evaluation(scores, measures, unmeasured | untried, test is None, charts, headline, doubt)


def _doubt(original: View, released: View, release: Release) -> str | None:
    """What is published comes out of the log, unless it may come from a public pool: nothing else can be in a release.

    A release holds no trace of its log by which the two could be told to belong together; this tells some that do not.
    """
    shared = in_both(original, released)
    if not shared or release.plan.settings.pool_size is not None or release.plan.method == "synthetic":
        return None
    table = shared[0]
    published = released.tables[table]
    absent = released.engine.value(published.anti_join(original.tables[table], columns_of(table)).count())
    if not absent:
        return None
    return (
        f"{absent:,} of {released.engine.value(published.count()):,} published {called(table)} are not in the log: the "
        "release was made of another log, or this one is read in another way (format, columns, normalisation)."
    )


def _measure(original: View, release: View, progress: Progress) -> tuple[dict[str, Scores], dict[str, str]]:
    """The figures by measure, and why there are none of the others."""
    measures: dict[str, Scores] = {}
    skipped: dict[str, str] = {}
    for name in MEASURES:
        measure = measure_named(name)()
        if missing := lacking(measure.needs, original, release):
            skipped[name] = missing
            continue
        progress(f"measuring {name.replace('-', ' ')}")
        if figures := measure.measure(original, release):
            measures[name] = figures
        else:
            skipped[name] = "the log and the release share nothing that it could compare"
    return measures, skipped


def _try(
    running: Mapping[str, Application], original: View, release: View, test: SearchLog, seed: int, progress: Progress
) -> tuple[dict[str, dict[str, Scores]], dict[str, str]]:
    """The scores by application, and why there are none of the others."""
    reasons = {name: lacking(application.needs, original, release) for name, application in running.items()}
    skipped = {name: missing for name, missing in reasons.items() if missing is not None}
    able = {name: application for name, application in running.items() if name not in skipped}
    if not able:
        return {}, skipped
    if not test.engine.value(test.table.limit(1).count()):
        return {}, skipped | dict.fromkeys(able, f"{test.source} has no searches")
    progress("drawing the searches to test on")
    asked = TestSet.draw(test, original=original, seed=seed)
    scores: dict[str, dict[str, Scores]] = {}
    for name, application in able.items():
        progress(f"trying {name.replace('-', ' ')}")
        scores[name] = {"original": application.run(original, asked), "release": application.run(release, asked)}
    return scores, skipped


def _headline(original: View, released: View, table: str) -> Headline | None:
    shared = in_both(original, released)
    table = table if table in shared else next(iter(shared), "")
    if not table:
        return None
    columns, engine = columns_of(table), original.engine
    every, published = original.tables[table], released.tables[table]
    covered = covered_volume(original, released)

    def texts(counts: ir.Table) -> tuple[str, ...]:
        first = engine.fetch(counts.order_by([ibis.desc("count"), *columns]).limit(EXAMPLES))
        first = first.sort_by([("count", "descending"), *((name, "ascending") for name in columns)])
        return tuple(" → ".join(str(row[name]) for name in columns) for row in first.to_pylist())

    return Headline(
        called(table),
        int(engine.value(published.count())),
        int(engine.value(every.count())),
        covered,
        verdict(covered),
        texts(published),
        texts(every.anti_join(published, columns)),
    )


def _charted(release: Release) -> str:
    """The table that the charts are about; of sessions the transitions can be compared."""
    item = release.plan.item
    return "transition" if item == "session" else ITEMS[item].table if item in ITEMS else ""


def _charts(original: View, release: View, table: str | None) -> dict[str, Any]:
    """The data of the charts, about the kind of item that was published, or the first that can be compared."""
    shared = in_both(original, release)
    table = table if table in shared else next(iter(shared), None)
    if table is None:
        return {"item": None, "count_distribution": {"original": [], "release": []}, "coverage": [], "frequency": []}
    top = top_items(original, release, table, DEEPEST)
    return {
        "item": table,
        "count_distribution": {
            "original": [list(point) for point in distribution(original, table)],
            "release": [list(point) for point in distribution(release, table)],
        },
        "coverage": [[j, coverage(top.first(j))] for j in _spread(len(top))],
        "frequency": _frequency(top),
    }


def _frequency(top: Top) -> list[list[float]]:
    """(original share, release share) of published items; what is missing is the coverage chart's to show."""
    places = np.flatnonzero(top.published)
    original, release = top.original_shares[places], top.release_shares[places]
    return [[float(original[j - 1]), float(release[j - 1])] for j in _spread(len(places))]


def _spread(last: int) -> Iterable[int]:
    """Up to POINTS different ranks from the first to the last, dense where ranks are low, as on a logarithmic axis."""
    if last <= POINTS:
        return range(1, last + 1)
    return [int(rank) for rank in np.unique(np.geomspace(1, last, POINTS).round())]
