"""SafeLog for single queries: A_Click of Zhang 2017, with a public query pool, clicks and query transitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Annotated, Any, ClassVar, Literal

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.errors import Blank, InputError, setting
from searchveil.items.item import normal_query
from searchveil.items.normal import count_rows
from searchveil.items.pool import counts_with_pool
from searchveil.log import SearchLog
from searchveil.log.personal import check_patterns, check_patterns_on, without_personal
from searchveil.log.sessions import number_sessions, submissions
from searchveil.privacy import calibrate, safelog
from searchveil.privacy.contributions import first_of_each_user
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.privacy.rounding import at_most
from searchveil.progress import Progress
from searchveil.publish.candidates import noisy_candidates, public_candidates
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.parameters import Candidates, Declared, Delta, Epsilon, NeighboursKind, Pool
from searchveil.publish.plan import Plan, Selection, Settings, given
from searchveil.publish.threshold import survivors

# What both SafeLog methods declare.
NoiseScale = Annotated[
    float,
    Declared(
        "The scale of the noise, instead of ε.",
        symbol="b",
        least=calibrate.SMALLEST_SCALE,
        most=calibrate.LARGEST_SCALE,
        example=10,
    ),
]
Above = Annotated[float, Declared("Publish iff the noisy count is above this.", symbol="K", least=0)]
KeepPersonal = Annotated[bool, Declared("Publish also what looks personal; it is left out otherwise.")]
Patterns = Annotated[tuple[str, ...], Declared("Leave out queries that match this regular expression, too.")]


@dataclass(frozen=True)
class Part:
    """One kind of count: how many a user may change, and whether a threshold must hide rare ones (which costs δ)."""

    name: str
    per_user: int
    hidden_by_threshold: bool


Domain = Literal["pool", "pool+log"]


@dataclass(frozen=True, kw_only=True)
class SafeLogClickSettings(Settings):
    selection: Selection = field()
    domain: Domain
    expected_pool_slips: float | None = None  # pool queries that nobody searched and that come out all the same

    def to_json(self) -> dict[str, Any]:
        def hiding(part: Selection | None) -> int | None:
            return None if part is None or part.public else part.threshold

        return given(
            queries_per_user=self.selection.per_user,
            clicks_per_user=0 if self.clicks is None else self.clicks.per_user,
            domain=self.domain,
            noise_scale=self.selection.noise_scale,
            second_threshold=self.selection.threshold,
            clicks_threshold=hiding(self.clicks),
            transitions_threshold=hiding(self.transitions),
            count_scale=self.selection.count_scale,
            pool_size=self.pool_size,
            expected_pool_slips=self.expected_pool_slips,
        )


@dataclass(frozen=True, repr=False)
class SafeLogClick(Mechanism[SafeLogClickSettings]):
    """First queries and clicks of each user, counted with noise over a public pool, over the log, or over both.

    Give `epsilon` (and `delta` where something is hidden by a threshold), or `noise_scale` and `above`. Noise of
    one scale serves all parts. Domain "pool" publishes only queries of the pool: pure ε, in which the threshold has no
    part. Clicks and transitions come from public candidates (pure) or through a noisy threshold of their own.

    Proof: docs/guarantees/safelog-click.md.

    >>> sv.SafeLogClick(epsilon=1, delta=1e-6, clicks_per_user=0).plan().parameters["second_threshold"]
    45
    """

    method: ClassVar[str] = "safelog-click"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate", "conditional")
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 1e-6}

    epsilon: Epsilon | None = None
    delta: Delta | None = None
    noise_scale: NoiseScale | None = None
    above: Above | None = None
    queries_per_user: Annotated[int, Declared("First queries kept of each user.", symbol="q_f", least=1)] = 3
    clicks_per_user: Annotated[int, Declared("First clicks kept of each user; 0 for none.", symbol="c_f", least=0)] = 3
    transitions: Annotated[bool, Declared("Count which query follows which, too.")] = False
    domain: Annotated[Domain, Declared("Publish queries of the pool alone (pure ε), or of pool and log.")] = "pool+log"
    pool: Pool | None = None
    candidates: Candidates | None = None
    transition_candidates: Annotated[
        pa.Table | None, Declared("A public table of query and next (csv, tsv, parquet).", columns=("query", "next"))
    ] = None
    fresh_counts: Annotated[bool, Declared("Fresh noise for published counts, as the paper has it.")] = False
    neighbours: NeighboursKind = "add-remove"
    at_least: Annotated[
        int, Declared("The paper's frequency filter drops queries of fewer submissions; nothing protects it.", least=0)
    ] = 0
    keep_personal: KeepPersonal = False
    patterns: Patterns = ()
    pool_coverage: Annotated[
        float,
        Declared(
            "The share of queries that the pool holds, for the paper's ε.", symbol="p_g", above=0, most=1, example=1
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_calibration(self.epsilon, self.noise_scale)
        if self.transitions and self.queries_per_user < 2:
            raise InputError(
                "transitions need two queries of a user",
                parameter="queries_per_user",
                value=self.queries_per_user,
                instead="try " + setting("queries_per_user", 3),
            )
        check_patterns(self.patterns)

    @property
    def parts(self) -> list[Part]:
        parts = [Part("queries", self.queries_per_user, self.domain == "pool+log")]
        if self.clicks_per_user:
            parts.append(Part("clicks", self.clicks_per_user, self.candidates is None))
        if self.transitions:
            parts.append(Part("transitions", self.queries_per_user - 1, self.transition_candidates is None))
        return parts

    @property
    def hidden(self) -> list[Part]:
        return [part for part in self.parts if part.hidden_by_threshold]

    @property
    def _changes(self) -> int:
        """By how much one user may change all counts together; fresh noise for the queries' counts is paid again."""
        counted = sum(part.per_user for part in self.parts) + (self.queries_per_user if self.fresh_counts else 0)
        return calibrate.changed_counts(counted, self.neighbours)

    def planned(self, log: SearchLog | int | None) -> Plan[SafeLogClickSettings]:
        scale, epsilon = scale_and_epsilon(self.epsilon, self.noise_scale, self._changes)
        thresholds = self._thresholds(scale)
        exact = sum(calibrate.occurrences_delta(scale, one.per_user, thresholds[one.name]) for one in self.hidden)
        delta = delta_of(self.delta, exact, self.above) if self.hidden else 0.0
        guarantee = Guarantee(
            notion="conditional" if self.at_least else "approximate",
            epsilon=epsilon,
            delta=delta,
            neighbours=self.neighbours,
            proof="docs/guarantees/safelog-click.md",
            assumed_public=self._assumed_public(),
            unprotected=self._unprotected(),
            caveats=(_given_the_filter(epsilon, delta),) if self.at_least else (),
        )
        paper_threshold = thresholds["queries"] - 1 if self.above is None else self.above
        paper = safelog.click_epsilon(
            self.queries_per_user, self.clicks_per_user, scale, paper_threshold, self.pool_coverage
        )
        settings = self._settings(scale, thresholds)
        return Plan(self.method, "query", settings, guarantee, {"paper_epsilon": paper}, counts="occurrences")

    def _settings(self, scale: float, thresholds: Mapping[str, int]) -> SafeLogClickSettings:
        # Of public candidates all whose noisy count is positive are published.
        parts = {
            part.name: Selection(part.per_user, scale, thresholds[part.name])
            if part.hidden_by_threshold
            else Selection(part.per_user, scale, threshold=1, public=True)
            for part in self.parts[1:]
        }
        threshold = thresholds["queries"]
        fresh = scale if self.fresh_counts else None
        size = None if self.pool is None else self.pool.size
        return SafeLogClickSettings(
            selection=Selection(
                self.queries_per_user, scale, threshold, count_scale=fresh, public=self.domain == "pool"
            ),
            clicks=parts.get("clicks"),
            transitions=parts.get("transitions"),
            domain=self.domain,
            pool_size=size,
            expected_pool_slips=None if size is None else safelog.expected_slips(size, scale, threshold),
        )

    def recommend(self) -> dict[str, dict[str, float]]:
        """Good settings for the wanted ε and queries per user: the paper's turning point, and ours for the domain."""
        if self.epsilon is None:
            raise InputError(
                "a recommendation starts from a wanted ε", parameter="epsilon", instead="add " + setting("epsilon", 1)
            )
        paper_scale = safelog.scale_with_transitions(self.epsilon, self.queries_per_user)
        ours = self.plan().settings
        pool_size = self.pool.size if self.pool else 0
        paper_threshold = calibrate.turning_point(paper_scale)
        return {
            "paper": {
                "noise_scale": paper_scale,
                "threshold": paper_threshold,
                "expected_pool_slips": safelog.expected_slips(pool_size, paper_scale, floor(paper_threshold) + 1),
            },
            "ours": {
                "noise_scale": ours.selection.noise_scale,
                "threshold": ours.selection.threshold - 1,
                "expected_pool_slips": ours.expected_pool_slips or 0.0,
            },
        }

    def _thresholds(self, scale: float) -> dict[str, int]:
        """T of every part. Parts that are hidden share δ equally; over the pool alone T only keeps slips rare."""
        if self.above is not None:
            return {part.name: floor(self.above) + 1 for part in self.parts}
        if self.hidden and self.delta is None:
            names = ", ".join(part.name for part in self.hidden)
            raise InputError(
                f"a threshold hides rare {names}, which needs " + setting("delta"),
                parameter="delta",
                instead="try " + setting("delta", 1e-6),
            )
        share = calibrate.equal_share(self.delta or 0, max(1, len(self.hidden)))
        thresholds = {part.name: calibrate.occurrences_threshold(scale, share, part.per_user) for part in self.hidden}
        if "queries" not in thresholds:
            thresholds["queries"] = safelog.threshold_for_slips(self.pool.size if self.pool else 1, scale)
        return thresholds

    def _assumed_public(self) -> tuple[str, ...]:
        public = [AT_LEAST_TWO_USERS]
        if self.pool is not None:
            public.append("the query pool")
        if self.candidates is not None and self.clicks_per_user:
            public.append("the candidate urls of every query")
        if self.transition_candidates is not None and self.transitions:
            public.append("the candidate transitions")
        return tuple(public)

    def _unprotected(self) -> tuple[str, ...]:
        if not self.at_least:
            return ()
        return (
            f"which queries the frequency filter removes (fewer than {self.at_least} submissions): one user can move "
            "queries across it and shift what is kept of other users, so with the filter no ε holds unconditionally",
        )

    def check(self, log: SearchLog) -> None:
        log.require("time", why="a user's first queries")
        if self.clicks_per_user:
            log.require("url", why="counting clicks", or_add=setting("clicks_per_user", 0))
        if self.domain == "pool" and self.pool is None:
            raise InputError(
                "the domain pool needs a pool",
                parameter="pool",
                instead="make one with searchveil pool, then add " + setting("pool", Blank("FILE")),
            )
        check_patterns_on(log.engine, self.patterns)

    def publish(
        self, log: SearchLog, plan: Plan[SafeLogClickSettings], source: Source, progress: Progress
    ) -> Published:
        settings = plan.settings
        engine, noise = log.engine, DiscreteLaplace(settings.selection.noise_scale)
        progress(f"keeping the first {self.queries_per_user} queries of each user")
        sent = engine.stage(submissions(log))  # or the engine works out the normal form anew for every pattern below
        sent = self._without_sensitive(sent.filter(sent["query"] != ""))
        first = engine.stage(first_of_each_user(sent, ["time", "query"], self.queries_per_user))
        counts = count_rows(first, "query")
        if self.pool is not None:
            pool = self.pool.table(engine, log.normalization)
            counts = counts_with_pool(counts, pool, keep_log=self.domain == "pool+log")
        progress("adding noise to the queries")
        queries = survivors(
            engine.stage(counts),
            ["query"],
            threshold=settings.selection.threshold,
            noise=noise,
            engine=engine,
            source=source,
            fresh=noise if self.fresh_counts else None,
        )
        tables = {"data": queries}
        published = engine.load(queries.select(["query"]))

        def with_noise(kept: ir.Table, columns: list[str], part: Selection, candidates: pa.Table | None) -> pa.Table:
            counts = engine.stage(count_rows(kept, *columns))
            if candidates is None:
                return survivors(counts, columns, threshold=part.threshold, noise=noise, engine=engine, source=source)
            eligible = engine.stage(public_candidates(candidates, columns, log).semi_join(published, "query"))
            return noisy_candidates(counts, eligible, noise=noise, engine=engine, source=source)

        if settings.clicks is not None:
            progress("adding noise to the clicks")
            clicks = self._first_clicks(log, published)
            tables["clicks"] = with_noise(clicks, ["query", "url"], settings.clicks, self.candidates)
        if settings.transitions is not None:
            progress("adding noise to the transitions")
            followed = _followed(first, published)
            tables["transitions"] = with_noise(
                followed, ["query", "next"], settings.transitions, self.transition_candidates
            )
        return Published(tables)

    def _without_sensitive(self, rows: ir.Table) -> ir.Table:
        """Drop rows that look personal, which is free, and queries that are rare, which is not (`unprotected`)."""
        rows = without_personal(rows, ours=not self.keep_personal, own=self.patterns)
        if self.at_least:
            frequency = rows.group_by("query").agg(times=rows.count())
            rows = rows.semi_join(frequency.filter(frequency["times"] >= self.at_least), "query")
        return rows

    def _first_clicks(self, log: SearchLog, published: ir.Table) -> ir.Table:
        """The first clicks of each user on results of published queries."""
        clicked = log.table.filter((log.table["url"] != "") & log.table["time"].notnull())
        normal = normal_query(clicked.select("user", "query", "url", "time"), log.normalization).distinct()
        clicks = without_personal(log.engine.stage(normal), ours=not self.keep_personal, own=self.patterns)
        return first_of_each_user(clicks.semi_join(published, "query"), ["time", "query", "url"], self.clicks_per_user)


def _given_the_filter(epsilon: float, delta: float) -> str:
    return (
        f"Given the outcome of the frequency filter, what follows it is ({at_most(epsilon)}, {at_most(delta)})-"
        "differentially private; the outcome itself is not protected."
    )


def _followed(first: ir.Table, published: ir.Table) -> ir.Table:
    """Neighbouring different queries of a session among the kept ones: at most one fewer than a user keeps."""
    sessions = number_sessions(first)
    in_order = ibis.window(group_by=["user", "session"], order_by=["time", "query"])
    pairs = sessions.mutate(next=sessions["query"].lead().over(in_order))
    pairs = pairs.filter(pairs["next"].notnull() & (pairs["next"] != pairs["query"]))
    return pairs.semi_join(published, "query").semi_join(published.select(next="query"), "next")


def check_calibration(epsilon: float | None, noise_scale: float | None) -> None:
    """Either the promise is given or the noise is."""
    if (epsilon is None) == (noise_scale is None):
        raise InputError(
            "give " + setting("epsilon") + " or " + setting("noise_scale") + ", one of them",
            parameter="epsilon",
            value=epsilon,
            instead="try " + setting("epsilon", 1),
        )


def scale_and_epsilon(epsilon: float | None, noise_scale: float | None, changes: int) -> tuple[float, float]:
    """Of the two, the one that was given and the one that follows, for counts that change by so much in all."""
    if noise_scale is None:
        assert epsilon is not None  # or `check_calibration` had refused
        return calibrate.scale_for(epsilon, changes), epsilon
    return noise_scale, calibrate.epsilon_of(noise_scale, changes)


def delta_of(wanted: float | None, exact: float, above: float | None) -> float:
    """The δ that was asked for, or the exact one; a threshold that is too low for the one asked for is refused."""
    if wanted is None:
        return min(1.0, exact)
    if above is not None and exact > wanted:
        raise InputError(
            f"{above:g} is infeasible: delta would be {exact:.3g}",
            parameter="above",
            value=above,
            instead="raise " + setting("above"),
        )
    return wanted
