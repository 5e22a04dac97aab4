"""From query codes to text: fill the slots, add the narrowing word, then misspell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.log.demo import codes, web
from searchveil.log.demo.codes import Ints
from searchveil.log.demo.forms import FORMS, MAX_SLOTS

_WORDS = pa.array(FORMS.words, pa.string())
_PREFIXES = pa.array([None, *web.NARROWING_PREFIXES, *(None for _ in web.NARROWING_SUFFIXES)], pa.string())
_SUFFIXES = pa.array([None, *(None for _ in web.NARROWING_PREFIXES), *web.NARROWING_SUFFIXES], pa.string())
NARROWING_WORDS = len(_PREFIXES) - 1

_SWAP, _DROP, _DOUBLE, _PLURAL = range(4)
_SLIPS = np.array([_SWAP, _DROP, _DOUBLE] * 5 + [_PLURAL])  # an added s is rarer than each of the others

assert NARROWING_WORDS < codes.NARROWINGS


def texts(code: Ints) -> pa.StringArray:
    """The text of every query code (of ordinary forms; personal queries have their own texts)."""
    form, index, narrowing = codes.form_of(code), codes.index_of(code), codes.narrowing_of(code)
    glued = FORMS.glued[form]
    parts = [look_up(_PREFIXES, narrowing)]
    for slot in range(MAX_SLOTS):
        digit = (index // FORMS.divisor[form, slot]) % FORMS.radix[form, slot]
        parts.append(look_up(_WORDS, FORMS.first_word[form, slot] + digit))
    parts.append(look_up(_SUFFIXES, narrowing))
    glued_words = join(parts[1:-1])
    queries = pc.if_else(pa.array(glued), join([parts[0], glued_words, parts[-1]], " "), join(parts, " "))
    return misspell(queries, codes.spelling_of(code))


def site_addresses(site: Ints) -> pa.StringArray:
    """The url of every site: the address form's index without its style."""
    address = FORMS.address
    index = site * FORMS.last_radix[address]
    parts: list[pa.StringArray | str] = ["http://www."]
    for slot in range(1, 4):
        digit = (index // FORMS.divisor[address, slot]) % FORMS.radix[address, slot]
        parts.append(look_up(_WORDS, FORMS.first_word[address, slot] + digit))
    return join(parts)


def look_up(table: pa.StringArray, index: Ints) -> pa.StringArray:
    return table.take(pa.array(index, pa.int64()))


def join(parts: Sequence[pa.StringArray | str], separator: str = "") -> pa.StringArray:
    """The parts of every text joined, missing ones left out; a plain string is a part of every text."""
    compute: Any = pc  # its stubs know only arrays, not strings among them
    joined: pa.StringArray = compute.binary_join_element_wise(*parts, separator, null_handling="skip")
    return joined


def misspell(queries: pa.StringArray, spelling: Ints) -> pa.StringArray:
    """Apply one slip of the fingers to every query whose spelling is not 0: drop, double or swap a letter, or add an s.

    Works on the bytes of all texts at once; the texts are ASCII, so that a byte is a letter.
    """
    buffers: list[Any] = queries.buffers()  # validity, offsets, letters
    offsets = np.frombuffer(buffers[1], np.int32)[: len(queries) + 1].astype(np.int64)
    letters = np.frombuffer(buffers[2], np.uint8)[: offsets[-1]].copy()
    slip, place = _SLIPS[spelling % len(_SLIPS)], spelling
    length = np.diff(offsets)
    at = offsets[:-1] + 1 + place % np.maximum(length - 2, 1)  # neither the first letter nor the last
    wrong = (spelling > 0) & (length >= 4)
    swapped = at[wrong & (slip == _SWAP)]
    letters[swapped], letters[swapped + 1] = letters[swapped + 1], letters[swapped]
    copies = np.ones(len(letters), np.int64)
    copies[at[wrong & (slip == _DROP)]] = 0
    copies[at[wrong & (slip == _DOUBLE)]] = 2
    plural = wrong & (slip == _PLURAL)
    copies[offsets[1:][plural] - 1] = 2
    ends = np.cumsum(copies)
    new_offsets = np.concatenate(([0], ends[offsets[1:] - 1])) if len(queries) else offsets
    new_letters = np.repeat(letters, copies)
    new_letters[new_offsets[1:][plural] - 1] = ord("s")
    return _strings(new_offsets, new_letters)


def _strings(offsets: Ints, letters: npt.NDArray[np.uint8]) -> pa.StringArray:
    where, what = pa.py_buffer(offsets.astype(np.int32).data), pa.py_buffer(letters.data)
    return pa.StringArray.from_buffers(len(offsets) - 1, where, what)
