"""Tokens that a member spends unlinkably, as in Privacy Pass: blind evaluations of random numbers (RFC 9497).

An issuer knows to whom it gave how many tokens, and of a token that comes back only that it gave it to somebody.
"""

import hashlib
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass

from searchveil.crypto import voprf
from searchveil.errors import InputError

NONCE_BYTES = 32
TOKEN_BYTES = NONCE_BYTES + voprf.OUTPUT_BYTES


class TokenError(InputError):
    """A token that was never issued, was spent on something else, or is more than a member's batch."""


@dataclass(frozen=True)
class Request:
    """What a client keeps until the answer is there; written down first, so that a retry asks for the same tokens."""

    nonces: tuple[bytes, ...]
    blinded: tuple[voprf.Blinded, ...]

    @classmethod
    def fresh(cls, number: int) -> "Request":
        nonces = tuple(os.urandom(NONCE_BYTES) for _ in range(number))
        return cls(nonces, tuple(voprf.blind(nonce) for nonce in nonces))

    @property
    def body(self) -> bytes:
        return b"".join(one.element for one in self.blinded)

    def tokens(self, public: bytes, answer: bytes) -> list[bytes]:
        evaluated, proof = read_evaluation(answer)
        outputs = voprf.finalize(public, self.nonces, self.blinded, evaluated, proof)
        return [nonce + output for nonce, output in zip(self.nonces, outputs, strict=True)]

    def to_text(self) -> str:
        parts = zip(self.nonces, self.blinded, strict=True)
        return " ".join((nonce + one.blind + one.element).hex() for nonce, one in parts)

    @classmethod
    def from_text(cls, text: str) -> "Request":
        rows = [bytes.fromhex(part) for part in text.split()]
        return cls(tuple(row[:32] for row in rows), tuple(voprf.Blinded(row[32:64], row[64:]) for row in rows))


def read_elements(body: bytes, most: int) -> list[bytes]:
    if not body or len(body) % voprf.ELEMENT_BYTES or len(body) > most * voprf.ELEMENT_BYTES:
        raise TokenError(f"a request holds 1 to {most} elements of {voprf.ELEMENT_BYTES} bytes")
    return [body[i : i + voprf.ELEMENT_BYTES] for i in range(0, len(body), voprf.ELEMENT_BYTES)]


def write_evaluation(private: bytes, elements: Sequence[bytes]) -> bytes:
    """The evaluated elements, then the proof."""
    evaluated, proof = voprf.evaluate(private, elements)
    return b"".join(evaluated) + proof


def read_evaluation(answer: bytes) -> tuple[list[bytes], bytes]:
    end = len(answer) - voprf.PROOF_BYTES
    if end < 0 or end % voprf.ELEMENT_BYTES:
        raise TokenError("the answer is no evaluation")
    return [answer[i : i + voprf.ELEMENT_BYTES] for i in range(0, end, voprf.ELEMENT_BYTES)], answer[end:]


def is_genuine(private: bytes, token: bytes) -> bool:
    nonce, output = token[:NONCE_BYTES], token[NONCE_BYTES:]
    return len(token) == TOKEN_BYTES and hmac.compare_digest(voprf.output(private, nonce), output)


# --- Who may have tokens: invitations ---


def new_invitation() -> str:
    return os.urandom(16).hex()


def credential(invitation: str, program: str) -> str:
    """What a member shows to one program, which cannot use it at another."""
    return hashlib.sha256(f"searchveil crowd member v1 {program} {invitation}".encode()).hexdigest()


def member_of(shown: str) -> str:
    """How a program knows a member: a hash of the credential, so that its list opens nothing."""
    return hashlib.sha256(f"searchveil crowd credential v1 {shown}".encode()).hexdigest()
