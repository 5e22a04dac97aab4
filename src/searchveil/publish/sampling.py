"""Sampling: tuples of users, drawn so that nobody is likely to appear at all.

At individual rates (ours, publish/individual.py), or by the programs of Hong et al. 2012, which are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import expm1, floor, inf, nextafter
from time import monotonic
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from searchveil.errors import Blank, InputError, setting, settings
from searchveil.items import CLICK
from searchveil.log import SearchLog
from searchveil.optimize import diversity
from searchveil.optimize.breach import SECONDS, Breach, for_recall, for_size
from searchveil.optimize.certify import UNITS, Limit, LogOf, limit, quantize, repair, violated
from searchveil.optimize.integers import drawable, whole_draws
from searchveil.optimize.objectives import KL, Diversity, Frequent, Goal, Objective, Size
from searchveil.optimize.program import ClickCounts, Integers, Reals, Sampler
from searchveil.optimize.sensitivity import bound_effects
from searchveil.optimize.solution import Solution
from searchveil.optimize.solve import relax
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.privacy.rounding import at_most
from searchveil.progress import Progress, silent
from searchveil.publish.click_counts import StagedClicks, click_counts
from searchveil.publish.draws import draw, pick_users, rates, tuples
from searchveil.publish.individual import (
    Individual,
    IndividualSettings,
    RoundedTo,
    SelectionDelta,
    require_something,
    too_little,
    users_for_one,
)
from searchveil.publish.mechanism import Mechanism, Published, at_least_users, unit_of
from searchveil.publish.parameters import Candidates, Declared, NeighboursKind, Pool
from searchveil.publish.plan import Plan, Settings, given

AnySampler = Literal["individual", "poisson", "multinomial"]
Solver = Literal["best", "spe", "greedy", "lp-rounding", "branch-and-bound"]

CHOSEN_FROM_THE_LOG = (
    "how many tuples of each pair are drawn, and which pairs there are: computed from the log and published in the "
    "table rates, so whoever knows the other users' histories may learn something about the last one"
)
COUNTS_X = "the counts x: how many tuples of each pair are drawn (Poisson: are expected), in the table rates"
OF_INDIVIDUAL = ("selection_delta", "neighbours", "candidates", "pool", "time_unit")
OF_PROGRAMS = (
    "objective",
    "support",
    "output_size",
    "seconds",
    "solver",
    "noise_counts",
    "noise_epsilon",
    "most_change",
)
REACHED = 0.999  # of the size asked for: first-order solvers stop that near
NOISE_DOES_NOT_HELP = (
    "Noise was added to these numbers as the paper has it. That is not differential privacy: all of them may move when "
    "one user leaves, by up to d each, and who was removed beforehand depends on the log (docs/errata.md, H2)."
)


@dataclass(frozen=True, kw_only=True)
class SamplingSettings(Settings):
    objective: Goal
    sampler: Sampler
    exposure_limit: float
    support: float | None = None
    output_size: float | None = None
    noise_epsilon: float | None = None
    most_change: float | None = None

    def to_json(self) -> dict[str, Any]:
        return given(
            objective=self.objective,
            sampler=self.sampler,
            exposure_limit=self.exposure_limit,
            support=self.support,
            output_size=self.output_size,
            noise_epsilon=self.noise_epsilon,
            most_change=self.most_change,
        )


@dataclass(frozen=True, repr=False)
class Sampling(Mechanism[SamplingSettings | IndividualSettings]):
    """Draw users' clicks, so that every user appears with a probability of at most δ.

    `sampler` "individual" draws each user's clicks at a rate of her own, differentially private from end to end; see
    `Individual` for `epsilon`, `selection_delta`, `neighbours`, `candidates`, `pool` and `time_unit`. The others draw
    clicks on shared pairs, as many of each as are best for the `objective` within the limit b = min(ε, ln 1/(1−δ)),
    where ε may be left out; how many is computed from the log and taken as public. "poisson" (ours) draws every user's
    clicks independently at a rate per pair; "multinomial" is the paper's, a whole number of draws of each pair. For
    them, `output_size` is the size asked of `frequent` and `kl` (half of what fits, if left out), `support` the
    relative frequency from which a pair counts as frequent, `seconds` the time to look for whole numbers, `solver` who
    looks for the most diverse ones (SPE is the paper's). With `noise_counts`, the paper's preprocessing and noise
    Lap(d/ε′) on the numbers of draws.

    Proofs: docs/guarantees/individual-rates.md, docs/guarantees/sampling.md.

    >>> sv.Sampling(delta=0.1, epsilon=1).plan(users := 1000).figures["users"]
    1000
    """

    method: ClassVar[str] = "sampling"
    notions: ClassVar[tuple[Notion, ...]] = ("approximate", "sampling-step")
    example: ClassVar[Mapping[str, Any]] = {"epsilon": 1, "delta": 0.5}

    delta: Annotated[float, Declared("How likely a user may appear at all.", symbol="δ", above=0, below=1, example=0.5)]
    epsilon: Annotated[
        float | None,
        Declared("For the choice of pairs; poisson and multinomial: a second limit.", symbol="ε", above=0, example=1),
    ] = None
    objective: Annotated[Goal, Declared("What the drawn tuples should be best at.")] = "size"
    sampler: Annotated[
        AnySampler, Declared("A rate for each user; or the paper's programs: a rate for each pair, or whole draws.")
    ] = "individual"
    selection_delta: SelectionDelta | None = None
    neighbours: NeighboursKind = "add-remove"
    candidates: Candidates | None = None
    pool: Pool | None = None
    time_unit: RoundedTo = "hour"
    support: Annotated[
        float,
        Declared(
            "From which share of all clicks a pair is frequent.",
            symbol="s",
            above=0,
            most=1,
            hint="it is a share of all clicks",
        ),
    ] = 0.002
    output_size: Annotated[
        float | None,
        Declared("Of frequent and kl: how many tuples; half of what fits if left out.", symbol="|O|", above=0),
    ] = None
    seconds: Annotated[float, Declared("Time to look for whole numbers.", unit="seconds", least=0)] = 10.0
    solver: Annotated[Solver, Declared("Who looks for the most diverse whole draws; spe is the paper's.")] = "best"
    noise_counts: Annotated[bool, Declared("The paper's noise on counts, which protects nobody (errata H2).")] = False
    noise_epsilon: Annotated[float, Declared("ε of that noise.", symbol="ε′", above=0, example=1)] = 1.0
    most_change: Annotated[
        float, Declared("By how much a user may move a count before that noise.", symbol="d", above=0)
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_options_of_other_samplers()
        if self.individual is not None:
            return
        if self.solver != "best" and (self.objective, self.sampler) != ("diversity", "multinomial"):
            diverse = settings({"objective": "diversity", "sampler": "multinomial"})
            raise InputError(
                setting("solver") + " is for " + diverse, parameter="solver", value=self.solver, instead="leave it out"
            )
        if self.output_size is not None:
            if self.objective not in ("frequent", "kl"):
                raise InputError(
                    f"the objective {self.objective} chooses its size itself",
                    parameter="output_size",
                    value=self.output_size,
                    instead="leave out " + setting("output_size"),
                )
            if self.sampler == "multinomial" and self.output_size != floor(self.output_size):
                raise InputError(
                    "whole draws make a whole " + setting("output_size") + f", not {self.output_size:g}",
                    parameter="output_size",
                    value=self.output_size,
                )
        if self.noise_counts and (self.sampler != "multinomial" or self.objective != "size"):
            raise InputError(
                setting("noise_counts") + " is the paper's",
                parameter="noise_counts",
                value=True,
                instead="add " + settings({"sampler": "multinomial", "objective": "size"}),
            )

    def _check_options_of_other_samplers(self) -> None:
        """An option of another sampler is an error, not ignored."""
        individual = self.sampler == "individual"
        others = OF_PROGRAMS if individual else OF_INDIVIDUAL
        whose = "poisson or multinomial" if individual else "individual"
        for field in fields(self):
            if field.name in others and getattr(self, field.name) != field.default:
                raise InputError(
                    setting(field.name) + f" is for the sampler {whose}",
                    parameter=field.name,
                    value=getattr(self, field.name),
                    instead="choose that, or leave it out",
                )

    @cached_property
    def individual(self) -> Individual | None:
        """Does all the work, where rates are individual."""
        if self.sampler != "individual":
            return None
        return Individual(self.delta, self.epsilon, **{name: getattr(self, name) for name in OF_INDIVIDUAL})

    @property
    def _program(self) -> Sampler:
        assert self.sampler != "individual"
        return self.sampler

    @cached_property
    def b(self) -> Limit:
        """How far a user may be exposed: the natural logarithm of 1/(1 − the probability of appearing)."""
        return limit(inf if self.epsilon is None else self.epsilon, self.delta)

    def planned(self, log: SearchLog | int | None) -> Plan[SamplingSettings | IndividualSettings]:
        if self.individual is not None:
            return self.individual.planned(log)
        b = float(self.b)
        settings = SamplingSettings(
            objective=self.objective,
            sampler=self._program,
            exposure_limit=b,
            support=self.support if self.objective == "frequent" else None,
            output_size=self.output_size,
            noise_epsilon=self.noise_epsilon if self.noise_counts else None,
            most_change=self.most_change if self.noise_counts else None,
        )
        chance = self.delta if isinstance(self.b, LogOf) else min(self.delta, nextafter(-expm1(-b), 1.0))
        unit = unit_of(log)
        appears = f"a {unit} that is in the log appears in it with a probability of at most {at_most(chance)}"
        least = at_least_users(users_for_one(b))
        guarantee = Guarantee(
            notion="sampling-step",
            epsilon=0.0,
            delta=chance,
            neighbours="remove",
            proof="docs/guarantees/sampling.md",
            assumed_public=(
                least,
                COUNTS_X,
                "δ, where it was looked for in the log",
                "the figures of the record: of users and pairs, of the program's optimum, of the expected output",
            ),
            unprotected=(CHOSEN_FROM_THE_LOG,),
            caveats=(
                f"Of the sampling step, with the counts x taken as public, {appears}, and removing that {unit} "
                "changes nothing else.",
                f"The rows of one pseudonym are the true clicks of one {unit}.",
                *((NOISE_DOES_NOT_HELP,) if self.noise_counts else ()),
            ),
        )
        users = log.users if isinstance(log, SearchLog) else log
        if users is None:
            return Plan(self.method, "click", settings, guarantee, counts="occurrences")
        most = users * b
        return Plan(
            self.method,
            "click",
            settings,
            guarantee,
            figures={"users": users, "limit": most},
            advice=too_little(most),
            counts="occurrences",
        )

    def check(self, log: SearchLog) -> None:
        CLICK.check(log)
        require_something(log, float(self.b) if self.individual is None else self.individual.rate, self.delta)

    def publish(self, log: SearchLog, plan: Plan[Any], source: Source, progress: Progress) -> Published:
        if self.individual is not None:
            return self.individual.publish(log, plan, source, progress)
        progress("counting who clicked what")
        clicks = click_counts(log)
        if self.noise_counts:
            clicks = self._bounded(clicks, progress)
        counts = clicks.counts
        size, largest = self._output_size(counts, progress)
        solution = self._solved(counts, size, largest, progress)
        amounts = self._certified(counts, solution)
        if self.noise_counts:
            noise = DiscreteLaplace(self.most_change / self.noise_epsilon).sample(len(amounts), source)
            amounts = repair(counts, self._program, np.maximum(amounts + noise, 0), self.b)
        if len(exposed := violated(counts, self._program, amounts, self.b)):
            raise RuntimeError(f"{len(exposed)} users would be exposed by more than the limit; nothing was drawn")
        progress("drawing")
        units = UNITS if self.sampler == "poisson" else 1
        drawn = draw(self._program, amounts, source)
        table = tuples(clicks, drawn, pick_users(counts, drawn, source), log, source)
        loads = counts.exposure(self._program) @ (amounts / units)
        total = int(amounts.sum()) / units
        figures = {
            **({} if size is None else {"output_size": size}),
            "total": total if units > 1 else int(total),
            "limit": counts.users * float(self.b),
            "upper_bound": solution.upper_bound,
            "objective_value": solution.objective,
            "gap": solution.gap,
            **self._distance(counts, amounts),
            "users": counts.users,
            "pairs": counts.pairs,
            "users_published": len(set(table["user"].to_pylist())),
            "expected_users_exposed": float((-np.expm1(-loads)).sum()),
            "solver": solution.solver,
        }
        drawn_from = rates(clicks, amounts / units, log)
        advice = self._advice(counts.users * float(self.b), counts.pairs, size, total, table.num_rows)
        return Published({"data": table, "rates": drawn_from}, figures, advice)

    def _bounded(self, clicks: StagedClicks, progress: Progress) -> StagedClicks:
        """The paper's preprocessing: without users who move a count by more than d."""

        told_at = 0.0

        def report(done: int, users: int) -> None:
            nonlocal told_at
            if monotonic() >= told_at + 2:
                told_at = monotonic()
                progress(f"how much does one user matter? {done:,} of {users:,} users in a row may stay")

        kept = bound_effects(clicks.counts, self._program, self.b, self.most_change, progress=report)
        return StagedClicks(kept.counts, clicks.pairs, clicks.numbers[kept.pairs])

    def _solved(self, counts: ClickCounts, total: float | None, largest: Reals | None, progress: Progress) -> Solution:
        """The counts to draw, of that total if there is one; `largest` are counts that show that it fits."""
        if not counts.pairs:
            return Solution(np.zeros(0), 0.0, 0.0, "nothing to choose", 0.0)
        b = float(self.b)
        if self.objective == "diversity" and self.sampler == "multinomial":
            progress("choosing pairs")
            return self._diverse(counts)
        if total == 0:
            return Solution(np.zeros(counts.pairs), 0.0, 0.0, "nothing fits", 0.0)
        objective = self._objective(counts, total)
        if self.sampler == "poisson":
            solution = relax(counts, "poisson", objective, b, total=total, largest=largest, progress=progress)
        else:
            whole = None if total is None else int(total)
            solution = whole_draws(
                counts, objective, self.b, seconds=self.seconds, total=whole, largest=largest, progress=progress
            )
        return self._still_infrequent(solution, objective) if isinstance(objective, Frequent) else solution

    def _diverse(self, counts: ClickCounts) -> Solution:
        if self.solver == "spe":
            return diversity.spe(counts, self.b)
        if self.solver == "greedy":
            return diversity.greedy(counts, self.b)
        if self.solver == "lp-rounding":
            return diversity.lp_rounding(counts, self.b, self.seconds)
        if self.solver == "branch-and-bound":
            return diversity.branch_and_bound(counts, self.b, self.seconds)
        return diversity.best_within(counts, self.b, self.seconds)

    def _still_infrequent(self, solution: Solution, objective: Frequent) -> Solution:
        x = objective.still_infrequent(solution.x, self.support, whole=self.sampler == "multinomial")
        return replace(solution, x=x, objective=objective.value(x.astype(np.float64)))

    def _output_size(self, counts: ClickCounts, progress: Progress) -> tuple[float | None, Reals | None]:
        """|O|, asked for or chosen, and the counts that show that so much fits, where they had to be found."""
        if self.objective not in ("frequent", "kl") or self.output_size is not None or not counts.pairs:
            return self.output_size, None
        progress("how large can the output be?")
        part = counts if self.sampler == "poisson" else counts.only(drawable(counts, self.b))
        largest = relax(part, self._program, Size(), float(self.b), progress=progress)
        half = largest.objective / 2
        return (half if self.sampler == "poisson" else floor(half)), np.asarray(largest.x, np.float64)

    def _objective(self, counts: ClickCounts, total: float | None) -> Objective:
        if self.objective == "frequent":
            assert total is not None
            frequent = Frequent.of(counts, self.support, total)
            if not frequent.frequent.any():
                raise InputError(
                    f"no pair holds {self.support:g} of all clicks",
                    parameter="support",
                    value=self.support,
                    instead="try a smaller " + setting("support"),
                )
            return frequent
        if self.objective == "kl":
            return KL.of(counts)
        return Size() if self.objective == "size" else Diversity()

    def _distance(self, counts: ClickCounts, amounts: Integers) -> dict[str, float]:
        """Of the frequent pairs, from the log's relative supports to those of the output as large as it turned out.

        The objective's own value speaks of an output of the size asked for.
        """
        if self.objective != "frequent" or not amounts.sum():
            return {}
        shares = counts.totals / counts.size
        frequent = shares >= self.support
        return {"sum_of_distances": float(np.abs(amounts / amounts.sum() - shares)[frequent].sum())}

    def _advice(self, most: float, pairs: int, size: float | None, total: float, rows: int) -> str | None:
        """What to do where nothing, or less than was asked for, came out."""
        if not pairs:
            return (
                "No pair of query and url was clicked by two users, and others cannot be drawn. More users share more "
                "pairs; queries alone are shared more often: try the method zealous with the item query."
            )
        if most < 1:
            return too_little(most)
        if size is not None and total < size * REACHED:
            wish = "asked for" if self.output_size else "meant"
            instead = "the sampler poisson" if self.sampler == "multinomial" else "a smaller support"
            return (
                f"The output is {total:,.6g} tuples where {size:,.6g} were {wish}: {self._why_fewer()} "
                f"Try a smaller output size, or {instead}."
            )
        if total == 0:
            return (
                "No whole draw was found that exposes none of its users beyond the limit. Draws of the sampler poisson "
                "need not be whole; or try a larger δ."
            )
        if not rows:
            return (
                f"Chance drew nothing: {total:.3g} tuples were expected. A larger δ makes for more; drawing "
                "again until something comes out would expose users more than is promised."
            )
        return None

    def _why_fewer(self) -> str:
        if self.objective == "frequent":
            return "more draws would make infrequent pairs frequent, or move frequent ones further from their share."
        return "no further whole draw was found to fit within the limit."

    def _certified(self, counts: ClickCounts, solution: Solution) -> Integers:
        """Whole draws, or amounts in units that can be judged exactly, lowered where a solver went too far."""
        poisson = self.sampler == "poisson"
        x = quantize(solution.x.astype(np.float64)) if poisson else solution.x.astype(np.int64)
        return repair(counts, self._program, x, self.b)


def smallest_exposure(
    log: SearchLog,
    *,
    sampler: Sampler = "poisson",
    size: float | None = None,
    recall: float | None = None,
    support: float = Sampling.support,
    seconds: float = SECONDS,
    progress: Progress = silent,
) -> Breach:
    """The smallest b, with its δ, for a wanted size of the output, or for a wanted share of the frequent pairs.

    Each b that is tried with whole draws gets so many seconds.
    """
    if (size is None) == (recall is None):
        wanted = setting("size", Blank("N"), of="wanted") + " or " + setting("recall", Blank("SHARE"), of="wanted")
        raise InputError("say what is wanted: " + wanted)
    CLICK.check(log)
    counts = click_counts(log).counts
    if size is not None:
        found = for_size(counts, sampler, size, seconds=seconds, progress=progress)
    else:
        assert recall is not None
        found = for_recall(counts, sampler, support, recall, seconds=seconds, progress=progress)
    if found.delta == 1:
        raise InputError("so much needs users who appear for certain (δ = 1); ask for less")
    return found
