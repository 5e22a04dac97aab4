"""The paper's two building blocks between parties: a union by commutative encryption, and sums under Paillier's.

Algorithms 3 and 1 of Hong et al. 2014. The first of the ring is their P1.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from searchveil.collab.messages import Refused, read_json
from searchveil.collab.paper_wire import MOST_ITEMS, End, numbers_from_bytes, numbers_to_bytes, of_numbers, to_json
from searchveil.crypto import paillier, pohlig_hellman
from searchveil.crypto.paillier import PrivateKey, PublicKey

COUNT_BITS = 32  # of the sum of a pair's counts
LARGEST_COUNT = 2**26  # of one party: those of all parties, 26 at most, fit into COUNT_BITS


def union(end: End, ring: Sequence[str], items: Sequence[bytes]) -> list[bytes]:
    """The items of all parties, each once, in the order of their bytes; everybody learns them.

    Every list is sorted by its ciphertexts before it goes on, so that no place in it tells anything.
    """
    if len(items) > MOST_ITEMS:
        raise Refused(f"more than {MOST_ITEMS:,} items of one party take a day; take smaller logs, or the private mode")
    key = pohlig_hellman.random_key()
    put_on = partial(pohlig_hellman.encrypt, key)
    take_off = partial(pohlig_hellman.encrypt, pohlig_hellman.inverse(key))
    mine = sorted(end.each(list(map(pohlig_hellman.to_group, items)), put_on, "encrypting its own"))
    head, width = ring[0], pohlig_hellman.BYTES
    most = MOST_ITEMS * width
    if end.name != head:
        end.send(head, "items", numbers_to_bytes(mine, width))
        for topic, work in [("encrypt", put_on)] * (len(ring) - 1) + [("decrypt", take_off)]:
            asked = numbers_from_bytes(end.receive(head, topic, most=most), width)
            end.send(head, topic, numbers_to_bytes(sorted(end.each(asked, work, f"{topic}ing")), width))
        longest = 2 * pohlig_hellman.LONGEST + 4  # with quotation marks and backslashes
        united = read_json(end.receive(head, "union", most=2 + longest * len(asked)))
        return [text.encode() for text in united]

    def through(numbers: list[int], topic: str, others: Sequence[str]) -> list[int]:
        for other in others:
            end.send(other, topic, numbers_to_bytes(numbers, width))
            came = numbers_from_bytes(end.receive(other, topic, most=width * len(numbers)), width)
            if len(came) < len(numbers):
                raise Refused(f"{other} gave back {len(came)} items of {len(numbers)}")
            numbers = came
        return numbers

    gathered: set[int] = set()
    others = ring[1:]
    lists = {other: numbers_from_bytes(end.receive(other, "items", most=most), width) for other in others}
    gathered.update(through(mine, "encrypt", others))
    for owner in others:
        covered = sorted(end.each(lists[owner], put_on, f"encrypting those of {owner}"))
        gathered.update(through(covered, "encrypt", [other for other in others if other != owner]))
    if len(gathered) > MOST_ITEMS:
        raise Refused(f"more than {MOST_ITEMS:,} items of all parties take a day")
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
        public = received_key(end, head)
    mine = encrypted(end, public, counts, COUNT_BITS)
    if end.name != head:
        before = received(end, previous(ring, end.name), "sum", len(mine))
        mine = [public.add(first, second) for first, second in zip(before, mine, strict=True)]
    hand_on(end, following(ring, end.name), "sum", mine)
    if end.name != head:
        totals = read_json(end.receive(head, "totals", most=of_numbers(len(counts))))
        return checked_numbers(totals, len(counts), head)
    plain = end.each(received(end, ring[-1], "sum", len(mine)), private.decrypt)
    totals = paillier.unpack(plain, len(counts), COUNT_BITS, public)
    end.tell(others, "totals", to_json(totals))
    return totals


def encrypted(end: End, public: PublicKey, counters: Sequence[int], bits: int) -> list[int]:
    return end.each(paillier.pack(counters, bits, public), public.encrypt)


def hand_on(end: End, to: str, topic: str, ciphertexts: Sequence[int]) -> None:
    end.send(to, topic, numbers_to_bytes(ciphertexts, paillier.BITS // 4))


def received(end: End, sender: str, topic: str, count: int) -> list[int]:
    """So many ciphertexts, no less and no more."""
    width = paillier.BITS // 4
    numbers = numbers_from_bytes(end.receive(sender, topic, most=width * count), width)
    if len(numbers) < count:
        raise Refused(f"{sender} sent {len(numbers)} ciphertexts of {count} ({topic})")
    return numbers


def received_key(end: End, sender: str) -> PublicKey:
    raw = end.receive(sender, "key", most=paillier.BITS // 8)
    public = PublicKey(int.from_bytes(raw, "big"))
    if public.n.bit_length() != paillier.BITS or public.n % 2 == 0:
        raise Refused(f"{sender} sent what is no key of {paillier.BITS} bits")
    return public


def checked_numbers(values: Any, count: int, sender: str) -> list[int]:
    """So many whole numbers from 0 to 2^62: two of them add up without a carry that would be lost."""
    if not isinstance(values, list) or len(values) != count:
        raise Refused(f"{sender} sent another number of values than {count}")
    if not all(type(value) is int and 0 <= value < 1 << 62 for value in values):
        raise Refused(f"{sender} sent a value that is no count")
    return values


def following(ring: Sequence[str], name: str) -> str:
    return ring[(ring.index(name) + 1) % len(ring)]


def previous(ring: Sequence[str], name: str) -> str:
    return ring[ring.index(name) - 1]
