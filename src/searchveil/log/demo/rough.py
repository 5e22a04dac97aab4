"""What real logs have and the calibrated demo log has not, added on request: odd queries, and one shared address.

A row is changed by a hash of its user and time, so the rows of one submission change together, and a smaller log is
still the beginning of a larger one. Users with a planted query keep every row: what must never come out stays as it is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from searchveil.log.demo.mixing import scramble
from searchveil.log.demo.personal import is_planted

SHARED = 0  # the user behind whom many are: a proxy, a library, a school
SHARED_BY = 6  # one user in so many, and so about that part of all rows
# Of ten thousand submissions, so many have each kind of oddity. "-" stands for a query that a log did not keep.
NO_QUERY, OTHER_SCRIPT, PASTED = 150, 120, 6
OTHER_SCRIPTS = (
    *(
        "天气预报",
        "附近的餐厅",
        "火车时刻表",
        "天気",
        "近くの駅",
        "レシピ 簡単",
        "날씨",
        "погода",
        "расписание поездов",
    ),
    *("สภาพอากาศ", "طقس", "καιρός", "größe umrechnen", "météo", "mañana", "příští vlak", "żółw", "tiếng việt"),
)
SENTENCE = "what should i do if the printer says that it is offline although the cable is in and the light is on "
LONGEST_PASTED = 245


def share_address(table: pa.Table, seed: int) -> pa.Table:
    """One user in six searches from one address, and is nobody of her own."""
    user = table["user"].to_numpy()
    hidden = (scramble(user, salt=_salt(seed)) % np.uint64(SHARED_BY) == 0) & ~is_planted(user, seed)
    return table.set_column(0, "user", pa.array(np.where(hidden, SHARED, user), pa.int64()))


def add_odd_queries(table: pa.Table, seed: int) -> pa.Table:
    """Queries that are "-", in other scripts, or pasted."""
    user, time = table["user"].to_numpy(), table["time"].cast(pa.int64()).to_numpy()
    drawn = scramble(user * 1_000_003 + time // 1_000_000, salt=_salt(seed) + 1)
    kind = (drawn % np.uint64(10_000)).astype(np.int64)
    choice = ((drawn >> np.uint64(20)) % np.uint64(1 << 20)).astype(np.int64)
    ordinary = ~is_planted(user, seed)
    texts = table["query"].to_numpy(zero_copy_only=False).copy()
    ends = np.cumsum([NO_QUERY, OTHER_SCRIPT, PASTED])
    for place in np.flatnonzero(ordinary & (kind < ends[-1])):
        texts[place] = _odd(int(np.searchsorted(ends, kind[place], "right")), int(choice[place]))
    return table.set_column(1, "query", pa.array(texts, pa.string()))


def _odd(kind: int, choice: int) -> str:
    if kind == 0:
        return "-"
    if kind == 1:
        return OTHER_SCRIPTS[choice % len(OTHER_SCRIPTS)]
    return (SENTENCE * 3)[choice % 40 :][: 120 + choice % (LONGEST_PASTED - 119)].strip()


def _salt(seed: int) -> int:
    return 9_000_000 + 10 * seed
