"""A keyword: a word of a query."""

import ibis.expr.types as ir

from searchveil.items.item import Item, normalize_query
from searchveil.log import SearchLog


def rows(log: SearchLog) -> ir.Table:
    # Normalised first: what separates words (with the punctuation option also a comma) is part of the normal form.
    normal = normalize_query(log.table.select("user", "query"), log.normalization)
    words = normal.select("user", keyword=normal["query"].re_split(r"\s+").unnest())
    return words.filter(words["keyword"] != "")


KEYWORD = Item("keyword", ("keyword",), rows)
