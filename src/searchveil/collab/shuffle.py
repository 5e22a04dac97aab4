"""Rows of all parties in one table, so that nobody can tell which party a row came from.

Every row is encoded to the same number of bytes and sealed once for every party, the first in the ring outermost. The
first party gets the rows of all, takes its layer off, shuffles, and passes them on; the last one reads them. A party
that sees the same sealed row twice ends the run: repeating a row would show where it goes.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from searchveil.collab.coordinator import MOST_OF_A_PARTY, MOST_WAITING
from searchveil.collab.link import Link
from searchveil.collab.messages import Refused, read_json
from searchveil.crypto import hpke
from searchveil.privacy.noise import Source

BESIDE_TEXT = 130  # bytes for a random number, a pseudonym, a time, a rank, a count and what stands between them
_LENGTH_BYTES = 2
Row = tuple[Any, ...]


def shuffled(
    link: Link, rows: Sequence[Row], private: bytes, publics: Mapping[str, bytes], longest: int, source: Source
) -> list[Row]:
    """The rows of all parties in a random order. Every party checks that its own are among them."""
    names = link.agreement.names
    size = longest + BESIDE_TEXT + _LENGTH_BYTES
    mine = [_padded(row, size) for row in rows]
    first, last = names[0], names[-1]
    sealed = _shuffled([_sealed(link, raw, publics) for raw in mine], source)
    if link.name != first:
        link.send(first, "shuffle", "rows", b"".join(sealed))
    final: bytes
    place = names.index(link.name)
    width = size + hpke.OVERHEAD * (len(names) - place)
    if link.name == first:
        gathered = sealed
        for other in link.others:
            gathered += _cut(link.receive(other, "shuffle", "rows", most=MOST_OF_A_PARTY), width, other)
    else:
        before = names[place - 1]
        gathered = _cut(link.receive(before, "shuffle", "layer", most=MOST_WAITING), width, before)
    peeled = _shuffled(_peeled(link, gathered, private), source)
    if link.name != last:
        link.send(names[place + 1], "shuffle", "layer", b"".join(peeled))
        final = link.receive(last, "shuffle", "all", most=MOST_WAITING)
    else:
        final = b"".join(peeled)
        for other in link.others:
            link.send(other, "shuffle", "all", final)
    return _checked(_cut(final, size, last), mine, last)


def _checked(final: list[bytes], mine: Sequence[bytes], last: str) -> list[Row]:
    there = set(final)
    if len(there) < len(final):
        raise Refused(f"{last} published a row twice")
    if not there.issuperset(mine):
        raise Refused(f"rows of this party are not among those that {last} published")
    return [_row(raw, last) for raw in final]


def _padded(row: Row, size: int) -> bytes:
    """With a random number in front: a user may have two clicks that are alike, and still no two rows are."""
    raw = json.dumps((secrets.token_hex(8), *row), ensure_ascii=False, separators=(",", ":")).encode()
    if len(raw) > size - _LENGTH_BYTES:
        raise ValueError("a row is longer than the longest one")
    return (len(raw).to_bytes(_LENGTH_BYTES, "big") + raw).ljust(size, b"\x00")


def _row(raw: bytes, sender: str) -> Row:
    length = int.from_bytes(raw[:_LENGTH_BYTES], "big")
    try:
        values = read_json(raw[_LENGTH_BYTES : _LENGTH_BYTES + length])
        if not isinstance(values, list) or len(values) < 2:
            raise ValueError
    except ValueError:
        raise Refused(f"{sender} published what is no row") from None
    return tuple(values[1:])


def _sealed(link: Link, raw: bytes, publics: Mapping[str, bytes]) -> bytes:
    for name in reversed(link.agreement.names):
        try:
            raw = hpke.seal(publics[name], _info(link, name), b"", raw)
        except hpke.SealError:
            raise Refused(f"the key of {name} for sealing rows is none") from None
    return raw


def _peeled(link: Link, rows: Sequence[bytes], private: bytes) -> list[bytes]:
    if len(set(rows)) < len(rows):
        raise Refused("the same sealed row came twice")
    try:
        return [hpke.unseal(private, _info(link, link.name), b"", row) for row in rows]
    except hpke.UnsealError:
        raise Refused("a sealed row does not open: it was changed, or is of another run") from None


def _info(link: Link, name: str) -> bytes:
    return f"searchveil collab shuffle\n{link.session}\n{name}".encode()


def _cut(raw: bytes, width: int, sender: str) -> list[bytes]:
    if len(raw) % width:
        raise Refused(f"{sender} sent rows of another size")
    return [raw[i : i + width] for i in range(0, len(raw), width)]


def _shuffled(rows: Sequence[bytes], source: Source) -> list[bytes]:
    return [rows[i] for i in np.asarray(source.order(len(rows))).tolist()]
