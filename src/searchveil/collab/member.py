"""Taking part in a run, whatever is computed in it: paying, keys, faults, and the same release at everybody."""

import hashlib
import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from searchveil.collab.agreement import RunFile
from searchveil.collab.identity import Identity
from searchveil.collab.link import Bar, Link, no_bar
from searchveil.collab.messages import Refused, RunEnded, read_json
from searchveil.collab.transcript import Transcript
from searchveil.errors import InputError, SearchveilError, printable, setting
from searchveil.items import item_named
from searchveil.log import Normalization, SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.folder import claimed
from searchveil.publish.mechanism import require_separate_rows, require_two_users
from searchveil.publish.plan import Plan
from searchveil.publish.release import Release

if TYPE_CHECKING:
    from searchveil.privacy.ledger import Entry, Ledger

LONGEST_FACT = 400  # characters of what a party says that its reading takes as public: all records have it
LONGEST_ABOUT = 20_000  # bytes in which a party says what its log is about


class RunFailed(SearchveilError):  # noqa: N818 (a normal outcome)
    """The run ended before there was a release; the message says why, and what was spent."""


@dataclass(frozen=True)
class Joined:
    """What a run left at this party: the release, where it is, and what it took."""

    release: Release
    folder: Path
    seconds: dict[str, float]
    bytes_sent: int
    bytes_received: int


class Member(ABC):
    """One run of one party. What the parties compute together is `_together`, of each mode."""

    plan: Plan[Any]

    def __init__(
        self,
        log: SearchLog,
        identity: Identity,
        run: RunFile,
        *,
        ledger: "Ledger | None" = None,
        transcript: Path | None = None,
        progress: Progress = silent,
        bar: Bar = no_bar,
        source: Source | None = None,
    ) -> None:
        self.log, self.run, self.agreement, self.ledger, self.progress = log, run, run.agreement, ledger, progress
        self.transcript = Transcript(transcript)
        self.link = Link(identity, run, self.transcript, bar)
        self.source = source or Source()
        self.entry: Entry | None = None
        self.item = item_named(self.agreement.counted)

    @abstractmethod
    def _to_pay(self) -> Guarantee:
        """What the ledger counts."""

    @abstractmethod
    def _together(self) -> dict[str, pa.Table]:
        """The tables of the release, which are the same at every party."""

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
        """Finish: an error elsewhere no longer takes the release away."""
        try:
            self.link.done()
        except (RunEnded, Refused) as problem:
            self.progress(f"the release was written; afterwards the run ended elsewhere: {problem}")

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Tell the other parties, and whoever started this one, how the run ended."""
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

    # --- what all runs have in common ---

    def _protocol(self) -> Release:
        self._phase("agreement", "comparing the run file with the coordinator's")
        self.link.agree()
        self._check_normalization()
        self._pay()
        self._phase("keys", "waiting for the other parties")
        self.link.hello()
        tables = self._together()
        self._phase("agree", "comparing the releases")
        self._compare(tables)
        return Release(tables, self.plan, self.entry)

    def _phase(self, name: str, in_words: str) -> None:
        self.transcript.phase(name)
        self.progress(in_words)

    def _check_normalization(self) -> None:
        """Read otherwise, one text would be two items: counts of the parties would not add up."""
        agreed = Normalization.of_words(self.agreement.normalize)
        if self.log.normalization != agreed:
            self.link.give_up("it reads texts otherwise than the run file says (normalize)")
            raise InputError(
                f'texts are read as "{self.log.normalization.words}" here, and {self.run.source} says normalize = '
                f'"{agreed.words}" for all parties',
                parameter="normalize",
                instead="use " + setting("normalize", agreed.words),
            )

    def _pay(self) -> None:
        """Before the first message leaves: once others have seen something, nothing takes it back."""
        if self.ledger is not None:
            cost = replace(self._to_pay(), unit=self.log.unit)
            plan = self.plan
            self.entry = self.ledger.reserve(
                cost, method=plan.method, item=plan.item, parameters=plan.parameters, log=self.log
            )

    def _tell_about(self, mine: bytes) -> dict[str, bytes]:
        """Tell the others what this party's log is about, and some bytes; theirs are the answer."""
        about: dict[str, Any] = {
            "unit": self.log.unit,
            "words": self.plan.words,
            "public": list(self.log.taken_as_public),
        }
        for other in self.link.others:
            self.link.send(other, "keys", "group", mine + json.dumps(about).encode())
        theirs: dict[str, bytes] = {}
        told = [about]
        for other in self.link.others:
            raw = self.link.receive(other, "keys", "group", most=LONGEST_ABOUT)
            theirs[other] = raw[: len(mine)]
            told.append(self._about(raw[len(mine) :], other))
        facts = sorted({fact for one in told for fact in one["public"]})
        known = self.plan.guarantee.assumed_public
        guarantee = replace(self.plan.guarantee, unit=self.log.unit, assumed_public=(*known, *facts))
        self.plan = replace(self.plan, guarantee=guarantee)
        return theirs

    def _about(self, raw: bytes, other: str) -> dict[str, Any]:
        try:
            about = read_json(raw)
            if about["unit"] != self.log.unit:
                raise Refused(
                    f"a user of {other}'s log is a {about['unit']}, and of {self.link.name}'s a {self.log.unit}"
                )
            if about["words"] != self.plan.words:
                raise Refused(
                    f"{other} cuts queries into words with {printable(str(about['words']))}, and {self.link.name} with "
                    f"{self.plan.words}; install the same icu4py"
                )
            return {
                "unit": str(about["unit"]),
                "public": [printable(str(fact))[:LONGEST_FACT] for fact in about["public"]],
            }
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{other} does not say what its log is about") from None

    def _same_everywhere(self, digest: bytes, phase: Any, topic: str, otherwise: str) -> None:
        for other in self.link.others:
            self.link.send(other, phase, topic, digest)
        for other in self.link.others:
            if not hmac.compare_digest(self.link.receive(other, phase, topic, most=32), digest):
                raise Refused(f"{other} and {self.link.name} do not see the same: {otherwise}")

    def _compare(self, tables: Mapping[str, pa.Table]) -> None:
        rows = {name: table.to_pylist() for name, table in tables.items()}
        said = json.dumps([self.plan.to_json(), rows], sort_keys=True, default=str)
        digest = hashlib.sha256(said.encode()).digest()
        self._same_everywhere(digest, "agree", "release", "their releases differ")
