"""The run file: what all parties agree on before anything leaves a house. Its hash is in every message."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from searchveil.errors import InputError, printable
from searchveil.items import ITEMS
from searchveil.log.normalize import USUAL, Normalization
from searchveil.optimize.objectives import Goal

NAME = r"[a-z0-9][a-z0-9-]{0,30}"
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Fingerprint = Annotated[str, StringConstraints(pattern="^sha256:[0-9a-f]{64}$")]
LARGEST_FILE = 100_000  # bytes
# What mode paper has no use for: another value there would be ignored, so it is refused.
OF_PRIVATE = (
    "method",
    "item",
    "per_user",
    "collusion",
    "padding_epsilon",
    "padding_delta",
    "selection_delta",
    "time_unit",
    "longest_text",
)


OF_PAPER = ("objective", "support")


class CoordinatorPlace(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = "coordinator"
    address: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.\-\[\]:]+:[0-9]{1,5}$")]
    certificate: Fingerprint


class Agreement(BaseModel):
    """What a run file says. A field that is not known, or a value out of range, is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    mode: Literal["private", "paper"] = "private"
    method: Literal["zealous", "sampling"] = "zealous"
    item: str = "query"
    per_user: Annotated[int, Field(ge=1, le=1000)] = 5
    epsilon: Annotated[float, Field(gt=0, le=1000)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    collusion: Annotated[int, Field(ge=0)] = 1
    padding_epsilon: Annotated[float | None, Field(gt=0, le=1000)] = None  # a tenth of epsilon, unless given
    padding_delta: Annotated[float | None, Field(gt=0, lt=1)] = (
        None  # a tenth of the δ that chooses items, unless given
    )
    selection_delta: Annotated[float | None, Field(gt=0, lt=1)] = None  # of sampling: the part that chooses pairs
    time_unit: Literal["second", "minute", "hour", "day", "month", "none"] = "hour"  # of sampling
    longest_text: Annotated[int, Field(ge=16, le=4000)] = 240
    normalize: str = USUAL.words
    objective: Goal | None = None  # of mode paper
    support: Annotated[float | None, Field(gt=0, le=1)] = None  # of objective frequent
    deadline: Annotated[float, Field(gt=0, le=7 * 86_400)] = 3600
    silence: Annotated[float, Field(ge=1, le=3600)] = 60
    coordinator: CoordinatorPlace
    parties: Annotated[dict[Name, Fingerprint], Field(min_length=2, max_length=64)]

    @model_validator(mode="after")
    def _fits(self) -> "Agreement":
        if self.mode == "paper":
            for name in OF_PRIVATE:
                if name in self.model_fields_set:
                    raise ValueError(f"{name}: is for the private mode; leave it out")
            if self.support is not None and self.objective != "frequent":
                raise ValueError('support: is for the objective "frequent"; leave it out')
        else:
            self._fits_private()
        try:
            Normalization.of_words(self.normalize)
        except InputError as problem:
            raise ValueError(f"normalize: {problem}") from None
        if self.coordinator.name in self.parties:
            raise ValueError(f"coordinator: '{self.coordinator.name}' is also the name of a party")
        shown = [self.coordinator.certificate, *self.parties.values()]
        if len(set(shown)) < len(shown):
            raise ValueError("parties: two of them, or one and the coordinator, have the same certificate")
        if not isfinite(self.epsilon):
            raise ValueError("epsilon: must be finite")
        return self

    def _fits_private(self) -> None:
        for name in OF_PAPER:
            if name in self.model_fields_set:
                raise ValueError(f"{name}: is for the paper mode; leave it out")
        if self.item not in ITEMS:
            raise ValueError(f"item: there is no '{self.item}'; there are {', '.join(ITEMS)}")
        if self.method == "sampling" and self.item != "click":
            raise ValueError('item: sampling draws clicks; write item = "click"')
        if self.method == "zealous" and self.selection_delta is not None:
            raise ValueError("selection_delta: is for the method sampling")
        if self.collusion >= len(self.parties):
            raise ValueError(f"collusion: at most {len(self.parties) - 1} of {len(self.parties)} parties, not more")

    @property
    def counted(self) -> str:
        """The kind of item that every party takes from its log."""
        return "click" if self.mode == "paper" else self.item

    @property
    def names(self) -> tuple[str, ...]:
        """The parties in the order of the ring: by name, so that the order in the file does not matter."""
        return tuple(sorted(self.parties))


class RunFile:
    """A run file as it was read: the agreement in it, its text and the hash of that."""

    def __init__(self, text: str, source: str = "the run file") -> None:
        self.text, self.source = text, source
        self.agreement = _parsed(text, source)
        self.hash = hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def read(cls, path: str | Path) -> "RunFile":
        try:
            with Path(path).open("rb") as file:
                raw = file.read(LARGEST_FILE + 1)
            text = raw.decode()
        except OSError as problem:
            raise InputError(f"{path} cannot be read: {problem.strerror}", parameter="run") from problem
        except UnicodeDecodeError as problem:
            raise InputError(f"{path} is not a text in UTF-8", parameter="run") from problem
        if len(raw) > LARGEST_FILE:
            raise InputError(f"{path} is larger than any run file", parameter="run")
        return cls(text.replace("\r\n", "\n"), str(path))

    def differs_from(self, other: str, whose: str) -> str:
        """Where this file and another text part, in words."""
        for number, (mine, theirs) in enumerate(zip_longest(self.text.split("\n"), other.split("\n")), start=1):
            if mine != theirs:
                here, there = ("nothing" if line is None else f"'{printable(line[:80])}'" for line in (mine, theirs))
                return f"{self.source} differs from that of {whose} in line {number}: {here} here, {there} there"
        return f"{self.source} is that of {whose}"


def check_settings(settings: Mapping[str, Any], parties: int) -> None:
    """InputError for what a run file with these settings would be refused for, whoever takes part."""
    shown = [f"sha256:{i:064x}" for i in range(parties + 1)]
    place = {"address": "localhost:1", "certificate": shown[0]}
    everybody = {f"p{i}": shown[i] for i in range(1, parties + 1)}
    try:
        Agreement.model_validate({**settings, "coordinator": place, "parties": everybody})
    except ValidationError as problem:
        name, said = _first(problem)
        raise InputError(said if not name else f"{name}: {said}", parameter=name.partition(".")[0] or None) from problem


def _parsed(text: str, source: str) -> Agreement:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{source} is no TOML file: {problem}", parameter="run") from problem
    try:
        return Agreement.model_validate(values)
    except ValidationError as problem:
        name, said = _first(problem)
        line = _line_of(text, (name or said.partition(":")[0]).rpartition(".")[2])
        raise InputError(f"{source}{line}: {name + ': ' if name else ''}{said}", parameter="run") from problem


def _first(problem: ValidationError) -> tuple[str, str]:
    """Where, if one setting alone is wrong, and what."""
    first: Any = problem.errors()[0]
    return ".".join(map(str, first["loc"])), str(first["msg"]).removeprefix("Value error, ")


def _line_of(text: str, name: str) -> str:
    for number, line in enumerate(text.split("\n"), start=1):
        if re.match(rf"\s*\[?\s*[\"']?{re.escape(name)}\b", line):
            return f", line {number}"
    return ""
