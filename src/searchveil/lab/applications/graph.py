"""The click graph: queries and urls joined by clicks, queries joined by transitions; and random walks on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from searchveil.engine import Engine
from searchveil.lab.applications.ranking import Floats, Ints, best_first
from searchveil.lab.view import KEYS, View

Matrix = Any  # a scipy CSR array; scipy has no types of its own
Texts = Any  # an Arrow array; its element types tell mypy nothing here
BLOCK = 100  # walks at a time: enough to pay for a step's overhead, few enough to stay in memory on a large graph
CROWDED = 0.1  # the share of non-zeros from which full matrices are quicker

_loaded: "WeakKeyDictionary[View, ClickGraph]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ClickGraph:
    """Nodes are numbered in the order of their texts: first the queries, then the urls."""

    queries: Texts
    urls: Texts
    clicks: Matrix  # queries × urls
    transitions: Matrix  # queries × queries

    @classmethod
    def of(cls, view: View) -> "ClickGraph":
        """The graph of a view, read from the engine once for all applications: the largest has millions of edges."""
        if view not in _loaded:
            _loaded[view] = cls._read(view)
        return _loaded[view]

    @classmethod
    def _read(cls, view: View) -> "ClickGraph":
        """A view may have clicks, transitions or both."""
        clicks, follows = _counts(view, "click"), _counts(view, "transition")
        queries = number_texts(view.engine, clicks["query"], follows["query"], follows["next"])
        urls = number_texts(view.engine, clicks["url"])
        return cls(
            queries.texts,
            urls.texts,
            edges(view.engine, clicks, {"query": queries, "url": urls}),
            edges(view.engine, follows, {"query": queries, "next": queries}),
        )

    @property
    def weights(self) -> Matrix:
        """Between all nodes. A click joins its query and its url both ways, a transition leads one way."""
        return sparse.block_array([[self.transitions, self.clicks], [self.clicks.T, None]], format="csr")

    def query_numbers(self, queries: Texts | Sequence[str]) -> Ints:
        """The nodes of these queries; -1 for those that are not in the graph."""
        return _places(queries, self.queries)

    def url_texts(self, numbers: Ints) -> list[str]:
        texts: list[str] = self.urls.take(numbers).to_pylist()
        return texts

    def query_texts(self, numbers: Ints) -> list[str]:
        texts: list[str] = self.queries.take(numbers).to_pylist()
        return texts

    def search(self, step: Matrix, queries: Sequence[str], steps: int, depth: int) -> dict[str, list[str]]:
        """The urls where a walk from each query most probably is after its last step, best first.

        Queries that the graph does not know, or from which no url is reached, are not in the answer.
        """
        nodes = self.query_numbers(queries)
        known = [(query, node) for query, node in zip(queries, nodes.tolist(), strict=True) if node >= 0]
        starts = np.array([node for _, node in known], dtype=np.int64)
        found: dict[str, list[str]] = {}
        ends = walk_ends(step, starts, steps, first_end=len(self.queries))
        for (query, _), (chances, urls) in zip(known, ends, strict=True):
            if len(urls):
                found[query] = self.url_texts(best_first(chances, urls, depth))
        return found


def chances_of(weights: Matrix, self_loop: float, impact: Floats | None = None) -> Matrix:
    """P(k|j): to stay with chance `self_loop`, else to follow a link in proportion to its weight.

    With `impact`, a factor for each node, each chance is multiplied by that of the node it leads to and the row scaled
    to 1 again. Whoever has nowhere to go stays.
    """
    links = sparse.csr_array(weights, dtype=np.float64)
    if links.diagonal().any():
        links = links - sparse.diags_array(links.diagonal())
    out = links.sum(axis=1)
    leaving = np.divide(1 - self_loop, out, out=np.zeros_like(out), where=out > 0)
    staying = np.where(out > 0, self_loop, 1.0)
    chances = sparse.csr_array(sparse.diags_array(leaving) @ links + sparse.diags_array(staying))
    if impact is not None:
        chances = chances @ sparse.diags_array(impact)
        chances = sparse.diags_array(1 / chances.sum(axis=1)) @ chances
    return sparse.csr_array(chances)


def walk_ends(
    step: Matrix, starts: Ints, steps: int, *, first_end: int = 0, block: int = BLOCK
) -> Iterator[tuple[Floats, Ints]]:
    """For each start the chances to be at the nodes from `first_end` on after that many steps, and those nodes.

    Many walks are one product of sparse matrices; the last step is taken only to where the answer is looked for.
    Nodes are numbered from `first_end`; those of chance 0 are left out.
    """
    last = sparse.csr_array(step[:, first_end:])
    for begin in range(0, len(starts), block):
        some = starts[begin : begin + block]
        here = sparse.csr_array((np.ones(len(some)), (np.arange(len(some)), some)), shape=(len(some), step.shape[0]))
        for _ in range(steps - 1):
            here = _full_where_crowded(here @ step)
        here = sparse.csr_array(here @ last)
        for i in range(len(some)):
            row = slice(here.indptr[i], here.indptr[i + 1])
            yield here.data[row], here.indices[row]


def _full_where_crowded(here: Matrix) -> Matrix:
    """Long walks reach most of the graph; the bookkeeping of sparse products then costs more than the zeros."""
    crowded = sparse.issparse(here) and here.nnz > CROWDED * here.shape[0] * here.shape[1]
    return here.toarray() if crowded else here


@dataclass(frozen=True)
class Numbered:
    """Different texts in their order, as a table (text, node) inside the engine and as an array outside."""

    table: ir.Table
    texts: Texts


def number_texts(engine: Engine, *columns: ir.Column) -> Numbered:
    """All texts of the columns, numbered inside the engine: what leaves it then are numbers and each text once."""
    texts = columns[0].name("text").as_table()
    for column in columns[1:]:
        texts = texts.union(column.name("text").as_table())
    different = texts.distinct()
    node = ibis.row_number().over(ibis.window(order_by="text"))
    table = engine.stage(different.mutate(node=node))
    fetched: Texts = engine.fetch(table.order_by("node").select("text"))["text"]
    return Numbered(table, fetched.cast(pa.large_string()).combine_chunks())


def edges(engine: Engine, counts: ir.Table, ends: Mapping[str, Numbered]) -> Matrix:
    """Counts as a matrix; `ends` names the columns for its rows and its columns."""
    (first, rows), (second, columns) = ends.items()
    from_table = rows.table.select(**{first: rows.table["text"], "row": rows.table["node"]})
    to_table = columns.table.select(**{second: columns.table["text"], "column": columns.table["node"]})
    joined = counts.join(from_table, first).join(to_table, second).select("row", "column", "count")
    found = engine.fetch(joined)
    shape = len(rows.texts), len(columns.texts)
    return weights_between(found["count"], found["row"].to_numpy(), found["column"].to_numpy(), shape)


def _counts(view: View, name: str) -> ir.Table:
    if view.has(name):
        return view.tables[name]
    nothing = {column: pa.array([], pa.string()) for column in KEYS[name]}
    return view.engine.load(pa.table({**nothing, "count": pa.array([], pa.int64())}))


def _places(texts: Texts | Sequence[str], among: Texts) -> Ints:
    asked = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([pa.array(texts, pa.string())])
    found = pc.index_in(asked.cast(pa.large_string()), value_set=among)
    return found.fill_null(-1).to_numpy().astype(np.int64)


def weights_between(counts: Texts, rows: Ints, columns: Ints, shape: tuple[int, int]) -> Matrix:
    """Counts as weights. A noisy count may be zero or less: that is no link."""
    weights = counts.to_numpy().astype(np.float64)
    linked = weights > 0
    return sparse.csr_array((weights[linked], (rows[linked], columns[linked])), shape=shape)
