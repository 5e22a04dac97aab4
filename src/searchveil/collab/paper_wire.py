"""How the parties of the paper's protocol talk: threads of one process that share nothing but messages of bytes."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Event, Lock
from typing import Any, TypeVar

from searchveil.progress import Progress, silent

V = TypeVar("V")
W = TypeVar("W")


class Stopped(Exception):  # noqa: N818 (not an error of its own: another thread has one)
    """The run ended elsewhere."""


class Wire:
    """A channel between every two; what is sent on it is counted."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], SimpleQueue[tuple[str, bytes] | None]] = defaultdict(SimpleQueue)
        self._lock = Lock()
        self._stop = Event()
        self.bytes = 0  # sent, and received: twice the length of every message

    def put(self, sender: str, to: str, topic: str, payload: bytes) -> None:
        with self._lock:
            self.bytes += 2 * len(payload)
            self._queues[sender, to].put((topic, payload))

    def get(self, sender: str, to: str) -> tuple[str, bytes]:
        with self._lock:
            queue = self._queues[sender, to]
            if self._stop.is_set():
                raise Stopped
        message = queue.get()
        if message is None:
            raise Stopped
        return message

    def stop(self) -> None:
        """Nobody waits any longer."""
        with self._lock:
            self._stop.set()
            for queue in self._queues.values():
                queue.put(None)

    def check(self) -> None:
        if self._stop.is_set():
            raise Stopped


class End:
    """One party's end of the wire, with the seconds that each of its phases took."""

    def __init__(self, wire: Wire, name: str, progress: Progress = silent) -> None:
        self.wire, self.name, self.progress = wire, name, progress
        self.seconds: dict[str, float] = {}
        self._since: tuple[str, float] | None = None

    def phase(self, name: str, in_words: str = "") -> None:
        now = time.monotonic()
        if self._since is not None:
            before, since = self._since
            self.seconds[before] = now - since
        self._since = (name, now)
        if in_words:
            self.progress(in_words)

    def send(self, to: str, topic: str, payload: bytes) -> None:
        self.wire.put(self.name, to, topic, payload)

    def receive(self, sender: str, topic: str) -> bytes:
        said, payload = self.wire.get(sender, self.name)
        if said != topic:
            raise RuntimeError(f"{sender} sent {said} where {self.name} waits for {topic}")
        return payload

    def tell(self, others: Iterable[str], topic: str, payload: bytes) -> None:
        for other in others:
            self.send(other, topic, payload)

    def each(self, values: Iterable[V], work: Callable[[V], W]) -> list[W]:
        """What takes milliseconds for each of many values; it ends early where the run does."""
        done = []
        for value in values:
            self.wire.check()
            done.append(work(value))
        return done


def numbers_to_bytes(numbers: Sequence[int], width: int) -> bytes:
    return b"".join(int(number).to_bytes(width, "big") for number in numbers)


def numbers_from_bytes(raw: bytes, width: int) -> list[int]:
    return [int.from_bytes(raw[i : i + width], "big") for i in range(0, len(raw), width)]


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
