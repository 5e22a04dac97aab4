"""What every way of publishing has in common: parameters in, a plan before anything is spent, a release after."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.items import KEYWORD
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.log.words import segmentation
from searchveil.privacy.guarantee import Notion
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.parameters import as_value, check_parameters, needed_parameters
from searchveil.publish.plan import Plan, S
from searchveil.publish.release import Release

if TYPE_CHECKING:
    from searchveil.privacy.ledger import Ledger


@dataclass(frozen=True)
class Published:
    """The tables to hand out, and where only making them could tell, figures about them and advice."""

    tables: Mapping[str, pa.Table]
    figures: Mapping[str, Any] | None = None
    advice: str | None = None
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # JSON files beside the tables, by name


@dataclass(frozen=True)
class Mechanism(ABC, Generic[S]):
    """Parameters are checked on creation; `plan` is free; `release` pays the ledger first and then looks at the log."""

    method: ClassVar[str]
    notions: ClassVar[tuple[Notion, ...]]  # that its guarantee may be of, the usual one first
    example: ClassVar[Mapping[str, Any]]  # parameters that make a good first try
    by_words: ClassVar[bool] = False  # whether texts are cut into words even where no item is a keyword

    def __post_init__(self) -> None:
        """Check what is declared. A mechanism adds what its parameters ask of each other."""
        check_parameters(self)

    def __repr__(self) -> str:
        """What Python makes it of: `eval` gives it back, unless it holds a table."""
        return _call(type(self).__name__, self._needed_parameters())

    def __str__(self) -> str:
        """What `searchveil.method` makes it of, unless it holds a table; a pool is named by its file."""
        needed = self._needed_parameters().items()
        return _call(
            self.method, {name: str(value.path) if isinstance(value, QueryPool) else value for name, value in needed}
        )

    def _needed_parameters(self) -> dict[str, Any]:
        return {name: as_value(value) for name, value in needed_parameters(self).items()}

    def plan(self, log: SearchLog | int | None = None) -> Plan[S]:
        """The parameters and the guarantee, for a log, for a public number of users, or for neither.

        Whom a promise is about, and what reading takes as public, is known of a log alone: it enters here, for all.
        """
        plan = self.planned(log)
        plan = replace(plan, words=segmentation() if self.by_words or plan.item == KEYWORD.name else None)
        if not isinstance(log, SearchLog):
            return plan
        public = (*plan.guarantee.assumed_public, *log.taken_as_public)
        return replace(plan, guarantee=replace(plan.guarantee, unit=unit_of(log), assumed_public=public))

    @abstractmethod
    def planned(self, log: SearchLog | int | None) -> Plan[S]:
        """What `plan` is for this mechanism, whatever the unit."""

    @abstractmethod
    def publish(self, log: SearchLog, plan: Plan[S], source: Source, progress: Progress) -> Published:
        """The tables to hand out. Every random choice a proof relies on comes from `source`."""

    def check(self, log: SearchLog) -> None:
        """Refuse a log that lacks what the mechanism needs, before anything is paid."""

    def prepare(self, plan: Plan[S], source: Source) -> Plan[S]:
        """Draw what must be published along with the release, before it is recorded and made. Mostly nothing."""
        return plan

    def release(
        self,
        log: SearchLog,
        *,
        ledger: "Ledger | None" = None,
        source: Source | None = None,
        progress: Progress = silent,
    ) -> Release:
        source = source or Source()
        self.check(log)
        require_two_users(log)
        require_separate_rows(log)
        plan = self.prepare(self.plan(log), source)
        entry = None
        if ledger is not None:
            progress("paying")
            known: dict[str, Any] = {"method": plan.method, "item": plan.item, "parameters": plan.parameters}
            entry = ledger.reserve(plan.guarantee, log=log, **known)
            progress(f"paid, as entry {entry.id} of {ledger.path}")
        published = self.publish(log, plan, source, progress)
        if published.figures is not None:
            plan = replace(plan, figures=published.figures, advice=published.advice)
        return Release(published.tables, plan, entry, documents=published.documents)


def unit_of(log: SearchLog | int | None) -> str:
    """What the log calls a user: a session, where that is all it knows."""
    return log.unit if isinstance(log, SearchLog) else "user"


def require_separate_rows(log: SearchLog) -> None:
    """Where a fault in one user's row took rows of others with it, what every guarantee takes as given is false."""
    for problem in log.problems:
        if problem.and_more:
            raise InputError(
                f"{log.source}: left out {problem}, so no guarantee would hold",
                instead="mend the file, or read a CSV with " + setting("options", {"quote": "none"}, of="reader"),
            )


AT_LEAST_TWO_USERS = "that the log has at least two users"


def at_least_users(least: int) -> str:
    """What is taken as public where a log of fewer users is refused."""
    return AT_LEAST_TWO_USERS if least == 2 else f"that the log has at least {least:,} users"


def require_two_users(log: SearchLog) -> None:
    """Refusing shows that there are fewer, so every guarantee names this among what is taken as public."""
    user = log.table["user"]
    ends = log.engine.fetch(log.table.agg(first=user.min(), last=user.max())).to_pylist()[0]
    if ends["first"] is None:
        raise InputError(f"{log.source} is empty: there is nothing to publish")
    if ends["first"] == ends["last"]:
        raise InputError(f"{log.source} has a single user; a release needs the searches of many")


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
