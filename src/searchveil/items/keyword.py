"""A keyword: a word of a query."""

import ibis.expr.types as ir

from searchveil.items.item import Item, normalize_query
from searchveil.log import SearchLog
from searchveil.log.normalize import words


def rows(log: SearchLog) -> ir.Table:
    # A user's query once, staged: who chooses among the keywords reads them twice. Normalised first: what separates
    # words (with the punctuation option also a comma) is part of the normal form.
    queries = log.table.select("user", "query").distinct()
    normal = log.engine.stage(normalize_query(queries, log.normalization))
    split = normal.select("user", keyword=words(normal["query"], log.normalization).unnest())
    return split.filter(split["keyword"] != "")


KEYWORD = Item("keyword", ("keyword",), rows)
