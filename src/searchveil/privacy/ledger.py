"""What a log has already paid: one SQLite file per log, in which a release is recorded before anything is written out.

A reservation is durable before it is answered, is never taken back, and counts in full whether or not its release was
written: a crash may waste budget and can never create any.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import inf, isfinite
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Literal, get_args

from searchveil.errors import BudgetRefused, InputError
from searchveil.privacy.composition import Cost, basic, decimal, not_below, optimal
from searchveil.privacy.guarantee import Guarantee, Neighbours, Notion
from searchveil.privacy.rounding import at_least, at_most

if TYPE_CHECKING:
    from searchveil.publish.mechanism import Plan

Composition = Literal["basic", "pld"]
Status = Literal["reserved", "written"]

COMPOSITION_IN_WORDS: dict[Composition, str] = {
    "basic": "the sums of ε and δ; valid even when a later release is chosen after looking at the earlier ones",
    "pld": "the optimal composition of (ε,δ) pairs; valid only if the list of releases, with every ε and δ, was fixed "
    "before the first one was seen",
}
COUNTED_AS: dict[Notion, str] = {
    "approximate": "(ε,δ)-differential privacy",
    "probabilistic": "(ε,δ)-differential privacy, which the probabilistic notion implies",
    "indistinguishable": "(ε,δ)-differential privacy, of which indistinguishability is another name",
}

APPLICATION_ID = 0x5645494C  # "VEIL": tells a ledger from any other SQLite file
SCHEMA_VERSION = 1
BUSY_SECONDS = 60  # how long to wait for another process that is reserving

# ε and δ are kept as text, because they are decimals. The triggers guard against a slip of the hand, not malice.
SCHEMA = (
    """CREATE TABLE account (
        budget_epsilon TEXT NOT NULL, budget_delta TEXT NOT NULL,
        neighbours TEXT NOT NULL, composition TEXT NOT NULL)""",
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, method TEXT NOT NULL, item TEXT NOT NULL,
        parameters TEXT NOT NULL, guarantee TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        counted_as TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('reserved', 'written')), out TEXT)""",
    """CREATE TRIGGER budget_is_fixed BEFORE UPDATE ON account
        BEGIN SELECT RAISE(ABORT, 'a budget does not change'); END""",
    """CREATE TRIGGER budget_stays BEFORE DELETE ON account
        BEGIN SELECT RAISE(ABORT, 'a budget does not change'); END""",
    """CREATE TRIGGER cost_is_fixed
        BEFORE UPDATE OF id, time, method, item, parameters, guarantee, epsilon, delta, counted_as ON entry
        BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END""",
    """CREATE TRIGGER spent_stays_spent BEFORE DELETE ON entry
        BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


@dataclass(frozen=True)
class Entry:
    """One release that was paid for. `guarantee` is the release's own; ε and δ are what the ledger counts for it."""

    id: int
    time: str
    method: str
    item: str
    parameters: dict[str, Any]
    guarantee: dict[str, Any]
    epsilon: float
    delta: float
    counted_as: str
    status: Status
    out: str | None
    ledger: "Ledger" = field(repr=False, compare=False)

    @property
    def cost(self) -> Guarantee:
        unit, neighbours = self.guarantee["unit"], self.ledger.neighbours
        return Guarantee("approximate", self.epsilon, self.delta, "ledger", unit=unit, neighbours=neighbours)

    def written(self, path: str | Path) -> None:
        """Note where the release went. The cost was counted before, and is the same without this note."""
        where = str(Path(path).absolute())
        with self.ledger._transaction(f"the release in {where} is paid for, but that could not be noted") as file:
            file.execute("UPDATE entry SET status = 'written', out = ? WHERE id = ?", (where, self.id))

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "ledger"}


@dataclass(frozen=True)
class Spent:
    """The state of an account. The sums `basic_epsilon` and `basic_delta` hold however the releases were chosen."""

    entries: tuple[Entry, ...]
    basic_epsilon: float
    basic_delta: float
    budget_epsilon: float
    budget_delta: float
    neighbours: Neighbours
    composition: Composition

    @property
    def best_epsilon(self) -> float:
        """The smallest ε known to hold at the budget's δ, if the list of releases was fixed in advance."""
        return optimal([entry.cost for entry in self.entries], self.budget_delta)

    def to_json(self) -> dict[str, Any]:
        best = self.best_epsilon
        return {
            "budget": {
                "epsilon": self.budget_epsilon,
                "delta": self.budget_delta,
                "neighbours": self.neighbours,
                "composition": self.composition,
                "rule": COMPOSITION_IN_WORDS[self.composition],
            },
            "spent": {
                "basic": {
                    "epsilon": self.basic_epsilon,
                    "delta": self.basic_delta,
                    "rule": COMPOSITION_IN_WORDS["basic"],
                },
                "best": {
                    "epsilon": best if isfinite(best) else None,
                    "delta": self.budget_delta,
                    "rule": COMPOSITION_IN_WORDS["pld"],
                },
            },
            "entries": [entry.to_json() for entry in self.entries],
        }


@dataclass(frozen=True)
class Ledger:
    """The account of one log. Opened per operation, so it may be shared by threads and by processes."""

    path: Path
    budget_epsilon: float
    budget_delta: float
    neighbours: Neighbours
    composition: Composition

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        budget_epsilon: float | None = None,
        budget_delta: float | None = None,
        neighbours: Neighbours | None = None,
        composition: Composition | None = None,
    ) -> "Ledger":
        """The ledger in this file. A new one needs a budget; an existing one keeps its own and refuses to take another.

        A new ledger counts add-remove by basic composition, unless told otherwise.
        """
        path = Path(path)
        _check_budget(budget_epsilon, budget_delta)
        _check_word("--budget-neighbours", neighbours, get_args(Neighbours))
        _check_word("--budget-composition", composition, get_args(Composition))
        if not path.parent.is_dir():
            raise InputError(f"ledger {path}: there is no folder {path.parent}; make it or name another --ledger file")
        if _is_unborn(path):
            if budget_epsilon is None or budget_delta is None:
                raise InputError(
                    f"ledger {path} does not exist yet: give it a budget with --budget-epsilon E --budget-delta D, "
                    "for example --budget-epsilon 1 --budget-delta 1e-6"
                )
            _create(path, budget_epsilon, budget_delta, neighbours or "add-remove", composition or "basic")
        with _opened(path, f"ledger {path} cannot be used") as file:
            ledger = cls(path, *_account(file, path))
        ledger._check_same(budget_epsilon, budget_delta, neighbours, composition)
        return ledger

    def reserve(self, plan: "Plan") -> Entry:
        """Pay for a release before it is made, or refuse. On return the reservation has reached the disk."""
        cost = self._cost(plan.guarantee)
        row = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "method": plan.method,
            "item": plan.item,
            "parameters": json.dumps(dict(plan.parameters), default=str, allow_nan=False),
            "guarantee": json.dumps(plan.guarantee.to_json(), allow_nan=False),
            "epsilon": repr(float(cost.epsilon)),
            "delta": repr(float(cost.delta)),
            "counted_as": COUNTED_AS[plan.guarantee.notion],
            "status": "reserved",
        }
        with self._transaction("nothing was released, because that could not be recorded") as file:
            entries = self._entries(file)
            self._check_unit(plan.guarantee, entries)
            counted = [entry.cost for entry in entries]
            if not self._fits([*counted, cost]):
                raise self._refusal(cost, counted)
            marks = ", ".join(f":{name}" for name in row)
            number = file.execute(f"INSERT INTO entry ({', '.join(row)}) VALUES ({marks})", row).lastrowid
            return self._entry(file.execute("SELECT * FROM entry WHERE id = ?", (number,)).fetchone())

    def spent(self) -> Spent:
        with _opened(self.path, f"ledger {self.path} cannot be read") as file:
            entries = self._entries(file)
        total = basic(entry.cost for entry in entries)
        return Spent(
            entries=tuple(entries),
            basic_epsilon=not_below(total.epsilon),
            basic_delta=not_below(total.delta),
            budget_epsilon=self.budget_epsilon,
            budget_delta=self.budget_delta,
            neighbours=self.neighbours,
            composition=self.composition,
        )

    def _cost(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee as this ledger counts it: (ε,δ)-differential privacy under the ledger's neighbours."""
        if not (guarantee.is_private and 0 <= guarantee.epsilon < inf and guarantee.delta >= 0):
            raise BudgetRefused(
                "budget refused: a release without differential privacy has no finite cost; leave out --ledger"
            )
        if guarantee.neighbours == "replace-one" and self.neighbours == "add-remove":
            notion = "" if guarantee.notion == "approximate" else "--notion approximate "
            raise InputError(
                f"ledger {self.path} counts add-remove, which a replace-one promise does not imply: release with "
                f"{notion}--neighbours add-remove, or open another ledger with --budget-neighbours replace-one"
            )
        # The notion changes first: group privacy, which converts the neighbours, is about differential privacy itself.
        counted = replace(guarantee, notion="approximate").under(self.neighbours)
        if counted.neighbours == guarantee.neighbours:
            return counted
        return replace(counted, delta=min(1.0, counted.delta * (1 + 1e-15)))  # outwards: `under` rounds to nearest

    def _check_unit(self, guarantee: Guarantee, entries: list[Entry]) -> None:
        if entries and entries[0].guarantee["unit"] != guarantee.unit:
            raise InputError(
                f"ledger {self.path} counts per {entries[0].guarantee['unit']} and the release promises per "
                f"{guarantee.unit}: the two do not add up; name another --ledger file"
            )

    def _fits(self, counted: list[Guarantee]) -> bool:
        total = basic(counted)
        if total.epsilon <= decimal(self.budget_epsilon) and total.delta <= decimal(self.budget_delta):
            return True
        return self.composition == "pld" and optimal(counted, self.budget_delta) <= self.budget_epsilon

    def _refusal(self, cost: Guarantee, counted: list[Guarantee]) -> BudgetRefused:
        budget, spent = Cost(decimal(self.budget_epsilon), decimal(self.budget_delta)), basic(counted)
        if self.composition == "basic":
            fits = _pair(Cost(budget.epsilon - spent.epsilon, budget.delta - spent.delta), at_least, "≤")
        else:
            fits = f"ε ≤ {at_least(self._largest_epsilon(cost, counted))} at the δ asked"
        releases = f"{len(counted)} release" + "s" * (len(counted) != 1)
        return BudgetRefused(
            f"budget refused: asked {_pair(basic([cost]), at_most)}; already spent {_pair(spent, at_most)} "
            f"in {releases}; budget {_pair(budget, at_least)}; still fits: {fits}"
        )

    def _largest_epsilon(self, cost: Guarantee, counted: list[Guarantee]) -> Fraction:
        """By bisection, to six digits: how large an ε the optimal composition would still admit at the δ asked."""
        low, high = 0.0, self.budget_epsilon
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if self._fits([*counted, replace(cost, epsilon=middle)]) else (low, middle)
        return decimal(low)

    def _check_same(
        self, epsilon: float | None, delta: float | None, neighbours: Neighbours | None, composition: Composition | None
    ) -> None:
        has = {
            "--budget-epsilon": self.budget_epsilon,
            "--budget-delta": self.budget_delta,
            "--budget-neighbours": self.neighbours,
            "--budget-composition": self.composition,
        }
        for (option, mine), asked in zip(has.items(), (epsilon, delta, neighbours, composition), strict=True):
            if asked is not None and asked != mine:
                raise InputError(
                    f"ledger {self.path} was opened with {option} {mine}, not {asked}, and keeps it: leave {option} "
                    "out, or name another --ledger file if this is another log"
                )

    def _entries(self, file: sqlite3.Connection) -> list[Entry]:
        return [self._entry(row) for row in file.execute("SELECT * FROM entry ORDER BY id")]

    def _entry(self, row: sqlite3.Row) -> Entry:
        record = dict(row)
        try:
            for name in ("parameters", "guarantee"):
                record[name] = json.loads(record[name])
            for name in ("epsilon", "delta"):
                record[name] = float(record[name])
        except (TypeError, ValueError) as error:
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}") from error
        if not (0 <= record["epsilon"] < inf and 0 <= record["delta"] <= 1):  # a negative cost would create budget
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}")
        return Entry(**record, ledger=self)

    @contextmanager
    def _transaction(self, otherwise: str) -> Iterator[sqlite3.Connection]:
        """Alone in the file from the first read to the commit, so that no two processes see the same room for both."""
        with _opened(self.path, f"ledger {self.path}: {otherwise}") as file:
            file.execute("BEGIN IMMEDIATE")
            if _account(file, self.path) != (self.budget_epsilon, self.budget_delta, self.neighbours, self.composition):
                raise InputError(f"ledger {self.path} was replaced by another one meanwhile; run the command again")
            yield file
            file.execute("COMMIT")


@contextmanager
def _opened(path: Path, trouble: str, *, mode: Literal["rw", "rwc"] = "rw") -> Iterator[sqlite3.Connection]:
    """A connection for one operation. What SQLite has to complain about becomes one line."""
    try:
        address = f"{path.absolute().as_uri()}?mode={mode}"  # "rw": a ledger that vanished is not silently begun anew
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as file:
            file.row_factory = sqlite3.Row
            # EXTRA also syncs the folder once the journal is removed: with FULL, a power cut right after a commit could
            # bring the journal back and take the commit away.
            file.execute("PRAGMA synchronous = EXTRA")
            yield file
    except sqlite3.Error as error:
        raise InputError(f"{trouble}: {_reason(error)}") from error


def _reason(error: sqlite3.Error) -> str:
    said = str(error)
    if "not a database" in said or "malformed" in said:
        return f"damaged, or not a ledger ({said}); restore it from a backup, for a new one would forget what was spent"
    if "locked" in said:
        return f"another process has held it for {BUSY_SECONDS} seconds; try again when that one is done"
    if "readonly" in said or "unable to open" in said:
        return f"{said}; check that it is a file, and that you may write to it and to its folder"
    return said


def _is_unborn(path: Path) -> bool:
    """No file, or an empty one: left by a process that died before its first commit, or by one that is about to.

    One look decides: asking twice would let another process create the file between the questions.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    return S_ISREG(found.st_mode) and found.st_size == 0


def _create(path: Path, epsilon: float, delta: float, neighbours: Neighbours, composition: Composition) -> None:
    with _opened(path, f"ledger {path} cannot be created", mode="rwc") as file:
        file.execute("BEGIN IMMEDIATE")
        if file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:  # else another process was quicker
            for statement in SCHEMA:
                file.execute(statement)
            budget = (repr(float(epsilon)), repr(float(delta)), neighbours, composition)
            file.execute("INSERT INTO account VALUES (?, ?, ?, ?)", budget)
        file.execute("COMMIT")


def _account(file: sqlite3.Connection, path: Path) -> tuple[float, float, Neighbours, Composition]:
    if file.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise InputError(f"{path} is not a searchveil ledger; name another --ledger file")
    if file.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        raise InputError(f"ledger {path} was made by another version of searchveil; use that version")
    try:
        epsilon, delta, neighbours, composition = file.execute("SELECT * FROM account").fetchone()
        return float(epsilon), float(delta), neighbours, composition
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError("malformed budget") from error


def _check_word(option: str, word: str | None, known: tuple[str, ...]) -> None:
    if word is not None and word not in known:
        raise InputError(f"{option} {word}: there are {' and '.join(known)}")


def _check_budget(epsilon: float | None, delta: float | None) -> None:
    if epsilon is not None and not 0 < epsilon < inf:
        raise InputError(f"--budget-epsilon must be a positive number, not {epsilon}")
    if delta is not None and not 0 <= delta < 1:
        raise InputError(f"--budget-delta must be at least 0 and below 1, not {delta}")


def _pair(cost: Cost, rounded: Callable[[Fraction], str], relation: str = "=") -> str:
    return f"ε {relation} {rounded(cost.epsilon)}, δ {relation} {rounded(cost.delta)}"
