"""A release that is being decided about: the texts of all five forms, kept here while a browser goes back and forth."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from searchveil.errors import InputError, SearchveilError, shortest
from searchveil.log.schema import COLUMNS
from searchveil.privacy.calibrate import Assumption
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish import DEFAULT_METHOD, METHODS, build, method_named
from searchveil.publish.expected import PREDICTED
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import Parameter, parameters_of
from searchveil.publish.plan import Plan
from searchveil.studio.jobs import Job
from searchveil.studio.places import Places

MOST_DRAFTS = 200
READING = ("format", *COLUMNS, "columns", "skip_lines", "normalize", "reader_option")
GUESS = ("users", "held", "alone", "exponent", "tail", "items", "spread")
NOT_DECIDED = ("proposed", "guess", "read", "private", "runs")  # of a draft: what changes nothing about its release
NEW, NONE = "new", "none"  # instead of a ledger's file

Texts = dict[str, str]
Problems = dict[str, SearchveilError]  # by the field that each belongs to; "" where it belongs to none


@dataclass
class Draft:
    id: str
    log: list[str] = field(default_factory=list)
    reading: Texts = field(default_factory=dict)
    method: str = DEFAULT_METHOD
    given: Texts = field(default_factory=dict)  # of all methods: what they share keeps its value
    guess: Texts = field(default_factory=dict)
    budget: Texts = field(default_factory=dict)
    out: str = ""
    proposed: str = ""  # a name for the folder, by us; it changes with the log and the method until another is typed
    table: str = "parquet"
    read: Job | None = None  # how the log was read
    private: dict[str, Job] = field(default_factory=dict)  # what somebody asked about the log itself
    runs: list[Job] = field(default_factory=list)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return parameters_of(method_named(self.method))

    def values(self) -> dict[str, Any]:
        """The texts given for parameters of the method, as `build` takes them; several in one text by lines."""
        found: dict[str, Any] = {}
        for one in self.parameters:
            text = self.given.get(one.name, "").strip()
            if text and text != str(one.default):
                found[one.name] = text.split("\n") if one.kind == "texts" else text
        return found

    @property
    def assumption(self) -> Assumption | None:
        guessed = {name: text for name, text in self.guess.items() if text}
        return Assumption.of(guessed) if "users" in guessed else None

    @property
    def is_predicted(self) -> bool:
        """Whether a guess at the log tells what the method publishes."""
        return issubclass(method_named(self.method), PREDICTED)

    @property
    def public_users(self) -> int | None:
        """The public number of users, for a method that takes it for its plan."""
        guess = self.assumption
        return None if guess is None or self.is_predicted else guess.users

    def about_its_log(self, guarantee: Guarantee) -> Guarantee:
        """As a plan with the log has it: about whom the log tells apart, and with what its reading takes as public."""
        read = None if self.read is None else self.read.result
        if read is None:
            return guarantee
        public = (*guarantee.assumed_public, *read["taken_as_public"])
        return replace(guarantee, unit=read["unit"], assumed_public=public)

    @property
    def fingerprint(self) -> str:
        """Of all that decides what is released and what pays."""
        texts = {name: value for name, value in vars(self).items() if name not in NOT_DECIDED}
        return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()

    @property
    def ledger(self) -> str:
        """The ledger's file, "new" or "none"; empty before anything was chosen."""
        return self.budget.get("ledger", "")

    @property
    def ledger_file(self) -> str:
        return {NEW: self.budget.get("new_ledger", ""), NONE: ""}.get(self.ledger, self.ledger)


@dataclass(frozen=True)
class Built:
    """What comes of a draft's method: a mechanism and a plan, or what is wrong, by field."""

    mechanism: Mechanism | None
    plan: Plan | None
    problems: Problems


def built(draft: Draft, places: Places) -> Built:
    """Every parameter is looked at, so that every field is told about; then what they ask of each other."""
    problems: Problems = {}
    values = draft.values()
    for one in draft.parameters:
        if one.name not in values:
            continue
        text = values[one.name]
        try:
            if one.in_file:
                values[one.name] = str(places.file(text, one.name))
            one.check(one.value(values[one.name]))
        except SearchveilError as problem:
            problems[one.name] = problem
    try:
        users = draft.public_users
    except SearchveilError as problem:
        problems[f"guess-{problem.parameter}"] = problem
    if problems:
        return Built(None, None, problems)
    try:
        mechanism = build(draft.method, values)
        plan = mechanism.plan(users)
        return Built(mechanism, replace(plan, guarantee=draft.about_its_log(plan.guarantee)), {})
    except SearchveilError as problem:
        known = {one.name for one in draft.parameters}
        return Built(None, None, {problem.parameter if problem.parameter in known else "": problem})


def guess_problems(draft: Draft) -> Problems:
    try:
        _ = draft.assumption
    except InputError as problem:
        return {f"guess-{problem.parameter}": problem}
    return {}


class Drafts:
    """The drafts of one server; the oldest are dropped when there are too many."""

    def __init__(self) -> None:
        self._drafts: dict[str, Draft] = {}

    def new(self, **texts: Any) -> Draft:
        while len(self._drafts) >= MOST_DRAFTS:
            del self._drafts[next(iter(self._drafts))]
        draft = Draft(secrets.token_urlsafe(9), **texts)
        choose_method(draft, draft.method)
        self._drafts[draft.id] = draft
        return draft

    def get(self, id: str) -> Draft | None:
        return self._drafts.get(id)

    def all(self) -> list[Draft]:
        """The newest first."""
        return list(self._drafts.values())[::-1]


def choose_method(draft: Draft, method: str) -> None:
    """What was typed stays; what the new method needs and nobody typed is filled in with a good first try."""
    if method not in METHODS:
        method_named(method)
    draft.method = method
    needed = {one.name for one in draft.parameters if one.required}
    for name, value in method_named(method).example.items():
        if name in needed or name not in draft.given:
            draft.given.setdefault(name, shortest(value) if isinstance(value, float) else str(value))


def reading_of(draft: Draft) -> Mapping[str, str]:
    return {name: text.strip() for name, text in draft.reading.items() if text.strip()}
