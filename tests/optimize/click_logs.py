"""Small logs for the tests of the solvers: the paper's example, random ones, and ones for hypothesis."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from searchveil.optimize.program import ClickCounts


def example() -> ClickCounts:
    """Fig. 1 without the pairs of one user. Rows 081, 082, 083; columns google, book, car price."""
    return ClickCounts(sparse.csr_array(np.array([[15, 3, 0], [7, 0, 2], [17, 1, 5]], np.int64)))


def random_log(seed: int, users: int = 60, pairs: int = 80) -> ClickCounts:
    """Few pairs are popular and few users busy; pairs of one user are dropped, as are users left with nothing."""
    chance = np.random.default_rng(seed)
    popular, busy = 1 / np.arange(1, pairs + 1), chance.lognormal(0, 1, users)
    clicks = chance.poisson(8 * pairs * np.outer(busy / busy.sum(), popular / popular.sum()))
    clicks = clicks[:, (clicks > 0).sum(axis=0) >= 2]
    return ClickCounts(sparse.csr_array(clicks[clicks.any(axis=1)].astype(np.int64)))


@st.composite
def logs(draw: st.DrawFn) -> ClickCounts:
    """Up to 6 users and 6 pairs, each pair held by two at least, and everybody holding something."""
    users, pairs = draw(st.integers(2, 6)), draw(st.integers(1, 6))
    clicks = np.zeros((users, pairs), np.int64)
    for pair in range(pairs):
        holders = draw(st.sets(st.integers(0, users - 1), min_size=2))
        for holder in sorted(holders):
            clicks[holder, pair] = draw(st.integers(1, 20))
    return ClickCounts(sparse.csr_array(clicks[clicks.any(axis=1)]))
