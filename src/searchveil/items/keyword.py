"""A keyword: a word of a query."""

import ibis.expr.types as ir

from searchveil.items.item import Derivation, Item, normalize_query
from searchveil.items.normal import NormalLog, count_rows, count_users_of, sum_counts
from searchveil.log import SearchLog
from searchveil.log.sessions import number_sessions
from searchveil.log.words import words


def rows(log: SearchLog) -> ir.Table:
    # A user's query once, staged: who chooses among the keywords reads them twice. Normalised first: what separates
    # words (with the punctuation option also a comma) is part of the normal form.
    queries = log.table.select("user", "query").distinct()
    normal = log.engine.stage(normalize_query(queries, log.normalization))
    split = normal.select("user", keyword=words(normal["query"], log.normalization).unnest())
    return split.filter(split["keyword"] != "")


def users(normal: NormalLog) -> ir.Table:
    return count_users_of(different_words(normal.searches, "user"), "keyword")


def sessions(normal: NormalLog) -> ir.Table:
    """How many sessions hold a keyword; in a log without times every row is a session of its own."""
    if not normal.has_times:
        return keywords_of_queries(count_rows(normal.searches, "query"))
    in_sessions = different_words(number_sessions(normal.timed), "user", "session")
    return count_rows(in_sessions.distinct(), "keyword")


def keywords_of_queries(queries: ir.Table) -> ir.Table:
    """How many searches hold a keyword: one that a query repeats counts once."""
    return sum_counts(different_words(queries, "count"), "keyword")


def different_words(queries: ir.Table, *beside: str) -> ir.Table:
    split = queries.select(*beside, keyword=words(queries["query"]).unique().unnest())
    return split.filter(split["keyword"] != "")


KEYWORD = Item(
    "keyword",
    ("keyword",),
    rows,
    users=users,
    sessions=sessions,
    derivations=(Derivation("keyword", "query", keywords_of_queries),),
    searches=(1,),
)
