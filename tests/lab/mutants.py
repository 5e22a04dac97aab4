"""Mechanisms with one mistake each, which promise what the right ones do. The audit must refute every one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.engine.histogram import count_users, first_of_each_user
from searchveil.log import SearchLog
from searchveil.privacy import safelog
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.progress import Progress
from searchveil.publish import korolova, threshold, zealous
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Plan
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.zealous import Zealous

Tables = Mapping[str, pa.Table]


def with_parameters(plan: Plan, **changed: Any) -> Plan:
    return replace(plan, parameters={**plan.parameters, **changed})


@dataclass(frozen=True)
class ZealousNoiseHalved(Zealous):
    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        careless = with_parameters(plan, noise_scale=plan.parameters["noise_scale"] / 2)
        return super().publish(log, careless, source, progress)


@dataclass(frozen=True)
class ZealousThresholdOneTooLow(Zealous):
    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        careless = with_parameters(plan, second_threshold=plan.parameters["second_threshold"] - 1)
        return super().publish(log, careless, source, progress)


Choice = Callable[[ir.Table, list[str], int, int, Engine], ir.Table]


class OtherChoice(Zealous):
    """Keeps other items of a user than it should."""

    choice: Choice

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        with patch.object(zealous, "keep_some", type(self).choice):
            return super().publish(log, plan, source, progress)


def one_item_more(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    return first_of_each_user(rows.distinct(), columns, per_user + 1)


def the_first_items(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    return first_of_each_user(rows.distinct(), columns, per_user)


def the_most_popular_items(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    own = rows.distinct()
    popularity = own.group_by(list(columns)).agg(unpopular=-own.count())
    return first_of_each_user(own.join(popularity, list(columns)), ["unpopular", *columns], per_user).drop("unpopular")


@dataclass(frozen=True)
class OneItemMore(OtherChoice):
    choice = staticmethod(one_item_more)


@dataclass(frozen=True)
class TheFirstItems(OtherChoice):
    """No mutant: whatever function of her own history decides what a user keeps, the promise holds."""

    choice = staticmethod(the_first_items)


@dataclass(frozen=True)
class TheMostPopularItems(OtherChoice):
    """ "First" in an order that all users make together: one user decides what others keep."""

    choice = staticmethod(the_most_popular_items)


@dataclass(frozen=True)
class KorolovaOneQueryMore(Korolova):
    """Off by one where the limit is on first submissions."""

    def _kept_queries(self, log: SearchLog, source: Source) -> ir.Table:
        return Korolova(self.epsilon, self.delta, self.queries_per_user + 1)._kept_queries(log, source)


@dataclass(frozen=True)
class HashThatIsNoSecret(Zealous):
    """Which items of one count survive goes by the engine's own hash, the same in every release."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        def choose(far: ir.Table, columns: list[str], passing: Mapping[int, int], source: Source) -> ir.Table:
            eligible = far.filter(far["count"].isin(list(passing))).mutate(digest=far[columns[0]].hash())
            place = ibis.row_number().over(ibis.window(group_by="count", order_by=["digest", *columns]))
            placed = eligible.mutate(place=place)
            allowed = placed["count"].cases(*passing.items(), else_=0)
            return placed.filter(placed["place"] < allowed).select(*columns, "count")

        with patch.object(threshold, "_choose", choose):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class FloatNoise(Zealous):
    """Laplace noise as textbooks draw it: doubles, published as they are."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        def survivors(counts: ir.Table, columns: list[str], *, threshold: int, noise: DiscreteLaplace, **_: Any) -> Any:
            return with_float_noise(log.engine.fetch(counts), noise.scale, threshold, source)

        with patch.object(zealous, "survivors", survivors):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class FloatNoiseOnCandidates(Korolova):
    """The same for the clicks on public candidates, whose counts are small: the digits tell most there."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        def noisy(counts: ir.Table, candidates: ir.Table, *, noise: DiscreteLaplace, **_: Any) -> pa.Table:
            both = candidates.left_join(counts, list(candidates.columns))
            table = log.engine.fetch(both.select(*candidates.columns, count=both["count"].fill_null(0)))
            return with_float_noise(table, noise.scale, 0, source)

        with patch.object(korolova, "noisy_candidates", noisy):
            return super().publish(log, plan, source, progress)


def with_float_noise(table: pa.Table, scale: float, threshold: float, source: Source) -> pa.Table:
    true = table["count"].to_numpy()
    draw = np.random.default_rng(int(source.words(1)[0]))
    noisy = true + draw.laplace(scale=scale, size=len(true))
    published = table.drop_columns(["count"]).append_column("count", pa.array(noisy))
    return published.filter(pa.array(noisy >= threshold))


@dataclass(frozen=True)
class ClicksAsPublished(SafeLogClick):
    """Zhang 2017: a noisy count for every clicked url of a released query, no threshold, no candidates (erratum S2)."""

    def plan(self, log: SearchLog | int | None = None) -> Plan:
        plan = super().plan(log)
        scale, released = plan.parameters["noise_scale"], plan.parameters["second_threshold"] - 1
        claimed = safelog.click_epsilon(self.queries_per_user, self.clicks_per_user, scale, released)
        return replace(plan, guarantee=replace(plan.guarantee, epsilon=claimed))

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Tables:
        without_clicks = SafeLogClick(
            self.epsilon, self.delta, queries_per_user=self.queries_per_user, clicks_per_user=0
        )
        queries = without_clicks.publish(log, plan, source, progress)["data"]
        published = log.engine.load(queries.select(["query"]))
        counts = log.engine.fetch(count_users(self._first_clicks(log, published), ["query", "url"]))
        noise = DiscreteLaplace(plan.parameters["noise_scale"]).sample(counts.num_rows, source)
        noisy = counts["count"].to_numpy() + noise
        return {"data": queries, "clicks": counts.select(["query", "url"]).append_column("count", pa.array(noisy))}
