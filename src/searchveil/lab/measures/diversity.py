"""Diversity: how many of the original's different items the release keeps, and which share of them.

Of clicks also the share of those that at least two users made, the measure of Hong et al. 2012.
"""

from dataclasses import dataclass
from typing import ClassVar

from searchveil.lab.measures.compare import in_both
from searchveil.lab.measures.shared_clicks import shared_clicks
from searchveil.lab.view import View, columns_of


@dataclass(frozen=True)
class Diversity:
    needs: ClassVar[tuple[str, ...]] = ()

    def measure(self, original: View, release: View) -> dict[str, float]:
        figures: dict[str, float] = {}
        for table in in_both(original, release):
            items, released = original.tables[table], release.tables[table]
            kept = int(original.engine.value(released.semi_join(items, columns_of(table)).count()))
            figures[f"{table}.kept"] = kept
            if of := int(original.engine.value(items.count())):
                figures[f"{table}.share"] = kept / of
        if original.has("history") and release.has("click"):
            shared = original.engine.stage(shared_clicks(original))
            kept = int(original.engine.value(release.tables["click"].semi_join(shared, columns_of("click")).count()))
            if of := int(original.engine.value(shared.count())):
                figures["click.share_of_shared"] = kept / of
        return figures
