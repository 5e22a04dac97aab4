"""Who holds what, as arrays in this process: users and items are whole numbers, and texts are looked up at the end.

Every row of the log becomes one 64-bit number, the item's above and the user's below; sorted, these are the holdings.
An item's number is a hash of its text, unless that would take two texts for one, or two spellings of one item for two.
Those are found beforehand and numbered by their texts. So items are told apart exactly, whatever the hash is.
"""

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.cores import on_all_cores
from searchveil.engine import Engine
from searchveil.items import Item
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy.noise import Integers, Source
from searchveil.publish.rounds import Holdings, Named, joined, select

PART = 1 << 20  # pairs of user and item that are worked on at once

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class HeldInMemory:
    """Who holds what, in this process. `HeldInEngine` is the same for an engine that works elsewhere."""

    texts_of: "Texts"
    numbers: Words  # of each item
    holdings: Holdings

    @classmethod
    def of(
        cls, log: SearchLog, item: Item, pool: QueryPool | None, candidates_per_user: int, source: Source
    ) -> "HeldInMemory":
        texts, numbers, holdings = gather(log, item, pool)
        holdings = holdings.bounded(candidates_per_user, source)
        if pool is None:  # an item that nobody keeps must never be named
            kept = holdings.degrees > 0
            numbers, holdings = numbers[kept], holdings.only(kept)
        return cls(texts, numbers, holdings)

    def select(self, **known: Any) -> Named:
        return select(self.holdings, **known)

    def texts(self, named: Named) -> pa.Table:
        return self.texts_of.of(self.numbers[named.items])

    def totals(self, named: Named, parts: Integers) -> Integers:
        """What each named item's holders add up to, where a user of n of them gives parts[n] to each."""
        chosen = np.zeros(len(self.holdings.degrees), np.bool_)
        chosen[named.items] = True
        held = self.holdings.only(chosen)
        in_place = np.zeros(len(chosen), np.int64)
        in_place[chosen] = held.totals(parts[np.bincount(held.users)[held.users]])
        totals: Integers = in_place[named.items]
        return totals


@dataclass(frozen=True)
class Texts:
    """Texts in normal form, and the numbers of their items: every item that is held has one of the rows."""

    table: pa.Table  # ten million rows that are never copied: few of them are ever asked for
    numbers: Words

    def of(self, items: Words) -> pa.Table:
        """The items' texts, in this order."""
        place = pc.index_in(pa.array(self.numbers), value_set=pa.array(items))
        rows = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
        if len(rows) != len(items):
            raise AssertionError("the log changed while it was read")
        return self.table.take(rows[np.argsort(place.drop_null().to_numpy())])


def gather(log: SearchLog, item: Item, pool: QueryPool | None) -> tuple[Texts, Words, Holdings]:
    """Texts; every item's number; and the users who hold it, each once. Blank texts are no items."""
    columns, engine = list(item.columns), log.engine
    codes = engine.number(log.table.select("user").distinct(), "_holder", ["user"])
    bits = max(1, int(engine.value(codes.count())).bit_length())  # of a pair, for the user
    rows = item.held(log)
    typed = rows.select(*columns).distinct()
    normal = item.finish(typed.mutate(**{f"_typed_{name}": typed[name] for name in columns}), log.normalization)
    rows = rows.join(codes, "user").select(*columns, _holder=codes["_holder"].cast("uint64"))
    if pool is None:
        texts, listed = _told_apart(normal, columns, bits, engine)
        rows = rows.left_join(listed, [rows[name] == listed[f"_typed_{name}"] for name in columns])
        number = ibis.coalesce(rows["_number"], _hashed(rows, columns, bits, engine))
        rows = rows.select("_holder", _number=number)
        rows = rows.filter(rows["_number"] != ibis.literal(_given(bits), "uint64"))
    else:
        texts, listed = _in_pool(normal, columns, pool, log)
        rows = rows.join(listed, [rows[name] == listed[f"_typed_{name}"] for name in columns])
    pairs = engine.fetch(rows.select(pair=((rows["_number"] << bits) | rows["_holder"]).cast("uint64")))["pair"]
    numbers, holdings = _holdings(np.concatenate([np.zeros(0, np.uint64), *map(np.asarray, pairs.chunks)]), bits)
    if pool is None:
        return texts, numbers, holdings
    degrees = np.zeros(len(texts.numbers), np.int64)  # an item of a pool is one although nobody holds it
    degrees[numbers] = holdings.degrees
    return texts, texts.numbers, Holdings(holdings.users, degrees)


def _given(bits: int) -> int:
    """Numbers above this one are given to items by their texts, smaller ones are hashes, and it stands for no item."""
    return 1 << (63 - bits)


def _hashed(table: ir.Table, columns: list[str], bits: int, engine: Engine) -> ir.IntegerValue:
    hashed = engine.fast_hash([table[name] for name in columns], 0)
    return (hashed >> (bits + 1)).cast("uint64")


def _told_apart(normal: ir.Table, columns: list[str], bits: int, engine: Engine) -> tuple[Texts, ir.Table]:
    """Every text, and those typed texts whose hash does not tell which item they are: these get a number here.

    That is: texts that are not in normal form, blank ones, and normal forms whose hash another text has as well. The
    other texts are the normal form of an item, the only ones with their hash, and the only spelling of that item.
    """
    changed = ibis.or_(*(normal[name] != normal[f"_typed_{name}"] for name in columns))
    blank = ibis.or_(*(normal[name] == "" for name in columns))
    # Texts as they were typed are only needed where they differ.
    typed = {f"_typed_{name}": ibis.ifelse(changed, normal[f"_typed_{name}"], None) for name in columns}
    special = {"_number": _hashed(normal, columns, bits, engine), "_changed": changed, "_blank": blank}
    known = engine.fetch(normal.select(*columns, **typed, **special))
    in_order = np.sort(known["_number"].to_numpy())
    several = in_order[1:][in_order[1:] == in_order[:-1]]
    unclear = pc.or_(pc.or_(known["_changed"], known["_blank"]), pc.is_in(known["_number"], pa.array(several)))
    some = known.filter(unclear)
    item_of = np.zeros(some.num_rows, np.int64)
    for name in columns:
        codes = np.asarray(some[name].combine_chunks().dictionary_encode().indices)
        item_of = np.unique(item_of * (len(codes) + 1) + codes, return_inverse=True)[1]
    given = np.where(some["_blank"], 0, item_of + 1).astype(np.uint64) + np.uint64(_given(bits))
    listed: dict[str, Any] = {f"_typed_{name}": pc.coalesce(some[f"_typed_{name}"], some[name]) for name in columns}
    # Of an item's spellings, one is enough to look its text up.
    first = np.zeros(len(given), np.bool_)
    first[np.unique(given, return_index=True)[1]] = True
    numbers = known["_number"].to_numpy().copy()
    numbers[np.flatnonzero(unclear)] = np.where(first, given, np.uint64(_given(bits)))
    return Texts(known.select(columns), numbers), engine.load(pa.table(listed | {"_number": given}))


def _in_pool(normal: ir.Table, columns: list[str], pool: QueryPool, log: SearchLog) -> tuple[Texts, ir.Table]:
    """The texts of a pool, by number, and how the log spells them."""
    engine = log.engine
    public = engine.number(pool.table(engine, log.normalization), "_number", columns)
    spelled = normal.join(public, columns).select(
        *(f"_typed_{name}" for name in columns), _number=public["_number"].cast("uint64")
    )
    listed, texts = engine.stage(spelled), engine.fetch(public)
    return Texts(texts.select(columns), texts["_number"].to_numpy().astype(np.uint64)), listed


def _holdings(pairs: Words, bits: int) -> tuple[Words, Holdings]:
    """The items' numbers, in their order, and who holds them; the same pair may be there several times."""
    pairs.sort()
    low = np.uint64(bits)

    def look(start: int) -> tuple[npt.NDArray[np.int32], Integers, Words]:
        part = pairs[start : start + PART]
        before = pairs[start - 1 : start + len(part) - 1] if start else np.concatenate([~part[:1], part[:-1]])
        once = part[part != before]
        items = once >> low
        first = np.flatnonzero(np.diff(items, prepend=before[:1] >> low))
        return (once & np.uint64((1 << bits) - 1)).astype(np.int32), first, items[first]

    users, firsts, numbers = zip(*on_all_cores(look, range(0, max(1, len(pairs)), PART)), strict=True)
    starts = np.cumsum([0, *map(len, users)])
    ends = [first + start for first, start in zip(firsts, starts[:-1], strict=True)]
    degrees = np.diff(joined(ends, np.int64), append=starts[-1])
    return joined(numbers, np.uint64), Holdings(joined(users, np.int32), degrees)
