"""What is not as agreed is refused: one clear line at every party, nothing published, ledgers say what was spent."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from consortium import Consortium, NoNoise, Outcome

from searchveil.collab import identity, tls
from searchveil.collab.coordinator import Coordinator
from searchveil.collab.member import Member, RunFailed
from searchveil.collab.messages import LARGEST, Header, RunEnded, pack, unpack
from searchveil.crypto import masks
from searchveil.errors import InputError
from searchveil.log import AS_TYPED
from searchveil.privacy.ledger import Ledger

LOGS = {name: {f"{name}{i}": ["weather", f"{name} {i}"] for i in range(30)} for name in "abc"}
Post = Callable[[bytes], Any]


def ledgers(consortium: Consortium) -> dict[str, Ledger]:
    return {
        name: Ledger.open(consortium.folder / f"{name}.sqlite", budget_epsilon=100, budget_delta=0.1)
        for name in consortium.names
    }


def run_with(consortium: Consortium, change: Callable[[Member], None], *, liar: str = "b") -> Outcome:
    paying = ledgers(consortium)
    parties = {name: consortium.party(name, LOGS[name], ledger=paying[name]) for name in consortium.names}
    change(parties[liar])
    return consortium.run(LOGS, parties=parties)


def assert_refused_everywhere(outcome: Outcome, *words: str) -> None:
    outcome.assert_nothing_published()
    for name in outcome.consortium.names:
        failed = outcome.failed[name]
        assert isinstance(failed, RunFailed), repr(failed)
        line = str(failed)
        assert "\n" not in line
        for word in words:
            assert word in line, (name, line)
        assert "nothing was published" in line
        entries = Ledger.open(outcome.consortium.folder / f"{name}.sqlite").spent().entries
        assert [entry.status for entry in entries] == ["reserved"]
        assert f"entry {entries[0].id}" in line


def posting(change: Callable[[Post, bytes, list[bytes]], None]) -> Callable[[Member], None]:
    """A party whose messages leave it changed; the function gets the real sender, the message, and all before it."""

    def of(party: Member) -> None:
        honest = party.link._ask
        before: list[bytes] = []

        def ask(method: str, path: str, content: bytes | None = None, **given: Any) -> Any:
            if path != "/v1/messages" or content is None:
                return honest(method, path, content, **given)
            change(lambda message: honest(method, path, message), content, before)
            before.append(content)

        party.link._ask = ask  # type: ignore[method-assign]

    return of


def with_header(message: bytes, **changed: Any) -> bytes:
    header, _, payload = unpack(message)
    return pack(header.model_copy(update=changed).encode(), payload)


def replayed(post: Post, message: bytes, before: list[bytes]) -> None:
    if len(before) == 3:
        post(before[1])
    post(message)


def reordered(post: Post, message: bytes, before: list[bytes]) -> None:
    """The second message to somebody before the first."""
    first = unpack(message)[0].number == 0
    if first:
        post(with_header(message, number=1))
    post(message)


CHANGES: dict[str, tuple[Callable[[Post, bytes, list[bytes]], None], str]] = {
    "replayed": (replayed, "replayed or out of order"),
    "reordered": (reordered, "replayed or out of order"),
    "truncated": (lambda post, message, _: post(message[:-5]), "were announced"),
    "cut off in the header": (lambda post, message, _: post(message[:20]), "cut off"),
    "oversized": (lambda post, message, _: post(message + bytes(LARGEST)), f"more than {LARGEST} bytes"),
    "malformed": (lambda post, message, _: post(struct.pack(">I", 5) + b"hello"), "malformed header"),
    "of another version": (
        lambda post, message, _: post(message.replace(b'"version":1', b'"version":2')),
        "malformed header (version)",
    ),
    "of another run": (lambda post, message, _: post(with_header(message, run="0" * 64)), "another run"),
    "of another session": (lambda post, message, _: post(with_header(message, session="0" * 64)), "another session"),
    "in another's name": (lambda post, message, _: post(with_header(message, sender="c")), "in the name of c"),
    "to nobody": (lambda post, message, _: post(with_header(message, recipient="z")), "a message to z"),
    "of another phase": (lambda post, message, _: post(with_header(message, phase="open")), ""),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_messages_that_are_not_as_agreed(kind: str, tmp_path: Path) -> None:
    change, says = CHANGES[kind]
    outcome = run_with(Consortium(tmp_path), posting(change))
    assert_refused_everywhere(outcome, says)


@pytest.mark.slow
def test_points_that_are_not_canonical(tmp_path: Path) -> None:
    def change(party: Member) -> None:
        honest = party.link.send_part

        def send_part(recipient: str, phase: Any, topic: str, piece: bytes, part: int, *, last: bool) -> None:
            honest(recipient, phase, topic, b"\xff" * 32 + piece[32:] if phase == "blind" else piece, part, last=last)

        party.link.send_part = send_part  # type: ignore[method-assign]

    assert_refused_everywhere(run_with(Consortium(tmp_path), change), "b sent a point that is refused", "canonical")


@pytest.mark.slow
def test_a_wrong_share_of_an_opened_item(tmp_path: Path) -> None:
    def change(party: Member) -> None:
        honest = party.link.send

        def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
            if topic == "shares":
                payload = masks.to_bytes([(one + 1) % masks.FIELD for one in masks.from_bytes(payload)])
            honest(recipient, phase, topic, payload)

        party.link.send = send  # type: ignore[method-assign]

    assert_refused_everywhere(run_with(Consortium(tmp_path), change), "a party sent a wrong share")


@pytest.mark.slow
def test_a_coordinator_that_changes_what_it_passes_on(tmp_path: Path) -> None:
    class Changing(Coordinator):
        def _store(self, header: Header, message: bytes) -> None:
            if header.recipient in self.agreement.names:
                message = message[:-1] + bytes([message[-1] ^ 1])
            super()._store(header, message)

    consortium = Consortium(tmp_path)
    ledgers(consortium)
    outcome = consortium.run(
        LOGS,
        coordinator=Changing(consortium.identities["coordinator"], consortium.coordinator().run),
        of_party=lambda name: {"ledger": ledgers(consortium)[name]},
    )
    assert_refused_everywhere(outcome, "was changed on its way")


@pytest.mark.slow
def test_a_coordinator_that_shows_parties_different_unions(tmp_path: Path) -> None:
    class Unfair(Coordinator):
        def send(self, recipient: str, phase: Any, topic: str, payload: bytes) -> None:
            more = b"\xff" * 16 if (recipient, topic) == ("b", "union") else b""
            super().send(recipient, phase, topic, payload + more)

    consortium = Consortium(tmp_path)
    outcome = consortium.run(
        LOGS,
        coordinator=Unfair(consortium.identities["coordinator"], consortium.coordinator().run),
        of_party=lambda name: {"ledger": ledgers(consortium)[name]},
    )
    assert_refused_everywhere(outcome, "do not see the same")


def test_a_party_whose_run_file_differs_says_in_which_line_and_pays_nothing(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path)
    other = consortium.text.replace("per_user = 3", "per_user = 4")
    paying = ledgers(consortium)
    parties = {
        name: consortium.party(name, LOGS[name], other if name == "b" else None, ledger=paying[name])
        for name in consortium.names
    }
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    line = str(outcome.failed["b"])
    number = 1 + consortium.text.split("\n").index("per_user = 3")
    assert f"in line {number}: 'per_user = 4' here, 'per_user = 3' there" in line
    assert not paying["b"].spent().entries
    for name in ("a", "c"):
        assert f"b: its run file is another one (line {number})" in str(outcome.failed[name])


def test_a_party_that_reads_texts_otherwise_pays_nothing(tmp_path: Path) -> None:
    """Its "Weather" and the others' "weather" would be two items, with half of the count each."""
    consortium = Consortium(tmp_path)
    paying = ledgers(consortium)
    parties = {name: consortium.party(name, LOGS[name], ledger=paying[name]) for name in consortium.names}
    parties["b"].log = replace(parties["b"].log, normalization=AS_TYPED)
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    said = str(outcome.failed["b"])
    assert 'texts are read as "none" here, and run.toml says normalize = "case,spaces,unicode" for all parties' in said
    assert not paying["b"].spent().entries
    for name in "ac":
        assert "b: it reads texts otherwise than the run file says (normalize)" in str(outcome.failed[name])


@pytest.mark.slow
def test_parties_may_agree_on_another_reading(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings={"normalize": "none"})
    logs = {name: {f"{name}{i}": ["Weather", "weather"] for i in range(20)} for name in "ab"}
    parties = {name: consortium.party(name, logs[name], noise=NoNoise()) for name in consortium.names}
    for party in parties.values():
        party.log = replace(party.log, normalization=AS_TYPED)
    assert consortium.run(logs, parties=parties).tables["a"] == {"Weather": 40, "weather": 40}


def test_a_party_that_lies_about_the_number_of_parties(tmp_path: Path) -> None:
    """It passes over the comparison and says hello with a run file of its own, without c."""
    consortium = Consortium(tmp_path)
    lines = [line for line in consortium.text.split("\n") if not line.startswith("c = ")]
    paying = ledgers(consortium)
    parties = {
        name: consortium.party(name, LOGS[name], "\n".join(lines) if name == "b" else None, ledger=paying[name])
        for name in consortium.names
    }
    parties["b"].link.agree = lambda: None  # type: ignore[method-assign]
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    for name in consortium.names:
        assert "b sent what is refused: its run file is another one" in str(outcome.failed[name])


@pytest.mark.slow
def test_a_party_with_a_certificate_that_the_coordinator_does_not_know(tmp_path: Path) -> None:
    """It is told soon; the others, at the deadline, who never came."""
    consortium = Consortium(tmp_path, settings={"deadline": 20})
    parties = {name: consortium.party(name, LOGS[name]) for name in consortium.names}
    stranger = identity.create(tmp_path / "stranger", "b")
    parties["b"].link._context.load_cert_chain(stranger.certificate_path, stranger.key_path)
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    assert "has pinned another certificate of b" in str(outcome.failed["b"])
    for name in ("a", "c"):
        assert "b never came" in str(outcome.failed[name])


@pytest.mark.slow
def test_a_party_that_comes_back_late_is_told_why_the_run_ended(tmp_path: Path) -> None:
    """It has compared the run file, and not said hello when the run ends: the coordinator waits for it."""
    consortium = Consortium(tmp_path, 2, settings={"deadline": 30})
    coordinator = consortium.coordinator()
    party = consortium.party("a", LOGS["a"])
    honest = party.link.hello

    def late() -> None:
        coordinator.end("b never came")
        time.sleep(2)
        honest()

    party.link.hello = late  # type: ignore[method-assign]
    outcome = consortium.run({}, coordinator=coordinator, parties={"a": party})
    assert "the run ended: b never came" in str(outcome.failed["a"])


@pytest.mark.slow
def test_an_expired_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own party says so; where that party's clock is wrong, the coordinator does not let it in."""
    consortium = Consortium(tmp_path, 2, settings={"deadline": 10})
    old = identity.create(tmp_path / "old", "b", now=datetime(2020, 1, 1, tzinfo=UTC), days=30)
    for name in ("a", "coordinator"):
        (tmp_path / name / "pinned" / "b.pem").unlink()
        consortium.identities[name].pin(old.certificate_path)
        old.pin(tmp_path / name / "certificate.pem")
    new, consortium.identities["b"] = consortium.identities["b"], old
    consortium.text = consortium.text.replace(new.certificate.fingerprint, old.certificate.fingerprint)
    with pytest.raises(InputError, match="certificate of b has expired on 2020-01-31"):
        consortium.party("b", LOGS["b"])
    monkeypatch.setattr(identity.Certificate, "check_valid", lambda self: None)
    outcome = consortium.run({name: LOGS[name] for name in "ab"})
    outcome.assert_nothing_published()
    assert "holds it for expired" in str(outcome.failed["b"])
    assert "b never came" in str(outcome.failed["a"])


@pytest.mark.slow
def test_a_coordinator_with_another_certificate_is_not_talked_to(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, settings={"deadline": 10})
    coordinator = consortium.coordinator()
    coordinator.identity = identity.create(tmp_path / "stranger", "coordinator")
    outcome = consortium.run(LOGS, coordinator=coordinator)
    outcome.assert_nothing_published()
    for name in consortium.names:
        assert "not the pinned one" in str(outcome.failed[name])


def test_a_certificate_made_by_a_clock_an_hour_ahead_is_good(tmp_path: Path) -> None:
    from datetime import timedelta

    made = identity.create(tmp_path / "ahead", "ahead", now=datetime.now(UTC) + timedelta(hours=1))
    assert made.certificate.parsed.not_valid_before_utc < datetime.now(UTC)


def test_a_folder_whose_certificate_the_run_file_does_not_name(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2)
    wrong = consortium.text.replace(consortium.identities["a"].certificate.fingerprint, "sha256:" + "0" * 64)
    with pytest.raises(InputError, match="the run file names sha256:0000"):
        consortium.party("b", LOGS["b"], wrong)


def test_the_key_of_a_party_is_for_its_owner_alone(tmp_path: Path) -> None:
    made = identity.create(tmp_path / "a", "a")
    assert made.key_path.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="has a key already"):
        identity.create(tmp_path / "a", "a")
    with pytest.raises(InputError, match="no name of a party"):
        identity.create(tmp_path / "b", "Über")


@pytest.mark.slow
def test_the_coordinator_takes_only_so_much_of_a_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are taken out of the box no longer count as waiting: without a limit a stream could go on for ever."""
    monkeypatch.setattr("searchveil.collab.coordinator.MOST_OF_A_PARTY", 100)
    outcome = run_with(Consortium(tmp_path), lambda party: None)
    assert_refused_everywhere(outcome, "sent more than 100 bytes of ids")


PAPER = {"mode": "paper", "epsilon": 20.0, "delta": 0.9}
CLICKS = {name: {f"{name}{i}": ["weather→w.example", "news→n.example"] for i in range(2)} for name in "ab"}


@pytest.mark.parametrize(
    ("what", "forged", "says"),
    [
        ("items", bytes(256), "malformed"),  # 0 is no square
        ("items", bytes(255), "cut off"),
        ("told", b'{"no": "list"', "malformed"),
        ("slack", bytes(512), "b sent 1 ciphertexts of 4 (slack)"),
    ],
)
def test_what_a_party_sends_in_paper_mode_is_looked_at(what: str, forged: bytes, says: str, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings=PAPER)
    parties = {name: consortium.party(name, CLICKS[name]) for name in consortium.names}
    honest = parties["b"].link.send

    def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
        honest(recipient, phase, topic, forged if topic == what else payload)

    parties["b"].link.send = send  # type: ignore[method-assign]
    outcome = consortium.run(CLICKS, parties=parties)
    outcome.assert_nothing_published()
    for name in consortium.names:
        assert isinstance(outcome.failed[name], RunFailed), repr(outcome.failed[name])
        assert says in str(outcome.failed[name])


@pytest.mark.slow
def test_a_program_that_would_take_hours_is_refused_at_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("searchveil.collab.paper_party.MOST_ENTRIES", 10)
    outcome = Consortium(tmp_path, 2, settings=PAPER).run(CLICKS)
    outcome.assert_nothing_published()
    for name in "ab":
        assert "more than 10 take an hour and more; take smaller logs, or the private mode" in str(outcome.failed[name])


@pytest.mark.slow
def test_paper_mode_has_nothing_that_a_ledger_could_count(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings=PAPER)
    paying = ledgers(consortium)
    outcome = consortium.run(CLICKS, of_party=lambda name: {"ledger": paying[name]})
    outcome.assert_nothing_published()
    assert any(
        "a release without differential privacy has no finite cost" in str(one) for one in outcome.failed.values()
    )
    assert not any(ledger.spent().entries for ledger in paying.values())


def test_a_party_whose_budget_is_spent_sends_nothing(tmp_path: Path) -> None:
    """It says so and nothing of its log leaves; the others hear that it cannot take part, not how much is left."""
    consortium = Consortium(tmp_path)
    paying = ledgers(consortium)
    (tmp_path / "b.sqlite").unlink()
    paying["b"] = Ledger.open(tmp_path / "b.sqlite", budget_epsilon=5, budget_delta=0.1)  # 5.5 for ε + ε_d
    parties = {name: consortium.party(name, LOGS[name], ledger=paying[name]) for name in consortium.names}
    left: list[bytes] = []
    parties["b"].link.send_part = lambda *given, **named: left.append(given[3])  # type: ignore[method-assign]
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    assert "budget" in str(outcome.failed["b"])
    assert not left
    assert not paying["b"].spent().entries
    for name in "ac":
        line = str(outcome.failed[name])
        assert "b: it cannot take part" in line
        assert "5" not in line.partition(";")[0].replace("127.0.0.1", "")


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Consortium]:
    consortium = Consortium(tmp_path, 2, settings={"silence": 2})
    coordinator = consortium.coordinator()
    served = threading.Thread(target=lambda: suppress_ended(coordinator.serve), daemon=True)
    served.start()
    place = consortium.address.rpartition(":")
    for _ in range(2400):
        with suppress(OSError), socket.create_connection((place[0], int(place[2])), 1):
            break
        time.sleep(0.05)
    yield consortium
    coordinator.end("the test is over")
    served.join(120)


def suppress_ended(work: Callable[[], None]) -> None:
    with suppress(RunEnded):
        work()


def answered(consortium: Consortium, context: ssl.SSLContext) -> str:
    """The version of TLS that the coordinator speaks with a client, and that it answers at all."""
    host, _, port = consortium.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 60) as plain,
        context.wrap_socket(plain, server_hostname="coordinator") as line,
    ):
        line.sendall(b"POST /v1/beat HTTP/1.1\r\nHost: coordinator\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 200")
        return str(line.version())


def test_the_coordinator_speaks_tls_1_3_with_pinned_parties_alone(listening: Consortium) -> None:
    party, coordinator = listening.identities["a"], listening.identities["coordinator"].certificate
    assert answered(listening, tls.for_party(party, coordinator)) == "TLSv1.3"
    old = tls.for_party(party, coordinator)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answered(listening, old)
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.load_verify_locations(cadata=coordinator.pem.decode())
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        answered(listening, nobody)


@pytest.mark.slow
def test_a_party_does_not_talk_tls_1_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(identity: Any, parties: Any) -> ssl.SSLContext:
        context = honest(identity, parties)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
        return context

    honest = tls.for_coordinator
    monkeypatch.setattr(tls, "for_coordinator", old)
    consortium = Consortium(tmp_path, 2, settings={"deadline": 6})
    outcome = consortium.run({name: LOGS[name] for name in "ab"})
    outcome.assert_nothing_published()
    for name in "ab":
        assert "has not answered for 6 s" in str(outcome.failed[name])
