"""ZEALOUS: publish the items that many users share, by two thresholds around Laplace noise (Götz et al. 2011)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from searchveil.errors import Blank, InputError, setting, settings
from searchveil.items import QUERY, item_named
from searchveil.items.histogram import bounded_histogram
from searchveil.log import SearchLog
from searchveil.privacy import calibrate
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.progress import Progress
from searchveil.publish.mechanism import AT_LEAST_TWO_USERS, Mechanism, Published
from searchveil.publish.parameters import Declared, Delta, Epsilon, ItemKind, NeighboursKind
from searchveil.publish.plan import Plan, Selection, Settings, given
from searchveil.publish.threshold import survivors


@dataclass(frozen=True, kw_only=True)
class ZealousSettings(Settings):
    selection: Selection = field()
    users: int | None = None
    choice_seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        return given(
            per_user=self.selection.per_user,
            noise_scale=self.selection.noise_scale,
            first_threshold=self.selection.first_threshold,
            second_threshold=self.selection.threshold,
            users=self.users,
            choice_seed=self.choice_seed,
        )


@dataclass(frozen=True, repr=False)
class Zealous(Mechanism[ZealousSettings]):
    """Keep up to `per_user` items of each user, drop rare ones, add noise, publish what reaches the second threshold.

    `notion` chooses the calibration: "approximate" (ours, the smallest threshold), or the paper's "probabilistic"
    (Theorem 3, for a public number of users) and "indistinguishable" (Theorem 2). Thresholds are the best ones unless
    given; one that is too low for the promise is refused.

    Proof: docs/guarantees/zealous.md.

    >>> sv.Zealous(epsilon=100, delta=1e-6).release(log).table["query"].to_pylist()
    ['news', 'weather']
    """

    method: ClassVar[str] = "zealous"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate", "probabilistic", "indistinguishable")
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 1e-6}

    epsilon: Epsilon
    delta: Delta
    item: ItemKind = QUERY
    per_user: Annotated[int, Declared("Items kept of each user.", symbol="m", least=1)] = 5
    notion: Annotated[
        Literal["approximate", "probabilistic", "indistinguishable"],
        Declared("Which promise: ours, or the paper's of Theorem 3 or 2."),
    ] = "approximate"
    neighbours: NeighboursKind | None = None
    users: Annotated[int | None, Declared("Of the probabilistic notion: the public number of users.", least=1)] = None
    first_threshold: Annotated[
        int | None, Declared("Items of fewer users are dropped before noise is added.", symbol="τ", least=1)
    ] = None
    threshold: Annotated[
        int | None,
        Declared("Publish an item iff its noisy count is at least this, T; the paper has τ' = T − 1.", symbol="T"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours is None:
            object.__setattr__(self, "neighbours", "add-remove" if self.notion == "approximate" else "replace-one")
        elif self.notion != "approximate" and self.neighbours != "replace-one":
            raise InputError(
                f"the {self.notion} notion is proved for replace-one",
                parameter="neighbours",
                value=self.neighbours,
                instead="add " + setting("neighbours", "replace-one"),
            )
        if self.users is not None and self.notion != "probabilistic":
            why = "neighbouring logs differ in it" if self.neighbours == "add-remove" else "nothing depends on it"
            paper = settings({"notion": "probabilistic", "neighbours": "replace-one"})
            raise InputError(
                f"the {self.notion} notion takes no public number of users, for {why}",
                parameter="users",
                value=self.users,
                instead="leave out " + setting("users") + ", or add " + paper,
            )
        if self.notion == "indistinguishable" and self.first_threshold not in (None, 1):
            raise InputError(
                "the indistinguishable notion has the first threshold 1",
                parameter="first_threshold",
                value=self.first_threshold,
                instead="leave out " + setting("first_threshold"),
            )

    def planned(self, log: SearchLog | int | None) -> Plan[ZealousSettings]:
        assert self.neighbours is not None
        scale = calibrate.scale_for(self.epsilon, calibrate.changed_counts(self.per_user, self.neighbours))
        users = self._public_users(log) if self.notion == "probabilistic" else None
        first, smallest = self._thresholds(scale, users)
        if self.threshold is not None and self.threshold < smallest:
            raise InputError(
                f"the threshold {self.threshold} is infeasible: delta {self.delta:g} needs at least {smallest}",
                parameter="threshold",
                value=self.threshold,
                instead="leave out " + setting("threshold") + " or raise it",
            )
        threshold = smallest if self.threshold is None else self.threshold
        settings = ZealousSettings(selection=Selection(self.per_user, scale, threshold, first), users=users)
        public = [AT_LEAST_TWO_USERS]
        if users is not None:
            public.append(f"that the log has {users} users")
        if self.notion == "probabilistic":
            public.append("the seed by which users' items are chosen (published)")
        guarantee = Guarantee(
            notion=self.notion,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            proof=f"docs/guarantees/zealous.md#{self.notion}",
            assumed_public=tuple(public),
            caveats=(_NOT_CLOSED, _SEED_PUBLISHED) if self.notion == "probabilistic" else (),
        )
        return Plan(self.method, str(self.item), settings, guarantee)

    def _thresholds(self, scale: float, users: int | None) -> tuple[int, int]:
        """The first threshold and the smallest second one that keeps the promise."""
        if self.notion == "approximate":
            first = self.first_threshold or 1
            return first, calibrate.approximate_threshold(scale, self.delta, self.per_user, first)
        if self.notion == "indistinguishable":
            return 1, calibrate.indistinguishable_threshold(scale, self.delta, self.per_user)
        assert users is not None
        if self.first_threshold is None:
            return calibrate.best_first_threshold(scale, self.delta, self.per_user, users)
        second = calibrate.probabilistic_threshold(scale, self.delta, self.per_user, users, self.first_threshold)
        if second is None:
            raise InputError(
                f"the first threshold {self.first_threshold} is infeasible: {users} users keep at most "
                f"{users * self.per_user} items",
                parameter="first_threshold",
                value=self.first_threshold,
                instead="lower " + setting("first_threshold"),
            )
        return self.first_threshold, second

    def _public_users(self, log: SearchLog | int | None) -> int:
        """The number of users, which replace-one neighbours share; a claim that the log contradicts is refused."""
        there = log.users if isinstance(log, SearchLog) else log
        if self.users is None and there is None:
            raise InputError(
                "the probabilistic notion needs the public number of users",
                parameter="users",
                instead="add " + setting("users", Blank("N")) + " or a log",
            )
        if isinstance(log, SearchLog) and self.users is not None and self.users != there:
            raise InputError(
                setting("users", self.users)
                + f" claims {'more' if self.users > log.users else 'fewer'} users than the log's {there}",
                parameter="users",
                value=self.users,
                instead=f"leave it out or make it {there}",
            )
        users = self.users if self.users is not None else int(there or 0)
        if users < 1:
            raise InputError("the probabilistic notion needs at least one user, and there is none")
        return users

    def check(self, log: SearchLog) -> None:
        item_named(self.item).check(log)

    def prepare(self, plan: Plan[ZealousSettings], source: Source) -> Plan[ZealousSettings]:
        """The probabilistic notion needs the choice of items to be a known function: its seed is published."""
        if self.notion != "probabilistic":
            return plan
        return replace(plan, settings=replace(plan.settings, choice_seed=source.seed()))

    def publish(self, log: SearchLog, plan: Plan[ZealousSettings], source: Source, progress: Progress) -> Published:
        item, selection = item_named(self.item), plan.settings.selection
        seed = source.seed() if plan.settings.choice_seed is None else plan.settings.choice_seed
        progress(f"keeping up to {self.per_user} items of each user")
        counts = bounded_histogram(log, item, per_user=self.per_user, seed=seed, at_least=selection.first_threshold)
        progress("adding noise")
        noise = DiscreteLaplace(selection.noise_scale)
        published = survivors(
            counts, item.columns, threshold=selection.threshold, noise=noise, engine=log.engine, source=source
        )
        return Published({"data": published})


_NOT_CLOSED = (
    "the probabilistic notion is not closed under post-processing; what is done with the release keeps the implied "
    "(ε,δ)-differential privacy"
)
_SEED_PUBLISHED = (
    "the seed by which users' items were chosen is published (choice_seed), because the notion needs a choice that is "
    "known; it protects nobody, unlike the noise"
)
