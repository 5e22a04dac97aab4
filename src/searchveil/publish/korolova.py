"""Korolova et al. 2009: select queries by a noisy threshold, release noisy counts of them and of public result urls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, ClassVar, Literal

import ibis.expr.types as ir
import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.items import QUERY
from searchveil.items.histogram import bounded_histogram
from searchveil.items.item import normalize_query
from searchveil.items.normal import count_rows
from searchveil.log import SearchLog
from searchveil.privacy import calibrate
from searchveil.privacy.contributions import first_of_each_user
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.progress import Progress
from searchveil.publish.candidates import noisy_candidates, public_candidates
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.parameters import Candidates, Declared, Delta, Epsilon, NeighboursKind
from searchveil.publish.plan import Plan, Selection, Settings, given
from searchveil.publish.threshold import survivors


@dataclass(frozen=True, kw_only=True)
class KorolovaSettings(Settings):
    """`clicks` are counted over public candidates, where there are any."""

    selection: Selection = field()

    def to_json(self) -> dict[str, Any]:
        return given(
            queries_per_user=self.selection.per_user,
            noise_scale=self.selection.noise_scale,
            count_scale=self.selection.count_scale,
            second_threshold=self.selection.threshold,
            clicks_per_user=None if self.clicks is None else self.clicks.per_user,
            click_scale=None if self.clicks is None else self.clicks.noise_scale,
        )


@dataclass(frozen=True, repr=False)
class Korolova(Mechanism[KorolovaSettings]):
    """First `queries_per_user` queries of each user; with `candidates`, also `clicks_per_user` clicks on public urls.

    `variant` "exact" (ours) publishes the noisy count that selected a query and has the exact δ; "published" is the
    paper's: fresh noise for the published count, and its looser formulas. `counting` "occurrences" lets a user's
    repeated query count each time, "users" once.

    Proof: docs/guarantees/korolova.md.

    >>> sv.Korolova(epsilon=100, delta=1e-6).release(log).table["query"].to_pylist()
    ['news', 'weather']
    """

    method: ClassVar[str] = "korolova"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate",)
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 1e-6}

    epsilon: Epsilon
    delta: Delta
    queries_per_user: Annotated[int, Declared("First queries kept of each user.", symbol="d", least=1)] = 5
    clicks_per_user: Annotated[
        int, Declared("With candidates: first clicks kept of each user.", symbol="c", least=1)
    ] = 5
    counting: Annotated[
        Literal["occurrences", "users"], Declared("Whether a user's repeated query counts each time or once.")
    ] = "occurrences"
    variant: Annotated[
        Literal["exact", "published"], Declared("Ours with the exact δ, or the paper's with fresh noise for counts.")
    ] = "exact"
    neighbours: NeighboursKind = "add-remove"
    candidates: Candidates | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "published" and self.counting != "occurrences":
            raise InputError(
                "the published variant counts occurrences",
                parameter="counting",
                value=self.counting,
                instead="leave out " + setting("counting"),
            )

    def planned(self, log: SearchLog | int | None) -> Plan[KorolovaSettings]:
        settings = self._published() if self.variant == "published" else self._exact()
        public = [AT_LEAST_TWO_USERS]
        if self.candidates is not None:
            public.append("the candidate urls of every query")
        guarantee = Guarantee(
            notion="approximate",
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            proof=f"docs/guarantees/korolova.md#{self.variant}",
            assumed_public=tuple(public),
        )
        return Plan(self.method, "query", settings, guarantee, counts=self.counting)

    def _scale(self, per_user: int, shares: int) -> float:
        """The noise of a part that changes by `per_user` and may cost one of so many equal shares of ε, exactly."""
        return calibrate.scale_for(self.epsilon, shares * calibrate.changed_counts(per_user, self.neighbours))

    def _exact(self) -> KorolovaSettings:
        """One noise for selecting and counting; with clicks, half of ε for each."""
        shares = 1 if self.candidates is None else 2
        scale = self._scale(self.queries_per_user, shares)
        smallest = (
            calibrate.occurrences_threshold if self.counting == "occurrences" else calibrate.approximate_threshold
        )
        threshold = smallest(scale, self.delta, self.queries_per_user)
        selection = Selection(self.queries_per_user, scale, threshold)
        return KorolovaSettings(selection=selection, clicks=self._candidates_counted(shares))

    def _published(self) -> KorolovaSettings:
        """ε = d ln α + d/b_q + c/b_c in equal parts, K from δ = (d/2)e^((d−K)/b), not below the turning point of α."""
        shares = 2 if self.candidates is None else 3
        d = self.queries_per_user
        scale = self._scale(d, shares)
        by_delta = calibrate.published_threshold(scale, self.delta, d)
        # With discrete noise the continuous formulas are safe for an integer K and "noisy > K".
        k = max(ceil(by_delta), ceil(calibrate.turning_point(scale)), d)
        selection = Selection(d, scale, k + 1, count_scale=scale)
        return KorolovaSettings(selection=selection, clicks=self._candidates_counted(shares))

    def _candidates_counted(self, shares: int) -> Selection | None:
        """Of public candidates all whose noisy count is positive are published."""
        if self.candidates is None:
            return None
        return Selection(self.clicks_per_user, self._scale(self.clicks_per_user, shares), threshold=1, public=True)

    def check(self, log: SearchLog) -> None:
        if self.counting == "occurrences":
            log.require("time", why="counting a user's first queries", or_add=setting("counting", "users"))
        if self.candidates is not None:
            log.require("time", "url", why="counting a user's first clicks")

    def publish(self, log: SearchLog, plan: Plan[KorolovaSettings], source: Source, progress: Progress) -> Published:
        selection, clicks = plan.settings.selection, plan.settings.clicks
        progress(f"keeping {self.queries_per_user} queries of each user")
        counts = self._query_counts(log, source)
        progress("adding noise to the queries")
        queries = survivors(
            counts,
            QUERY.columns,
            threshold=selection.threshold,
            noise=DiscreteLaplace(selection.noise_scale),
            engine=log.engine,
            source=source,
            fresh=None if selection.count_scale is None else DiscreteLaplace(selection.count_scale),
        )
        if clicks is None:
            return Published({"data": queries})
        progress("adding noise to the clicks on candidate urls")
        return Published({"data": queries, "clicks": self._clicks(log, queries, clicks.noise_scale, source)})

    def _query_counts(self, log: SearchLog, source: Source) -> ir.Table:
        if self.counting == "users":
            return bounded_histogram(log, QUERY, per_user=self.queries_per_user, seed=source.seed())
        # Several clicks of one submission are several rows of one time: one submission.
        timed = log.table.filter(log.table["time"].notnull()).select("user", "query", "time")
        submissions = normalize_query(timed, log.normalization).distinct()
        first = first_of_each_user(submissions, ["time", "query"], self.queries_per_user)
        return log.engine.stage(count_rows(first, "query"))

    def _clicks(self, log: SearchLog, queries: pa.Table, scale: float, source: Source) -> pa.Table:
        """A noisy count for every candidate url of every published query; candidates no user clicked get noise too."""
        assert self.candidates is not None
        published = log.engine.load(queries)
        eligible = public_candidates(self.candidates, ["query", "url"], log).semi_join(published, "query")
        eligible = log.engine.stage(eligible)
        clicked = log.table.filter(log.table["url"].notnull()).select("user", "query", "url", "time")
        clicks = normalize_query(clicked, log.normalization).distinct()
        clicks = clicks.semi_join(eligible, ["query", "url"])
        first = first_of_each_user(clicks, ["time", "query", "url"], self.clicks_per_user)
        counts = count_rows(first, "query", "url")
        return noisy_candidates(counts, eligible, noise=DiscreteLaplace(scale), engine=log.engine, source=source)
