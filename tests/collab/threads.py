"""The programs of paper mode as threads of one process, which share nothing but messages of bytes."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Lock
from typing import Any

from searchveil.collab.messages import RunEnded
from searchveil.collab.paper_party import LocalClicks, Outcome, PaperParty, Solver
from searchveil.collab.paper_wire import End
from searchveil.publish.sampling import Sampling

SOLVER = "P0"


class Wire:
    """A channel between every two."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], SimpleQueue[tuple[str, str, bytes] | None]] = defaultdict(SimpleQueue)
        self._lock = Lock()
        self._stop = Event()
        self.bytes = 0

    def put(self, sender: str, to: str, phase: str, topic: str, payload: bytes) -> None:
        with self._lock:
            self.bytes += len(payload)
            self._queues[sender, to].put((phase, topic, payload))

    def get(self, sender: str, to: str) -> tuple[str, str, bytes]:
        with self._lock:
            queue = self._queues[sender, to]
            self.check()
        message = queue.get()
        if message is None:
            raise RunEnded("stopped")
        return message

    def stop(self) -> None:
        """Nobody waits any longer."""
        with self._lock:
            self._stop.set()
            for queue in self._queues.values():
                queue.put(None)

    def check(self) -> None:
        if self._stop.is_set():
            raise RunEnded("stopped")


class WireEnd(End):
    def __init__(self, wire: Wire, name: str) -> None:
        self.wire, self.name, self._phase = wire, name, ""

    def phase(self, name: str, in_words: str = "") -> None:
        self._phase = name

    def send(self, to: str, topic: str, payload: bytes) -> None:
        self.wire.put(self.name, to, self._phase, topic, payload)

    def receive(self, sender: str, topic: str, *, most: int) -> bytes:
        phase, said, payload = self.wire.get(sender, self.name)
        assert (phase, said) == (self._phase, topic)
        assert len(payload) <= most
        return payload

    def check(self) -> None:
        self.wire.check()


@dataclass(frozen=True)
class PaperRun:
    """One run of the protocol: what all parties have at the end, and the solver with what it saw."""

    outcome: Outcome
    solver: Solver
    bytes: int

    @classmethod
    def of(cls, clicks: Mapping[str, LocalClicks], rule: Sampling) -> "PaperRun":
        """Every party and P0 as a thread. The first error of any of them ends all."""
        wire, ring = Wire(), list(clicks)
        solver = Solver(WireEnd(wire, SOLVER), ring, rule.objective, rule.support)
        parties = [PaperParty(WireEnd(wire, name), ring, SOLVER, clicks[name], rule.b) for name in ring]
        outcomes = _together(wire, [party.run for party in parties], solver.run)
        first = outcomes[0]
        assert all(other.rows == first.rows and other.pairs == first.pairs for other in outcomes)
        return cls(first, solver, wire.bytes)


def _together(wire: Wire, parties: list[Callable[[], Outcome]], solver: Callable[[], None]) -> list[Outcome]:
    def until_stopped(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except BaseException:
            wire.stop()
            raise

    with ThreadPoolExecutor(len(parties) + 1) as pool:
        futures = [pool.submit(until_stopped, work) for work in (*parties, solver)]
        wait(futures)
    for problem in [one.exception() for one in futures]:
        if problem is not None and not isinstance(problem, RunEnded):
            raise problem
    return [future.result() for future in futures[:-1]]
