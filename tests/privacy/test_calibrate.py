"""The formulas: exact where a promise hangs on them, refusing what makes no sense."""

import subprocess
import sys
from fractions import Fraction
from math import exp, inf, log, nextafter, sqrt

import mpmath
import papers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.errors import InputError
from searchveil.privacy import calibrate
from searchveil.privacy.calibrate import Assumption

scales = st.floats(0.05, 100)
deltas = st.floats(1e-12, 0.5)


def exact_tail(scale: float, t: int) -> mpmath.mpf:
    p = mpmath.exp(-1 / mpmath.mpf(scale))
    return p**t / (1 + p) if t >= 0 else 1 - p ** (1 - t) / (1 + p)


def exact_delta(scale: float, per_user: int, distance: int) -> mpmath.mpf:
    return 1 - (1 - exact_tail(scale, distance)) ** per_user


# --- scales -----------------------------------------------------------------------------------------------------------


@given(epsilon=st.floats(0.01, 50), changes=st.integers(1, 200))
def test_the_scale_is_the_smallest_whose_epsilon_is_not_above_the_one_asked_for(epsilon: float, changes: int) -> None:
    try:
        scale = calibrate.scale_for(epsilon, changes)
    except InputError:
        assert not 0.01 <= changes / epsilon <= calibrate.LARGEST_SCALE
        return
    asked = min(Fraction(epsilon), Fraction(repr(epsilon)))  # the float, and the decimal that a reader sees
    assert Fraction(changes) <= Fraction(scale) * asked
    assert Fraction(changes) > Fraction(nextafter(scale, 0)) * asked


@given(scale=scales, changes=st.integers(1, 200))
def test_the_epsilon_of_a_scale_is_never_understated(scale: float, changes: int) -> None:
    epsilon = calibrate.epsilon_of(scale, changes)
    assert Fraction(changes) <= Fraction(scale) * Fraction(epsilon)
    assert Fraction(changes) > Fraction(scale) * Fraction(nextafter(epsilon, 0))


def test_replacing_a_user_changes_twice_as_much_as_removing_one() -> None:
    assert calibrate.changed_counts(3, "add-remove") == 3
    assert calibrate.changed_counts(3, "replace-one") == 6


# --- tails and thresholds ---------------------------------------------------------------------------------------------


@given(scale=scales, t=st.integers(-300, 300))
def test_the_tail_is_that_of_discrete_noise(scale: float, t: int) -> None:
    with mpmath.workprec(300):
        assert calibrate.tail(scale, t) == pytest.approx(float(exact_tail(scale, t)), rel=1e-11, abs=1e-300)


@given(scale=scales, delta=deltas, per_user=st.integers(1, 50), first=st.integers(1, 20))
@settings(deadline=None)
def test_the_approximate_threshold_keeps_delta_and_one_lower_does_not(
    scale: float, delta: float, per_user: int, first: int
) -> None:
    threshold = calibrate.approximate_threshold(scale, delta, per_user, first)
    assert threshold >= first
    with mpmath.workprec(600):
        assert exact_delta(scale, per_user, threshold - first) <= delta
        # One unit in the last place is given away for certainty.
        assert threshold == first or exact_delta(scale, per_user, threshold - 1 - first) > delta * (1 - 1e-15)


@given(scale=scales, per_user=st.integers(1, 50), distance=st.integers(0, 2000))
@settings(deadline=None)
def test_the_stated_delta_is_never_below_the_exact_one(scale: float, per_user: int, distance: int) -> None:
    stated = calibrate.approximate_delta(scale, per_user, 1 + distance)
    with mpmath.workprec(4000):
        exact = exact_delta(scale, per_user, distance)
        assert exact <= stated
        assert stated <= exact * (1 + mpmath.mpf(10) ** -14) + mpmath.mpf(10) ** -70


@pytest.mark.slow
@given(scale=scales, delta=deltas, per_user=st.integers(1, 20), extra=st.integers(0, 30))
@settings(deadline=None)
def test_the_occurrences_threshold_keeps_delta_and_one_lower_does_not(
    scale: float, delta: float, per_user: int, extra: int
) -> None:
    threshold = calibrate.occurrences_threshold(scale, delta, per_user)
    with mpmath.workprec(600):

        def exact(t: int) -> mpmath.mpf:
            return max(exact_delta(scale, per_user, t - 1), exact_tail(scale, t - per_user))

        assert exact(threshold) <= delta
        assert threshold == per_user or exact(threshold - 1) > delta * (1 - 1e-15)
        assert exact(threshold + extra) <= calibrate.occurrences_delta(scale, per_user, threshold + extra)


@given(
    scale=scales,
    delta=deltas,
    per_user=st.integers(1, 20),
    users=st.integers(1, 10**7),
    first=st.integers(1, 60),
)
@settings(deadline=None)
def test_the_probabilistic_threshold_keeps_both_conditions_and_one_lower_does_not(
    scale: float, delta: float, per_user: int, users: int, first: int
) -> None:
    threshold = calibrate.probabilistic_threshold(scale, delta, per_user, users, first)
    most_items = users * per_user // first
    if most_items == 0:
        assert threshold is None
        return
    assert threshold is not None
    with mpmath.workprec(600):
        p = mpmath.exp(-1 / mpmath.mpf(scale))
        ways = [
            exact_tail(scale, t - first) <= 1 - p and exact_delta(scale, most_items, t - first) <= delta * slack
            for t, slack in ((threshold, 1), (threshold - 1, 1 - 1e-15))
        ]
    assert ways[0]
    assert threshold == first or not ways[1]


@pytest.mark.slow
@given(scale=scales, delta=deltas, per_user=st.integers(1, 50))
@settings(deadline=None)
def test_the_indistinguishable_threshold_is_safe_for_discrete_noise(scale: float, delta: float, per_user: int) -> None:
    """A fractional τ' with "noisy > τ'" would understate δ by up to 2/(1+p); this one does not."""
    threshold = calibrate.indistinguishable_threshold(scale, delta, per_user)
    with mpmath.workprec(600):
        assert exact_delta(scale, per_user, threshold - 1) <= delta


def test_the_continuous_tail_is_safe_only_for_integer_thresholds_and_greater_than() -> None:
    """The trap of section 0, so that nobody "simplifies" the threshold. Here for λ = 1 and an item of one user."""

    def continuous(cut: float) -> float:
        return 0.5 * exp(1 - cut)

    assert calibrate.tail(1.0, 4 - 1) < continuous(3), "noisy > 3: safe"
    assert calibrate.tail(1.0, 3 - 1) > continuous(3), "noisy ≥ 3: not safe"
    assert calibrate.tail(1.0, 4 - 1) > continuous(3.9), "noisy > 3.9, which is noisy > 3: not safe"


TINY = """
from searchveil.privacy import calibrate
from searchveil.publish.zealous import Zealous
print(calibrate.approximate_threshold(1.0, 5.13e-85, 5), Zealous(1, 1e-90).plan().parameters["second_threshold"])
"""


@pytest.mark.slow
def test_a_tiny_delta_such_as_those_of_table_1_is_answered_and_not_searched_for_ever() -> None:
    """In a process of its own, so that an endless search fails this test instead of stopping all of them."""
    answer = subprocess.run([sys.executable, "-c", TINY], capture_output=True, text=True, timeout=280, check=True)
    threshold = int(answer.stdout.split()[0])
    with mpmath.workprec(2000):
        assert exact_delta(1.0, 5, threshold - 1) <= mpmath.mpf(5.13e-85) < exact_delta(1.0, 5, threshold - 2)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "changes"), [(1e-6, 1), (1000, 1), (0.001, 50)])
def test_a_scale_beyond_all_use_is_refused(epsilon: float, changes: int) -> None:
    with pytest.raises(InputError, match=r"the noise scale .* is outside 0\.01 … 20000"):
        calibrate.scale_for(epsilon, changes)


# --- what to expect ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"users": 0}, {"users": 5, "items": 0}, {"users": 5, "held": 0}, {"users": 5, "exponent": 0.0}]
)
def test_an_assumption_about_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="the assumption's"):
        Assumption(**wrong)


def test_expected_counts_fall_with_the_rank_and_rise_with_what_is_kept() -> None:
    assumption = Assumption(users=10_000, items=1000, held=20, exponent=1, tail=1, alone=0, spread=0)
    few, many = assumption.expected_counts(2), assumption.expected_counts(10)
    assert all(few[:-1] >= few[1:])
    assert many == pytest.approx(5 * few)
    assert assumption.expected_counts(20) == pytest.approx(assumption.expected_counts(1000))
    assert max(assumption.expected_counts(1000)) <= 10_000


def test_the_expected_number_of_published_items_is_the_sum_of_the_tails() -> None:
    assumption = Assumption(users=2_000, items=300, held=10)
    places = [-4 + 0.2 * step for step in range(41)]  # of a normal number, in standard deviations
    weights = [exp(-place * place / 2) for place in places]

    def passes(mean: float) -> float:
        counts = [round(mean + sqrt(mean) * place) for place in places]
        tails = [calibrate.tail(5.0, 40 - count) if count >= 3 else 0.0 for count in counts]
        return sum(weight * tail for weight, tail in zip(weights, tails, strict=True)) / sum(weights)

    expected = sum(passes(float(mean)) for mean in assumption.expected_counts(5))
    assert assumption.expected_published(5, 5.0, 40, first_threshold=3) == pytest.approx(expected, rel=1e-9)


def test_the_best_number_of_items_per_user_publishes_the_most() -> None:
    assumption = Assumption(users=50_000, items=20_000, held=30)
    best = calibrate.best_per_user(1.0, 1e-6, assumption)
    published = {
        m: assumption.expected_published(m, float(m), calibrate.approximate_threshold(m, 1e-6, m))
        for m in (1, 2, 3, 5, 10, 30, 100, 300)
    }
    best_published = assumption.expected_published(best, float(best), calibrate.approximate_threshold(best, 1e-6, best))
    assert best_published >= max(published.values())


def test_logarithms_of_the_published_korolova_formulas() -> None:
    """α is e^(1/b) from the turning point on, and more below it."""
    scale = 10.0
    turning_point = 1 - scale * log(2 * (1 - float(mpmath.exp(-1 / scale))))
    assert papers.korolova_alpha(scale, turning_point + 0.01) == pytest.approx(float(mpmath.exp(1 / scale)))
    assert papers.korolova_alpha(scale, turning_point - 1) > float(mpmath.exp(1 / scale)) * 1.001


@given(st.floats(5e-324, 1.0), st.integers(1, 12))
def test_equal_shares_together_are_at_most_delta_and_no_larger_ones_are(delta: float, parts: int) -> None:
    share = calibrate.equal_share(delta, parts)
    assert parts * Fraction(share) <= Fraction(delta) < parts * Fraction(nextafter(share, inf))
