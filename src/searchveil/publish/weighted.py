"""Weighted selection: publish the items that many users share, named by rounds of noisy weights. A method of our own.

Each user spreads an L2 budget over her items (Gopi et al. 2020). After each round everybody moves weight away from what
is hopeless or already certain; the noisy totals of all rounds together are compared with one threshold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import exp, isqrt, sqrt
from typing import Annotated, Any, ClassVar, Literal

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.errors import InputError, setting
from searchveil.items import QUERY, Item, item_named
from searchveil.log import SearchLog
from searchveil.privacy.composition import not_below
from searchveil.privacy.gaussian import (
    LARGEST_EPSILON,
    GaussianAccount,
    crossing_probability,
    crossing_threshold,
    most_likely,
    sigma_for,
)
from searchveil.privacy.guarantee import Guarantee, Neighbours, Notion
from searchveil.privacy.noise import Integers, Source
from searchveil.progress import Progress
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.parameters import Declared, Delta, Epsilon, ItemKind, NeighboursKind, Pool
from searchveil.publish.plan import Counted, Plan, Settings, WeightSelection, given
from searchveil.publish.priorities import ONE, Policy, policy_named
from searchveil.publish.rounds import MOST_ITEMS, UNIT
from searchveil.publish.rounds_in_engine import HeldInEngine
from searchveil.publish.rounds_in_memory import HeldInMemory
from searchveil.publish.spread import gaussian_below

Counts = Literal["users", "searches", "score", "none"]

NOISE_SHARE = 0.7  # of δ, for the noise; the rest is for items that one user alone holds
COUNTED_ITEMS = 30  # a user's vector of items is scaled to the length of so many ones
COUNTED_SEARCHES = 120  # and that of searches to the length of so many ones
SEARCHES_OF_AN_ITEM = 10  # more searches of one user for one item count as so many
COUNT_UNIT = 1 << 12  # a count of one, in the integers that are added up
SQUARED_COUNTS = COUNTED_ITEMS * COUNT_UNIT * COUNT_UNIT
SQUARED_SEARCHES = COUNTED_SEARCHES * COUNT_UNIT * COUNT_UNIT
SQUARED: Mapping[Counts, int] = {"users": SQUARED_COUNTS, "searches": SQUARED_SEARCHES}


@dataclass(frozen=True, kw_only=True)
class WeightedSettings(Settings):
    weights: WeightSelection = field()
    rounds: int
    counts: Counts
    count_share: float
    count_deviation: float | None  # of the noise in a count
    policy: str

    @property
    def noise_below(self) -> dict[str, int]:
        return {} if self.count_deviation is None else {"data": gaussian_below(self.count_deviation)}

    def to_json(self) -> dict[str, Any]:
        return given(
            sigma=self.weights.sigma,
            threshold=self.weights.threshold,
            rounds=self.rounds,
            candidates_per_user=self.weights.per_user,
            counts=self.counts,
            count_share=self.count_share,
            policy=self.policy,
            pool_size=self.pool_size,
        )


@dataclass(frozen=True, repr=False)
class Weighted(Mechanism[WeightedSettings]):
    """Name the items that many users share, by rounds that move everybody's weight to where it still decides.

    `counts` are how many users hold each named item, or how often it was searched, measured with `count_share` of the
    budget; "score" publishes the noisy weight that named an item instead, which costs nothing, and "none" the items
    alone. With a `pool`, only its items can be named; the pool is public, so no δ is needed for items of one user.

    Proof: docs/guarantees/weighted.md.

    >>> sorted(sv.Weighted(epsilon=100, delta=1e-6).release(log).table["query"].to_pylist())
    ['news', 'weather']
    """

    method: ClassVar[str] = "weighted"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate",)
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 1e-6}

    epsilon: Epsilon
    delta: Delta
    item: ItemKind = QUERY
    counts: Annotated[Counts, Declared("What is published beside the items.")] = "users"
    count_share: Annotated[
        float | None, Declared("The part of the budget that counts take.", above=0, below=1, example=0.15)
    ] = None
    candidates_per_user: Annotated[int, Declared("Items of a user that may be named.", least=1, most=MOST_ITEMS)] = 200
    neighbours: NeighboursKind = "add-remove"
    pool: Pool | None = None
    policy: Annotated[
        Literal["learned", "formula"], Declared("How weight moves between rounds; formula is one a person can read.")
    ] = "learned"

    def __post_init__(self) -> None:
        if self.counts != "users" and self.count_share == 0:  # what it is set to below: a copy is made with it
            object.__setattr__(self, "count_share", None)
        super().__post_init__()
        measured = self.counts in ("users", "searches")
        if not measured and self.count_share is not None:
            raise InputError(
                setting("counts", self.counts) + " measures no counts",
                parameter="count_share",
                value=self.count_share,
                instead="leave out " + setting("count_share"),
            )
        if self.counts == "searches" and str(self.item) == "keyword":
            raise InputError(
                setting("counts", self.counts) + " is not for keywords",
                parameter="counts",
                value=self.counts,
                instead="take " + setting("counts", "users"),
            )
        if self.count_share is None:
            object.__setattr__(self, "count_share", 0.15 if measured else 0.0)
        if self.pool is not None and str(self.item) != "query":
            raise InputError(
                f"a pool holds queries, not items of kind {self.item}",
                parameter="pool",
                instead="leave out " + setting("pool"),
            )

    def planned(self, log: SearchLog | int | None) -> Plan[WeightedSettings]:
        assert self.count_share is not None
        calibration = self._calibration
        settings = WeightedSettings(
            weights=WeightSelection(self.candidates_per_user, calibration.sigma, calibration.threshold),
            rounds=calibration.policy.rounds,
            counts=self.counts,
            count_share=self.count_share,
            count_deviation=calibration.count_deviation(self.counts, self.neighbours),
            policy=self.policy,
            pool_size=None if self.pool is None else self.pool.size,
        )
        public = [AT_LEAST_TWO_USERS]
        if self.pool is not None:
            public.append("the pool")
        guarantee = Guarantee(
            notion="approximate",
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            proof="docs/guarantees/weighted.md",
            assumed_public=tuple(public),
            mu=calibration.mu,
            mu_delta=calibration.mu_delta(self.neighbours),
        )
        counted: Counted = "occurrences" if self.counts == "searches" else "users"
        return Plan(self.method, str(self.item), settings, guarantee, counts=counted)

    @cached_property
    def _calibration(self) -> "Calibration":
        return Calibration.of(self)

    def check(self, log: SearchLog) -> None:
        item_named(self.item).check(log)

    def publish(self, log: SearchLog, plan: Plan[WeightedSettings], source: Source, progress: Progress) -> Published:
        item, weights = item_named(self.item), plan.settings.weights
        calibration = self._calibration.with_numbers(weights.sigma, weights.threshold)
        progress(f"gathering who holds what, up to {self.candidates_per_user} items of each user")
        where = HeldInMemory if log.engine.in_process else HeldInEngine
        held = where.of(log, item, self.pool, self.candidates_per_user, source)
        progress(f"{calibration.policy.rounds} rounds of noisy weights")
        account = GaussianAccount(calibration.account_sigma, self.neighbours)
        named = held.select(
            policy=calibration.policy,
            threshold=calibration.threshold,
            sigma=calibration.set_sigma,
            account=account,
            share=calibration.set_share,
            source=source,
        )
        published, share = held.texts(named), 1 - calibration.set_share
        if self.counts == "users":
            progress("counting users")
            totals = held.totals(named, _count_parts(min(self.candidates_per_user, len(named.items))))
            counts = measured_counts(totals, SQUARED_COUNTS, account, share, source)
            published = published.append_column("count", pa.array(counts))
        elif self.counts == "searches":
            progress("counting searches")
            totals = _searches(log, item, published)
            counts = measured_counts(totals, SQUARED_SEARCHES, account, share, source)
            published = published.append_column("count", pa.array(counts))
        elif self.counts == "score":
            published = published.append_column("score", pa.array(named.scores / (UNIT * ONE)))
        return Published({"data": in_order(published, item.columns)})


@dataclass(frozen=True)
class Calibration:
    """The noise and the threshold that keep the promise. All in units of weight."""

    policy: Policy
    account_sigma: float  # 1/μ of the whole account, for a user's vector of length one
    set_share: Fraction  # of μ², for the rounds
    set_variance: Fraction  # of the noise of all rounds together
    threshold: float
    crossing: float  # how likely noise alone names an item of one user, whatever she holds: at most

    @property
    def mu(self) -> float:
        """Of the whole account, as a decimal that is not below it."""
        return not_below(1 / Fraction(self.account_sigma))

    def mu_delta(self, neighbours: Neighbours) -> float:
        """How likely an item that one user alone holds is named, on either of two neighbouring logs: at most."""
        hers = most_likely(self.crossing, self.mu)
        return hers if neighbours == "add-remove" else min(1.0, (hers + self.crossing) * (1 + 1e-15))

    def count_deviation(self, counts: Counts, neighbours: Neighbours) -> float | None:
        """Of the noise in a count, where counts are measured."""
        if counts not in SQUARED:
            return None
        account = GaussianAccount(self.account_sigma, neighbours)
        return sqrt(float(account.variance(SQUARED[counts], 1 - self.set_share))) / COUNT_UNIT

    def with_numbers(self, sigma: float, threshold: float) -> "Calibration":
        """The same with the noise and the threshold of a plan, which are usually its own."""
        scale = Fraction(sigma) / Fraction(self.sigma)
        return replace(
            self,
            account_sigma=float(Fraction(self.account_sigma) * scale),
            set_variance=self.set_variance * scale * scale,
            threshold=threshold,
        )

    @property
    def sigma(self) -> float:
        """Of the whole account; neighbours that replace a user differ by a vector of length √2."""
        return self.set_sigma * sqrt(float(self.set_share))

    @property
    def set_sigma(self) -> float:
        return sqrt(float(self.set_variance))

    @classmethod
    def of(cls, asked: Weighted) -> "Calibration":
        assert asked.count_share is not None
        policy = policy_named(asked.policy)
        # The last part of it pays for ε and δ being printed as decimals, which may be a little below the floats.
        for_noise = asked.delta * (1 - 1e-12) if asked.pool is not None else NOISE_SHARE * asked.delta
        account_sigma = sigma_for(asked.epsilon, for_noise)
        set_share = 1 - Fraction(asked.count_share)
        account = GaussianAccount(account_sigma, asked.neighbours)
        variance = account.variance(1, set_share)
        if asked.pool is not None:
            crossing = 1 / asked.pool.size  # one item of the pool is expected to be named by noise alone
        else:
            # Items that one user alone holds: e^ε from her log to the one without her, and one more for the other's.
            times = exp(min(asked.epsilon, LARGEST_EPSILON)) + (asked.neighbours == "replace-one")
            crossing = (asked.delta - for_noise) / (times * asked.candidates_per_user) * (1 - 1e-12)
        variances = [variance * part for part in policy.variances]
        threshold = crossing_threshold(crossing, variances)
        lone = 0.0 if asked.pool is not None else crossing_probability(threshold, variances) * asked.candidates_per_user
        return cls(policy, account_sigma, set_share, variance, threshold, lone * (1 + 1e-15))


def measured_counts(
    totals: Integers, squared_length: int, account: GaussianAccount, share: Fraction, source: Source
) -> Integers:
    """Noisy counts, at least 1: that an item was named is known already."""
    noisy = account.measure(totals, squared_length=squared_length, share=share, source=source)
    counts: Integers = np.maximum(1, np.rint(noisy / COUNT_UNIT).astype(np.int64))
    return counts


def _count_parts(most: int) -> Integers:
    """For n = 0 … most, what a user of n named items adds to the count of each: one, or less beyond COUNTED_ITEMS."""
    parts = [COUNT_UNIT if n <= COUNTED_ITEMS else isqrt(SQUARED_COUNTS // n) for n in range(most + 1)]
    if max(n * part * part for n, part in enumerate(parts)) > SQUARED_COUNTS:
        raise AssertionError("a user's counts are longer than the noise is for")
    return np.array(parts, np.int64)


def _searches(log: SearchLog, item: Item, named: pa.Table) -> Integers:
    """How often each named item was searched, at most SEARCHES_OF_AN_ITEM times by a user, in units of COUNT_UNIT."""
    engine, columns = log.engine, list(item.columns)
    timed = str(item) == "query" and "time" in log.table.columns
    rows = log.table.select("user", "query", "time") if timed else item.held(log)
    # Only the spellings of named items are looked up: normalising every row would cost more than all the rest.
    typed = rows.select(*columns).distinct()
    spelled = item.finish(typed.mutate(**{f"_typed_{name}": typed[name] for name in columns}), log.normalization)
    placed = engine.load(named.append_column("_place", pa.array(np.arange(named.num_rows))))
    spelled = engine.stage(spelled.join(placed, columns).select("_place", *(f"_typed_{name}" for name in columns)))
    found = rows.join(spelled, [rows[name] == spelled[f"_typed_{name}"] for name in columns])
    # Rows of one time are one search with several clicks; those of unknown time are one more.
    searches = found["time"].nunique() + found["time"].isnull().any().cast("int64") if timed else found.count()
    amount = ibis.least(searches, SEARCHES_OF_AN_ITEM).cast("int64")
    counted = engine.stage(found.group_by(["_place", "user"]).agg(_amount=amount))
    return scaled_totals(counted, named.num_rows, SQUARED_SEARCHES, engine)


def scaled_totals(amounts: ir.Table, size: int, squared_length: int, engine: Engine, percent: int = 0) -> Integers:
    """The sums at each `_place` of users' amounts, whole numbers of at least 1, in units of COUNT_UNIT.

    The unit is smaller for a user of a longer vector: ⌊√(squared_length/Σ amount²)⌋. Only the sums leave the engine.
    A vector counts as no shorter than so many `percent` of (Σ amount)²: users of one number then have one unit, and
    those who happen to have most in one cell do not weigh less.
    """
    amount, user = amounts["_amount"], ibis.window(group_by="user")
    squares, total = ((amount * amount).sum().over(user).cast("int64"), amount.sum().over(user).cast("int64"))
    squared = amounts.mutate(_squares=ibis.greatest(squares, total * total * percent // 100))
    squares = squared["_squares"]
    root = (ibis.literal(float(squared_length)) / squares.cast("float64")).sqrt().floor().cast("int64")
    root = root - (root * root * squares > squared_length).cast("int64")  # where it was rounded up
    unit = ibis.least(root, ibis.literal(COUNT_UNIT, "int64"))
    given = squared.select("_place", _given=squared["_amount"] * unit, _length=unit * unit * squares)
    sums = given.group_by("_place").agg(total=given["_given"].sum(), longest=given["_length"].max())
    fetched = engine.fetch(
        sums.select("_place", *(sums[name].cast("int64").name(name) for name in ("total", "longest")))
    )
    if fetched["longest"].to_numpy().max(initial=0) > squared_length:
        raise AssertionError("a user's counts are longer than the noise is for")
    places = fetched["_place"].to_numpy()
    if len(places) and not 0 <= places.min() <= places.max() < size:  # a negative one would name a cell from the end
        raise AssertionError("a count has no cell of its own")
    totals = np.zeros(size, np.int64)
    totals[places] = fetched["total"].to_numpy()
    return totals


def in_order(published: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """Largest first, then by text: an order that tells nothing else."""
    measured = [name for name in published.column_names if name not in columns]
    types = {
        name: published.schema.field(name).type if name in measured else pa.string() for name in published.column_names
    }
    order: list[tuple[str, Literal["ascending", "descending"]]] = [(name, "descending") for name in measured]
    order += [(name, "ascending") for name in columns]
    return published.cast(pa.schema(types)).sort_by(order)
