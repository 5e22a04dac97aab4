"""Opening an item whose noisy total passed: the coordinator learns its text, and not who or how many held it.

Each holder of an item sends (R, R·x₁, …, R·x_k) with a random R of its own and the text x in k parts, before it a tag
under the key that the parties share: the coordinator cannot make up a text, neither of an item that somebody holds nor
of an id that nobody does. The others send zeros; all of it masked. The coordinator sees the sums alone: ΣR is uniform,
and the ratios are x₁, …, x_k. Every text has the same number of parts, so its length does not show before it is opened.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence

from searchveil.collab.messages import read_json
from searchveil.crypto.masks import FIELD

PART_BYTES = 31  # fits below 2^255 − 19
CHECK_BYTES = 8  # of a digest, by which a text that two parties do not agree on is found out
TAG_BYTES = 16
_LENGTH_BYTES = 2


def encoded(columns: Sequence[str]) -> bytes:
    """An item as bytes: what is hashed to the group, and what is opened."""
    return json.dumps(list(columns), ensure_ascii=False, separators=(",", ":")).encode()


def decoded(raw: bytes, columns: int) -> list[str]:
    """The item of these bytes, if it is the one that they are made of: no item has two forms."""
    values = read_json(raw)
    if not isinstance(values, list) or len(values) != columns or not all(isinstance(value, str) for value in values):
        raise ValueError("not an item")
    if encoded(values) != raw:
        raise ValueError("not the canonical form of an item")
    return values


def parts_for(longest: int) -> int:
    """Into how many elements a text of at most so many bytes is cut."""
    return -(-(longest + _LENGTH_BYTES + CHECK_BYTES + TAG_BYTES) // PART_BYTES)


def tag_of(group_key: bytes, blinded: bytes, text: bytes) -> bytes:
    """That a party says this text of this id."""
    return hmac.digest(group_key, b"opened\x00" + blinded + text, "sha256")[:TAG_BYTES]


def elements_of(raw: bytes, parts: int) -> list[int]:
    """(R, R·x₁, …) of a holder."""
    padded = len(raw).to_bytes(_LENGTH_BYTES, "big") + _check(raw) + raw
    if len(padded) > PART_BYTES * parts:
        raise ValueError("longer than the longest text")
    padded = padded.ljust(PART_BYTES * parts, b"\x00")
    blind = 1 + secrets.randbelow(FIELD - 1)
    cut = [int.from_bytes(padded[PART_BYTES * i : PART_BYTES * (i + 1)], "big") for i in range(parts)]
    return [blind, *(blind * x % FIELD for x in cut)]


def nothing(parts: int) -> list[int]:
    """Of a party that does not hold the item."""
    return [0] * (parts + 1)


def opened(sums: Sequence[int]) -> bytes | None:
    """The text, or None where nobody held the item; ValueError where the holders do not agree on one."""
    blind, *products = sums
    if blind == 0:
        if any(products):
            raise ValueError("not the same text")
        return None
    unblind = pow(blind, -1, FIELD)
    try:
        padded = b"".join((x * unblind % FIELD).to_bytes(PART_BYTES, "big") for x in products)
    except OverflowError:
        raise ValueError("not the same text") from None
    length = int.from_bytes(padded[:_LENGTH_BYTES], "big")
    check, rest = padded[_LENGTH_BYTES : _LENGTH_BYTES + CHECK_BYTES], padded[_LENGTH_BYTES + CHECK_BYTES :]
    raw = rest[:length]
    if len(raw) < length or any(rest[length:]) or check != _check(raw):
        raise ValueError("not the same text")
    return raw


def _check(raw: bytes) -> bytes:
    return hashlib.sha256(b"searchveil collab item\x00" + raw).digest()[:CHECK_BYTES]
