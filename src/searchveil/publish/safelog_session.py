"""SafeLog for sessions: A_Session of Zhang 2017, ordered query sequences that many users share, and clicks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import ceil, floor, inf
from typing import Annotated, Any, ClassVar, Literal

import ibis
import ibis.expr.types as ir

from searchveil.engine import Engine, FirstRows
from searchveil.errors import InputError, setting
from searchveil.items.normal import count_rows
from searchveil.items.session import as_lists, first_sessions, subsequences
from searchveil.log import SearchLog
from searchveil.log.early import Finder, on_early_rows
from searchveil.log.personal import check_patterns, check_patterns_on, normal_with_suspects, without_personal
from searchveil.log.sessions import GAP_MINUTES, LONGEST_GAP_MINUTES, SHORTEST_GAP_MINUTES
from searchveil.privacy import calibrate, safelog
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.progress import Progress
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published, unit_of
from searchveil.publish.parameters import Declared, Delta, Epsilon, NeighboursKind
from searchveil.publish.plan import Plan, Selection, Sessions, Settings, given
from searchveil.publish.safelog_click import (
    Above,
    KeepPersonal,
    NoiseScale,
    Patterns,
    check_calibration,
    delta_of,
    scale_and_epsilon,
)
from searchveil.publish.threshold import survivors

# Of the demo log, which is calibrated to real ones: the most common sequence is in the first session of one in so many.
ONE_USER_IN = 3_000


@dataclass(frozen=True, kw_only=True)
class SafeLogSessionSettings(Settings):
    selection: Selection = field()
    sessions: Sessions = field()

    def to_json(self) -> dict[str, Any]:
        return given(
            sessions_per_user=self.sessions.per_user,
            queries_per_session=self.sessions.queries,
            gap_minutes=self.sessions.gap_minutes,
            noise_scale=self.selection.noise_scale,
            second_threshold=self.selection.threshold,
            clicks_per_user=None if self.clicks is None else self.clicks.per_user,
            clicks_threshold=None if self.clicks is None else self.clicks.threshold,
            count_scale=self.selection.count_scale,
        )


@dataclass(frozen=True, repr=False)
class SafeLogSession(Mechanism[SafeLogSessionSettings]):
    """Subsequences of the first sessions of each user, published iff their noisy count passes; clicks likewise.

    Variant "ours" counts a subsequence once per user and publishes the noise that selected it; "published" counts every
    occurrence and draws fresh noise, at the paper's ε and δ. Give `epsilon` and `delta`, or `noise_scale` and
    `above` (the paper's K: published iff noisy > K).

    Proof: docs/guarantees/safelog-session.md.

    >>> sv.SafeLogSession(epsilon=1, delta=1e-6).plan().parameters["second_threshold"]
    60
    """

    method: ClassVar[str] = "safelog-session"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate",)
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 1e-6}

    epsilon: Epsilon | None = None
    delta: Delta | None = None
    noise_scale: NoiseScale | None = None
    above: Above | None = None
    sessions_per_user: Annotated[int, Declared("First sessions kept of each user.", symbol="l_s", least=1)] = 1
    queries_per_session: Annotated[
        int,
        Declared(
            "First queries kept of each session.",
            symbol="l_q",
            least=2,
            most=safelog.MOST_QUERIES_PER_SESSION,
            hint=f"the noise grows with the subsequences, of which {safelog.MOST_QUERIES_PER_SESSION} queries have "
            f"{safelog.subsequences(1, safelog.MOST_QUERIES_PER_SESSION):,}",
        ),
    ] = 3
    clicks_per_user: Annotated[int, Declared("First clicks kept of each user; 0 for none.", symbol="l", least=0)] = 0
    gap_minutes: Annotated[
        float,
        Declared(
            "Silence that ends a session.",
            unit="minutes",
            least=SHORTEST_GAP_MINUTES,
            most=LONGEST_GAP_MINUTES,
            hint="a gap is from a second to a year",
        ),
    ] = GAP_MINUTES
    variant: Annotated[
        Literal["ours", "published"],
        Declared("Count a sequence once per user, or each time and with fresh noise, as the paper has it."),
    ] = "ours"
    neighbours: NeighboursKind = "add-remove"
    keep_personal: KeepPersonal = False
    patterns: Patterns = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_calibration(self.epsilon, self.noise_scale)
        if self.above is None and self.delta is None:
            beside = setting("epsilon" if self.noise_scale is None else "noise_scale")
            raise InputError(
                "safelog-session needs " + setting("delta") + " or " + setting("above") + " beside " + beside,
                parameter="delta",
                instead="try " + setting("delta", 1e-6),
            )
        check_patterns(self.patterns)

    @property
    def parts(self) -> list[int]:
        """How many counts a user may change: subsequences and, where wanted, clicks."""
        subsequences = safelog.subsequences(self.sessions_per_user, self.queries_per_session)
        return [subsequences, self.clicks_per_user] if self.clicks_per_user else [subsequences]

    def planned(self, log: SearchLog | int | None) -> Plan[SafeLogSessionSettings]:
        noises = 2 if self.variant == "published" else 1  # fresh noise for the published count is paid again
        changes = calibrate.changed_counts(noises * sum(self.parts), self.neighbours)
        scale, epsilon = scale_and_epsilon(self.epsilon, self.noise_scale, changes)
        paper_threshold, thresholds = self._thresholds(scale)
        exact = sum(
            self._delta(part, scale, t, paper_threshold) for part, t in zip(self.parts, thresholds, strict=True)
        )
        delta = delta_of(self.delta, exact, self.above)
        paper_epsilon = sum(safelog.session_epsilon(part, scale, paper_threshold) for part in self.parts)
        paper_delta = sum(safelog.session_delta(part, scale, paper_threshold) for part in self.parts)
        if self.variant == "published" and self.epsilon is None and self.neighbours == "add-remove":
            epsilon = max(epsilon, paper_epsilon)
        if epsilon == inf:
            raise InputError(
                f"with this noise nothing is promised above {self.above or 0:g}: the paper's ε is infinite",
                parameter="above",
                value=self.above,
                instead="raise " + setting("above"),
            )
        guarantee = Guarantee(
            notion="approximate",
            epsilon=epsilon,
            delta=delta,
            neighbours=self.neighbours,
            proof="docs/guarantees/safelog-session.md",
            assumed_public=(AT_LEAST_TWO_USERS,),
        )
        return Plan(
            self.method,
            "session",
            self._settings(scale, thresholds),
            guarantee,
            {"paper_epsilon": paper_epsilon, "paper_delta": paper_delta},
            takes=self._takes(thresholds[0], unit_of(log)),
            counts="users" if self.variant == "ours" else "occurrences",
        )

    def _takes(self, threshold: int, unit: str) -> str:
        sessions = "session" if self.sessions_per_user == 1 else f"{self.sessions_per_user} sessions"
        where = f"the first {self.queries_per_session} queries of their first {sessions}"
        if unit == "session":
            where = f"their first {self.queries_per_session} queries"
        said = f"A sequence comes out with probability ½ if {threshold:,} {unit}s have it in {where}."
        if self.sessions_per_user > 1 or unit != "user":
            return said
        in_all = float(f"{threshold * ONE_USER_IN:.1g}")
        return f"{said} In a log like the demo log that takes about {in_all:,.0f} users; fewer queries take fewer."

    def _settings(self, scale: float, thresholds: list[int]) -> SafeLogSessionSettings:
        fresh = scale if self.variant == "published" else None
        sessions, *clicks = (
            Selection(part, scale, threshold, count_scale=fresh)
            for part, threshold in zip(self.parts, thresholds, strict=True)
        )
        return SafeLogSessionSettings(
            selection=sessions,
            clicks=clicks[0] if clicks else None,
            sessions=Sessions(self.sessions_per_user, self.queries_per_session, self.gap_minutes),
        )

    def _delta(self, per_user: int, scale: float, threshold: int, paper_threshold: float) -> float:
        if self.variant == "ours":
            return calibrate.approximate_delta(scale, per_user, threshold)
        exact = calibrate.occurrences_delta(scale, per_user, threshold)
        return max(exact, min(1.0, safelog.session_delta(per_user, scale, paper_threshold)))

    def _thresholds(self, scale: float) -> tuple[float, list[int]]:
        """The paper's K, and T of each part."""
        if self.above is not None:
            return self.above, [floor(self.above) + 1] * len(self.parts)
        share = calibrate.equal_share(self.delta or 0, len(self.parts))
        if self.variant == "ours":
            thresholds = [calibrate.approximate_threshold(scale, share, part) for part in self.parts]
            return thresholds[0] - 1, thresholds
        # One K for both parts, as the thesis has it.
        k = max(ceil(max(calibrate.published_threshold(scale, share, part) for part in self.parts)), max(self.parts))
        return k, [k + 1] * len(self.parts)

    def check(self, log: SearchLog) -> None:
        log.require("time", why="telling sessions apart")
        if self.clicks_per_user:
            log.require("url", why="counting clicks", or_add=setting("clicks_per_user", 0))
        check_patterns_on(log.engine, self.patterns)

    def publish(
        self, log: SearchLog, plan: Plan[SafeLogSessionSettings], source: Source, progress: Progress
    ) -> Published:
        settings = plan.settings
        engine, noise = log.engine, DiscreteLaplace(settings.selection.noise_scale)
        fresh = noise if self.variant == "published" else None
        progress("keeping the first sessions of each user")
        several = FirstRows(_timed, 5 * self.sessions_per_user * self.queries_per_session)
        finders = [Finder(partial(self._first_sessions, engine), self.sessions_per_user, several)]
        if self.clicks_per_user:
            finders.append(
                Finder(self._first_clicks, self.clicks_per_user, FirstRows(_clicked, 3 * self.clicks_per_user))
            )
        sessions, *clicks = on_early_rows(log, partial(self._prepared, log), finders)
        kept = subsequences(engine.stage(sessions), self.queries_per_session, engine)
        if self.variant == "ours":
            kept = kept.distinct()
        counts = engine.stage(count_rows(kept, "session"))
        progress("adding noise to the sessions")
        threshold = settings.selection.threshold
        published = survivors(
            counts, ["session"], threshold=threshold, noise=noise, engine=engine, source=source, fresh=fresh
        )
        tables = {"data": as_lists(published)}
        if settings.clicks is not None:
            progress("adding noise to the clicks")
            told_apart = ["user", "query", "url"] if self.variant == "ours" else ["user", "query", "url", "time"]
            first = clicks[0].select(told_apart).distinct()
            tables["clicks"] = survivors(
                engine.stage(count_rows(first, "query", "url")),
                ["query", "url"],
                threshold=settings.clicks.threshold,
                noise=noise,
                engine=engine,
                source=source,
                fresh=fresh,
            )
        return Published(tables)

    def _prepared(self, log: SearchLog, rows: ir.Table) -> ir.Table:
        columns = [name for name in rows.columns if name != "rank" and (name != "url" or self.clicks_per_user)]
        if self.clicks_per_user and "early_1" in columns:  # only the second search looks at urls; why carry the others?
            rows = rows.mutate(url=ibis.ifelse(rows["early_1"], rows["url"], ibis.null("string")))
        return normal_with_suspects(rows.select(columns), log.normalization)

    def _allowed(self, rows: ir.Table) -> ir.Table:
        allowed = without_personal(rows, ours=not self.keep_personal, own=self.patterns)
        return allowed.filter(allowed["query"] != "")

    def _first_sessions(self, engine: Engine, rows: ir.Table) -> ir.Table:
        sent = self._allowed(rows).select("user", "query", "time")
        return first_sessions(sent, self.sessions_per_user, self.queries_per_session, engine, self.gap_minutes)

    def _first_clicks(self, rows: ir.Table) -> ir.Table:
        clicks = self._allowed(rows).select("user", "query", "url", "time")
        # A dense rank gives the same click twice one place, without telling all rows apart.
        place = ibis.dense_rank().over(ibis.window(group_by="user", order_by=["time", "query", "url"]))
        placed = clicks.mutate(place=place, settled=ibis.literal(True))  # all earlier clicks are among these rows
        return placed.filter(placed["place"] < self.clicks_per_user)


def _timed(rows: ir.Table) -> ir.BooleanValue:
    return rows["time"].notnull()


def _clicked(rows: ir.Table) -> ir.BooleanValue:
    return rows["time"].notnull() & rows["url"].notnull() & (rows["url"] != "")
