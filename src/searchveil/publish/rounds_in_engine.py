"""The rounds of weighted selection where the log is too large for one process: joins and sums inside the engine.

Nothing but named items leaves the engine. The steps are those of `publish/rounds.py`: the weights in the same whole
numbers, checked in the same pass; the noise paid for once a round, here; what follows from noisy totals by the same
`Rule`, in the workers.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.items import Item
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy.contributions import bound_contributions
from searchveil.privacy.gaussian import GaussianAccount
from searchveil.privacy.noise import Integers, RoundedGaussian, Source, Streams
from searchveil.publish.priorities import LARGEST, ONE, Policy
from searchveil.publish.rounds import UNIT, Named, Rule

AFTER_ROUND = {"_id": "int64", "total": "int64", "priority": "int64", "reached": "boolean"}


@dataclass(frozen=True)
class HeldInEngine:
    """Who holds what, as tables: `items` with a number each, and `pairs` of holder and item, a user's item once."""

    engine: Engine
    items: ir.Table  # _id, and the item's columns
    pairs: ir.Table  # _holder and _id

    @classmethod
    def of(
        cls, log: SearchLog, item: Item, pool: QueryPool | None, candidates_per_user: int, source: Source
    ) -> "HeldInEngine":
        """At most so many items of each user. Without a pool, what nobody keeps is no item."""
        columns, engine = list(item.columns), log.engine
        normal = item.not_blank(engine.stage(item.finish(item.held(log).distinct(), log.normalization)))
        if pool is not None:
            items = engine.number(pool.table(engine, log.normalization), "_id", columns)
            normal = normal.semi_join(items, columns)
        kept = engine.stage(bound_contributions(normal, columns, candidates_per_user, source.seed(), engine))
        if pool is None:
            items = engine.number(kept.select(*columns).distinct(), "_id", columns)
        holders = engine.number(kept.select("user").distinct(), "_holder", ["user"])
        pairs = kept.join(items, columns).join(holders, "user").select("_holder", "_id")
        return cls(engine, items, engine.stage(pairs))

    def select(
        self,
        *,
        policy: Policy,
        threshold: float,
        sigma: float,
        account: GaussianAccount,
        share: Fraction,
        source: Source,
    ) -> Named:
        """Run the rounds; what is named comes by the items' numbers, in their order."""
        rule, named = Rule(policy, threshold, sigma), []
        zero = ibis.literal(0, "int64")
        active = self.items.select("_id", total=zero, priority=ibis.literal(LARGEST, "int64"))
        for done, part in enumerate(policy.shares, 1):
            noise = account.spend(squared_length=UNIT * UNIT, share=share * Fraction(part, ONE))
            step = Step(rule, done, noise, bytes.fromhex(source.key()))
            now = self.engine.stage(self.engine.map(self.weighed(active), step, AFTER_ROUND))
            named.append(self.engine.fetch(now.filter(now["reached"]).select("_id", "total")))
            active = now.filter(now["priority"] > 0)
        found = pa.concat_tables(named).sort_by("_id")
        return Named(found["_id"].to_numpy(), found["total"].to_numpy())

    def weighed(self, active: ir.Table) -> ir.Table:
        """Every active item, also those that nobody holds, with its total so far and what its holders give it now.

        `longest` is the largest Σw² of them.
        """
        held = self.pairs.join(active.select("_id", "priority"), "_id")
        p, user = held["priority"], ibis.window(group_by="_holder")
        # One window has all of a user's rows: her weights follow from the priorities that the sum is of.
        squared = held.mutate(squares=(p * p).sum().over(user))
        # As in rounds.py: the sums are below 2^53 and so exact as floats, and so are the quotients' whole parts.
        root = squared["squares"].cast("float64").sqrt().ceil().cast("int64")
        root = root + (root * root < squared["squares"]).cast("int64")
        given = squared.select("_holder", "_id", weight=(UNIT * squared["priority"]) // root)
        checked = given.mutate(length=(given["weight"] * given["weight"]).sum().over(user))
        totals = checked.group_by("_id").agg(weight=checked["weight"].sum(), longest=checked["length"].max())
        both = active.left_join(totals, "_id")
        measured = {name: both[name].fill_null(0).cast("int64") for name in ("weight", "longest")}
        return both.select("_id", "total", **measured)

    def texts(self, named: Named) -> pa.Table:
        """Of the named items, in the order of their numbers."""
        chosen = self.items.semi_join(self.engine.load(pa.table({"_id": pa.array(named.items)})), "_id")
        return self.engine.fetch(chosen).sort_by("_id").drop_columns(["_id"])

    def totals(self, named: Named, parts: Integers) -> Integers:
        """What each named item's holders add up to, where a user of n of them gives parts[n] to each."""
        items = self.engine.load(pa.table({"_id": pa.array(named.items)}))
        held = self.pairs.semi_join(items, "_id")
        counted = held.mutate(n=held.count().over(ibis.window(group_by="_holder")))
        table = pa.table({"n": pa.array(range(len(parts)), pa.int64()), "part": pa.array(parts)})
        given = counted.join(self.engine.load(table), "n")
        sums = given.group_by("_id").agg(total=given["part"].sum())
        both = items.left_join(sums, "_id")
        summed = self.engine.fetch(both.select("_id", total=both["total"].fill_null(0).cast("int64"))).sort_by("_id")
        totals: Integers = summed["total"].to_numpy()
        return totals


@dataclass(frozen=True)
class Step:
    """The end of a round, for any part of the items: noise on every one of them, and what follows.

    An item's noise is a function of this round's key and of its number. A worker that dies, or a task that runs twice,
    draws it again as it was; no two items and no two rounds share any of it (docs/guarantees/weighted.md).
    """

    rule: Rule
    done: int
    noise: RoundedGaussian
    key: bytes = field(repr=False)

    def __call__(self, items: pa.Table) -> pa.Table:
        ids, total, weight, longest = (items[name].to_numpy() for name in ("_id", "total", "weight", "longest"))
        if longest.max(initial=0) > UNIT * UNIT:
            raise AssertionError("a user's weights are longer than the noise is for")
        now = self.rule.after(self.done, total, weight + self.noise.of_each(ids, Streams(self.key)))
        columns = (ids, now.totals, now.priorities, now.reached)
        return pa.table([pa.array(column) for column in columns], names=list(AFTER_ROUND))
