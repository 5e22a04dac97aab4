"""Masks: gone in the sum of all, and uniform in anything less."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from searchveil.crypto import masks


def pairs(parties: int) -> dict[tuple[int, int], bytes]:
    return {(i, j): bytes([i, j]) * 16 for i in range(parties) for j in range(i + 1, parties)}


def keys_of(me: int, parties: int) -> dict[int, bytes]:
    return {other: pairs(parties)[min(me, other), max(me, other)] for other in range(parties) if other != me}


@given(st.integers(2, 5), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9))
def test_masks_of_words_are_gone_in_the_sum(parties: int, values: list[int]) -> None:
    vector = np.array(values, np.uint64)
    masked = [masks.mask_words(vector, me, keys_of(me, parties), b"sum") for me in range(parties)]
    assert masks.sum_words(masked).tolist() == [parties * value % 2**64 for value in values]


@given(st.integers(2, 5), st.lists(st.integers(0, masks.FIELD - 1), min_size=1, max_size=5))
def test_masks_of_elements_are_gone_in_the_sum(parties: int, values: list[int]) -> None:
    masked = [masks.mask_elements(values, me, keys_of(me, parties), b"open") for me in range(parties)]
    assert masks.sum_elements(masked) == [parties * value % masks.FIELD for value in values]
    assert masks.from_bytes(masks.to_bytes(masked[0])) == masked[0]


def test_a_masked_vector_is_uniform_and_labels_differ() -> None:
    """Bytes of a masked vector of zeros by chi-square (false alarm 1e-6, fixed keys)."""
    zeros = np.zeros(20_000, np.uint64)
    masked = masks.mask_words(zeros, 0, keys_of(0, 3), b"sum")
    counts = np.bincount(np.frombuffer(masked.tobytes(), np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-6
    assert not np.array_equal(masked, masks.mask_words(zeros, 0, keys_of(0, 3), b"another"))
    partial = masks.sum_words([masked, masks.mask_words(zeros, 1, keys_of(1, 3), b"sum")])
    counts = np.bincount(np.frombuffer(partial.tobytes(), np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_what_is_malformed_is_refused() -> None:
    with pytest.raises(ValueError, match="not reduced"):
        masks.from_bytes(masks.FIELD.to_bytes(32, "little"))
    with pytest.raises(ValueError, match="whole number"):
        masks.from_bytes(bytes(33))
    with pytest.raises(ValueError, match="32 bytes"):
        masks.stream(b"short", b"label", 1)
    with pytest.raises(ValueError, match="itself"):
        masks.mask_words(np.zeros(1, np.uint64), 0, {0: bytes(32)}, b"sum")
