"""Paillier and Pohlig-Hellman: what the paper's protocol is made of."""

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.crypto import paillier, pohlig_hellman

SMALL = paillier.PrivateKey.generate(512)  # for speed; the size is a parameter


@settings(max_examples=20)
@given(st.integers(0, 2**500), st.integers(0, 2**500))
def test_the_product_of_ciphertexts_is_the_sum(first: int, second: int) -> None:
    public = SMALL.public
    total = public.add(public.encrypt(first), public.encrypt(second))
    assert SMALL.decrypt(total) == (first + second) % public.n
    again = public.rerandomized(total)
    assert again != total
    assert SMALL.decrypt(again) == SMALL.decrypt(total)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=40))
def test_packed_counters_are_added_each_for_itself(pairs: list[tuple[int, int]]) -> None:
    public = SMALL.public
    packed = [paillier.pack([pair[i] for pair in pairs], 32, public) for i in range(2)]
    sums = [
        SMALL.decrypt(public.add(public.encrypt(a), public.encrypt(b)))
        for a, b in zip(packed[0], packed[1], strict=True)
    ]
    assert paillier.unpack(sums, len(pairs), 32, public) == [sum(pair) for pair in pairs]


def test_keys_have_the_size_asked_for() -> None:
    assert SMALL.public.n.bit_length() == 512
    assert str(SMALL.p) not in repr(SMALL)


def test_what_is_no_ciphertext_is_refused() -> None:
    for wrong in (0, SMALL.p, int(SMALL.public.square)):
        with pytest.raises(ValueError, match="ciphertext"):
            SMALL.decrypt(wrong)
    with pytest.raises(ValueError, match="plaintext"):
        SMALL.public.encrypt(SMALL.public.n)


def test_the_prime_is_safe() -> None:
    assert pohlig_hellman.PRIME.bit_length() == 2048
    assert gmpy2.is_prime(pohlig_hellman.PRIME)
    assert gmpy2.is_prime(pohlig_hellman.ORDER)


def test_keys_commute_and_come_off() -> None:
    first, second = pohlig_hellman.random_key(), pohlig_hellman.random_key()
    element = pohlig_hellman.hash_to_group(b"weather")
    both = pohlig_hellman.encrypt(second, pohlig_hellman.encrypt(first, element))
    assert both == pohlig_hellman.encrypt(first, pohlig_hellman.encrypt(second, element))
    assert pohlig_hellman.encrypt(pohlig_hellman.inverse(first), both) == pohlig_hellman.encrypt(second, element)
    assert pohlig_hellman.hash_to_group(b"news") != element


@pytest.mark.parametrize("element", [0, 1, pohlig_hellman.PRIME - 1, pohlig_hellman.PRIME])
def test_elements_outside_the_group_are_refused(element: int) -> None:
    with pytest.raises(ValueError, match="not a square"):
        pohlig_hellman.encrypt(3, element)
