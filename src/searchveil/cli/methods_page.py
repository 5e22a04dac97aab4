"""The methods as the page docs/methods.md."""

from collections.abc import Iterator

from searchveil.errors import settings
from searchveil.publish import build
from searchveil.publish.described import described
from searchveil.publish.parameters import IN_WORDS, Parameter, parameters_of
from searchveil.wording import on_command_line, option_of

REWRITE = "searchveil methods --markdown > docs/methods.md"


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
    kind = ", ".join(filter(None, [IN_WORDS[one.kind], one.limits]))
    meaning = f"{one.declared.help} {one.choices_in_words}." if one.choices else one.declared.help
    cells = (f"`{one.name}`", f"`{option_of(one.name)}`", one.declared.symbol, kind, default, meaning)
    shown = ["" if cell in (None, ()) else str(cell).replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(shown)} |"
