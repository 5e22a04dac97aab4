"""The promise a release carries, as a record a machine can compose and a sentence a person can read."""

from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import Any, Literal

Notion = Literal["approximate", "probabilistic", "indistinguishable", "sampling-step", "none"]
Neighbours = Literal["add-remove", "replace-one"]

NOTION_IN_WORDS = {
    "approximate": "differentially private",
    "probabilistic": "probabilistically differentially private",
    "indistinguishable": "indistinguishable (the same inequality as differential privacy)",
}
NEIGHBOURS_IN_WORDS = {
    "add-remove": "adding or removing one user's whole history",
    "replace-one": "replacing one user's whole history by any other",
}


@dataclass(frozen=True)
class Guarantee:
    """What holds for the code as written; `proof` names the section of docs/guarantees.md."""

    notion: Notion
    epsilon: float
    delta: float
    proof: str
    unit: str = "user"
    neighbours: Neighbours = "add-remove"
    assumed_public: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    @classmethod
    def no_differential_privacy(cls, proof: str, caveats: tuple[str, ...]) -> "Guarantee":
        return cls("none", inf, 1.0, proof, caveats=caveats)

    @property
    def is_private(self) -> bool:
        """Whether it is about the whole release; one about a step, with the rest taken as public, is not."""
        return self.notion not in ("none", "sampling-step")

    def under(self, neighbours: Neighbours) -> "Guarantee":
        """The same release seen under another neighbour relation.

        Replacing a user is one removal and one addition, so group privacy for two steps applies. The reverse does not
        follow from (ε,δ) alone; a mechanism that can prove it has to be asked for `neighbours="add-remove"`.
        """
        if neighbours == self.neighbours or not self.is_private:
            return self
        if self.neighbours == "replace-one":
            raise ValueError("a replace-one guarantee does not imply an add-remove one")
        from dataclasses import replace
        from math import exp

        return replace(
            self,
            neighbours=neighbours,
            epsilon=2 * self.epsilon,
            delta=min(1.0, (1 + exp(self.epsilon)) * self.delta),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite ε becomes null, because JSON has no infinity."""
        record = asdict(self)
        record["epsilon"] = None if isinf(self.epsilon) else self.epsilon
        return {key: list(value) if isinstance(value, tuple) else value for key, value in record.items()}

    def __str__(self) -> str:
        if not self.is_private:
            sentence = "This release is NOT differentially private. " + " ".join(self.caveats)
            return " ".join([sentence, *(f"Not protected: {fact}." for fact in self.unprotected)])
        sentence = (
            f"The release is ({self.epsilon:.6g}, {self.delta:.6g})-{NOTION_IN_WORDS[self.notion]}: "
            f"{NEIGHBOURS_IN_WORDS[self.neighbours]} changes what may be published by no more than that."
        )
        if self.assumed_public:
            sentence += " Taken as public: " + "; ".join(self.assumed_public) + "."
        if self.unprotected:
            sentence += " Not protected: " + "; ".join(self.unprotected) + "."
        return sentence
