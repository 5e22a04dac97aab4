"""Users, sessions, searches and clicks, drawn from noisy tables and nothing else: free, and as often as one likes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from searchveil.privacy.noise import Integers
from searchveil.progress import Progress, silent
from searchveil.publish.synthetic.bins import CLASSES, GAP_SECONDS
from searchveil.publish.synthetic.chances import stratified
from searchveil.publish.synthetic.model import Clicks, Model, first_moment, model_of
from searchveil.publish.synthetic.statistics import Statistics
from searchveil.publish.synthetic.texts import Inventor, Tail, escaped

BLOCK = 20_000  # users at a time
PILOT = 2_000, 20_000  # users of a trial run, by which the chances are calibrated: at least, at most
PASSES = 2
GOLDEN = 0.6180339887498949
NOWHERE = "http://unknown.invalid/"  # any result that is not known


def schema_of(statistics: Statistics) -> pa.Schema:
    columns: list[tuple[str, Any]] = [("user", pa.int64())]
    if statistics.period is not None:
        columns.append(("time", pa.timestamp("us")))
    columns.append(("query", pa.string()))
    if "clicks" in statistics.noisy:
        columns += [("rank", pa.int32())] if "ranks" in statistics.noisy else []
        columns.append(("url", pa.string()))
    return pa.schema(columns)


def sample(
    statistics: Statistics, *, seed: int, scale: float = 1.0, tail: Tail = "invented", progress: Progress = silent
) -> Iterator[pa.Table]:
    """A log in blocks of users: rows of user, time, query, rank and url, as far as these were measured."""
    random = np.random.default_rng(seed)
    model = calibrated(model_of(statistics, scale), random)
    inventor = Inventor(statistics, tail, random)
    writer = _Writer(statistics, model, inventor, tail, random)
    for first in range(0, model.users, BLOCK):
        progress(f"drawing users {first:,} to {min(first + BLOCK, model.users):,} of {model.users:,}")
        walk = walked(model, min(BLOCK, model.users - first), random)
        yield writer.rows(walk, first)


@dataclass(frozen=True)
class Walk:
    """Searches of some users, by user, then in their order."""

    user: Integers
    session: Integers  # of all sessions here
    starts: npt.NDArray[np.bool_]  # a session
    repeats: npt.NDArray[np.bool_]  # the search before it
    query: Integers  # the number of a named query, or how many are named plus the number of a new other query
    others: int  # new other queries


def walked(model: Model, users: int, random: np.random.Generator) -> Walk:
    """Sessions, their lengths, and which query each search is for."""
    sessions = model.sessions.of(stratified(users, random)) + 1
    group = np.searchsorted(CLASSES, sessions, side="right") - 1
    of_session = np.repeat(np.arange(users), sessions)
    lengths = np.empty(len(of_session), np.int64)
    for number, draws in enumerate(model.lengths):
        here = np.flatnonzero(group[of_session] == number)
        lengths[here] = draws.of(stratified(len(here), random)) + 1
    searches = np.bincount(of_session, lengths, minlength=users).astype(np.int64)
    order = np.argsort(-searches, kind="stable")  # those who are still searching at any step come first
    rank = np.empty(users, np.int64)
    rank[order] = np.arange(users)
    starts = np.zeros(int(searches.sum()), np.bool_)
    starts[np.cumsum(lengths) - lengths] = True
    steps = _Steps(model, group[order], searches[order], (np.cumsum(searches) - searches)[order], starts, random)
    query, repeats = steps.run()
    return Walk(
        np.repeat(np.arange(users), searches),
        np.repeat(np.arange(len(lengths)), lengths),
        starts,
        repeats,
        query,
        steps.others,
    )


class _Steps:
    """One search of every user at a time: what comes next depends on the one before and on what she asked before."""

    def __init__(
        self,
        model: Model,
        group: Integers,
        searches: Integers,
        offsets: Integers,
        starts: npt.NDArray[np.bool_],
        random: np.random.Generator,
    ) -> None:
        size = len(starts)
        self._model, self._group, self._searches, self._offsets = model, group, searches, offsets
        self._starts, self._random = starts, random
        upto = np.cumsum(model.moves, axis=2)
        self._moves = (upto / upto[..., -1:]).reshape(-1, upto.shape[2])
        self._states = model.moves.shape[1]
        self._named = len(model.volume)
        self._drawn, self._shift = 0, random.random()
        self._uniform, self._which = random.random(size), random.random(size)
        self._before = np.zeros((2, size), np.int32)  # what a user asked before: other queries, named ones
        self._asked = np.zeros((2, len(group)), np.int64)
        self._query = np.zeros(size, np.int64)
        self._repeats = np.zeros(size, np.bool_)
        self.others = 0

    def run(self) -> tuple[Integers, npt.NDArray[np.bool_]]:
        active = len(self._searches)
        for step in range(int(self._searches[0]) if active else 0):
            while self._searches[active - 1] <= step:
                active = int(np.searchsorted(-self._searches, -step, side="left"))
            self._step(step, active)
        return self._query, self._repeats

    def _step(self, step: int, active: int) -> None:
        at = self._offsets[:active] + step
        last = self._query[at - 1] if step else np.zeros(active, np.int64)
        if step:
            state = np.where(self._starts[at], 1, np.where(last < self._named, 2, 3))
        else:
            state = np.zeros(active, np.int64)
        limits = self._moves[self._group[:active] * self._states + state]
        move = (self._uniform[at, None] >= limits).sum(axis=1)
        asked = self._asked[:, :active]
        move[(move == 1) & (asked[1] == 0)] = 3
        move[(move == 2) & (asked[0] == 0)] = 4
        if not self._named:
            move[move == 3] = 4
        query = last.copy()
        for again, kind in ((1, 1), (2, 0)):
            here = np.flatnonzero(move == again)
            which = (self._which[at[here]] * asked[kind][here]).astype(np.int64)
            query[here] = self._before[kind, self._offsets[here] + which]
        fresh = np.flatnonzero(move == 3)
        # Multiples of the golden ratio, modulo one: all draws together follow the weights closely.
        aims: Any = (self._shift + GOLDEN * (self._drawn + np.arange(len(fresh)))) % 1.0
        self._drawn += len(fresh)
        query[fresh] = self._model.queries.of(aims)
        self._by_transition(fresh, state, last, query)
        new = np.flatnonzero(move == 4)
        query[new] = self._named + self.others + np.arange(len(new))
        self.others += len(new)
        self._query[at] = query
        self._repeats[at] = move == 0
        kinds = (query < self._named).astype(np.int64)
        own = np.arange(active)
        self._before[kinds, self._offsets[:active] + asked[kinds, own]] = query
        asked[kinds, own] += 1

    def _by_transition(self, fresh: Integers, state: Integers, last: Integers, query: Integers) -> None:
        if not len(self._model.next):
            return
        after = fresh[state[fresh] == 2]
        chosen = after[self._random.random(len(after)) < self._model.follows[last[after]]]
        chosen = chosen[self._model.transitions.sums[last[chosen]] > 0]
        entries = self._model.transitions.draw(last[chosen], self._random.random(len(chosen)))
        query[chosen] = self._model.next[entries]


def calibrated(model: Model, random: np.random.Generator) -> Model:
    """Run the sampler on trial and correct the chance of named queries by what came of it.

    A query comes again in proportion to how often a user had it already, and a query that she never had cannot: so the
    measured moves alone do not give named queries their measured part of all searches.
    """
    if not len(model.volume) or not model.users:
        return model
    for _ in range(PASSES):
        walk = walked(model, int(np.clip(model.users, *PILOT)), random)
        part = float((walk.query < len(model.volume)).mean())
        model = model.with_named(_odds(model.named_part) / _odds(part))
    return model


def _odds(part: float) -> float:
    return max(part, 1e-9) / max(1 - part, 1e-9)


class _Writer:
    """Turns walks into rows: texts, times and clicks."""

    def __init__(
        self, statistics: Statistics, model: Model, inventor: Inventor, tail: Tail, random: np.random.Generator
    ) -> None:
        self._statistics, self._model, self._inventor = statistics, model, inventor
        self._tail, self._random = tail, random
        self._named = pa.array(escaped(statistics.queries), pa.string())
        self._schema = schema_of(statistics)
        slots = np.repeat(np.arange(len(model.shared.queries)), model.shared.queries)
        self._slots = random.permutation(slots)
        self._taken = 0
        self._pool = inventor.texts(len(model.shared.queries))
        addresses = [*(url for _, url in statistics.pairs), *statistics.urls, NOWHERE]
        self._urls = pa.array(addresses, pa.string())

    def rows(self, walk: Walk, first_user: int) -> pa.Table:
        texts = pa.concat_arrays([self._named, self._others(walk.others)])
        size, named = len(walk.query), len(self._named)
        kept = np.arange(size) if self._tail != "omit" else np.flatnonzero(walk.query < named)
        number, times = np.ones(size, np.int64), self._times(walk)
        clicks = self._model.clicks
        clicked = np.zeros(size, np.int64)
        if clicks is not None:
            clicked = self._clicked(walk.query, clicks)
            number = np.maximum(clicked, 1)
        rows = np.repeat(kept, number[kept])
        columns: dict[str, Any] = {
            "user": pa.array(walk.user[rows] + first_user + 1),
            "query": texts.take(pa.array(walk.query[rows])),
        }
        if times is not None:
            columns["time"] = pa.array(times[rows] * 1_000_000).cast(pa.timestamp("us"))
        if clicks is not None:
            url, rank = self._results(walk.query[rows], clicked[rows] > 0, clicks)
            found: Any = pa.array(url, mask=url < 0)
            columns["url"] = self._urls.take(found)
            if rank is not None:
                columns["rank"] = pa.array(rank.astype(np.int32), mask=rank <= 0)
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _others(self, new: int) -> Any:
        """The texts of new other queries: some are shared with other users, most are nobody else's."""
        is_shared = self._random.random(new) < (self._model.shared.part if len(self._slots) else 0.0)
        places = np.empty(new, np.int64)
        shared = int(is_shared.sum())
        places[is_shared] = self._slots[(self._taken + np.arange(shared)) % max(len(self._slots), 1)]
        self._taken += shared
        places[~is_shared] = len(self._pool) + np.arange(new - shared)
        return pa.concat_arrays([self._pool, self._inventor.texts(new - shared)]).take(pa.array(places))

    def _times(self, walk: Walk) -> Integers | None:
        """Seconds since 1970. Sessions of a user keep apart by more than the gap that ends a session."""
        times, random = self._model.times, self._random
        if times is None:
            return None
        size = len(walk.query)
        gaps = times.gaps.of(stratified(size, random))
        gaps = np.where(walk.starts, 0, np.where(walk.repeats, np.maximum(gaps, 1), gaps))
        first = np.flatnonzero(walk.starts)
        passed = np.cumsum(gaps)
        within = passed - np.repeat(passed[first], np.diff([*first, size]))
        took = within[np.append(first[1:], size) - 1] if len(first) else first
        user = walk.user[first]
        days = times.days.of(stratified(len(first), random))
        weekday = (days + times.weekday) % 7
        hours = np.empty(len(first), np.int64)
        for number, draws in enumerate(times.hours):
            here = np.flatnonzero(weekday == number)
            hours[here] = draws.of(stratified(len(here), random))
        start = days * 86400 + hours * 3600 + random.integers(0, 3600, len(first))
        order = np.lexsort([start, user])  # a user's sessions lie together already: sorting changes their order only
        start = _apart(start[order], took, user, len(times.days.weights) * 86400)
        zero = int(first_moment(self._statistics).total_seconds())
        moments: Integers = zero + np.repeat(start, np.diff([*first, size])) + within
        return moments

    def _clicked(self, query: Integers, clicks: Clicks) -> Integers:
        """How many results are clicked, by search."""
        random, named = self._random, len(self._named)
        chance = clicks.chance[np.minimum(query, named)]
        some = random.random(len(query)) < chance
        number = np.zeros(len(query), np.int64)
        for kind, draws in enumerate(clicks.numbers):
            here = np.flatnonzero(some & ((query < named) == bool(kind)))
            number[here] = draws.of(stratified(len(here), random)) + 1
        return number

    def _results(
        self, query: Integers, is_click: npt.NDArray[np.bool_], clicks: Clicks
    ) -> tuple[Integers, Integers | None]:
        """The number of the url and the rank of each row; −1 and 0 for rows without a click."""
        random, named, pairs = self._random, len(self._named), len(self._statistics.pairs)
        url = np.full(len(query), -1)
        at = np.flatnonzero(is_click)
        url[at] = pairs + clicks.others.of(random.random(len(at)))
        of_named = at[query[at] < named]
        entries = clicks.urls[clicks.pairs.draw(query[of_named], random.random(len(of_named)))]
        paired = of_named[entries >= 0]
        url[paired] = entries[entries >= 0]
        if clicks.ranks is None or clicks.pair_ranks is None:
            return url, None
        rank = np.zeros(len(query), np.int64)
        for kind, draws in enumerate(clicks.ranks):
            here = at[(query[at] < named) == bool(kind)]
            rank[here] = draws.of(stratified(len(here), random)) + 1
        if len(paired):
            size = len(clicks.ranks[0].weights)
            rank[paired] = clicks.pair_ranks.draw(url[paired], random.random(len(paired))) % size + 1
        return url, rank


def _apart(start: Integers, took: Integers, user: Integers, end: int) -> Integers:
    """Starts, sorted within each user, moved to later where a session would begin before the one before it is over."""
    if not len(start):
        return start
    room = took + GAP_SECONDS + 1
    before = np.cumsum(room) - room
    # Each user's numbers lie above those of the users before her, so that one running maximum serves all.
    step = int(before[-1]) + end + 1
    level = start - before + user * step
    moved: Integers = np.maximum.accumulate(level) - user * step + before
    return np.maximum(0, np.minimum(moved, end - 1 - took))
