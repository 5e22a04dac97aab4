"""Shamir's secret sharing over the field of 2^255 − 19, with polynomials that follow from their secret.

Whoever knows the secret knows the whole polynomial, so clients who never met make shares of the same one, and a server
that has opened a group can tell every true share in it from every corrupt one.
"""

import hashlib
from collections.abc import Callable, Sequence
from secrets import SystemRandom

import gmpy2
from gmpy2 import mpz

PRIME = mpz(2**255 - 19)
SECRET_BYTES = 32
COEFFICIENT_BYTES = 48  # reduced to 32: the bias is below 2^-128
TRIES = 200  # random subsets before decoding, which corrects more errors and takes longer
MOST_DECODED = 600  # points: its time grows with their square, and liars must not hold up a server; see `open_group`

Point = tuple[int, int]


def to_secret(wide: bytes) -> bytes:
    """A secret from 64 uniform bytes."""
    return int(int.from_bytes(wide, "big") % PRIME).to_bytes(SECRET_BYTES, "big")


def polynomial(secret: bytes, k: int) -> list[mpz]:
    """The k coefficients, the secret first; k shares show it, fewer show nothing."""
    wide = hashlib.shake_256(b"searchveil shamir v1" + k.to_bytes(4, "big") + secret).digest(
        COEFFICIENT_BYTES * (k - 1)
    )
    rest = (wide[i : i + COEFFICIENT_BYTES] for i in range(0, len(wide), COEFFICIENT_BYTES))
    return [mpz(int.from_bytes(secret, "big")), *(mpz(int.from_bytes(part, "big")) % PRIME for part in rest)]


def value_at(coefficients: Sequence[mpz], x: int) -> int:
    total, x = mpz(0), mpz(x)
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % PRIME
    return int(total)


def share(secret: bytes, k: int, x: int) -> int:
    """The value at x, which must not be 0."""
    if not 0 < x < PRIME:
        raise ValueError("the number of a share lies between 1 and the field's prime")
    return value_at(polynomial(secret, k), x)


def recover(points: Sequence[Point]) -> bytes:
    """The value at 0 of the polynomial through these points with distinct x."""
    total = mpz(0)
    numbers = [mpz(x) for x, _ in points]
    for i, (x, y) in enumerate(points):
        above, below = mpz(1), mpz(1)
        for j, other in enumerate(numbers):
            if i != j:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        total += mpz(y) * above * gmpy2.invert(below, PRIME)
    return int(total % PRIME).to_bytes(SECRET_BYTES, "big")


def open_group(points: Sequence[Point], k: int, is_secret: Callable[[bytes], bool]) -> tuple[bytes, list[bool]] | None:
    """The secret and which points are true shares of it; None if there are not k true ones to be found.

    `points` have distinct x. Usually any k of them will do. Where some are corrupt, random subsets are tried, and then
    up to (n − k)/2 errors are corrected if n ≤ MOST_DECODED; of more points a random sample is decoded, which may fail.
    """
    if len(points) < k:
        return None
    secret = _search(points, k, is_secret)
    if secret is None:
        return None
    coefficients = polynomial(secret, k)
    return secret, [value_at(coefficients, x) == y for x, y in points]


def _search(points: Sequence[Point], k: int, is_secret: Callable[[bytes], bool]) -> bytes | None:
    draw = SystemRandom()
    for attempt in range(1 if len(points) == k else 1 + TRIES):
        found = recover(draw.sample(points, k) if attempt else points[:k])
        if is_secret(found):
            return found
    decoded = decode(draw.sample(points, min(len(points), max(k, MOST_DECODED))), k)
    return decoded if decoded is not None and is_secret(decoded) else None


def decode(points: Sequence[Point], k: int) -> bytes | None:
    """The secret in spite of up to (n − k)/2 wrong values: Gao's decoder of Reed-Solomon codes."""
    product: list[mpz] = [mpz(1)]
    for x, _ in points:
        product = _times(product, [mpz(-x) % PRIME, mpz(1)])
    r0, r1 = product, _interpolate(points, product)
    v0, v1 = [mpz(0)], [mpz(1)]
    while 2 * _degree(r1) >= len(points) + k:
        quotient, rest = _divide(r0, r1)
        r0, r1 = r1, rest
        v0, v1 = v1, _minus(v0, _times(quotient, v1))
    if _degree(v1) < 0:
        return None
    message, rest = _divide(r1, v1)
    if _degree(rest) >= 0 or _degree(message) >= k:
        return None
    return int(message[0] if message else 0).to_bytes(SECRET_BYTES, "big")


def _interpolate(points: Sequence[Point], product: Sequence[mpz]) -> list[mpz]:
    total = [mpz(0)] * len(points)
    for x, y in points:
        basis, _ = _divide(product, [mpz(-x) % PRIME, mpz(1)])
        factor = mpz(y) * gmpy2.invert(mpz(value_at(basis, x)), PRIME) % PRIME
        for i, coefficient in enumerate(basis):
            total[i] = (total[i] + factor * coefficient) % PRIME
    return total


def _degree(a: Sequence[mpz]) -> int:
    """−1 of the zero polynomial."""
    return next((i for i in range(len(a) - 1, -1, -1) if a[i]), -1)


def _times(a: Sequence[mpz], b: Sequence[mpz]) -> list[mpz]:
    out = [mpz(0)] * (len(a) + len(b) - 1)
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            out[i + j] = (out[i + j] + one * other) % PRIME
    return out


def _minus(a: Sequence[mpz], b: Sequence[mpz]) -> list[mpz]:
    size = max(len(a), len(b))
    wide = [(*a, *[mpz(0)] * (size - len(a))), (*b, *[mpz(0)] * (size - len(b)))]
    return [(one - other) % PRIME for one, other in zip(*wide, strict=True)]


def _divide(a: Sequence[mpz], b: Sequence[mpz]) -> tuple[list[mpz], list[mpz]]:
    """Quotient and rest."""
    rest, degree = list(a), _degree(b)
    leading = gmpy2.invert(b[degree], PRIME)
    quotient = [mpz(0)] * max(1, _degree(rest) - degree + 1)
    while (high := _degree(rest)) >= degree:
        factor = rest[high] * leading % PRIME
        quotient[high - degree] = factor
        for i in range(degree + 1):
            rest[high - degree + i] = (rest[high - degree + i] - factor * b[i]) % PRIME
    return quotient, rest
