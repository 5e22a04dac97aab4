"""What an auditor saw, run by run; and runs in which every canary comes or stays away by a coin of her own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from searchveil.errors import InputError
from searchveil.lab.audit.scenes import Canary
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Source
from searchveil.progress import Progress
from searchveil.publish.plan import Plan

Scored = tuple[bool, Mapping[str, float]]  # whether the canary was there, and the scores of that release
Enough = Callable[[Guarantee, int], None]  # refuses runs that could not refute the guarantee by one of so many canaries


class Observed(NamedTuple):
    plan: Plan[Any]
    canaries: Sequence[Canary]
    scores: Sequence[Sequence[Scored]]  # by canary, run by run


class Named(Protocol):
    @property
    def name(self) -> str: ...


S = TypeVar("S", bound=Named)


def chosen(scenes: Sequence[S], wanted: Sequence[str] | None) -> list[S]:
    """Those of the wanted names; all, where none are named."""
    names = [scene.name for scene in scenes]
    for name in wanted or ():
        if name not in names:
            raise InputError(f"no canary '{name}' for this method; there are {', '.join(names)}")
    return [scene for scene in scenes if wanted is None or scene.name in wanted]


def by_coins(
    scenes: Sequence[S],
    look: Callable[[Sequence[S], Sequence[S]], Sequence[Mapping[str, float]]],
    runs: int,
    guarantee: Guarantee,
    source: Source,
    progress: Progress,
) -> list[list[Scored]]:
    """For each scene, run by run, whether its canary was there and what the auditor saw.

    `look` makes a release with those who join, and with somebody else in the place of the others where one user
    replaces another; it gives the scores by scene.
    """
    observed: list[list[Scored]] = [[] for _ in scenes]
    for run in range(runs):
        if run % max(1, runs // 20) == 0:
            progress(f"release {run + 1} of {runs}")
        coins = [bool(source.bits(1)) for _ in scenes]
        joined = [scene for scene, here in zip(scenes, coins, strict=True) if here]
        absent = [scene for scene, here in zip(scenes, coins, strict=True) if not here]
        replaced = absent if guarantee.neighbours == "replace-one" else []
        for here, scores, one in zip(coins, look(joined, replaced), observed, strict=True):
            one.append((here, scores))
    return observed
