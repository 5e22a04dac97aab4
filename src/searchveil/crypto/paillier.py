"""Paillier's cryptosystem: the product of ciphertexts is a ciphertext of the sum. With many counters in one plaintext.

Ciphertexts are c = (1 + n)^m · r^n mod n², where (1 + n)^m = 1 + m·n. Packing puts counters of a fixed number of bits
side by side into one plaintext; as long as no sum overflows its place, adding plaintexts adds all of them at once.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import gmpy2
from gmpy2 import mpz

BITS = 2048


@dataclass(frozen=True)
class PublicKey:
    n: int

    @cached_property
    def square(self) -> mpz:
        return mpz(self.n) ** 2

    def encrypt(self, plaintext: int) -> int:
        """A fresh ciphertext: the same plaintext never gives the same one again."""
        if not 0 <= plaintext < self.n:
            raise ValueError("a plaintext lies between 0 and n")
        return int((1 + mpz(plaintext) * self.n) % self.square * self._noise() % self.square)

    def add(self, first: int, second: int) -> int:
        """A ciphertext of the sum."""
        return int(mpz(self.check(first)) * self.check(second) % self.square)

    def rerandomized(self, ciphertext: int) -> int:
        """Of the same plaintext, and not to be linked with the one before."""
        return int(mpz(self.check(ciphertext)) * self._noise() % self.square)

    def check(self, ciphertext: int) -> int:
        if not 0 < ciphertext < self.square or gmpy2.gcd(ciphertext, self.n) != 1:
            raise ValueError("not a ciphertext of this key")
        return ciphertext

    def _noise(self) -> mpz:
        while True:
            r = mpz(1 + secrets.randbelow(self.n - 1))
            if gmpy2.gcd(r, self.n) == 1:
                return gmpy2.powmod(r, self.n, self.square)


@dataclass(frozen=True)
class PrivateKey:
    p: int = field(repr=False)
    q: int = field(repr=False)

    @classmethod
    def generate(cls, bits: int = BITS) -> "PrivateKey":
        """Two random primes of half as many bits, the highest two of each set, so that n has `bits` bits."""
        while True:
            p, q = (_random_prime(bits // 2) for _ in range(2))
            if p != q and gmpy2.gcd(p * q, (p - 1) * (q - 1)) == 1:
                return cls(p, q)

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey(self.p * self.q)

    def decrypt(self, ciphertext: int) -> int:
        """Modulo p² and q² apart, put together by the Chinese remainder theorem."""
        self.public.check(ciphertext)
        parts = []
        for prime in (self.p, self.q):
            square = mpz(prime) ** 2
            of_unit = (gmpy2.powmod(1 + self.public.n, prime - 1, square) - 1) // prime
            raised = (gmpy2.powmod(ciphertext, prime - 1, square) - 1) // prime
            parts.append(raised * gmpy2.invert(of_unit, prime) % prime)
        by_p, by_q = parts
        return int(by_p + self.p * ((by_q - by_p) * gmpy2.invert(self.p, self.q) % self.q))


def _random_prime(bits: int) -> int:
    while True:
        prime = int(gmpy2.next_prime(secrets.randbits(bits) | (3 << (bits - 2))))
        if prime.bit_length() == bits:
            return prime


def places(key: PublicKey, bits: int) -> int:
    """How many counters of so many bits one plaintext holds."""
    return (key.n.bit_length() - 1) // bits


def pack(counters: Sequence[int], bits: int, key: PublicKey) -> list[int]:
    """Plaintexts that hold the counters, which must leave room for the sum of all that will be added."""
    if any(not 0 <= counter < 1 << bits for counter in counters):
        raise ValueError(f"a counter has at most {bits} bits")
    size = places(key, bits)
    groups = [counters[i : i + size] for i in range(0, len(counters), size)]
    return [sum(counter << (bits * i) for i, counter in enumerate(group)) for group in groups]


def unpack(plaintexts: Sequence[int], count: int, bits: int, key: PublicKey) -> list[int]:
    size, mask = places(key, bits), (1 << bits) - 1
    counters = [plaintext >> (bits * i) & mask for plaintext in plaintexts for i in range(size)]
    return counters[:count]
