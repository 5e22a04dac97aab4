"""A query as one whole number: form, filling, narrowing word and misspelling packed side by side."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from searchveil.log.demo.forms import FORMS

Ints = npt.NDArray[np.int64]

INDEX_BITS, NARROWING_BITS, SPELLING_BITS = 36, 8, 8
NARROWINGS, SPELLINGS = 1 << NARROWING_BITS, 1 << SPELLING_BITS
_FORM_SHIFT = INDEX_BITS + NARROWING_BITS + SPELLING_BITS
_INDEX_SHIFT = NARROWING_BITS + SPELLING_BITS

assert FORMS.capacity.max() < 1 << INDEX_BITS


def pack(form: Ints, index: Ints, narrowing: Ints | int = 0, spelling: Ints | int = 0) -> Ints:
    root = (form << _FORM_SHIFT) | (index << _INDEX_SHIFT)
    return np.asarray(root | (narrowing << SPELLING_BITS) | spelling, np.int64)


def form_of(code: Ints) -> Ints:
    return code >> _FORM_SHIFT


def index_of(code: Ints) -> Ints:
    return (code >> _INDEX_SHIFT) & ((1 << INDEX_BITS) - 1)


def narrowing_of(code: Ints) -> Ints:
    return (code >> SPELLING_BITS) & (NARROWINGS - 1)


def spelling_of(code: Ints) -> Ints:
    return code & (SPELLINGS - 1)
