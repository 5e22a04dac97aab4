"""The exact δ of votes on small logs: every order of turns and lists, every outcome of the first vote's noise.

What is enumerated runs through `cast`, the product's own; the chance of each outcome follows from the formulas of the
noise and of naming. Mutants of the mechanism break the promise in the same computation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from math import exp

import numpy as np
import pytest

import searchveil as sv
from searchveil.privacy.guarantee import Neighbours
from searchveil.privacy.naming import NamingChance
from searchveil.privacy.noise import Integers
from searchveil.publish.ballot import Ballot
from searchveil.publish.plan import VoteSelection
from searchveil.publish.votes import cast

Log = Sequence[Sequence[int]]  # for each user the items she holds
Cast = Callable[[Ballot, Integers | None, int], Integers]

EPSILON, DELTA = 2.0, 0.05
REACH = 9  # of the noise of the first vote


@dataclass(frozen=True)
class Exact:
    """How likely each set of items is named."""

    selection: VoteSelection
    cast: Cast = cast
    most_votes: int | None = None

    def chances(self, log: Log, items: int) -> dict[frozenset[int], float]:
        found: dict[frozenset[int], float] = {}
        orders = [
            [list(own) for own in lists]
            for turns in permutations(log)
            for lists in product(*(permutations(own) for own in turns))
        ]
        for lists in orders:
            ballot = Ballot(
                np.array([item for own in lists for item in own], np.int64),
                np.cumsum([len(own) for own in lists], dtype=np.int64),
                items,
            )
            for noise, likely in noises(self.selection.guide_scale, items):
                votes = self.cast(ballot, noise, self.most_votes or self.selection.most_votes)
                for outcome, chance in self.naming(tuple(votes.tolist())).items():
                    found[outcome] = found.get(outcome, 0.0) + likely * chance / len(orders)
        return found

    def missed(self, items: int) -> float:
        """How likely noise of the first vote lies beyond what is enumerated, at most."""
        p = 0.0 if self.selection.guide_scale is None else exp(-1 / self.selection.guide_scale)
        return items * 2 * p ** (REACH + 1) / (1 + p)

    def naming(self, votes: tuple[int, ...]) -> dict[frozenset[int], float]:
        found = {frozenset[int](): 1.0}
        for item, n in enumerate(votes):
            chance = pi(NamingChance(self.selection.epsilon, self.selection.delta), n)
            parts = ((outcome, likely, chance) for outcome, likely in found.items())
            found = {
                named: part
                for outcome, likely, p in parts
                for named, part in ((outcome, likely * (1 - p)), (outcome | {item}, likely * p))
            }
        return found

    def delta(self, log: Log, other: Log, items: int) -> float:
        """The larger of both directions."""
        these, those = self.chances(log, items), self.chances(other, items)
        keys = {*these, *those}
        ways = ((these, those), (those, these))
        return max(sum(max(0.0, a.get(k, 0) - exp(EPSILON) * b.get(k, 0)) for k in keys) for a, b in ways)


@cache
def pi(chance: NamingChance, n: int) -> float:
    return chance.bounds(n, 64)[0] / 2**64 if n < chance.certain else 1.0


@cache
def noises(scale: float | None, items: int) -> list[tuple[Integers | None, float]]:
    if scale is None:
        return [(None, 1.0)]
    p = exp(-1 / scale)
    mass = {t: (1 - p) / (1 + p) * p ** abs(t) for t in range(-REACH, REACH + 1)}
    return [(np.array(drawn), float(np.prod([mass[t] for t in drawn]))) for drawn in product(mass, repeat=items)]


def asked(neighbours: Neighbours = "add-remove", guide: float = 0.5) -> VoteSelection:
    # Half of ε guides, so that its noise is small and few outcomes are missing.
    return sv.Votes(EPSILON, DELTA, counts="none", guide_share=guide, neighbours=neighbours).plan().settings.votes


WITH_HER: dict[str, tuple[Log, Log, int]] = {
    "a lone item": ([[0]], [], 1),
    "two lone items": ([[0, 1]], [], 2),
    "an item of others": ([[0], [0], [0]], [[0], [0]], 1),
    "her items are others' too": ([[0, 1], [0, 1], [0]], [[0, 1], [0]], 2),
    "she takes the last place": ([[0], [0, 1], [0, 1]], [[0, 1], [0, 1]], 2),
    "one item of hers alone": ([[0, 1], [0], [0]], [[0], [0]], 2),
}
REPLACED: dict[str, tuple[Log, Log, int]] = {
    "another lone item": ([[0]], [[1]], 2),
    "from one item of others to the next": ([[0], [0], [1]], [[1], [0], [1]], 2),
    "from a lone item to one of others": ([[0], [1], [1]], [[1], [1], [1]], 2),
}


@pytest.mark.parametrize("name", WITH_HER)
@pytest.mark.parametrize("guide", [0.0, 0.5])
@pytest.mark.parametrize("most_votes", [2, None])
def test_the_promise_holds_when_she_comes_or_goes(name: str, guide: float, most_votes: int | None) -> None:
    log, other, items = WITH_HER[name]
    exact = Exact(asked(guide=guide), most_votes=most_votes)
    assert exact.delta(log, other, items) <= DELTA * (1 + 1e-9) + exact.missed(items)


@pytest.mark.parametrize("name", REPLACED)
@pytest.mark.parametrize("guide", [0.0, 0.5])
def test_the_promise_holds_when_she_is_replaced(name: str, guide: float) -> None:
    log, other, items = REPLACED[name]
    exact = Exact(asked("replace-one", guide))
    assert exact.delta(log, other, items) <= DELTA * (1 + 1e-9) + exact.missed(items)


def test_the_promise_is_used_up() -> None:
    """A lone item is named with probability δ exactly; and where it is an item of two, without a guide, δ too."""
    for name in ("a lone item", "an item of others"):
        assert Exact(asked(guide=0.0)).delta(*WITH_HER[name]) == pytest.approx(DELTA, rel=1e-9)


# --- mutants -----------------------------------------------------------------------------------------------------


def guided_by_true_votes(ballot: Ballot, noise: Integers | None, most_votes: int) -> Integers:
    return cast(ballot, np.zeros(ballot.number_of_items, np.int64), most_votes)


def only_held_by_two(ballot: Ballot, noise: Integers | None, most_votes: int) -> Integers:
    """Items of one user take no votes: their holders vote for the next."""
    held = np.bincount(ballot.items, minlength=ballot.number_of_items)
    return cast(ballot, (held > 1) * 1000, most_votes)


def two_votes(ballot: Ballot, noise: Integers | None, most_votes: int) -> Integers:
    return np.minimum(np.bincount(ballot.items, minlength=ballot.number_of_items), most_votes)


TIPPED: tuple[Log, Log, int] = ([[0], [0, 1], [0, 1], [1]], [[0, 1], [0, 1], [1]], 2)
OFTEN: tuple[Log, Log, int] = ([[0, 1, 2], [0, 3], [1, 3], [2, 3]], [[0, 3], [1, 3], [2, 3]], 4)
MUTANTS: dict[str, tuple[Exact, tuple[Log, Log, int]]] = {
    "guided by true votes": (Exact(asked(guide=0.0), guided_by_true_votes), TIPPED),
    "steered by who holds it": (Exact(asked(guide=0.0), only_held_by_two), OFTEN),
    "two votes": (Exact(asked(guide=0.0), two_votes), ([[0, 1]], [], 2)),
    "replaced as if added": (Exact(asked(guide=0.0)), REPLACED["from one item of others to the next"]),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_break_the_promise(name: str) -> None:
    exact, (log, other, items) = MUTANTS[name]
    assert exact.delta(log, other, items) > DELTA * 1.01
