"""What each submission asks: something new, a favourite, something asked before, or the query before it, changed.

A query has four parts: its root, the word last swapped in its form, a narrowing word and a spelling. Every submission
sets some of the parts itself and takes the others from an earlier submission; following those links to their ends gives
all queries of a chunk at once.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from searchveil.log.demo import codes, intents, personal, text
from searchveil.log.demo.codes import Ints
from searchveil.log.demo.forms import FORMS
from searchveil.log.demo.sessions import Submissions


class Move(IntEnum):
    NEW = 0
    FAVOURITE = 1
    RECALL = 2  # a query of one's own from earlier
    SAME = 3  # the query before once more, as when turning to the next page of results
    NARROW = 4  # the query before with an added or exchanged word
    REPHRASE = 5  # the query before with one of its words swapped
    RESPELL = 6  # a slip of the fingers, or its correction
    PERSONAL = 7


OPENING_SHARES = {Move.FAVOURITE: 0.33, Move.RECALL: 0.14, Move.NEW: 0.53}
FOLLOWING_SHARES = {
    Move.SAME: 0.22,
    Move.NARROW: 0.13,
    Move.REPHRASE: 0.12,
    Move.RESPELL: 0.13,
    Move.RECALL: 0.07,
    Move.FAVOURITE: 0.04,
    Move.NEW: 0.24,
}
FAVOURITES = 3
FAVOURITE_SHARES = np.array([0.5, 0.3, 0.2])
FAVOURITE_HEAD = 0.52  # share of favourites that are among the most popular queries
FAVOURITE_FAME = 1.3  # above 1: those lean to the very top
RECALL_NEARNESS = 2.0  # how strongly recalling prefers the recent past
UNNARROW, CORRECT = 0.2, 0.35  # share of narrowings that drop the word, of respellings that are the right spelling


def draw_queries(rng: np.random.Generator, submissions: Submissions, first_user: int, users: int, seed: int) -> Ints:
    """The query code of every submission; `first_user` is the log-wide number of the chunk's user 0."""
    count = len(submissions)
    user_number = submissions.user + first_user
    move = _moves(rng, submissions, user_number, seed)
    here = np.arange(count)
    earlier = here - 1
    recalled = move == Move.RECALL
    back = 1 + (submissions.place * rng.random(count) ** RECALL_NEARNESS).astype(np.int64)
    earlier[recalled] = here[recalled] - back[recalled]

    root = intents.code_of_rank(intents.new_ranks(rng, count))
    root = np.where(move == Move.FAVOURITE, _favourites(rng, submissions.user, users), root)
    root = np.where(move == Move.PERSONAL, codes.pack(np.full(count, FORMS.personal), user_number), root)
    fresh = np.isin(move, (Move.NEW, Move.FAVOURITE, Move.PERSONAL))
    swapped = np.where(fresh, -1, rng.integers(0, 1 << 30, count))
    narrowing = np.where(fresh | (rng.random(count) < UNNARROW), 0, rng.integers(1, text.NARROWING_WORDS + 1, count))
    spelling = np.where(rng.random(count) < CORRECT, 0, rng.integers(1, codes.SPELLINGS, count))
    spelling = np.where(fresh, codes.spelling_of(root), spelling)

    def part(values: Ints, setter: Move | None) -> Ints:
        sets = fresh if setter is None else fresh | (move == setter)
        return values[_sources(np.where(sets, here, earlier))]

    return _compose(
        part(root, None), part(swapped, Move.REPHRASE), part(narrowing, Move.NARROW), part(spelling, Move.RESPELL)
    )


def _moves(rng: np.random.Generator, submissions: Submissions, user_number: Ints, seed: int) -> npt.NDArray[np.int8]:
    chance = rng.random(len(submissions))
    move = np.where(submissions.opens_session, _choose(OPENING_SHARES, chance), _choose(FOLLOWING_SHARES, chance))
    first = submissions.place == 0
    move[first & (move == Move.RECALL)] = Move.NEW
    planted = np.flatnonzero(personal.is_planted(user_number, seed))
    again = rng.random(len(planted)) < personal.chance_again(user_number[planted], seed)
    move[planted[first[planted] | again]] = Move.PERSONAL
    return move


def _choose(shares: dict[Move, float], chance: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    moves = np.array(list(shares), np.int8)
    ends = np.cumsum(list(shares.values()))
    return moves[np.minimum(np.searchsorted(ends / ends[-1], chance, side="right"), len(moves) - 1)]


def _favourites(rng: np.random.Generator, user: Ints, users: int) -> Ints:
    """For each submission one of its user's few favourites, some of them everybody's, others the user's own."""
    shape = users * FAVOURITES
    popular = intents.head_rank(rng.random(shape) ** FAVOURITE_FAME)
    ranks = np.where(rng.random(shape) < FAVOURITE_HEAD, popular, intents.new_ranks(rng, shape))
    which = np.searchsorted(np.cumsum(FAVOURITE_SHARES), rng.random(len(user)), side="right")
    return intents.code_of_rank(ranks)[user * FAVOURITES + np.minimum(which, FAVOURITES - 1)]


def _sources(link: Ints) -> Ints:
    """Follow every link to the submission that links to itself, doubling the stride each round."""
    while True:
        further = link[link]
        if np.array_equal(further, link):
            return link
        link = further


def _compose(root: Ints, swapped: Ints, narrowing: Ints, spelling: Ints) -> Ints:
    form, index = codes.form_of(root), codes.index_of(root)
    is_personal = form == FORMS.personal
    last_radix = FORMS.last_radix[np.where(is_personal, FORMS.head, form)]
    index = np.where(swapped < 0, index, index - index % last_radix + swapped % last_radix)
    narrowing = np.where(form == FORMS.address, 0, narrowing)
    return np.where(is_personal, root, codes.pack(form, index, narrowing, spelling))
