"""Measures, applications and their figures in words: what people read instead of the names that programs use."""

import re
from collections.abc import Mapping

from searchveil.lab.view import kinds

APPLICATION: Mapping[str, str] = {
    "index-caching": "Filling a search engine's cache",
    "query-substitution": "Rewriting queries",
    "ad-hoc-search": "Finding documents by clicks",
    "ad-hoc-search-impact": "Ranking by clicks: what changes",
    "ad-hoc-search-feedback": "Learning to rank from clicks",
    "ad-hoc-search-feedback-published": "Learning to rank, as published",
    "query-suggestion": "Suggesting the next query",
    "query-suggestion-clicks": "Suggesting queries by clicks",
    "session-search": "Searching within a session",
    "site-clustering": "Grouping web sites",
}
MEASURE: Mapping[str, str] = {
    "jensen-shannon": "Distance between the frequencies (0: the same, 1: nothing in common)",
    "coverage": "Share of the most frequent that were published",
    "l1": "Mean difference of the shares",
    "kl": "Information lost (Kullback–Leibler divergence)",
    "count-distribution": "How counts are distributed",
    "count-difference": "Difference of counts",
    "frequent-pairs": "Frequent clicks found again",
    "diversity": "How many different ones were kept",
    "diff-ratio": "Where shares differ much",
    "retained-users": "Users who are still in it",
}
FIGURE: Mapping[str, str] = {
    "items": "different ones",
    "total": "counts in all",
    "exponent": "exponent of the distribution",
    "exponent expected": "exponent expected of such a release",
    "relative": "relative to the original count",
    "kept": "kept",
    "share": "share kept",
}
_AT_RANK = re.compile(r"(?P<table>[^@.]+)@(?P<rank>\d+)")


def name_in_words(name: str) -> str:
    """Of a measure or an application; one that somebody added is called by its own name."""
    return APPLICATION.get(name) or MEASURE.get(name) or name.replace("-", " ").capitalize()


def figure_in_words(name: str) -> str:
    """`query@500` is "the 500 most frequent queries", `query.kept` "queries: kept"."""
    if at_rank := _AT_RANK.fullmatch(name):
        return f"the {int(at_rank['rank']):,} most frequent {_plural(at_rank['table'])}"
    table, dot, figure = name.partition(".")
    if table not in kinds():
        return name.replace("_", " ")
    told = figure.replace("_", " ")
    return f"{_plural(table)}: {FIGURE.get(told, told)}" if dot else _plural(table)


def _plural(table: str) -> str:
    known = kinds().get(table)
    return table if known is None else known.plural


def verdict(covered: float) -> str:
    """Of the share of all searches that published queries make up."""
    if covered >= 0.5:
        return "Good for most uses of frequencies"
    if covered >= 0.2:
        return "Good for what is popular"
    if covered >= 0.05:
        return "Good for the very popular alone"
    return "Too little for most uses" if covered > 0 else "Good for nothing: it holds none of the log's searches"
