"""The group against the vectors of RFC 9496 and RFC 9497, and what must be refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchveil.crypto import ristretto255
from searchveil.crypto.ristretto255 import InvalidPoint

GENERATOR = "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"
MULTIPLES = {  # RFC 9496, A.1
    2: "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    3: "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
}
FIELD = 2**255 - 19
NOT_POINTS = {
    "the identity": bytes(32),
    "above the field's order": b"\xff" * 32,
    "the field's order, which stands for 0": FIELD.to_bytes(32, "little"),
    "the order and one more, which stands for 1": (FIELD + 1).to_bytes(32, "little"),
    "negative": (1).to_bytes(32, "little"),
    "the order less one": (FIELD - 1).to_bytes(32, "little"),
    "the generator with its highest bit set": bytes.fromhex(GENERATOR[:-2] + "f6"),
    "no square": bytes.fromhex("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371"),
    "too short": bytes.fromhex(GENERATOR)[:31],
    "too long": bytes.fromhex(GENERATOR) + b"\x00",
}


def small(number: int) -> bytes:
    return number.to_bytes(32, "little")


def test_multiples_of_the_generator() -> None:
    assert ristretto255.base(small(1)).hex() == GENERATOR
    for number, point in MULTIPLES.items():
        assert ristretto255.base(small(number)).hex() == point
        assert ristretto255.multiply(small(number), bytes.fromhex(GENERATOR)).hex() == point
    assert ristretto255.add(bytes.fromhex(GENERATOR), bytes.fromhex(MULTIPLES[2])).hex() == MULTIPLES[3]


@pytest.mark.parametrize(
    ("text", "blinded", "evaluated"),
    [  # RFC 9497, A.1.1 (OPRF mode, ristretto255-SHA512)
        (
            b"\x00",
            "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
            "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
        ),
        (
            b"\x5a" * 17,
            "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
            "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
        ),
    ],
)
def test_hash_to_group_is_that_of_rfc_9497(text: bytes, blinded: str, evaluated: str) -> None:
    blind = bytes.fromhex("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706")
    key = bytes.fromhex("5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e")
    point = ristretto255.multiply(blind, ristretto255.hash_to_group(text))
    assert point.hex() == blinded
    assert ristretto255.multiply(key, point).hex() == evaluated


@pytest.mark.parametrize("point", NOT_POINTS.values(), ids=NOT_POINTS)
def test_what_is_no_canonical_point_is_refused(point: bytes) -> None:
    with pytest.raises(InvalidPoint):
        ristretto255.check_point(point)
    with pytest.raises(InvalidPoint):
        ristretto255.multiply(ristretto255.random_scalar(), point)
    with pytest.raises(InvalidPoint):
        ristretto255.multiply_all(ristretto255.random_scalar(), bytes.fromhex(GENERATOR) + point)


@pytest.mark.parametrize("scalar", [bytes(32), ristretto255.ORDER.to_bytes(32, "little"), b"\xff" * 32, b"\x01" * 31])
def test_scalars_out_of_range_are_refused(scalar: bytes) -> None:
    for use in (ristretto255.check_scalar, ristretto255.inverse, ristretto255.base):
        with pytest.raises(ValueError, match="scalar"):
            use(scalar)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_blinding_commutes_and_comes_off(texts: list[bytes]) -> None:
    first, second = ristretto255.random_scalar(), ristretto255.random_scalar()
    points = b"".join(ristretto255.hash_to_group(text, b"a test") for text in texts)
    both = ristretto255.multiply_all(second, ristretto255.multiply_all(first, points))
    assert both == ristretto255.multiply_all(first, ristretto255.multiply_all(second, points))
    assert ristretto255.multiply_all(ristretto255.inverse(first), both) == ristretto255.multiply_all(second, points)
    assert both == ristretto255.multiply_all(ristretto255.product(first, second), points)


def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path: Path) -> None:
    script = "from searchveil.crypto import ristretto255; ristretto255.random_point()"
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_tags_separate_protocols() -> None:
    assert ristretto255.hash_to_group(b"x", b"one") != ristretto255.hash_to_group(b"x", b"two")
