"""Noisy counts over a public list of candidates: the domain is known, so no threshold is needed and ε is pure."""

from collections.abc import Sequence

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.items.item import normalize_query
from searchveil.log import SearchLog
from searchveil.privacy.noise import DiscreteLaplace, Source


def public_candidates(listed: pa.Table, columns: Sequence[str], log: SearchLog) -> ir.Table:
    """The different candidates of a public table, with queries in the log's normal form."""
    texts = listed.select(list(columns)).cast(pa.schema(dict.fromkeys(columns, pa.string())))
    public = normalize_query(log.engine.load(texts), log.normalization)
    if "next" in columns:
        public = public.mutate(next=log.normalization.apply(public["next"]))
    return public.distinct()


def noisy_candidates(
    counts: ir.Table, candidates: ir.Table, *, noise: DiscreteLaplace, engine: Engine, source: Source
) -> pa.Table:
    """Every candidate gets a count with noise, those that nobody has too; then what is not positive is left out.

    `candidates` has the item's columns, `counts` the same and `count`. Leaving out looks only at the noisy counts.
    """
    columns = list(candidates.columns)
    both = candidates.left_join(counts, columns)
    full = engine.fetch(both.select(*columns, count=both["count"].fill_null(0)))
    full = full.sort_by([(column, "ascending") for column in columns])
    true = full["count"].to_numpy().astype(np.int64)
    noisy = true + noise.sample(len(true), source)
    schema = pa.schema({column: pa.string() for column in columns} | {"count": pa.int64()})
    published = full.select(columns).append_column("count", pa.array(noisy)).cast(schema).filter(pa.array(noisy > 0))
    return published.sort_by([("count", "descending"), *((column, "ascending") for column in columns)])
