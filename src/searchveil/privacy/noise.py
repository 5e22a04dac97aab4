"""Every random choice a proof relies on: cryptographic bits, and exact integer noise made from them.

A draw is the inverse of the distribution function at a uniform real number U, of which only as many bits are looked at
as the answer needs. The distribution function is known as integers with rigorous error bounds, so 64 bits decide almost
every draw and the rare rest is decided by more bits at more precision: the distribution is exact, not approximate.
"""

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count

import mpmath
import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from searchveil.cores import on_all_cores
from searchveil.privacy import normal
from searchveil.privacy.intervals import context, exactly, scaled

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bounds = Callable[[int], tuple[int, int]]  # bits -> lower and upper bound of a probability times 2^bits

_GUARD_BITS = 64  # beyond the bits asked for, so that an error bound almost never spans two values
_CHUNK = 1 << 20  # draws at a time: bounds the memory, keeps the tables in the cache
_BLOCK = 1 << 14  # draws whose working arrays stay in the cache of one core
_GUIDE_BITS = 16


class Source:
    """An endless stream of random bits: AES-256 in counter mode under a fresh key from the operating system.

    Only tests pass a key, and sweeps over demo logs, whose users are nobody. A source does not survive a fork, where
    two processes would draw the same noise.
    """

    def __init__(self, key: bytes | None = None, *, first_block: int = 0) -> None:
        counter = CTR(first_block.to_bytes(16, "big"))
        self._stream = Cipher(_cipher(os.urandom(32) if key is None else key), counter).encryptor()
        self._process = os.getpid()

    def _bytes(self, n: int) -> bytes:
        if os.getpid() != self._process:
            raise RuntimeError("a source of noise must not cross a fork: both processes would draw the same noise")
        return self._stream.update(bytes(n))

    def words(self, n: int) -> Words:
        """n independent uniform 64-bit words."""
        return np.frombuffer(self._bytes(8 * n), dtype=np.uint64)

    def bits(self, n: int) -> int:
        """A uniform integer of n bits."""
        return int.from_bytes(self._bytes((n + 7) // 8), "big") >> (-n % 8)

    def ones(self, n: int) -> int:
        """How many of n fair coins fall on one: Binomial(n, 1/2), exactly."""
        total = 0
        while n > 0:
            batch = min(n, 64 * _CHUNK)
            words = self.words((batch + 63) // 64).copy()
            words[-1] &= np.uint64((1 << ((batch - 1) % 64 + 1)) - 1)
            total += int(np.bitwise_count(words).sum(dtype=np.int64))
            n -= batch
        return total

    def below(self, ends: Integers) -> Integers:
        """A uniform integer in 0 … end − 1 for each end; words past the last whole multiple are drawn again."""
        bounds = ends.astype(np.uint64)
        drawn = self.words(len(bounds)).copy()
        last = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % bounds + np.uint64(1)) % bounds
        while len(again := np.flatnonzero(drawn > last)):
            drawn[again] = self.words(len(again))
        return (drawn % bounds).astype(np.int64)

    def order(self, n: int) -> Integers:
        """A uniform permutation of 0 … n − 1: the order of distinct random words."""
        while True:
            words = self.words(n)
            if len(np.unique(words)) == n:
                return np.argsort(words)

    def seed(self) -> int:
        """A fresh seed for a hash (63 bits, so that every engine can hold it as a signed integer)."""
        return self.bits(63)

    def key(self) -> str:
        """A fresh 256-bit key for a keyed cryptographic hash inside an engine, in hexadecimal."""
        return f"{self.bits(256):064x}"


def _cipher(key: bytes) -> AES:
    if len(key) != 32:  # a short one would be easy to guess, and no guarantee would hold
        raise ValueError(f"a key has 32 bytes, not {len(key)}; leave it out for fresh noise")
    return AES(key)


class Streams:
    """An endless stream of random bits for each number: block j of number i is AES-256 of (i, j) under one key.

    No two numbers share a block, so their streams are as independent as the parts of one source. A stream depends on
    the key and its number alone: whoever draws it again, in any order and beside any others, draws the same.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._blocks = key, Cipher(_cipher(key), ECB())

    def words(self, numbers: Integers) -> Words:
        """The first 64 bits of each stream; the numbers are not negative."""
        blocks = np.zeros((len(numbers), 2), ">u8")
        blocks[:, 0] = numbers
        return np.frombuffer(self._blocks.encryptor().update(blocks.tobytes()), np.uint64)[::2]

    def of(self, number: int) -> Source:
        """A number's stream."""
        return Source(self._key, first_block=number << 64)

    def rest(self, number: int) -> Source:
        """A number's stream after its first block."""
        return Source(self._key, first_block=(number << 64) + 1)


class Distribution(ABC):
    """A distribution on the integers, known through rigorous bounds on its distribution function."""

    @abstractmethod
    def bounds(self, bits: int) -> tuple[int, list[int], list[int]]:
        """(first, lower, upper) with lower[i] ≤ P(X ≤ first + i)·2^bits ≤ upper[i].

        Covers all values that 2^-bits can see: where smaller values than `first` exist, lower[0] is 0, so that no
        word is taken for `first` that may stand for one of them; words from upper[-1] on are left to a closer look.
        """

    def sample(self, n: int, source: Source) -> Integers:
        """n independent draws."""
        if n <= _CHUNK:
            return self._table.draw(n, source)
        parts = [self._table.draw(min(_CHUNK, n - start), source) for start in range(0, n, _CHUNK)]
        return np.concatenate(parts)

    @property
    def _table(self) -> "_Table":
        return _table_of(self)


class _Table:
    """The inverse distribution function on words of a fixed length; undecided words are handed on with more bits."""

    def __init__(self, distribution: Distribution, word_bits: int) -> None:
        self._distribution = distribution
        self._word_bits = word_bits
        first, lower, upper = distribution.bounds(word_bits)
        top = (1 << word_bits) - 1
        self._first = first
        # A word w stands for all U in [w, w+1)/2^bits: surely U < F(k) if w < lower, surely U ≥ F(k) if w ≥ upper.
        self._lower = np.array([min(bound, top) for bound in lower], dtype=np.uint64)
        self._upper = np.array([min(bound, top) for bound in upper], dtype=np.uint64)
        # The last word reaches 1 and so belongs to the unbounded tail: `min(…, top)` would call it decided.
        self._undecided_from = np.uint64(min(upper[-1], top))
        # Most words are decided by their first bits alone.
        self._shift = np.uint64(max(0, word_bits - _GUIDE_BITS))
        starts = np.arange(1 << min(word_bits, _GUIDE_BITS), dtype=np.uint64) << self._shift
        ends = starts | np.uint64((1 << int(self._shift)) - 1)
        low, high = self._ranks(starts)[0], self._ranks(ends)[1]
        decided = (low == high) & (ends < self._undecided_from)
        self._guide = np.where(decided, low, -1).astype(np.int32)

    def _ranks(self, words: Words) -> tuple[Integers, Integers]:
        """How many values of the distribution function are certainly, and at most, below each word's U."""
        return np.searchsorted(self._upper, words, "right"), np.searchsorted(self._lower, words, "right")

    def draw(self, n: int, source: Source) -> Integers:
        words = source.words(n) >> np.uint64(64 - self._word_bits)
        ranks: Integers = self._guide[words >> self._shift].astype(np.int64)
        rest = np.flatnonzero(ranks < 0)
        if len(rest):
            certain, possible = self._ranks(words[rest])
            ranks[rest] = certain
            undecided = (certain != possible) | (words[rest] >= self._undecided_from)
            for i in rest[undecided]:
                ranks[i] = self._decide(int(words[i]), source) - self._first
        return ranks + self._first

    def _decide(self, word: int, source: Source) -> int:
        """Look at more bits of U, and at the distribution function more closely, until they part."""
        bits = self._word_bits
        while True:
            word, bits = (word << bits) | source.bits(bits), 2 * bits
            first, lower, upper = self._distribution.bounds(bits)
            certain, possible = bisect_right(upper, word), bisect_right(lower, word)
            if certain == possible and word < upper[-1]:
                return first + certain


@lru_cache(maxsize=16)
def _table_of(distribution: Distribution) -> _Table:
    """Some milliseconds to make, and the same for every release with the same noise."""
    return _Table(distribution, word_bits=64)


@dataclass(frozen=True)
class DiscreteLaplace(Distribution):
    """P(X = t) proportional to exp(-|t|/scale)."""

    scale: float

    def tail(self, t: int, bits: int) -> tuple[int, int]:
        """Bounds of P(X ≥ t)·2^bits for t ≥ 0."""
        iv = context(bits + _GUARD_BITS + 32)
        p = iv.exp(-1 / iv.mpf(self.scale))
        return scaled(p**t / (1 + p), bits)

    @lru_cache(maxsize=8)  # noqa: B019 (a frozen value object; a handful of scales is alive at a time)
    def bounds(self, bits: int) -> tuple[int, list[int], list[int]]:
        working = bits + _GUARD_BITS
        iv = context(working + 32)
        p = iv.exp(-1 / iv.mpf(self.scale))
        p_low, p_high = scaled(p, working)
        low, high = scaled(p / (1 + p), working)
        low_tails: list[int] = []  # P(X ≥ t) for t = 1, 2, …, by multiplication with outward rounding
        high_tails: list[int] = []
        while not low_tails or low_tails[-1]:
            low_tails.append(low >> _GUARD_BITS)
            high_tails.append((high >> _GUARD_BITS) + 1)
            low, high = (low * p_low) >> working, ((high * p_high) >> working) + 1
        one = 1 << bits
        lower = [*reversed(low_tails), *(one - tail for tail in high_tails)]
        upper = [*reversed(high_tails), *(one - tail for tail in low_tails)]
        return -len(low_tails), lower, upper

    @cached_property
    def excess(self) -> "Geometric":
        """X − t given X ≥ t, for any t ≥ 0: the tail has no memory."""
        return Geometric(self.scale)


@dataclass(frozen=True)
class Geometric(Distribution):
    """P(X = j) proportional to exp(-j/scale), j = 0, 1, …"""

    scale: float

    @lru_cache(maxsize=8)  # noqa: B019
    def bounds(self, bits: int) -> tuple[int, list[int], list[int]]:
        working = bits + _GUARD_BITS
        iv = context(working + 32)
        low, high = p_low, p_high = scaled(iv.exp(-1 / iv.mpf(self.scale)), working)
        one = 1 << bits
        lower, upper = [], [0]
        while upper[-1] < one:
            lower.append(max(0, one - (high >> _GUARD_BITS) - 1))
            upper.append(one - (low >> _GUARD_BITS))
            low, high = (low * p_low) >> working, ((high * p_high) >> working) + 1
        return 0, lower, upper[1:]


@dataclass(frozen=True)
class Poisson(Distribution):
    """P(X = j) = exp(-mean) mean^j / j!, for a moderate mean: the table has a few times as many entries."""

    mean: float

    @lru_cache(maxsize=8)  # noqa: B019
    def bounds(self, bits: int) -> tuple[int, list[int], list[int]]:
        return bounds_from_zero(self._probabilities, bits)

    def _probabilities(self, working: int) -> Iterator[tuple[int, int]]:
        iv = context(working + 32)
        low, high = scaled(iv.exp(-iv.mpf(self.mean)), working)
        times, over = self.mean.as_integer_ratio()
        for j in count(1):
            yield low, high
            low, high = low * times // (over * j), -(-high * times // (over * j))


def bounds_from_zero(
    probabilities: Callable[[int], Iterator[tuple[int, int]]], bits: int
) -> tuple[int, list[int], list[int]]:
    """The `bounds` of a distribution on 0, 1, …, from bounds of its probabilities in units of 2^-working."""
    lower: list[int] = []
    upper: list[int] = []
    below_low = below_high = 0
    for low, high in probabilities(bits + _GUARD_BITS):
        below_low, below_high = below_low + low, below_high + high
        lower.append(below_low >> _GUARD_BITS)
        upper.append(min(1 << bits, (below_high >> _GUARD_BITS) + 1))
        if upper[-1] == 1 << bits:
            break
    return 0, lower, upper


_ARRIVALS_IN_A_UNIT = Poisson(1.0)


def poisson_arrivals(weights: Integers, unit: int, source: Source) -> Integers:
    """The places of a Poisson process: each place i appears Poisson(weights[i]/unit) times, independently, exactly.

    Arrivals fall uniformly on a stretch of whole units, at a rate of one per unit, and keep the place they fall on.
    """
    ends = np.cumsum(weights)
    total = int(ends[-1]) if len(ends) else 0
    units = -(-total // unit)
    if units * unit >= 2**63:
        raise OverflowError(f"{units} expected arrivals are too many")
    arrivals = int(_ARRIVALS_IN_A_UNIT.sample(units, source).sum())
    fallen = source.below(np.full(arrivals, units * unit, np.int64))
    return np.searchsorted(ends, fallen[fallen < total], "right")


@dataclass(frozen=True)
class RoundedGaussian:
    """A normal variable of mean 0 rounded to the nearest integer (a half is rounded up); the variance is exact.

    It is not the discrete Gaussian. For an integer W, W + round(e) = round(W + e): adding it is a function of adding
    the continuous noise, and has the same privacy. Its tables would have millions of entries, so the inverse of the
    distribution function is computed instead, with an error bound; where the bound spans two integers, more bits and
    rigorous intervals decide.
    """

    variance: Fraction

    def sample(self, n: int, source: Source) -> Integers:
        """n independent draws. Many of them are drawn in parts, each from a stream of its own, on all cores.

        The parts do not depend on the number of cores, so neither do the draws.
        """
        size = _CHUNK // 4  # the working arrays stay in the cache
        if n <= size:
            return self._draw(source.words(n), lambda _: source)
        drawn, streams = np.empty(n, np.int64), Streams(bytes.fromhex(source.key()))
        _quantiles()  # made before several want it

        def draw(start: int) -> None:
            part, own = drawn[start : start + size], streams.of(start)
            part[:] = self._draw(own.words(len(part)), lambda _: own)

        on_all_cores(draw, range(0, n, size))
        return drawn

    def of_each(self, numbers: Integers, streams: Streams) -> Integers:
        """A draw from each number's own stream; those of different numbers are independent."""
        return self._draw(streams.words(numbers), lambda i: streams.rest(int(numbers[i])))

    @cached_property
    def _deviation(self) -> float:
        return float(mpmath.sqrt(mpmath.mpf(self.variance.numerator) / self.variance.denominator))

    def _draw(self, words: Words, more: Callable[[int], Source]) -> Integers:
        """At these first 64 bits of U each; `more` has the bits that follow those at a place."""
        exact, drawn = _quantiles(), np.empty(len(words), np.int64)
        slack = self._deviation * _Quantiles.ERROR
        for start in range(0, len(words), _BLOCK):
            x = self._deviation * exact.of(words[start : start + _BLOCK])
            low, high = np.floor(x + (0.5 - slack)), np.floor(x + (0.5 + slack))
            undecided = np.flatnonzero(low != high)  # also where there is no quantile: NaN equals nothing
            low[undecided] = 0.0
            drawn[start : start + _BLOCK] = low
            for i in (undecided + start).tolist():
                drawn[i] = self._decide(int(words[i]), more(i))
        return drawn

    def _decide(self, word: int, source: Source) -> int:
        """Look at more bits of U, and at the distribution function more closely, until they part."""
        bits = 64
        while True:
            word, bits = (word << bits) | source.bits(bits), 2 * bits
            value = self._near(word, bits)
            while True:
                (left_low, left_high), (right_low, right_high) = (self._below(value + i, bits) for i in (0, 1))
                if left_high <= word and word + 1 <= right_low:
                    return value
                if word + 1 <= left_low:
                    value -= 1
                elif word >= right_high:
                    value += 1
                else:
                    break

    def _near(self, word: int, bits: int) -> int:
        """About the value at this place; `_decide` corrects it."""
        from scipy.special import ndtri  # which takes longer to load than NumPy, and few methods need it

        upper = (1 << bits) - word
        z = -float(ndtri(upper / (1 << bits))) if word > upper else float(ndtri(max(word, 1) / (1 << bits)))
        return round(z * self._deviation)

    def _below(self, value: int, bits: int) -> tuple[int, int]:
        """Bounds of P(X < value)·2^bits."""
        intervals = context(bits + _GUARD_BITS)
        edge = (intervals.mpf(2 * value - 1) / 2) / intervals.sqrt(exactly(intervals, self.variance))
        return scaled(normal.upper_tail(intervals, -edge), bits)


class _Quantiles:
    """Quantiles of the standard normal distribution at 64-bit words, with an error of at most `ERROR`.

    Around each of the points z = j/256, |z| ≤ 5, the quantile is a polynomial of degree five in y = (u − Φ(z))/φ(z).
    Its coefficients are P_n(z)/n! with P_1 = 1, P_(n+1) = P_n' + n·z·P_n, and for |y| ≤ 1/400 the rest of the series is
    below P_6(5.01)/720·(1/400)^6·1.08 < 2e-13. The word stands for an interval of u, and Φ(z) is a rounded integer:
    together less than 2·2^-64/φ(5.01) < 8e-14. Rounding of floats is below 1e-14. Everything else is NaN.
    """

    ERROR = 2.0**-40  # 9e-13: above the sum of these, and of what multiplying by the deviation adds
    STEPS = 256
    FURTHEST = 5 * STEPS
    LARGEST_Y = 1 / 400

    def __init__(self) -> None:
        intervals = context(64 + _GUARD_BITS)
        furthest_first = range(self.FURTHEST, -1, -1)
        tails = [scaled(normal.upper_tail(intervals, intervals.mpf(j) / self.STEPS), 64) for j in furthest_first]
        # Φ(−z) is the tail above z, and Φ(z) is 1 less the tail.
        self._below = np.array([*(low for low, _ in tails), *(2**64 - high for _, high in tails[-2::-1])], np.uint64)
        z = np.arange(-self.FURTHEST, self.FURTHEST + 1) / self.STEPS
        self._per_density = np.exp(z * z / 2) * np.sqrt(2 * np.pi) * 2.0**-64
        third, fourth, fifth = (2 * z**2 + 1) / 6, (6 * z**3 + 7 * z) / 24, (24 * z**4 + 46 * z**2 + 7) / 120
        self._coefficients = [z, np.ones(len(z)), z / 2, third, fourth, fifth]
        # The nearest point for each value of a word's first bits; far out, where these are too few, y is too large.
        middles = (np.arange(1 << _GUIDE_BITS) + 0.5) / (1 << _GUIDE_BITS)
        self._guide = self._nearest(middles)

    def _nearest(self, u: npt.NDArray[np.float64]) -> Integers:
        from scipy.special import ndtri

        points = np.rint(ndtri(u) * self.STEPS)
        nearest: Integers = (np.clip(points, -self.FURTHEST, self.FURTHEST) + self.FURTHEST).astype(np.int64)
        return nearest

    def of(self, words: Words) -> npt.NDArray[np.float64]:
        quantiles, y = self._around(words, self._guide.take((words >> np.uint64(64 - _GUIDE_BITS)).view(np.int64)))
        if len(far := np.flatnonzero(np.abs(y) > self.LARGEST_Y)):
            u = ((words[far] >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            again, y = self._around(words[far], self._nearest(u))
            again[np.abs(y) > self.LARGEST_Y] = np.nan
            quantiles[far] = again
        return quantiles

    def _around(self, words: Words, points: Integers) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        distance = (words - self._below.take(points)).view(np.int64)  # wraps to the signed difference
        y = distance * self._per_density.take(points)
        quantiles = self._coefficients[-1].take(points)
        for coefficient in reversed(self._coefficients[:-1]):  # in place: this is most of the time of noise
            quantiles *= y
            quantiles += coefficient.take(points)
        return quantiles, y


@lru_cache(maxsize=1)
def _quantiles() -> _Quantiles:
    return _Quantiles()


def binomial(n: int, probability: Bounds, source: Source) -> int:
    """How many of n independent events of one probability happen, exactly, with about 2n random bits.

    Each event compares the bits of a uniform number with those of the probability and is decided at the first bit that
    differs; of the undecided, half are expected to be decided by the next bit, and their number is all that matters.
    The probability must not be a finite binary fraction unless its bounds are exact; those of our noise never are one.
    """
    happened, undecided, position = 0, n, 0
    digits, known, bits = 0, 0, 64  # the leading binary digits of the probability that its bounds agree on
    while undecided:
        while known <= position:
            bits *= 2
            low, high = probability(bits)
            unsure = (low ^ high).bit_length()
            digits, known = low >> unsure, bits - unsure
        ones = source.ones(undecided)
        if (digits >> (known - 1 - position)) & 1:
            happened, undecided = happened + undecided - ones, ones
        else:
            undecided -= ones
        position += 1
    return happened
