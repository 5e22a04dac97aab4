"""Weighted selection: publish the items that many users share, named by rounds of noisy weights. A method of our own.

Each user spreads an L2 budget over her items (Gopi et al. 2020). After each round everybody moves weight away from what
is hopeless or already certain; the noisy totals of all rounds together are compared with one threshold.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, isqrt, sqrt
from typing import Any, ClassVar, Literal, get_args

import ibis
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.errors import InputError
from searchveil.items import QUERY, Item, item_named
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy import calibrate
from searchveil.privacy.gaussian import LARGEST_EPSILON, GaussianAccount, crossing_threshold, sigma_for
from searchveil.privacy.guarantee import Guarantee, Neighbours
from searchveil.privacy.noise import Integers, Source
from searchveil.progress import Progress
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.plan import Plan, Settings, WeightSelection, given
from searchveil.publish.priorities import ONE, Policy, policy_named
from searchveil.publish.rounds import UNIT, Holdings, Named, select
from searchveil.publish.rounds_in_engine import HeldInEngine

Counts = Literal["users", "score", "none"]

NOISE_SHARE = 0.7  # of δ, for the noise; the rest is for items that one user alone holds
COUNTED_ITEMS = 30  # a user's count vector is scaled to the length of so many ones
COUNT_UNIT = 1 << 8  # a count of one, in the integers that are added up
SQUARED_COUNTS = COUNTED_ITEMS * COUNT_UNIT * COUNT_UNIT


@dataclass(frozen=True, kw_only=True)
class WeightedSettings(Settings):
    weights: WeightSelection
    rounds: int
    counts: Counts
    count_share: float
    policy: str

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


@dataclass(frozen=True)
class Weighted(Mechanism[WeightedSettings]):
    """Name the items that many users share, by rounds that move everybody's weight to where it still decides.

    `counts` are how many users hold each named item, measured with `count_share` of the budget; "score" publishes the
    noisy weight that named an item instead, which costs nothing, and "none" the items alone. With a `pool`, only its
    items can be named; the pool is public, so no δ is needed for items of one user.
    """

    method: ClassVar[str] = "weighted"

    epsilon: float
    delta: float
    item: Item | str = QUERY
    counts: Counts = "users"
    count_share: float | None = None
    candidates_per_user: int = 200
    neighbours: Neighbours = "add-remove"
    pool: QueryPool | None = None
    policy: Literal["learned", "formula"] = "learned"

    def __post_init__(self) -> None:
        calibrate.check_epsilon(self.epsilon)
        calibrate.check_delta(self.delta)
        calibrate.check_whole(self.candidates_per_user, "candidates-per-user")
        object.__setattr__(self, "item", item_named(self.item))
        for option, value, known in (
            ("counts", self.counts, get_args(Counts)),
            ("neighbours", self.neighbours, get_args(Neighbours)),
            ("policy", self.policy, ("learned", "formula")),
        ):
            if value not in known:
                raise InputError(f"--{option} {value}: it is one of {', '.join(known)}")
        if self.counts != "users" and self.count_share is not None:
            raise InputError(f"--counts {self.counts} measures no counts; leave out --count-share")
        if self.count_share is None:
            object.__setattr__(self, "count_share", 0.2 if self.counts == "users" else 0.0)
        elif not 0 < self.count_share < 1:
            raise InputError(f"--count-share must lie between 0 and 1, not {self.count_share:g}; try 0.2")
        if self.pool is not None and str(self.item) != "query":
            raise InputError(f"a pool holds queries, not items of kind {self.item}; leave out --pool")

    def planned(self, log: SearchLog | int | None) -> Plan[WeightedSettings]:
        assert self.count_share is not None
        calibration = self._calibration
        settings = WeightedSettings(
            weights=WeightSelection(self.candidates_per_user, calibration.sigma, calibration.threshold),
            rounds=calibration.policy.rounds,
            counts=self.counts,
            count_share=self.count_share,
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
            proof="docs/guarantees.md#weighted",
            assumed_public=tuple(public),
        )
        return Plan(self.method, str(self.item), settings, guarantee)

    @cached_property
    def _calibration(self) -> "Calibration":
        return Calibration.of(self)

    def check(self, log: SearchLog) -> None:
        item_named(self.item).check(log)

    def publish(self, log: SearchLog, plan: Plan[WeightedSettings], source: Source, progress: Progress) -> Published:
        item, calibration = item_named(self.item), self._calibration
        progress(f"gathering who holds what, up to {self.candidates_per_user} items of each user")
        where = HeldHere if log.engine.in_process else HeldInEngine
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
        published = held.texts(named)
        if self.counts == "users":
            progress("counting users")
            totals = held.totals(named, _count_parts(min(self.candidates_per_user, len(named.items))))
            share = 1 - calibration.set_share
            noisy = account.measure(totals, squared_length=SQUARED_COUNTS, share=share, source=source)
            counts = np.maximum(1, np.rint(noisy / COUNT_UNIT).astype(np.int64))
            published = published.append_column("count", pa.array(counts))
        elif self.counts == "score":
            published = published.append_column("score", pa.array(named.scores / (UNIT * ONE)))
        return Published({"data": _in_order(published, item.columns)})


@dataclass(frozen=True)
class Calibration:
    """The noise and the threshold that keep the promise. All in units of weight."""

    policy: Policy
    account_sigma: float  # 1/μ of the whole account, for a user's vector of length one
    set_share: Fraction  # of μ², for the rounds
    set_variance: Fraction  # of the noise of all rounds together
    threshold: float

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
        for_noise = asked.delta if asked.pool is not None else NOISE_SHARE * asked.delta
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
        threshold = crossing_threshold(crossing, [variance * part for part in policy.variances])
        return cls(policy, account_sigma, set_share, variance, threshold)


@dataclass(frozen=True)
class HeldHere:
    """Who holds what, in this process. `HeldInEngine` is the same for an engine that works elsewhere."""

    items: pa.Table
    holdings: Holdings

    @classmethod
    def of(
        cls, log: SearchLog, item: Item, pool: QueryPool | None, candidates_per_user: int, source: Source
    ) -> "HeldHere":
        texts, holdings = _gather(log, item, pool)
        holdings = holdings.bounded(candidates_per_user, source)
        if pool is None:  # an item that nobody keeps must never be named
            kept = holdings.degrees > 0
            texts, holdings = texts.filter(pa.array(kept)), holdings.only(kept)
        return cls(texts, holdings)

    def select(self, **known: Any) -> Named:
        return select(self.holdings, **known)

    def texts(self, named: Named) -> pa.Table:
        return self.items.take(named.items)

    def totals(self, named: Named, parts: Integers) -> Integers:
        """What each named item's holders add up to, where a user of n of them gives parts[n] to each."""
        chosen = np.zeros(len(self.holdings.degrees), np.bool_)
        chosen[named.items] = True
        held = self.holdings.only(chosen)
        in_place = np.zeros(len(chosen), np.int64)
        in_place[chosen] = held.totals(parts[np.bincount(held.users)[held.users]])
        totals: Integers = in_place[named.items]
        return totals


def _gather(log: SearchLog, item: Item, pool: QueryPool | None) -> tuple[pa.Table, Holdings]:
    """Every item, and beside it the users who hold it, each once, as small integers."""
    columns, engine = list(item.columns), log.engine
    codes = engine.number(log.table.select("user").distinct(), "_holder", ["user"])
    rows = item.held(log).join(codes, "user")
    held = rows.select(*columns, _holder=rows["_holder"].cast("int32"))
    typed = held.group_by(columns).agg(_holders=held["_holder"].collect(distinct=True))
    as_typed = typed.mutate(**{f"_typed_{column}": typed[column] for column in columns})
    normal = item.finish(as_typed, log.normalization)
    differs = ibis.or_(*(normal[column] != normal[f"_typed_{column}"] for column in columns))
    items = normal.select(*columns, "_holders", _differs=differs)
    if pool is not None:
        public = pool.table(engine, log.normalization)
        items = public.left_join(engine.stage(items), columns).select(*columns, "_holders", "_differs")
    return _merge_spellings(engine.fetch(items), columns)


def _merge_spellings(items: pa.Table, columns: list[str]) -> tuple[pa.Table, Holdings]:
    """One row for each item. Blank ones go; a user of several spellings of an item holds it once."""
    texts = items.select(columns)
    blank = np.logical_or.reduce([_mask(pc.equal(texts[column], pa.scalar(""))) for column in columns])
    # Few texts have several spellings: only these are looked at again.
    respelled = texts.filter(items["_differs"])
    several = np.logical_and.reduce([_mask(pc.is_in(texts[column], respelled[column])) for column in columns]) & ~blank
    again = items.filter(pa.array(several))
    numbers = [np.asarray(again[column].combine_chunks().dictionary_encode().indices) for column in columns]
    _, first, item_of = np.unique(np.stack(numbers), axis=1, return_index=True, return_inverse=True)
    users, spellings = _lists(again["_holders"])
    pairs = np.unique(np.stack([np.repeat(item_of, spellings), users]), axis=1)
    merged = Holdings(pairs[1].astype(np.int32), np.bincount(pairs[0], minlength=len(first)).astype(np.int64))
    as_typed = ~several & ~blank
    once = Holdings(*_lists(items["_holders"])).only(as_typed)
    together = pa.concat_tables([texts.filter(pa.array(as_typed)), again.select(columns).take(first)])
    return together, Holdings(
        np.concatenate([once.users, merged.users]), np.concatenate([once.degrees, merged.degrees])
    )


def _mask(where: Any) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(where, False).to_numpy()
    return mask


def _lists(holders: Any) -> tuple[npt.NDArray[np.int32], Integers]:
    """What the lists hold, one after the other, and how long each is."""
    lists = holders.combine_chunks()
    degrees = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lists.flatten().to_numpy(zero_copy_only=False).astype(np.int32, copy=False), degrees


def _count_parts(most: int) -> Integers:
    """For n = 0 … most, what a user of n named items adds to the count of each: one, or less beyond COUNTED_ITEMS."""
    parts = [COUNT_UNIT if n <= COUNTED_ITEMS else isqrt(SQUARED_COUNTS // n) for n in range(most + 1)]
    if max(n * part * part for n, part in enumerate(parts)) > SQUARED_COUNTS:
        raise AssertionError("a user's counts are longer than the noise is for")
    return np.array(parts, np.int64)


def _in_order(published: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """Largest first, then by text: an order that tells nothing else."""
    measured = [name for name in published.column_names if name not in columns]
    types = {
        name: published.schema.field(name).type if name in measured else pa.string() for name in published.column_names
    }
    order: list[tuple[str, Literal["ascending", "descending"]]] = [(name, "descending") for name in measured]
    order += [(name, "ascending") for name in columns]
    return published.cast(pa.schema(types)).sort_by(order)
