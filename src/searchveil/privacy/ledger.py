"""What a log has already paid: one SQLite file per log, in which a release is recorded before anything is written out.

A reservation is durable before it is answered, is never taken back, and counts in full whether or not its release was
written: a crash may waste budget and can never create any.
"""

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from searchveil.errors import Blank, InputError, setting, settings
from searchveil.privacy.budget import ANOTHER_FILE, COMPOSITION_IN_WORDS, COUNTED_AS, Budget, Foreseen, check, named
from searchveil.privacy.composition import Composition, GaussianCost, basic, gaussian, not_below, optimal
from searchveil.privacy.guarantee import Guarantee, Neighbours
from searchveil.privacy.ledger_file import account_row, create_file, open_file, read_account, seal_of
from searchveil.private import close_to_others

if TYPE_CHECKING:
    from searchveil.log import SearchLog

Status = Literal["reserved", "written"]


@dataclass(frozen=True)
class Entry:
    """One release that was paid for. `guarantee` is the release's own; ε and δ are what the ledger counts for it."""

    id: int
    time: str
    method: str
    item: str
    parameters: dict[str, Any]
    guarantee: Guarantee
    epsilon: float
    delta: float
    counted_as: str
    status: Status
    out: str | None
    log: str | None = field(repr=False)
    seal: str = field(repr=False)
    ledger: "Ledger" = field(repr=False, compare=False)

    @property
    def cost(self) -> Guarantee:
        own, neighbours = self.guarantee, self.ledger.budget.neighbours
        cost = Guarantee("approximate", self.epsilon, self.delta, "ledger", unit=own.unit, neighbours=neighbours)
        if own.mu is None or own.neighbours != neighbours:
            return cost
        return replace(cost, mu=own.mu, mu_delta=own.mu_delta)

    def written(self, path: str | Path) -> None:
        """Note where the release went. The cost was counted before, and is the same without this note."""
        where = str(Path(path).absolute())
        with self.ledger._transaction(f"the release in {where} is paid for, but that could not be noted") as file:
            file.execute("UPDATE entry SET status = 'written', out = ? WHERE id = ?", (where, self.id))

    def to_json(self) -> dict[str, Any]:
        """Without the fingerprint of the log, by which a guess about its rows could be checked."""
        record = {name: value for name, value in vars(self).items() if name not in ("log", "seal", "ledger")}
        return record | {"guarantee": self.guarantee.to_json()}


@dataclass(frozen=True)
class Spent:
    """The state of an account. The sums `basic_epsilon` and `basic_delta` hold however the releases were chosen."""

    entries: tuple[Entry, ...]
    budget: Budget

    @property
    def _costs(self) -> list[Guarantee]:
        return [entry.cost for entry in self.entries]

    @property
    def basic_epsilon(self) -> float:
        return not_below(basic(self._costs).epsilon)

    @property
    def basic_delta(self) -> float:
        return not_below(basic(self._costs).delta)

    @property
    def best_epsilon(self) -> float:
        """The smallest ε known to hold at the budget's δ, if the list of releases was fixed in advance."""
        return optimal(self._costs, self.budget.delta)

    @property
    def gaussian(self) -> GaussianCost:
        """μ and the δ outside of it; releases without a μ of their own are given one."""
        return gaussian(self._costs)

    @property
    def left(self) -> str:
        """What the next release may cost, rounded down; by the rule of this account."""
        return self.budget.left(self._costs)

    def to_json(self) -> dict[str, Any]:
        best, noise = self.best_epsilon, self.gaussian
        at_budget = noise.epsilon_at(self.budget.delta)
        return {
            "budget": self.budget.to_json(),
            "left": self.left,
            "spent": {
                "basic": {
                    "epsilon": self.basic_epsilon,
                    "delta": self.basic_delta,
                    "rule": COMPOSITION_IN_WORDS["basic"],
                },
                "gaussian": {
                    "mu": noise.mu,
                    "mu_delta": not_below(noise.delta),
                    "epsilon": at_budget if isfinite(at_budget) else None,
                    "delta": self.budget.delta,
                    "rule": "μ² and the δ outside add up; ε is what they come to at this δ",
                },
                "best": {
                    "epsilon": best if isfinite(best) else None,
                    "delta": self.budget.delta,
                    "rule": COMPOSITION_IN_WORDS["pld"],
                },
            },
            "entries": [entry.to_json() for entry in self.entries],
        }


@dataclass(frozen=True)
class Ledger:
    """The account of one log. Opened per operation, so it may be shared by threads and by processes.

    >>> ledger = sv.Ledger.open(folder / "account.sqlite", budget_epsilon=1.5, budget_delta=1e-5)
    >>> release = sv.Zealous(epsilon=1, delta=1e-6).release(log, ledger=ledger)
    >>> ledger.spent().left
    'ε ≤ 0.5, δ ≤ 9e-06'
    """

    path: Path
    budget: Budget
    key: str = field(repr=False)
    seal: str = field(repr=False)
    same_log: bool = False  # the owner's word that the log is the account's, although its rows have changed

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        budget_epsilon: float | None = None,
        budget_delta: float | None = None,
        neighbours: Neighbours | None = None,
        composition: Composition | None = None,
        same_log: bool = False,
    ) -> "Ledger":
        """The ledger in this file. A new one needs a budget; one that has paid keeps its own and refuses another.

        A new ledger counts add-remove by basic composition, unless told otherwise. `same_log` says that what is
        released is the log that this account is about, although its rows have changed since: it grew, or was corrected.
        """
        path = Path(path)
        numbers = {"epsilon": budget_epsilon, "delta": budget_delta}
        given: dict[str, Any] = {name: float(number) for name, number in numbers.items() if number is not None}
        words = {"neighbours": neighbours, "composition": composition}
        given |= {name: word for name, word in words.items() if word is not None}
        check(given)
        if not path.parent.is_dir():
            instead = "make it or " + ANOTHER_FILE
            raise InputError(f"ledger {path}: there is no folder {path.parent}", parameter="ledger", instead=instead)
        if not os.path.lexists(path):
            if budget_epsilon is None or budget_delta is None:
                raise InputError(
                    f"ledger {path} does not exist yet: give it a budget with "
                    + settings({"budget_epsilon": Blank("E"), "budget_delta": Blank("D")})
                    + ", for example "
                    + settings({"budget_epsilon": 1, "budget_delta": 1e-6}),
                    parameter="budget_epsilon",
                )
            create_file(path, Budget(**given))
        with open_file(path, f"ledger {path} cannot be used") as file:
            ledger = cls(path, *read_account(file, path), same_log)
            paid = bool(ledger._entries(file))
        close_to_others(path, group=True)
        if not paid:
            return ledger._with_budget(replace(ledger.budget, **given))
        ledger._check_same(given)
        return ledger

    def _with_budget(self, budget: Budget) -> "Ledger":
        """As long as nothing was paid, a budget can still be chosen: the release that it was made for was refused."""
        if budget == self.budget:
            return self
        row = account_row(budget, self.key)
        with self._transaction("its budget could not be set") as file:
            names = ", ".join(f"{name} = :{name}" for name in row)
            file.execute(f"UPDATE account SET {names}", row)
        return replace(self, budget=budget, seal=row["seal"])

    def reserve(
        self,
        guarantee: Guarantee,
        *,
        method: str,
        item: str,
        parameters: Mapping[str, Any],
        log: "SearchLog | None" = None,
    ) -> Entry:
        """Pay for a release before it is made, or refuse. On return the reservation has reached the disk.

        The method, the item and the parameters say what was paid for. With its log, also refuse if this account is
        about another one.
        """
        cost = self.budget.cost_of(guarantee)
        fingerprint = None if log is None else self._fingerprint(log)
        row = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "method": method,
            "item": item,
            "parameters": json.dumps(dict(parameters), default=str, allow_nan=False),
            "guarantee": json.dumps(guarantee.to_json(), allow_nan=False),
            "epsilon": repr(float(cost.epsilon)),
            "delta": repr(float(cost.delta)),
            "counted_as": COUNTED_AS[guarantee.notion],
            "log": fingerprint,
            "status": "reserved",
        }
        with self._transaction("nothing was released, because that could not be recorded") as file:
            entries = self._entries(file)
            paid = [entry.cost for entry in entries]
            self.budget.check_unit(cost, paid)
            self._check_log(fingerprint, entries)
            self.budget.check_fits(cost, paid)
            row["seal"] = seal_of(entries[-1].seal if entries else self.seal, row)
            marks = ", ".join(f":{name}" for name in row)
            number = file.execute(f"INSERT INTO entry ({', '.join(row)}) VALUES ({marks})", row).lastrowid
            return self._entry(dict(file.execute("SELECT * FROM entry WHERE id = ?", (number,)).fetchone()))

    def foresee(self, guarantees: Sequence[Guarantee]) -> list[Foreseen]:
        """What an account would come to that paid these one after the other, up to the first refused. Pays nothing."""
        with open_file(self.path, f"ledger {self.path} cannot be read") as file:
            entries = self._entries(file)
        return self.budget.foresee(guarantees, [entry.cost for entry in entries])

    def spent(self) -> Spent:
        with open_file(self.path, f"ledger {self.path} cannot be read") as file:
            return Spent(tuple(self._entries(file)), self.budget)

    def _check_log(self, fingerprint: str | None, entries: list[Entry]) -> None:
        known = {entry.log for entry in entries if entry.log is not None}
        if fingerprint is None or not known or fingerprint in known or self.same_log:
            return
        raise InputError(
            f"ledger {self.path} is the account of another log, or this one has changed since: name the "
            + setting("ledger")
            + " file of this log, or add "
            + setting("same_log", True)
            + " if it is the same log that grew or was corrected",
            parameter="ledger",
        )

    def _fingerprint(self, log: "SearchLog") -> str:
        """Tells one log from another, wherever it lies, in which format and on which engine.

        Not a secret: it must not be shown. A mistake is to be found, not a forgery.
        """
        seen = json.dumps(_characteristics(log), ensure_ascii=False)
        return hmac.new(bytes.fromhex(self.key), seen.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()

    def _check_same(self, given: Mapping[str, Any]) -> None:
        for part, asked in given.items():
            name, mine = named(part), getattr(self.budget, part)
            if asked != mine:
                raise InputError(
                    f"ledger {self.path} was opened with "
                    + setting(name, mine, of="ledger")
                    + f", not {asked}, and keeps it: leave "
                    + setting(name, of="ledger")
                    + " out, or "
                    + ANOTHER_FILE
                    + " if this is another log",
                    parameter=name,
                    value=asked,
                )

    def _entries(self, file: sqlite3.Connection) -> list[Entry]:
        """All of them, or a complaint: no entry may be missing, and none may cost less than it did."""
        if not file.in_transaction:  # one state of the file for both questions: another process may be paying
            file.execute("BEGIN")
        entries: list[Entry] = []
        for row in map(dict, file.execute("SELECT * FROM entry ORDER BY id")):
            if row["seal"] != seal_of(entries[-1].seal if entries else self.seal, row):
                raise sqlite3.DatabaseError(f"malformed entry {len(entries) + 1}")
            entries.append(self._entry(row))
        last = file.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entry'").fetchone()[0]
        if [entry.id for entry in entries] != list(range(1, last + 1)):
            raise sqlite3.DatabaseError("malformed: entries are missing")
        return entries

    def _entry(self, record: dict[str, Any]) -> Entry:
        try:
            record["parameters"] = json.loads(record["parameters"])
            record["guarantee"] = Guarantee.from_json(json.loads(record["guarantee"]))
            for name in ("epsilon", "delta"):
                record[name] = float(record[name])
        except (TypeError, ValueError, InputError) as error:
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}") from error
        if not (0 <= record["epsilon"] < inf and 0 <= record["delta"] <= 1):  # a negative cost would create budget
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}")
        return Entry(**record, ledger=self)

    @contextmanager
    def _transaction(self, otherwise: str) -> Iterator[sqlite3.Connection]:
        """Alone in the file from the first read to the commit, so that no two processes see the same room for both."""
        with open_file(self.path, f"ledger {self.path}: {otherwise}") as file:
            file.execute("BEGIN IMMEDIATE")
            if read_account(file, self.path) != (self.budget, self.key, self.seal):
                raise InputError(f"ledger {self.path} was replaced by another one meanwhile; run the command again")
            yield file
            file.execute("COMMIT")


def _characteristics(log: "SearchLog") -> dict[str, str]:
    """By one pass over the columns that every log has. The same of the same rows, in any order."""
    user, query = log.table["user"], log.table["query"]
    found = log.engine.fetch(
        log.table.agg(
            rows=log.table.count(),
            letters=query.length().sum(),
            first_user=user.min(),
            last_user=user.max(),
            first_query=query.min(),
            last_query=query.max(),
        )
    )
    return {name: str(value) for name, value in found.to_pylist()[0].items()}
