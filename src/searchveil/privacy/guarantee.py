"""The promise a release carries, as a record a machine can compose and a sentence a person can read."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import exp, inf, isinf
from typing import Any, Literal, get_args

from searchveil.errors import InputError
from searchveil.privacy.rounding import at_most

# A "sampling-step" is private with the rest taken as public, a "conditional" release given what nothing protects.
Notion = Literal["approximate", "probabilistic", "indistinguishable", "sampling-step", "conditional", "none"]
Neighbours = Literal["add-remove", "replace-one"]
Relation = Literal["add-remove", "replace-one", "remove"]
Unit = Literal["user", "session", "visit", "cookie", "device", "user-day", "address-and-agent", "address"]
# Who holds searches in the clear: the publisher all of them, each of several parties those of its own users, a server
# those that many people share, or nobody.
Trust = Literal["central", "parties", "server", "nobody"]

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
TRUST_IN_WORDS: dict[Trust, str] = {
    "central": "the publisher holds the whole log and is trusted with it",
    "parties": "each party holds the searches of its own users and is trusted with these alone",
    "server": "a server sees those searches that many {unit}s share, and is trusted with them and with the noise",
    "nobody": "nobody but the {unit} holds the searches of a {unit}, and nobody is trusted with them",
}


@dataclass(frozen=True)
class Guarantee:
    """What holds for the code as written; `proof` names the page or section of docs/guarantees/.

    A notion, unit, relation or trust model that is not known is refused, and so are numbers out of range: ε is finite,
    except that "none" has ε = ∞ and δ = 1. Any notion with δ = 1 promises nothing, and is not private.

    >>> print(sv.Guarantee("approximate", 1.0, 1e-6, proof="docs/guarantees/zealous.md"))
    The release is (1, 1e-06)-differentially private: adding or removing one user's whole history changes ...
    """

    notion: Notion
    epsilon: float
    delta: float
    proof: str
    unit: str = "user"
    neighbours: Relation = "add-remove"
    assumed_public: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    trust: Trust = "central"
    # Where known: μ-Gaussian differential privacy outside of an event of probability `mu_delta` (docs/guarantees.md,
    # Composition), under the same neighbours. It is not a second promise: a ledger composes it more tightly.
    mu: float | None = None
    mu_delta: float = 0.0

    def __post_init__(self) -> None:
        for name, known in (("notion", Notion), ("unit", Unit), ("neighbours", Relation), ("trust", Trust)):
            if getattr(self, name) not in get_args(known):
                raise InputError(
                    f"a guarantee has no {name} '{getattr(self, name)}'; there are {', '.join(get_args(known))}"
                )
        self._check_numbers()
        texts = (self.proof, *self.assumed_public, *self.unprotected, *self.caveats)
        if not all(isinstance(text, str) for text in texts):
            raise InputError("the proof, the facts and the caveats of a guarantee are texts")

    def _check_numbers(self) -> None:
        for name in ("epsilon", "delta", "mu_delta", *(["mu"] if self.mu is not None else [])):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, int | float):
                raise InputError(f"the {name} of a guarantee must be a number, not {value!r}")
        if not (0 <= (self.mu or 0.0) < inf and 0 <= self.mu_delta <= 1):
            raise InputError(f"a guarantee needs a finite mu of at least 0, not {self.mu}, and a mu_delta up to 1")
        if self.notion == "none":
            if (self.epsilon, self.delta) != (inf, 1):
                raise InputError(
                    f"a guarantee of the notion none has an infinite epsilon and delta 1, not {self.epsilon:g} and "
                    f"{self.delta:g}; use Guarantee.no_differential_privacy"
                )
        elif not (0 <= self.epsilon < inf and 0 <= self.delta <= 1):
            raise InputError(
                "a guarantee needs a finite epsilon of at least 0 and a delta between 0 and 1, not "
                f"{self.epsilon:g} and {self.delta:g}; for what promises nothing use Guarantee.no_differential_privacy"
            )

    @classmethod
    def no_differential_privacy(cls, proof: str, caveats: tuple[str, ...]) -> "Guarantee":
        return cls("none", inf, 1.0, proof, caveats=caveats)

    @property
    def is_private(self) -> bool:
        """Whether it is about the whole release; one about a step, with the rest taken as public, is not."""
        return self.notion in NOTION_IN_WORDS and self.delta < 1

    @property
    def most_often_right(self) -> float:
        """How often somebody tells two neighbouring logs apart, at most, of which each was as likely before.

        Whoever knows everything but one user's history, and sees the release. Proof: docs/guarantees.md, What an
        attacker can tell. 1 where nothing is promised about the whole release.
        """
        if not self.is_private or self.neighbours == "remove":
            return 1.0
        unlikely = exp(-self.epsilon)
        right = (1 + self.delta * unlikely) / (1 + unlikely)
        return min(1.0, right * (1 + 1e-15))  # outwards: the figures above are rounded to nearest

    @property
    def neighbours_in_words(self) -> str:
        """How neighbouring logs differ."""
        return NEIGHBOURS_IN_WORDS[self.neighbours].format(unit=self.unit)

    @property
    def trust_in_words(self) -> str:
        """Who is trusted with what."""
        return TRUST_IN_WORDS[self.trust].format(unit=self.unit)

    def under(self, neighbours: Neighbours) -> "Guarantee":
        """The same release seen under another neighbour relation.

        Replacing a user is one removal and one addition, so group privacy for two steps applies; where its δ reaches 1,
        nothing is promised. The reverse does not follow from (ε,δ) alone; a mechanism that can prove it has to be asked
        for `neighbours="add-remove"`.
        """
        if neighbours == self.neighbours or not self.is_private:
            return self
        if self.neighbours != "add-remove":
            raise ValueError(f"a {self.neighbours} guarantee does not imply an {neighbours} one")
        delta = min(1.0, (1 + exp(self.epsilon)) * self.delta)
        return replace(self, neighbours=neighbours, epsilon=2 * self.epsilon, delta=delta, mu=None, mu_delta=0.0)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Guarantee":
        """What `to_json` wrote, also before there was a trust model (it was central) or a μ; else an InputError."""
        names = [field.name for field in fields(cls)]
        if not isinstance(record, Mapping) or not set(names) - {"trust", "mu", "mu_delta"} <= set(record) <= set(names):
            raise InputError(f"a guarantee has the fields {', '.join(names)}")
        known = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
        return cls(**known | {"epsilon": inf if known["epsilon"] is None else known["epsilon"]})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite ε becomes null, because JSON has no infinity. No `mu` where none is known."""
        record = asdict(self)
        if self.mu is None:
            del record["mu"], record["mu_delta"]
        record["epsilon"] = None if isinf(self.epsilon) else self.epsilon
        return {key: list(value) if isinstance(value, tuple) else value for key, value in record.items()}

    def __str__(self) -> str:
        if self.is_private:
            sentence = (
                f"The release is ({at_most(self.epsilon)}, {at_most(self.delta)})-{NOTION_IN_WORDS[self.notion]}: "
                f"{self.neighbours_in_words} changes what may be published by no more than that."
            )
        else:
            vacuous = ["Its δ is 1, which promises nothing."] if self.notion in NOTION_IN_WORDS else []
            sentence = " ".join(["This release is NOT differentially private.", *vacuous, *self.caveats])
        if self.assumed_public:
            sentence += " Taken as public: " + "; ".join(self.assumed_public) + "."
        if self.unprotected:
            sentence += " Not protected: " + "; ".join(self.unprotected) + "."
        if self.trust != "central":
            sentence += f" Trusted: {self.trust_in_words}."
        return sentence
