"""The public bins of the histograms. A cell is the first value of each bin; the last bin has no end."""

import ibis.expr.types as ir

GAP_SECONDS = 30 * 60  # a longer silence ends a session

SESSIONS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 21, 26, 33, 42, 54, 70, 92, 122, 164, 224, 310)  # of a user
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 45, 100, 250, 600, 1500)  # searches in a session
GAPS = (0, 1, 3, 6, 11, 20, 35, 60, 100, 165, 270, 420, 660, 1000, 1400)  # seconds between searches of a session
CLICKS = (0, 1, 2, 3, 4, 5)  # of a search
RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 18, 23, 30, 40, 53)
PAIR_RANKS = (1, 2, 3, 4, 6, 11)
HOLDERS = (1, 2, 3, 4, 6, 9, 14, 22)  # users of a query that is not named; at least so many
CLASSES = (1, 3, 9, 28)  # of users, by the number of their sessions
WORDS = 8  # of a query; more count as so many

LAST = {SESSIONS: 600, LENGTHS: 4000, GAPS: GAP_SECONDS, CLICKS: 7, RANKS: 100, PAIR_RANKS: 30}  # where a draw ends


def place_in(value: ir.IntegerValue, bins: tuple[int, ...]) -> ir.IntegerValue:
    """The number of the bin, from 0 on; what is below the first counts as the first."""
    passed = [(value >= first).cast("int64") for first in bins[1:]]
    return sum(passed[1:], passed[0])
