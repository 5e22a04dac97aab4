"""Query substitution (Jones et al. 2006, used by Götz et al. 2011): other words for a query, learnt from rewritings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import xlogy

from searchveil.lab.applications.ranking import Floats, judge
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View
from searchveil.log.words import joined, words_of_text

Pairs = Mapping[tuple[str, str], int]  # how often the second came after the first

_known: "WeakKeyDictionary[View, dict[tuple[QuerySubstitution, tuple[str, ...]], dict[str, list[str]]]]"
_known = WeakKeyDictionary()


@dataclass(frozen=True)
class QuerySubstitution:
    """Substitutions by a view's query pairs, compared with those by the original log's: precision, recall, nDCG, MAP.

    Adjacent words of high mutual information form a phrase. A pair of queries that differ in one phrase counts for
    the phrase pair as well. For a query, other queries and the query with one phrase replaced are ranked together by
    the log-likelihood ratio of their pair.

    The papers leave open: the threshold of the mutual information (here `least_information`, pointwise, in nats) and
    of the ratio (here 95 % significance), and which gain nDCG gives (here j, j−1, …, 1 down the original's ranking).
    Only the `most_pairs` most frequent pairs are read: rewritings seen once or twice are beyond the test anyway.
    Recall is averaged over the test queries for which the original has substitutions, the rest, as in the paper, over
    those for which the view has some too. "MAP as published" is the paper's formula: it is no mean (identical lists
    score their length), and a missing substitution counts like one at the top. Beside it stands the usual MAP.
    """

    needs: ClassVar[tuple[str, ...]] = ("transition",)

    depths: tuple[int, ...] = (2, 5)
    least_information: float = 3.0
    least_ratio: float = 3.84
    most_pairs: int = 1_000_000

    @property
    def score(self) -> str:
        return f"recall@{self.depths[-1]}"

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        truth, found = (self._remembered(each, test.queries) for each in (test.original, view))
        scores: dict[str, float] = {}
        for depth in self.depths:
            scores |= compare(found, truth, depth)
        answered = sum(query in found for query in truth)
        return {**scores, "answered": float(answered), "asked": float(len(truth))}

    def _remembered(self, view: View, queries: tuple[str, ...]) -> dict[str, list[str]]:
        """The truth is asked for again with every view that is compared with it."""
        known = _known.setdefault(view, {})
        if (self, queries) not in known:
            known[self, queries] = self.substitutions(view, queries)
        return known[self, queries]

    def substitutions(self, view: View, queries: Sequence[str]) -> dict[str, list[str]]:
        """The best substitutions of each query that has any."""
        query_pairs = self._pairs(view)
        phrases = Phrases.of(query_pairs, self.least_information)
        phrase_pairs: Counter[tuple[str, str]] = Counter()
        for (first, second), count in query_pairs.items():
            if changed := one_change(phrases.split(first), phrases.split(second)):
                phrase_pairs[changed] += count
        split = {query: phrases.split(query) for query in queries}
        by_query = significant(query_pairs, queries, self.least_ratio)
        by_phrase = significant(
            phrase_pairs, {phrase for parts in split.values() for phrase in parts}, self.least_ratio
        )
        found: dict[str, list[str]] = {}
        for query, parts in split.items():
            ratios = dict(by_query.get(query, {}))
            for place, phrase in enumerate(parts):
                for other, ratio in by_phrase.get(phrase, {}).items():
                    rewritten = joined([*parts[:place], other, *parts[place + 1 :]])
                    ratios[rewritten] = max(ratio, ratios.get(rewritten, 0.0))
            ratios.pop(query, None)
            if ratios:
                found[query] = sorted(ratios, key=lambda text: (-ratios[text], text))[: max(self.depths)]
        return found

    def _pairs(self, view: View) -> Pairs:
        table = view.tables["transition"]
        frequent = table.filter(table["count"] > 0).order_by(table["count"].desc(), "query", "next")
        rows = view.engine.fetch(frequent.limit(self.most_pairs))
        return {(row["query"], row["next"]): row["count"] for row in rows.to_pylist()}


@dataclass(frozen=True)
class Phrases:
    """Which adjacent words belong together: those met far oftener than two words of their frequency would."""

    joined: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Pairs, least: float) -> "Phrases":
        asked: Counter[str] = Counter()
        for (first, second), count in pairs.items():
            asked[first] += count
            asked[second] += count
        words: Counter[str] = Counter()
        neighbours: Counter[tuple[str, str]] = Counter()
        for query, count in asked.items():
            parts = words_of_text(query)
            for word in parts:
                words[word] += count
            for pair in pairwise(parts):
                neighbours[pair] += count
        all_words, all_neighbours = words.total(), neighbours.total()

        def information(pair: tuple[str, str], count: int) -> float:
            return log(count / all_neighbours) - log(words[pair[0]] / all_words) - log(words[pair[1]] / all_words)

        return cls(frozenset(pair for pair, count in neighbours.items() if information(pair, count) >= least))

    def split(self, query: str) -> list[str]:
        phrases: list[str] = []
        previous = ""
        for word in words_of_text(query):
            if phrases and (previous, word) in self.joined:
                phrases[-1] += f" {word}"
            else:
                phrases.append(word)
            previous = word
        return phrases


def one_change(first: Sequence[str], second: Sequence[str]) -> tuple[str, str] | None:
    """The phrase that was replaced, and by which, if that is all that changed."""
    if len(first) != len(second):
        return None
    changes = [(before, after) for before, after in zip(first, second, strict=True) if before != after]
    return changes[0] if len(changes) == 1 else None


def significant(pairs: Pairs, of: Iterable[str], least: float) -> dict[str, dict[str, float]]:
    """The log-likelihood ratio of each pair that starts with one of these and attracts: first → second → ratio."""
    leaving: Counter[str] = Counter()
    arriving: Counter[str] = Counter()
    for (first, second), count in pairs.items():
        leaving[first] += count
        arriving[second] += count
    wanted = set(of)
    asked = [pair for pair in pairs if pair[0] in wanted]
    both = np.array([pairs[pair] for pair in asked], dtype=np.float64)
    firsts = np.array([leaving[first] for first, _ in asked], dtype=np.float64)
    seconds = np.array([arriving[second] for _, second in asked], dtype=np.float64)
    total = float(leaving.total())
    ratios = log_likelihood_ratio(both, firsts, seconds, total)
    attracts = both * total > firsts * seconds
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (first, second), ratio, more in zip(asked, ratios.tolist(), attracts.tolist(), strict=True):
        if more and ratio >= least:
            found[first][second] = ratio
    return dict(found)


def log_likelihood_ratio(both: Floats, first: Floats, second: Floats, total: float) -> Floats:
    """−2 ln of how much likelier the counts are if the second depends on the first than if it does not.

    `both` of `total` pairs have the two, `first` and `second` have one of them at its place.
    """
    cells = (both, first - both, second - both, total - first - second + both)
    margins = (first, total - first, second, total - second)
    ratio: Floats = 2 * (sum(xlogy(n, n) for n in cells) - sum(xlogy(n, n) for n in margins) + xlogy(total, total))
    return np.maximum(ratio, 0.0)


def compare(found: Mapping[str, Sequence[str]], truth: Mapping[str, Sequence[str]], depth: int) -> dict[str, float]:
    """How far the first `depth` substitutions agree with the true ones, on average over the queries."""
    ours = {query: found[query][:depth] for query in truth if query in found}
    right = {query: truth[query][:depth] for query in ours}
    grades = {query: {text: depth - i for i, text in enumerate(texts)} for query, texts in right.items()}
    scores = judge(ours, grades, ("SetP", "SetR", f"nDCG@{depth}", "AP"))
    published = [map_as_published(ours[query], right[query]) for query in ours]
    return {
        f"precision@{depth}": scores["SetP"],
        f"recall@{depth}": scores["SetR"] * len(ours) / len(truth) if truth else 0.0,
        f"nDCG@{depth}": scores[f"nDCG@{depth}"],
        f"MAP@{depth}": scores["MAP"],
        f"MAP@{depth} as published": sum(published) / len(published) if published else 0.0,
    }


def map_as_published(found: Sequence[str], truth: Sequence[str]) -> float:
    """Σ (i+1)/(rank+1) over the true ranking, the rank being 0 for what was not found."""
    ranks = {text: rank for rank, text in enumerate(found)}
    return sum((i + 1) / (ranks.get(text, 0) + 1) for i, text in enumerate(truth))
