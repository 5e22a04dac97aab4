"""What all releases of a log may cost together: what they add up to, what is left, and what is refused.

Nothing here knows of files; ledger.py keeps what was paid.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, sqrt
from typing import Any, get_args

from searchveil.errors import BudgetRefused, InputError, SearchveilError, setting, settings
from searchveil.privacy.composition import Composition, Cost, GaussianCost, basic, decimal, gaussian, optimal
from searchveil.privacy.gaussian import sigma_for
from searchveil.privacy.guarantee import Guarantee, Neighbours, Notion
from searchveil.privacy.rounding import at_least, at_most

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
ANOTHER_FILE = "name another " + setting("ledger") + " file"


@dataclass(frozen=True)
class Foreseen:
    """The sums of an account after a release that is only planned; `refusal` says why it would not be paid."""

    total: Cost
    refusal: SearchveilError | None = None


@dataclass(frozen=True)
class Budget:
    """The ε and δ that a log may spend in all, about which neighbours, and the rule by which costs add up.

    `paid` is what earlier releases cost, as `cost_of` counts it.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = "add-remove"
    composition: Composition = "basic"

    def __post_init__(self) -> None:
        check(vars(self))
        if self.composition == "gaussian" and not self.delta:
            needs = setting("composition", "gaussian", of="ledger") + " needs a " + setting("budget_delta") + " above 0"
            raise InputError(needs, parameter="budget_delta", value=self.delta, instead="try 1e-6")

    def cost_of(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee as it is counted: (ε,δ)-differential privacy under the budget's neighbours."""
        if not guarantee.is_private:
            raise BudgetRefused(
                "budget refused: a release without differential privacy has no finite cost",
                parameter="ledger",
                instead="leave out " + setting("ledger"),
            )
        if guarantee.neighbours == "replace-one" and self.neighbours == "add-remove":
            other = {} if guarantee.notion == "approximate" else {"notion": "approximate"}
            raise InputError(
                "the ledger counts add-remove, which a replace-one promise does not imply: release with "
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

    def check_unit(self, cost: Guarantee, paid: Sequence[Guarantee]) -> None:
        """Refuse to add up promises about users and about sessions."""
        if paid and paid[0].unit != cost.unit:
            raise InputError(
                f"the ledger counts per {paid[0].unit} and the release promises per {cost.unit}: the two do not add up",
                parameter="ledger",
                instead=ANOTHER_FILE,
            )

    def check_fits(self, cost: Guarantee, paid: Sequence[Guarantee]) -> None:
        """Refuse what this budget has not left."""
        if not self._fits([*paid, cost]):
            raise self._refusal(cost, paid)

    def foresee(self, guarantees: Sequence[Guarantee], paid: Sequence[Guarantee]) -> list[Foreseen]:
        """What an account would come to that paid these one after the other, up to the first refused."""
        counted, found = list(paid), list[Foreseen]()
        for guarantee in guarantees:
            try:
                cost = self.cost_of(guarantee)
                self.check_unit(cost, counted)
                self.check_fits(cost, counted)
            except SearchveilError as refusal:
                return [*found, Foreseen(basic(counted), refusal)]
            counted.append(cost)
            found.append(Foreseen(basic(counted)))
        return found

    def left(self, paid: Sequence[Guarantee]) -> str:
        """What the next release may cost, rounded down."""
        if self.composition == "gaussian":
            mu, delta = self._gaussian_left(gaussian(paid))
            return f"μ ≤ {at_least(mu, 5)}, δ outside ≤ {at_least(delta)}"
        left = _pair(self._left_by_sums(basic(paid)), at_least, "≤")
        return f"{left}, and more as far as the optimal composition admits" if self.composition == "pld" else left

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"rule": COMPOSITION_IN_WORDS[self.composition]}

    def _fits(self, counted: Sequence[Guarantee]) -> bool:
        total = basic(counted)
        added = total.epsilon <= decimal(self.epsilon) and total.delta <= decimal(self.delta)
        if self.composition == "gaussian":
            # Only a first release may go by its (ε,δ): which rule holds is then settled before anything was seen.
            return (added and len(counted) == 1) or self._fits_gaussian(gaussian(counted))
        if added:
            return True
        return self.composition == "pld" and optimal(counted, self.delta) <= self.epsilon

    def _fits_gaussian(self, total: GaussianCost) -> bool:
        """Two limits that are fixed with the budget; one that grew at the cost of the other would prove nothing."""
        half = decimal(self.delta) / 2
        return total.delta <= half and total.delta_at(self.epsilon) <= half

    def _refusal(self, cost: Guarantee, paid: Sequence[Guarantee]) -> BudgetRefused:
        releases = f"{len(paid)} release" + "s" * (len(paid) != 1)
        if self.composition == "gaussian":
            return self._gaussian_refusal(gaussian([cost]), gaussian(paid), releases)
        budget, spent = Cost(decimal(self.epsilon), decimal(self.delta)), basic(paid)
        if self.composition == "basic":
            fits = _pair(self._left_by_sums(spent), at_least, "≤")
        else:
            fits = f"ε ≤ {at_least(self._largest_epsilon(cost, paid))} at the δ asked"
        return BudgetRefused(
            f"budget refused: asked {_pair(basic([cost]), at_most)}; already spent {_pair(spent, at_most)} "
            f"in {releases}; budget {_pair(budget, at_least)}; still fits: {fits}"
        )

    def _gaussian_refusal(self, cost: GaussianCost, spent: GaussianCost, releases: str) -> BudgetRefused:
        half = decimal(self.delta) / 2
        most = 1 / sigma_for(self.epsilon, float(half))
        left, left_outside = self._gaussian_left(spent)
        return BudgetRefused(
            f"budget refused: asked μ = {at_most(cost.mu)}, δ outside = {at_most(cost.delta)}; already spent "
            f"μ = {at_most(spent.mu)}, δ outside = {at_most(spent.delta)} in {releases}; "
            f"budget μ = {at_least(most)}, δ outside = {at_least(half)}; still fits: μ ≤ {at_least(left, 5)}, "
            f"δ outside ≤ {at_least(left_outside)}"
        )

    def _left_by_sums(self, spent: Cost) -> Cost:
        epsilon, delta = decimal(self.epsilon) - spent.epsilon, decimal(self.delta) - spent.delta
        return Cost(max(Fraction(0), epsilon), max(Fraction(0), delta))

    def _gaussian_left(self, spent: GaussianCost) -> tuple[float, Fraction]:
        """The μ and the δ outside that still fit, each under its own half of the budget's δ."""
        half = decimal(self.delta) / 2
        most = 1 / sigma_for(self.epsilon, float(half))
        return sqrt(max(0.0, most**2 - float(spent.squared_mu))), max(Fraction(0), half - spent.delta)

    def _largest_epsilon(self, cost: Guarantee, paid: Sequence[Guarantee]) -> Fraction:
        """By bisection, to six digits: how large an ε the optimal composition would still admit at the δ asked."""
        low, high = 0.0, self.epsilon
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if self._fits([*paid, replace(cost, epsilon=middle)]) else (low, middle)
        return decimal(low)


def named(part: str) -> str:
    """How somebody who opens a ledger calls this part of its budget."""
    return f"budget_{part}" if part in ("epsilon", "delta") else part


def check(given: Mapping[str, Any]) -> None:
    """Refuse parts of a budget that no budget can have."""
    epsilon, delta = given.get("epsilon"), given.get("delta")
    if epsilon is not None and not 0 < epsilon < inf:
        said = setting("budget_epsilon") + f" must be a positive number, not {epsilon}"
        raise InputError(said, parameter="budget_epsilon", value=epsilon)
    if delta is not None and not 0 <= delta < 1:
        said = setting("budget_delta") + f" must be at least 0 and below 1, not {delta}"
        raise InputError(said, parameter="budget_delta", value=delta)
    for name, known in (("neighbours", get_args(Neighbours)), ("composition", get_args(Composition))):
        word = given.get(name)
        if word is not None and word not in known:
            said = setting(name, word, of="ledger") + f": there are {', '.join(known)}"
            raise InputError(said, parameter=name, value=word)


def _pair(cost: Cost, rounded: Callable[[Fraction], str], relation: str = "=") -> str:
    return f"ε {relation} {rounded(cost.epsilon)}, δ {relation} {rounded(cost.delta)}"
