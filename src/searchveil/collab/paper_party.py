"""A party of the paper's protocol and the outside solver P0, as straight programs over their ends of the wire."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np
from scipy import sparse

from searchveil.collab import opening
from searchveil.collab.messages import Refused, read_json
from searchveil.collab.paper_program import (
    ENTRY_BITS,
    FRACTION_BITS,
    MOST_USERS,
    RANDOM_BITS,
    Answer,
    Transformed,
    fixed,
    solved,
)
from searchveil.collab.paper_steps import (
    checked_numbers,
    encrypted,
    following,
    hand_on,
    previous,
    received,
    received_key,
    total_counts,
    union,
)
from searchveil.collab.paper_wire import End, numbers_to_bytes, of_numbers, to_json
from searchveil.crypto import paillier, pohlig_hellman
from searchveil.crypto.paillier import PrivateKey, PublicKey
from searchveil.items.click import rows as clicked
from searchveil.items.item import normal_query
from searchveil.log import SearchLog
from searchveil.optimize.certify import Limit, violated
from searchveil.optimize.objectives import Goal
from searchveil.optimize.program import ClickCounts, Integers
from searchveil.privacy.noise import Source
from searchveil.publish.draws import pick_users

MOST_ENTRIES = 1_000_000  # of the transformed program: up to an hour for three parties, at 7 ms a ciphertext


@dataclass(frozen=True)
class LocalClicks:
    """Of one party: its pairs as bytes, and how often each of its users (a row) clicked each pair (a column)."""

    pairs: list[bytes]
    matrix: Any

    @classmethod
    def of(cls, log: SearchLog) -> "LocalClicks":
        """Pairs too long for the group are left out, whoever has them."""
        normal = normal_query(clicked(log), log.normalization)
        normal = normal.filter(normal["query"] != "")
        held = normal.group_by(["user", "query", "url"]).agg(count=normal.count())
        table = log.engine.fetch(held).to_pydict()
        raw = [opening.encoded(pair) for pair in zip(table["query"], table["url"], strict=True)]
        short = [i for i, one in enumerate(raw) if len(one) <= pohlig_hellman.LONGEST]
        pairs = sorted({raw[i] for i in short})
        users = {user: i for i, user in enumerate(sorted({table["user"][i] for i in short}))}
        place = {pair: i for i, pair in enumerate(pairs)}
        at = ([users[table["user"][i]] for i in short], [place[raw[i]] for i in short])
        counts = np.array([table["count"][i] for i in short], np.int64)
        return cls(pairs, sparse.csr_array((counts, at), shape=(len(users), len(pairs))))

    def among(self, universe: Sequence[bytes]) -> Any:
        """The same counts with a column for each pair of the universe."""
        place = {pair: i for i, pair in enumerate(universe)}
        coordinates = self.matrix.tocoo()
        columns = np.array([place[pair] for pair in self.pairs], np.int64)[coordinates.col]
        shape = (self.matrix.shape[0], len(universe))
        return sparse.csr_array((coordinates.data, (coordinates.row, columns)), shape=shape)


Row = tuple[str, int, int]  # pseudonym, place of the pair, times


@dataclass(frozen=True)
class Outcome:
    """What every party has at the end: the pairs that several users hold, the draws of each, and the drawn rows."""

    pairs: list[bytes]
    draws: Integers
    rows: list[Row]
    output_size: int | None
    upper_bound: float
    users: int


def check_size(users: int, pairs: int) -> None:
    entries = users * (pairs + users + 1)
    if entries > MOST_ENTRIES or users > MOST_USERS:
        raise Refused(
            f"the paper's transformed program for {users:,} users and {pairs:,} pairs has {entries:,} encrypted "
            f"entries, and more than {MOST_ENTRIES:,} take an hour and more; take smaller logs, or the private "
            "mode, whose cost is linear"
        )


def _said(answer: Answer) -> bytes:
    return to_json({**vars(answer), "draws": answer.draws.tolist()})


def _row(raw: bytes, pairs: int) -> Row:
    user, pair, times = read_json(raw)
    if type(pair) is not int or type(times) is not int or not (0 <= pair < pairs and 0 < times < 1 << 62):
        raise ValueError("a row of no pair, or of no number of times")
    return str(user), pair, times


@dataclass
class PaperParty:
    end: End
    ring: Sequence[str]  # the names of all parties, P1 first
    solver: str  # the name of P0
    clicks: LocalClicks
    b: Limit
    source: Source = field(default_factory=Source)

    @property
    def others(self) -> list[str]:
        return [name for name in self.ring if name != self.end.name]

    @property
    def first(self) -> bool:
        return self.end.name == self.ring[0]

    def run(self) -> Outcome:
        end = self.end
        end.phase("universe", f"uniting the pairs of {len(self.ring)} parties")
        universe = union(end, self.ring, self.clicks.pairs)
        end.phase("sum", f"adding up the counts of {len(universe):,} pairs")
        matrix = self.clicks.among(universe)
        totals = np.array(total_counts(end, self.ring, matrix.sum(axis=0).tolist()), np.int64)
        kept = self._shared(matrix, totals)
        matrix, totals = matrix[:, kept], totals[kept]
        matrix = matrix[np.flatnonzero(np.diff(matrix.indptr))]  # a user of no such pair has no condition
        users = [count for (count,) in self._told_by_all([int(matrix.shape[0])])]
        check_size(sum(users), len(kept))
        end.phase("transform", f"transforming the program of {sum(users):,} users and {len(kept):,} pairs")
        answer = self._solve(matrix, totals, users)
        end.phase("draw", "drawing")
        draws = self._judged(matrix, totals, answer.draws, sum(users))
        rows = self._drawn(matrix, totals, draws)
        end.phase("union", "uniting the outputs")
        gathered = union(end, self.ring, [to_json(row) for row in rows])
        pairs = [universe[i] for i in kept.tolist()]
        read = [_row(raw, len(pairs)) for raw in gathered]
        return Outcome(pairs, draws, read, answer.output_size, answer.upper_bound, sum(users))

    # --- what all parties tell each other in the clear ---

    def _told_by_all(self, values: list[int], *, at_most: int | None = None) -> list[list[int]]:
        """As many numbers of everybody, or any number up to a most, in the order of the ring."""
        self.end.tell(self.others, "told", to_json(values))
        told = {self.end.name: values}
        for other in self.others:
            count = len(values) if at_most is None else at_most
            said = read_json(self.end.receive(other, "told", most=of_numbers(count)))
            told[other] = checked_numbers(said, count if at_most is None else len(said), other)
        return [told[name] for name in self.ring]

    def _shared(self, matrix: Any, totals: Integers) -> Integers:
        """The pairs that no user holds alone: each party names those that one of its users does."""
        held = matrix.tocoo()
        alone = np.unique(held.col[held.data == totals[held.col]])
        unique = sorted(
            {place for places in self._told_by_all(alone.tolist(), at_most=len(totals)) for place in places}
        )
        return np.setdiff1d(np.arange(len(totals)), np.array(unique, np.int64))

    # --- the program ---

    def _solve(self, matrix: Any, totals: Integers, users_of: Sequence[int]) -> Answer:
        """Algorithm 2: the party's part of A·T, A·F and A·B, added up in a chain, permuted in a second one, to P0.

        The paper multiplies its own encrypted matrices; each party knows its own in the clear, so the products are
        encrypted instead: the same ciphertexts, for less.
        """
        public, users = received_key(self.end, self.solver), sum(users_of)
        pairs = matrix.shape[1]
        if self.first:
            self.end.send(self.solver, "users", to_json([users, pairs]))
        if not pairs:
            return Answer(np.zeros(0, np.int64), None, 0.0)
        self.end.progress(f"encrypting a program of {users * (pairs + users + 1):,} entries")
        columns, slack, right = self._products(matrix, totals, users)
        sealed = self.end.each(
            [*columns, right, *slack], lambda column: encrypted(self.end, public, column, ENTRY_BITS), "encrypting"
        )
        blocks, own_slack = sealed[: pairs + 1], [one for column in sealed[pairs + 1 :] for one in column]
        each, place = len(blocks[0]), self.ring.index(self.end.name)
        if not self.first:
            before = received(self.end, previous(self.ring, self.end.name), "products", sum(map(len, blocks)))
            blocks = _added(public, before, blocks)
            ahead = each * sum(users_of[:place])
            own_slack = received(self.end, previous(self.ring, self.end.name), "slack", ahead) + own_slack
        hand_on(self.end, following(self.ring, self.end.name), "products", [one for block in blocks for one in block])
        hand_on(self.end, following(self.ring, self.end.name), "slack", own_slack)
        return self._permuted(public, pairs, each, users)

    def _products(
        self, matrix: Any, totals: Integers, users: int
    ) -> tuple[list[list[int]], list[list[int]], list[int]]:
        """A_k·T_k by column, with c_i as a last entry where this is the first party; A_k·F_k by column; A_k·B_k."""
        mine = matrix.shape[0]
        words = self.source.words(users * mine) >> np.uint64(64 - RANDOM_BITS)
        a = words.astype(object).reshape(users, mine)
        held = matrix.tocsc()
        columns = []
        for i in range(matrix.shape[1]):
            at = slice(held.indptr[i], held.indptr[i + 1])
            counts = held.data[at]
            logs = [fixed(value) for value in np.log1p(counts / (totals[i] - counts)).tolist()]
            column = a[:, held.indices[at]].dot(np.array(logs, object)) if len(logs) else np.zeros(users, object)
            columns.append([*map(int, column), int(totals[i]) if self.first else 0])
        top = 1 << (FRACTION_BITS - 1)
        f = [top + self.source.bits(FRACTION_BITS - 1) for _ in range(mine)]
        slack = [[*(int(entry) * f[j] for entry in a[:, j]), 0] for j in range(mine)]
        limit = max(fixed(float(self.b)), 1)
        right = [int(entry) * limit for entry in a.sum(axis=1)] if mine else [0] * users
        return columns, slack, [*right, 0]

    def _permuted(self, public: PublicKey, pairs: int, each: int, users: int) -> Answer:
        """Every party permutes the columns in turn; the permutations come off x in the opposite order."""
        came_from = previous(self.ring, self.end.name)
        blocks = _cut(received(self.end, came_from, "products", each * (pairs + 1)), pairs + 1)
        slack = received(self.end, came_from, "slack", each * users)
        order = self.source.order(pairs)
        moved = [*(blocks[i] for i in order.tolist()), blocks[-1]]
        fresh = self.end.each([one for block in moved for one in block], public.rerandomized, "making it fresh")
        to = self.solver if self.end.name == self.ring[-1] else following(self.ring, self.end.name)
        hand_on(self.end, to, "products", fresh)
        hand_on(self.end, to, "slack", slack)
        answer = self._answer(to, "answer", pairs)
        draws = np.zeros(pairs, np.int64)
        draws[order] = answer.draws
        answer = replace(answer, draws=draws)
        if self.first:
            self.end.tell(self.others, "draws", _said(answer))
            return answer
        self.end.send(came_from, "answer", _said(answer))
        return self._answer(self.ring[0], "draws", pairs)

    def _answer(self, sender: str, topic: str, pairs: int) -> Answer:
        said = read_json(self.end.receive(sender, topic, most=of_numbers(pairs) + 200))
        draws = np.array(checked_numbers(said["draws"], pairs, sender), np.int64)
        size = said["output_size"]
        if size is not None:
            (size,) = checked_numbers([size], 1, sender)
        bound = float(said["upper_bound"])
        if not isfinite(bound):
            raise Refused(f"{sender} sent a bound that is no number")
        return Answer(draws, size, bound)

    # --- drawing ---

    def _judged(self, matrix: Any, totals: Integers, draws: Integers, users: int) -> Integers:
        """What P0 answered, lowered until every user's condition holds exactly: each party judges its own users.

        P0 works with floats, and nobody should have to trust it with this. The users of others are one more row.
        """
        rest = sparse.csr_array((totals - matrix.sum(axis=0)).reshape(1, -1))
        counts = ClickCounts(sparse.csr_array(sparse.vstack([matrix, rest])))
        lowered = np.minimum(draws, int(users * float(self.b)) + 1)  # all draws together are fewer (erratum H1)
        while guilty := self._exposed(counts, lowered):
            self.end.check()
            held = matrix[[guilty[0]]].toarray().ravel()
            lowered[int(np.argmax(np.log1p(held / np.maximum(totals - held, 1)) * (lowered > 0)))] -= 1
        told = np.array(self._told_by_all(lowered.tolist()), np.int64)
        lowest: Integers = told.min(axis=0)
        return lowest

    def _exposed(self, counts: ClickCounts, draws: Integers) -> list[int]:
        """This party's users beyond the limit; the last row is not one of them."""
        if not counts.pairs:
            return []
        return [user for user in violated(counts, "multinomial", draws, self.b).tolist() if user < counts.users - 1]

    def _drawn(self, matrix: Any, totals: Integers, draws: Integers) -> list[Row]:
        """Rows of this party's own users: its part of a joint multinomial draw, then users by their clicks.

        Rounding x_i·c_i^k/c_i instead would break the condition (erratum C3).
        """
        own = np.asarray(matrix.sum(axis=0)).ravel()
        times = self._split(own, totals, draws)
        drawn = np.repeat(np.arange(len(times)), times)
        if not len(drawn):
            return []
        users = pick_users(ClickCounts(matrix), drawn, self.source)
        held, counts = np.unique(np.stack([users, drawn]), axis=1, return_counts=True)
        pseudonyms = {user: f"{self.source.bits(128):032x}" for user in np.unique(held[0]).tolist()}
        return [
            (pseudonyms[user], pair, n)
            for user, pair, n in zip(held[0].tolist(), held[1].tolist(), counts.tolist(), strict=True)
        ]

    def _split(self, own: Integers, totals: Integers, draws: Integers) -> Integers:
        """How many of the x_i draws fall to this party: Multinomial(x_i, c_i^k/c_i) over the parties, jointly.

        The clicks of a pair lie on a circle, those of a party on an arc. The first party starts at a random place and
        tells the next one where its arc ends, and so on: a uniform place, which tells that one nothing. Then x_i places
        are drawn, each the sum of one number from every party, and everybody counts those on its own arc.
        """
        if self.first:
            start = self.source.below(totals)
        else:
            before = previous(self.ring, self.end.name)
            said = read_json(self.end.receive(before, "arc", most=of_numbers(len(totals))))
            start = np.array(checked_numbers(said, len(totals), before), np.int64)
        if self.end.name != self.ring[-1]:
            self.end.send(following(self.ring, self.end.name), "arc", to_json(((start + own) % totals).tolist()))
        pairs = np.repeat(np.arange(len(draws)), draws)
        shares = self._told_by_all(self.source.below(totals[pairs]).tolist())
        places = np.array(shares, np.int64).reshape(len(self.ring), -1).sum(axis=0) % totals[pairs]
        mine = (places - start[pairs]) % totals[pairs] < own[pairs]
        return np.bincount(pairs[mine], minlength=len(draws)).astype(np.int64)


@dataclass
class Solver:
    """P0: holds the key under which the program arrives, and no log. `seen` is all that it learns."""

    end: End
    ring: Sequence[str]
    goal: Goal
    support: float  # from which share of all clicks a pair is frequent, for that goal
    seen: Transformed | None = None

    def run(self) -> None:
        self.end.phase("transform", "making a key for the program")
        private = PrivateKey.generate()
        self.end.tell(self.ring, "key", numbers_to_bytes([private.public.n], paillier.BITS // 8))
        said = read_json(self.end.receive(self.ring[0], "users", most=of_numbers(2)))
        users, pairs = checked_numbers(said, 2, self.ring[0])
        check_size(users, pairs)
        if not users:  # no pair is shared
            return
        each = -(-(users + 1) // paillier.places(private.public, ENTRY_BITS))
        came = received(self.end, self.ring[-1], "products", each * (pairs + 1))
        products = self.end.each(came, private.decrypt, "decrypting")
        came = received(self.end, self.ring[-1], "slack", each * users)
        slack = self.end.each(came, private.decrypt, "decrypting")
        self.seen = _read(products, slack, users, private.public)
        self.end.progress(f"solving the program of {users:,} users")
        answer = solved(self.seen, self.goal, self.support)
        self.end.send(self.ring[-1], "answer", _said(answer))


def _read(products: Sequence[int], slack: Sequence[int], users: int, public: PublicKey) -> Transformed:
    """A column has an entry for each user and one more: the total of the pair, in those of A·T."""
    each = -(-(users + 1) // paillier.places(public, ENTRY_BITS))

    def entries(plaintexts: Sequence[int]) -> list[list[int]]:
        groups = [plaintexts[i : i + each] for i in range(0, len(plaintexts), each)]
        return [paillier.unpack(group, users + 1, ENTRY_BITS, public) for group in groups]

    *columns, right = entries(products)
    return Transformed(
        [column[:-1] for column in columns],
        [column[:-1] for column in entries(slack)],
        right[:-1],
        [column[-1] for column in columns],
    )


def _added(public: PublicKey, before: Sequence[int], blocks: Sequence[Sequence[int]]) -> list[list[int]]:
    cut = _cut(before, len(blocks))
    return [
        [public.add(first, second) for first, second in zip(one, other, strict=True)]
        for one, other in zip(cut, blocks, strict=True)
    ]


def _cut(ciphertexts: Sequence[int], pieces: int) -> list[list[int]]:
    size = len(ciphertexts) // pieces
    return [list(ciphertexts[i * size : (i + 1) * size]) for i in range(pieces)]
