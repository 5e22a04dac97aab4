"""What counts of an event prove about ε, against scipy's exact binomial intervals."""

from math import exp, inf, log

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from searchveil.errors import InputError
from searchveil.lab.estimate import epsilon_proved, lower_end, upper_end


@pytest.mark.parametrize("runs", [1, 7, 100])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_interval_is_scipys_exact_one(runs: int, confidence: float) -> None:
    for seen in sorted({0, 1, runs // 3, runs - 1, runs}):
        exact = binomtest(seen, runs).proportion_ci(confidence, method="exact")
        error = (1 - confidence) / 2
        low, high = float(lower_end(seen, runs, error)), float(upper_end(seen, runs, error))
        assert low == pytest.approx(exact.low, abs=1e-12)
        assert high == pytest.approx(exact.high, abs=1e-12)
        assert 0 <= low <= seen / runs <= high <= 1


@pytest.mark.parametrize(("seen", "runs"), [(100, 100), (80, 100), (30, 100), (5, 10)])
@pytest.mark.parametrize("seen_by_neighbour", [0, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_epsilon_is_the_ratio_of_the_pessimistic_ends(
    seen: int, runs: int, seen_by_neighbour: int, delta: float
) -> None:
    """Each end gets half of the error, as each end of a 95 % interval does."""
    low = binomtest(seen, runs).proportion_ci(0.95, method="exact").low
    high = binomtest(seen_by_neighbour, runs).proportion_ci(0.95, method="exact").high
    expected = max(0.0, log((low - delta) / high)) if low > delta else 0.0
    assert epsilon_proved(seen, runs, seen_by_neighbour, runs, delta) == pytest.approx(expected, abs=1e-9)


def test_equal_counts_prove_nothing_and_more_runs_prove_more() -> None:
    assert epsilon_proved(50, 100, 50, 100, 0.0) == 0
    assert epsilon_proved(0, 100, 0, 100, 0.0) == 0
    assert epsilon_proved(0, 100, 100, 100, 0.0) == 0
    proved = [epsilon_proved(runs, runs, 0, runs, 0.0) for runs in (10, 100, 1000)]
    assert proved == sorted(proved)
    assert 0.5 < proved[0] < proved[2] < inf
    assert epsilon_proved(100, 100, 0, 100, 0.0, error=0.001) < epsilon_proved(100, 100, 0, 100, 0.0)


def test_a_delta_that_explains_what_was_seen_leaves_nothing_to_prove() -> None:
    assert epsilon_proved(100, 100, 0, 100, 0.99) == 0
    assert epsilon_proved(100, 100, 0, 100, 0.5) < epsilon_proved(100, 100, 0, 100, 0.0)


@pytest.mark.parametrize(("p", "epsilon"), [(0.9, 1.0), (0.5, 0.0), (0.3, 2.0)])
def test_the_bound_is_wrong_no_more_often_than_stated(p: float, epsilon: float) -> None:
    """Summed over all outcomes of 40 runs of a mechanism whose ε for this event is known."""
    runs, other = 40, p * exp(-epsilon)
    wrong = sum(
        float(binom.pmf(a, runs, p) * binom.pmf(b, runs, other))
        for a in range(runs + 1)
        for b in range(runs + 1)
        if epsilon_proved(a, runs, b, runs, 0.0, error=0.2) > epsilon
    )
    assert wrong <= 0.2
    assert wrong > 0 or epsilon > 0


@pytest.mark.parametrize(("seen", "runs"), [(-1, 10), (11, 10), (0, 0)])
def test_what_is_no_share_is_refused(seen: int, runs: int) -> None:
    with pytest.raises(InputError, match=f"{seen} of {runs} runs is not a share"):
        lower_end(seen, runs, 0.05)
    with pytest.raises(InputError, match=f"{seen} of {runs} runs is not a share"):
        upper_end(seen, runs, 0.05)


def test_ends_of_arrays_are_those_of_their_numbers() -> None:
    for end in (lower_end, upper_end):
        assert end(np.arange(8), 7, 0.05).tolist() == [float(end(seen, 7, 0.05)) for seen in range(8)]
