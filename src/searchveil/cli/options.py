"""The options that several commands share, in groups, and how their texts become values."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.engine import Engine
    from searchveil.log import SearchLog
    from searchveil.privacy.calibrate import Assumption
    from searchveil.privacy.ledger import Ledger

LogPaths = Annotated[
    list[str], typer.Argument(metavar="LOG...", help="Files of one log; globs work.", show_default=False)
]
OptionalLogPaths = Annotated[
    list[str] | None, typer.Argument(metavar="[LOG]...", help="Files of one log; globs work.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _log(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The log and its engine")


def _budget(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The budget")


def example(line: str) -> str:
    """The end of a command's help."""
    return f"Example: `{line}`"


@dataclass
class LogOptions:
    """How to read a log, and where to compute."""

    format: Annotated[str, _log("auto, or a format by name (docs/formats.md).")] = "auto"
    column: Annotated[list[str] | None, _log("user=NAME, query=NAME, … for tables of your own.")] = None
    columns: Annotated[
        str | None, _log("Of a text without a header, in its order: user,time,query; - for one to pass over.")
    ] = None
    skip_lines: Annotated[int, _log("Lines before the log in each file.")] = 0
    reader_option: Annotated[list[str] | None, _log("NAME=VALUE for one format (docs/formats.md).")] = None
    strict: Annotated[bool, _log("Bad rows are an error.", "--strict")] = False
    normalize: Annotated[
        str, _log("Differences that do not matter: any of case,spaces,unicode,punctuation; or none.")
    ] = "case,spaces,unicode"
    engine: Annotated[str, _log("duckdb or spark.")] = "duckdb"
    master: Annotated[str | None, _log("Spark's master, as in local[2] or spark://host:7077.")] = None
    memory: Annotated[
        str | None, _log("How much the engine may use before it spills, as in 3GB; of Spark, its driver.")
    ] = None
    executor_memory: Annotated[str | None, _log("How much each executor of a Spark cluster gets, as in 8GB.")] = None
    spark_conf: Annotated[list[str] | None, _log("KEY=VALUE, a setting of Spark; again for more.")] = None

    def read(self, paths: Sequence[str], engine: "Engine | None" = None, *, in_file_order: bool = False) -> "SearchLog":
        """A log in an engine of its own, or in that of another log with which it is to be compared."""
        from searchveil.log.normalize import Normalization
        from searchveil.log.read import read_log

        normalization = Normalization.of_words(self.normalize)  # before an engine starts: a typo is told at once
        engine = engine or self._open_engine()
        if in_file_order:
            engine.keep_order()
        return read_log(
            list(paths),
            format=self.format,
            engine=engine,
            columns=self._columns(),
            skip_lines=self.skip_lines,
            options=_pairs(self.reader_option, "--reader-option"),
            strict=self.strict,
            normalization=normalization,
        )

    def _columns(self) -> "dict[str, str] | list[str]":
        if self.columns is None:
            return _pairs(self.column, "--column")
        if self.column:
            raise InputError("--columns is for a text without a header, --column for one with names; give one of them")
        return [name.strip() for name in self.columns.split(",")]

    def _open_engine(self) -> "Engine":
        from searchveil.engine import open_engine

        return open_engine(
            self.engine,
            master=self.master,
            memory=self.memory,
            executor_memory=self.executor_memory,
            spark_conf=_pairs(self.spark_conf, "--spark-conf"),
        )


@dataclass
class BudgetOptions:
    """Which account pays."""

    ledger: Annotated[str | None, _budget("The file that keeps this log's account.")] = None
    budget_epsilon: Annotated[float | None, _budget("The ε that the log may spend in all.")] = None
    budget_delta: Annotated[float | None, _budget("The δ that the log may spend in all.")] = None
    budget_neighbours: Annotated[str | None, _budget("add-remove or replace-one, for a new ledger.")] = None
    budget_composition: Annotated[str | None, _budget("basic, gaussian, or pld for a list fixed in advance.")] = None
    same_log: Annotated[bool, _budget("The ledger's log, though it grew or was corrected.", "--same-log")] = False

    def open(self) -> "Ledger | None":
        given: dict[str, Any] = {
            "budget_epsilon": self.budget_epsilon,
            "budget_delta": self.budget_delta,
            "neighbours": self.budget_neighbours,
            "composition": self.budget_composition,
            "same_log": self.same_log or None,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if self.ledger is None:
            if given:
                raise InputError("a budget and --same-log are for a ledger; add --ledger FILE")
            return None
        from searchveil.privacy.ledger import Ledger

        return Ledger.open(self.ledger, **given)


class Group(ABC):
    """Several options that a command takes as one parameter."""

    @abstractmethod
    def options(self) -> Iterable[inspect.Parameter]: ...

    @abstractmethod
    def collect(self, given: dict[str, Any]) -> Any:
        """The parameter, made of the group's own options, which are taken out of `given`."""


@dataclass(frozen=True)
class FieldsGroup(Group):
    """The fields of a dataclass."""

    kind: type[Any]

    def options(self) -> Iterator[inspect.Parameter]:
        hints = get_type_hints(self.kind, include_extras=True)
        for field in fields(self.kind):
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )

    def collect(self, given: dict[str, Any]) -> Any:
        return self.kind(**{field.name: given.pop(field.name) for field in fields(self.kind)})


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Lets a command take a whole group of options, a dataclass, as one parameter."""
    return unfold(command, {})


def unfold(command: Callable[..., None], special: Mapping[type[Any], Group]) -> Callable[..., None]:
    """The command with every option of its groups as a parameter of its own, as typer wants it."""
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: special.get(hint) or FieldsGroup(hint)
        for name, hint in hints.items()
        if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    for group in groups.values():
        parameters += group.options()

    @wraps(command)
    def unfolded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group.collect(given)
        command(**given)

    unfolded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    unfolded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return unfolded


def assumption_of(text: str, users: int | str | None) -> "Assumption":
    from searchveil.privacy.calibrate import Assumption

    given: dict[str, Any] = dict(_pairs(text.split(","), "--assume"))
    if users is not None:
        given.setdefault("users", users)
    if "users" not in given:
        raise InputError(f"--assume {text}: how many users? add users=N or --users N")
    try:
        return Assumption.of(given)
    except InputError as problem:
        raise InputError(f"--assume {text}: " + problem.text) from None


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{option} {text}: write NAME=VALUE")
        pairs[name] = value
    return pairs
