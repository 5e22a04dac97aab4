"""A party's own counts: bounded to m items of each user before anything else happens to them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from searchveil.collab.agreement import Agreement
from searchveil.collab.opening import encoded
from searchveil.items import item_named
from searchveil.items.histogram import bounded_histogram
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source


@dataclass(frozen=True)
class Histogram:
    """Items as bytes, each once, and how many users keep each."""

    items: list[bytes]
    counts: npt.NDArray[np.int64]


def local_histogram(log: SearchLog, agreement: Agreement, source: Source) -> Histogram:
    """Of at most `per_user` items of each user. Texts too long to be opened are left out, whoever has them."""
    item = item_named(agreement.item)
    table = log.engine.fetch(bounded_histogram(log, item, per_user=agreement.per_user, seed=source.seed()))
    columns = zip(*(table[name].to_pylist() for name in item.columns), strict=True)
    raw = [encoded(values) for values in columns]
    numbers = table["count"].to_numpy().astype(np.int64)
    short = np.array([len(one) <= agreement.longest_text for one in raw], bool)
    return Histogram([one for one, fits in zip(raw, short, strict=True) if fits], numbers[short])
