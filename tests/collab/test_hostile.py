"""A coordinator or a party that does what the protocol does not allow: one clear line everywhere, nothing published.

What is bounded on the way in is bounded at the parties too: they do not trust the coordinator with their memory.
"""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import local
from typing import Any

import pytest
from consortium import Consortium, NoNoise
from cryptography.hazmat.primitives.asymmetric import x25519
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from test_refusals import LOGS, PAPER, assert_refused_everywhere, ledgers, run_with

from searchveil.collab import link as link_module
from searchveil.collab import ring
from searchveil.collab.agreement import RunFile
from searchveil.collab.coordinator import Coordinator
from searchveil.collab.member import Member, RunFailed
from searchveil.collab.messages import LARGEST, PART, Header, Refused
from searchveil.errors import InputError


async def far_too_much() -> AsyncIterator[bytes]:
    for _ in range(50):
        await asyncio.sleep(0.001)
        yield bytes(100_000)


class Endless(Coordinator):
    async def _give(self, request: Request) -> Response:
        self._sender(request)
        return StreamingResponse(far_too_much())


class Packed(Coordinator):
    """A kilobyte that would unpack to a gigabyte."""

    async def _give(self, request: Request) -> Response:
        self._sender(request)
        return Response(gzip.compress(bytes(LARGEST)), headers={"Content-Encoding": "gzip"})


class Malformed(Coordinator):
    async def _give(self, request: Request) -> Response:
        self._sender(request)
        return Response(b"\x00\x00\x00\x05hello")


class CutOff(Coordinator):
    async def _give(self, request: Request) -> Response:
        answer = await super()._give(request)
        return Response(answer.body[:-9]) if answer.status_code == 200 else answer


class Replayed(Coordinator):
    """The first message again and again; and so is every other one out of order."""

    async def _give(self, request: Request) -> Response:
        answer = await super()._give(request)
        if answer.status_code == 200:
            self.first = getattr(self, "first", {})
            key = (request.state.peer, request.path_params["sender"])
            answer = self.first.setdefault(key, answer)
        return answer


class Swapped(Coordinator):
    """Every party gets a message to another one."""

    async def _give(self, request: Request) -> Response:
        answer = await super()._give(request)
        if answer.status_code == 200:
            self.kept: list[Response] = [*getattr(self, "kept", []), answer]
            return self.kept[0]
        return answer


class Deep(Coordinator):
    async def _hellos(self, request: Request) -> Response:
        answer = await super()._hellos(request)
        return Response(b"[" * 2000) if answer.status_code == 200 else answer


COORDINATORS: dict[str, tuple[type[Coordinator], str]] = {
    "endless": (Endless, "the coordinator answered with more than 1,050,596 bytes"),
    "packed": (Packed, "cut off"),
    "malformed": (Malformed, "malformed header"),
    "cut off": (CutOff, "were announced"),
    "replayed": (Replayed, "belongs to another run, party or place"),
    "swapped": (Swapped, "belongs to another run, party or place"),
    "nested deeply": (Deep, "the coordinator passes on malformed keys"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COORDINATORS)
def test_answers_of_the_coordinator_that_are_not_as_agreed(kind: str, tmp_path: Path) -> None:
    hostile, says = COORDINATORS[kind]
    consortium = Consortium(tmp_path)
    paying = ledgers(consortium)
    coordinator = hostile(consortium.identities["coordinator"], RunFile(consortium.text))
    outcome = consortium.run(LOGS, coordinator=coordinator, of_party=lambda name: {"ledger": paying[name]})
    assert_refused_everywhere(outcome, says)


def test_a_run_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    """Before anything is paid."""

    class Long(Coordinator):
        async def _agreement(self, request: Request) -> Response:
            self._sender(request)
            return StreamingResponse(far_too_much())

    consortium = Consortium(tmp_path, 2)
    paying = ledgers(consortium)
    coordinator = Long(consortium.identities["coordinator"], RunFile(consortium.text))
    logs = {name: LOGS[name] for name in "ab"}
    outcome = consortium.run(logs, coordinator=coordinator, of_party=lambda name: {"ledger": paying[name]})
    outcome.assert_nothing_published()
    for name in consortium.names:
        assert "answered with more than 100,000 bytes to /v1/agreement" in str(outcome.failed[name])
        assert "nothing was paid" in str(outcome.failed[name])
        assert not paying[name].spent().entries


@pytest.mark.slow
def test_a_coordinator_that_cuts_every_answer_ends_at_the_deadline(tmp_path: Path) -> None:
    """It may be the line, so it is asked again; heartbeats that arrive do not make it wait for ever."""

    class Cutting(Coordinator):
        async def _give(self, request: Request) -> Response:
            answer = await super()._give(request)
            if answer.status_code == 200:
                return StreamingResponse(iter([answer.body[:50]]), headers={"Content-Length": f"{len(answer.body)}"})
            return answer

    consortium = Consortium(tmp_path, 2, settings={"deadline": 10, "silence": 20})
    coordinator = Cutting(consortium.identities["coordinator"], RunFile(consortium.text))
    outcome = consortium.run({name: LOGS[name] for name in "ab"}, coordinator=coordinator)
    outcome.assert_nothing_published()
    for name in "ab":
        assert "the deadline of 10 s has passed" in str(outcome.failed[name])


def test_what_the_coordinator_says_cannot_rewrite_a_terminal(tmp_path: Path) -> None:
    class Painting(Coordinator):
        def end(self, reason: str) -> None:
            super().end(reason)
            self.reason = "\x1b[2J" + "all is well\n" * 1000

    consortium = Consortium(tmp_path, 2)
    coordinator = Painting(consortium.identities["coordinator"], RunFile(consortium.text))
    parties = {name: consortium.party(name, LOGS[name]) for name in "ab"}
    parties["b"].link.send = no_message  # type: ignore[assignment]
    outcome = consortium.run({}, coordinator=coordinator, parties=parties)
    said = str(outcome.failed["a"])
    assert isinstance(outcome.failed["a"], RunFailed)
    assert said.isprintable()
    assert len(said) < 600


def no_message(*given: Any) -> None:
    raise Refused("it does not want to")


def test_a_run_file_of_another_is_shown_printable(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2)
    mine = RunFile(consortium.text)
    assert mine.differs_from("\x1b[2J" + consortium.text, "the coordinator").isprintable()


# --- a party ----------------------------------------------------------------------------------------------------------


def test_a_key_that_makes_no_secret_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The point 0, signed by its party as it should be: X25519 with it is 0, whatever the other key."""

    hers = local()  # of the thread of b, as the others make their keys at the same time

    def change(party: Member) -> None:
        honest = party.link.hello

        def hello() -> None:
            hers.zero = True
            honest()

        party.link.hello = hello  # type: ignore[method-assign]

    class Key:
        @staticmethod
        def generate() -> Any:
            return WithZero() if hasattr(hers, "zero") else x25519.X25519PrivateKey.generate()

    class WithZero:
        def public_key(self) -> Any:
            return self

        def public_bytes_raw(self) -> bytes:
            return bytes(32)

        def exchange(self, other: Any) -> bytes:
            return bytes(32)

    monkeypatch.setattr(link_module, "X25519PrivateKey", Key)
    outcome = run_with(Consortium(tmp_path), change)
    assert_refused_everywhere(outcome, "the key of b for this run is none")


Change = Callable[[bytes], bytes]
SENT_BY_A_PARTY: dict[str, tuple[str, Change, str]] = {  # topic, what it becomes, what is said
    "nothing about the log": ("group", lambda raw: raw[:10], "does not say what its log is about"),
    "deep": ("group", lambda raw: raw[:32] + b"[" * 15_000, "does not say what its log is about"),
    "ids not sorted": ("ids", lambda raw: raw[16:] + raw[:16], "not sorted"),
    "ids cut off": ("ids", lambda raw: raw[:-1], "cut off"),
    "another union": ("union", lambda raw: bytes(32), "do not see the same"),
    "fewer totals": ("totals", lambda raw: raw[:-8], "counts where there are"),
    "more totals": ("totals", lambda raw: raw + bytes(8), "more than"),
    "shares cut off": ("shares", lambda raw: raw[:-1], "not a whole number"),
    "shares not reduced": ("shares", lambda raw: b"\xff" * len(raw), "not reduced"),
    "fewer shares": ("shares", lambda raw: raw[:-32], "opens another number of items"),
    "another release": ("release", lambda raw: bytes(32), "their releases differ"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SENT_BY_A_PARTY)
def test_what_a_party_sends_is_looked_at(kind: str, tmp_path: Path) -> None:
    forged, becomes, says = SENT_BY_A_PARTY[kind]

    def change(party: Member) -> None:
        honest = party.link.send

        def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
            honest(recipient, phase, topic, becomes(payload) if topic == forged else payload)
            while topic == "release" == forged and recipient == party.link.others[-1]:
                party.link.check()  # the last step: it could finish before it hears that the others refused
                time.sleep(0.05)

        party.link.send = send  # type: ignore[method-assign]

    assert_refused_everywhere(run_with(Consortium(tmp_path), change), says)


@pytest.mark.slow
def test_a_liar_in_the_last_step_keeps_its_own_release_alone(tmp_path: Path) -> None:
    """As docs/collab.md says: it has what it needs by then. However late the others look, they refuse."""
    consortium = Consortium(tmp_path)
    paying = ledgers(consortium)
    parties = {name: consortium.party(name, LOGS[name], ledger=paying[name]) for name in consortium.names}
    coordinator = consortium.coordinator()

    def lying(honest: Any) -> Any:
        return lambda to, phase, topic, raw: honest(to, phase, topic, bytes(32) if topic == "release" else raw)

    def late(honest: Any, link: Any) -> Any:
        def receive(sender: str, phase: Any, topic: str, **given: Any) -> bytes:
            while topic == "release" and "b" not in coordinator.done:
                link.check()
                time.sleep(0.05)
            return bytes(honest(sender, phase, topic, **given))

        return receive

    for name, party in parties.items():
        if name == "b":
            party.link.send = lying(party.link.send)  # type: ignore[method-assign]
        else:
            party.link.receive = late(party.link.receive, party.link)  # type: ignore[method-assign]
    outcome = consortium.run(LOGS, coordinator=coordinator, parties=parties)
    assert set(outcome.joined) == {"b"}
    for name in "ac":
        assert isinstance(outcome.failed[name], RunFailed)
        assert "do not see the same: their releases differ" in str(outcome.failed[name])
        assert not (tmp_path / f"out-{name}").exists()


@pytest.mark.slow
def test_parts_that_are_not_full_are_refused(tmp_path: Path) -> None:
    """Empty ones for ever would keep everybody busy, and no limit of bytes would be reached."""

    def change(party: Member) -> None:
        def send_part(recipient: str, phase: Any, topic: str, piece: bytes, part: int, *, last: bool) -> None:
            honest(recipient, phase, topic, b"" if phase == "blind" else piece, part, last=last and phase != "blind")

        honest = party.link.send_part
        party.link.send_part = send_part  # type: ignore[method-assign]

    assert_refused_everywhere(run_with(Consortium(tmp_path), change), "b sent a part of blind/b that is not full")


@pytest.mark.slow
def test_points_without_an_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner does not mind: without a limit the others would multiply until the deadline."""
    monkeypatch.setattr(ring, "MOST_OF_A_PARTY", 2 * PART)
    receive_own = ring._receive_own

    def patient(link: Any, before: str, scalar: bytes, expected: int) -> Any:
        while link.name == "b":
            link.check()
            time.sleep(0.1)
        return receive_own(link, before, scalar, expected)

    monkeypatch.setattr(ring, "_receive_own", patient)

    def change(party: Member) -> None:
        def send_part(recipient: str, phase: Any, topic: str, piece: bytes, part: int, *, last: bool) -> None:
            if phase == "blind" and topic == "b":
                piece = (piece[:32] * (PART // 32))[:PART]
                for number in range(3):
                    honest(recipient, phase, topic, piece, number, last=False)
            else:
                honest(recipient, phase, topic, piece, part, last=last)

        honest = party.link.send_part
        party.link.send_part = send_part  # type: ignore[method-assign]

    outcome = run_with(Consortium(tmp_path, settings={"deadline": 200}), change)
    assert_refused_everywhere(outcome, "b passed on more than 2,097,152 bytes of points of b")


OPENED: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "another form of a text": (
        lambda texts: [one and [one[0], one[1].replace('["', '[ "')] for one in texts],
        "a text that no party sent",
    ),
    "texts at other places": (lambda texts: texts[::-1], "a text that no party sent"),
    "nothing": (lambda texts: [None] * len(texts), "an opened item is not the one that this party holds"),
    "a number": (lambda texts: [5] * len(texts), "what is no text"),
    "deep": (lambda texts: "[" * 900, "another number of items"),
    "one text less": (lambda texts: texts[1:], "another number of items"),
    "half a character": (lambda texts: [["00", "\ud800"]] * len(texts), "what is no text"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPENED)
def test_what_the_coordinator_opens_is_looked_at(kind: str, tmp_path: Path) -> None:
    becomes, says = OPENED[kind]

    class Opening(Coordinator):
        def _opened(self, shares: dict[str, bytes]) -> bytes:
            return json.dumps(becomes(json.loads(super()._opened(shares)))).encode()

    consortium = Consortium(tmp_path)
    paying = ledgers(consortium)
    outcome = consortium.run(
        LOGS,
        coordinator=Opening(consortium.identities["coordinator"], RunFile(consortium.text)),
        of_party=lambda name: {"ledger": paying[name], "noise": NoNoise()},
    )
    assert_refused_everywhere(outcome, says)


@pytest.mark.slow
@pytest.mark.parametrize("text", ['[ "only at b"]', '["\\ud800"]', '["a","b"]', "[" * 200, "5"])
def test_a_text_that_is_no_item_in_its_one_form_is_refused(text: str, tmp_path: Path) -> None:
    """What a single party holds nobody else can compare, but everybody looks at its form."""
    consortium = Consortium(tmp_path)
    logs = LOGS | {"b": {f"b{i}": ["only at b"] for i in range(40)}}
    paying = ledgers(consortium)
    parties = {name: consortium.party(name, logs[name], ledger=paying[name], noise=NoNoise()) for name in "abc"}
    honest = parties["b"]._held  # type: ignore[attr-defined]
    own = b'["only at b"]'

    def held(*given: Any) -> list[bytes | None]:
        return [text.encode() if one == own else one for one in honest(*given)]

    parties["b"]._held = held  # type: ignore[attr-defined]
    assert_refused_everywhere(consortium.run(logs, parties=parties), "an opened text is no item")


# --- paper mode -------------------------------------------------------------------------------------------------------

CLICKS = {name: {f"{name}{i}": ["weather→w.example", "news→n.example"] for i in range(2)} for name in "ab"}
IN_PAPER_MODE: dict[str, tuple[str, str, bytes, str]] = {  # who, topic, what is sent, what is said
    "no key": ("b", "key", bytes(256), ""),  # b has none to send
    "items of nobody": ("b", "encrypt", b"", "b gave back 0 items of"),
    "fewer items": ("b", "decrypt", bytes(256), "b gave back 1 items of 2"),
    "more items": ("b", "encrypt", bytes(256 * 9), "b sent more than 512 bytes of universe/encrypt"),
    "a key of 0": ("a", "key", bytes(256), "a sent what is no key of 2048 bits"),
    "totals that are none": ("a", "totals", b"[1e400, 2]", "a sent a value that is no count"),
    "totals below 0": ("a", "totals", b"[-1, 2]", "a sent a value that is no count"),
    "a total of 100 digits": ("a", "totals", b"[" + b"9" * 40 + b"]", "another number of values"),
    "deep": ("a", "totals", b"[" * 40, "malformed"),
    "a list for ever": ("b", "told", b"[" + b"0," * 500, "more than"),
    "another size": ("a", "users", b"[1, 1]", "sent more than"),
    "no sum": ("b", "sum", bytes(512), "malformed"),
    "products of less": ("a", "products", bytes(512), "1 ciphertexts of"),
    "draws below 0": ("a", "draws", b'{"draws": [-5, 1], "output_size": 1, "upper_bound": 1}', "no count"),
    "no bound": ("a", "draws", b'{"draws": [1, 1], "output_size": 1, "upper_bound": NaN}', "no number"),
    "no arc": ("a", "arc", b"[1]", "another number of values"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", IN_PAPER_MODE)
def test_what_a_party_sends_in_paper_mode_is_counted(kind: str, tmp_path: Path) -> None:
    who, what, forged, says = IN_PAPER_MODE[kind]
    consortium = Consortium(tmp_path, 2, settings=PAPER)
    parties = {name: consortium.party(name, CLICKS[name]) for name in consortium.names}
    honest = parties[who].link.send

    def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
        honest(recipient, phase, topic, forged if topic == what else payload)

    parties[who].link.send = send  # type: ignore[method-assign]
    outcome = consortium.run(CLICKS, parties=parties)
    if not says:
        assert not outcome.failed
        return
    outcome.assert_nothing_published()
    for name in consortium.names:
        assert isinstance(outcome.failed[name], RunFailed | InputError), repr(outcome.failed[name])
        assert says in str(outcome.failed[name]), str(outcome.failed[name])


@pytest.mark.slow
def test_a_coordinator_cannot_name_what_nobody_holds(tmp_path: Path) -> None:
    """It adds ids of its own to the union. Noise lets one pass, and it says the text of a pair that one user clicked.

    Rows of that user would be drawn and published, were the text believed.
    """

    class Naming(Coordinator):
        def send(self, recipient: str, phase: Any, topic: str, payload: bytes) -> None:
            if topic == "union":
                there = {payload[i : i + 16] for i in range(0, len(payload), 16)}
                payload = b"".join(sorted([*there, *(bytes([255, i]) * 8 for i in range(9))]))
            super().send(recipient, phase, topic, payload)

        def _opened(self, shares: dict[str, bytes]) -> bytes:
            opened = json.loads(super()._opened(shares))
            unheld = [i for i, one in enumerate(opened) if one is None]
            assert unheld
            opened[unheld[0]] = ["00" * 16, '["rare","r.example"]']
            return json.dumps(opened).encode()

    class Passing(NoNoise):
        def dummies(self, source: Any) -> int:
            return 5  # points by which the union may be larger

        def shares(self, n: int, source: Any) -> Any:
            return super().shares(n, source) + 1

    settings = {"method": "sampling", "item": "click", "delta": 0.5, "time_unit": "none"}
    consortium = Consortium(tmp_path, 2, settings=settings)
    logs = {
        name: {f"{name}{i}": ["weather→w.example", *(["rare→r.example"] * (i == 0))] for i in range(9)} for name in "ab"
    }
    coordinator = Naming(consortium.identities["coordinator"], RunFile(consortium.text))
    outcome = consortium.run(logs, coordinator=coordinator, of_party=lambda name: {"noise": Passing()})
    outcome.assert_nothing_published()
    for name in "ab":
        assert "the coordinator opened a text that no party sent" in str(outcome.failed[name])


@pytest.mark.slow
def test_a_union_of_more_ids_than_points_is_refused(tmp_path: Path) -> None:
    class Padding(Coordinator):
        def send(self, recipient: str, phase: Any, topic: str, payload: bytes) -> None:
            more = b"\xff" * 15
            super().send(
                recipient,
                phase,
                topic,
                payload + b"".join(more + bytes([i]) for i in range(99)) if topic == "union" else payload,
            )

    consortium = Consortium(tmp_path)
    paying = ledgers(consortium)
    coordinator = Padding(consortium.identities["coordinator"], RunFile(consortium.text))
    outcome = consortium.run(
        LOGS, coordinator=coordinator, of_party=lambda name: {"ledger": paying[name], "noise": NoNoise()}
    )
    assert_refused_everywhere(outcome, "coordinator sent more than")


def test_who_fills_the_memory_of_the_coordinator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the honest party that finds no room."""
    monkeypatch.setattr("searchveil.collab.coordinator.MOST_WAITING", 5000)
    coordinator = Consortium(tmp_path).coordinator()

    def store(sender: str, number: int) -> None:
        header = Header(
            run="0" * 64, session="0" * 64, phase="sum", topic="totals", sender=sender, recipient="c", number=number,
            part=0, last=True, size=0,
        )  # fmt: skip
        coordinator._store(header, bytes(900))

    for number in range(5):
        store("b", number)
    with pytest.raises(Refused):
        store("a", 0)
    assert coordinator.reason == "more than 5,000 bytes wait to be fetched, most of them from b"
