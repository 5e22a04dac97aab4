"""The promise a release carries, as a record a machine can compose and a sentence a person can read."""

from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import Any, Literal

from searchveil.privacy.rounding import at_most

# A "sampling-step" is private with the rest taken as public, a "conditional" release given what nothing protects.
Notion = Literal["approximate", "probabilistic", "indistinguishable", "sampling-step", "conditional", "none"]
Neighbours = Literal["add-remove", "replace-one"]
Relation = Literal["add-remove", "replace-one", "remove"]

NOTION_IN_WORDS = {  # those that are about the whole release
    "approximate": "differentially private",
    "probabilistic": "probabilistically differentially private",
    "indistinguishable": "indistinguishable (the same inequality as differential privacy)",
}
NEIGHBOURS_IN_WORDS = {
    "add-remove": "adding or removing one {unit}'s whole history",
    "replace-one": "replacing one {unit}'s whole history by any other",
    "remove": "removing one {unit} that is in the log",
}


@dataclass(frozen=True)
class Guarantee:
    """What holds for the code as written; `proof` names the section of docs/guarantees.md."""

    notion: Notion
    epsilon: float
    delta: float
    proof: str
    unit: str = "user"
    neighbours: Relation = "add-remove"
    assumed_public: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    @classmethod
    def no_differential_privacy(cls, proof: str, caveats: tuple[str, ...]) -> "Guarantee":
        return cls("none", inf, 1.0, proof, caveats=caveats)

    @property
    def is_private(self) -> bool:
        """Whether it is about the whole release; one about a step, with the rest taken as public, is not."""
        return self.notion in NOTION_IN_WORDS

    @property
    def neighbours_in_words(self) -> str:
        """How neighbouring logs differ."""
        return NEIGHBOURS_IN_WORDS[self.neighbours].format(unit=self.unit)

    def under(self, neighbours: Neighbours) -> "Guarantee":
        """The same release seen under another neighbour relation.

        Replacing a user is one removal and one addition, so group privacy for two steps applies. The reverse does not
        follow from (ε,δ) alone; a mechanism that can prove it has to be asked for `neighbours="add-remove"`.
        """
        if neighbours == self.neighbours or not self.is_private:
            return self
        if self.neighbours != "add-remove":
            raise ValueError(f"a {self.neighbours} guarantee does not imply an {neighbours} one")
        from dataclasses import replace
        from math import exp

        return replace(
            self,
            neighbours=neighbours,
            epsilon=2 * self.epsilon,
            delta=min(1.0, (1 + exp(self.epsilon)) * self.delta),
        )

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Guarantee":
        """What `to_json` wrote; KeyError, TypeError or ValueError where it is something else."""
        known: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in record.items()}
        known["epsilon"] = inf if known["epsilon"] is None else float(known["epsilon"])
        return cls(**known)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite ε becomes null, because JSON has no infinity."""
        record = asdict(self)
        record["epsilon"] = None if isinf(self.epsilon) else self.epsilon
        return {key: list(value) if isinstance(value, tuple) else value for key, value in record.items()}

    def __str__(self) -> str:
        if self.is_private:
            sentence = (
                f"The release is ({at_most(self.epsilon)}, {at_most(self.delta)})-{NOTION_IN_WORDS[self.notion]}: "
                f"{self.neighbours_in_words} changes what may be published by no more than that."
            )
        else:
            sentence = " ".join(["This release is NOT differentially private.", *self.caveats])
        if self.assumed_public:
            sentence += " Taken as public: " + "; ".join(self.assumed_public) + "."
        if self.unprotected:
            sentence += " Not protected: " + "; ".join(self.unprotected) + "."
        return sentence
