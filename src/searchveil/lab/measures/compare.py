"""Two views of one kind of item, side by side. Whole tables stay in the engine; only the top comes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt

from searchveil.engine import Engine
from searchveil.items import ITEMS
from searchveil.lab.view import View, columns_of

RANKS = (10, 50, 100, 500, 1000, 5000)

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Top:
    """The original's most frequent items, most frequent first, and what the release says of each."""

    original: Counts
    release: Counts  # 0 where the release lacks the item
    published: npt.NDArray[np.bool_]
    original_total: float  # over all items, not only the top
    release_total: float

    def __len__(self) -> int:
        return len(self.original)

    def first(self, j: int) -> "Top":
        return Top(self.original[:j], self.release[:j], self.published[:j], self.original_total, self.release_total)

    @property
    def original_shares(self) -> Counts:
        return _shares(self.original, self.original_total)

    @property
    def release_shares(self) -> Counts:
        return _shares(self.release, self.release_total)


def in_both(original: View, release: View) -> list[str]:
    """The tables of items that both have.

    Not sessions: a release counts parts of sessions, which no count of whole ones can be held against. What it says of
    them shows in the transitions.
    """
    return [item.table for item in ITEMS.values() if original.has(item.table) and release.has(item.table)]


def at_ranks(
    original: View, release: View, ranks: Sequence[int], of_top: Callable[[Top], float | None]
) -> dict[str, float]:
    """A figure of the top j for every kind of item and every j that the original has; of all where it has few."""
    figures: dict[str, float] = {}
    for table in in_both(original, release):
        top = top_items(original, release, table, max(ranks))
        for j in [j for j in ranks if j <= len(top)] or [len(top)]:
            if j and (figure := of_top(top.first(j))) is not None:
                figures[f"{table}@{j}"] = figure
    return figures


# Several measures look at the same top, or at all items: they are asked for once, and forgotten with the views.
_tops: WeakKeyDictionary[View, WeakKeyDictionary[View, dict[tuple[str, int], Top]]] = WeakKeyDictionary()
_joints: "WeakKeyDictionary[View, WeakKeyDictionary[View, dict[str, Joint]]]" = WeakKeyDictionary()


def top_items(original: View, release: View, table: str, most: int) -> Top:
    """Items of the same count are ranked by their text, so that the same log has the same top everywhere."""
    kept = _tops.setdefault(original, WeakKeyDictionary()).setdefault(release, {})
    if (table, most) not in kept:
        kept[table, most] = _top_items(original, release, table, most)
    return kept[table, most]


def _top_items(original: View, release: View, table: str, most: int) -> Top:
    keys, counts = columns_of(table), original.tables[table]
    ranked = counts.order_by([ibis.desc("count"), *keys]).limit(most)
    rows = original.engine.fetch(beside(ranked, release.tables[table], keys))
    rows = rows.sort_by([("_original", "descending"), *((key, "ascending") for key in keys)])
    return Top(
        rows["_original"].to_numpy().astype(np.float64),
        rows["_release"].to_numpy().astype(np.float64),
        rows["_published"].to_numpy().astype(np.bool_),
        total(original, counts),
        total(release, release.tables[table]),
    )


def beside(original: ir.Table, release: ir.Table, keys: Sequence[str]) -> ir.Table:
    """Every item of the original: its keys, its `_original` count, the `_release` count or 0, whether `_published`."""
    joined = original.rename(_original="count").left_join(release.select(*keys, _release="count"), list(keys))
    counted = joined["_release"]
    return joined.select(*keys, "_original", _release=counted.fill_null(0), _published=counted.notnull())


@dataclass(frozen=True)
class Joint:
    """How many `items` have which count here and which there, 0 where they are not. All of both, and little to carry.

    What is worked out from it is worked out in Python: engines differ in what a fraction is.
    """

    original: Counts
    release: Counts
    published: npt.NDArray[np.bool_]
    items: Counts

    @property
    def of_original(self) -> "Joint":
        return self.where(self.original > 0)

    def where(self, wanted: npt.NDArray[np.bool_]) -> "Joint":
        return Joint(self.original[wanted], self.release[wanted], self.published[wanted], self.items[wanted])

    @property
    def original_total(self) -> float:
        return float((self.original * self.items).sum())

    @property
    def release_total(self) -> float:
        return float((self.release * self.items).sum())

    @property
    def original_shares(self) -> Counts:
        return _shares(self.original, self.original_total)

    @property
    def release_shares(self) -> Counts:
        return _shares(self.release, self.release_total)


def joint_of(original: View, release: View, table: str) -> Joint:
    """All items of two views' tables of that name."""
    kept = _joints.setdefault(original, WeakKeyDictionary()).setdefault(release, {})
    if table not in kept:
        counts = original.tables[table], release.tables[table]
        kept[table] = joint_counts(original.engine, *counts, columns_of(table))
    return kept[table]


def joint_counts(engine: Engine, original: ir.Table, release: ir.Table, keys: Sequence[str]) -> Joint:
    joined = original.rename(_original="count").outer_join(release.select(*keys, _release="count"), list(keys))
    before, after = joined["_original"], joined["_release"]
    counts = joined.select(original=before.fill_null(0), release=after.fill_null(0), published=after.notnull())
    rows = engine.fetch(counts.group_by(["original", "release", "published"]).agg(items=counts.count()))
    return Joint(
        rows["original"].to_numpy().astype(np.float64),
        rows["release"].to_numpy().astype(np.float64),
        rows["published"].to_numpy().astype(np.bool_),
        rows["items"].to_numpy().astype(np.float64),
    )


def covered_volume(original: View, released: View) -> float:
    """Of all searches of the log (or clicks, where no queries are published), the share that is of published ones."""
    shared = in_both(original, released)
    table = "query" if "query" in shared else next(iter(shared), None)
    if table is None:
        return 0.0
    counts = original.tables[table]
    kept = counts.semi_join(released.tables[table], columns_of(table))
    total = original.engine.value(counts["count"].sum()) or 0
    return float((original.engine.value(kept["count"].sum()) or 0) / total) if total else 0.0


def total(view: View, counts: ir.Table) -> float:
    return float(view.engine.value(counts["count"].sum()) or 0)


def _shares(counts: Counts, total: float) -> Counts:
    """Relative frequencies; where nothing was counted, none."""
    return counts / total if total else np.zeros_like(counts)
