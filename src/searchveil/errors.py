"""How searchveil says no: what is wrong, with which parameter, and what to do instead; and Ctrl-C.

The library speaks of parameters. Who shows a message decides how they are written: Python as `per_user=5`, the command
line as `--per-user 5`, an experiment file as `per_user = 5`; a web page can mark the field.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn


def printable(text: str) -> str:
    """Text as a terminal may be given it: names in files may hold codes that rewrite what it shows."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class Blank(str):
    """A word that stands for a value of the reader's own, as N or FILE: never quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Setting:
    """A parameter as a message names it, perhaps with a value. `of` says whose it is where the name does not tell."""

    name: str
    value: Any = None
    of: str = ""


@dataclass(frozen=True)
class Settings:
    """Several that belong together."""

    of: tuple[Setting, ...]


@dataclass(frozen=True)
class Command:
    """A command to type in a shell; its options are written as such everywhere."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Style:
    """How parameters are written, and what stands between several."""

    write: Callable[[Setting], str]
    between: str


Part = str | Setting | Settings | Command


@dataclass(frozen=True)
class Text:
    """A message that is still in parts. Put together with +, never with an f-string: that would fix its style."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: "str | Text") -> "Text":
        return text if isinstance(text, Text) else cls((text,))

    def __add__(self, after: "str | Text") -> "Text":
        return Text(self.parts + Text.of(after).parts)

    def __radd__(self, before: str) -> "Text":
        return Text((before, *self.parts))

    def __format__(self, how: str) -> NoReturn:
        raise TypeError("a Text is added to others, not formatted")

    def written(self, style: Style) -> str:
        return "".join(_written(part, style) for part in self.parts)


def _written(part: Part, style: Style) -> str:
    if isinstance(part, Command):
        return " ".join([f"searchveil {part.name}", *(as_option(name, value) for name, value in part.options.items())])
    if isinstance(part, Settings):
        return style.between.join(map(style.write, part.of))
    return style.write(part) if isinstance(part, Setting) else part


def setting(name: str, value: Any = None, *, of: str = "") -> Text:
    return Text((Setting(name, value, of),))


def settings(given: Mapping[str, Any]) -> Text:
    return Text((Settings(tuple(Setting(name, value) for name, value in given.items())),))


def command(name: str, **options: Any) -> Text:
    return Text((Command(name, options),))


def as_option(name: str, value: Any = None) -> str:
    """`--name value`; a flag has no value, and what is a table of names is written once for each."""
    option = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return option
    if isinstance(value, Mapping):
        return " ".join(f"{option} {key}={one}" for key, one in value.items())
    return f"{option} {shortest(value) if isinstance(value, float) else value}"


def shortest(number: float) -> str:
    """As people type it, and still the very same float: 1e-6, not 1e-06; 1, not 1.0."""
    return repr(float(number)).removesuffix(".0").replace("e-0", "e-")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, float):
        return shortest(value)
    return str(value) if isinstance(value, Blank) else json.dumps(value, ensure_ascii=False, default=str)


in_python = Style(lambda part: part.name if part.value is None else f"{part.name}={part.value!r}", ", ")
in_toml = Style(lambda part: part.name if part.value is None else f"{part.name} = {_toml(part.value)}", ", ")


class SearchveilError(Exception):
    """`parameter` and `value` say which input is meant, if one is; `problem` what is wrong; `instead` what to do.

    >>> sv.SearchveilError("no such file", instead="name another").instead is not None
    True
    """

    exit_code = 2

    def __init__(
        self,
        problem: str | Text,
        *,
        parameter: str | None = None,
        value: Any = None,
        instead: str | Text | None = None,
    ) -> None:
        self.problem = Text.of(problem)
        self.parameter = parameter
        self.value = value
        self.instead = None if instead is None else Text.of(instead)
        super().__init__(self.written(in_python))

    @property
    def text(self) -> Text:
        """The whole message, in parts."""
        return self.problem if self.instead is None else self.problem + "; " + self.instead

    def written(self, style: Style) -> str:
        return printable(self.text.written(style))


class InputError(SearchveilError):
    """The input or a parameter is wrong; the message says what, where, and what to do instead.

    >>> sv.Weighted(epsilon=-1, delta=1e-6)
    Traceback (most recent call last):
        ...
    searchveil.errors.InputError: epsilon must be ...
    """


class BudgetRefused(SearchveilError):  # noqa: N818 (refusing is a normal outcome)
    """The ledger's budget does not cover the release; nothing was computed or written.

    >>> ledger = sv.Ledger.open(folder / "small.sqlite", budget_epsilon=0.5, budget_delta=1e-6)
    >>> sv.Zealous(epsilon=1, delta=1e-6).release(log, ledger=ledger)
    Traceback (most recent call last):
        ...
    searchveil.errors.BudgetRefused: budget refused: asked ε = 1, δ = 1e-06; ...
    """

    exit_code = 3


def was_interrupted(problem: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C: DuckDB passes it on as an error of its own, or of a function of ours in it."""
    return str(problem) == "Query interrupted" or "KeyboardInterrupt" in str(problem)
