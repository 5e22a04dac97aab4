"""The audit of lab/ on joint releases: the right ones are not refuted, and their mutants are.

`Joint` does what the parties of one run do together, with their own functions, but without the wire between them: what
takes hundreds of releases. Users are bounded one by one, so the sum of the parties' counts is the count of all their
users at once. `Simulated` is the real thing, every party a process.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from forks import LIMIT, Fork
from keyed import keyed

from searchveil.collab.agreement import Agreement, CoordinatorPlace
from searchveil.collab.histogram import local_histogram
from searchveil.collab.opening import decoded
from searchveil.collab.simulate import Simulation, arguments_of
from searchveil.lab.audit import audit
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.privacy.noise_shares import NoiseShare, joint_delta, joint_threshold
from searchveil.progress import Progress
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Plan
from searchveil.publish.release import Release
from searchveil.publish.zealous import Zealous
from searchveil.scratch import Scratch


@dataclass(frozen=True)
class Joint(Zealous):
    """What outsiders see of a joint release: all parties' shares are in it, and T is calibrated for that."""

    parties: ClassVar[int] = 3
    collusion: ClassVar[int] = 1

    def planned(self, log: SearchLog | int | None) -> Plan:
        plan = super().planned(log)
        selection = replace(plan.settings.selection, threshold=self.smallest(plan.settings.selection.noise_scale))
        return replace(plan, settings=replace(plan.settings, selection=selection))

    def smallest(self, scale: float) -> int:
        return joint_threshold(scale, self.delta, self.per_user, self.parties, self.collusion)

    def shares(self, scale: float) -> list[NoiseShare]:
        return [NoiseShare(scale, self.parties - self.collusion)] * self.parties

    def kept(self) -> int:
        return self.per_user

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        selection = plan.settings.selection
        histogram = local_histogram(log, self.agreement(), source)
        order = sorted(range(len(histogram.items)), key=histogram.items.__getitem__)
        items, totals = [histogram.items[i] for i in order], histogram.counts[order]
        for share in self.shares(selection.noise_scale):
            totals = totals + share.sample(len(items), source)
        rows = [(decoded(items[i], 1)[0], int(totals[i])) for i in np.flatnonzero(totals >= selection.threshold)]
        rows.sort(key=lambda row: (-row[1], row[0]))
        columns = {"query": pa.array([query for query, _ in rows], pa.string())}
        return Published({"data": pa.table({**columns, "count": pa.array([total for _, total in rows], pa.int64())})})

    def agreement(self) -> Agreement:
        names = [f"p{i}" for i in range(self.parties)]
        return Agreement(
            item="query",
            per_user=self.kept(),
            epsilon=self.epsilon,
            delta=self.delta,
            collusion=self.collusion,
            coordinator=CoordinatorPlace(address="localhost:1", certificate="sha256:" + "f" * 64),
            parties={name: f"sha256:{i:064x}" for i, name in enumerate(names)},
        )


@dataclass(frozen=True)
class SeenByAParty(Joint):
    """Three of four parties take their own shares off: that of the other must be enough."""

    parties: ClassVar[int] = 4
    collusion: ClassVar[int] = 3

    def smallest(self, scale: float) -> int:
        return joint_threshold(scale, self.delta, self.per_user, self.parties - self.collusion, 0)

    def shares(self, scale: float) -> list[NoiseShare]:
        return super().shares(scale)[: self.parties - self.collusion]


@dataclass(frozen=True)
class ShareTooLittle(SeenByAParty):
    """Shares that are enough if nobody colludes."""

    def shares(self, scale: float) -> list[NoiseShare]:
        return [NoiseShare(scale, self.parties)] * (self.parties - self.collusion)


@dataclass(frozen=True)
class CentralThreshold(Joint):
    """T of one publisher, whose noise is less than that of twelve parties who mistrust each other."""

    parties: ClassVar[int] = 12
    collusion: ClassVar[int] = 11

    def smallest(self, scale: float) -> int:
        return joint_threshold(scale, self.delta, self.per_user, 1, 0)


@dataclass(frozen=True)
class BoundedTooLate(Joint):
    """All items of a user are counted and go around the ring; whatever is bounded afterwards is too late."""

    def kept(self) -> int:
        return 1000


@dataclass(frozen=True)
class Simulated(Joint):
    """The release of `collab simulate`; without the wire only where the audit switches the noise off."""

    parties: ClassVar[int] = 2

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        if plan != self.plan(log):
            return super().publish(log, plan, source, progress)
        settings = {"method": "zealous", "item": "query", "per_user": self.per_user, "collusion": self.collusion}
        settings |= {"epsilon": self.epsilon, "delta": self.delta, "deadline": LIMIT}
        with Scratch() as place:
            made = Release.read(Simulation(self.parties, settings).joint(log, place).folder)
            tables = dict(made.tables)  # read before the folder goes
        assert made.plan.parameters["second_threshold"] == plan.settings.selection.threshold
        ran.append(tables["data"].num_rows)
        return Published(tables)


ran: list[int] = []


def forked(self: Simulation, place: Path, name: str, log: Path | None, normalize: str) -> Fork:
    return Fork(["collab", *arguments_of(name, log, normalize)], place, [place / f"{name}.json", place / f"{name}.err"])


@pytest.mark.slow
def test_releases_of_simulate_are_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real noise, whose key nobody fixes: a false alarm once in a million times."""
    monkeypatch.setattr(Simulation, "_start", forked)
    ran.clear()
    mechanism = Simulated(0.25, 0.05, per_user=1)
    report = audit(mechanism, runs=46, canaries=["far"], confidence=0.999, source=keyed(b"joint"))
    assert len(ran) == 46
    assert max(ran) > 0
    assert report.verdict == "not refuted", str(report)


@pytest.mark.slow
def test_what_a_coalition_sees_is_not_refuted() -> None:
    report = audit(
        SeenByAParty(0.5, 0.05, per_user=1),
        runs=45,
        canaries=["far", "unique"],
        confidence=0.99,
        source=keyed(b"joint"),
    )
    assert report.verdict == "not refuted", str(report)


MUTANTS = {
    "a share too little": (ShareTooLittle(0.5, 0.02, per_user=1), 240, ["far"]),
    "the threshold of one publisher": (CentralThreshold(0.5, 0.02, per_user=1), 300, ["unique"]),
    "bounded after the ring": (BoundedTooLate(0.5, 0.1, per_user=1), 60, ["flood"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_refuted(name: str) -> None:
    mechanism, runs, canaries = MUTANTS[name]
    report = audit(mechanism, runs=runs, canaries=canaries, source=keyed(name.encode()))
    assert report.refuted, str(report)


def test_the_threshold_of_one_publisher_breaks_delta_by_much() -> None:
    central = CentralThreshold(0.5, 0.02, per_user=1)
    assert joint_delta(2.0, 1, 12, 11, central.smallest(2.0)) > 10 * 0.02
