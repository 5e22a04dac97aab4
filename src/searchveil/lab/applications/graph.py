"""The click graph: queries and urls joined by clicks, queries joined by transitions; and random walks on it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from scipy import sparse

from searchveil.cores import usable_cores
from searchveil.engine import Engine
from searchveil.lab.applications.ranking import Floats, Ints, best_first
from searchveil.lab.view import View, columns_of

Matrix = Any  # a scipy CSR array; scipy has no types of its own
Texts = Any  # an Arrow array; its element types tell mypy nothing here
BLOCK = 100  # walks at a time: enough to pay for a step's overhead, few enough to stay in memory on a large graph
CROWDED = 0.1  # the share of non-zeros from which full matrices are quicker
FULL = 50_000_000  # the most cells of a full matrix

_loaded: "WeakKeyDictionary[View, ClickGraph]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ClickGraph:
    """Nodes are numbered in the order of their texts: first the queries, then the urls.

    Most queries are never asked for, so their texts stay in the engine.
    """

    engine: Engine
    queries: ir.Table  # text, node
    urls: Texts
    clicks: Matrix  # queries × urls
    weights: Matrix  # nodes × nodes: a click joins its query and its url both ways, a transition leads one way

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
        texts = fetch_texts(view.engine, urls)
        by_click = edges(view.engine, clicks, {"query": queries, "url": urls})
        by_transition = edges(view.engine, follows, {"query": queries, "next": queries})
        no_links = sparse.csr_array((len(texts), len(texts)))
        # All blocks are CSR: then they are put together without further copies.
        blocks = [[by_transition, by_click], [sparse.csr_array(by_click.T), no_links]]
        return cls(view.engine, queries, texts, by_click, sparse.block_array(blocks, format="csr"))

    def query_numbers(self, queries: Texts | Sequence[str]) -> Ints:
        """The nodes of these queries; -1 for those that are not in the graph."""
        asked: Texts = queries if isinstance(queries, pa.ChunkedArray) else pa.array(queries, pa.string())
        wanted = self.engine.load(pa.table({"text": asked, "place": pa.array(np.arange(len(asked)))}))
        found = self.engine.fetch(self.queries.join(wanted, "text").select("place", "node"))
        numbers = np.full(len(asked), -1, dtype=np.int64)
        numbers[found["place"].to_numpy()] = found["node"].to_numpy()
        return numbers

    def url_texts(self, numbers: Ints) -> list[str]:
        texts: list[str] = self.urls.take(numbers).to_pylist()
        return texts

    def query_texts(self, numbers: Ints) -> dict[int, str]:
        """The texts of these nodes, by node."""
        wanted = self.engine.load(pa.table({"node": pa.array(np.unique(numbers), pa.int64())}))
        found = self.engine.fetch(self.queries.semi_join(wanted, "node"))
        return {row["node"]: row["text"] for row in found.to_pylist()}

    def search(self, step: "Step", queries: Sequence[str], steps: int, depth: int) -> dict[str, list[str]]:
        """The urls where a walk from each query most probably is after its last step, best first.

        Queries that the graph does not know, or from which no url is reached, are not in the answer.
        """
        nodes = self.query_numbers(queries)
        known = [(query, node) for query, node in zip(queries, nodes.tolist(), strict=True) if node >= 0]
        starts = np.array([node for _, node in known], dtype=np.int64)
        found: dict[str, list[str]] = {}
        ends = walk_ends(step, starts, steps, first_end=self.clicks.shape[0])
        for (query, _), (chances, urls) in zip(known, ends, strict=True):
            if len(urls):
                found[query] = self.url_texts(best_first(chances, urls, depth))
        return found


@dataclass(frozen=True, eq=False)
class Step:
    """P(k|j) = (leaving_j·weight_jk + [j = k]·staying_j)·impact_k, without a copy of the links for each P."""

    links: Matrix
    leaving: Floats
    staying: Floats
    impact: Floats | None = None

    def take(self, here: Matrix) -> Matrix:
        """The chances after one more step; rows are walks, columns are nodes."""
        return self._arrive(_columns_times(here, self.leaving) @ self.links, _columns_times(here, self.staying))

    def take_to(self, here: Matrix, links: Matrix) -> Matrix:
        """The same at the last nodes only; `links` leads from all nodes to those."""
        first = self.links.shape[1] - links.shape[1]
        moved = _columns_times(here, self.leaving) @ links
        return self._arrive(moved, _columns_times(here, self.staying)[:, first:], first)

    def _arrive(self, moved: Matrix, stayed: Matrix, first: int = 0) -> Matrix:
        there = moved + stayed
        return there if self.impact is None else _columns_times(there, self.impact[first:])

    def toarray(self) -> Floats:
        found: Floats = self.take(np.eye(self.links.shape[0]))
        return found


def chances_of(weights: Matrix, self_loop: float, impact: Floats | None = None) -> Step:
    """P(k|j): to stay with chance `self_loop`, else to follow a link in proportion to its weight.

    With `impact`, a factor for each node, each chance is multiplied by that of the node it leads to and the row scaled
    to 1 again. Whoever has nowhere to go stays.
    """
    links = weights
    if links.diagonal().any():
        links = sparse.csr_array(links - sparse.diags_array(links.diagonal()))
    out = links.sum(axis=1)
    leaving = np.divide(1 - self_loop, out, out=np.zeros_like(out), where=out > 0)
    staying = np.where(out > 0, self_loop, 1.0)
    if impact is None:
        return Step(links, leaving, staying)
    total = leaving * (links @ impact) + staying * impact
    return Step(links, leaving / total, staying / total, impact)


def _columns_times(chances: Matrix, factors: Floats) -> Matrix:
    """Each column times its factor."""
    if not sparse.issparse(chances):
        return chances * factors
    return sparse.csr_array((chances.data * factors[chances.indices], chances.indices, chances.indptr), chances.shape)


def walk_ends(
    step: Step, starts: Ints, steps: int, *, first_end: int = 0, block: int = BLOCK
) -> Iterator[tuple[Floats, Ints]]:
    """For each start the chances to be at the nodes from `first_end` on after that many steps, and those nodes.

    Many walks are one product of sparse matrices; the last step is taken only to where the answer is looked for.
    Nodes are numbered from `first_end`; those of chance 0 are left out.
    """
    nodes = step.links.shape[0]
    last = step.links[:, first_end:]

    def ends(some: Ints) -> Matrix:
        here = sparse.csr_array((np.ones(len(some)), (np.arange(len(some)), some)), shape=(len(some), nodes))
        for _ in range(steps - 1):
            here = _full_where_crowded(step.take(here))
        return sparse.csr_array(step.take_to(here, last))

    blocks = [starts[begin : begin + block] for begin in range(0, len(starts), block)]
    cores = usable_cores()
    with ThreadPoolExecutor(cores) as threads:  # SciPy lets go of the interpreter while it multiplies
        for begin in range(0, len(blocks), cores):  # no more at a time: the ends of one block can fill 100 MB
            for there in threads.map(ends, blocks[begin : begin + cores]):
                for i in range(there.shape[0]):
                    row = slice(there.indptr[i], there.indptr[i + 1])
                    yield there.data[row], there.indices[row]


def _full_where_crowded(here: Matrix) -> Matrix:
    """Long walks reach most of the graph; the bookkeeping of sparse products then costs more than the zeros."""
    cells = here.shape[0] * here.shape[1]
    crowded = sparse.issparse(here) and here.nnz > CROWDED * cells and cells <= FULL
    return here.toarray() if crowded else here


def number_texts(engine: Engine, *columns: ir.Column) -> ir.Table:
    """All different texts of the columns as a table (text, node) inside the engine, numbered in their order."""
    texts = columns[0].name("text").as_table()
    for column in columns[1:]:
        texts = texts.union(column.name("text").as_table())
    node = ibis.row_number().over(ibis.window(order_by="text"))
    return engine.stage(texts.distinct().mutate(node=node))


def fetch_texts(engine: Engine, numbered: ir.Table) -> Texts:
    """The texts of a numbered table, each at its number."""
    fetched: Texts = engine.fetch(numbered.order_by("node").select("text"))["text"]
    return fetched.cast(pa.large_string()).combine_chunks()


def edges(engine: Engine, counts: ir.Table, ends: Mapping[str, ir.Table]) -> Matrix:
    """Counts as a matrix; `ends` names the columns for its rows and its columns, and their numbered texts."""
    (first, rows), (second, columns) = ends.items()
    from_table = rows.select(**{first: rows["text"], "row": rows["node"].cast("int32")})
    to_table = columns.select(**{second: columns["text"], "column": columns["node"].cast("int32")})
    joined = counts.join(from_table, first).join(to_table, second).select("row", "column", "count")
    found = engine.fetch(joined)
    shape = engine.value(rows.count()), engine.value(columns.count())
    return weights_between(found["count"], found["row"].to_numpy(), found["column"].to_numpy(), shape)


def _counts(view: View, name: str) -> ir.Table:
    if view.has(name):
        return view.tables[name]
    nothing = {column: pa.array([], pa.string()) for column in columns_of(name)}
    return view.engine.load(pa.table({**nothing, "count": pa.array([], pa.int64())}))


def weights_between(counts: Texts, rows: Ints, columns: Ints, shape: tuple[int, int]) -> Matrix:
    """Counts as weights. A noisy count may be zero or less: that is no link."""
    weights = counts.to_numpy().astype(np.float64)
    linked = weights > 0
    return sparse.csr_array((weights[linked], (rows[linked], columns[linked])), shape=shape)
