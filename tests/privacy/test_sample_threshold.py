"""Sample and threshold: known answers, exact enumeration, and the ends of its promise."""

from math import comb, exp, log

import numpy as np
import pytest

from searchveil.errors import InputError
from searchveil.privacy import sample_threshold as st
from searchveil.privacy.sample_threshold import Floats

LN10 = log(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "p", "thresholds"),
    [  # for d = 1, 2, 3 items per user, δ = 1e-6
        (1, 0.1, (8, 8, 8)),
        (1, 0.2, (12, 13, 13)),
        (1, 0.3, (17,)),
        (2, 0.3, (13, 13, 14)),
        (LN10, 0.3, (12, 13, 13)),
        (LN10, 0.5, (20,)),
        (0.5, 0.1, (10, 11, 12)),
    ],
)
def test_known_answers(epsilon: float, p: float, thresholds: tuple[int, ...]) -> None:
    for d, threshold in enumerate(thresholds, 1):
        assert st.sample_threshold(epsilon, 1e-6, p, d) == threshold
        assert st.sample_threshold_delta(epsilon, p, threshold, d) <= 1e-6
        assert st.sample_threshold_delta(epsilon, p, threshold - 1, d) > 1e-6


def published(n: int, p: float, threshold: int) -> Floats:
    """The probabilities of what comes out of n users who have an item: nothing, or a count up to 200."""
    chances = [comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(201)]
    return np.array([sum(chances[:threshold]), *chances[threshold:]])


def divergence(one: Floats, other: Floats, epsilon: float) -> float:
    return float(np.maximum(one - exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize(("epsilon", "p", "threshold"), [(1.0, 0.1, 4), (0.5, 0.2, 6), (2.0, 0.5, 5)])
def test_one_item_is_enumerated_exactly(epsilon: float, p: float, threshold: int) -> None:
    """In both directions, over every number of users up to far beyond where the cut ends."""
    worst = max(
        divergence(*pair, epsilon)
        for n in range(150)
        for pair in (
            (published(n + 1, p, threshold), published(n, p, threshold)),
            (published(n, p, threshold), published(n + 1, p, threshold)),
        )
    )
    assert st.sample_threshold_delta(epsilon, p, threshold) == pytest.approx(worst, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "p", "threshold"), [(1.0, 0.1, 4), (1.0, 0.3, 6)])
def test_two_items_are_bounded_from_above_and_closely(epsilon: float, p: float, threshold: int) -> None:
    pairs = [(published(n + 1, p, threshold), published(n, p, threshold)) for n in range(threshold - 1, 40)]
    worst = max(
        divergence(np.outer(a1, b1).ravel(), np.outer(a0, b0).ravel(), epsilon) for a1, a0 in pairs for b1, b0 in pairs
    )
    delta = st.sample_threshold_delta(epsilon, p, threshold, 2)
    assert worst <= delta <= 1.3 * worst


def test_the_dominating_pair_is_a_distribution_and_close_to_exact_for_one_item() -> None:
    losses, masses, unbounded = st._loss_distribution(0.2, 12)
    assert masses.sum() + unbounded == pytest.approx(1, abs=1e-6)
    assert (masses * np.exp(-losses)).sum() == pytest.approx(1, abs=1e-6)
    exact = st.sample_threshold_delta(1, 0.2, 12)
    assert exact <= st._composed(1, 0.2, 12, 1) <= 1.001 * exact


def test_a_smaller_epsilon_than_absence_tells_is_refused() -> None:
    assert st.smallest_epsilon(0.1, 3) == pytest.approx(3 * log(1 / 0.9))
    assert st.sample_threshold_delta(0.1, 0.1, 50) == 1
    with pytest.raises(InputError, match="needs an epsilon of at least"):
        st.sample_threshold(0.2, 1e-6, 0.1, 2)
    with pytest.raises(InputError, match="between 0 and 1"):
        st.sample_threshold_delta(1, 1.0, 8)


def test_two_devices_with_coins_of_their_own_would_break_it() -> None:
    """An item is sent with 1 − (1−p)² instead of p for one user: δ = 3.4e-6 instead of 1e-6 (p = 0.1, τ = 8)."""
    p, threshold, epsilon = 0.1, 8, 1.0
    worst = 0.0
    for n in range(7, 120):
        others = np.array([comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 2)])
        sends = 1 - (1 - p) ** 2
        more = (1 - sends) * others + sends * np.append(0, others[:-1])
        worst = max(worst, float(np.maximum(more - exp(epsilon) * others, 0)[threshold:].sum()))
    assert worst == pytest.approx(3.4e-6, rel=0.02)
    assert st.sample_threshold_delta(epsilon, p, threshold) < 1e-6


def test_the_coin_is_never_likelier_than_asked_for() -> None:
    for p in (0.1, 0.3, 1e-3):
        assert 0 <= p - st.coin(p) < 2.0**-63
    assert st.sample_threshold_delta(5.0, 0.1, 1) >= 0.1  # one user's item shows with p


@pytest.mark.slow
def test_what_takes_long_to_work_out_is_bounded_by_a_smaller_threshold() -> None:
    """δ falls with τ; where that says nothing either, nothing is promised."""
    assert st.sample_threshold_delta(0.06, 0.05, 100) == st.sample_threshold_delta(0.06, 0.05, 25) < 1e-5
    assert st.sample_threshold_delta(1e-8, 1e-9, 2_000) == 1.0
