"""Index caching (Götz et al. 2011, section 7.2): which posting lists to keep in memory, chosen by keyword counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from searchveil.lab.applications.ranking import Floats, Ints
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View
from searchveil.log.words import words

_counted: "WeakKeyDictionary[View, ir.Table]" = WeakKeyDictionary()


@dataclass(frozen=True)
class IndexCaching:
    """Fill the memory with the lists of highest frequency/length; hits are counted over the test log's keywords.

    The length is that of the list as it is held in memory, cut at `longest_list`: what a list costs is what it is
    weighed against. (The paper divides by the uncut number of documents. Then the best lists of all, the long ones
    of frequent keywords, come last, and a release that knows only frequent keywords beats the log itself.) By the
    usual bound of the greedy fill no other choice has more hits on the log that the frequencies are of than this one,
    but for the first list that did not fit.

    How many documents contain a keyword is a fact about the search engine's index, not about the log. Give it as
    `documents`; without it the different queries of the original log stand for documents, their share scaled to
    a collection of a billion. The paper's index is its authors' own, so only shapes can be compared with it.
    """

    needs: ClassVar[tuple[str, ...]] = ("keyword",)
    score: ClassVar[str] = "hit probability"

    memory: int = 1 << 30
    bytes_per_posting: int = 8
    longest_list: int = 200_000
    collection: int = 1_000_000_000
    documents: Mapping[str, int] | None = None

    def run(self, view: View, test: TestSet) -> dict[str, float]:
        documents = self._documents(test.original)
        keywords = view.tables["keyword"].join(documents, "keyword").select("keyword", "count", "documents")
        found = view.engine.fetch(keywords.order_by("keyword"))
        kept, postings = self.choose(found["count"].to_numpy(), found["documents"].to_numpy())

        cached = view.engine.load(found.filter(pa.array(kept)).select(["keyword"]))
        workload = test.workload.tables["keyword"]
        asked = view.engine.value(workload["count"].sum()) or 0
        hits = view.engine.value(workload.semi_join(cached, "keyword")["count"].sum()) or 0
        return {
            "hit probability": hits / asked if asked else 0.0,
            "cached lists": float(kept.sum()),
            "memory used": float(postings[kept].sum() * self.bytes_per_posting / self.memory),
        }

    def choose(self, frequency: Ints, documents: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Which lists are kept, and how many postings of each are held if it is."""
        postings = np.minimum(documents, self.longest_list)
        return fill(frequency / postings, postings, self.memory // self.bytes_per_posting), postings

    def _documents(self, original: View) -> ir.Table:
        if self.documents is not None:
            keywords = pa.array(list(self.documents), pa.string())
            numbers = pa.array(list(self.documents.values()), pa.int64())
            given = original.engine.load(pa.table({"keyword": keywords, "documents": numbers}))
            return given.filter(given["documents"] > 0)
        share = self.collection / max(1, original.engine.value(original.tables["query"].count()))
        containing = _queries_with_keyword(original)
        return containing.select("keyword", documents=(containing["queries"] * share).ceil().cast("int64"))


def _queries_with_keyword(original: View) -> ir.Table:
    """How many different queries contain each keyword: the same for every view that is compared, so counted once."""
    if original not in _counted:
        queries = original.tables["query"]
        split = queries.select(keyword=words(queries["query"]).unique().unnest())
        containing = split.filter(split["keyword"] != "").group_by("keyword").agg(queries=ibis._.count())
        _counted[original] = original.engine.stage(containing)
    return _counted[original]


def fill(scores: Floats, sizes: Ints, room: int) -> npt.NDArray[np.bool_]:
    """Take lists of highest score first, passing over what does not fit any more; equal scores in the order given."""
    kept = np.zeros(len(scores), dtype=bool)
    waiting = np.argsort(-scores, kind="stable")
    while len(waiting):
        fitting = int(np.searchsorted(np.cumsum(sizes[waiting]), room, side="right"))
        kept[waiting[:fitting]] = True
        room -= int(sizes[waiting[:fitting]].sum())
        waiting = waiting[fitting:]
        waiting = waiting[sizes[waiting] <= room]  # the room only shrinks: what does not fit now never will
    return kept
