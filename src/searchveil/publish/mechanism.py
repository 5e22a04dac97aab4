"""What every way of publishing has in common: parameters in, a plan before anything is spent, a release after."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.items.pool import QueryPool
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.parameters import as_value, check_parameters, telling

if TYPE_CHECKING:
    from searchveil.privacy.ledger import Entry, Ledger

Counted = Literal["users", "occurrences", "sessions"]


@dataclass(frozen=True)
class Plan:
    """What a mechanism would do and promise. Making one spends nothing and looks at nothing but the number of users."""

    method: str
    item: str
    parameters: Mapping[str, Any]
    guarantee: Guarantee
    claims: Mapping[str, float] = field(default_factory=dict)  # what a paper says of these parameters, for comparison
    figures: Mapping[str, Any] = field(default_factory=dict)  # how much can be published or, in a release, was
    advice: str | None = None  # what to do instead, where these parameters make no sense
    counts: Counted = "users"  # what a published count is a number of, for whoever compares it with a log

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "method": self.method,
            "item": self.item,
            "counts": self.counts,
            "parameters": dict(self.parameters),
            "guarantee": self.guarantee.to_json(),
            **{name: _finite(value) for name, value in (*self.claims.items(), *self.figures.items())},
        }
        return record if self.advice is None else record | {"advice": self.advice}


def _finite(value: Any) -> Any:
    """None for what JSON has no number for."""
    return None if isinstance(value, float) and not isfinite(value) else value


class Published(dict[str, pa.Table]):
    """Tables with figures about them that only making them could tell."""

    def __init__(self, tables: Mapping[str, pa.Table], figures: Mapping[str, Any], advice: str | None = None) -> None:
        super().__init__(tables)
        self.figures = figures
        self.advice = advice


@dataclass(frozen=True)
class Release:
    """What may leave the house: the tables, and the plan whose guarantee they carry."""

    tables: Mapping[str, pa.Table]
    plan: Plan
    entry: "Entry | None" = field(default=None, compare=False)

    @property
    def table(self) -> pa.Table:
        """The main table, in a release of one table the only one."""
        return next(iter(self.tables.values()))

    @property
    def guarantee(self) -> Guarantee:
        return self.plan.guarantee

    def write(self, folder: str | Path, *, format: str = "parquet") -> Path:
        """Write the release folder whole or not at all, then tell the ledger that the reservation was used."""
        from searchveil.publish.folder import write_folder

        path = write_folder(self, Path(folder), format)
        if self.entry is not None:
            self.entry.written(path)
        return path


@dataclass(frozen=True)
class Mechanism(ABC):
    """Parameters are checked on creation; `plan` is free; `release` pays the ledger first and then looks at the log."""

    method: ClassVar[str]
    notions: ClassVar[tuple[Notion, ...]]  # that its guarantee may be of, the usual one first
    example: ClassVar[Mapping[str, Any]]  # parameters that make a good first try

    def __post_init__(self) -> None:
        """Check what is declared. A mechanism adds what its parameters ask of each other."""
        check_parameters(self)

    def __repr__(self) -> str:
        """What Python makes it of: `eval` gives it back, unless it holds a table."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._telling().items())})"

    def __str__(self) -> str:
        """What `searchveil.method` makes it of, unless it holds a table; a pool is named by its file."""
        told = {
            name: str(value.path) if isinstance(value, QueryPool) else value for name, value in self._telling().items()
        }
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def _telling(self) -> dict[str, Any]:
        return {name: as_value(value) for name, value in telling(self).items()}

    def plan(self, log: SearchLog | int | None = None) -> Plan:
        """The parameters and the guarantee, for a log, for a public number of users, or for neither.

        Whom a promise is about, and what reading takes as public, is known of a log alone: it enters here, for all.
        """
        plan = self.planned(log)
        if not isinstance(log, SearchLog):
            return plan
        public = (*plan.guarantee.assumed_public, *log.taken_as_public)
        return replace(plan, guarantee=replace(plan.guarantee, unit=unit_of(log), assumed_public=public))

    @abstractmethod
    def planned(self, log: SearchLog | int | None) -> Plan:
        """What `plan` is for this mechanism, whatever the unit."""

    @abstractmethod
    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Mapping[str, pa.Table]:
        """The tables to hand out, perhaps as `Published`. Every random choice a proof relies on comes from `source`."""

    def check(self, log: SearchLog) -> None:  # noqa: B027 (most need nothing beyond users and queries)
        """Refuse a log that lacks what the mechanism needs, before anything is paid."""

    def prepare(self, plan: Plan, source: Source) -> Plan:
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
        require_rows_apart(log)
        plan = self.prepare(self.plan(log), source)
        entry = ledger.reserve(plan, log) if ledger is not None else None
        tables = self.publish(log, plan, source, progress)
        if isinstance(tables, Published):
            plan = replace(plan, figures=tables.figures, advice=tables.advice)
        return Release(tables, plan, entry)


def unit_of(log: SearchLog | int | None) -> str:
    """What the log calls a user: a session, where that is all it knows."""
    return log.unit if isinstance(log, SearchLog) else "user"


def require_rows_apart(log: SearchLog) -> None:
    """Where a fault in one user's row took rows of others with it, what every guarantee takes as given is false."""
    for problem in log.problems:
        if problem.and_more:
            raise InputError(
                f"{log.source}: left out {problem}, so no guarantee would hold",
                instead="mend the file, or read a CSV with " + setting("options", {"quote": "none"}, of="reader"),
            )


AT_LEAST_TWO_USERS = "that the log has at least two users"


def require_two_users(log: SearchLog) -> None:
    """Refusing shows that there are fewer, so every guarantee names this among what is taken as public."""
    user = log.table["user"]
    ends = log.engine.fetch(log.table.agg(first=user.min(), last=user.max())).to_pylist()[0]
    if ends["first"] is None:
        raise InputError(f"{log.source} is empty: there is nothing to publish")
    if ends["first"] == ends["last"]:
        raise InputError(f"{log.source} has a single user; a release needs the searches of many")
