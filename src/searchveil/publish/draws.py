"""Drawing users' clicks once it is settled how many of each pair: which users, under which pseudonyms."""

import numpy as np
import pyarrow as pa

from searchveil.log import SearchLog
from searchveil.optimize.certify import UNITS
from searchveil.optimize.program import ClickCounts, Integers, Reals, Sampler
from searchveil.privacy.noise import Source, poisson_arrivals
from searchveil.publish.click_counts import StagedClicks


def draw(sampler: Sampler, amounts: Integers, source: Source) -> Integers:
    """The pairs of which a tuple is published, one entry for each."""
    if sampler == "poisson":
        return poisson_arrivals(amounts, UNITS, source)
    return np.repeat(np.arange(len(amounts)), amounts)


def pick_users(counts: ClickCounts, drawn: Integers, source: Source) -> Integers:
    """For each drawn pair one of its users, with a probability in proportion to her clicks, exactly."""
    by_pair = counts.matrix.tocsc()
    until = np.cumsum(by_pair.data)
    before = np.concatenate([[0], until])[by_pair.indptr[drawn]]
    clicks = before + source.below(counts.totals[drawn])
    users: Integers = by_pair.indices[np.searchsorted(until, clicks, "right")].astype(np.int64)
    return users


def tuples(clicks: StagedClicks, drawn: Integers, users: Integers, log: SearchLog, source: Source) -> pa.Table:
    """What is published: pseudonym, query, url and how often they were drawn together.

    Pseudonyms are numbers in a random order, fresh for every release; the order of the rows goes by them.
    """
    held, times = np.unique(np.stack([users, drawn]), axis=1, return_counts=True)
    people, person = np.unique(held[0], return_inverse=True)
    pseudonyms = 1 + source.order(len(people))[person]
    numbers = pa.array(np.unique(clicks.numbers[held[1]]))
    wanted = log.engine.load(pa.table({"pair": numbers}))
    texts = log.engine.fetch(clicks.pairs.semi_join(wanted, "pair")).sort_by("pair")
    places = np.searchsorted(texts["pair"].to_numpy(), clicks.numbers[held[1]])
    table = pa.table(
        {
            "user": pa.array(pseudonyms, pa.int64()),
            "query": texts["query"].combine_chunks().take(places).cast(pa.string()),
            "url": texts["url"].combine_chunks().take(places).cast(pa.string()),
            "count": pa.array(times, pa.int64()),
        }
    )
    return table.sort_by([("user", "ascending"), ("query", "ascending"), ("url", "ascending")])


def rates(clicks: StagedClicks, draws: Reals, log: SearchLog) -> pa.Table:
    """query, url and draws (a whole number, or the expected one) of every pair that may be drawn.

    The promise takes these as public, so they are published: whoever holds the log can check that nobody is exposed
    beyond the limit. In the order of the texts, which tells nothing; Poisson's are multiples of 2^-32, which floats
    hold exactly up to two million draws of a pair.
    """
    drawn = np.flatnonzero(draws)
    numbers = log.engine.load(pa.table({"pair": pa.array(clicks.numbers[drawn])}))
    texts = log.engine.fetch(clicks.pairs.semi_join(numbers, "pair")).sort_by("pair")
    order = np.argsort(clicks.numbers[drawn])
    table = pa.table(
        {
            "query": texts["query"].combine_chunks().cast(pa.string()),
            "url": texts["url"].combine_chunks().cast(pa.string()),
            "draws": pa.array(draws[drawn][order], pa.float64()),
        }
    )
    return table.sort_by([("query", "ascending"), ("url", "ascending")])
