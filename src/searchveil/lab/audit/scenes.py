"""The neighbouring logs of an audit: crowds whose sizes lie around a mechanism's thresholds, and users who may join.

A scene is a crowd with one canary. All scenes share one log: their texts differ, and every canary comes or stays away
by a coin of its own. Given the other coins, the logs with and without a canary are neighbours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from math import ceil
from typing import Any

import pyarrow as pa

from searchveil.errors import InputError
from searchveil.log.sessions import GAP_MINUTES
from searchveil.publish.mechanism import Plan

Key = tuple[str, ...]  # an item as it is published: its texts, column by column

START = datetime(2024, 1, 1)
FAVOURITES = 16  # items of one count, of which a hash that is no secret always favours the same
MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Fragment:
    """The smallest history that makes one item (of a session: one session): queries a minute apart."""

    queries: tuple[str, ...]

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"http://{query}.example" for query in self.queries)


@dataclass(frozen=True)
class Shape:
    """What one user may change, read off a plan."""

    item: str
    per_user: int
    scale: float
    first_threshold: int
    threshold: int
    click_threshold: int | None  # None: no clicks beside the item; 1: over public candidates
    transitions: bool
    queries_per_session: int
    gap_minutes: float

    @classmethod
    def of(cls, plan: Plan, *, transitions: bool = False) -> "Shape":
        known = plan.parameters
        bounds = [known[name] for name in ("per_user", "queries_per_user", "sessions_per_user") if name in known]
        if not bounds or not {"noise_scale", "second_threshold"} <= set(known):
            raise InputError(
                f"the audit cannot tell from the plan of {plan.method} how much a user may change; its parameters are "
                f"{', '.join(known) or 'none'}"
            )
        return cls(
            plan.item,
            bounds[0],
            known["noise_scale"],
            known.get("first_threshold", 1),
            known["second_threshold"],
            known.get("clicks_threshold", 1) if known.get("clicks_per_user") else None,
            transitions,
            known.get("queries_per_session", 2),
            known.get("gap_minutes", GAP_MINUTES),
        )

    @property
    def crowd(self) -> int:
        """So many users hold an item that is very likely to come out."""
        return max(self.threshold, self.click_threshold or 1) + ceil(2 * self.scale)

    def fragment(self, name: str) -> Fragment:
        length = {"pair": 2, "session": self.queries_per_session}.get(self.item, 1)
        return Fragment(tuple(f"{name}-{letters(i)}" for i in range(length)) if length > 1 else (name,))

    def fragments(self, name: str, n: int) -> list[Fragment]:
        return [self.fragment(f"{name}-{letters(i)}") for i in range(n)]

    def blocks(self, fragments: Sequence[Fragment]) -> list[Sequence[Fragment]]:
        """As many at a time as one user of the crowd keeps."""
        return [fragments[i : i + self.per_user] for i in range(0, len(fragments), self.per_user)]

    def keys(self, fragments: Sequence[Fragment]) -> list[Key]:
        """What a user's history of these fragments may be published as, beside the clicks."""
        if self.item == "session":
            lists = (combinations(f.queries, n) for f in fragments for n in range(2, len(f.queries) + 1))
            return [key for keys in lists for key in keys]
        if self.item == "pair":
            return [fragment.queries for fragment in fragments]
        if self.item in ("click", "url"):
            return [(*f.queries, *f.urls)[-2 if self.item == "click" else -1 :] for f in fragments]
        keys = [fragment.queries for fragment in fragments]
        if self.transitions:
            texts = [fragment.queries[0] for fragment in fragments]
            keys += [*pairwise(texts)]
        return keys

    def click_keys(self, fragments: Sequence[Fragment]) -> list[Key]:
        if self.click_threshold is None:
            return []
        return [(query, url) for f in fragments for query, url in zip(f.queries, f.urls, strict=True)]

    def gap(self) -> timedelta:
        """Between fragments: sessions of their own where a fragment is a session."""
        apart = 1 + 2 * self.gap_minutes if self.item in ("pair", "session") else 1
        return timedelta(minutes=apart)


@dataclass(frozen=True)
class Watched:
    """An item whose published count tells of the canary, and how many others hold it."""

    key: Key
    others: int


@dataclass(frozen=True)
class Canary:
    """A user who may join, what the auditor looks at then, and the crowd around her."""

    name: str
    what: str
    history: Sequence[Fragment]
    watched: Sequence[Watched]
    crowd: Sequence[tuple[int, Sequence[Fragment]]] = ()  # so many users with this history
    crowd_without_clicks: Sequence[tuple[int, Sequence[Fragment]]] = ()


@dataclass(frozen=True)
class Stage:
    """All scenes in one log: who is always there, and who comes by a coin."""

    shape: Shape
    canaries: Sequence[Canary]
    bystander: Canary = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bystander", _far(self.shape, "bystander", self.shape.per_user))

    def rows(self) -> pa.Table:
        """Columns of a log, and `slot`: empty for the crowd, +name for a canary, −name for who is in her place."""
        table: dict[str, list[Any]] = {column: [] for column in ("slot", "user", "query", "url", "time")}

        def live(slot: str, user: str, history: Iterable[Fragment], *, clicks: bool = True) -> None:
            time = START
            for fragment in history:
                time += self.shape.gap()
                for query, url in zip(fragment.queries, fragment.urls, strict=True):
                    values = (slot, user, query, url if clicks else None, time)
                    for column, value in zip(table.values(), values, strict=True):
                        column.append(value)
                    time += timedelta(minutes=1)

        for scene in (self.bystander, *self.canaries):
            for clicks, crowds in ((True, scene.crowd), (False, scene.crowd_without_clicks)):
                for i, (size, history) in enumerate(crowds):
                    if len(table["user"]) + size * len(history) > MOST_ROWS:
                        raise InputError(
                            "an audit of these parameters needs a log of more than a million rows for every release; "
                            "audit fewer items a user or a larger epsilon: the code is the same"
                        )
                    for number in range(size):
                        live("", f"{scene.name} {clicks} {i} {number}", history, clicks=clicks)
        for canary in self.canaries:
            live(f"+{canary.name}", f"canary {canary.name}", canary.history)
            live(f"-{canary.name}", f"canary {canary.name}", self.bystander.history)
        types = {"time": pa.timestamp("us")}
        return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in table.items()})

    @property
    def fragments(self) -> list[Fragment]:
        """Everything anybody searches, once."""
        scenes = (self.bystander, *self.canaries)
        crowds = [history for scene in scenes for _, history in (*scene.crowd, *scene.crowd_without_clicks)]
        histories = [*crowds, *(scene.history for scene in scenes)]
        return list(dict.fromkeys(fragment for history in histories for fragment in history))


def canaries_for(shape: Shape, favourite: int = 0) -> list[Canary]:
    """Every canary that makes sense for a mechanism. `favourite`: which item of many comes out most often."""
    m, crowd = shape.per_user, shape.crowd
    found = [
        _unique(shape),
        _near(shape),
        _far(shape, "far", m),
        _far(shape, "one-more", m + 1),
        _far(shape, "heavy", m + min(3 * m, 12)),
        _repeating(shape),
        _pivot(shape),
    ]
    if shape.threshold > 1:
        found.append(_favourite(shape, favourite))
    if shape.click_threshold is not None:
        lone, near = shape.fragments("lone-click", m), shape.fragments("near-click", m)
        for name, history, clickers, what in (
            ("lone-click", lone, 0, "clicks results that nobody else clicked, of queries that many searched"),
            ("near-click", near, shape.click_threshold - 1, "whose clicks complete the crowd of the click threshold"),
        ):
            watched = [Watched(key, clickers) for key in shape.click_keys(history)]
            found.append(
                Canary(name, what, history, watched, [(clickers, history)], [(max(0, crowd - clickers), history)])
            )
    return found


def _unique(shape: Shape) -> Canary:
    history = shape.fragments("unique", shape.per_user)
    others = shape.first_threshold - 1
    what = "whose items nobody else has" if not others else f"whose items {others} others have, one too few to count"
    return Canary("unique", what, history, _watched(shape, history, others), [(others, history)])


def _near(shape: Shape) -> Canary:
    history = shape.fragments("near", shape.per_user)
    others = shape.threshold - 1
    return Canary(
        "near",
        "whose items complete the crowd of the threshold",
        history,
        _watched(shape, history, others),
        [(others, history)],
    )


def _far(shape: Shape, name: str, n: int) -> Canary:
    history = shape.fragments(name, n)
    blocks = shape.blocks(history)
    watched = [watched for block in blocks for watched in _watched(shape, block, shape.crowd)]
    what = "whose items many others have"
    if n > shape.per_user:
        what += f", {n} of them where {shape.per_user} may count"
    return Canary(name, what, history, watched, [(shape.crowd, block) for block in blocks])


def _repeating(shape: Shape) -> Canary:
    item = shape.fragment("again")
    return Canary(
        "repeating",
        f"who does the same thing {3 * shape.per_user + 1} times, as many others do once",
        [item] * (3 * shape.per_user + 1),
        _watched(shape, [item], shape.crowd),
        [(shape.crowd, [item])],
    )


def _pivot(shape: Shape) -> Canary:
    """Whether an item is more popular than the others of its holders, or as popular, hangs on the canary.

    First in the alphabet once and last once, so that a tie is broken against it in one of the two crowds.
    """
    rest = [shape.fragments(f"pivot-{side}m", shape.per_user) for side in "ab"]
    first, last = shape.fragment("pivot-a"), shape.fragment("pivot-z")
    crowds = [[first, *rest[0]], [*rest[1], last]]
    return Canary(
        "pivot",
        "on whom it hangs which item of their own is the most popular one for many others",
        [first, last],
        _watched(shape, [first, last], shape.crowd),
        [(shape.crowd, crowd) for crowd in crowds],
    )


def _favourite(shape: Shape, chosen: int) -> Canary:
    """She brings the chosen item to the same count as many others; all are equally likely to pass, unless it shows."""
    items = favourites(shape)
    others = shape.threshold - 2
    crowd = [(shape.threshold - 1 if item != items[chosen] else others, [item]) for item in items]
    return Canary(
        "favourite",
        "who brings an item that came out most often to the count of many like it",
        [items[chosen]],
        _watched(shape, [items[chosen]], others),
        crowd,
    )


def favourites(shape: Shape) -> list[Fragment]:
    return shape.fragments("favourite", FAVOURITES)


def _watched(shape: Shape, fragments: Sequence[Fragment], others: int) -> list[Watched]:
    return [Watched(key, others) for key in (*shape.keys(fragments), *shape.click_keys(fragments))]


def letters(number: int) -> str:
    """a, b, …, z, ba, …: words only, because digits may look personal."""
    text = ""
    while True:
        number, place = divmod(number, 26)
        text = chr(ord("a") + place) + text
        if not number:
            return text
