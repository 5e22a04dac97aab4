"""Paper mode: CELS as Hong et al. 2014 published it, to compare with. The coordinator is the paper's solver P0.

P0 can read every count (erratum C1), so this mode warns on screen and in the record.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from searchveil.collab import opening
from searchveil.collab.agreement import Agreement, RunFile
from searchveil.collab.coordinator import Coordinator
from searchveil.collab.identity import Identity
from searchveil.collab.joint import ONE_PARTY
from searchveil.collab.member import Member
from searchveil.collab.messages import Phase, Refused, RunEnded
from searchveil.collab.paper_party import LocalClicks, Outcome, PaperParty, Solver
from searchveil.collab.paper_wire import End, LinkEnd
from searchveil.collab.party import Party
from searchveil.log import SearchLog
from searchveil.optimize.objectives import Goal
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.plan import Plan, Settings, given
from searchveil.publish.sampling import Sampling

WARNING = (
    "Paper mode does not keep the parties' logs from each other: the outside solver P0, which is the coordinator, can "
    "compute every count of every user from what it is sent (docs/errata.md, C1), and all parties see all pairs with "
    "their totals (C2)."
)
UNPROTECTED = (
    "from P0: how often each user clicked each shared pair, exactly, and which party each user belongs to; only names "
    "are missing, and users of a party are in the order of their names (C1)",
    "from every party: all pairs of all parties with their total counts, and which party has a pair that a single user "
    "holds (C2); of two parties each learns the counts of the other, and two on both sides of a third in the ring "
    "learn its counts",
    "from the first party: how many pairs any set of parties has in common, and how many rows of each are drawn",
    "from every party and P0: how many users each party, or all together, have on shared pairs, how many pairs each "
    "party has, and when each sends its messages",
)
CAVEATS = (
    "CELS as Hong et al. 2014 published it: do not use it for logs that matter.",
    WARNING,
    "P0 has to be trusted with all logs, and every party with the pairs of all others.",
)


MALFORMED = (ValueError, TypeError, LookupError, ArithmeticError)  # what numbers and lists of others' making may raise


@dataclass(frozen=True, kw_only=True)
class PaperSettings(Settings):
    objective: Goal
    support: float | None = None
    exposure_limit: float
    parties: int
    run: str

    def to_json(self) -> dict[str, Any]:
        return given(
            mode="paper",
            sampler="multinomial",
            objective=self.objective,
            support=self.support,
            exposure_limit=self.exposure_limit,
            parties=self.parties,
            run=self.run,
        )


def by_one_owner(epsilon: float, delta: float, objective: Goal | None = None, support: float | None = None) -> Sampling:
    """The same by one owner, to compare with; it knows the limit and what the sampling step promises.

    `epsilon` and `delta` as the paper has them: the limit is b = min(ε/2, ln 1/(1−δ)).
    """
    support = Sampling.support if support is None else support
    return Sampling(
        delta, epsilon / 2, objective=objective or "kl", support=support, sampler="multinomial", seconds=1.0
    )


def rule_of(agreement: Agreement) -> Sampling:
    return by_one_owner(agreement.epsilon, agreement.delta, agreement.objective, agreement.support)


def paper_plan(agreement: Agreement, run: str) -> Plan[PaperSettings]:
    """What the sampler multinomial promises of the sampling step, but for the least users: no party knows them.

    The trust is central, as there: P0 can compute what an owner of all logs would hold.
    """
    rule = rule_of(agreement)
    one = rule.planned(None)
    public = ("that the log of each party has at least two users", ONE_PARTY, *one.guarantee.assumed_public[1:])
    guarantee: Guarantee = replace(
        one.guarantee,
        proof="docs/collab.md#paper-mode",
        assumed_public=public,
        unprotected=(*one.guarantee.unprotected, *UNPROTECTED),
        caveats=(*one.guarantee.caveats, *CAVEATS),
    )
    settings = PaperSettings(
        objective=rule.objective,
        support=rule.support if rule.objective == "frequent" else None,
        exposure_limit=float(rule.b),
        parties=len(agreement.parties),
        run=run,
    )
    return Plan("collab-paper", "click", settings, guarantee, counts="occurrences")


class PaperMember(Member):
    plan: Plan[PaperSettings]

    def __init__(self, log: SearchLog, identity: Identity, run: RunFile, **given: Any) -> None:
        super().__init__(log, identity, run, **given)
        self.plan = paper_plan(self.agreement, run.hash)

    def _to_pay(self) -> Guarantee:
        return self.plan.guarantee

    def _together(self) -> dict[str, pa.Table]:
        self._tell_about(b"")
        self._phase("count", "counting the clicks of each user")
        clicks = LocalClicks.of(self.log)
        end = LinkEnd(self.link, self.transcript, self.progress)
        names, solver = self.agreement.names, self.agreement.coordinator.name
        try:
            outcome = PaperParty(end, names, solver, clicks, rule_of(self.agreement).b, self.source).run()
            tables = tables_of(outcome)
        except MALFORMED as problem:
            raise Refused(f"what another party or the solver sent is malformed ({type(problem).__name__})") from problem
        self.plan = told_of(self.plan, outcome, tables)
        return tables


def member_of(run: RunFile) -> type[Member]:
    """The program of a party in the mode of this run."""
    return PaperMember if run.agreement.mode == "paper" else Party


class SolverEnd(End):
    """Of P0, in a thread beside the coordinator's server."""

    def __init__(self, coordinator: Coordinator, loop: asyncio.AbstractEventLoop) -> None:
        self.coordinator, self.loop, self.progress = coordinator, loop, coordinator.progress
        self.name = coordinator.agreement.coordinator.name
        self._phase: Phase = "transform"

    def phase(self, name: Phase, in_words: str = "") -> None:
        self._phase = name
        self.coordinator.transcript.phase(name)
        if in_words:
            self.progress(in_words)

    def send(self, to: str, topic: str, payload: bytes) -> None:
        self.check()
        self.loop.call_soon_threadsafe(self.coordinator.send, to, self._phase, topic, payload)

    def receive(self, sender: str, topic: str, *, most: int) -> bytes:
        collecting = self.coordinator.collect(sender, self._phase, topic, most=most)
        coming = asyncio.run_coroutine_threadsafe(collecting, self.loop)
        try:
            return coming.result()
        except CancelledError:
            raise RunEnded("the coordinator was stopped") from None

    def check(self) -> None:
        if self.coordinator.reason is not None:
            raise RunEnded(self.coordinator.reason)


async def solve(coordinator: Coordinator) -> None:
    """P0's part of a run."""
    end = SolverEnd(coordinator, asyncio.get_running_loop())
    rule = rule_of(coordinator.agreement)
    solver = Solver(end, coordinator.agreement.names, rule.objective, rule.support)
    try:
        await asyncio.to_thread(solver.run)
    except MALFORMED as problem:
        raise Refused(f"what the parties sent to the solver is malformed ({type(problem).__name__})") from problem


def tables_of(outcome: Outcome) -> dict[str, pa.Table]:
    """The tables that the sampler multinomial publishes too: the tuples, and the draws of each pair."""
    texts = [opening.decoded(pair, 2) for pair in outcome.pairs]
    numbers = {one: i for i, one in enumerate(sorted({row[0] for row in outcome.rows}), start=1)}
    data = pa.table(
        {
            "user": pa.array([numbers[user] for user, _, _ in outcome.rows], pa.int64()),
            **_query_and_url([texts[pair] for _, pair, _ in outcome.rows]),
            "count": pa.array([times for _, _, times in outcome.rows], pa.int64()),
        }
    ).sort_by([("user", "ascending"), ("query", "ascending"), ("url", "ascending")])
    drawn = outcome.draws.nonzero()[0]
    rates = pa.table(
        {
            **_query_and_url([texts[pair] for pair in drawn]),
            "draws": pa.array(outcome.draws[drawn].astype(float), pa.float64()),
        }
    ).sort_by([("query", "ascending"), ("url", "ascending")])
    return {"data": data, "rates": rates}


def _query_and_url(pairs: Sequence[Sequence[str]]) -> "dict[str, pa.Array[Any]]":
    return {name: pa.array([pair[i] for pair in pairs], pa.string()) for i, name in enumerate(("query", "url"))}


def told_of(plan: Plan[PaperSettings], outcome: Outcome, tables: dict[str, pa.Table]) -> Plan[PaperSettings]:
    total = int(outcome.draws.sum())
    figures = {
        **({} if outcome.output_size is None else {"output_size": outcome.output_size}),
        "total": total,
        "limit": outcome.users * plan.settings.exposure_limit,
        "upper_bound": outcome.upper_bound,
        "users": outcome.users,
        "pairs": len(outcome.pairs),
        "users_published": len(tables["data"]["user"].unique()),
    }
    advice = None if total else "No whole draw fits within the limit. A larger δ, or more users, make for more."
    return replace(plan, figures=figures, advice=advice)
