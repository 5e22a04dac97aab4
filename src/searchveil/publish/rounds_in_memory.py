"""Who holds what, as arrays in this process: users and items are whole numbers, and texts are looked up at the end.

Every row of the log becomes one 64-bit number, the item's above and the user's below; sorted, these are the holdings.
An item's number is a hash of its text, unless that would take two texts for one, or two spellings of one item for two.
Those are found beforehand and numbered by their texts. So items are told apart exactly, whatever the hash is.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.cores import on_all_cores, usable_cores
from searchveil.engine import Engine
from searchveil.items import Item
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy.noise import Integers, Source
from searchveil.publish.rounds import BLOCK, Holdings, Named, block_of, joined, select

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SAMPLED = 1 << 10  # one of so many is looked at, to divide the work

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
            numbers, holdings = _only(numbers, holdings, holdings.degrees > 0)
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
        in_place[chosen] = held.totals(parts[held.held_by_user()])
        totals: Integers = in_place[named.items]
        return totals


@dataclass(frozen=True)
class Texts:
    """Texts in normal form, and the numbers of their items: every item that is held has one of the rows."""

    table: pa.Table  # ten million rows, never copied, because few of them are looked up
    numbers: Words

    def of(self, items: Words) -> pa.Table:
        """The items' texts, in this order."""
        place = pc.index_in(pa.array(self.numbers), value_set=pa.array(items))
        found = self.table.filter(place.is_valid())  # taking rows by number would copy the whole table first
        if len(found) != len(items):
            raise AssertionError("the log changed while it was read")
        return found.take(np.argsort(place.drop_null().to_numpy()))


def gather(log: SearchLog, item: Item, pool: QueryPool | None) -> tuple[Texts, Words, Holdings]:
    """Texts; every item's number; and the users who hold it, each once. Blank texts are no items."""
    columns, engine = list(item.columns), log.engine
    codes = engine.number(log.table.select("user").distinct(), "_holder", ["user"])
    users = int(engine.value(codes.count()))
    bits = max(1, users.bit_length())  # of a pair, for the user
    rows = item.held(log)
    typed = rows.select(*columns).distinct()
    rows = rows.join(codes, "user").select(*columns, _holder=codes["_holder"].cast("uint64"))
    if pool is None:
        texts, listed = _told_apart(typed, item, log, bits)
        rows = rows.left_join(listed, [rows[name] == listed[f"_typed_{name}"] for name in columns])
        number = ibis.coalesce(rows["_number"], _hashed(rows, columns, bits, engine))
        rows = rows.select("_holder", _number=number)
    else:
        texts, listed = _in_pool(typed, item, pool, log)
        rows = rows.join(listed, [rows[name] == listed[f"_typed_{name}"] for name in columns])
    pairs = engine.fetch(rows.select(pair=((rows["_number"] << bits) | rows["_holder"]).cast("uint64")))["pair"]
    numbers, holdings = _holdings([np.asarray(chunk) for chunk in pairs.chunks], bits, users)
    if pool is None:
        return texts, *_only(numbers, holdings, numbers != _given(bits))
    degrees = np.zeros(len(texts.numbers), np.int64)  # an item of a pool is one although nobody holds it
    degrees[numbers] = holdings.degrees
    # An item's place is its number here. `texts` has the items as the engine gave them, which is in any order.
    return texts, np.arange(len(degrees), dtype=np.uint64), Holdings.of(holdings.users, degrees)


def _only(numbers: Words, holdings: Holdings, items: npt.NDArray[np.bool_]) -> tuple[Words, Holdings]:
    return (numbers, holdings) if items.all() else (numbers[items], holdings.only(items))


def _given(bits: int) -> int:
    """The bit that numbers given by text have and hashes do not; the number itself stands for no item."""
    return 1 << (63 - bits)


def _hashed(table: ir.Table, columns: list[str], bits: int, engine: Engine) -> ir.IntegerValue:
    hashed = engine.fast_hash([table[name] for name in columns], 0)
    return (hashed >> (bits + 1)).cast("uint64")


def _normal(typed: ir.Table, item: Item, log: SearchLog) -> ir.Table:
    """The normal forms, beside the texts as they were typed."""
    return item.finish(typed.mutate(**{f"_typed_{name}": typed[name] for name in item.columns}), log.normalization)


def _told_apart(typed: ir.Table, item: Item, log: SearchLog, bits: int) -> tuple[Texts, ir.Table]:
    """Every text, and those typed texts whose hash does not tell which item they are: these get a number here.

    That is: texts that may not be in normal form, blank ones, and normal forms whose hash another text's normal form
    has as well. The other texts are the only ones with their hash, and the only spelling of their item.
    """
    columns, engine = list(item.columns), log.engine
    settled = ibis.and_(item.leaves(typed, log.normalization), *(typed[name] != "" for name in columns))
    hashed = _hashed(typed, columns, bits, engine)
    known = engine.fetch(typed.select(*columns, _number=hashed, _settled=settled))
    numbers, sure = (_of_chunks(known[name], kind) for name, kind in (("_number", np.uint64), ("_settled", np.bool_)))
    numbers[~sure] = _given(bits)
    # Few texts are looked at again. An engine that calls Python for one in a hundred of ten million takes long.
    others = _normal(engine.load(known.filter(pa.array(~sure)).select(columns)), item, log)
    names = [*columns, *(f"_typed_{name}" for name in columns)]
    again = engine.fetch(others.select(*names, _number=_hashed(others, columns, bits, engine)))
    in_order = np.concatenate([numbers, again["_number"].to_numpy()])
    in_order.sort()
    several = np.unique(in_order[~_first_of_its_kind(in_order)])
    shared = sure & pc.is_in(pa.array(numbers), pa.array(several)).to_numpy(zero_copy_only=False)
    alike = known.filter(pa.array(shared))
    numbers[shared] = _given(bits)
    some = pa.concat_tables([again.select(names), alike.select(2 * columns).rename_columns(names)])
    given = _given(bits) + _by_text(some, columns).astype(np.uint64)
    # Of an item's spellings, one is enough to look its text up.
    first = np.full(len(given), _given(bits), np.uint64)
    first[np.unique(given, return_index=True)[1]] = np.unique(given)
    texts = pa.concat_tables([known.select(columns), some.select(columns)])
    listed = some.select(names[len(columns) :]).append_column("_number", pa.array(given))
    return Texts(texts, np.concatenate([numbers, first])), engine.load(listed)


def _of_chunks(column: "pa.ChunkedArray[Any]", kind: type) -> npt.NDArray[Any]:
    """One array that may be written to."""
    return joined([np.asarray(chunk) for chunk in column.chunks], kind)


def _by_text(texts: pa.Table, columns: list[str]) -> Integers:
    """A number from 1 on for each different text, and 0 for blank ones."""
    item_of, blank = np.zeros(texts.num_rows, np.int64), np.zeros(texts.num_rows, np.bool_)
    for name in columns:
        codes = np.asarray(texts[name].combine_chunks().dictionary_encode().indices)
        item_of = np.unique(item_of * (len(codes) + 1) + codes, return_inverse=True)[1]
        blank |= pc.equal(texts[name], pa.scalar("")).to_numpy()
    return np.where(blank, 0, item_of + 1)


def _in_pool(typed: ir.Table, item: Item, pool: QueryPool, log: SearchLog) -> tuple[Texts, ir.Table]:
    """The texts of a pool, by number, and how the log spells them."""
    engine, columns = log.engine, list(item.columns)
    public = engine.number(pool.table(engine, log.normalization), "_number", columns)
    spelled = (
        _normal(typed, item, log)
        .join(public, columns)
        .select(*(f"_typed_{name}" for name in columns), _number=public["_number"].cast("uint64"))
    )
    listed, texts = engine.stage(spelled), engine.fetch(public)
    return Texts(texts.select(columns), texts["_number"].to_numpy().astype(np.uint64)), listed


def _holdings(pairs: list[Words], bits: int, users: int) -> tuple[Words, Holdings]:
    """The items' numbers, in their order, and who holds them; the same pair may be there several times."""
    low, ones = np.uint64(bits), np.ones(BLOCK)
    spans = on_all_cores(lambda span: _sorted_within(pairs, span), _spans(pairs, bits))

    def look(part: Words) -> tuple[Words, "csr_array"]:
        once = part[_first_of_its_kind(part)]
        items = once >> low
        first = np.flatnonzero(_first_of_its_kind(items))
        holders = (once & np.uint64((1 << bits) - 1)).astype(np.int32)
        enough = ones if len(once) <= len(ones) else np.ones(len(once))
        return items[first], block_of(np.append(first, len(once)), holders, users, enough)

    numbers, blocks = zip(*on_all_cores(look, [part for span in spans for part in _parts(span, bits)]), strict=True)
    return joined(numbers, np.uint64), Holdings(blocks)


def _first_of_its_kind(in_order: Words) -> npt.NDArray[np.bool_]:
    first = np.ones(len(in_order), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    return first


def _parts(span: Words, bits: int) -> list[Words]:
    """About BLOCK pairs in each, and all pairs of an item in one."""
    low = np.uint64(bits)
    cuts = np.searchsorted(span, [span[place] >> low << low for place in range(BLOCK, len(span), BLOCK)])
    return [span[slice(*places)] for places in pairwise([*sorted({0, *cuts.tolist()}), len(span)])]


def _spans(pairs: list[Words], bits: int) -> list[tuple[int, int]]:
    """First and last of ranges with about as many pairs in each, which part no item: one for each core."""
    some, cores = (
        np.sort(np.concatenate([np.zeros(0, np.uint64), *(part[::SAMPLED] for part in pairs)])),
        usable_cores(),
    )
    cuts = sorted({int(some[len(some) * core // cores]) >> bits << bits for core in range(1, cores) if len(some)} - {0})
    return list(zip([0, *cuts], [*(cut - 1 for cut in cuts), (1 << 64) - 1], strict=True))


def _sorted_within(pairs: list[Words], span: tuple[int, int]) -> Words:
    first, last = map(np.uint64, span)
    found = np.concatenate([np.zeros(0, np.uint64), *(part[(part >= first) & (part <= last)] for part in pairs)])
    found.sort()
    return found
