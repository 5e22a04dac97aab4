"""Every stated (ε,δ) against the exact one, found by enumerating all outputs, counts and ways one user can act."""

from fractions import Fraction
from itertools import pairwise
from math import exp, log

import papers
import pytest
from enumeration import (
    NOTHING,
    divergence,
    divergence_either_way,
    improper_probability,
    probabilistic_delta,
    probability,
    reverse,
    scale_of,
    tail,
    thresholded,
    thresholded_fresh,
    together,
    ways_to_spend,
    worst_added_user,
    worst_replaced_user,
)

from searchveil.privacy import calibrate
from searchveil.privacy.guarantee import Neighbours
from searchveil.publish.korolova import Korolova
from searchveil.publish.zealous import Zealous

HALF, TWO_THIRDS, NINE_TENTHS = Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)
PS = pytest.mark.parametrize("p", [HALF, TWO_THIRDS, NINE_TENTHS], ids=lambda p: f"p={p}")
CLOSE = 1e-11  # e^(-1/λ) of a floating-point λ is the rational p up to rounding
ABOVE, BELOW = 1 + 1e-9, 1 - 1e-9


def once_each(per_user: int) -> list[tuple[int, ...]]:
    """A user who counts at most once per item, on up to `per_user` items."""
    return [(1,) * n for n in range(per_user + 1)]


# --- the enumeration itself -------------------------------------------------------------------------------------------


@PS
@pytest.mark.parametrize("counts", [(0, 0), (0, 1), (1, 2), (3, 6), (7, 4), (9, 9)])
def test_every_profile_is_two_whole_distributions(p: Fraction, counts: tuple[int, int]) -> None:
    for profile in (thresholded(p, *counts, 4, 1), thresholded(p, *counts, 4, 3), thresholded_fresh(p, *counts, 4)):
        assert sum(one for one, _ in profile.values()) == 1
        assert sum(other for _, other in profile.values()) == 1
        assert divergence(profile, Fraction(1)) == divergence(reverse(profile), Fraction(1)), "total variation"


@PS
def test_the_tail_is_the_sum_of_the_probabilities(p: Fraction) -> None:
    for t in range(-6, 7):
        assert tail(p, t) - tail(p, t + 1) == probability(p, t)
    assert tail(p, 3) + tail(p, -2) == 1


def test_lumping_the_tail_loses_nothing() -> None:
    """The same item with a far end instead of the lumped tail: what is cut off there is all that differs."""
    p, threshold, far = HALF, 3, 60
    pairs = [(1 - tail(p, threshold - 4), 1 - tail(p, threshold - 5))]
    pairs += [(probability(p, v - 4), probability(p, v - 5)) for v in range(threshold, far)]
    for e_epsilon in (Fraction(1), Fraction(3, 2), Fraction(2)):
        long_sum = sum(max(Fraction(0), a - e_epsilon * b) for a, b in pairs)
        assert 0 <= divergence(thresholded(p, 4, 5, threshold, 1), e_epsilon) - long_sum <= tail(p, far - 5)


def test_one_user_can_spend_in_these_ways() -> None:
    assert ways_to_spend(3) == [(), (1,), (1, 1), (1, 1, 1), (2,), (2, 1), (3,)]


def test_items_together_multiply() -> None:
    item = thresholded(HALF, 1, 0, 3, 1)
    assert together([NOTHING, item]) == item
    q = tail(HALF, 2)
    assert divergence(together([item, item]), Fraction(4)) == 1 - (1 - q) ** 2


# --- (ε,δ)-differential privacy of thresholded counts -----------------------------------------------------------------


@PS
@pytest.mark.parametrize("per_user", [1, 2, 3])
@pytest.mark.parametrize(
    ("first_threshold", "threshold"), [(1, 1), (1, 2), (1, 3), (1, 5), (2, 2), (2, 3), (2, 5), (3, 3), (3, 4)]
)
def test_approximate_delta_is_attained_and_never_exceeded_when_a_user_is_added_or_removed(
    p: Fraction, per_user: int, first_threshold: int, threshold: int
) -> None:
    exact = worst_added_user(
        p,
        p**-per_user,
        once_each(per_user),
        range(threshold + 2),
        threshold=threshold,
        first_threshold=first_threshold,
    )
    q = tail(p, threshold - first_threshold)
    assert exact == 1 - (1 - q) ** per_user, "the formula of the specification, exactly"
    stated = calibrate.approximate_delta(scale_of(p), per_user, threshold, first_threshold)
    assert stated == pytest.approx(float(exact), rel=CLOSE)


@PS
@pytest.mark.parametrize(
    ("per_user", "first_threshold", "threshold"),
    [(1, 1, 1), (1, 1, 4), (1, 2, 3), (1, 3, 3), (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 2, 3), (3, 1, 1), (3, 1, 2)],
)
def test_approximate_delta_is_attained_and_never_exceeded_when_a_user_is_replaced(
    p: Fraction, per_user: int, first_threshold: int, threshold: int
) -> None:
    exact = worst_replaced_user(
        p,
        p ** (-2 * per_user),
        once_each(per_user),
        range(threshold + 2),
        threshold=threshold,
        first_threshold=first_threshold,
    )
    assert exact == 1 - (1 - tail(p, threshold - first_threshold)) ** per_user
    stated = calibrate.approximate_delta(scale_of(p), per_user, threshold, first_threshold)
    assert stated == pytest.approx(float(exact), rel=CLOSE)


@pytest.mark.parametrize("per_user", [1, 2, 3])
def test_a_smaller_epsilon_than_stated_does_not_hold(per_user: int) -> None:
    """ε = m/λ is no looser than it must be: with 1 % less, δ is exceeded by far more than rounding."""
    p, threshold = NINE_TENTHS, 40
    shaved = Fraction(exp(0.99 * per_user * -log(p)))
    seen = [thresholded(p, threshold + 5, threshold + 4, threshold, 1)] * per_user
    assert divergence_either_way(together(seen), shaved) > 1e-5
    assert divergence_either_way(together(seen), p**-per_user) == 0


@PS
@pytest.mark.parametrize("per_user", [1, 2, 3])
@pytest.mark.parametrize("first_threshold", [1, 2])
def test_the_approximate_threshold_is_the_smallest_that_keeps_the_promise(
    p: Fraction, per_user: int, first_threshold: int
) -> None:
    for threshold in range(first_threshold, first_threshold + 5):
        worst = [
            worst_added_user(p, p**-per_user, [(1,) * per_user], range(4), threshold=t, first_threshold=first_threshold)
            for t in (threshold, threshold + 1)
        ]
        asked = float(worst[0])
        scale = scale_of(p)
        assert calibrate.approximate_threshold(scale, asked * ABOVE, per_user, first_threshold) == threshold
        assert calibrate.approximate_threshold(scale, asked * BELOW, per_user, first_threshold) == threshold + 1
        assert worst[1] < asked * BELOW < worst[0], "and one lower breaks it"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("per_user", "first_threshold"), [(1, None), (2, None), (2, 2), (3, None)])
def test_zealous_plans_the_threshold_that_enumeration_allows(
    neighbours: Neighbours, per_user: int, first_threshold: int | None
) -> None:
    p, delta = TWO_THIRDS, 0.04
    changes = per_user if neighbours == "add-remove" else 2 * per_user
    epsilon = changes / scale_of(p)
    zealous = Zealous(epsilon, delta, per_user=per_user, neighbours=neighbours, first_threshold=first_threshold)
    parameters = zealous.plan().parameters
    assert parameters["noise_scale"] == pytest.approx(scale_of(p), rel=CLOSE)
    planned = {"first_threshold": parameters["first_threshold"]}
    exact = {
        t: worst_added_user(p, p**-per_user, once_each(per_user), range(3), threshold=t, **planned)
        for t in (parameters["second_threshold"], parameters["second_threshold"] - 1)
    }
    kept, broken = exact.values()
    assert kept <= delta < broken


# --- ZEALOUS as published: the probabilistic notion -------------------------------------------------------------------


PROBABILISTIC_CASES = [
    # per user, users, first threshold, items: enough items that every user's choice can be its own, and one to spare
    (1, 2, 1, 3),
    (1, 3, 1, 4),
    (1, 4, 2, 3),
    (1, 3, 2, 3),
    (2, 2, 1, 5),
    (2, 2, 2, 3),
    (2, 3, 2, 4),
    (2, 4, 2, 4),
]


@PS
@pytest.mark.parametrize(("per_user", "users", "first_threshold", "items"), PROBABILISTIC_CASES)
def test_the_probabilistic_notion_holds_by_its_definition_and_one_threshold_lower_does_not(
    p: Fraction, per_user: int, users: int, first_threshold: int, items: int
) -> None:
    scale, e_epsilon = scale_of(p), p ** (-2 * per_user)
    most_items = users * per_user // first_threshold
    # The smallest T where absence tells no more than e^(1/λ): from there on δ alone decides.
    turning = next(t for t in range(first_threshold, 100) if tail(p, t - first_threshold) <= 1 - p)
    threshold = turning + 1
    exact = probabilistic_delta(p, e_epsilon, users, per_user, items, threshold, first_threshold)
    assert exact == 1 - (1 - tail(p, threshold - first_threshold)) ** most_items
    for delta, smallest in ((float(exact) * ABOVE, threshold), (float(exact) * BELOW, threshold + 1)):
        stated = calibrate.probabilistic_threshold(scale, delta, per_user, users, first_threshold)
        assert stated == smallest


@pytest.mark.parametrize(("p", "first_threshold"), [(HALF, 1), (TWO_THIRDS, 1), (TWO_THIRDS, 2), (NINE_TENTHS, 1)])
def test_below_the_turning_point_not_publishing_an_item_tells_too_much(p: Fraction, first_threshold: int) -> None:
    """The reason for the first term in Theorem 3's threshold: it binds however large δ is.

    In this log no item is held by exactly τ users, so no neighbour can make a published item disappear. A neighbour who
    drops the common item and takes up the one below τ still shows, if the latter's absence is too unlikely.
    """
    common, below, nobodys = (1, 0, 0), (0, 1, 0), (0, 0, 0)
    kept = [common] * (first_threshold + 1) + [below] * (first_threshold - 1)
    generous = 0.999
    smallest = calibrate.probabilistic_threshold(scale_of(p), generous, 1, len(kept), first_threshold)
    assert smallest is not None
    assert improper_probability(p, p**-2, [*kept, nobodys], 1, smallest, first_threshold) == 0
    assert improper_probability(p, p**-2, [*kept, nobodys], 1, smallest - 1, first_threshold) > 0


def test_the_best_first_threshold_is_the_best_of_all() -> None:
    for p, per_user, users, delta in ((HALF, 1, 5, 0.1), (TWO_THIRDS, 2, 50, 1e-3), (NINE_TENTHS, 2, 100, 1e-4)):
        scale = scale_of(p)
        first, threshold = calibrate.best_first_threshold(scale, delta, per_user, users)
        every = {
            t: calibrate.probabilistic_threshold(scale, delta, per_user, users, t)
            for t in range(1, users * per_user + 1)
        }
        assert every[first] == threshold == min(t for t in every.values() if t is not None)


def test_no_item_can_reach_a_first_threshold_above_all_users_together() -> None:
    assert calibrate.probabilistic_threshold(2.0, 0.1, per_user=2, users=3, first_threshold=7) is None
    assert calibrate.probabilistic_threshold(2.0, 0.1, per_user=2, users=3, first_threshold=6) is not None


# --- ZEALOUS as published: indistinguishability -----------------------------------------------------------------------


@PS
@pytest.mark.parametrize("per_user", [1, 2, 3])
@pytest.mark.parametrize("delta", [0.3, 0.1, 0.01])
def test_theorem_2_is_valid_for_discrete_noise_and_the_threshold_never_below_the_papers(
    p: Fraction, per_user: int, delta: float
) -> None:
    scale = scale_of(p)
    threshold = calibrate.indistinguishable_threshold(scale, delta, per_user)
    exact = 1 - (1 - tail(p, threshold - 1)) ** per_user
    if threshold <= 3:  # beyond, the equality of the replace-one tests above stands in
        spends = once_each(per_user)
        assert exact == worst_replaced_user(
            p, p ** (-2 * per_user), spends, range(threshold + 2), threshold=threshold, first_threshold=1
        )
    assert exact <= Fraction(delta) * Fraction(ABOVE)
    assert threshold > calibrate.published_threshold(scale, delta, per_user)
    assert float(exact) <= papers.zealous_indistinguishable_delta(scale, per_user, threshold - 1) * ABOVE


# --- Korolova et al. --------------------------------------------------------------------------------------------------


@PS
@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("beyond", [0, 1, 2, 4])
def test_occurrences_delta_is_attained_and_never_exceeded(p: Fraction, queries: int, beyond: int) -> None:
    threshold = queries + beyond
    exact = worst_added_user(
        p, p**-queries, ways_to_spend(queries), range(threshold + 2), threshold=threshold, first_threshold=1
    )
    assert exact == max(1 - (1 - tail(p, threshold - 1)) ** queries, tail(p, threshold - queries))
    assert calibrate.occurrences_delta(scale_of(p), queries, threshold) == pytest.approx(float(exact), rel=CLOSE)


@PS
@pytest.mark.parametrize(("queries", "threshold"), [(1, 1), (1, 3), (2, 2), (2, 3)])
def test_occurrences_delta_is_the_same_when_a_user_is_replaced_at_twice_the_epsilon(
    p: Fraction, queries: int, threshold: int
) -> None:
    exact = worst_replaced_user(
        p, p ** (-2 * queries), ways_to_spend(queries), range(threshold + 2), threshold=threshold, first_threshold=1
    )
    assert calibrate.occurrences_delta(scale_of(p), queries, threshold) == pytest.approx(float(exact), rel=CLOSE)


@PS
@pytest.mark.parametrize("queries", [1, 2, 3])
def test_the_occurrences_threshold_is_the_smallest_that_keeps_the_promise(p: Fraction, queries: int) -> None:
    deltas = {
        t: worst_added_user(p, p**-queries, ways_to_spend(queries), range(2), threshold=t, first_threshold=1)
        for t in range(queries, queries + 6)
    }
    for (threshold, exact), (_, next_exact) in pairwise(deltas.items()):
        assert calibrate.occurrences_threshold(scale_of(p), float(exact) * ABOVE, queries) == threshold
        assert calibrate.occurrences_threshold(scale_of(p), float(exact) * BELOW, queries) == threshold + 1
        assert next_exact < exact


def test_a_user_who_reaches_the_threshold_alone_is_promised_nothing() -> None:
    assert calibrate.occurrences_delta(2.0, per_user=3, threshold=2) == 1.0
    assert calibrate.approximate_delta(2.0, per_user=3, threshold=1, first_threshold=2) == 1.0


@PS
@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("beyond", [0, 1, 3])
def test_fresh_noise_costs_as_much_again_and_no_more(p: Fraction, queries: int, beyond: int) -> None:
    threshold = queries + beyond
    spends, backgrounds = ways_to_spend(queries), range(threshold + 2)
    stated = max(1 - (1 - tail(p, threshold - 1)) ** queries, tail(p, threshold - queries))
    assert worst_added_user(p, p ** (-2 * queries), spends, backgrounds, threshold=threshold) == stated


@PS
def test_fresh_noise_at_the_epsilon_of_the_selection_alone_breaks_the_promise(p: Fraction) -> None:
    """Were it free to publish with fresh noise, δ would be that of the threshold: 30 times 1/λ beyond one user."""
    threshold = 1 + int(30 * scale_of(p))
    at_the_threshold = range(threshold - 2, threshold + 1)
    seen = worst_added_user(p, 1 / p, [(1,)], at_the_threshold, threshold=threshold)
    assert seen > 1e6 * tail(p, threshold - 1)
    assert worst_added_user(p, p**-2, [(1,)], at_the_threshold, threshold=threshold) == 0


@PS
@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("beyond", [0, 1, 2, 5])
def test_the_published_formulas_are_valid(p: Fraction, queries: int, beyond: int) -> None:
    """Korolova's ε and δ at an integer K with "noisy > K", all of it rational: α^d·p^(-d) and (d/2)·p^(K-d)."""
    k = queries + beyond
    alpha = max(1 / p, 1 + 1 / (2 * p ** (1 - k) - 1))
    scale = scale_of(p)
    assert papers.korolova_alpha(scale, k) == pytest.approx(float(alpha), rel=CLOSE)
    assert exp(papers.korolova_epsilon(queries, 0, scale, k, scale, None)) == pytest.approx(
        float((alpha / p) ** queries), rel=CLOSE
    )
    claimed = Fraction(queries, 2) * p ** (k - queries)
    assert papers.korolova_delta(scale, queries, k) == pytest.approx(float(claimed), rel=CLOSE)
    # Three queries over all counts are many cases; the corners and the counts around the threshold are the worst ones.
    backgrounds = range(k + 3) if queries < 3 else range(min(3, k + 1))
    exact = worst_added_user(p, (alpha / p) ** queries, ways_to_spend(queries), backgrounds, threshold=k + 1)
    assert exact <= claimed


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("counting", ["occurrences", "users"])
@pytest.mark.parametrize("queries", [1, 2, 3])
def test_korolova_plans_the_smallest_threshold_that_enumeration_allows(
    neighbours: Neighbours, counting: str, queries: int
) -> None:
    p, delta = TWO_THIRDS, 0.03
    changes = queries if neighbours == "add-remove" else 2 * queries
    korolova = Korolova(
        changes / scale_of(p),
        delta,
        queries_per_user=queries,
        counting=counting,  # type: ignore[arg-type]
        neighbours=neighbours,
    )
    parameters = korolova.plan().parameters
    assert parameters["noise_scale"] == pytest.approx(scale_of(p), rel=CLOSE)
    spends = ways_to_spend(queries) if counting == "occurrences" else once_each(queries)
    kept, broken = (
        worst_added_user(p, p**-queries, spends, range(3), threshold=t, first_threshold=1)
        for t in (parameters["second_threshold"], parameters["second_threshold"] - 1)
    )
    assert kept <= delta < broken


@pytest.mark.parametrize("queries", [1, 2, 3])
def test_korolova_as_published_plans_a_threshold_that_enumeration_allows(queries: int) -> None:
    p, delta = TWO_THIRDS, 0.03
    parameters = (
        Korolova(2 * queries / scale_of(p), delta, queries_per_user=queries, variant="published").plan().parameters
    )
    assert parameters["noise_scale"] == parameters["count_scale"] == pytest.approx(scale_of(p), rel=CLOSE)
    threshold = parameters["second_threshold"]
    exact = worst_added_user(p, p ** (-2 * queries), ways_to_spend(queries), range(3), threshold=threshold)
    assert exact <= delta
