"""DiffRatio (Hong et al. 2012): by which part of itself the support of a pair of query and url changes.

|x/|O| − c/|D|| ÷ (c/|D|), with a pair's count c of |D| clicks in the original and x of |O| in the release: 0 for an
unchanged support, 1 for a pair that is gone. `pairs` looks at every pair of at least two users, `published` at those in
the release. The paper looks at whose click it was, too (`triplets`); that can be compared only where a release samples
users under the names they have in the log.
"""

from dataclasses import dataclass
from typing import ClassVar

import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt

from searchveil.lab.measures.compare import Joint, joint_counts
from searchveil.lab.measures.shared_clicks import joint_of_shared, shared_clicks
from searchveil.lab.view import View, columns_of


@dataclass(frozen=True)
class DiffRatio:
    needs: ClassVar[tuple[str, ...]] = ("click",)

    within: tuple[float, ...] = (0.2, 0.4)  # which share of the ratios is at most this

    def measure(self, original: View, release: View) -> dict[str, float]:
        engine, shared = original.engine, original.engine.stage(shared_clicks(original))
        joint = joint_of_shared(original, shared, release.tables["click"])
        figures = self._figures("pairs", joint, joint.original > 0)
        figures |= self._figures("published", joint, (joint.original > 0) & joint.published)
        if release.has("history"):
            whole, sampled = (_by_name(view) for view in (original, release))
            # A sample under the users' own names holds nothing that its users did not click.
            if not engine.value(sampled.anti_join(whole, columns_of("history")).count()):
                triplets = whole.semi_join(shared, columns_of("click"))
                joint = joint_counts(engine, triplets, sampled, columns_of("history"))
                figures |= self._figures("triplets", joint, joint.original > 0)
        return figures

    def _figures(self, name: str, joint: Joint, of: npt.NDArray[np.bool_]) -> dict[str, float]:
        if not of.any():
            return {}
        before, after, items = joint.original_shares[of], joint.release_shares[of], joint.items[of]
        ratios = np.abs(after - before) / before
        within = {f"within_{most:g}": items[ratios <= most].sum() / items.sum() for most in self.within}
        figures = {"mean": np.average(ratios, weights=items)} | within
        return {f"{name}.{figure}": float(value) for figure, value in figures.items()}


def _by_name(view: View) -> ir.Table:
    history = view.tables["history"]
    return history.mutate(user=history["user"].cast("string"))  # a log's users may be numbers
