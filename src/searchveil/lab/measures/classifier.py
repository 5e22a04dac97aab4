"""The classifier test: can a model tell the sessions of a synthetic log from those of the original?

Gradient boosting on features of sessions is trained on some users of either log and asked about others. What it reaches
is its AUC: the chance that it finds, of one session of either log, the invented one. 0.5 is a guess.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import ibis
import numpy as np
import numpy.typing as npt

from searchveil.lab.view import View
from searchveil.lab.visits import ACTIONS, TEXTS, USERS_OF_SESSIONS

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
STEPS = 1 << 31  # how finely the range of the hash is cut


@dataclass(frozen=True)
class Classifier:
    """`AUC by actions` leaves out all that texts tell: how long they are, and how often they are searched.

    The users of either log are split in halves, one to train on and one to test on. Some sessions of a user are taken,
    or few people would decide, and of large logs some users. The ends hold 95 % of `resamples` draws of the tested
    users with replacement: sessions of one user are alike.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    sessions: int = 10_000  # of either log, at most about
    per_user: int = 5
    resamples: int = 200
    seed: int = 1

    def measure(self, original: View, release: View) -> dict[str, float]:
        if not (original.has("visit") and release.has("visit")):
            return {}
        sides = [self._drawn(view) for view in (original, release)]
        if min(len(np.unique(users)) for users, _ in sides) < 4:
            return {}
        features = np.concatenate([values for _, values in sides])
        invented = np.repeat([0, 1], [len(users) for users, _ in sides])
        # Users of the two logs are different people, whatever they are called.
        users = np.concatenate([2 * users + side for side, (users, _) in enumerate(sides)])
        tested = np.random.default_rng(self.seed).random(int(users.max()) + 1)[users] < 0.5
        if min(len(np.unique(invented[part])) for part in (tested, ~tested)) < 2:
            return {}
        figures: dict[str, float] = {}
        for name, taken in (("AUC", len(ACTIONS) + len(TEXTS)), ("AUC by actions", len(ACTIONS))):
            scores = self._scores(features[:, :taken], invented, tested)
            figures |= self._auc(name, scores, invented[tested], users[tested])
        return figures | {"sessions": float(tested.sum())}

    def _drawn(self, view: View) -> tuple[Numbers, Floats]:
        """Users as numbers, and the features of their sessions, in an order that does not hang on the engine."""
        engine = view.engine
        visits = view.tables["visit"].mutate(user=view.tables["visit"]["user"].cast("string"))
        by_chance = engine.fast_hash([visits["user"], visits["session"].cast("string")], self.seed)
        place = ibis.row_number().over(ibis.window(group_by="user", order_by=[by_chance, "session"]))
        some = engine.stage(visits.mutate(_place=place).filter(ibis._["_place"] < self.per_user).drop("_place"))
        part = min(1.0, self.sessions / max(1, engine.value(some.count())))
        hashed = engine.fast_hash([some["user"], ibis.literal("visits")], self.seed)
        taken = engine.fetch(some.filter((hashed & (STEPS - 1)) < round(part * STEPS)))
        taken = taken.sort_by([(name, "ascending") for name in USERS_OF_SESSIONS])
        _, users = np.unique(taken["user"].to_numpy(zero_copy_only=False), return_inverse=True)
        columns = [taken[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in (*ACTIONS, *TEXTS)]
        return users.astype(np.int64), np.stack(columns, axis=1)

    def _scores(self, features: Floats, invented: Numbers, tested: npt.NDArray[np.bool_]) -> Floats:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        model: Any = HistGradientBoostingClassifier(random_state=self.seed, early_stopping=False)
        told = ~np.isnan(features).all(axis=0)  # a column that neither log has
        trained = features[~tested][:, told], invented[~tested]
        sizes = np.bincount(trained[1], minlength=2)
        with threadpool_limits(1):  # on so few rows threads wait for each other more than they work
            model.fit(*trained, sample_weight=1 / sizes[trained[1]] * sizes.sum() / 2)
            found: Floats = model.predict_proba(features[tested][:, told])[:, 1]
        return found

    def _auc(self, name: str, scores: Floats, invented: Numbers, users: Numbers) -> dict[str, float]:
        _, user = np.unique(users, return_inverse=True)
        random, number = np.random.default_rng(self.seed), int(user.max()) + 1
        draws = (np.bincount(random.integers(0, number, number), minlength=number) for _ in range(self.resamples))
        drawn = [auc(scores, invented, times[user]) for times in draws]
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        whole = auc(scores, invented, np.ones(len(scores)))
        return {name: whole, f"{name}, at least": float(low), f"{name}, at most": float(high)}


def auc(scores: Floats, positive: Numbers, times: npt.NDArray[Any]) -> float:
    """The chance that a positive one has the higher score, where each is there so many times; ties count half."""
    _, place = np.unique(scores, return_inverse=True)
    with_it, without = (np.bincount(place, times * (positive == kind)) for kind in (1, 0))
    below = np.cumsum(without) - without / 2
    pairs = with_it.sum() * without.sum()
    return float((with_it * below).sum() / pairs) if pairs else float("nan")
