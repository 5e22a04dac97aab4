"""Paper mode: CELS as Hong et al. 2014 published it, to compare with; parties are threads of one process.

Its outside solver can read every count (erratum C1), so it runs in a simulation alone and warns.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from searchveil.collab import opening
from searchveil.collab.joint import ONE_PARTY
from searchveil.collab.paper_party import SOLVER, LocalClicks, Outcome, PaperParty, Solver
from searchveil.collab.paper_program import Goal
from searchveil.collab.paper_wire import End, Stopped, Wire
from searchveil.collab.simulate import Simulated, Simulation
from searchveil.errors import InputError
from searchveil.items import CLICK
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.progress import Progress, silent
from searchveil.publish.mechanism import require_separate_rows, require_two_users
from searchveil.publish.plan import Plan, Settings
from searchveil.publish.release import Release
from searchveil.publish.sampling import Sampling

WARNING = (
    "Paper mode does not keep the parties' logs from each other: the outside solver P0 can compute every count of "
    "every user from what it is sent (docs/errata.md, C1), and all parties see all pairs with their totals (C2)."
)
UNPROTECTED = (
    "from P0: how often each user clicked each shared pair, exactly, up to the names of users and pairs (C1)",
    "from every party: all pairs of all parties with their total counts, and which party has a pair that a single user "
    "holds (C2); of two parties each learns the counts of the other",
    "from every party and P0: how many users each party, or all together, have on shared pairs",
)
CAVEATS = (
    "CELS as Hong et al. 2014 published it, simulated in one process: do not use it for logs that matter.",
    WARNING,
    "P0 has to be trusted with all logs, and every party with the pairs of all others.",
)


@dataclass(frozen=True, kw_only=True)
class PaperSettings(Settings):
    objective: Goal
    exposure_limit: float
    parties: int

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": "paper",
            "sampler": "multinomial",
            "objective": self.objective,
            "exposure_limit": self.exposure_limit,
            "parties": self.parties,
        }


@dataclass(frozen=True)
class PaperSimulation:
    """`epsilon` and `delta` as the paper has them: the limit is b = min(ε/2, ln 1/(1−δ))."""

    parties: int
    epsilon: float
    delta: float
    objective: Goal = "kl"

    def __post_init__(self) -> None:
        if self.objective not in get_args(Goal):
            raise InputError(
                f"paper mode has no objective {self.objective}",
                parameter="objective",
                value=self.objective,
                instead="choose from " + ", ".join(get_args(Goal)),
            )
        _ = self.alone, self.split  # which check the rest

    @property
    def alone(self) -> Sampling:
        """The same by one owner, to compare with; it knows the limit and what the sampling step promises."""
        return Sampling(self.delta, self.epsilon / 2, objective=self.objective, sampler="multinomial", seconds=1.0)

    @property
    def split(self) -> Simulation:
        return Simulation(self.parties, {})

    def plan(self, log: SearchLog) -> Plan[PaperSettings]:
        """What the sampler multinomial promises of the sampling step, but for the least users: no party knows them.

        The trust is central, as there: P0 can compute what an owner of all logs would hold.
        """
        one = self.alone.plan(log)
        public = ("that the log of each party has at least two users", ONE_PARTY, *one.guarantee.assumed_public[1:])
        guarantee: Guarantee = replace(
            one.guarantee,
            proof="docs/collab.md#paper-mode",
            assumed_public=public,
            unprotected=(*one.guarantee.unprotected, *UNPROTECTED),
            caveats=(*one.guarantee.caveats, *CAVEATS),
        )
        settings = PaperSettings(objective=self.objective, exposure_limit=float(self.alone.b), parties=self.parties)
        return Plan("collab-paper", "click", settings, guarantee, counts="occurrences")

    def run(self, log: SearchLog, out: Path, *, progress: Progress = silent) -> Simulated:
        CLICK.check(log)
        require_separate_rows(log)
        progress(f"splitting the log by user into {self.parties}")
        parts = self.split.split(log)
        for part in parts.values():
            require_two_users(part)
        clicks = {name: LocalClicks.of(part) for name, part in parts.items()}
        start = time.monotonic()
        ran = PaperRun.of(clicks, self.alone, progress)
        seconds = time.monotonic() - start
        release = _release(self.plan(log), ran.outcome)
        progress("writing the folder")
        release.write(out)
        progress("making the central release and the local ones")
        central, *local = [self._rows_alone(one) for one in (log, *parts.values())]
        plan = release.plan.to_json()
        return Simulated(release.table.num_rows, central, local, seconds, ran.bytes, ran.seconds, out, plan)

    def _rows_alone(self, log: SearchLog) -> int:
        try:
            return self.alone.release(log).table.num_rows
        except InputError:
            return 0


@dataclass(frozen=True)
class PaperRun:
    """One run of the protocol: what all parties have at the end, what it took, and the solver with what it saw."""

    outcome: Outcome
    solver: Solver
    bytes: int
    seconds: dict[str, float]

    @classmethod
    def of(cls, clicks: "dict[str, LocalClicks]", rule: Sampling, progress: Progress = silent) -> "PaperRun":
        """Every party and P0 as a thread. The first error of any of them ends all."""
        wire, ring = Wire(), list(clicks)
        ends = {name: End(wire, name, progress if name == ring[0] else silent) for name in ring}
        goal: Goal = "size" if rule.objective == "size" else "kl"
        solver = Solver(End(wire, SOLVER), ring, goal)
        parties = [PaperParty(ends[name], ring, clicks[name], rule.b) for name in ring]
        outcomes = _together(wire, [party.run for party in parties], solver.run)
        first = outcomes[0]
        if any(other.rows != first.rows or other.pairs != first.pairs for other in outcomes):
            raise RuntimeError("the parties do not have the same output")
        return cls(first, solver, wire.bytes, ends[ring[0]].seconds)


def _together(wire: Wire, parties: "list[Callable[[], Outcome]]", solver: Callable[[], None]) -> list[Outcome]:
    with ThreadPoolExecutor(len(parties) + 1) as pool:
        try:
            futures = [pool.submit(_until_stopped, wire, work) for work in parties]
            last = pool.submit(_until_stopped, wire, solver)
            wait([*futures, last])
        finally:
            wire.stop()
    problems = [one.exception() for one in (*futures, last)]
    for problem in problems:
        if problem is not None and not isinstance(problem, Stopped):
            raise problem
    return [future.result() for future in futures]


def _until_stopped(wire: Wire, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException:
        wire.stop()
        raise


def _release(plan: Plan[PaperSettings], outcome: Outcome) -> Release:
    """The tables that the sampler multinomial publishes too: the tuples, and the draws of each pair."""
    texts = [opening.decoded(pair, 2) for pair in outcome.pairs]
    numbers = {one: i for i, one in enumerate(sorted({row[0] for row in outcome.rows}), start=1)}
    strings = {"query": 0, "url": 1}
    data = pa.table(
        {
            "user": pa.array([numbers[user] for user, _, _ in outcome.rows], pa.int64()),
            **{
                name: pa.array([texts[pair][i] for _, pair, _ in outcome.rows], pa.string())
                for name, i in strings.items()
            },
            "count": pa.array([times for _, _, times in outcome.rows], pa.int64()),
        }
    ).sort_by([("user", "ascending"), ("query", "ascending"), ("url", "ascending")])
    drawn = [i for i, n in enumerate(outcome.draws.tolist()) if n]
    rates = pa.table(
        {
            **{name: pa.array([texts[pair][i] for pair in drawn], pa.string()) for name, i in strings.items()},
            "draws": pa.array([float(outcome.draws[i]) for i in drawn], pa.float64()),
        }
    ).sort_by([("query", "ascending"), ("url", "ascending")])
    total = int(outcome.draws.sum())
    figures = {
        **({} if outcome.output_size is None else {"output_size": outcome.output_size}),
        "total": total,
        "limit": outcome.users * plan.settings.exposure_limit,
        "upper_bound": outcome.upper_bound,
        "users": outcome.users,
        "pairs": len(outcome.pairs),
        "users_published": len(numbers),
    }
    advice = None if total else "No whole draw fits within the limit. A larger δ, or more users, make for more."
    return Release({"data": data, "rates": rates}, replace(plan, figures=figures, advice=advice))
