"""Blinding: every item gets an id that nobody can compute without all parties, and that its owner alone sees.

The owner sends ρ·H(x) for a fresh ρ; the other parties multiply by their secret scalars in turn; the owner takes ρ off
and puts its own scalar on last. So who passes a list on sees uniform points, and the ids of two runs have nothing in
common. Scalars and ρ live in memory alone, and only for one run.
"""

import hashlib

import numpy as np
import numpy.typing as npt

from searchveil.collab.coordinator import ID_BYTES, MOST_OF_A_PARTY
from searchveil.collab.link import Link
from searchveil.collab.messages import PART, Refused, parts_of
from searchveil.crypto import ristretto255
from searchveil.crypto.ristretto255 import POINT_BYTES, InvalidPoint
from searchveil.privacy.noise import Source

TAG = b"HashToGroup-searchveil-collab-V1-ristretto255-SHA512"
Ids = npt.NDArray[np.bytes_]  # of 16 bytes each


def blinded_ids(link: Link, items: list[bytes], dummies: int, filling: int, source: Source) -> tuple[Ids, Ids, int]:
    """The ids of the items, in their order, those of the dummies, and how many points of all parties went around.

    `filling` further points go around the ring and are dropped: they hide how many of the items others have as well.
    """
    names = link.agreement.names
    place = names.index(link.name)
    before, after = names[place - 1], names[(place + 1) % len(names)]
    key, rho = ristretto255.random_scalar(), ristretto255.random_scalar()
    order = source.order(len(items) + dummies + filling)
    _send_own(link, after, items, order, rho)
    everybody = len(order)
    for distance in range(1, len(names)):
        everybody += _pass_on(link, before, after, owner=names[place - distance], key=key)
    last = ristretto255.product(ristretto255.inverse(rho), key)
    ids = _receive_own(link, before, last, len(order))
    unshuffled = np.empty_like(ids)
    unshuffled[order] = ids
    wanted = unshuffled[: len(items) + dummies]
    if len(np.unique(wanted)) < len(wanted):
        raise Refused("the ring made two items one: a party multiplied them by different numbers")
    return wanted[: len(items)], wanted[len(items) :], everybody


def _send_own(link: Link, after: str, items: list[bytes], order: npt.NDArray[np.int64], rho: bytes) -> None:
    """In a random order, in which dummies are uniform points as the items are."""
    count, per_part = parts_of(POINT_BYTES * len(order)), PART // POINT_BYTES
    for part in range(count):
        places = order[part * per_part : (part + 1) * per_part]
        points = [
            ristretto255.multiply(rho, ristretto255.hash_to_group(items[i], TAG))
            if i < len(items)
            else ristretto255.random_point()
            for i in places.tolist()
        ]
        link.send_part(after, "blind", link.name, b"".join(points), part, last=part == count - 1)
        link.bar("blinding its own items", min(len(order), (part + 1) * per_part), len(order))


def _pass_on(link: Link, before: str, after: str, *, owner: str, key: bytes) -> int:
    """How many points of this owner passed."""
    passed = 0
    for part, (points, last) in enumerate(link.parts(before, "blind", owner)):
        passed += len(points)
        if passed > MOST_OF_A_PARTY:
            raise Refused(f"{before} passed on more than {MOST_OF_A_PARTY:,} bytes of points of {owner}")
        link.send_part(after, "blind", owner, _multiplied(key, points, before), part, last=last)
    return passed // POINT_BYTES


def _receive_own(link: Link, before: str, scalar: bytes, expected: int) -> Ids:
    made: list[bytes] = []
    for points, _ in link.parts(before, "blind", link.name):
        multiplied = _multiplied(scalar, points, before)
        for start in range(0, len(multiplied), POINT_BYTES):
            made.append(id_of(multiplied[start : start + POINT_BYTES]))
        link.bar("taking back its own items", len(made), expected)
        if len(made) > expected:
            break
    if len(made) != expected:
        raise Refused(f"{before} gave back {len(made)} points of the {expected} that went around")
    return np.frombuffer(b"".join(made), f"S{ID_BYTES}")


def id_of(point: bytes) -> bytes:
    """Of an item's point times the scalars of all parties."""
    return hashlib.blake2b(point, digest_size=ID_BYTES, person=b"collab id").digest()


def _multiplied(scalar: bytes, points: bytes, sender: str) -> bytes:
    try:
        return ristretto255.multiply_all(scalar, points)
    except InvalidPoint as problem:
        raise Refused(f"{sender} sent a point that is refused: {problem}") from None
