"""Top-j coverage: the share of the original's j most frequent items that are in the release at all."""

from dataclasses import dataclass
from typing import ClassVar

from searchveil.lab.measures.compare import RANKS, Top, at_ranks
from searchveil.lab.view import View


@dataclass(frozen=True)
class Coverage:
    needs: ClassVar[tuple[str, ...]] = ()

    ranks: tuple[int, ...] = RANKS

    def measure(self, original: View, release: View) -> dict[str, float]:
        return at_ranks(original, release, self.ranks, coverage)


def coverage(top: Top) -> float:
    return float(top.published.mean())
