"""A verifiable oblivious pseudorandom function: RFC 9497, ristretto255-SHA512, verifiable mode.

The server's key turns an input into 64 bytes that nobody else can compute, without the server learning the input. A
proof shows that all outputs of a batch were made with the key that the server has published.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from searchveil.crypto.sodium import rbcl
from searchveil.errors import InputError

ELEMENT_BYTES = 32
PROOF_BYTES = 64
OUTPUT_BYTES = 64
LARGEST_BATCH = 2**16 - 1
_CONTEXT = b"OPRFV1-\x01-ristretto255-SHA512"
_IDENTITY = bytes(32)
_ORDER = 2**252 + 27742317777372353535851937790883648493

_add = rbcl.crypto_core_ristretto255_add
_from_hash = rbcl.crypto_core_ristretto255_from_hash
_is_valid_point = rbcl.crypto_core_ristretto255_is_valid_point
_invert = rbcl.crypto_core_ristretto255_scalar_invert
_scalar_mul = rbcl.crypto_core_ristretto255_scalar_mul
_random_scalar = rbcl.crypto_core_ristretto255_scalar_random
_reduce = rbcl.crypto_core_ristretto255_scalar_reduce
_scalar_sub = rbcl.crypto_core_ristretto255_scalar_sub
_times = rbcl.crypto_scalarmult_ristretto255
_times_base = rbcl.crypto_scalarmult_ristretto255_base


class VoprfError(InputError):
    """An element that is no point of the group, or a proof that does not hold."""


class Blinded(NamedTuple):
    """What the client keeps (`blind`) and what it sends (`element`)."""

    blind: bytes
    element: bytes


def generate() -> bytes:
    """A fresh private key."""
    return bytes(_random_scalar())


def derive_key(seed: bytes, info: bytes) -> bytes:
    """The private key that belongs to a seed of 32 bytes (DeriveKeyPair)."""
    given = seed + _sized(info)
    for counter in range(256):
        key = _to_scalar(given + bytes([counter]), b"DeriveKeyPair" + _CONTEXT)
        if key != bytes(32):
            return key
    raise VoprfError("no key follows from this seed; take another")


def public_of(private: bytes) -> bytes:
    """The public key that belongs to a private one."""
    return bytes(_times_base(private))


def to_blind(wide: bytes) -> bytes:
    """A factor from 64 uniform secret bytes, for a client that must be able to ask the same question again."""
    return bytes(_reduce(wide))


def blind(text: bytes, scalar: bytes | None = None) -> Blinded:
    """Hide an input behind a random factor, or behind one that was made by `to_blind`."""
    factor = bytes(_random_scalar()) if scalar is None else scalar
    return Blinded(factor, bytes(_times(factor, _to_group(text))))


def filler(wide: bytes) -> bytes:
    """A uniform point from 64 uniform secret bytes, which nobody can tell from a blinded input."""
    return bytes(_from_hash(wide))


def evaluate(private: bytes, elements: Sequence[bytes], scalar: bytes | None = None) -> tuple[list[bytes], bytes]:
    """The server's part: an evaluated element for each blinded one, and one proof for all of them."""
    if not 0 < len(elements) <= LARGEST_BATCH:
        raise VoprfError(f"a batch holds 1 to {LARGEST_BATCH} elements, not {len(elements)}")
    for element in elements:
        check_element(element)
    evaluated = [bytes(_times(private, element)) for element in elements]
    return evaluated, _prove(private, elements, evaluated, scalar)


def finalize(
    public: bytes,
    texts: Sequence[bytes],
    blinded: Sequence[Blinded],
    evaluated: Sequence[bytes],
    proof: bytes,
    fillers: Sequence[bytes] = (),
) -> list[bytes]:
    """The outputs, 64 bytes each; a VoprfError unless the proof shows that the key is the published one.

    `fillers` are elements that were asked about after those of the texts, and mean nothing.
    """
    if not len(texts) == len(blinded) == len(evaluated) - len(fillers) or len(proof) != PROOF_BYTES:
        raise VoprfError("the answer does not fit the question: another number of elements, or no proof")
    for element in (public, *evaluated):
        check_element(element)
    if not _verify(public, [*(one.element for one in blinded), *fillers], evaluated, proof):
        raise VoprfError("the proof does not hold: these values were not made with the published key")
    return [
        _output(text, bytes(_times(_invert(one.blind), element)))
        for text, one, element in zip(texts, blinded, evaluated[: len(texts)], strict=True)
    ]


def output(private: bytes, text: bytes) -> bytes:
    """What the function gives for an input, for whoever holds the key (Evaluate)."""
    return _output(text, bytes(_times(private, _to_group(text))))


def check_element(element: bytes) -> None:
    """Refuse what is no point, and the identity, which would show an output to everybody."""
    # The library passes over the highest bit, which would give every point a second encoding.
    canonical = len(element) == ELEMENT_BYTES and not element[-1] & 0x80
    if not canonical or element == _IDENTITY or not _is_valid_point(element):
        raise VoprfError("an element is not a valid point of ristretto255")


def _output(text: bytes, element: bytes) -> bytes:
    return hashlib.sha512(_sized(text) + _sized(element) + b"Finalize").digest()


def _prove(private: bytes, inputs: Sequence[bytes], outputs: Sequence[bytes], scalar: bytes | None) -> bytes:
    public = public_of(private)
    m = _weighted_sum(_weights(public, inputs, outputs), inputs)
    z = bytes(_times(private, m))
    r = bytes(_random_scalar()) if scalar is None else scalar
    c = _challenge(public, m, z, bytes(_times_base(r)), bytes(_times(r, m)))
    return c + bytes(_scalar_sub(r, _scalar_mul(c, private)))


def _verify(public: bytes, inputs: Sequence[bytes], outputs: Sequence[bytes], proof: bytes) -> bool:
    c, s = proof[:32], proof[32:]
    if not all(0 < int.from_bytes(part, "little") < _ORDER for part in (c, s)):
        return False
    weights = _weights(public, inputs, outputs)
    m, z = _weighted_sum(weights, inputs), _weighted_sum(weights, outputs)
    t2 = bytes(_add(_times_base(s), _times(c, public)))
    t3 = bytes(_add(_times(s, m), _times(c, z)))
    return _challenge(public, m, z, t2, t3) == c


def _weights(public: bytes, inputs: Sequence[bytes], outputs: Sequence[bytes]) -> list[bytes]:
    """The factors that make one pair of all pairs of a batch, so that one proof covers them."""
    seed = hashlib.sha512(_sized(public) + _sized(b"Seed-" + _CONTEXT)).digest()
    return [
        _to_scalar(_sized(seed) + i.to_bytes(2, "big") + _sized(one) + _sized(other) + b"Composite")
        for i, (one, other) in enumerate(zip(inputs, outputs, strict=True))
    ]


def _weighted_sum(weights: Sequence[bytes], points: Sequence[bytes]) -> bytes:
    total = _IDENTITY
    for weight, point in zip(weights, points, strict=True):
        total = bytes(_add(total, _times(weight, point)))
    return total


def _challenge(public: bytes, *points: bytes) -> bytes:
    return _to_scalar(b"".join(map(_sized, (public, *points))) + b"Challenge")


def _to_group(text: bytes) -> bytes:
    point = bytes(_from_hash(_expand(text, b"HashToGroup-" + _CONTEXT)))
    if point == _IDENTITY:
        raise VoprfError("this input has no point")
    return point


def _to_scalar(text: bytes, purpose: bytes = b"HashToScalar-" + _CONTEXT) -> bytes:
    return bytes(_reduce(_expand(text, purpose)))


def _expand(text: bytes, purpose: bytes) -> bytes:
    """64 bytes: expand_message_xmd of RFC 9380 with SHA-512, whose one block is enough."""
    ending = purpose + bytes([len(purpose)])
    first = hashlib.sha512(bytes(128) + text + b"\x00\x40\x00" + ending).digest()
    return hashlib.sha512(first + b"\x01" + ending).digest()


def _sized(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text
