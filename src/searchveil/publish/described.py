"""The methods in words: what each does and promises, for a list, a page or a form."""

import inspect
from dataclasses import dataclass
from typing import Any

from searchveil.privacy.guarantee import Notion
from searchveil.publish import METHODS, build, method_named
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import parameters_of

PROMISES: dict[Notion, str] = {
    "approximate": "(ε, δ)-differential privacy",
    "probabilistic": "probabilistic differential privacy",
    "indistinguishable": "indistinguishability",
    "sampling-step": "differential privacy of the sampling step alone",
    "conditional": "differential privacy given what an unprotected filter leaves",
    "none": "no differential privacy",
}


def summary_of(mechanism: type[Mechanism]) -> str:
    """The first sentence of its documentation, on one line."""
    return inspect.cleandoc(mechanism.__doc__ or "").partition("\n\n")[0].replace("\n", " ").replace("`", "")


@dataclass(frozen=True)
class Described:
    method: str
    mechanism: type[Mechanism]

    @property
    def summary(self) -> str:
        return summary_of(self.mechanism)

    @property
    def proof(self) -> str:
        """The page of its usual promise, relative to docs/."""
        usual = build(self.method, self.mechanism.example).plan()
        return usual.guarantee.proof.partition("#")[0].removeprefix("docs/")

    @property
    def promise(self) -> str:
        usual, *others = (PROMISES[notion] for notion in self.mechanism.notions)
        return usual + (f"; with other parameters {' or '.join(others)}" if others else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "summary": self.summary,
            "notions": list(self.mechanism.notions),
            "example": dict(self.mechanism.example),
            "parameters": [one.to_json() for one in parameters_of(self.mechanism)],
        }


def described() -> list[Described]:
    return [Described(name, method_named(name)) for name in METHODS]
