"""What is searched how often: popularity ranks, and the query that stands at each rank.

Popularity falls as two power laws: slowly over the first thousands of intents, faster over the millions after. Beyond
them lie wishes so particular that practically no two people share them; their "rank" is a random large number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from searchveil.log.demo import codes, web
from searchveil.log.demo.codes import Ints
from searchveil.log.demo.forms import FORMS
from searchveil.log.demo.mixing import as_fraction, scramble

Fractions = npt.NDArray[np.float64]

HEAD_END, POOL_END = 5_000, 10_000_000
HEAD_EXPONENT, POOL_EXPONENT = 0.70, 1.06
POOL_SHARE = 0.38  # of newly thought-of queries that come from the shared pool; the rest are particular
HEAD_START = 0.44  # below 1: the very first intents stand out

# Shares of words per query; addresses are counted apart. Narrowing adds words later, so these lean to the short side.
ADDRESS_SHARE = 0.14
WORDS_SHARE = {1: 0.29, 2: 0.29, 3: 0.17, 4: 0.09, 5: 0.045, 6: 0.018, 7: 0.028}
FAMILIAR_END = 5_000  # ranks up to here are short and correctly spelt
FAMILIAR_SINGLES = 0.09  # of them; more would meet at the same words
ROOMY = 10_000  # fillings from which on a form may serve the tail fully
MISSPELT_SHARE = 0.10
MISSPELT_SINGLES = 0.92  # a single word of the tail is nearly always a slip, or everybody would share it


def _form_table(familiar: bool) -> Ints:
    """4,096 equally likely entries, each a form."""
    share = FORMS.share.copy()
    if familiar:
        share[FORMS.glued | (FORMS.word_count > 4) | ((FORMS.word_count > 2) & ~FORMS.topical)] = 0
    else:  # a form with few fillings cannot serve many particular wishes: too many people would share them
        share *= np.minimum(1, FORMS.capacity / ROOMY)
    weight = np.zeros(len(share))
    for words, words_share in WORDS_SHARE.items():
        same = np.minimum(FORMS.word_count, 7) == words
        weight[same] = words_share * share[same] / max(share[same].sum(), 1e-9)
    if familiar:
        weight[FORMS.single] = FAMILIAR_SINGLES
    weight[FORMS.address] = ADDRESS_SHARE
    ends = np.cumsum(weight) / weight.sum()
    return np.searchsorted(ends, (np.arange(4096) + 0.5) / 4096).astype(np.int64)


_FAMILIAR_FORMS, _ALL_FORMS = _form_table(familiar=True), _form_table(familiar=False)


def _mass(start: float, end: float, exponent: float) -> float:
    return float((end ** (1 - exponent) - start ** (1 - exponent)) / (1 - exponent))


_HEAD_MASS = _mass(HEAD_START, HEAD_END, HEAD_EXPONENT)
_POOL_MASS = _mass(HEAD_END, POOL_END, POOL_EXPONENT) * HEAD_END ** (POOL_EXPONENT - HEAD_EXPONENT)
_HEAD_SHARE = _HEAD_MASS / (_HEAD_MASS + _POOL_MASS)


def head_rank(fraction: Fractions) -> Ints:
    """Ranks of the most popular intents only, from fractions in [0, 1)."""
    return (_inverse(fraction, HEAD_START, HEAD_END, HEAD_EXPONENT) - HEAD_START).astype(np.int64)


def pool_rank(fraction: Fractions) -> Ints:
    """Ranks 0, 1, ... of the whole shared pool from fractions in [0, 1), by the inverse of the two power laws."""
    beyond = _inverse((fraction - _HEAD_SHARE) / (1 - _HEAD_SHARE), HEAD_END, POOL_END, POOL_EXPONENT)
    return np.where(fraction < _HEAD_SHARE, head_rank(fraction / _HEAD_SHARE), beyond.astype(np.int64))


def _inverse(fraction: Fractions, start: float, end: float, exponent: float) -> Fractions:
    power = 1 - exponent
    return np.asarray((start**power + np.clip(fraction, 0, 1) * (end**power - start**power)) ** (1 / power))


def new_ranks(rng: np.random.Generator, count: int) -> Ints:
    """Ranks of newly thought-of queries: from the shared pool, or particular."""
    particular = rng.integers(POOL_END, 1 << 62, count)
    return np.where(rng.random(count) < POOL_SHARE, pool_rank(rng.random(count)), particular)


def code_of_rank(rank: Ints) -> Ints:
    """The query at each rank, always the same one."""
    mixed = scramble(rank, salt=1)
    entry = (mixed % np.uint64(4096)).astype(np.int64)
    form = np.where(rank < FAMILIAR_END, _FAMILIAR_FORMS[entry], _ALL_FORMS[entry])
    index = (scramble(rank, salt=2) % FORMS.capacity[form].astype(np.uint64)).astype(np.int64)
    slip = scramble(rank, salt=3)
    misspelt = as_fraction(slip) < np.where(form == FORMS.single, MISSPELT_SINGLES, MISSPELT_SHARE)
    misspelt &= rank >= FAMILIAR_END
    spelling = np.where(misspelt, 1 + (slip % np.uint64(codes.SPELLINGS - 1)).astype(np.int64), 0)
    in_head = rank < len(web.HEAD_QUERIES)
    return codes.pack(np.where(in_head, FORMS.head, form), np.where(in_head, rank, index), 0, spelling)
