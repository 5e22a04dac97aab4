"""Commands whose options depend on the method: they are made of what the method declares, when it is known.

Without a method, help shows what all methods share and loads none of them.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main

from searchveil.cli.options import Group, assumption_of, unfold
from searchveil.cli.options import example as in_help
from searchveil.errors import InputError, settings
from searchveil.publish import DEFAULT_METHOD, METHODS, build, method_named, no_such_parameter
from searchveil.wording import on_command_line, option_of

if TYPE_CHECKING:
    from searchveil.privacy.calibrate import Assumption
    from searchveil.publish.mechanism import Mechanism
    from searchveil.publish.parameters import Parameter

METAVARS = {"number": "NUMBER", "integer": "NUMBER", "choice": "WORD", "item": "WORD", "table": "FILE", "pool": "FILE"}


def _extra(kind: Any, help: str, *names: str) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, rich_help_panel="Beside the parameters of the method")]


Extras = Mapping[str, Mapping[str, Any]]  # options of a method that are no parameters of it: method → name → type
ASSUMED = (
    "users=N and, unless it is like web search, exponent=X (the k-th most common item is searched in proportion to "
    "k^-exponent), tail=X (the same from rank 5,000 on), items=N, alone=X (the part of a user's items that nobody else "
    "has), held=N (items of a user, on average) and spread=X (standard deviation of the logarithm of that)."
)
EVERYWHERE: Extras = {
    "zealous": {"assume": _extra(str | None, f"A public guess at the log, for `--per-user auto`: {ASSUMED}")}
}
OF_PLAN: Extras = {
    "zealous": {"assume": _extra(str | None, f"A public guess at the log, which tells how much to expect: {ASSUMED}")},
    "weighted": {"assume": _extra(str | None, f"A public guess at the log, which tells how much to expect: {ASSUMED}")},
    "votes": {"assume": _extra(str | None, f"A public guess at the log, which tells how much to expect: {ASSUMED}")},
    "sampling": {
        "wanted_size": _extra(float | None, "Look for the smallest δ for so many tuples."),
        "wanted_recall": _extra(float | None, "Look for the smallest δ for this share of the frequent pairs."),
    },
    "safelog-click": {"recommend": _extra(bool, "Good settings for the wanted ε and queries per user.", "--recommend")},
}


@dataclass
class MethodOptions:
    """How to publish: the texts that were given for the method's parameters, and what else was said about it."""

    method: str
    given: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def wanted(self) -> dict[str, float]:
        """What is wanted of the output, where δ is to be looked for."""
        return {name: value for name, value in self.extras.items() if name.startswith("wanted_")}

    def assumption(self, users: int | None = None) -> "Assumption | None":
        text = self.extras.get("assume")
        return None if text is None else assumption_of(text, users or self.given.get("users"))

    def build(self, assumption: "Assumption | None") -> "Mechanism":
        if self.method != "zealous" or self.given.get("per_user") != "auto":
            return build(self.method, self.given)
        from searchveil.privacy.calibrate import best_per_user
        from searchveil.publish.zealous import Zealous

        if assumption is None:
            raise InputError("--per-user auto needs a public guess; add --assume users=N (see --help)")
        mechanism = build(self.method, {name: text for name, text in self.given.items() if name != "per_user"})
        assert isinstance(mechanism, Zealous)
        assert mechanism.neighbours is not None
        best = best_per_user(mechanism.epsilon, mechanism.delta, assumption, mechanism.neighbours)
        return replace(mechanism, per_user=best)


@dataclass(frozen=True)
class MethodGroup(Group):
    """The options of one method; of none in particular, the name of the method alone."""

    method: str | None
    extras: Extras
    taken: Sequence[str]  # names of the command's own options, which come first

    def options(self) -> Iterator[inspect.Parameter]:
        listed = ", ".join(METHODS)
        about = typer.Option(help=f"One of {listed}.", rich_help_panel="The method", metavar="METHOD")
        yield _keyword("method", Annotated[str, about], DEFAULT_METHOD)
        for one in self._declared():
            yield _keyword(
                one.name, Annotated[_text_type(one), _option(one, f"The method {self.method}")], _unset_value(one)
            )
        for name, annotation in self.extras.get(self.method or "", {}).items():
            yield _keyword(name, annotation, False if annotation.__origin__ is bool else None)

    def collect(self, given: dict[str, Any]) -> MethodOptions:
        def said(names: Sequence[str]) -> dict[str, Any]:
            found = {name: given.pop(name) for name in names}
            return {name: value for name, value in found.items() if not _is_unset(value)}

        parameters = said([one.name for one in self._declared()])
        extras = said(list(self.extras.get(self.method or "", {})))
        return MethodOptions(given.pop("method"), parameters, extras)

    def _declared(self) -> "list[Parameter]":
        if self.method is None:
            return []
        from searchveil.publish.parameters import parameters_of

        return [one for one in parameters_of(method_named(self.method)) if one.name not in self.taken]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _unset_value(one: "Parameter") -> bool | None:
    return False if one.kind == "flag" else None


def _is_unset(value: Any) -> bool:
    """Left out, as a flag, a list and everything else are; zero is a value."""
    return value is None or value is False or value in ([], ())


def _text_type(one: "Parameter") -> Any:
    """Texts become values in one place, which is not here."""
    return bool if one.kind == "flag" else (list[str] | None) if one.kind == "texts" else (str | None)


def _option(one: "Parameter", panel: str) -> Any:
    return typer.Option(
        option_of(one.name),
        help=in_one_line(one),
        metavar=None if one.kind == "flag" else METAVARS.get(one.kind, "TEXT"),
        show_default=False,
        rich_help_panel=panel,
    )


def in_one_line(one: "Parameter") -> str:
    """All that is declared of a parameter."""
    about = [
        one.declared.help.rstrip("."),
        one.choices_in_words,
        one.limits.capitalize(),
        one.declared.symbol and f"Symbol {one.declared.symbol}",
        "Needed" if one.required else "",
        "" if _is_unset(one.default) else f"Default {one.default}",
    ]
    return ". ".join(filter(None, about)) + "."


def method_command(
    app: typer.Typer,
    example: str,
    of_method: str | None = None,
    extras: Extras = EVERYWHERE,
    with_effect: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command that takes `MethodOptions`.

    `example` stands in its help; `of_method` in that of a method, {} being the method with parameters to try, and
    `with_effect` what is worth adding for some methods and changes nothing for others.
    """

    def register(command: Callable[..., None]) -> Callable[..., None]:
        name, about = command.__name__, inspect.cleandoc(command.__doc__ or "")
        taken = [parameter for parameter in inspect.signature(command).parameters if parameter != "how"]

        def signature(method: str | None) -> Callable[..., None]:
            return unfold(command, {MethodOptions: MethodGroup(method, extras, taken)})

        def of(method: str) -> Any:
            """The command with the method's own options, made by typer as any other."""
            from searchveil.publish.described import summary_of

            mechanism = method_named(method)
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
            line = example
            if of_method is not None:
                line = of_method.format(f"--method {method} {settings(mechanism.example).written(on_command_line)}")
                line += with_effect.get(method, "")
            single.command(name, help=f"{about}\n\n{method}: {summary_of(mechanism)}", epilog=in_help(line))(
                signature(method)
            )
            return typer.main.get_command(single)

        class OfMethod(typer.core.TyperCommand):
            def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
                method = method_in(args)
                if method is None and _asks_for_help(args):
                    return super().make_context(info_name, args, parent, **extra)
                method = method or DEFAULT_METHOD
                try:
                    return of(method).make_context(info_name, args, parent, **extra)
                except Exception as problem:
                    # Which class tells of an unknown option differs between versions of typer; the attribute does not.
                    _refuse_option_of_others(method, getattr(problem, "option_name", None), extras)
                    raise

        how_to_see = f"`searchveil {name} --method {DEFAULT_METHOD} --help` shows the options of a method, "
        app.command(
            cls=OfMethod, epilog=in_help(example), help=f"{about}\n\n{how_to_see}`searchveil methods` all methods."
        )(signature(None))
        return command

    return register


def method_in(args: Sequence[str]) -> str | None:
    """What --method says, before anything is parsed: which options there are depends on it."""
    found = None
    for word, after in zip_longest(args, args[1:]):
        if word == "--":
            break
        if word == "--method":
            found = after
        elif word.startswith("--method="):
            found = word.partition("=")[2]
    return found


def _asks_for_help(args: Sequence[str]) -> bool:
    return not {"-h", "--help"}.isdisjoint(args)


def _refuse_option_of_others(method: str, option: str | None, extras: Extras) -> None:
    """Say which methods have an option that this one has not."""
    if option is None:
        return
    having: dict[str, list[str]] = {}  # parameter → methods
    for other in METHODS:
        for name in [*(one.name for one in fields(method_named(other))), *extras.get(other, {})]:
            if option_of(name) == option:
                having.setdefault(name, []).append(other)
    for name, others in having.items():
        if method in others:  # which is right; its value is missing
            return
        raise no_such_parameter(method, name, others) from None
