"""A log in two parts: what is learnt from, and what is asked about. By users, so that nobody is in both."""

from dataclasses import replace

import ibis

from searchveil.errors import InputError
from searchveil.log import SearchLog

STEPS = 1 << 31  # how finely the range of the hash is cut; the bits below are as well mixed as any


def split(log: SearchLog, *, fraction: float = 0.2, seed: int) -> tuple[SearchLog, SearchLog]:
    """(train, test): a user is in the test part by a seeded hash, with the probability `fraction`.

    The same seed gives the same parts, on one kind of engine. Neither part is fit to be published.
    """
    if not 0 < fraction < 1:
        raise InputError(f"the fraction of users to test on lies between 0 and 1, not at {fraction:g}; try 0.2")
    user = log.table["user"].cast("string")
    hashed = log.engine.fast_hash([user, ibis.literal("split")], seed)
    in_test = (hashed & (STEPS - 1)) < round(fraction * STEPS)
    train, test = log.table.filter(~in_test), log.table.filter(in_test)
    return (
        replace(log, table=train, source=f"the training part of {log.source}"),
        replace(log, table=test, source=f"the test part of {log.source}"),
    )
