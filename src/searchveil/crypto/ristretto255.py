"""The group ristretto255 (RFC 9496) of prime order: points and scalars as 32 bytes each, on libsodium.

Every non-zero scalar has an inverse and every point but the identity generates the whole group, so multiplying by a
random scalar is a permutation that only who knows the scalar can undo.
"""

import hashlib

from searchveil.crypto.sodium import rbcl

POINT_BYTES = 32
SCALAR_BYTES = 32
ORDER = 2**252 + 27742317777372353535851937790883648493
IDENTITY = bytes(POINT_BYTES)
NOT_CANONICAL = "32 bytes are not a canonical point of ristretto255, or they are the identity"

# RFC 9497, mode 0x00 (OPRF). Other protocols name themselves in a tag of their own, so that none can be used for
# another.
OPRF_TAG = b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512"


class InvalidPoint(ValueError):  # noqa: N818 (what is wrong, not that it is an error)
    """These bytes are not the canonical encoding of a point, or they are the identity."""


def check_point(point: bytes) -> bytes:
    """The point itself, if it is canonical and not the identity: what everything from outside goes through."""
    _check_shape(point)
    if point == IDENTITY or not rbcl.crypto_core_ristretto255_is_valid_point(point):
        raise InvalidPoint(NOT_CANONICAL)
    return point


def _check_shape(point: bytes) -> None:
    """The library passes over the highest bit, which would give every point a second encoding."""
    if len(point) != POINT_BYTES:
        raise InvalidPoint(f"a point has {POINT_BYTES} bytes, not {len(point)}")
    if point[-1] & 0x80:
        raise InvalidPoint(NOT_CANONICAL)


def check_scalar(scalar: bytes) -> bytes:
    """The scalar itself, if it is reduced and not zero."""
    if len(scalar) != SCALAR_BYTES or not 0 < int.from_bytes(scalar, "little") < ORDER:
        raise ValueError("a scalar has 32 bytes and lies between 1 and the order of the group")
    return scalar


def random_scalar() -> bytes:
    """A uniform non-zero scalar from the operating system's random bits."""
    scalar: bytes = rbcl.crypto_core_ristretto255_scalar_random()
    return scalar


def random_point() -> bytes:
    """A uniform point of which nobody knows the discrete logarithm."""
    point: bytes = rbcl.crypto_core_ristretto255_random()
    return point


def inverse(scalar: bytes) -> bytes:
    inverted: bytes = rbcl.crypto_core_ristretto255_scalar_invert(check_scalar(scalar))
    return inverted


def product(first: bytes, second: bytes) -> bytes:
    """Of two scalars."""
    multiplied: bytes = rbcl.crypto_core_ristretto255_scalar_mul(check_scalar(first), check_scalar(second))
    return multiplied


def multiply(scalar: bytes, point: bytes) -> bytes:
    """scalar · point. The library refuses encodings that are not canonical, and results that are the identity."""
    _check_shape(point)
    try:
        multiplied: bytes = rbcl.crypto_scalarmult_ristretto255(scalar, point)
    except RuntimeError:
        raise InvalidPoint(NOT_CANONICAL) from None
    return multiplied


def multiply_all(scalar: bytes, points: bytes) -> bytes:
    """scalar · point for points one after the other, in their order."""
    check_scalar(scalar)
    if len(points) % POINT_BYTES:
        raise InvalidPoint(f"{len(points)} bytes are not a whole number of points")
    starts = range(0, len(points), POINT_BYTES)
    return b"".join([multiply(scalar, points[start : start + POINT_BYTES]) for start in starts])


def base(scalar: bytes) -> bytes:
    """scalar · generator."""
    multiplied: bytes = rbcl.crypto_scalarmult_ristretto255_base(check_scalar(scalar))
    return multiplied


def add(first: bytes, second: bytes) -> bytes:
    summed: bytes = rbcl.crypto_core_ristretto255_add(check_point(first), check_point(second))
    return summed


def hash_to_group(text: bytes, tag: bytes = OPRF_TAG) -> bytes:
    """A point of which nobody knows the discrete logarithm: hash_to_ristretto255 of RFC 9380, as in RFC 9497."""
    point: bytes = rbcl.crypto_core_ristretto255_from_hash(expand(text, tag, 64))
    return point


def expand(text: bytes, tag: bytes, size: int) -> bytes:
    """expand_message_xmd of RFC 9380 with SHA-512, for up to 64 bytes."""
    if not 0 < size <= 64 or not 0 < len(tag) <= 255:
        raise ValueError("up to 64 bytes can be expanded, under a tag of 1 to 255 bytes")
    named = tag + bytes([len(tag)])
    first = hashlib.sha512(bytes(128) + text + size.to_bytes(2, "big") + b"\x00" + named).digest()
    return hashlib.sha512(first + b"\x01" + named).digest()[:size]
