"""Who clicked what how often, counted inside the engine for the programs of `optimize`."""

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np

from searchveil.items.click import rows as clicked
from searchveil.items.item import normal_query
from searchveil.log import SearchLog
from searchveil.optimize.program import ClickCounts, Integers


@dataclass(frozen=True)
class StagedClicks:
    """The counts, and the engine's tables that tell what the numbers of users and pairs stand for."""

    counts: ClickCounts
    pairs: ir.Table  # pair, query, url
    numbers: Integers  # under which the counts' pairs are in that table


def click_counts(log: SearchLog) -> StagedClicks:
    """Count and number inside the engine; pairs held by one user are dropped, and users who are left with nothing."""
    engine = log.engine
    normal = engine.stage(normal_query(clicked(log), log.normalization))
    normal = normal.filter(normal["query"] != "")
    held = engine.stage(normal.group_by(["user", "query", "url"]).agg(count=normal.count()))
    crowds = held.group_by(["query", "url"]).agg(users=held.count())
    shared = crowds.filter(crowds["users"] >= 2)
    # The pairs of many users come first: solvers go through memory by pair, and few pairs make up most of the matrix.
    place = ibis.row_number().over(order_by=[ibis.desc("users"), "query", "url"])
    pairs = engine.stage(shared.mutate(pair=place).drop("users"))
    kept = engine.stage(held.join(pairs, ["query", "url"]).select("user", "pair", "count"))
    users = kept.select("user").distinct()
    users = engine.stage(users.mutate(number=ibis.row_number().over(order_by="user")))
    numbered = engine.fetch(kept.join(users, "user").select("number", "pair", "count"))
    columns = [numbered[name].to_numpy() for name in ("number", "pair", "count")]
    counts = ClickCounts.of(*columns)
    return StagedClicks(counts, pairs, np.arange(counts.pairs))
