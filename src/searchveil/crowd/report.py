"""Reports: from an artifact to bytes of constant size, and back. docs/crowd-format.md writes the same down.

    version 1 · kind 1 · job 16 · tag 32 · x 16 · y 32 · primary 272 · secondary 364 · token 96    = 830 bytes

All that depends on the artifact follows from the randomness server's output for it, so that clients who never met make
the same tag, ciphertext and polynomial. The secret opens everything; the tag is a hash of it.
"""

import hashlib
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from searchveil.crowd.artifacts import LONGEST
from searchveil.crypto import hpke, shamir
from searchveil.errors import InputError

VERSION = 1
ARTIFACT, DUMMY = 1, 0
PADDED = 2 + LONGEST
PRIMARY_BYTES = PADDED + 16
SECONDARY_BYTES = 12 + 32 + 32 + PADDED + 16 + 16
TOKEN_BYTES = 32 + 64
REPORT_BYTES = 1 + 1 + 16 + 32 + 16 + 32 + PRIMARY_BYTES + SECONDARY_BYTES + TOKEN_BYTES
SEALED_BYTES = REPORT_BYTES + hpke.OVERHEAD
LAYER_BYTES = 1 + hpke.OVERHEAD  # a relay's layer: the next hop, and what sealing adds
RECEIPT_BYTES = 16
TO_SERVER = b"searchveil crowd report v1"
TO_RELAY = b"searchveil crowd relay v1"
_NO_NONCE = bytes(12)  # each key encrypts one text only


class ReportError(InputError):
    """Bytes that are no report."""


def primary_input(job: bytes, text: str) -> bytes:
    """What the randomness server is asked, blinded, for an artifact."""
    return b"searchveil crowd primary v1" + job + text.encode()


def secondary_input(job: bytes, text: str, typed: str) -> bytes:
    """What it is asked for a spelling of an artifact."""
    encoded = text.encode()
    return b"searchveil crowd secondary v1" + job + len(encoded).to_bytes(2, "big") + encoded + typed.encode()


def secret_of(output: bytes) -> bytes:
    """The secret of an artifact, from the randomness server's output of 64 bytes."""
    return shamir.to_secret(hashlib.sha512(b"searchveil crowd secret v1" + output).digest())


def derive(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"searchveil crowd " + purpose + b" v1", "sha256")


def tag_of(secret: bytes) -> bytes:
    return derive(secret, b"tag")


def share_number(user: bytes, job: bytes, text: str) -> int:
    """The same on all machines of a user, and different for every artifact and job."""
    return _number(hmac.digest(user, b"searchveil crowd share v1" + job + text.encode(), "sha256"))


def fresh_number() -> int:
    return _number(os.urandom(16))


def _number(found: bytes) -> int:
    return int.from_bytes(found[:16], "big") or 1


def coin(user: bytes, job: bytes, text: str) -> int:
    """64 bits, the same on all machines of a user."""
    found = hmac.digest(user, b"searchveil crowd coin v1" + job + text.encode(), "sha256")
    return int.from_bytes(found[:8], "big")


@dataclass(frozen=True)
class Report:
    """A report in the clear, as the server has it."""

    job: bytes
    tag: bytes
    x: int
    y: int
    primary: bytes
    secondary: bytes
    token: bytes
    kind: int = ARTIFACT

    def to_bytes(self) -> bytes:
        made = b"".join(
            (
                bytes([VERSION, self.kind]),
                self.job,
                self.tag,
                self.x.to_bytes(16, "big"),
                self.y.to_bytes(32, "big"),
                self.primary,
                self.secondary,
                self.token,
            )
        )
        if len(made) != REPORT_BYTES:
            raise ReportError(f"a report has {REPORT_BYTES} bytes, not {len(made)}")
        return made

    @classmethod
    def from_bytes(cls, text: bytes) -> "Report":
        if len(text) != REPORT_BYTES or text[0] != VERSION or text[1] not in (ARTIFACT, DUMMY):
            raise ReportError("these bytes are no report of this version")
        parts, at = [], 2
        for size in (16, 32, 16, 32, PRIMARY_BYTES, SECONDARY_BYTES, TOKEN_BYTES):
            parts.append(text[at : at + size])
            at += size
        job, tag, x, y, primary, secondary, token = parts
        number, value = int.from_bytes(x, "big"), int.from_bytes(y, "big")
        if text[1] == ARTIFACT and not (number > 0 and value < shamir.PRIME):
            raise ReportError("a report's share lies outside the field")
        return cls(job, tag, number, value, primary, secondary, token, text[1])

    @property
    def group(self) -> bytes:
        """Reports with the same tag and ciphertext belong together: nobody can attach another text to a tag."""
        return hashlib.sha256(self.tag + self.primary).digest()


def make_report(
    job: bytes, text: str, output: bytes, k: int, x: int, token: bytes, typed: tuple[str, bytes, int] | None = None
) -> Report:
    """`output` is the randomness server's for the artifact; `typed` a spelling, the output for it, its threshold."""
    secret = secret_of(output)
    inner = bytes(SECONDARY_BYTES - 28) if typed is None else _spelling(*typed, x)
    nonce = hmac.digest(secret, b"nonce" + x.to_bytes(16, "big") + inner, "sha256")[:12]
    secondary = nonce + ChaCha20Poly1305(derive(secret, b"secondary")).encrypt(nonce, inner, None)
    return Report(job, tag_of(secret), x, shamir.share(secret, k, x), _encrypt(secret, text), secondary, token)


def _spelling(typed: str, output: bytes, k: int, x: int) -> bytes:
    """Inside of the primary's secret: a share of the spelling's own, and the spelling under it."""
    secret = secret_of(output)
    return tag_of(secret) + shamir.share(secret, k, x).to_bytes(32, "big") + _encrypt(secret, typed)


def _encrypt(secret: bytes, text: str) -> bytes:
    return ChaCha20Poly1305(derive(secret, b"text")).encrypt(_NO_NONCE, _pad(text), None)


def open_text(secret: bytes, sealed: bytes) -> str | None:
    """The artifact or spelling that a secret opens; None if the ciphertext was not made with it."""
    try:
        return _unpad(ChaCha20Poly1305(derive(secret, b"text")).decrypt(_NO_NONCE, sealed, None))
    except (InvalidTag, ValueError):
        return None


def open_secondary(secret: bytes, secondary: bytes) -> tuple[bytes, int, bytes] | None:
    """(tag, value, sealed spelling) of the secondary field; what it says still needs shares of its own."""
    try:
        inner = ChaCha20Poly1305(derive(secret, b"secondary")).decrypt(secondary[:12], secondary[12:], None)
    except InvalidTag:
        return None
    return inner[:32], int.from_bytes(inner[32:64], "big"), inner[64:]


def dummy(job: bytes) -> bytes:
    """A report that says nothing: how many true ones a user has stays hidden on the way.

    It has the size of a true one, and the job's id, so that the server answers it as it would answer a true one.
    """
    return bytes([VERSION, DUMMY]) + job + os.urandom(REPORT_BYTES - 2 - len(job))


def receipt(report: bytes) -> bytes:
    """What only who has read a report can answer: a relay cannot pretend that it was delivered."""
    return hashlib.sha256(b"searchveil crowd receipt v1" + report).digest()[:RECEIPT_BYTES]


def seal(report: bytes, server: bytes, relays: Sequence[tuple[int, bytes]]) -> bytes:
    """Sealed to the server and wrapped once per relay; `relays` are (number, public key) in the order of the way."""
    sealed, following = hpke.seal(server, TO_SERVER, b"", report), 0
    for number, public in reversed(relays):
        sealed = hpke.seal(public, TO_RELAY, b"", bytes([following]) + sealed)
        following = number
    return sealed


def unwrap(private: bytes, wrapped: bytes) -> tuple[int, bytes]:
    """A relay's part: the number of the next hop (0 is the server) and what to send there."""
    inner = hpke.unseal(private, TO_RELAY, b"", wrapped)
    return inner[0], inner[1:]


def unseal(private: bytes, sealed: bytes) -> bytes:
    return hpke.unseal(private, TO_SERVER, b"", sealed)


def _pad(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > LONGEST:
        raise ReportError(f"an artifact has at most {LONGEST} bytes")
    return len(encoded).to_bytes(2, "big") + encoded.ljust(LONGEST, b"\0")


def _unpad(padded: bytes) -> str:
    size = int.from_bytes(padded[:2], "big")
    if size > LONGEST or any(padded[2 + size :]):
        raise ValueError("bad padding")
    return padded[2 : 2 + size].decode()
