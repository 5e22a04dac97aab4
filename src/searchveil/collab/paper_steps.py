"""The paper's two building blocks between parties: a union by commutative encryption, and sums under Paillier's.

Algorithms 3 and 1 of Hong et al. 2014. The first of the ring is their P1.
"""

import json
from collections.abc import Sequence
from functools import partial

from searchveil.collab.messages import Refused
from searchveil.collab.paper_wire import End, numbers_from_bytes, numbers_to_bytes, to_json
from searchveil.crypto import paillier, pohlig_hellman
from searchveil.crypto.paillier import PrivateKey, PublicKey

COUNT_BITS = 32  # of the sum of a pair's counts
LARGEST_COUNT = 2**26  # of one party: those of all parties, 26 at most, fit into COUNT_BITS


def union(end: End, ring: Sequence[str], items: Sequence[bytes]) -> list[bytes]:
    """The items of all parties, each once, in the order of their bytes; everybody learns them.

    Every list is sorted by its ciphertexts before it goes on, so that no place in it tells anything.
    """
    key = pohlig_hellman.random_key()
    put_on = partial(pohlig_hellman.encrypt, key)
    take_off = partial(pohlig_hellman.encrypt, pohlig_hellman.inverse(key))
    mine = sorted(end.each(list(map(pohlig_hellman.to_group, items)), put_on, "encrypting its own"))
    head, width = ring[0], pohlig_hellman.BYTES
    if end.name != head:
        end.send(head, "items", numbers_to_bytes(mine, width))
        for topic, work in [("encrypt", put_on)] * (len(ring) - 1) + [("decrypt", take_off)]:
            asked = numbers_from_bytes(end.receive(head, topic), width)
            end.send(head, topic, numbers_to_bytes(sorted(end.each(asked, work, f"{topic}ing")), width))
        return [text.encode() for text in json.loads(end.receive(head, "union"))]

    def through(numbers: list[int], topic: str, others: Sequence[str]) -> list[int]:
        for other in others:
            end.send(other, topic, numbers_to_bytes(numbers, width))
            numbers = numbers_from_bytes(end.receive(other, topic), width)
        return numbers

    gathered: set[int] = set()
    others = ring[1:]
    lists = {other: numbers_from_bytes(end.receive(other, "items"), width) for other in others}
    gathered.update(through(mine, "encrypt", others))
    for owner in others:
        covered = sorted(end.each(lists[owner], put_on, f"encrypting those of {owner}"))
        gathered.update(through(covered, "encrypt", [other for other in others if other != owner]))
    bare = through(sorted(end.each(sorted(gathered), take_off, "decrypting")), "decrypt", others)
    found = sorted(map(pohlig_hellman.from_group, bare))
    end.tell(others, "union", to_json([item.decode() for item in found]))
    return found


def total_counts(end: End, ring: Sequence[str], counts: Sequence[int]) -> list[int]:
    """The sums over all parties, which everybody learns. The first one holds the key, and sees the last product alone.

    Counters are packed: the product of two ciphertexts adds many of them at once.
    """
    if max(counts, default=0) > LARGEST_COUNT:
        raise Refused(f"a pair was clicked more than {LARGEST_COUNT:,} times at one party")
    head, others = ring[0], ring[1:]
    if end.name == head:
        private = PrivateKey.generate()
        public = private.public
        end.tell(others, "key", numbers_to_bytes([public.n], paillier.BITS // 8))
    else:
        public = PublicKey(int.from_bytes(end.receive(head, "key"), "big"))
    mine = encrypted(end, public, counts, COUNT_BITS)
    if end.name != head:
        before = received(end, previous(ring, end.name), "sum")
        mine = [public.add(first, second) for first, second in zip(before, mine, strict=True)]
    hand_on(end, following(ring, end.name), "sum", mine)
    if end.name != head:
        totals: list[int] = json.loads(end.receive(head, "totals"))
        return totals
    plain = end.each(received(end, ring[-1], "sum"), private.decrypt)
    totals = paillier.unpack(plain, len(counts), COUNT_BITS, public)
    end.tell(others, "totals", to_json(totals))
    return totals


def encrypted(end: End, public: PublicKey, counters: Sequence[int], bits: int) -> list[int]:
    return end.each(paillier.pack(counters, bits, public), public.encrypt)


def hand_on(end: End, to: str, topic: str, ciphertexts: Sequence[int]) -> None:
    end.send(to, topic, numbers_to_bytes(ciphertexts, paillier.BITS // 4))


def received(end: End, sender: str, topic: str) -> list[int]:
    return numbers_from_bytes(end.receive(sender, topic), paillier.BITS // 4)


def following(ring: Sequence[str], name: str) -> str:
    return ring[(ring.index(name) + 1) % len(ring)]


def previous(ring: Sequence[str], name: str) -> str:
    return ring[ring.index(name) - 1]
