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
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.items import histogram
from searchveil.items.normal import count_rows
from searchveil.log import SearchLog
from searchveil.log.sessions import submissions
from searchveil.privacy import safelog
from searchveil.privacy.contributions import bound_contributions, first_of_each_user
from searchveil.privacy.noise import DiscreteLaplace, Geometric, Integers, Source
from searchveil.progress import Progress
from searchveil.publish import korolova, safelog_click, threshold, votes, zealous
from searchveil.publish.ballot import Ballot
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Published
from searchveil.publish.plan import Plan
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.votes import Votes
from searchveil.publish.zealous import Zealous


def with_selection(plan: Plan, **changed: Any) -> Plan:
    return replace(plan, settings=replace(plan.settings, selection=replace(plan.settings.selection, **changed)))


@dataclass(frozen=True)
class ZealousNoiseHalved(Zealous):
    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        careless = with_selection(plan, noise_scale=plan.settings.selection.noise_scale / 2)
        return super().publish(log, careless, source, progress)


@dataclass(frozen=True)
class ZealousThresholdOneTooLow(Zealous):
    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        careless = with_selection(plan, threshold=plan.settings.selection.threshold - 1)
        return super().publish(log, careless, source, progress)


Choice = Callable[[ir.Table, list[str], int, int, Engine], ir.Table]


class OtherChoice(Zealous):
    """Keeps other items of a user than it should."""

    choice: Choice

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        with patch.object(histogram, "bound_contributions", type(self).choice):
            return super().publish(log, plan, source, progress)


def one_item_more(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    return first_of_each_user(rows.distinct(), columns, per_user + 1)


def the_first_items(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    return first_of_each_user(rows.distinct(), columns, per_user)


def the_most_popular_items(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    own = rows.distinct()
    popularity = own.group_by(list(columns)).agg(unpopular=-own.count())
    return first_of_each_user(own.join(popularity, list(columns)), ["unpopular", *columns], per_user).drop("unpopular")


def every_item(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    return rows.distinct()


def each_spelling(rows: ir.Table, columns: list[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    """What tells the spellings apart stays with the rows, so that no two of them are one item of a user."""
    chosen = bound_contributions(rows, columns, per_user, seed, engine)
    return chosen.mutate(typed=chosen[columns[0]])


@dataclass(frozen=True)
class EveryItem(OtherChoice):
    """Items are counted, and never limited."""

    choice = staticmethod(every_item)


@dataclass(frozen=True)
class EachSpelling(OtherChoice):
    """Spellings that are one item count once each."""

    choice = staticmethod(each_spelling)


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

    def _query_counts(self, log: SearchLog, source: Source) -> ir.Table:
        return Korolova(self.epsilon, self.delta, self.queries_per_user + 1)._query_counts(log, source)


@dataclass(frozen=True)
class HashThatIsNoSecret(Zealous):
    """Which items of one count survive goes by the engine's own hash, the same in every release."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        def choose(
            far: ir.Table, columns: list[str], groups: Mapping[int, threshold.Group], engine: Engine, source: Source
        ) -> pa.Table:
            eligible = far.filter(far["count"].isin(list(groups))).mutate(digest=far[columns[0]].hash())
            place = ibis.row_number().over(ibis.window(group_by="count", order_by=["digest", *columns]))
            placed = eligible.mutate(place=place)
            allowed = placed["count"].cases(*((count, group.passing) for count, group in groups.items()), else_=0)
            return engine.fetch(placed.filter(placed["place"] < allowed).select(*columns, "count"))

        with patch.object(threshold, "_choose", choose):
            return super().publish(log, plan, source, progress)


class OtherSurvivors(Zealous):
    """Publishes other counts than it should, or in another order."""

    def survivors(self, counts: ir.Table, columns: list[str], *, noise: DiscreteLaplace, **known: Any) -> pa.Table:
        raise AssertionError("each mutant has its own")

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        with patch.object(zealous, "survivors", self.survivors):
            return super().publish(log, plan, source, progress)


class OneDraw(DiscreteLaplace):
    def sample(self, n: int, source: Source) -> Integers:
        return np.repeat(super().sample(1, source), n)


@dataclass(frozen=True)
class OneNoiseForAll(OtherSurvivors):
    """All items above the threshold get the same draw: right one by one, wrong together."""

    def survivors(self, counts: ir.Table, columns: list[str], *, noise: DiscreteLaplace, **known: Any) -> pa.Table:
        return threshold.survivors(counts, columns, noise=OneDraw(noise.scale), **known)


@dataclass(frozen=True)
class FreshCounts(OtherSurvivors):
    """The published count has noise of its own, which nobody paid for."""

    def survivors(self, counts: ir.Table, columns: list[str], *, noise: DiscreteLaplace, **known: Any) -> pa.Table:
        return threshold.survivors(counts, columns, noise=noise, fresh=noise, **known)


class OneStepFurther(DiscreteLaplace):
    @property
    def excess(self) -> Geometric:
        return FromOne(self.scale)


class FromOne(Geometric):
    def sample(self, n: int, source: Source) -> Integers:
        return super().sample(n, source) + 1


@dataclass(frozen=True)
class TailFromOne(OtherSurvivors):
    """Those that pass from below get T + 1 and more, never T: T then tells that the true count was above."""

    def survivors(self, counts: ir.Table, columns: list[str], *, noise: DiscreteLaplace, **known: Any) -> pa.Table:
        return threshold.survivors(counts, columns, noise=OneStepFurther(noise.scale), **known)


def true_counts(counts: ir.Table, columns: list[str], published: pa.Table, engine: Engine) -> list[int]:
    true = {tuple(row[c] for c in columns): row["count"] for row in engine.fetch(counts).to_pylist()}
    return [true[tuple(row[c] for c in columns)] for row in published.to_pylist()]


@dataclass(frozen=True)
class TailFromTheCount(OtherSurvivors):
    """Those that pass from below get their own count and the excess, not T and the excess: it may be below T."""

    def survivors(self, counts: ir.Table, columns: list[str], *, noise: DiscreteLaplace, **known: Any) -> pa.Table:
        published = threshold.survivors(counts, columns, noise=noise, **known)
        true = true_counts(counts, columns, published, known["engine"])
        wrong = [n - max(0, known["threshold"] - c) for n, c in zip(published["count"].to_pylist(), true, strict=True)]
        return published.set_column(len(columns), "count", pa.array(wrong, pa.int64()))


@dataclass(frozen=True)
class OrderOfTrueCounts(OtherSurvivors):
    """The counts are noisy, the order of the rows is not."""

    def survivors(self, counts: ir.Table, columns: list[str], **known: Any) -> pa.Table:
        published = threshold.survivors(counts, columns, **known)
        true = true_counts(counts, columns, published, known["engine"])
        ordered = published.append_column("true", pa.array(true)).sort_by(
            [("true", "descending"), *((column, "ascending") for column in columns)]
        )
        return ordered.drop_columns(["true"])


@dataclass(frozen=True)
class TheSameNoiseAgain(Zealous):
    """A fixed key, as it is left over from a test."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        return super().publish(log, plan, Source(bytes(32)), progress)


Prefilter = Callable[[DuckDBEngine, ir.Table, str, int], ir.Table]


class OtherPrefilter(Zealous):
    """What thins out long logs before the bound drops or keeps other rows than it should."""

    prefilter: Prefilter

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        with patch.object(DuckDBEngine, "prefilter", type(self).prefilter):
            return super().publish(log, plan, source, progress)


def without_single_rows(engine: DuckDBEngine, rows: ir.Table, hashed: str, per_user: int) -> ir.Table:
    items = [column for column in rows.columns if column not in ("user", hashed)]
    users = rows.group_by(items).agg(users=rows["user"].nunique())
    return rows.semi_join(users.filter(users["users"] >= 2), items)


def with_heavy_users_split(engine: DuckDBEngine, rows: ir.Table, hashed: str, per_user: int) -> ir.Table:
    part = (rows[hashed] >> 60).cast("string")
    return rows.mutate(user=rows["user"] + ibis.literal("#") + part)


@dataclass(frozen=True)
class PrefilterDropsRareItems(OtherPrefilter):
    """What only one user has will never pass, so why carry it? Because it decides what else that user keeps."""

    prefilter = staticmethod(without_single_rows)


@dataclass(frozen=True)
class PrefilterSplitsUsers(OtherPrefilter):
    """Heavy users are split for an even load, and the bound holds for every part."""

    prefilter = staticmethod(with_heavy_users_split)


@dataclass(frozen=True)
class TransitionsOfAllRows(SafeLogClick):
    """Transitions of every search of a user, not of those that were kept."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        followed = safelog_click._followed

        def of_all_rows(first: ir.Table, published: ir.Table) -> ir.Table:
            return followed(submissions(log), published)

        with patch.object(safelog_click, "_followed", of_all_rows):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class EveryClick(SafeLogClick):
    """Clicks are not limited."""

    def _first_clicks(self, log: SearchLog, published: ir.Table) -> ir.Table:
        return SafeLogClick._first_clicks(replace(self, clicks_per_user=10**6), log, published)


@dataclass(frozen=True)
class FloatNoise(Zealous):
    """Laplace noise as textbooks draw it: doubles, published as they are."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        def survivors(counts: ir.Table, columns: list[str], *, threshold: int, noise: DiscreteLaplace, **_: Any) -> Any:
            return with_float_noise(log.engine.fetch(counts), noise.scale, threshold, source)

        with patch.object(zealous, "survivors", survivors):
            return super().publish(log, plan, source, progress)


@dataclass(frozen=True)
class FloatNoiseOnCandidates(Korolova):
    """The same for the clicks on public candidates, whose counts are small: the digits tell most there."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
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
        scale, released = plan.settings.selection.noise_scale, plan.settings.selection.threshold - 1
        claimed = safelog.click_epsilon(self.queries_per_user, self.clicks_per_user, scale, released)
        return replace(plan, guarantee=replace(plan.guarantee, epsilon=claimed))

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        without_clicks = SafeLogClick(
            self.epsilon, self.delta, queries_per_user=self.queries_per_user, clicks_per_user=0
        )
        only_queries = replace(plan, settings=replace(plan.settings, clicks=None))
        queries = without_clicks.publish(log, only_queries, source, progress).tables["data"]
        published = log.engine.load(queries.select(["query"]))
        counts = log.engine.fetch(count_rows(self._first_clicks(log, published), "query", "url"))
        noise = DiscreteLaplace(plan.settings.selection.noise_scale).sample(counts.num_rows, source)
        noisy = counts["count"].to_numpy() + noise
        clicks = counts.select(["query", "url"]).append_column("count", pa.array(noisy))
        return Published({"data": queries, "clicks": clicks})


@dataclass(frozen=True)
class VotesForAll(Votes):
    """A user votes for every item of hers."""

    def publish(self, log: SearchLog, plan: Plan, source: Source, progress: Progress) -> Published:
        def for_all(ballot: Ballot, noise: Integers | None, most_votes: int) -> Integers:
            return np.minimum(np.bincount(ballot.items, minlength=ballot.number_of_items), most_votes)

        with patch.object(votes, "cast", for_all):
            return super().publish(log, plan, source, progress)
