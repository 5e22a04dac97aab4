"""A party: pays, counts its own users, and makes the joint release together with the others."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from searchveil.collab import opening
from searchveil.collab.agreement import RunFile
from searchveil.collab.coordinator import ID_BYTES, check_ids
from searchveil.collab.histogram import Histogram, local_histogram
from searchveil.collab.identity import Identity
from searchveil.collab.joint import JointSettings, padding_of, paid_for, plan_for, sampler_of, share_of
from searchveil.collab.member import Member
from searchveil.collab.messages import Refused, read_json
from searchveil.collab.ring import Ids, blinded_ids
from searchveil.collab.shuffle import Row, shuffled
from searchveil.crypto import hpke, masks
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Integers, Source
from searchveil.privacy.noise_shares import NoiseShare, Padding
from searchveil.publish.individual import TYPES, Individual
from searchveil.publish.plan import Plan

DRAWN = ("query", "url", "time", "rank", "count")  # of a row that was drawn, beside its pseudonym


@dataclass(frozen=True)
class Noise:
    """Where the randomness that protects people comes from. Tests alone pass another one; no command can."""

    share: NoiseShare
    padding: Padding
    threshold: int

    def shares(self, n: int, source: Source) -> Integers:
        return self.share.sample(n, source)

    def dummies(self, source: Source) -> int:
        return self.padding.sample(source)


class Party(Member):
    """The joint histogram, and rows of users where the method is sampling. Every phase is a method."""

    plan: Plan[JointSettings]

    def __init__(
        self, log: SearchLog, identity: Identity, run: RunFile, *, noise: Noise | None = None, **given: Any
    ) -> None:
        super().__init__(log, identity, run, **given)
        self.plan = plan_for(self.agreement, run.hash)
        usual = Noise(share_of(self.agreement), padding_of(self.agreement), self.plan.settings.selection.threshold)
        self.noise = noise or usual
        self.sampler = sampler_of(self.agreement)
        self._sealing: tuple[bytes, dict[str, bytes]] = (b"", {})

    def _to_pay(self) -> Guarantee:
        return paid_for(self.plan)

    def _together(self) -> dict[str, pa.Table]:
        group_key = self._exchange_keys()
        self._phase("count", f"keeping up to {self.agreement.per_user} items of each user")
        histogram = local_histogram(self.log, self.agreement, self.source)
        self._phase("blind", f"blinding {self.item.plural} with {len(self.link.others)} other parties")
        dummies, filling = self.noise.dummies(self.source), self.noise.dummies(self.source)
        ids, dummy_ids, most = blinded_ids(self.link, histogram.items, dummies, filling, self.source)
        self._phase("universe", "uniting the blinded ids")
        union = self._unite(ids, dummy_ids, most)
        self._phase("sum", f"adding up {len(union):,} noisy counts")
        totals = self._sum(union, ids, histogram)
        self._phase("open", "opening the items that passed")
        rows = self._open(union, totals, ids, histogram, group_key)
        if self.sampler is None:
            return {"data": self._table(rows)}
        self._phase("shuffle", "drawing users' clicks, and shuffling those of all parties")
        vocabulary = self._table(rows)
        return {"data": self._sample(vocabulary, self.sampler), "vocabulary": vocabulary}

    def _exchange_keys(self) -> bytes:
        """A key that all parties share and the coordinator does not; and the keys for sealing rows."""
        mine = secrets.token_bytes(32)
        private, public = hpke.generate()
        theirs = self._tell_about(mine + public)
        shares = {self.link.name: mine, **{other: raw[:32] for other, raw in theirs.items()}}
        self._sealing = private, {self.link.name: public, **{other: raw[32:] for other, raw in theirs.items()}}
        return hashlib.sha256(b"".join(shares[name] for name in self.agreement.names)).digest()

    def _unite(self, ids: Ids, dummies: Ids, most: int) -> Ids:
        """The ids of all parties, which are no more than the points that went around."""
        mine = np.unique(np.concatenate([ids, dummies]))
        coordinator = self.agreement.coordinator.name
        self.link.send(coordinator, "universe", "ids", mine.tobytes())
        raw = self.link.receive(coordinator, "universe", "union", most=ID_BYTES * most)
        try:
            check_ids(raw)
        except ValueError as problem:
            raise Refused(f"the coordinator sent {problem}") from None
        union = np.frombuffer(raw, f"S{ID_BYTES}")
        if len(union) == 0 and len(mine) == 0:
            return union
        if not np.isin(mine, union, assume_unique=True).all():
            raise Refused("the coordinator left out ids of this party")
        self._same_everywhere(hashlib.sha256(raw).digest(), "sum", "union", "the coordinator sent them another union")
        return union

    def _sum(self, union: Ids, ids: Ids, histogram: Histogram) -> Integers:
        """Noisy totals: counts plus this party's share of the noise, masked, added up over all parties."""
        vector = np.zeros(len(union), np.int64)
        vector[np.searchsorted(union, ids)] = histogram.counts
        vector += self.noise.shares(len(union), self.source)
        place = self.agreement.names.index(self.link.name)
        label = f"sum {self.link.session}".encode()
        masked = masks.mask_words(vector.view(np.uint64), place, self.link.mask_keys(), label)
        for other in self.link.others:
            self.link.send(other, "sum", "totals", masked.astype("<u8").tobytes())
        gathered = [masked]
        for other in self.link.others:
            raw = self.link.receive(other, "sum", "totals", most=8 * len(union), expected=8 * len(union))
            if len(raw) != 8 * len(union):
                raise Refused(f"{other} sent {len(raw) // 8} counts where there are {len(union)} ids")
            gathered.append(np.frombuffer(raw, "<u8").astype(np.uint64))
        return masks.sum_words(gathered).view(np.int64)

    def _open(
        self, union: Ids, totals: Integers, ids: Ids, histogram: Histogram, group_key: bytes
    ) -> list[tuple[list[str], int]]:
        """The items that passed, with their noisy totals; the coordinator sees them in an order of no meaning."""
        passed = np.flatnonzero(totals >= self.noise.threshold)
        wanted = union[passed]
        keyed = [hmac.digest(group_key, one.ljust(ID_BYTES, b"\x00"), "sha256") for one in wanted.tolist()]
        order = sorted(range(len(passed)), key=keyed.__getitem__)
        held = self._held(wanted, ids, histogram)
        parts = opening.parts_for(self.agreement.longest_text)
        elements: list[int] = []
        for i in order:
            mine, blinded = held[i], wanted[i].ljust(ID_BYTES, b"\x00")
            if mine is None:
                elements += opening.nothing(parts)
            else:
                elements += opening.elements_of(opening.tag_of(group_key, blinded, mine) + mine, parts)
        place = self.agreement.names.index(self.link.name)
        masked = masks.mask_elements(elements, place, self.link.mask_keys(), f"open {self.link.session}".encode())
        coordinator = self.agreement.coordinator.name
        self.link.send(coordinator, "open", "shares", masks.to_bytes(masked))
        most = 100 + len(order) * (50 + 6 * self.agreement.longest_text)
        ids_in_order = [wanted[i].ljust(ID_BYTES, b"\x00") for i in order]
        texts = self._texts(self.link.receive(coordinator, "open", "texts", most=most), ids_in_order, group_key)
        return self._rows(texts, [held[i] for i in order], totals[passed[order]] if order else totals[:0])

    def _held(self, wanted: Ids, ids: Ids, histogram: Histogram) -> list[bytes | None]:
        """This party's item at each of these ids, if it has one there."""
        sorted_places = np.argsort(ids)
        at = np.searchsorted(ids, wanted, sorter=sorted_places)
        held: list[bytes | None] = []
        for one, place in zip(wanted, at.tolist(), strict=True):
            mine = sorted_places[place] if place < len(ids) else -1
            held.append(histogram.items[mine] if mine >= 0 and ids[mine] == one else None)
        return held

    def _texts(self, raw: bytes, ids: Sequence[bytes], group_key: bytes) -> list[bytes | None]:
        """What was opened, if a party said it: of an id that nobody holds the coordinator could say anything."""
        try:
            opened = read_json(raw)
        except ValueError:
            opened = None
        if not isinstance(opened, list) or len(opened) != len(ids):
            raise Refused("the coordinator opened another number of items")
        texts: list[bytes | None] = []
        try:
            for one, blinded in zip(opened, ids, strict=True):
                tag, text = (b"", None) if one is None else (bytes.fromhex(one[0]), one[1].encode())
                if text is not None and not hmac.compare_digest(tag, opening.tag_of(group_key, blinded, text)):
                    raise Refused("the coordinator opened a text that no party sent")
                texts.append(text)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise Refused("the coordinator opened what is no text") from None
        return texts

    def _rows(
        self, texts: Sequence[bytes | None], held: Sequence[bytes | None], totals: Integers
    ) -> list[tuple[list[str], int]]:
        rows = []
        for raw, mine, total in zip(texts, held, totals.tolist(), strict=True):
            if mine is not None and raw != mine:
                raise Refused("an opened item is not the one that this party holds: a party sent a wrong share")
            if raw is not None:
                try:
                    rows.append((opening.decoded(raw, len(self.item.columns)), int(total)))
                except ValueError:
                    raise Refused("an opened text is no item") from None
        if len({tuple(values) for values, _ in rows}) < len(rows):
            raise Refused("the same item was opened twice")
        return rows

    def _table(self, rows: list[tuple[list[str], int]]) -> pa.Table:
        columns = {
            name: pa.array([values[i] for values, _ in rows], pa.string()) for i, name in enumerate(self.item.columns)
        }
        table = pa.table({**columns, "count": pa.array([total for _, total in rows], pa.int64())})
        return table.sort_by([("count", "descending"), *((name, "ascending") for name in self.item.columns)])

    def _sample(self, vocabulary: pa.Table, sampler: Individual) -> pa.Table:
        """Clicks of every party's own users on the published pairs, at individual rates, in one table."""
        allowed = self.log.engine.load(vocabulary.select(list(self.item.columns)))
        own = sampler.drawn(allowed, self.log, self.source, self.progress).to_pylist()
        pseudonyms = {user: f"{self.source.bits(128):032x}" for user in sorted({row["user"] for row in own})}
        rows = [(pseudonyms[row["user"]], *(_plain(row.get(name)) for name in DRAWN)) for row in own]
        longest = self.agreement.longest_text
        everybody = shuffled(self.link, rows, self._sealing[0], self._sealing[1], longest, self.source)
        table = _sampled_table(everybody, vocabulary, self.item.columns)
        figures = sampler.figures(table, vocabulary.num_rows)
        advice = sampler.advice(vocabulary.num_rows, table.num_rows)
        self.plan = replace(self.plan, figures=figures, advice=advice)
        return table


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _sampled_table(rows: Sequence[Row], vocabulary: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Pseudonyms become numbers in their own, random order, by which the rows are ordered too."""
    try:
        values = [_row_of(row) for row in rows]
        _check_drawn(values, vocabulary, columns)
        numbers = {one: i for i, one in enumerate(sorted({row["user"] for row in values}), start=1)}
        users = pa.array([numbers[row["user"]] for row in values], pa.int64())
        gathered = {name: pa.array([row[name] for row in values], TYPES.get(name, pa.int64())) for name in DRAWN}
    except (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException):
        raise Refused("a row that was drawn is malformed") from None
    table = pa.table({"user": users, **gathered})
    absent = [name for name in ("time", "rank") if table[name].null_count == len(values)]
    table = table.drop_columns(absent)
    return table.sort_by([(name, "ascending") for name in table.column_names[:-1]])


def _check_drawn(values: Sequence[Mapping[str, Any]], vocabulary: pa.Table, columns: Sequence[str]) -> None:
    allowed = {tuple(row[name] for name in columns) for row in vocabulary.to_pylist()}
    if not all(tuple(row[name] for name in columns) in allowed for row in values):
        raise Refused("a row was drawn that is not among the published items")


def _row_of(row: Row) -> dict[str, Any]:
    named = dict(zip(DRAWN, row[1:], strict=True))
    time = None if named["time"] is None else datetime.fromisoformat(named["time"])
    return {"user": str(row[0]), **named, "time": time}
