"""Measures, applications and their figures in words: what people read instead of the names that programs use."""

import re
from collections.abc import Mapping

from searchveil.lab.view import kinds

APPLICATION: Mapping[str, str] = {
    "index-caching": "Filling a search engine's cache",
    "query-substitution": "Rewriting queries",
    "ad-hoc-search": "Finding documents by clicks",
    "ad-hoc-search-impact": "Finding documents by clicks, popular pages first",
    "ad-hoc-search-feedback": "Finding documents by clicks and feedback",
    "ad-hoc-search-feedback-published": "The same with the paper's feedback, which flatters",
    "query-suggestion": "Suggesting the next query",
    "query-suggestion-clicks": "Suggesting queries by clicks",
    "click-model": "Predicting clicks",
    "session-search": "Searching within a session",
    "site-clustering": "Grouping web sites",
}
SCORE: Mapping[str, str] = {
    "index-caching": "the share of searched words that are in a cache filled by what the release tells",
    "query-substitution": "the share of the five best rewritings by the log that are found",
    "ad-hoc-search": "how near the top of ten documents those are that were clicked (nDCG)",
    "ad-hoc-search-impact": "the same, by a walk that prefers popular pages",
    "ad-hoc-search-feedback": "the same, by clicks for the query and feedback of others",
    "ad-hoc-search-feedback-published": "the same, where the feedback holds the right answers",
    "query-suggestion": "the share of a session's later queries that are among five suggestions",
    "query-suggestion-clicks": "the same, suggested by clicks alone",
    "click-model": "the share of clicks that are on the result held for the most likely one",
    "session-search": "how near the top of ten documents those are that were clicked in the session (nDCG)",
    "site-clustering": "the share of sites that are grouped with those they belong to by the log",
}
MEASURE: Mapping[str, str] = {
    "jensen-shannon": "Distance between the frequencies (0: the same, 1: nothing in common)",
    "coverage": "Share of the most frequent that were published",
    "l1": "Mean difference of relative frequencies (average L1)",
    "kl": "Information lost (Kullback–Leibler divergence)",
    "count-distribution": "How counts are distributed",
    "count-difference": "Difference of counts",
    "frequent-pairs": "Frequent clicks that stay frequent",
    "diversity": "How many different ones were kept",
    "diff-ratio": "By how much clicks change their share",
    "behaviour": "How far users behave as those of the log (0: the same), and which steps they share (1: all)",
    "classifier": "How well a model tells invented sessions from real ones (0.5: not at all, 1: always)",
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


def score_in_words(application: str) -> str:
    """What the score of an application is."""
    return SCORE.get(application) or "the figure that it calls its score"


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


def percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.1 else f"{100 * share:.1f} %"


def verdict(covered: float) -> str:
    """Of the share of all searches that published queries make up."""
    if covered >= 0.5:
        return "Good for most uses of frequencies"
    if covered >= 0.2:
        return "Good for what is popular"
    if covered >= 0.05:
        return "Good for the very popular alone"
    return "Too little for most uses" if covered > 0 else "Good for nothing: it holds none of the log's searches"
