"""What a mechanism would do and promise, as typed values from which the records are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import isfinite
from typing import Any, Generic, Literal

from typing_extensions import TypeVar

from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.spread import laplace_below

Counted = Literal["users", "occurrences", "sessions"]


@dataclass(frozen=True)
class Selection:
    """Items by their counts: published if and only if the count plus discrete Laplace noise reaches the threshold.

    Without a `count_scale`, the noisy count that was compared with the threshold is itself published.
    """

    per_user: int  # the contribution bound: so many counts one user may change
    noise_scale: float
    threshold: int
    first_threshold: int = 1  # items below it are dropped before the noise
    count_scale: float | None = None  # of fresh noise in the published count
    public: bool = False  # over a public domain: there is nothing for a threshold to hide

    @property
    def noise_below(self) -> int:
        """What the noise in a published count stays below in 95 of 100 cases."""
        return laplace_below(self.noise_scale if self.count_scale is None else self.count_scale)

    def switched_off(self, noise_scale: float) -> "Selection":
        """With this noise instead and without thresholds: for the control of an audit, never for a release."""
        fresh = None if self.count_scale is None else noise_scale
        return replace(self, noise_scale=noise_scale, count_scale=fresh, threshold=0, first_threshold=0)


@dataclass(frozen=True)
class WeightSelection:
    """Items by weights that users spread over theirs: named if the noisy total weight reaches the threshold."""

    per_user: int  # the contribution bound: so many items one user may give weight to, of length one in all
    sigma: float  # of the Gaussian noise of the whole account
    threshold: float

    def switched_off(self, noise_scale: float) -> "WeightSelection":
        """With next to no noise and without a threshold: for the control of an audit, never for a release.

        The noise of a count is some ten times σ, in units of 1/256 of a count: σ must be smaller than a scale by that.
        """
        return replace(self, sigma=noise_scale / 2000, threshold=0.0)


@dataclass(frozen=True)
class VoteSelection:
    """Items by votes, one of each user: named with a probability that the number of votes and (ε,δ) decide."""

    threshold: int  # so many votes name an item with probability ½
    most_votes: int  # that an item takes
    epsilon: Fraction  # of naming, where one number of votes changes by one
    delta: Fraction
    guide_scale: float | None = None  # of the noise of the first vote, where there is one
    count_scale: float | None = None  # of the noise of counts, where there are any

    def switched_off(self, noise_scale: float) -> "VoteSelection":
        """With this noise instead, and no vote is needed: for the control of an audit, never for a release."""
        return replace(self, threshold=0, count_scale=noise_scale)


@dataclass(frozen=True)
class Sessions:
    """Where an item is a part of a session: which sessions, and how much of them."""

    per_user: int
    queries: int
    gap_minutes: float


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a mechanism worked out from its parameters; a mechanism has a subclass that adds its own.

    The fields here are what others read of any mechanism: cards, audits, evaluations. A subclass that always has one
    declares it anew without a default, by `field()`.
    """

    selection: Selection | None = None  # of the main table
    clicks: Selection | None = None  # of the clicks beside it
    transitions: Selection | None = None  # likewise
    weights: WeightSelection | None = None  # of the main table, where it is chosen by weights
    votes: VoteSelection | None = None  # of the main table, where it is chosen by votes
    sessions: Sessions | None = None
    pool_size: int | None = None  # of the public pool, from which published items may come

    def to_json(self) -> dict[str, Any]:
        """The `parameters` of the record, by the names they have there."""
        return {}

    @property
    def noise_below(self) -> dict[str, int]:
        """By table: what the noise in a count stays below in 95 of 100 cases. Nothing of tables without noise."""
        tables = {"data": self.selection, "clicks": self.clicks, "transitions": self.transitions}
        return {name: chosen.noise_below for name, chosen in tables.items() if chosen is not None}

    def switched_off(self, noise_scale: float) -> "Settings":
        """With every selection switched off."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        kinds = Selection | WeightSelection | VoteSelection
        chosen = {name: value for name, value in values.items() if isinstance(value, kinds)}
        off: dict[str, Any] = {name: selection.switched_off(noise_scale) for name, selection in chosen.items()}
        return replace(self, **off)


@dataclass(frozen=True, kw_only=True)
class Recorded(Settings):
    """Settings as a record has them, read back from a release folder or written by hand."""

    values: Mapping[str, Any]
    noise: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any], noise: Mapping[str, int] | None = None) -> "Recorded":
        return cls(values=dict(values), pool_size=values.get("pool_size"), noise=noise or {})

    @property
    def noise_below(self) -> dict[str, int]:
        return dict(self.noise)

    def to_json(self) -> dict[str, Any]:
        return dict(self.values)


def given(**values: Any) -> dict[str, Any]:
    """The values that are there, in this order."""
    return {name: value for name, value in values.items() if value is not None}


S = TypeVar("S", bound=Settings, covariant=True, default=Any)  # of a mechanism that is not known: any


@dataclass(frozen=True)
class Plan(Generic[S]):
    """What a mechanism would do and promise. Making one spends nothing and looks at nothing but the number of users.

    >>> sv.Zealous(epsilon=1, delta=1e-6).plan().parameters["second_threshold"]
    76
    """

    method: str
    item: str
    settings: S
    guarantee: Guarantee
    claims: Mapping[str, float] = field(default_factory=dict)  # what a paper says of these parameters, for comparison
    figures: Mapping[str, Any] = field(default_factory=dict)  # how much can be published or, in a release, was
    advice: str | None = None  # what to do instead, where these parameters make no sense
    takes: str | None = None  # how many users it takes, in words for the publisher; no part of a record
    counts: Counted = "users"  # what a published count is a number of, for whoever compares it with a log
    words: str | None = None  # what cut texts into words, where it matters: two releases that agree have the same words

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings by the names of the record, to be shown and written; code reads `settings`."""
        return self.settings.to_json()

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "method": self.method,
            "item": self.item,
            "counts": self.counts,
            "parameters": self.settings.to_json(),
            "guarantee": self.guarantee.to_json(),
            **{name: _finite(value) for name, value in (*self.claims.items(), *self.figures.items())},
        }
        return record | given(noise_below=self.settings.noise_below or None, words=self.words, advice=self.advice)


def _finite(value: Any) -> Any:
    """None for what JSON has no number for."""
    return None if isinstance(value, float) and not isfinite(value) else value
