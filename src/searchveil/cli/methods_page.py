"""The methods as a list, as JSON for whoever builds a form, and as the page docs/methods.md."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from searchveil.cli.methods import choices_of, limits_of, summary_of
from searchveil.cli.wording import on_command_line, option_of
from searchveil.errors import settings
from searchveil.privacy.guarantee import Notion
from searchveil.publish import METHODS, build, method_named
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import IN_WORDS, Parameter, parameters_of

PROMISES: dict[Notion, str] = {
    "approximate": "(ε, δ)-differential privacy",
    "probabilistic": "probabilistic differential privacy",
    "indistinguishable": "indistinguishability",
    "sampling-step": "differential privacy of the sampling step alone",
    "conditional": "differential privacy given what an unprotected filter leaves",
    "none": "no differential privacy",
}
REWRITE = "searchveil methods --markdown > docs/methods.md"


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


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The methods and their parameters"
    yield ""
    yield f"Made by `{REWRITE}` from what the mechanisms declare; do not edit it by hand."
    yield "[Guarantees and proofs](guarantees.md) says what the promises mean."
    yield "Python and experiment files call a parameter by its name here; the command line by its option."
    for one in described():
        yield from ("", f"## {one.method}", "", one.summary, "", f"Privacy: {one.promise}.", f"[Why]({one.proof}).", "")
        example = settings(one.mechanism.example).written(on_command_line)
        yield from ("```text", f"searchveil release log.tsv --method {one.method} {example} --out release")
        yield from (f"searchveil.method({str(build(one.method, one.mechanism.example))!r})", "```", "")
        yield "| parameter | option | symbol | type | default | meaning |"
        yield "|---|---|---|---|---|---|"
        yield from (_row(parameter) for parameter in parameters_of(one.mechanism))


def _row(one: Parameter) -> str:
    default = "needed" if one.required else "no" if one.default is False else one.default
    kind = ", ".join(filter(None, [IN_WORDS[one.kind], limits_of(one)]))
    meaning = f"{one.declared.help} {choices_of(one)}." if one.choices else one.declared.help
    cells = (f"`{one.name}`", f"`{option_of(one.name)}`", one.declared.symbol, kind, default, meaning)
    shown = ["" if cell in (None, ()) else str(cell).replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(shown)} |"
