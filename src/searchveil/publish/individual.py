"""Sampling at individual rates: every user's own clicks on known pairs, at a rate of her own. A method of our own.

First the vocabulary, the pairs of query and url that may come out: named by weighted selection, or public. Then each
user's clicks on it are drawn by a Poisson process of one rate for everybody, whatever she clicked and however often: it
alone decides how likely she is to appear. docs/guarantees/individual-rates.md proves what the two promise together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, expm1
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from searchveil.errors import InputError, setting, settings
from searchveil.items import CLICK
from searchveil.items.item import normal_query, normalize_query
from searchveil.log import SearchLog
from searchveil.privacy import calibrate
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import Integers, Poisson, Source
from searchveil.privacy.rounding import at_most
from searchveil.progress import Progress
from searchveil.publish.mechanism import Mechanism, Published, at_least_users, unit_of
from searchveil.publish.parameters import Candidates, Declared, Delta, Epsilon, NeighboursKind, Pool
from searchveil.publish.plan import Plan, Settings, WeightSelection, given
from searchveil.publish.weighted import Weighted

TimeUnit = Literal["second", "minute", "hour", "day", "month", "none"]
TRUNCATED_TO: Mapping[str, Any] = {"second": "s", "minute": "m", "hour": "h", "day": "D", "month": "M"}

TYPES: Mapping[str, pa.DataType] = {
    "query": pa.string(),
    "url": pa.string(),
    "time": pa.timestamp("us"),
    "rank": pa.int32(),
}

# By δ₁ a text of one user alone may come out, by the rest of δ only her clicks on pairs that are no secret: a share of
# δ would make the worse of the two as likely as the better one.
SELECTION_DELTA = 1e-6
SELECTION_SHARE = 0.1  # of δ at most

FEW_USERS = 1_000  # who tries a log of so few knows that little can come out

SelectionDelta = Annotated[
    float, Declared("The part of δ that chooses the pairs.", symbol="δ₁", above=0, below=1, example=1e-6)
]
RoundedTo = Annotated[TimeUnit, Declared("To which times are rounded down; none leaves them out.")]


@dataclass(frozen=True, kw_only=True)
class IndividualSettings(Settings):
    exposure_limit: float
    time_unit: TimeUnit
    selection_delta: float | None = None
    weights: WeightSelection | None = None  # none where the vocabulary is public
    rounds: int | None = None

    def to_json(self) -> dict[str, Any]:
        of_selection: dict[str, Any] = {}
        if self.weights is not None:
            of_selection = {
                "sigma": self.weights.sigma,
                "threshold": self.weights.threshold,
                "rounds": self.rounds,
                "candidates_per_user": self.weights.per_user,
            }
        return given(
            sampler="individual",
            exposure_limit=self.exposure_limit,
            time_unit=self.time_unit,
            selection_delta=self.selection_delta,
            pool_size=self.pool_size,
            **of_selection,
        )


@dataclass(frozen=True, repr=False)
class Individual(Mechanism[IndividualSettings]):
    """Draw users' clicks on the pairs of a vocabulary, with `time` and `rank` where the log has them.

    Every user appears with a probability of at most δ₂ = δ − δ₁. The vocabulary is named by weighted selection with
    (ε, δ₁), where δ₁ is `selection_delta`; or it is public: the pairs of `candidates`, or all clicks on the queries of
    a `pool`. Then neither ε nor δ₁ is spent. Times are rounded down to `time_unit`; "none" leaves them out.

    Proof: docs/guarantees/individual-rates.md.
    """

    method: ClassVar[str] = "sampling"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate",)
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 0.5}

    delta: Delta
    epsilon: Epsilon | None = None
    selection_delta: SelectionDelta | None = None
    neighbours: NeighboursKind = "add-remove"
    candidates: Candidates | None = None
    pool: Pool | None = None
    time_unit: RoundedTo = "hour"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.public:
            self._check_public()
        elif self.epsilon is None:
            raise InputError(
                "the sampler individual needs " + setting("epsilon") + ", which chooses the pairs",
                parameter="epsilon",
                instead="try " + setting("epsilon", 1) + ", or name public pairs with " + setting("candidates"),
            )
        elif self.selection_delta is None:
            chosen = min(SELECTION_DELTA, SELECTION_SHARE * self.delta)
            object.__setattr__(self, "selection_delta", chosen)
        elif self.selection_delta >= self.delta:
            raise InputError(
                setting("selection_delta") + " is a part of " + setting("delta", self.delta) + ", below it, not "
                f"{self.selection_delta:g}",
                parameter="selection_delta",
                value=self.selection_delta,
                instead="try 1e-6",
            )

    def _check_public(self) -> None:
        if self.candidates is not None and self.pool is not None:
            raise InputError(
                "give public pairs with "
                + setting("candidates")
                + " or public queries with "
                + setting("pool")
                + ", not both"
            )
        for name in ("epsilon", "selection_delta"):
            if getattr(self, name) is not None:
                raise InputError(
                    "with public pairs nothing is chosen from the log",
                    parameter=name,
                    value=getattr(self, name),
                    instead="leave out " + setting(name),
                )

    @property
    def public(self) -> bool:
        """Whether the vocabulary is public, and not chosen from the log."""
        return self.candidates is not None or self.pool is not None

    @cached_property
    def chance(self) -> Fraction:
        """δ₂ = δ − δ₁: how likely a user may be to appear. Right for the floats, and for the decimals they print as."""
        delta = min(Fraction(self.delta), Fraction(repr(float(self.delta))))
        if self.selection_delta is None:
            return delta
        return delta - max(Fraction(self.selection_delta), Fraction(repr(float(self.selection_delta))))

    @cached_property
    def rate(self) -> float:
        """b: how many clicks of a user are expected to be drawn; 1 − e^(−b) ≤ δ₂ is proved."""
        return calibrate.poisson_mean(self.chance)

    @cached_property
    def selection(self) -> Weighted:
        """Names the vocabulary, where it is not public."""
        assert self.epsilon is not None
        assert self.selection_delta is not None
        return Weighted(self.epsilon, self.selection_delta, CLICK, counts="none", neighbours=self.neighbours)

    def planned(self, log: SearchLog | int | None) -> Plan[IndividualSettings]:
        public = [at_least_users(users_for_one(self.rate))]
        if self.candidates is not None:
            public.append("the candidate pairs")
        if self.pool is not None:
            public.append("the pool")
        of_selection = None if self.public else self.selection.planned(log).settings
        settings = IndividualSettings(
            exposure_limit=self.rate,
            time_unit=self.time_unit,
            selection_delta=self.selection_delta,
            pool_size=None if self.pool is None else self.pool.size,
            weights=None if of_selection is None else of_selection.weights,
            rounds=None if of_selection is None else of_selection.rounds,
        )
        guarantee = Guarantee(
            notion="approximate",
            epsilon=0.0 if self.epsilon is None else self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            proof="docs/guarantees/individual-rates.md",
            assumed_public=tuple(public),
            caveats=self.caveats(unit_of(log)),
        )
        if not isinstance(log, int):  # of a log, only what is drawn may tell
            return Plan(self.method, "click", settings, guarantee, counts="occurrences")
        limit = log * self.rate
        figures = {"users": log, "limit": limit}
        advice = too_little(limit)
        return Plan(self.method, "click", settings, guarantee, figures=figures, advice=advice, counts="occurrences")

    def caveats(self, unit: str) -> tuple[str, ...]:
        urls = (f"the urls of a {unit} who appears are shown as they are, whoever else clicked them",)
        return (
            f"most of δ is the chance to appear at all: a {unit} appears with a probability of at most "
            f"{at_most(self.chance)}",
            f"the rows of one pseudonym are true clicks of one {unit}, with their times and ranks as far as they are "
            "published",
            *(urls if self.pool is not None else ()),
        )

    def check(self, log: SearchLog) -> None:
        CLICK.check(log)
        require_something(log, self.rate, self.delta)

    def publish(self, log: SearchLog, plan: Plan[IndividualSettings], source: Source, progress: Progress) -> Published:
        allowed, named = self._vocabulary(log, source, progress)
        pairs = int(log.engine.value(allowed.count()))
        table = self.drawn(allowed, log, source, progress)
        tables = {"data": table} if named is None else {"data": table, "vocabulary": named}
        return Published(tables, self.figures(table, pairs), self.advice(pairs, table.num_rows))

    def drawn(self, allowed: ir.Table, log: SearchLog, source: Source, progress: Progress) -> pa.Table:
        """Clicks of this log's users on the texts of a vocabulary, under pseudonyms from 1 on."""
        engine = log.engine
        vocabulary = engine.number(allowed, "entry", allowed.columns)
        progress("gathering the clicks on these pairs")
        clicks = engine.stage(_clicks_on(vocabulary, log, self.time_unit))
        holders = engine.number(clicks.group_by("user").agg(clicks=clicks.count()), "holder", ["user"])
        progress("drawing")
        numbers = engine.fetch(holders.select("holder", "clicks")).sort_by("holder")["clicks"].to_numpy()
        return _rows(clicks, holders, vocabulary, draw(numbers, self.rate, source), log, source)

    def _vocabulary(self, log: SearchLog, source: Source, progress: Progress) -> tuple[ir.Table, pa.Table | None]:
        """The texts by which a click may be drawn; and those of them that are not public already."""
        if self.pool is not None:
            return self.pool.table(log.engine, log.normalization), None
        if self.candidates is not None:
            texts = self.candidates.select(["query", "url"]).cast(pa.schema({"query": pa.string(), "url": pa.string()}))
            return normalize_query(log.engine.load(texts), log.normalization).distinct(), None
        named = self.selection.publish(log, self.selection.planned(log), source, progress).tables["data"]
        return log.engine.load(named), named

    def figures(self, table: pa.Table, pairs: int) -> dict[str, Any]:
        """Functions of what is published. The users who could be drawn are estimated: their number is a secret."""
        published = len(set(table["user"].to_pylist()))
        users = round(published / -expm1(-self.rate))
        return {
            "total": users * self.rate,
            "limit": users * self.rate,
            "users": users,
            "pairs": pairs,
            "users_published": published,
            "clicks_drawn": sum(table["count"].to_pylist()),
        }

    def advice(self, pairs: int, rows: int) -> str | None:
        if not pairs:
            return (
                "No pair of query and url was common enough to be named. A larger ε names more, and so do more "
                "users; or name public pairs as candidates."
            )
        if not rows:
            return (
                "Chance drew nothing, or nobody clicked one of the pairs. A larger δ makes for more; drawing "
                "again until something comes out would cost the budget each time."
            )
        return None


class Drawn(NamedTuple):
    """Clicks that were drawn, each once: of whom, which one of hers (from 0), and how often."""

    holders: Integers
    places: Integers
    times: Integers


def draw(clicks: Integers, rate: float, source: Source) -> Drawn:
    """Poisson(rate) times one of each user's clicks, all equally likely, for users with so many clicks.

    By splitting, a pair that is c of her n clicks is drawn Poisson(rate·c/n) times, independently of all other pairs
    and users.
    """
    holders = np.repeat(np.arange(len(clicks)), Poisson(rate).sample(len(clicks), source))
    starts = np.cumsum(clicks) - clicks
    click, times = np.unique(starts[holders] + source.below(clicks[holders]), return_counts=True)
    owner = np.asarray(np.searchsorted(starts, click, "right"), np.int64) - 1
    return Drawn(owner, click - starts[owner], times)


def _clicks_on(vocabulary: ir.Table, log: SearchLog, unit: TimeUnit) -> ir.Table:
    """Every click on a pair of the vocabulary: its user, the number of the entry, and what else may be published."""
    entry = [column for column in vocabulary.columns if column != "entry"]
    rows = log.table.filter(log.table["url"].notnull() & (log.table["url"] != ""))
    if "url" in entry:  # few urls are left, and then few queries to be brought to their normal form
        rows = rows.semi_join(vocabulary.select("url").distinct(), "url")
    columns: dict[str, Any] = {name: rows[name] for name in ("user", "query", "url")}
    if "time" in rows.columns and unit != "none":
        columns["time"] = rows["time"].truncate(TRUNCATED_TO[unit])
    if "rank" in rows.columns:
        columns["rank"] = rows["rank"]
    normal = normal_query(rows.select(**columns), log.normalization)
    return normal.join(vocabulary, entry).select(
        "user", "entry", *(name for name in columns if name not in ("user", *entry))
    )


def _rows(
    clicks: ir.Table, holders: ir.Table, vocabulary: ir.Table, drawn: Drawn, log: SearchLog, source: Source
) -> pa.Table:
    """The clicks that were drawn, under pseudonyms: numbers in a random order, by which the rows are ordered too.

    A user's clicks are counted in the order of what is published of them, so equal ones may change places.
    """
    people, person = np.unique(drawn.holders, return_inverse=True)
    wanted = log.engine.load(
        pa.table(
            {
                "pseudonym": pa.array(1 + source.order(len(people))[person], pa.int64()),
                "holder": pa.array(drawn.holders, pa.int64()),
                "place": pa.array(drawn.places, pa.int64()),
                "count": pa.array(drawn.times, pa.int64()),
            }
        )
    )
    seen = holders.semi_join(wanted, "holder").select("user", "holder")
    told = [column for column in clicks.columns if column != "user"]
    theirs = clicks.join(seen, "user").select("holder", *told)
    place = ibis.row_number().over(ibis.window(group_by="holder", order_by=told))
    placed = theirs.mutate(place=place.cast("int64"))
    found = placed.join(wanted, ["holder", "place"]).join(vocabulary, "entry")
    columns = ["pseudonym", *(column for column in TYPES if column in found.columns), "count"]
    schema = pa.schema({name: TYPES.get(name, pa.int64()) for name in columns})
    table = log.engine.fetch(found.select(*columns)).cast(schema)
    table = table.rename_columns(["user", *columns[1:]])
    return table.sort_by([(name, "ascending") for name in table.column_names[:-1]])


def users_for_one(rate: float) -> int:
    """How many users it takes for one click to be expected at all; two, which every release takes, if that is few."""
    least = ceil(1 / rate)
    return least if least > FEW_USERS else 2


def require_something(log: SearchLog, rate: float, delta: float) -> None:
    """Refuse, before anything is paid, a δ by which less than one click is expected.

    Refusing shows that the log has fewer users than it takes, so the guarantee names that as taken as public.
    """
    least = users_for_one(rate)
    if least > FEW_USERS and log.users < least:
        raise InputError(
            f"with this δ a click is drawn of one user in {least:,}, and {log.source} has fewer users: nothing would "
            "come out",
            parameter="delta",
            value=delta,
            instead="δ is how likely a user is to appear at all: try "
            + setting("delta", 0.01 if delta < 0.01 else 0.5)
            + ", or release counts, which have no such limit, with "
            + settings({"method": "weighted", "item": "click"}),
        )


def too_little(most: float) -> str | None:
    if most >= 1:
        return None
    return (
        f"With this limit all tuples together can be {most:.3g} at most, less than one. A release of counts has no "
        "such limit: try the method zealous with the item click, or a larger δ."
    )
