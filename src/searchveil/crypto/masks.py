"""Pairwise masks: every pair of parties adds and subtracts the same stream, so that only sums can be read.

A key that two parties share becomes a stream for each purpose (HKDF-SHA256 of the key under a label, then ChaCha20).
The party that comes first adds the stream, the other subtracts it. Without the streams of all pairs a masked vector is
uniform, and adding the vectors of all parties takes all masks off at once.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Words = npt.NDArray[np.uint64]

FIELD = 2**255 - 19  # a prime: elements of 32 bytes, of which ratios can be taken
ELEMENT_BYTES = 32
_WIDE = 64  # bytes that are reduced to one element: their bias is below 2^-256


def stream(key: bytes, label: bytes, size: int) -> bytes:
    """So many bytes that only who knows the key can tell from random ones; another label gives another stream."""
    if len(key) != 32:
        raise ValueError(f"a key has 32 bytes, not {len(key)}")
    derived = HKDF(SHA256(), 32, None, b"searchveil mask\x00" + label).derive(key)
    return Cipher(ChaCha20(derived, bytes(16)), None).encryptor().update(bytes(size))


def mask_words(values: Words, me: int, keys: Mapping[int, bytes], label: bytes) -> Words:
    """64-bit words plus the masks of all pairs that `me` is in; `keys` by the number of the other party."""
    masked = values.astype(np.uint64, copy=True)
    for other, key in _others(me, keys):
        words = np.frombuffer(stream(key, label, 8 * len(values)), "<u8").astype(np.uint64)
        masked = masked + words if me < other else masked - words
    return masked


def sum_words(masked: Sequence[Words]) -> Words:
    """The sum of what the parties masked, modulo 2^64: the masks are gone."""
    total = np.zeros(len(masked[0]), np.uint64)
    for vector in masked:
        total += vector
    return total


def mask_elements(values: Sequence[int], me: int, keys: Mapping[int, bytes], label: bytes) -> list[int]:
    """The same for elements of the field."""
    masked = list(values)
    for other, key in _others(me, keys):
        wide = stream(key, label, _WIDE * len(masked))
        sign = 1 if me < other else -1
        for i in range(len(masked)):
            masked[i] += sign * int.from_bytes(wide[_WIDE * i : _WIDE * (i + 1)], "little")
    return [value % FIELD for value in masked]


def sum_elements(masked: Sequence[Sequence[int]]) -> list[int]:
    return [sum(values) % FIELD for values in zip(*masked, strict=True)]


def to_bytes(elements: Sequence[int]) -> bytes:
    return b"".join(element.to_bytes(ELEMENT_BYTES, "little") for element in elements)


def from_bytes(raw: bytes) -> list[int]:
    """Elements one after the other; one that is not reduced is refused."""
    if len(raw) % ELEMENT_BYTES:
        raise ValueError(f"{len(raw)} bytes are not a whole number of field elements")
    elements = [int.from_bytes(raw[i : i + ELEMENT_BYTES], "little") for i in range(0, len(raw), ELEMENT_BYTES)]
    if any(element >= FIELD for element in elements):
        raise ValueError("a field element is not reduced")
    return elements


def _others(me: int, keys: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
    if me in keys:
        raise ValueError("a party has no mask with itself")
    return sorted(keys.items())
