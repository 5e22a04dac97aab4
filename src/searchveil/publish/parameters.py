"""A mechanism's parameters: declared beside their types in its dataclass, and read from there by all who ask.

The command line's options, the keys of experiment files, the tables of docs/methods.md and the checks on creation come
from the same declarations. `parameters_of` gives them as data, for whoever shows a form.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from math import isfinite
from numbers import Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from searchveil.errors import Blank, InputError, Text, setting
from searchveil.items import ITEMS, Item, item_named
from searchveil.items.pool import QueryPool
from searchveil.privacy.guarantee import Neighbours

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = Literal["number", "integer", "flag", "choice", "item", "text", "texts", "table", "pool", "other"]

IN_WORDS: dict[Kind, str] = {
    "number": "number",
    "integer": "whole number",
    "flag": "yes or no",
    "choice": "word",
    "item": "word",
    "text": "text",
    "texts": "texts",
    "table": "table in a file",
    "pool": "pool in a file",
    "other": "value",
}
TYPES: dict[Kind, Any] = {"flag": bool, "text": str}  # where any value of the type will do


@dataclass(frozen=True)
class Declared:
    """What is written beside a parameter's type, as in `Annotated[int, Declared("Items of a user.", least=1)]`."""

    help: str
    symbol: str = ""  # the paper's
    unit: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    example: Any = None  # to try instead of a value that is refused
    hint: str = ""  # said of a value out of range, where an example does not help
    columns: tuple[str, ...] = ()  # of a table

    def in_range(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method, as data."""

    name: str
    kind: Kind
    required: bool
    default: Any
    declared: Declared
    words: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(ITEMS) if self.kind == "item" else self.words

    @property
    def in_file(self) -> bool:
        """Whether a text names a file in which the value is kept."""
        return self.kind in ("table", "pool")

    @property
    def range(self) -> str:
        """The values it may have, in words, without the kind."""
        least, most, above, below = (
            None if end is None else f"{end:,}" if isinstance(end, int) else f"{end:g}"
            for end in (self.declared.least, self.declared.most, self.declared.above, self.declared.below)
        )
        if least is not None and most is not None:
            return f"from {least} to {most}"
        lower = f"above {above}" if above is not None else f"at least {least}" if least is not None else ""
        upper = f"below {below}" if below is not None else f"at most {most}" if most is not None else ""
        return " and ".join(filter(None, (lower, upper)))

    @property
    def limits(self) -> str:
        """The range with its unit, in words."""
        return ", ".join(filter(None, [self.range, self.declared.unit and f"in {self.declared.unit}"]))

    @property
    def choices_in_words(self) -> str:
        return f"One of {', '.join(self.choices)}" if self.choices else ""

    def to_json(self) -> dict[str, Any]:
        """Everything a form needs; a default that is no JSON is given by its name."""
        plain = self.default is None or isinstance(self.default, bool | int | float | str | tuple)
        ends = {name: getattr(self.declared, name) for name in ("least", "most", "above", "below")}
        return {
            "name": self.name,
            "type": IN_WORDS[self.kind],
            "required": self.required,
            "default": self.default if plain else str(self.default),
            "help": self.declared.help,
            "choices": list(self.choices),
            "range": {name: end for name, end in ends.items() if end is not None},
            "unit": self.declared.unit,
            "symbol": self.declared.symbol,
        }

    def value(self, given: Any) -> Any:
        """The value that a text means: from the command line, a form or a file. What is a value already stays."""
        if isinstance(given, list):
            return tuple(given)
        if not isinstance(given, str | Path):
            return given
        text = str(given)
        if self.kind in ("number", "integer"):
            try:
                return float(text) if self.kind == "number" else int(text)
            except ValueError:
                raise self._refusal(text) from None
        if self.kind == "flag":
            if text not in ("true", "false"):
                raise self._refusal(text)
            return text == "true"
        if self.kind == "table":
            return _table(text)
        if self.kind == "pool":
            return QueryPool.open(text)
        return (text,) if self.kind == "texts" else text

    def check(self, value: Any) -> None:
        """Refuse a value that no log and no other parameter could make right."""
        if value is None and not self.required and self.default is None:
            return
        if self.kind in ("number", "integer"):
            self._check_number(value)
        elif self.kind == "choice" and value not in self.words:
            words = f"{', '.join(self.words[:-1])} and {self.words[-1]}"
            called = self.name.replace("_", " ")
            raise InputError(f"no {called} '{value}'", parameter=self.name, value=value, instead=f"there are {words}")
        elif self.kind == "item":
            item_named(value)
        elif not isinstance(value, TYPES.get(self.kind, object)):
            raise self._refusal(value)
        elif self.kind == "table" and not set(self.declared.columns) <= set(value.column_names):
            needed, there = " and ".join(self.declared.columns), ", ".join(value.column_names)
            called = self.name.replace("_", " ")
            raise InputError(f"the {called} need the columns {needed}; they have {there}", parameter=self.name)

    def _check_number(self, value: Any) -> None:
        a_number = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
        # A number that bounds what a user adds must be whole: half an item more would be one the noise is not for.
        right_kind = a_number and (self.kind != "integer" or isinstance(value, int))
        if not right_kind or not self.declared.in_range(value):
            raise self._refusal(value)

    def _refusal(self, value: Any) -> InputError:
        shown = f"{value:g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
        problem = setting(self.name) + f" must be {self._in_words()}, not {shown}"
        instead: str | Text | None = self.declared.hint or None
        if instead is None and self.declared.example is not None:
            instead = "try " + setting(self.name, self.declared.example)
        return InputError(problem, parameter=self.name, value=value, instead=instead)

    def _in_words(self) -> str:
        if self.kind == "flag":
            return "true or false"
        if self.kind == "number" and self.range == "above 0":
            return "a positive number"
        of = "of " if self.range.startswith("at least") else ""
        return f"a {IN_WORDS[self.kind]} {of}{self.range}".rstrip()


Epsilon = Annotated[float, Declared("ε of the guarantee.", symbol="ε", above=0, example=1)]
Delta = Annotated[float, Declared("δ of the guarantee.", symbol="δ", above=0, below=1, example=1e-6)]
ItemKind = Annotated[Item | str, Declared("What is counted and published.")]
NeighboursKind = Annotated[
    Neighbours, Declared("How neighbouring logs differ: by a user more or less, or by a replaced one.")
]
Pool = Annotated[QueryPool, Declared("A public pool of queries, made by `searchveil pool`.")]
Candidates = Annotated[
    pa.Table, Declared("A public table of query and url (csv, tsv, parquet).", columns=("query", "url"))
]


@cache
def parameters_of(mechanism: "type[DataclassInstance]") -> tuple[Parameter, ...]:
    """What a mechanism declares, in its own order."""
    hints = get_type_hints(mechanism, include_extras=True)
    return tuple(_parameter(field, hints[field.name]) for field in fields(mechanism))


def _parameter(field: "Field[Any]", hint: Any) -> Parameter:
    plain, declared = _unwrapped(hint)
    default = field.default if field.default_factory is MISSING else field.default_factory()
    required = default is MISSING
    words = tuple(map(str, get_args(plain))) if get_origin(plain) is Literal else ()
    default = None if required else default
    return Parameter(field.name, _kind(plain), required, default, declared or Declared(""), words)


def _unwrapped(hint: Any) -> tuple[Any, Declared | None]:
    """The type without Annotated and None, and what stands beside it."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        plain, below = _unwrapped(inner)
        return plain, next((note for note in notes if isinstance(note, Declared)), below)
    if get_origin(hint) in (Union, UnionType):
        first = next(part for part in get_args(hint) if part is not NoneType)
        return _unwrapped(first)
    return hint, None


def _kind(plain: Any) -> Kind:
    by_type: dict[Any, Kind] = {
        bool: "flag",
        int: "integer",
        float: "number",
        str: "text",
        Item: "item",
        pa.Table: "table",
        QueryPool: "pool",
    }
    by_origin: dict[Any, Kind] = {Literal: "choice", tuple: "texts"}
    return by_type.get(plain) or by_origin.get(get_origin(plain), "other")


def check_parameters(mechanism: "DataclassInstance") -> None:
    for one in parameters_of(type(mechanism)):
        one.check(getattr(mechanism, one.name))
        if one.kind == "item":
            object.__setattr__(mechanism, one.name, item_named(getattr(mechanism, one.name)))


def needed_parameters(mechanism: "DataclassInstance") -> dict[str, Any]:
    """The parameters that make a mechanism what it is: without one of them it would be another one."""
    declared = parameters_of(type(mechanism))
    held = {one.name: getattr(mechanism, one.name) for one in declared}
    kept = {one.name for one in declared if one.required or held[one.name] is not one.default}
    for one in declared:
        if one.name in kept and not one.required and _same_without(mechanism, held, kept - {one.name}):
            kept.discard(one.name)
    return {name: value for name, value in held.items() if name in kept}


def _same_without(mechanism: "DataclassInstance", held: Mapping[str, Any], names: set[str]) -> bool:
    try:
        return bool(type(mechanism)(**{name: held[name] for name in names}) == mechanism)
    except InputError:
        return False


def as_value(value: Any) -> Any:
    """As Python and a text form both write it: an item by its name, a number as Python's own; of a table, its size."""
    if isinstance(value, Item):
        return str(value)
    if isinstance(value, pa.Table):
        return Blank(f"<table of {value.num_rows} rows>")
    return float(value) if isinstance(value, float) else value


def _table(path: str) -> pa.Table:
    from pyarrow import csv, parquet

    try:
        if path.endswith(".parquet"):
            return parquet.read_table(path)
        separator = "\t" if path.endswith(".tsv") else ","
        return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator))
    except (OSError, pa.ArrowInvalid) as problem:
        raise InputError(f"{path}: {str(problem).splitlines()[0]}") from problem
