"""The sums are exact in decimals; the better bound is never below the exact optimum, computed here in another way."""

import subprocess
import sys
from fractions import Fraction
from itertools import product
from math import inf, nextafter

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.privacy.composition import Cost, basic, decimal, not_below, optimal
from searchveil.privacy.guarantee import Guarantee, Neighbours


def dp(epsilon: float, delta: float = 0.0, neighbours: Neighbours = "add-remove", unit: str = "user") -> Guarantee:
    return Guarantee("approximate", epsilon, delta, "test", unit=unit, neighbours=neighbours)


def delta_at(epsilon: mpmath.mpf, pairs: list[tuple[float, float]]) -> mpmath.mpf:
    """The δ of Murtagh and Vadhan's theorem at this ε, by enumerating all signs with sixty digits."""
    with mpmath.workdps(60):
        kept = mpmath.fprod(1 - mpmath.mpf(repr(delta)) for _, delta in pairs)
        masses = mpmath.mpf(0)
        for signs in product((1, -1), repeat=len(pairs)):
            loss = mpmath.fsum(sign * mpmath.mpf(repr(one)) for sign, (one, _) in zip(signs, pairs, strict=True))
            probability = mpmath.fprod(
                1 / (1 + mpmath.exp(-sign * mpmath.mpf(repr(one)))) for sign, (one, _) in zip(signs, pairs, strict=True)
            )
            masses += max(mpmath.mpf(0), probability * (1 - mpmath.exp(epsilon - loss)))
        return 1 - kept * (1 - masses)


def test_ten_tenths_are_one() -> None:
    assert basic([dp(0.1, 1e-7)] * 10) == Cost(Fraction(1), Fraction(1, 10**6))
    assert sum([0.1] * 10) < 1, "the reason why floats are not added"


@given(st.lists(st.floats(0, 1e6), max_size=20), st.randoms(use_true_random=False))
def test_the_sum_is_exact_and_has_no_order(epsilons: list[float], random: object) -> None:
    shuffled = list(epsilons)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    total = basic(map(dp, epsilons)).epsilon
    assert total == basic(map(dp, shuffled)).epsilon == sum(Fraction(repr(one)) for one in epsilons)


@given(st.fractions(0, 10**6))
def test_a_reported_sum_is_never_below_the_exact_one(exact: Fraction) -> None:
    number = not_below(exact)
    assert decimal(number) >= exact
    assert decimal(nextafter(nextafter(number, -inf), -inf)) < exact


@pytest.mark.parametrize(
    ("pairs", "delta"),
    [
        ([(0.1, 0.0)] * 12, 1e-6),
        ([(0.5, 1e-8)] * 10, 1e-5),
        ([(1.0, 1e-9), (0.3, 0.0), (0.01, 1e-7), (2.0, 1e-8), (0.3, 1e-12), (0.7, 0.0)], 1e-4),
        ([(3.0, 0.0)] * 8, 1e-9),
        ([(1e-5, 1e-10)] * 11, 1e-3),
    ],
)
def test_the_better_bound_is_just_above_the_exact_optimum(pairs: list[tuple[float, float]], delta: float) -> None:
    epsilon = optimal([dp(*pair) for pair in pairs], delta)
    total = sum(one for one, _ in pairs)
    assert delta_at(mpmath.mpf(epsilon), pairs) <= delta
    assert epsilon <= total
    if epsilon > 1e-6:
        assert delta_at(mpmath.mpf(epsilon - 0.002 * total), pairs) > delta, "looser than the grid explains"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.001, 4), st.sampled_from([0.0, 1e-9, 1e-7])), min_size=2, max_size=7),
    st.sampled_from([1e-8, 1e-6, 1e-3]),
)
def test_the_better_bound_always_holds(pairs: list[tuple[float, float]], delta: float) -> None:
    epsilon = optimal([dp(*pair) for pair in pairs], delta)
    if epsilon < inf:
        assert delta_at(mpmath.mpf(epsilon), pairs) <= delta * (1 + 1e-12)


def test_many_releases_gain() -> None:
    assert optimal([dp(0.1)] * 100, 1e-6) < 5 < 10 == basic([dp(0.1)] * 100).epsilon


def test_a_delta_that_is_too_small_admits_nothing() -> None:
    assert optimal([dp(0.1, 1e-6)] * 3, 1e-6) == inf
    assert optimal([dp(0.1, 1e-6)], 1e-7) == inf


def test_no_release_costs_nothing_and_one_costs_itself() -> None:
    assert basic([]) == Cost(Fraction(0), Fraction(0))
    assert optimal([], 0) == 0
    assert optimal([dp(0.7, 1e-6)], 1e-6) == 0.7


def test_beyond_all_scales_the_sum_remains() -> None:
    assert optimal([dp(400.0)] * 5, 1e-6) == 2000
    assert optimal([dp(5e-324)] * 5, 1e-6) == 2.5e-323


@pytest.mark.parametrize("odd", [dp(1, neighbours="replace-one"), dp(1, unit="user-day")])
def test_unlike_guarantees_do_not_add_up(odd: Guarantee) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        basic([dp(1), odd])


def test_no_differential_privacy_has_no_cost() -> None:
    with pytest.raises(ValueError, match="no finite cost"):
        optimal([Guarantee.no_differential_privacy("test", ())], 1e-6)


def test_the_terminal_stays_clean_and_the_import_late() -> None:
    program = (
        "import sys\n"
        "from searchveil.privacy.composition import basic, optimal\n"
        "from searchveil.privacy.guarantee import Guarantee\n"
        "one = Guarantee('approximate', 0.1, 1e-9, 'test')\n"
        "basic([one] * 9)\n"
        "assert not any(name.startswith('dp_accounting') for name in sys.modules)\n"
        "optimal([one] * 9, 1e-6)\n"
        "assert 'dp_accounting' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
