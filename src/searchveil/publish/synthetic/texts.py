"""Invented texts for queries that are not named: known words in likely orders, `~123` for those that are not known."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.log.personal import personal_texts
from searchveil.log.words import joined_texts
from searchveil.privacy.noise import Integers
from searchveil.publish.synthetic.bins import WORDS
from searchveil.publish.synthetic.chances import Draws, Floats, Grouped, projected
from searchveil.publish.synthetic.statistics import Statistics

Tail = Literal["invented", "token", "omit"]

TRIES = 5  # to invent a text that does not look personal and is not named
MARK = "~"  # before the number of a word that is not known
BEFORE_A_WORD = re.compile(rf"(?<!\S){MARK}")
NUMBERS = 10**8  # eight digits at most: nine or more may look like a number of a person


def escaped(texts: Sequence[str]) -> list[str]:
    """A real word that begins with the mark has it twice, so that none can be taken for an unknown one."""
    return [BEFORE_A_WORD.sub(MARK + MARK, text) for text in texts]


class Inventor:
    """Draws texts. Known words come by their volume or by a known bigram, unknown ones as numbers."""

    def __init__(self, statistics: Statistics, tail: Tail, random: np.random.Generator) -> None:
        self._random, self._tail = random, tail
        self._named = pa.array(escaped(statistics.queries), pa.string())
        words = projected(statistics.noisy["word_volume"])
        self._texts = pa.array(escaped(statistics.words), pa.string())
        self._words = Draws(words)
        self._shape = Draws(_shape_of(statistics))
        volume = projected(statistics.noisy["bigram_volume"])
        first = np.array([pair[0] for pair in statistics.bigrams], np.int64)
        self._next = np.array([pair[1] for pair in statistics.bigrams], np.int64)
        self._bigrams = Grouped.of_pairs(first, volume, len(words))
        self._followed = np.minimum(1.0, self._bigrams.sums / np.maximum(words, 1e-9)) if len(words) else np.zeros(0)

    def texts(self, n: int) -> Any:
        """n texts, none of which looks personal or is a named query."""
        if self._tail != "invented":
            return self._tokens(n)
        texts = self._draw(n)
        for attempt in range(TRIES + 1):
            wrong = np.flatnonzero(np.asarray(pc.or_(personal_texts(texts), pc.is_in(texts, self._named))))
            if not len(wrong):
                break
            anew = self._draw(len(wrong)) if attempt < TRIES else self._tokens(len(wrong))
            places = np.arange(n)
            places[wrong] = n + np.arange(len(wrong))
            texts = pa.concat_arrays([texts, anew]).take(pa.array(places))
        return texts

    def _tokens(self, n: int) -> Any:
        return self._marked(np.ones(n, np.bool_))

    def _marked(self, where: Any) -> Any:
        numbers: Any = pa.array(self._random.integers(1, NUMBERS, len(where))).cast(pa.string())
        parts: list[Any] = [pa.scalar(MARK), numbers, pa.scalar("")]  # the last stands between the others
        return pc.if_else(pa.array(where), pc.binary_join_element_wise(*parts), pa.scalar(None, pa.string()))

    def _draw(self, n: int) -> Any:
        if not n:
            return pa.array([], pa.string())
        random = self._random
        cells = self._shape.of(random.random(n))
        length, known = cells // (WORDS + 1) + 1, cells % (WORDS + 1)
        # Which of the words are known: those with the smallest of random keys, among the words that there are.
        keys = random.random((n, WORDS))
        keys[np.arange(WORDS) >= length[:, None]] = 2.0
        is_known = (keys.argsort(axis=1).argsort(axis=1) < known[:, None]) & (keys < 2.0)
        is_there = keys < 2.0
        columns, before = [], np.full(n, -1)
        for place in range(WORDS):
            before = np.where(is_known[:, place], self._following(before), -1)
            word = self._texts.take(pa.array(before, mask=before < 0))
            columns.append(pc.coalesce(word, self._marked(is_there[:, place] & ~is_known[:, place])))
        return joined_texts(pc.binary_join_element_wise(*columns, " ", null_handling="skip"))

    def _following(self, before: Integers) -> Integers:
        """A known word for each: after a known one perhaps by a bigram."""
        drawn = self._words.of(self._random.random(len(before))) if len(self._words.weights) else before
        follows = np.flatnonzero(before >= 0)
        if len(self._next):
            follows = follows[self._random.random(len(follows)) < self._followed[before[follows]]]
            follows = follows[self._bigrams.sums[before[follows]] > 0]
            drawn[follows] = self._next[self._bigrams.draw(before[follows], self._random.random(len(follows)))]
        return drawn


def _shape_of(statistics: Statistics) -> Floats:
    """The weight of each number of words and of known words among them; without a named word none is known.

    Where the noise left nothing, a text is one unknown word.
    """
    by_length = projected(statistics.noisy["shape"]).reshape(WORDS, WORDS + 1)
    if not statistics.words:
        unknown = by_length.sum(axis=1)
        by_length = np.zeros_like(by_length)
        by_length[:, 0] = unknown
    if not by_length.any():
        by_length[0, 0] = 1.0
    return by_length.reshape(-1)
