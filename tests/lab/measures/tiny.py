"""Logs and releases small enough to count by hand."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from searchveil.engine import Engine
from searchveil.lab.view import View
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.plan import Plan, Settings
from searchveil.publish.release import Release

# The worked example of Hong et al. 2012, Figure 1: who clicked how often, a url for each query.
FIGURE_1 = {
    ("081", "pregnancy test"): 2,
    ("081", "book"): 3,
    ("081", "google"): 15,
    ("082", "car price"): 2,
    ("082", "google"): 7,
    ("083", "google"): 17,
    ("083", "diabetes"): 1,
    ("083", "book"): 1,
    ("083", "car price"): 5,
}


def log_of_queries(engine: Engine, counts: Mapping[str, int]) -> SearchLog:
    """Each search by a user of its own."""
    queries = [query for query, count in counts.items() for _ in range(count)]
    columns = {"user": [f"u{i}" for i in range(len(queries))], "query": queries}
    schema = pa.schema({"user": pa.string(), "query": pa.string()})
    return SearchLog(engine.load(pa.table(columns, schema)), engine)


def log_of_clicks(engine: Engine, counts: Mapping[tuple[str, str], int]) -> SearchLog:
    """(user, query) → how often the user clicked the one url of the query."""
    rows = [(user, query, f"{query}.org") for (user, query), count in counts.items() for _ in range(count)]
    users, queries, urls = zip(*rows, strict=True)
    table = pa.table({"user": list(users), "query": list(queries), "url": list(urls)})
    return SearchLog(engine.load(table), engine)


def release_of(item: str = "query", **tables: pa.Table) -> Release:
    plan = Plan("by-hand", item, Settings(), Guarantee.no_differential_privacy(proof="none", caveats=("made by hand",)))
    return Release(tables, plan)


def release_of_counts(columns: Sequence[str], counts: Mapping[tuple[str, ...], int], item: str = "query") -> Release:
    keys = {column: pa.array([key[i] for key in counts], pa.string()) for i, column in enumerate(columns)}
    return release_of(item, data=pa.table({**keys, "count": pa.array(list(counts.values()), pa.int64())}))


def views_of_queries(engine: Engine, original: Mapping[str, int], release: Mapping[str, int]) -> tuple[View, View]:
    published = release_of_counts(["query"], {(query,): count for query, count in release.items()})
    return View.of_log(log_of_queries(engine, original)), View.of_release(published, engine)


def views_of_clicks(
    engine: Engine, original: Mapping[tuple[str, str], int], release: Mapping[str, int]
) -> tuple[View, View]:
    published = release_of_counts(["query", "url"], {(query, f"{query}.org"): n for query, n in release.items()})
    return View.of_log(log_of_clicks(engine, original)), View.of_release(published, engine)
