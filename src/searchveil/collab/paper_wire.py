"""How the parties of the paper's protocol and its solver talk: whole byte strings between every two of them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from searchveil.collab.link import Bar, Link, no_bar
from searchveil.collab.messages import Phase, Refused
from searchveil.collab.transcript import Transcript
from searchveil.progress import Progress, silent

V = TypeVar("V")
W = TypeVar("W")

MOST_ITEMS = 2**20  # of all parties in a union; it takes hours
DIGITS = 22  # bytes of a whole number of 64 bits in a list
NEWS_AFTER = 200  # values; fewer are done before anybody asks


class End(ABC):
    """One end of the wire: the party or solver whose program it serves."""

    name: str
    progress: Progress = staticmethod(silent)
    bar: Bar = staticmethod(no_bar)

    @abstractmethod
    def phase(self, name: Phase, in_words: str = "") -> None:
        """What is sent and received from here on belongs to this phase."""

    @abstractmethod
    def send(self, to: str, topic: str, payload: bytes) -> None: ...

    @abstractmethod
    def receive(self, sender: str, topic: str, *, most: int) -> bytes:
        """What was sent, of at most so many bytes."""

    @abstractmethod
    def check(self) -> None:
        """Raise what ends the program, if the run has ended elsewhere."""

    def tell(self, others: Iterable[str], topic: str, payload: bytes) -> None:
        for other in others:
            self.send(other, topic, payload)

    def each(self, values: Sequence[V], work: Callable[[V], W], what: str = "") -> list[W]:
        """What takes milliseconds for each of many values; it ends early where the run does."""
        done = []
        for number, value in enumerate(values):
            self.check()
            if what and len(values) > NEWS_AFTER:
                self.bar(what, number, len(values))
            done.append(work(value))
        return done


class LinkEnd(End):
    """Of a party, over its link: sealed to other parties, under TLS alone to the coordinator, who is the solver."""

    def __init__(self, link: Link, transcript: Transcript, progress: Progress) -> None:
        self.link, self.name, self.transcript, self.progress = link, link.name, transcript, progress
        self.bar = link.bar
        self._phase: Phase = "keys"

    def phase(self, name: Phase, in_words: str = "") -> None:
        self._phase = name
        self.transcript.phase(name)
        if in_words:
            self.progress(in_words)

    def send(self, to: str, topic: str, payload: bytes) -> None:
        self.link.send(to, self._phase, topic, payload)

    def receive(self, sender: str, topic: str, *, most: int) -> bytes:
        return self.link.receive(sender, self._phase, topic, most=most, expected=most)

    def check(self) -> None:
        self.link.check()


def numbers_to_bytes(numbers: Sequence[int], width: int) -> bytes:
    return b"".join(int(number).to_bytes(width, "big") for number in numbers)


def numbers_from_bytes(raw: bytes, width: int) -> list[int]:
    if len(raw) % width:
        raise Refused("numbers that are cut off")
    return [int.from_bytes(raw[i : i + width], "big") for i in range(0, len(raw), width)]


def of_numbers(count: int) -> int:
    """How many bytes a list of so many whole numbers has at most."""
    return 2 + DIGITS * count


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
