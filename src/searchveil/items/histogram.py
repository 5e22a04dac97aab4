"""How many users hold each item, when every user counts for a bounded number of items: the input of most mechanisms."""

import ibis.expr.types as ir

from searchveil.items.item import Item
from searchveil.items.normal import count_rows
from searchveil.log import SearchLog
from searchveil.privacy.contributions import bound_contributions


def bounded_histogram(log: SearchLog, item: Item, *, per_user: int, seed: int, at_least: int = 1) -> ir.Table:
    """The item's columns and `count`, its users; a user counts for at most `per_user` items, chosen by the seed.

    Adding or removing a user changes at most `per_user` counts by one each: Lemma 1 of docs/guarantees.md. Items of
    fewer than `at_least` users are left out. The table is kept inside the engine.
    """
    chosen = bound_contributions(item.held(log), item.columns, per_user, seed, log.engine)
    kept = item.finish(chosen, log.normalization).distinct()  # spellings that became the same item count once
    counts = count_rows(kept, *item.columns)
    return item.not_blank(log.engine.stage(counts.filter(counts["count"] >= at_least)))
