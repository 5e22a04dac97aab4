"""The commutative cipher of Pohlig and Hellman: x ↦ x^e in the squares modulo a safe prime of 2048 bits.

Two keys can be put on, and taken off, in any order. The prime is that of group 14 of RFC 3526, p = 2q + 1 with q prime;
the squares form a group of order q, in which every key is invertible.
"""

import hashlib
import secrets

import gmpy2
from gmpy2 import mpz

PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74"
    "020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437"
    "4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05"
    "98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB"
    "9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
ORDER = (PRIME - 1) // 2
BYTES = 256
LONGEST = BYTES - 3  # bytes of a text that an element can stand for


def random_key() -> int:
    return 1 + secrets.randbelow(ORDER - 1)


def inverse(key: int) -> int:
    return int(gmpy2.invert(key, ORDER))


def hash_to_group(text: bytes) -> int:
    """A square of which nobody knows a root or logarithm to a known base."""
    wide = hashlib.shake_256(b"searchveil pohlig-hellman\x00" + text).digest(BYTES + 16)
    return int(gmpy2.powmod(int.from_bytes(wide, "big") % (PRIME - 3) + 2, 2, PRIME))


def to_group(text: bytes) -> int:
    """A square that stands for a text of up to LONGEST bytes, and from which it can be read again.

    −1 is no square modulo this prime, so of a number and its negative exactly one is.
    """
    if len(text) > LONGEST:
        raise ValueError(f"a text of {len(text)} bytes, where {LONGEST} fit")
    number = int.from_bytes(b"\x02" + text, "big")  # a first byte keeps zeros, and is never the number 1
    return number if gmpy2.jacobi(number, PRIME) == 1 else PRIME - number


def from_group(element: int) -> bytes:
    number = min(check(element), PRIME - element)
    raw = number.to_bytes(BYTES, "big").lstrip(b"\x00")
    if raw[:1] != b"\x02" or len(raw) - 1 > LONGEST:
        raise ValueError("not a text")
    return raw[1:]


def encrypt(key: int, element: int) -> int:
    return int(gmpy2.powmod(check(element), key, PRIME))


def check(element: int) -> int:
    """The element itself, if it is a square other than 1."""
    if not 1 < element < PRIME or gmpy2.jacobi(mpz(element), PRIME) != 1:
        raise ValueError("not a square modulo the prime, or 1")
    return element
