"""Publish an item iff its noisy count reaches a threshold, without carrying every rare item out of the engine.

Items far below the threshold are millions and pass almost never. Of n items with the same true count c < T, each
passes with the same probability q = P(η ≥ T − c), independently: the number that pass is Binomial(n, q), which ones is
a uniform choice, and the noisy count of one that passed is T plus a geometric excess. docs/guarantees.md#survivors
proves that the outcome has exactly the distribution of adding noise to every count and comparing.
"""

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.engine import Engine
from searchveil.privacy.noise import DiscreteLaplace, Source, binomial


def survivors(
    counts: ir.Table,
    columns: Sequence[str],
    *,
    threshold: int,
    noise: DiscreteLaplace,
    engine: Engine,
    source: Source,
    fresh: DiscreteLaplace | None = None,
) -> pa.Table:
    """The items whose count plus noise is at least `threshold`, with that noisy count.

    `counts` has the item's columns and an integer `count`. With `fresh`, the published count carries new noise instead
    of the noise that selected it. The rows are ordered by what is published, so their order tells nothing else.
    """
    # The same for every engine, some of which say "not null".
    schema = pa.schema({column: pa.string() for column in columns} | {"count": pa.int64()})
    near, far = counts.filter(counts["count"] >= threshold), counts.filter(counts["count"] < threshold)

    near_items = _in_order(engine.fetch(near).cast(schema), columns)
    near_counts = near_items["count"].to_numpy().astype(np.int64)
    near_noisy = near_counts + noise.sample(len(near_counts), source)
    passed = near_noisy >= threshold

    groups = _how_many_pass(far, threshold, noise, engine, source)
    chosen = _choose(far, columns, groups, engine, source).cast(schema) if groups else schema.empty_table()
    far_items = _in_order(chosen, columns)
    far_counts = far_items["count"].to_numpy().astype(np.int64)
    far_noisy = threshold + noise.excess.sample(len(far_counts), source)

    items = pa.concat_tables([near_items.filter(pa.array(passed)), far_items]).select(list(columns))
    noisy = np.concatenate([near_noisy[passed], far_noisy])
    if fresh is not None:
        noisy = np.concatenate([near_counts[passed], far_counts]) + fresh.sample(len(noisy), source)
    published = items.append_column("count", pa.array(noisy, pa.int64()))
    return published.sort_by([("count", "descending"), *((column, "ascending") for column in columns)])


class Group(NamedTuple):
    """The items of one true count: how many there are, and how many of them pass."""

    items: int
    passing: int

    @property
    def bound(self) -> str:
        """Digests below it are surely enough, or nearly so: eight deviations and 40 more than pass are expected."""
        expected = self.passing + 8 * isqrt(self.passing) + 40
        return f"{expected * 16**16 // self.items:016x}" if expected < self.items else "g"  # which is above any digit


def _how_many_pass(
    far: ir.Table, threshold: int, noise: DiscreteLaplace, engine: Engine, source: Source
) -> dict[int, Group]:
    """For each true count below the threshold, how many of its items pass; counts with none are left out."""
    sizes = engine.fetch(far.group_by("count").agg(items=far.count())).sort_by("count").to_pylist()
    groups = {}
    for size in sizes:
        distance = threshold - size["count"]
        passed = binomial(size["items"], lambda bits, t=distance: noise.tail(t, bits), source)  # type: ignore[misc]
        groups[size["count"]] = Group(size["items"], passed)
    return {count: group for count, group in groups.items() if group.passing}


def _choose(
    far: ir.Table, columns: Sequence[str], groups: Mapping[int, Group], engine: Engine, source: Source
) -> pa.Table:
    """A uniform choice of so many items of each true count, made in the engine by the order of a keyed hash."""
    # The length comes before each text but the last, so no two items read alike.
    *others, last = (far[column] for column in columns)
    texts = [part for text in others for part in (text.length().cast("string"), ":", text)]
    digest = sum([*texts, last], ibis.literal(source.key())).hexdigest("sha256")
    eligible = far.filter(far["count"].isin(list(groups))).mutate(_digest=digest)
    allowed = {count: group.passing for count, group in groups.items()}
    bounds = {count: group.bound for count, group in groups.items()}
    # Sorting all of them for the first few would cost more than everything else.
    few = eligible.filter(eligible["_digest"] < eligible["count"].cases(*bounds.items(), else_=""))
    chosen = engine.fetch(_first(few, columns, allowed))
    if chosen.num_rows < sum(allowed.values()):
        chosen = engine.fetch(_first(eligible, columns, allowed))
    return chosen


def _first(digested: ir.Table, columns: Sequence[str], allowed: Mapping[int, int]) -> ir.Table:
    """So many items of each count, in the order of their digests."""
    place = ibis.row_number().over(ibis.window(group_by="count", order_by=["_digest", *columns]))
    placed = digested.mutate(_place=place)
    most = placed["count"].cases(*allowed.items(), else_=0)
    return placed.filter(placed["_place"] < most).select(*columns, "count")


def _in_order(items: pa.Table, columns: Sequence[str]) -> pa.Table:
    """A fixed order, so that the same source gives the same release whatever order the engine answers in."""
    return items.take(pc.sort_indices(items, [(column, "ascending") for column in columns]))
