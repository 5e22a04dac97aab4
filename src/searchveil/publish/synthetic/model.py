"""What the sampler draws from: every chance that follows from the noisy tables, worked out once."""

from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from searchveil.privacy.noise import Integers
from searchveil.publish.synthetic.bins import (
    CLASSES,
    CLICKS,
    GAPS,
    HOLDERS,
    LAST,
    LENGTHS,
    PAIR_RANKS,
    RANKS,
    SESSIONS,
)
from searchveil.publish.synthetic.chances import (
    Draws,
    Floats,
    Grouped,
    projected,
    shrunk,
    spread,
    without_noise_at_the_end,
)
from searchveil.publish.synthetic.searches import MOVES, STATES
from searchveil.publish.synthetic.statistics import Statistics

VARIES = 0.2  # standard deviation of the part of a query's searches that are clicked, from query to query
# Moves that cannot be: a user's first search repeats nothing, and a session's first not the one before it.
IMPOSSIBLE = np.zeros((len(STATES), len(MOVES)), np.bool_)
IMPOSSIBLE[0, :3] = IMPOSSIBLE[1, 0] = True
NAMED_MOVES = (1, 3)


@dataclass(frozen=True)
class Shared:
    """Other queries that several users share: how many there are of so many users, and the part of draws they take."""

    queries: Integers  # with so many users each
    part: float


@dataclass(frozen=True)
class Times:
    days: Draws
    hours: tuple[Draws, ...]  # of each weekday
    weekday: int  # of the first day
    gaps: Draws


@dataclass(frozen=True)
class Clicks:
    """How often a search is clicked, on what and at which rank."""

    chance: Floats  # that a search is clicked, by the number of a named query; last for all others
    numbers: tuple[Draws, Draws]  # clicks of a clicked search: of other queries, of named ones
    pairs: Grouped  # by query: its pairs, and last what is no pair
    urls: Integers  # of an entry of `pairs`: the number of the pair, or −1
    others: Draws  # numbers of urls; the last stands for all that are not known
    ranks: tuple[Draws, Draws] | None  # of clicks that are no pair: of other queries, of named ones
    pair_ranks: Grouped | None


@dataclass(frozen=True)
class Model:
    users: int
    sessions: Draws  # from 1 on
    lengths: tuple[Draws, ...]  # by class of users, from 1 on
    moves: Floats  # by class, state and move
    queries: Draws
    transitions: Grouped
    next: Integers
    follows: Floats  # the chance that a new named query comes by a transition, by the query before
    shared: Shared
    named_part: float  # of all searches
    volume: Floats  # of named queries, as measured
    times: Times | None
    clicks: Clicks | None

    def with_named(self, factor: float) -> "Model":
        """Named queries so many times as often."""
        moves = self.moves.copy()
        moves[..., NAMED_MOVES] *= factor
        return replace(self, moves=moves)


def model_of(statistics: Statistics, scale: float) -> Model:
    noisy, deviation = statistics.noisy, statistics.deviation
    sessions = projected(without_noise_at_the_end(noisy["sessions"], deviation["sessions"]))
    lengths = noisy["lengths"].reshape(len(CLASSES), len(LENGTHS))
    in_classes = shrunk(
        [projected(without_noise_at_the_end(row, deviation["lengths"])) for row in lengths], deviation["lengths"]
    )
    overall = Draws(spread(sum(in_classes, np.zeros(len(LENGTHS))), LENGTHS, LAST[LENGTHS]))
    of_classes = tuple(Draws(spread(row, LENGTHS, LAST[LENGTHS])) if row.sum() > 0 else overall for row in in_classes)
    # As many users as the threshold asks for, at least, and each of them searched for it.
    volume = projected(noisy["volume"].reshape(-1, 2).sum(axis=1), statistics.least["queries"])
    moves = _moves(noisy["moves"])
    transitions, follows = _transitions(statistics, volume)
    return Model(
        users=max(0, round(float(sessions.sum()) * scale)),
        sessions=Draws(spread(sessions, SESSIONS, LAST[SESSIONS])),
        lengths=of_classes,
        moves=moves,
        queries=Draws(volume),
        transitions=transitions,
        next=np.array([pair[1] for pair in statistics.transitions], np.int64),
        follows=follows,
        shared=_shared(noisy["holders"], scale),
        named_part=_named_part(statistics),
        volume=volume,
        times=None if statistics.period is None else _times(statistics),
        clicks=_clicks(statistics, volume) if "clicks" in noisy else None,
    )


def _moves(noisy: Floats) -> Floats:
    cells = noisy.reshape(len(CLASSES), len(STATES), len(MOVES)).copy()
    cells[:, IMPOSSIBLE] = 0.0
    possible = np.broadcast_to(~IMPOSSIBLE, cells.shape)
    moves = np.zeros_like(cells)
    moves[possible] = projected(cells[possible])
    overall = moves.sum(axis=0)
    overall[:, 4] += 1e-9  # where nothing was measured
    empty = moves.sum(axis=2) <= 0
    moves[empty] = np.broadcast_to(overall, moves.shape)[empty]
    return moves


def _named_part(statistics: Statistics) -> float:
    """Of all searches. How many clicks they have is measured with the longest vectors, and so tells it best."""
    if "clicks" in statistics.noisy:
        others, named = projected(statistics.noisy["clicks"]).reshape(2, -1).sum(axis=1)
    else:
        moves = _moves(statistics.noisy["moves"]).sum(axis=(0, 1))
        named = moves[1] + moves[3]
        others = moves[2] + moves[4]
    return float(named / max(named + others, 1e-9))


def _shared(noisy: Floats, scale: float) -> Shared:
    at_least = np.maximum(np.minimum.accumulate(noisy), 0.0)
    exactly = at_least - np.append(at_least[1:], 0.0)
    users = np.sqrt(np.array(HOLDERS) * (np.array([*HOLDERS[1:], 2 * HOLDERS[-1]]) - 1.0))
    draws = float((exactly * users).sum())
    part = 0.0 if draws <= 0 else 1 - float(exactly[0]) / draws
    number = np.rint(exactly[1:] * scale).astype(np.int64)
    return Shared(np.repeat(np.rint(users[1:]).astype(np.int64), number), part)


def _transitions(statistics: Statistics, volume: Floats) -> tuple[Grouped, Floats]:
    first = np.array([pair[0] for pair in statistics.transitions], np.int64)
    if not len(first):
        return Grouped(np.zeros(len(volume) + 1, np.int64), np.zeros(0)), np.zeros(len(volume))
    counted = projected(statistics.noisy["transition_volume"])
    grouped = Grouped.of_pairs(first, counted[:-1], len(volume))
    # A query's part of all transitions against its part of all searches.
    expected = volume / max(volume.sum(), 1e-9) * max(counted.sum(), 1e-9)
    return grouped, np.minimum(1.0, grouped.sums / np.maximum(expected, 1e-9))


def _times(statistics: Statistics) -> Times:
    assert statistics.period is not None
    noisy = statistics.noisy
    hours = projected(noisy["hours"]).reshape(7, 24)
    return Times(
        days=Draws(projected(noisy["days"])),
        hours=tuple(Draws(row) for row in hours),
        weekday=statistics.period.first.weekday(),
        gaps=Draws(spread(projected(noisy["gaps"]), GAPS, LAST[GAPS])),
    )


def _clicks(statistics: Statistics, volume: Floats) -> Clicks:
    noisy, deviation = statistics.noisy, statistics.deviation
    clicks = projected(noisy["clicks"]).reshape(2, len(CLICKS))
    of_others, of_named = (1 - row[0] / max(row.sum(), 1e-9) for row in clicks)
    chance = _chance(noisy["volume"].reshape(-1, 2), volume, of_named, deviation["volume"])
    some = tuple(Draws(spread(row[1:], CLICKS[1:], LAST[CLICKS])) for row in clicks)
    first = np.array([pair[0] for pair in statistics.pairs], np.int64)
    pair_volume = projected(noisy["pair_volume"])
    wanted = volume * chance
    expected = pair_volume[:-1] / max(pair_volume.sum(), 1e-9) * wanted.sum()
    of_pairs = np.bincount(first, expected, minlength=len(volume)) if len(first) else np.zeros(len(volume))
    rest = np.maximum(wanted - of_pairs, 1e-9)
    groups = np.concatenate([first, np.arange(len(volume))])
    order = np.argsort(groups, kind="stable")
    entries = np.concatenate([np.arange(len(first)), np.full(len(volume), -1)])[order]
    pairs = Grouped.of_pairs(groups[order], np.concatenate([expected, rest])[order], len(volume))
    ranks, pair_ranks = _ranks(statistics, expected, float(rest.sum())) if "ranks" in noisy else (None, None)
    return Clicks(
        chance=np.append(chance, of_others),
        numbers=(some[0], some[1]),
        pairs=pairs,
        urls=entries,
        others=Draws(projected(noisy["url_volume"])),
        ranks=ranks,
        pair_ranks=pair_ranks,
    )


def _chance(noisy: Floats, volume: Floats, overall: float, deviation: float) -> Floats:
    """Of each named query, that a search for it is clicked: as measured where that says more than the average."""
    total = np.maximum(noisy.sum(axis=1), deviation)
    own = np.clip(noisy[:, 1] / total, 0.0, 1.0)
    trust = VARIES**2 / (VARIES**2 + deviation**2 / total**2)
    chance = trust * own + (1 - trust) * overall
    average = float((volume * chance).sum() / max(volume.sum(), 1e-9))
    adjusted: Floats = np.clip(chance * overall / max(average, 1e-9), 0.0, 1.0)
    return adjusted


def _ranks(statistics: Statistics, of_pairs: Floats, rest: float) -> tuple[tuple[Draws, Draws], Grouped]:
    """What is no pair gets the ranks that are left when those of the pairs are taken from all of named queries."""
    noisy, deviation = statistics.noisy, statistics.deviation
    others, named = (spread(row, RANKS, LAST[RANKS]) for row in projected(noisy["ranks"]).reshape(2, len(RANKS)))
    size = LAST[RANKS]
    of_bin = np.searchsorted(PAIR_RANKS, np.arange(1, size + 1), side="right") - 1
    in_bins = np.bincount(of_bin, named, minlength=len(PAIR_RANKS))
    prior = in_bins / max(in_bins.sum(), 1e-9)
    own = np.maximum(noisy["pair_rank"].reshape(-1, len(PAIR_RANKS)), 0.0)
    by_pair = own + 2 * deviation["pair_rank"] * len(PAIR_RANKS) * prior
    by_pair /= np.maximum(by_pair.sum(axis=1, keepdims=True), 1e-9)
    share = float(of_pairs.sum()) / max(float(of_pairs.sum()) + rest, 1e-9)
    together = of_pairs @ by_pair / max(float(of_pairs.sum()), 1e-9) if len(own) else prior
    left = np.maximum(prior - share * together, 0.0) if share < 1 else prior
    inside = named / np.maximum(in_bins, 1e-9)[of_bin]  # the chance of a rank in its bin
    starts = np.arange(len(own) + 1) * size
    return (Draws(others), Draws(left[of_bin] * inside)), Grouped(starts, (by_pair[:, of_bin] * inside).reshape(-1))


def first_moment(statistics: Statistics) -> timedelta:
    """From 1970 to the first day."""
    assert statistics.period is not None
    return statistics.period.start - type(statistics.period.start)(1970, 1, 1)
