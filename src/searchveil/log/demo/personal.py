"""Planted personal queries: what must never come out of a release. Each belongs to exactly one user.

Everything in them is visibly made up: 555-01xx telephone numbers, ids with the never-issued area 9xx, example.com mail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.log.demo import names
from searchveil.log.demo.codes import Ints
from searchveil.log.demo.mixing import as_fraction, scramble
from searchveil.log.demo.text import join, look_up

ONE_USER_IN = 50
OFTEN_SHARE = 0.3  # of the planted users search their query again and again
AGAIN_OFTEN, AGAIN_SELDOM = 0.2, 0.01  # chance that a submission of theirs is the planted query

_SPREAD = 48_271_097
_STREETS = ("maple", "oak", "cedar", "elm", "walnut", "chestnut", "willow", "birch", "spruce", "juniper")


def is_planted(user: Ints, seed: int) -> npt.NDArray[np.bool_]:
    """Which users carry a planted query. User 1 always does, so that the smallest log has one."""
    return np.asarray((scramble(user, salt=_salt(seed)) % np.uint64(ONE_USER_IN) == 0) | (user == 1), np.bool_)


def chance_again(user: Ints, seed: int) -> npt.NDArray[np.float64]:
    """How likely each further submission of a planted user is the planted query."""
    often = as_fraction(scramble(user, salt=_salt(seed) + 1)) < OFTEN_SHARE
    return np.where(often, AGAIN_OFTEN, AGAIN_SELDOM)


def personal_texts(user: Ints, seed: int) -> pa.StringArray:
    """The planted query of each user. Distinct users get distinct texts: each holds eight digits of the user alone."""
    mixed = scramble(user, salt=_salt(seed) + 2)
    given = look_up(pa.array(names.GIVEN_NAMES), _pick(mixed, 0, len(names.GIVEN_NAMES)))
    surname = look_up(pa.array(names.SURNAMES), _pick(mixed, 9, len(names.SURNAMES)))
    street = look_up(pa.array(_STREETS), _pick(mixed, 20, len(_STREETS)))
    place = look_up(pa.array(names.PLACES), _pick(mixed, 24, len(names.PLACES)))
    own_number = user * _SPREAD % 10**8  # one-to-one, because the factor shares no divisor with the modulus
    number = pc.utf8_lpad(pa.array(own_number, pa.int64()).cast(pa.string()), 8, "0")

    def digits(start: int, stop: int) -> pa.StringArray:
        compute: Any = pc
        found: pa.StringArray = compute.utf8_slice_codeunits(number, start, stop)
        return found

    kinds = [
        join([given, " ", surname, " ", digits(0, 6), " 555-01", digits(6, 8)]),
        join(["ssn 9", digits(0, 2), "-", digits(2, 4), "-", digits(4, 8)]),
        join([given, " ", surname, " ", digits(4, 8), " ", street, " street apt ", digits(0, 4), " ", place]),
        join(["account 00", digits(0, 8), " ", surname]),
        join([given, ".", surname, digits(0, 8), "@example.com"]),
    ]
    texts: pa.StringArray = pc.choose(pa.array(_pick(mixed, 40, len(kinds)), pa.int64()), *kinds)
    return texts


def planted_personal_queries(users: int, seed: int = 1) -> pa.Table:
    """All planted queries of the log of so many users with this seed: columns user, query."""
    everyone = np.arange(1, users + 1, dtype=np.int64)
    planted = everyone[is_planted(everyone, seed)]
    return pa.table({"user": pa.array(planted, pa.int64()), "query": personal_texts(planted, seed)})


def _pick(mixed: npt.NDArray[np.uint64], shift: int, count: int) -> Ints:
    return ((mixed >> np.uint64(shift)) % np.uint64(count)).astype(np.int64)


def _salt(seed: int) -> int:
    return 1_000 + 10 * seed
