"""A party's end of the wire: requests that survive a cut line, sealed streams to other parties, and a heartbeat.

Messages to other parties go through the coordinator, sealed under a key that the two parties alone know: the
coordinator can neither read nor change nor reorder them. So only one host must be reachable from outside.
"""

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import ValidationError

from searchveil.collab import tls
from searchveil.collab.agreement import LARGEST_FILE, RunFile
from searchveil.collab.coordinator import LONGEST_REASON, session_of
from searchveil.collab.identity import Identity
from searchveil.collab.messages import (
    LARGEST,
    PART,
    Header,
    Hello,
    Phase,
    Refused,
    RunEnded,
    check_part,
    pack,
    parts_of,
    read_json,
    signed_by,
    unpack,
)
from searchveil.collab.transcript import Transcript
from searchveil.errors import InputError, printable

BEAT = 2.0  # seconds between signs of life, where the silence that the run allows is not shorter
CLOSED = 6  # connections closed without a word, before the first answer, after which it is told why
LARGEST_ANSWER = 8 * LONGEST_REASON  # bytes of an answer that says no more than yes, or why the run has ended
LARGEST_HELLO = 1000  # bytes of that of one party
PATIENCE = 15.0  # seconds for one request; the coordinator answers after a few, whatever happens

Bar = Callable[[str, int, int], None]  # what, how much of it is done, of how much


def no_bar(what: str, done: int, total: int) -> None:
    """The progress bar of a caller who wants none."""


@dataclass(frozen=True)
class Answer:
    """Of the coordinator, not longer than what was asked for can be."""

    status: int
    content: bytes


class Link:
    def __init__(self, identity: Identity, run: RunFile, transcript: Transcript, bar: Bar = no_bar) -> None:
        self.run, self.agreement, self.identity, self.transcript = run, run.agreement, identity, transcript
        self.bar = bar
        self.name = identity.name
        if self.name not in self.agreement.parties:
            raise InputError(
                f"{identity.folder} is the folder of {self.name}, which is no party of the run; "
                f"parties are {', '.join(self.agreement.names)}"
            )
        self.others = [name for name in self.agreement.names if name != self.name]
        everybody = {**self.agreement.parties, self.agreement.coordinator.name: self.agreement.coordinator.certificate}
        self.certificates = {name: identity.pinned(name, fingerprint) for name, fingerprint in everybody.items()}
        self.certificates[self.name].check_valid()
        self.address = self.agreement.coordinator.address
        self.session = ""
        self.pair_keys: dict[str, bytes] = {}
        self._context = tls.for_party(identity, self.certificates[self.agreement.coordinator.name])
        self._client = self._new_client()
        self._sent: dict[str, int] = {}
        self._fetched: dict[str, int] = {}
        self._ended: str | None = None
        self._known = False  # whether the coordinator has ever answered
        self._answered = time.monotonic()
        self._begun = time.monotonic()
        self._closing = threading.Event()
        self._beating: threading.Thread | None = None

    def _new_client(self) -> httpx.Client:
        return httpx.Client(
            base_url=f"https://{self.address}", verify=self._context, timeout=PATIENCE, trust_env=False, http2=False
        )

    # --- one request ---

    def _ask(self, method: str, path: str, content: bytes | None = None, *, most: int = 0) -> Answer:
        """The answer, however often the line is cut within the silence that the run allows.

        It has at most so many bytes; one that says why the run has ended may always come.
        """
        pause, closed = 0.1, 0
        while True:
            self.check()
            try:
                answer = self._request(self._client, method, path, content, most=most)
            except httpx.TransportError as problem:
                closed += isinstance(problem, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
                self._check_certificates(problem, closed)
                allowed = self.agreement.silence if self.session else self.agreement.deadline
                if time.monotonic() - self._answered > allowed:
                    raise RunEnded(f"the coordinator at {self.address} has not answered for {allowed:g} s") from None
                self._closing.wait(pause)
                pause = min(2 * pause, 1.0)
                self._client.close()
                self._client = self._new_client()
                continue
            self._answered, self._known = time.monotonic(), True
            return self._checked(answer)

    def _request(
        self, client: httpx.Client, method: str, path: str, content: bytes | None = None, *, most: int = 0
    ) -> Answer:
        """What is larger than it may be is not read, and nothing is unpacked on the way."""
        most, gathered, size = max(most, LARGEST_ANSWER), [], 0
        with client.stream(method, path, content=content, headers={"Accept-Encoding": "identity"}) as answer:
            for piece in answer.iter_raw():
                size += len(piece)
                if size > most:
                    raise Refused(f"the coordinator answered with more than {most:,} bytes to {path}")
                gathered.append(piece)
                self.check()
        return Answer(answer.status_code, b"".join(gathered))

    def _checked(self, answer: Answer) -> Answer:
        if answer.status == 409:
            raise RunEnded(_reason(answer))
        if answer.status not in (200, 204):
            raise RunEnded(f"the coordinator answered with status {answer.status}")
        return answer

    def check(self) -> None:
        """Raise RunEnded if the run has ended elsewhere, or its time is over."""
        if self._ended is not None:
            raise RunEnded(self._ended)
        if time.monotonic() - self._begun > self.agreement.deadline + self.agreement.silence:
            raise RunEnded(f"the deadline of {self.agreement.deadline:g} s has passed")

    def _check_certificates(self, problem: BaseException, closed: int) -> None:
        """A certificate that is refused stays refused: say so soon.

        A server of this kind closes the connection of a client whose certificate it refuses, without saying why.
        """
        cause: BaseException | None = problem
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise RunEnded(
                    f"the coordinator at {self.address} shows a certificate that is not the pinned one, or is not "
                    f"valid now ({cause.verify_message})"
                ) from None
            cause = cause.__cause__ or cause.__context__
        if closed >= CLOSED and not self._known:
            raise RunEnded(
                f"the coordinator at {self.address} closes every connection: it has pinned another certificate of "
                f"{self.name}, or holds it for expired"
            ) from None

    # --- the beginning and the end ---

    def agree(self) -> None:
        """Compare the run file with the coordinator's, before anything is paid or sent."""
        raw = self._ask("GET", "/v1/agreement", most=LARGEST_FILE).content
        theirs = raw.decode(errors="backslashreplace")
        if theirs != self.run.text:
            problem = self.run.differs_from(theirs, "the coordinator")
            self.give_up(f"its run file is another one ({problem.partition(': ')[0].rpartition(' in ')[2]})")
            raise InputError(problem, parameter="run", instead="agree on one file, and start again")

    def hello(self) -> None:
        """Say who is here, wait for all others, and make a key with each of them."""
        secret = X25519PrivateKey.generate()
        public = secret.public_key().public_bytes_raw().hex()
        signature = self.identity.sign(signed_by(self.run.hash, self.name, public)).hex()
        hello = Hello(run=self.run.hash, name=self.name, key=public, signature=signature)
        self._ask("POST", "/v1/hello", hello.model_dump_json().encode())
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()
        most = LARGEST_HELLO * len(self.agreement.names)
        while not (answer := self._ask("GET", "/v1/hellos", most=most)).content:
            pass
        hellos = self._verified(answer)
        if hellos[self.name] != hello:
            raise Refused("the coordinator passes on another key than this party's")
        self.session = session_of(self.run.hash, hellos)
        for other in self.others:
            try:
                shared = secret.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(hellos[other].key)))
            except ValueError:  # the point 0, by which the key would be no secret
                raise Refused(f"the key of {other} for this run is none") from None
            pair = "\n".join(sorted((self.name, other)))
            info = f"searchveil collab pair\n{self.session}\n{pair}".encode()
            self.pair_keys[other] = HKDF(SHA256(), 32, bytes.fromhex(self.run.hash), info).derive(shared)

    def _verified(self, answer: Answer) -> dict[str, Hello]:
        try:
            hellos = {hello.name: hello for hello in map(Hello.model_validate, read_json(answer.content))}
            if set(hellos) != set(self.agreement.names):
                raise Refused("the coordinator knows other parties than the run file")
            for name, hello in hellos.items():
                if hello.run != self.run.hash:
                    raise Refused(f"the run file of {name} is another one")
                self.certificates[name].check_signature(bytes.fromhex(hello.signature), hello.signed)
        except (ValidationError, ValueError, TypeError):
            raise Refused("the coordinator passes on malformed keys") from None
        except InvalidSignature:
            raise Refused("the coordinator passes on a key that its party did not sign") from None
        return hellos

    def _beat(self) -> None:
        pause = min(BEAT, self.agreement.silence / 4)
        with self._new_client() as client:
            while not self._closing.wait(pause):
                try:
                    answer = self._request(client, "POST", "/v1/beat")
                except (httpx.TransportError, OSError, Refused):
                    continue
                except RunEnded:
                    return
                self._answered = time.monotonic()
                if answer.status == 409:
                    self._ended = _reason(answer)
                    return

    def give_up(self, reason: str) -> None:
        """Tell the others, if they can be reached, why this party leaves."""
        said = {"reason": reason}
        with (
            suppress(httpx.HTTPError, OSError, RuntimeError),
            self._client.stream("POST", "/v1/end", json=said, timeout=5.0),
        ):
            pass  # whatever is answered

    def done(self) -> None:
        self._ask("POST", "/v1/done")

    def close(self) -> None:
        self._closing.set()
        if self._beating is not None:
            self._beating.join(PATIENCE)
        self._client.close()

    # --- streams ---

    def mask_keys(self) -> Mapping[int, bytes]:
        """The key with every other party, by its place in the order of all."""
        return {self.agreement.names.index(other): key for other, key in self.pair_keys.items()}

    def send(self, recipient: str, phase: Phase, topic: str, payload: bytes) -> None:
        count = parts_of(len(payload))
        for part in range(count):
            if count > 1:
                self.bar(f"sending {topic} to {recipient}", part, count)
            self.send_part(
                recipient, phase, topic, payload[PART * part : PART * (part + 1)], part, last=part == count - 1
            )

    def send_part(self, recipient: str, phase: Phase, topic: str, piece: bytes, part: int, *, last: bool) -> None:
        number = self._sent.get(recipient, 0)
        sealed = recipient in self.pair_keys
        header = Header(
            run=self.run.hash,
            session=self.session,
            phase=phase,
            topic=topic,
            sender=self.name,
            recipient=recipient,
            number=number,
            part=part,
            last=last,
            size=len(piece) + (16 if sealed else 0),
        ).encode()
        if sealed:
            piece = self._cipher(self.name, recipient).encrypt(_nonce(number), piece, header)
        message = pack(header, piece)
        self._ask("POST", "/v1/messages", message)
        self._sent[recipient] = number + 1
        self.transcript.message("sent", recipient, phase, topic, number, len(message))

    def receive(self, sender: str, phase: Phase, topic: str, *, most: int, expected: int | None = None) -> bytes:
        """A whole stream. More bytes than `most` are refused; how many are `expected` is told of its progress."""
        gathered: list[bytes] = []
        size = 0
        for piece, _ in self.parts(sender, phase, topic):
            size += len(piece)
            if size > most:
                raise Refused(f"{sender} sent more than {most} bytes of {phase}/{topic}")
            gathered.append(piece)
            if expected is not None and expected > PART:
                self.bar(f"receiving {topic} of {sender}", size, expected)
        return b"".join(gathered)

    def parts(self, sender: str, phase: Phase, topic: str) -> Iterator[tuple[bytes, bool]]:
        """The parts of a stream as they come, and which one is the last."""
        part, last = 0, False
        while not last:
            header, piece = self._fetch(sender)
            if (header.phase, header.topic, header.part) != (phase, topic, part):
                raise Refused(f"{sender} sent {header.phase}/{header.topic} where {phase}/{topic} was expected")
            check_part(header, len(piece))
            part, last = part + 1, header.last
            yield piece, last

    def _fetch(self, sender: str) -> tuple[Header, bytes]:
        number = self._fetched.get(sender, 0)
        while not (answer := self._ask("GET", f"/v1/messages/{sender}/{number}", most=LARGEST)).content:
            pass
        header, raw, payload = unpack(answer.content)
        self._check_header(header, sender, number)
        if sender in self.pair_keys:
            try:
                payload = self._cipher(sender, self.name).decrypt(_nonce(number), payload, raw)
            except InvalidTag:
                raise Refused(f"message {number} of {sender} was changed on its way") from None
        self._fetched[sender] = number + 1
        self.transcript.message("received", sender, header.phase, header.topic, number, len(answer.content))
        return header, payload

    def _check_header(self, header: Header, sender: str, number: int) -> None:
        expected = (self.run.hash, self.session, sender, self.name, number)
        if (header.run, header.session, header.sender, header.recipient, header.number) != expected:
            raise Refused(f"message {number} of {sender} belongs to another run, party or place")

    def _cipher(self, sender: str, recipient: str) -> ChaCha20Poly1305:
        """One key for each direction, so that a number is used once with it."""
        key = self.pair_keys[recipient if sender == self.name else sender]
        info = f"searchveil collab channel\n{sender}\n{recipient}".encode()
        return ChaCha20Poly1305(HKDF(SHA256(), 32, None, info).derive(key))


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def _reason(answer: Answer) -> str:
    try:
        said: Any = read_json(answer.content)["ended"]
    except (ValueError, KeyError, TypeError):
        return "the coordinator ended the run"
    return printable(str(said))[:LONGEST_REASON]
