"""A party: pays, counts its own users, and makes the joint release together with the others."""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from searchveil.collab import opening
from searchveil.collab.agreement import RunFile
from searchveil.collab.coordinator import ID_BYTES, MOST_WAITING, check_ids
from searchveil.collab.histogram import Histogram, local_histogram
from searchveil.collab.identity import Identity
from searchveil.collab.joint import JointSettings, padding_of, paid_for, plan_for, sampler_of, share_of
from searchveil.collab.link import Link
from searchveil.collab.messages import Refused, RunEnded
from searchveil.collab.ring import Ids, blinded_ids
from searchveil.collab.shuffle import Row, shuffled
from searchveil.collab.transcript import Transcript
from searchveil.crypto import hpke, masks
from searchveil.errors import SearchveilError, printable
from searchveil.items import item_named
from searchveil.log import SearchLog
from searchveil.privacy.noise import Integers, Source
from searchveil.privacy.noise_shares import NoiseShare, Padding
from searchveil.progress import Progress, silent
from searchveil.publish.folder import claimed
from searchveil.publish.individual import TYPES, Individual
from searchveil.publish.mechanism import require_separate_rows, require_two_users
from searchveil.publish.plan import Plan
from searchveil.publish.release import Release

if TYPE_CHECKING:
    from searchveil.privacy.ledger import Entry, Ledger


DRAWN = ("query", "url", "time", "rank", "count")  # of a row that was drawn, beside its pseudonym


class RunFailed(SearchveilError):  # noqa: N818 (a normal outcome)
    """The run ended before there was a release; the message says why, and what was spent."""


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


@dataclass(frozen=True)
class Joined:
    """What a run left at this party: the release, where it is, and what it took."""

    release: Release
    folder: Path
    seconds: dict[str, float]
    bytes_sent: int
    bytes_received: int


class Party:
    """One run. Every phase is a method, in the order of `_protocol`."""

    def __init__(
        self,
        log: SearchLog,
        identity: Identity,
        run: RunFile,
        *,
        ledger: "Ledger | None" = None,
        transcript: Path | None = None,
        progress: Progress = silent,
        source: Source | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.log, self.run, self.agreement, self.ledger, self.progress = log, run, run.agreement, ledger, progress
        self.transcript = Transcript(transcript)
        self.link = Link(identity, run, self.transcript)
        self.plan: Plan[JointSettings] = plan_for(self.agreement, run.hash)
        usual = Noise(share_of(self.agreement), padding_of(self.agreement), self.plan.settings.selection.threshold)
        self.noise = noise or usual
        self.source = source or Source()
        self.entry: Entry | None = None
        self.item = item_named(self.agreement.item)
        self.sampler = sampler_of(self.agreement)
        self._sealing: tuple[bytes, dict[str, bytes]] = (b"", {})

    def join(self, out: Path) -> Joined:
        """Take part in the run, and write the release folder. RunFailed with one line if there is none."""
        self.item.check(self.log)
        require_two_users(self.log)
        require_separate_rows(self.log)
        with claimed(out), self._ending():
            release = self._protocol()
            self.progress("writing the folder")
            folder = release.write(out)
            self._say_done()
        self.transcript.ended("done")
        took = self.transcript
        return Joined(release, folder, took.seconds, took.sent, took.received)

    def _say_done(self) -> None:
        """The release is there; what goes wrong elsewhere now does not take it away."""
        try:
            self.link.done()
        except (RunEnded, Refused) as problem:
            self.progress(f"the release was written; afterwards the run ended elsewhere: {problem}")

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """However the run ends, the others are told, and so is whoever started this party."""
        try:
            yield
        except RunEnded as ended:
            raise self._failed(str(ended)) from None
        except Refused as problem:
            self.link.give_up(str(problem))
            raise self._failed(str(problem)) from None
        except KeyboardInterrupt:
            self.link.give_up("it was stopped")
            raise
        except SearchveilError as problem:  # a full disk or a ledger's refusal: the others need no details
            self.link.give_up("it cannot write its release" if self.entry else "it cannot take part")
            self.transcript.ended(type(problem).__name__)
            raise
        except Exception as problem:
            self.link.give_up(f"it failed ({type(problem).__name__})")
            raise
        finally:
            self.link.close()

    def _failed(self, reason: str) -> RunFailed:
        self.transcript.ended(reason)
        if self.entry is not None:
            spent = f"; the budget reserved for it (entry {self.entry.id}) stays spent"
        else:
            spent = "; nothing was paid" if self.ledger is not None else ""
        return RunFailed(f"the run ended: {reason}; nothing was published{spent}")

    # --- the phases ---

    def _protocol(self) -> Release:
        self._phase("agreement", "comparing the run file with the coordinator's")
        self.link.agree()
        self._pay()
        self._phase("keys", "waiting for the other parties")
        self.link.hello()
        group_key = self._exchange_keys()
        self._phase("count", f"keeping up to {self.agreement.per_user} items of each user")
        histogram = local_histogram(self.log, self.agreement, self.source)
        self._phase("blind", f"blinding {self.agreement.item}s with {len(self.link.others)} other parties")
        dummies, filling = self.noise.dummies(self.source), self.noise.dummies(self.source)
        ids, dummy_ids = blinded_ids(self.link, histogram.items, dummies, filling, self.source)
        self._phase("universe", "uniting the blinded ids")
        union = self._unite(ids, dummy_ids)
        self._phase("sum", f"adding up {len(union):,} noisy counts")
        totals = self._sum(union, ids, histogram)
        self._phase("open", "opening the items that passed")
        rows = self._open(union, totals, ids, histogram, group_key)
        tables = {"data": self._table(rows)}
        if self.sampler is not None:
            self._phase("shuffle", "drawing users' clicks, and shuffling those of all parties")
            tables = {"data": self._sample(tables["data"], self.sampler), "vocabulary": tables["data"]}
        self._phase("agree", "comparing the releases")
        self._compare(tables)
        return Release(tables, self.plan, self.entry)

    def _phase(self, name: str, in_words: str) -> None:
        self.transcript.phase(name)
        self.progress(in_words)

    def _pay(self) -> None:
        """Before the first message leaves: once others have seen something, nothing takes it back."""
        own = replace(self.plan.guarantee, unit=self.log.unit)
        if self.ledger is not None:
            plan = replace(self.plan, guarantee=own)
            self.entry = self.ledger.reserve(
                paid_for(plan), method=plan.method, item=plan.item, parameters=plan.parameters, log=self.log
            )

    def _exchange_keys(self) -> bytes:
        """A key that all parties share and the coordinator does not; and what each party's log is about."""
        mine = secrets.token_bytes(32)
        private, public = hpke.generate()
        about: dict[str, Any] = {
            "unit": self.log.unit,
            "words": self.plan.words,
            "public": list(self.log.taken_as_public),
        }
        for other in self.link.others:
            self.link.send(other, "keys", "group", mine + public + json.dumps(about).encode())
        shares, publics, told = {self.link.name: mine}, {self.link.name: public}, [about]
        for other in self.link.others:
            raw = self.link.receive(other, "keys", "group", most=20_000)
            shares[other], publics[other] = raw[:32], raw[32:64]
            told.append(self._about(raw[64:], other))
        self._sealing = private, publics
        facts = sorted({fact for one in told for fact in one["public"]})
        known = self.plan.guarantee.assumed_public
        guarantee = replace(self.plan.guarantee, unit=self.log.unit, assumed_public=(*known, *facts))
        self.plan = replace(self.plan, guarantee=guarantee)
        return hashlib.sha256(b"".join(shares[name] for name in self.agreement.names)).digest()

    def _about(self, raw: bytes, other: str) -> dict[str, Any]:
        try:
            about = json.loads(raw)
            if about["unit"] != self.log.unit:
                raise Refused(
                    f"a user of {other}'s log is a {about['unit']}, and of {self.link.name}'s a {self.log.unit}"
                )
            if about["words"] != self.plan.words:
                raise Refused(
                    f"{other} cuts queries into words with {printable(str(about['words']))}, and {self.link.name} with "
                    f"{self.plan.words}; install the same icu4py"
                )
            return {"unit": str(about["unit"]), "public": [str(fact) for fact in about["public"]]}
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{other} does not say what its log is about") from None

    def _unite(self, ids: Ids, dummies: Ids) -> Ids:
        mine = np.unique(np.concatenate([ids, dummies]))
        coordinator = self.agreement.coordinator.name
        self.link.send(coordinator, "universe", "ids", mine.tobytes())
        raw = self.link.receive(coordinator, "universe", "union", most=MOST_WAITING)
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

    def _same_everywhere(self, digest: bytes, phase: Any, topic: str, otherwise: str) -> None:
        for other in self.link.others:
            self.link.send(other, phase, topic, digest)
        for other in self.link.others:
            if not hmac.compare_digest(self.link.receive(other, phase, topic, most=32), digest):
                raise Refused(f"{other} and {self.link.name} do not see the same: {otherwise}")

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
            raw = self.link.receive(other, "sum", "totals", most=8 * len(union))
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
            elements += opening.nothing(parts) if held[i] is None else opening.elements_of(held[i] or b"", parts)
        place = self.agreement.names.index(self.link.name)
        masked = masks.mask_elements(elements, place, self.link.mask_keys(), f"open {self.link.session}".encode())
        coordinator = self.agreement.coordinator.name
        self.link.send(coordinator, "open", "shares", masks.to_bytes(masked))
        most = 100 + len(order) * (10 + 6 * self.agreement.longest_text)
        texts = self._texts(self.link.receive(coordinator, "open", "texts", most=most), len(order))
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

    def _texts(self, raw: bytes, expected: int) -> list[str | None]:
        try:
            texts = json.loads(raw)
        except ValueError:
            texts = None
        if not isinstance(texts, list) or len(texts) != expected:
            raise Refused("the coordinator opened another number of items")
        return [None if text is None else str(text) for text in texts]

    def _rows(
        self, texts: Sequence[str | None], held: Sequence[bytes | None], totals: Integers
    ) -> list[tuple[list[str], int]]:
        rows = []
        for text, mine, total in zip(texts, held, totals.tolist(), strict=True):
            if mine is not None and (text is None or text.encode() != mine):
                raise Refused("an opened item is not the one that this party holds: a party sent a wrong share")
            if text is not None:
                try:
                    rows.append((opening.decoded(text.encode(), len(self.item.columns)), int(total)))
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

    def _compare(self, tables: Mapping[str, pa.Table]) -> None:
        rows = {name: table.to_pylist() for name, table in tables.items()}
        said = json.dumps([self.plan.to_json(), rows], sort_keys=True, default=str)
        digest = hashlib.sha256(said.encode()).digest()
        self._same_everywhere(digest, "agree", "release", "their releases differ")


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
    except (ValueError, TypeError, KeyError, pa.ArrowException):
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
