"""Shares: k of them give the secret, fewer give nothing, corrupt ones do no harm."""

import hashlib
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchveil.crypto import shamir

SECRET = shamir.to_secret(bytes(range(64)))


def shares(k: int, n: int, secret: bytes = SECRET) -> list[tuple[int, int]]:
    return [(x, shamir.share(secret, k, x)) for x in range(3, 3 + 7 * n, 7)]


@given(st.integers(1, 12), st.integers(0, 5), st.binary(min_size=64, max_size=64), st.randoms(use_true_random=False))
def test_any_k_shares_give_the_secret(k: int, more: int, wide: bytes, draw: random.Random) -> None:
    secret = shamir.to_secret(wide)
    assert shamir.recover(draw.sample(shares(k, k + more, secret), k)) == secret


@given(st.integers(2, 12))
def test_fewer_do_not(k: int) -> None:
    assert shamir.recover(shares(k, k - 1)) != SECRET


def test_fewer_than_k_shares_fit_every_secret() -> None:
    """The degree is really k − 1: with k − 1 values any other secret is as possible, by choice of one more value."""
    points = shares(5, 4)
    values = {shamir.recover([*points, (1000, y)]) for y in range(50)}
    assert len(values) == 50


@pytest.mark.parametrize(("k", "n", "wrong"), [(5, 5, 0), (5, 6, 1), (5, 9, 2), (10, 40, 15), (20, 26, 3)])
def test_corrupt_shares_are_found_out(k: int, n: int, wrong: int) -> None:
    points = shares(k, n)
    bad = set(random.Random(1).sample(range(n), wrong))
    points = [(x, y ^ 1 if i in bad else y) for i, (x, y) in enumerate(points)]
    opened = shamir.open_group(points, k, lambda found: found == SECRET)
    assert opened is not None
    secret, true = opened
    assert secret == SECRET
    assert [not one for one in true] == [i in bad for i in range(n)]


def test_decoding_corrects_half_of_the_surplus() -> None:
    points = [(x, y + 1 if i < 15 else y) for i, (x, y) in enumerate(shares(10, 40))]
    assert shamir.decode(points, 10) == SECRET
    assert shamir.decode([(x, y + 1 if i < 20 else y) for i, (x, y) in enumerate(points)], 10) != SECRET


def test_a_group_without_k_true_shares_stays_closed() -> None:
    points = [(x, int.from_bytes(os.urandom(31))) if i == 0 else (x, y) for i, (x, y) in enumerate(shares(5, 5))]
    assert shamir.open_group(points, 5, lambda found: found == SECRET) is None
    assert shamir.open_group(shares(5, 4), 5, lambda found: True) is None


def test_the_polynomial_as_it_is_written_down() -> None:
    """Anew, with plain integers: what another implementation has to do."""
    prime = 2**255 - 19
    secret = int.from_bytes(bytes(range(64)), "big") % prime
    assert secret.to_bytes(32, "big") == SECRET
    wide = hashlib.shake_256(b"searchveil shamir v1" + bytes([0, 0, 0, 3]) + SECRET).digest(96)
    a, b = int.from_bytes(wide[:48], "big") % prime, int.from_bytes(wide[48:], "big") % prime
    assert shamir.share(SECRET, 3, 1234567) == (secret + a * 1234567 + b * 1234567**2) % prime
    with pytest.raises(ValueError, match="number of a share"):
        shamir.share(SECRET, 3, 0)
