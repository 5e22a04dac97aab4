"""The neighbouring logs of an audit: crowds whose sizes lie around a mechanism's thresholds, and users who may join.

A scene is a crowd with one canary. All scenes share one log: their texts differ, and every canary comes or stays away
by a coin of its own. Given the other coins, the logs with and without a canary are neighbours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from math import ceil, floor, sqrt
from typing import Any

import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.items import QUERY, Item, Search
from searchveil.log.sessions import GAP_MINUTES
from searchveil.publish.plan import Plan, Settings, WeightSelection

START = datetime(2024, 1, 1)
FAVOURITES = 16  # items of one count, of which a hash that is no secret always favours the same
FLOOD = 192  # items of one user: three in each of the 64 parts of the hash that DuckDB's prefilter tells apart
WANDERINGS = 24  # transitions of one user, of which a method keeps a few
CLICKS = 32  # of one user on one query
MOST_ROWS = 1_000_000
MOST_WEIGHTED = 7  # items of one user: `heavy` has four times as many, and up to 30 count in full


@dataclass(frozen=True)
class Fragment:
    """The smallest history that makes one item (of a session: one session): searches a minute apart."""

    searches: tuple[Search, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(search.query for search in self.searches)

    def spelled(self, i: int) -> "Fragment":
        """The same searches, as the usual normalising has them."""
        return Fragment(tuple(search._replace(query=spelled(search.query, i)) for search in self.searches))

    def clicking(self, other: str) -> "Fragment":
        """The same queries, with clicks on results that this name tells from all others."""
        return Fragment(
            tuple(search._replace(url=f"http://{search.query}-{other}.example") for search in self.searches)
        )


@dataclass(frozen=True)
class Shape:
    """What one user may change, read off a plan, and which searches make an item."""

    per_user: int
    scale: float
    first_threshold: int
    threshold: int
    click_threshold: int | None  # None: no clicks beside the item; 1: over public candidates
    transitions: bool
    length: int
    gap_minutes: float
    item: Item
    weighted: bool = False  # a user of several items gives each less weight or votes, and more where others get none

    @classmethod
    def of(cls, plan: Plan[Settings], *, transitions: bool = False, length: int = 1, item: Item = QUERY) -> "Shape":
        selection, clicks, sessions = plan.settings.selection, plan.settings.clicks, plan.settings.sessions
        if plan.settings.weights is not None:
            return cls._of_weights(plan.settings.weights, length, item)
        if plan.settings.votes is not None:
            votes = plan.settings.votes
            scale = float(1 / votes.epsilon)
            return cls(1, scale, 1, votes.threshold, None, False, length, GAP_MINUTES, item, weighted=True)
        if selection is None:
            raise InputError(
                f"the audit cannot tell from the plan of {plan.method} how much a user may change; its parameters are "
                f"{', '.join(plan.parameters) or 'none'}"
            )
        return cls(
            selection.per_user if sessions is None else sessions.per_user,
            selection.noise_scale,
            selection.first_threshold,
            selection.threshold,
            None if clicks is None else clicks.threshold,
            transitions,
            length,
            GAP_MINUTES if sessions is None else sessions.gap_minutes,
            item,
        )

    @classmethod
    def _of_weights(cls, weights: WeightSelection, length: int, item: Item) -> "Shape":
        """In numbers of users, who give each of m items a weight of 1/√m."""
        per_user = weights.per_user
        if per_user > MOST_WEIGHTED:
            raise InputError(
                f"an audit of weighted selection has users of at most {MOST_WEIGHTED} items, not {per_user}",
                parameter="candidates_per_user",
                value=per_user,
                instead="add " + setting("candidates_per_user", 2) + ": the code is the same",
            )
        scale, least = weights.sigma * sqrt(per_user), ceil(weights.threshold * sqrt(per_user))
        return cls(per_user, scale, 1, least, None, False, length, GAP_MINUTES, item, weighted=True)

    @property
    def crowd(self) -> int:
        """So many users hold an item that is very likely to come out."""
        return max(self.threshold, self.click_threshold or 1) + ceil(2 * self.scale)

    @property
    def too_few(self) -> int:
        """So many users hold an item that must not be counted, whoever they are."""
        return self.first_threshold - 1

    def fragment(self, name: str) -> Fragment:
        texts = [f"{name}-{letters(i)}" for i in range(self.length)] if self.length > 1 else [name]
        return Fragment(tuple(self.item.example(texts)))

    def fragments(self, name: str, n: int) -> list[Fragment]:
        return [self.fragment(f"{name}-{letters(i)}") for i in range(n)]

    def blocks(self, fragments: Sequence[Fragment]) -> list[Sequence[Fragment]]:
        """As many at a time as one user of the crowd keeps."""
        return [fragments[i : i + self.per_user] for i in range(0, len(fragments), self.per_user)]

    def gap(self) -> timedelta:
        """Between fragments: sessions of their own where a fragment is a session."""
        return timedelta(minutes=1 + 2 * self.gap_minutes if self.length > 1 else 1)


@dataclass(frozen=True)
class Canary:
    """A user who may join, and the crowd around her. What the auditor watches is found by the control."""

    name: str
    what: str
    history: Sequence[Fragment]
    others: int | None  # who hold the items that tell of her; None: any number
    crowd: Sequence[tuple[int, Sequence[Fragment]]] = ()  # so many users with this history
    crowd_without_clicks: Sequence[tuple[int, Sequence[Fragment]]] = ()
    rare: bool = False  # a threshold must hide what she searches
    moved: Sequence[Fragment] = ()  # of the crowd, whose weight goes there when she comes


@dataclass(frozen=True)
class AuditLog:
    """All scenes in one log: who is always there, and who comes by a coin."""

    shape: Shape
    canaries: Sequence[Canary]

    @cached_property
    def bystander(self) -> Canary:
        """Who takes the place of a canary under replace-one."""
        return _far(self.shape, "bystander", self.shape.per_user)

    @cached_property
    def compared(self) -> list[Canary]:
        """Items that no canary has, to compare hers with: first and last in the alphabet."""
        return [_far(self.shape, name, 1) for name in ("aa-beside", "zz-beside")]

    @cached_property
    def helpers(self) -> list[Canary]:
        """Scenes without a canary: who joins them, in the control alone, shows what their items are published as."""
        found = [self.bystander, *self.compared]
        for canary in self.canaries:
            if canary.name == "favourite":
                found += [
                    Canary(f"favourite {i}", "one of many items of one count", [item], None)
                    for i, item in enumerate(favourites(self.shape))
                    if item not in canary.history
                ]
            if canary.moved:
                found.append(Canary(f"{canary.name} moved", "where weights go when she comes", canary.moved, None))
        return found

    @property
    def scenes(self) -> list[Canary]:
        return [*self.helpers, *self.canaries]

    def rows(self) -> pa.Table:
        """Columns of a log, and `slot`: empty for the crowd, +name for a canary, −name for who is in her place."""
        table: dict[str, list[Any]] = {column: [] for column in ("slot", "user", "query", "url", "time", "rank")}

        def live(slot: str, user: str, history: Iterable[Fragment], *, clicks: bool = True) -> None:
            time = START
            for fragment in history:
                time += self.shape.gap()
                for search in fragment.searches:
                    clicked = (search.url, search.rank) if clicks else (None, None)
                    values = (slot, user, search.query, clicked[0], time, clicked[1])
                    for column, value in zip(table.values(), values, strict=True):
                        column.append(value)
                    time += timedelta(minutes=1)

        for scene in self.scenes:
            for clicks, crowds in ((True, scene.crowd), (False, scene.crowd_without_clicks)):
                for i, (size, history) in enumerate(crowds):
                    _require_room(len(table["user"]) + size * len(history))
                    for number in range(size):
                        live("", f"{scene.name} {clicks} {i} {number}", history, clicks=clicks)
        for scene in self.scenes:
            live(f"+{scene.name}", f"canary {scene.name}", scene.history)
        for canary in self.canaries:
            live(f"-{canary.name}", f"canary {canary.name}", self.bystander.history)
        types = {"time": pa.timestamp("us"), "rank": pa.int64()}
        return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in table.items()})

    @property
    def users(self) -> int:
        crowds = [crowd for scene in self.scenes for crowd in (*scene.crowd, *scene.crowd_without_clicks)]
        return sum(size for size, _ in crowds) + len(self.canaries)

    @property
    def _histories(self) -> list[Sequence[Fragment]]:
        crowds = [history for scene in self.scenes for _, history in (*scene.crowd, *scene.crowd_without_clicks)]
        return [*crowds, *(scene.history for scene in self.scenes)]

    @property
    def searches(self) -> list[tuple[str, str]]:
        """Every query and result that anybody clicks, once."""
        fragments = (fragment for history in self._histories for fragment in history)
        searches = (search for fragment in fragments for search in fragment.searches)
        return list(dict.fromkeys((search.query, search.url) for search in searches if search.url is not None))

    @property
    def followed(self) -> list[tuple[str, str]]:
        """Every query with one that somebody searches right after it, once."""
        texts = ([query for fragment in history for query in fragment.queries] for history in self._histories)
        return list(dict.fromkeys(pair for queries in texts for pair in pairwise(queries)))

    @property
    def hidden(self) -> set[str]:
        """What canaries search and a threshold must hide."""
        return {q for canary in self.canaries if canary.rare for f in canary.history for q in f.queries}

    @property
    def longest(self) -> int:
        """The most searches of one user."""
        return max(sum(len(fragment.queries) for fragment in history) for history in self._histories)


def canaries_for(shape: Shape, favourite: int = 0) -> list[Canary]:
    """Every canary that makes sense for a mechanism. `favourite`: which item of many comes out most often."""
    m = shape.per_user
    _require_room(shape.crowd * m)  # of the bystander's scene, which is always there: refused before all are made
    found = [
        _unique(shape, "unique", m),
        _unique(shape, "flood", m + FLOOD),
        _spelling(shape),
        _near(shape),
        _far(shape, "far", m),
        _far(shape, "one-more", m + 1),
        _far(shape, "heavy", m + min(3 * m, 12)),
        _repeating(shape),
        _pivot(shape),
    ]
    if not shape.weighted:
        found.append(_rescuer(shape))
    elif m >= 2:
        found.append(_leaver(shape))
    if shape.threshold > 1:
        found.append(_favourite(shape, favourite))
    if shape.transitions:
        found.append(_wanderer(shape))
    if shape.click_threshold is not None:
        found += [_lone_click(shape), _many_clicks(shape), _near_click(shape)]
    return found


def _require_room(rows: int) -> None:
    if rows > MOST_ROWS:
        raise InputError(
            "an audit of these parameters needs a log of more than a million rows for every release; "
            "audit fewer items a user or a larger epsilon: the code is the same"
        )


def _unique(shape: Shape, name: str, n: int) -> Canary:
    history, others = shape.fragments(name, n), shape.too_few
    what = "whose items nobody else has" if not others else f"whose items {others} others have, one too few to count"
    if n > shape.per_user:
        what += f", {n} of them where {shape.per_user} may count"
    crowd = [(others, block) for block in shape.blocks(history)] if others else []
    return Canary(name, what, history, others, crowd, rare=True)


def _spelling(shape: Shape) -> Canary:
    """What she typed differs, and is one item: counted once for each spelling it would pass a threshold for one."""
    plain, others = shape.fragment("spelling"), shape.too_few
    return Canary(
        "spelling",
        f"who spells one item in {shape.per_user + 2} ways",
        [plain.spelled(i) for i in range(shape.per_user + 2)],
        others,
        [(others, [plain])] if others else [],
        rare=True,
    )


def spelled(text: str, i: int) -> str:
    """The same text, as the usual normalising has it, in the i-th of many ways."""
    if i == 0:
        return f" {text}  "
    if i == 1:  # the full-width forms of Unicode
        return "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in text)
    capitals = i - 1
    letters_of = [place for place, letter in enumerate(text) if letter.isalpha()]
    big = {place for bit, place in enumerate(letters_of) if capitals >> bit & 1}
    return "".join(letter.upper() if place in big else letter for place, letter in enumerate(text))


def _near(shape: Shape) -> Canary:
    history, others = shape.fragments("near", shape.per_user), shape.threshold - 1
    return Canary("near", "whose items complete the crowd of the threshold", history, others, [(others, history)])


def _far(shape: Shape, name: str, n: int) -> Canary:
    history = shape.fragments(name, n)
    what = "whose items many others have"
    if n > shape.per_user:
        what += f", {n} of them where {shape.per_user} may count"
    return Canary(name, what, history, shape.crowd, [(shape.crowd, block) for block in shape.blocks(history)])


def _repeating(shape: Shape) -> Canary:
    item = shape.fragment("again")
    return Canary(
        "repeating",
        f"who does the same thing {3 * shape.per_user + 1} times, as many others do once",
        [item] * (3 * shape.per_user + 1),
        shape.crowd,
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
        shape.crowd,
        [(shape.crowd, crowd) for crowd in crowds],
    )


def _rescuer(shape: Shape) -> Canary:
    """Many others have popular items, and rare ones that only she has too.

    If what is rare in the whole log is dropped before a user's items are limited, then without her they keep the
    popular ones, and with her the rare ones push these out.
    """
    m, sharing = shape.per_user, max(1, shape.too_few)  # so many have a rare item: it is counted with her alone
    popular = shape.fragments("rescue", m)
    rare = [shape.fragments(f"rescued-{letters(i)}", m) for i in range(ceil(shape.crowd / sharing))]
    return Canary(
        "rescuer",
        "who alone has the rare items of many others too",
        [*popular, *(fragment for own in rare for fragment in own)],
        shape.crowd,
        [(1, [*rare[i // sharing], *popular]) for i in range(shape.crowd)],
    )


def _leaver(shape: Shape) -> Canary:
    """She brings items to the threshold, so that the weight of their other holders goes where those have it too."""
    hers, theirs = shape.fragments("left", shape.per_user), shape.fragments("moved", shape.per_user)
    others = floor((shape.threshold - 1) * sqrt(2 / shape.per_user))  # of two items each: they alone fall short
    return Canary(
        "leaver",
        "with whom items reach the threshold, and others' weights leave them",
        hers,
        others,
        [(others, [left, moved]) for left, moved in zip(hers, theirs, strict=True)],
        moved=theirs,
    )


def _favourite(shape: Shape, chosen: int) -> Canary:
    """She brings the chosen item to the same count as many others; all are equally likely to pass, unless it shows."""
    items, others = favourites(shape), shape.threshold - 2
    return Canary(
        "favourite",
        "who brings an item that came out most often to the count of many like it",
        [items[chosen]],
        others,
        [(shape.threshold - 1 if item != items[chosen] else others, [item]) for item in items],
    )


def favourites(shape: Shape) -> list[Fragment]:
    return shape.fragments("favourite", FAVOURITES)


def _wanderer(shape: Shape) -> Canary:
    """Popular queries one after the other as nobody else searches them: each crowd has one of them."""
    history = shape.fragments("wander", WANDERINGS + 1)
    return Canary(
        "wanderer",
        f"who goes {WANDERINGS} times from one popular query to another, as nobody else does",
        history,
        0,
        [(shape.crowd, [item]) for item in history],
    )


def _lone_click(shape: Shape) -> Canary:
    history = shape.fragments("lone-click", shape.per_user)
    what = "clicks results that nobody else clicked, of queries that many searched"
    return Canary("lone-click", what, history, 0, [], [(shape.crowd, history)])


def _many_clicks(shape: Shape) -> Canary:
    item = shape.fragment("many-clicks")
    what = f"who clicks {CLICKS} results of one popular query that nobody else clicked"
    history = [item.clicking(letters(i)) for i in range(CLICKS)]
    return Canary("many-clicks", what, history, 0, [], [(shape.crowd, [item])])


def _near_click(shape: Shape) -> Canary:
    history, others = shape.fragments("near-click", shape.per_user), (shape.click_threshold or 1) - 1
    what = "whose clicks complete the crowd of the click threshold"
    return Canary("near-click", what, history, others, [(others, history)], [(max(0, shape.crowd - others), history)])


def letters(number: int) -> str:
    """a, b, …, z, ba, …: words only, because digits may look personal."""
    text = ""
    while True:
        number, place = divmod(number, 26)
        text = chr(ord("a") + place) + text
        if not number:
            return text
