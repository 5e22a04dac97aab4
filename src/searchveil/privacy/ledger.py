"""What a log has already paid: one SQLite file per log, in which a release is recorded before anything is written out.

A reservation is durable before it is answered, is never taken back, and counts in full whether or not its release was
written: a crash may waste budget and can never create any.
"""

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import inf, isfinite, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from searchveil.errors import Blank, BudgetRefused, InputError, SearchveilError, setting, settings
from searchveil.privacy.composition import Composition, Cost, GaussianCost, basic, decimal, gaussian, not_below, optimal
from searchveil.privacy.gaussian import sigma_for
from searchveil.privacy.guarantee import Guarantee, Neighbours, Notion
from searchveil.privacy.ledger_file import ANOTHER_FILE, account_row, create_file, open_file, read_account, seal_of
from searchveil.privacy.rounding import at_least, at_most

if TYPE_CHECKING:
    from searchveil.log import SearchLog

Status = Literal["reserved", "written"]

COMPOSITION_IN_WORDS: dict[Composition, str] = {
    "basic": "the sums of ε and δ; valid even when a later release is chosen after looking at the earlier ones",
    "gaussian": "the sums of μ² and of the δ outside, each with half of the budget's δ; valid even when a later "
    "release is chosen after looking at the earlier ones",
    "pld": "the optimal composition of (ε,δ) pairs; valid only if the list of releases, with every ε and δ, was fixed "
    "before the first one was seen",
}
COUNTED_AS: dict[Notion, str] = {
    "approximate": "(ε,δ)-differential privacy",
    "probabilistic": "(ε,δ)-differential privacy, which the probabilistic notion implies",
    "indistinguishable": "(ε,δ)-differential privacy, of which indistinguishability is another name",
}


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
    log: str | None = field(repr=False)
    seal: str = field(repr=False)
    ledger: "Ledger" = field(repr=False, compare=False)

    @property
    def cost(self) -> Guarantee:
        unit, neighbours = self.guarantee["unit"], self.ledger.neighbours
        cost = Guarantee("approximate", self.epsilon, self.delta, "ledger", unit=unit, neighbours=neighbours)
        if self.guarantee.get("mu") is None or self.guarantee["neighbours"] != neighbours:
            return cost
        return replace(cost, mu=self.guarantee["mu"], mu_delta=self.guarantee["mu_delta"])

    def written(self, path: str | Path) -> None:
        """Note where the release went. The cost was counted before, and is the same without this note."""
        where = str(Path(path).absolute())
        with self.ledger._transaction(f"the release in {where} is paid for, but that could not be noted") as file:
            file.execute("UPDATE entry SET status = 'written', out = ? WHERE id = ?", (where, self.id))

    def to_json(self) -> dict[str, Any]:
        """Without the fingerprint of the log, by which a guess about its rows could be checked."""
        return {name: value for name, value in vars(self).items() if name not in ("log", "seal", "ledger")}


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

    @property
    def gaussian(self) -> GaussianCost:
        """μ and the δ outside of it; releases without a μ of their own are given one."""
        return gaussian(entry.cost for entry in self.entries)

    @property
    def left(self) -> str:
        """What the next release may cost, rounded down; by the rule of this account."""
        if self.composition == "gaussian":
            mu, delta = _gaussian_left(self.budget_epsilon, self.budget_delta, self.gaussian)
            return f"μ ≤ {at_least(mu, 5)}, δ outside ≤ {at_least(delta)}"
        spent = basic(entry.cost for entry in self.entries)
        epsilon, delta = decimal(self.budget_epsilon) - spent.epsilon, decimal(self.budget_delta) - spent.delta
        left = _pair(Cost(max(Fraction(0), epsilon), max(Fraction(0), delta)), at_least, "≤")
        return f"{left}, and more as far as the optimal composition admits" if self.composition == "pld" else left

    def to_json(self) -> dict[str, Any]:
        best, noise = self.best_epsilon, self.gaussian
        at_budget = noise.epsilon_at(self.budget_delta)
        return {
            "budget": {
                "epsilon": self.budget_epsilon,
                "delta": self.budget_delta,
                "neighbours": self.neighbours,
                "composition": self.composition,
                "rule": COMPOSITION_IN_WORDS[self.composition],
            },
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
                    "delta": self.budget_delta,
                    "rule": "μ² and the δ outside add up; ε is what they come to at this δ",
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
class Foreseen:
    """The sums of an account after a release that is only planned; `refusal` says why it would not be paid."""

    total: Cost
    refusal: SearchveilError | None = None


@dataclass(frozen=True)
class Ledger:
    """The account of one log. Opened per operation, so it may be shared by threads and by processes.

    >>> ledger = sv.Ledger.open(folder / "account.sqlite", budget_epsilon=1.5, budget_delta=1e-5)
    >>> release = sv.Zealous(epsilon=1, delta=1e-6).release(log, ledger=ledger)
    >>> ledger.spent().left
    'ε ≤ 0.5, δ ≤ 9e-06'
    """

    path: Path
    budget_epsilon: float
    budget_delta: float
    neighbours: Neighbours
    composition: Composition
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
        _check_budget(budget_epsilon, budget_delta)
        _check_word("neighbours", neighbours, get_args(Neighbours))
        _check_word("composition", composition, get_args(Composition))
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
            _check_gaussian(budget_delta, composition)
            create_file(path, budget_epsilon, budget_delta, neighbours or "add-remove", composition or "basic")
        with open_file(path, f"ledger {path} cannot be used") as file:
            ledger = cls(path, *read_account(file, path), same_log)
            paid = bool(ledger._entries(file))
        if not paid:
            return ledger._with_budget(budget_epsilon, budget_delta, neighbours, composition)
        ledger._check_same(budget_epsilon, budget_delta, neighbours, composition)
        return ledger

    def _with_budget(
        self, epsilon: float | None, delta: float | None, neighbours: Neighbours | None, composition: Composition | None
    ) -> "Ledger":
        """As long as nothing was paid, a budget can still be chosen: the release that it was made for was refused."""
        chosen = replace(
            self,
            budget_epsilon=self.budget_epsilon if epsilon is None else float(epsilon),
            budget_delta=self.budget_delta if delta is None else float(delta),
            neighbours=neighbours or self.neighbours,
            composition=composition or self.composition,
        )
        _check_gaussian(chosen.budget_delta, chosen.composition)
        if chosen == self:
            return self
        row = account_row(*chosen._budget, self.key)
        with self._transaction("its budget could not be set") as file:
            names = ", ".join(f"{name} = :{name}" for name in row)
            file.execute(f"UPDATE account SET {names}", row)
        return replace(chosen, seal=row["seal"])

    @property
    def _budget(self) -> tuple[float, float, Neighbours, Composition]:
        return self.budget_epsilon, self.budget_delta, self.neighbours, self.composition

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
        cost = self._cost(guarantee)
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
            self._check_unit(guarantee, entries)
            self._check_log(fingerprint, entries)
            counted = [entry.cost for entry in entries]
            if not self._fits([*counted, cost]):
                raise self._refusal(cost, counted)
            row["seal"] = seal_of(entries[-1].seal if entries else self.seal, row)
            marks = ", ".join(f":{name}" for name in row)
            number = file.execute(f"INSERT INTO entry ({', '.join(row)}) VALUES ({marks})", row).lastrowid
            return self._entry(dict(file.execute("SELECT * FROM entry WHERE id = ?", (number,)).fetchone()))

    def foresee(self, guarantees: Sequence[Guarantee]) -> list[Foreseen]:
        """What an account would come to that paid these one after the other, up to the first refused. Pays nothing."""
        with open_file(self.path, f"ledger {self.path} cannot be read") as file:
            entries = self._entries(file)
        counted = [entry.cost for entry in entries]
        found: list[Foreseen] = []
        for guarantee in guarantees:
            try:
                cost = self._cost(guarantee)
                self._check_unit(guarantee, entries)
                if not self._fits([*counted, cost]):
                    raise self._refusal(cost, counted)
            except SearchveilError as refusal:
                return [*found, Foreseen(basic(counted), refusal)]
            counted.append(cost)
            found.append(Foreseen(basic(counted)))
        return found

    def spent(self) -> Spent:
        with open_file(self.path, f"ledger {self.path} cannot be read") as file:
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
        if not guarantee.is_private:
            raise BudgetRefused(
                "budget refused: a release without differential privacy has no finite cost",
                parameter="ledger",
                instead="leave out " + setting("ledger"),
            )
        if guarantee.neighbours == "replace-one" and self.neighbours == "add-remove":
            other = {} if guarantee.notion == "approximate" else {"notion": "approximate"}
            raise InputError(
                f"ledger {self.path} counts add-remove, which a replace-one promise does not imply: release with "
                + settings({**other, "neighbours": "add-remove"})
                + ", or open another ledger with "
                + setting("neighbours", "replace-one", of="ledger"),
                parameter="neighbours",
                value=guarantee.neighbours,
            )
        # The notion changes first: group privacy, which converts the neighbours, is about differential privacy itself.
        counted = replace(guarantee, notion="approximate").under(self.neighbours)
        if not counted.is_private:
            raise BudgetRefused(
                f"budget refused: counted as {self.neighbours}, the release has δ = 1, which promises nothing; lower "
                "its "
                + setting("epsilon")
                + " or "
                + setting("delta")
                + ", or release with "
                + setting("neighbours", "replace-one")
            )
        if counted.neighbours == guarantee.neighbours:
            return counted
        return replace(counted, delta=min(1.0, counted.delta * (1 + 1e-15)))  # outwards: `under` rounds to nearest

    def _check_unit(self, guarantee: Guarantee, entries: list[Entry]) -> None:
        if entries and entries[0].guarantee["unit"] != guarantee.unit:
            raise InputError(
                f"ledger {self.path} counts per {entries[0].guarantee['unit']} and the release promises per "
                f"{guarantee.unit}: the two do not add up",
                parameter="ledger",
                instead=ANOTHER_FILE,
            )

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

    def _fits(self, counted: list[Guarantee]) -> bool:
        total = basic(counted)
        added = total.epsilon <= decimal(self.budget_epsilon) and total.delta <= decimal(self.budget_delta)
        if self.composition == "gaussian":
            # Only a first release may go by its (ε,δ): which rule holds is then settled before anything was seen.
            return (added and len(counted) == 1) or self._fits_gaussian(gaussian(counted))
        if added:
            return True
        return self.composition == "pld" and optimal(counted, self.budget_delta) <= self.budget_epsilon

    def _fits_gaussian(self, total: GaussianCost) -> bool:
        """Two limits that are fixed with the budget; one that grew at the cost of the other would prove nothing."""
        half = decimal(self.budget_delta) / 2
        return total.delta <= half and total.delta_at(self.budget_epsilon) <= half

    def _refusal(self, cost: Guarantee, counted: list[Guarantee]) -> BudgetRefused:
        if self.composition == "gaussian":
            return self._gaussian_refusal(gaussian([cost]), gaussian(counted), len(counted))
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

    def _gaussian_refusal(self, cost: GaussianCost, spent: GaussianCost, releases: int) -> BudgetRefused:
        half = decimal(self.budget_delta) / 2
        most = 1 / sigma_for(self.budget_epsilon, float(half))
        left, left_outside = _gaussian_left(self.budget_epsilon, self.budget_delta, spent)
        times = f"{releases} release" + "s" * (releases != 1)
        return BudgetRefused(
            f"budget refused: asked μ = {at_most(cost.mu)}, δ outside = {at_most(cost.delta)}; already spent "
            f"μ = {at_most(spent.mu)}, δ outside = {at_most(spent.delta)} in {times}; "
            f"budget μ = {at_least(most)}, δ outside = {at_least(half)}; still fits: μ ≤ {at_least(left, 5)}, "
            f"δ outside ≤ {at_least(left_outside)}"
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
        has: dict[str, Any] = {
            "budget_epsilon": self.budget_epsilon,
            "budget_delta": self.budget_delta,
            "neighbours": self.neighbours,
            "composition": self.composition,
        }
        for (name, mine), asked in zip(has.items(), (epsilon, delta, neighbours, composition), strict=True):
            if asked is not None and asked != mine:
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
            for name in ("parameters", "guarantee"):
                record[name] = json.loads(record[name])
            for name in ("epsilon", "delta"):
                record[name] = float(record[name])
        except (TypeError, ValueError) as error:
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}") from error
        if not (0 <= record["epsilon"] < inf and 0 <= record["delta"] <= 1):  # a negative cost would create budget
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}")
        if not _is_cost(record["guarantee"].get("mu", 0.0)) or not _is_cost(record["guarantee"].get("mu_delta", 0.0)):
            raise sqlite3.DatabaseError(f"malformed entry {record['id']}")
        return Entry(**record, ledger=self)

    @contextmanager
    def _transaction(self, otherwise: str) -> Iterator[sqlite3.Connection]:
        """Alone in the file from the first read to the commit, so that no two processes see the same room for both."""
        with open_file(self.path, f"ledger {self.path}: {otherwise}") as file:
            file.execute("BEGIN IMMEDIATE")
            if read_account(file, self.path) != (*self._budget, self.key, self.seal):
                raise InputError(f"ledger {self.path} was replaced by another one meanwhile; run the command again")
            yield file
            file.execute("COMMIT")


def _is_cost(number: Any) -> bool:
    return isinstance(number, int | float) and 0 <= number < inf


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


def _check_word(name: str, word: str | None, known: tuple[str, ...]) -> None:
    if word is not None and word not in known:
        said = setting(name, word, of="ledger") + f": there are {', '.join(known)}"
        raise InputError(said, parameter=name, value=word)


def _check_budget(epsilon: float | None, delta: float | None) -> None:
    if epsilon is not None and not 0 < epsilon < inf:
        said = setting("budget_epsilon") + f" must be a positive number, not {epsilon}"
        raise InputError(said, parameter="budget_epsilon", value=epsilon)
    if delta is not None and not 0 <= delta < 1:
        said = setting("budget_delta") + f" must be at least 0 and below 1, not {delta}"
        raise InputError(said, parameter="budget_delta", value=delta)


def _check_gaussian(delta: float, composition: Composition | None) -> None:
    if composition == "gaussian" and not delta:
        said = setting("composition", composition, of="ledger") + " needs a " + setting("budget_delta") + " above 0"
        raise InputError(said, parameter="budget_delta", value=delta, instead="try 1e-6")


def _gaussian_left(budget_epsilon: float, budget_delta: float, spent: GaussianCost) -> tuple[float, Fraction]:
    """The μ and the δ outside that still fit, each under its own half of the budget's δ."""
    half = decimal(budget_delta) / 2
    most = 1 / sigma_for(budget_epsilon, float(half))
    return sqrt(max(0.0, most**2 - float(spent.squared_mu))), max(Fraction(0), half - spent.delta)


def _pair(cost: Cost, rounded: Callable[[Fraction], str], relation: str = "=") -> str:
    return f"ε {relation} {rounded(cost.epsilon)}, δ {relation} {rounded(cost.delta)}"
