"""The sums are exact in decimals; the better bound is never below the exact optimum, computed here in another way."""

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf, nextafter
from types import SimpleNamespace
from typing import Any, get_args

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.privacy.composition import ROOT_OF_HALF_PI, Cost, basic, decimal, gaussian, not_below, optimal
from searchveil.privacy.guarantee import Guarantee, Neighbours
from searchveil.publish.weighted import Weighted


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


@pytest.mark.slow
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


# --- Gaussian composition ---------------------------------------------------------------------------------------------


def gdp(mu: float, outside: float = 0.0) -> Guarantee:
    """Its (ε,δ) is (5, 0.5): so bad that no bound below comes from it."""
    return replace(dp(5.0, 0.5), mu=mu, mu_delta=outside)


def gaussian_delta(epsilon: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    """∫ max(0, φ(y − μ) − e^ε φ(y)) dy, by integration with forty digits."""
    start = epsilon / mu + mu / 2  # where the two are equal

    def exceeding(y: mpmath.mpf) -> mpmath.mpf:
        return mpmath.npdf(y, mu) - mpmath.exp(epsilon) * mpmath.npdf(y)

    return mpmath.quad(exceeding, [start, start + 3, start + 9, start + 40])


def mixed_delta(epsilon: float, mus: list[float], pairs: list[tuple[float, float]], outside: float) -> mpmath.mpf:
    """The exact δ of Gaussian mechanisms beside the worst mechanisms of (ε,δ) pairs, at this ε."""
    with mpmath.workdps(40):
        mu = mpmath.sqrt(mpmath.fsum(mpmath.mpf(repr(one)) ** 2 for one in mus))
        masses = mpmath.mpf(0)
        for signs in product((1, -1), repeat=len(pairs)):
            losses = [sign * mpmath.mpf(repr(one)) for sign, (one, _) in zip(signs, pairs, strict=True)]
            probability = mpmath.fprod(1 / (1 + mpmath.exp(-loss)) for loss in losses)
            masses += probability * gaussian_delta(mpmath.mpf(epsilon) - mpmath.fsum(losses), mu)
        kept = mpmath.fprod(1 - mpmath.mpf(repr(delta)) for _, delta in pairs) * (1 - mpmath.mpf(repr(outside)))
        return 1 - kept * (1 - masses)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("mus", [[0.23] * 10, [0.1, 0.5, 1.0], [3.0, 0.01]])
def test_gaussian_releases_compose_exactly(mus: list[float], delta: float) -> None:
    epsilon = gaussian(map(gdp, mus)).epsilon_at(delta)
    assert mixed_delta(epsilon, mus, [], 0.0) <= delta
    assert mixed_delta(epsilon * (1 - 1e-7), mus, [], 0.0) > delta
    assert optimal(map(gdp, mus), delta) <= epsilon


def test_what_lies_outside_adds_up() -> None:
    total = gaussian([gdp(0.3, 1e-7), gdp(0.4, 2e-7)])
    assert total.squared_mu == Fraction(1, 4)
    assert total.delta == Fraction(3, 10**7)
    assert gaussian([gdp(0.5)]).epsilon_at(1e-6 - 3e-7) == pytest.approx(total.epsilon_at(1e-6), rel=1e-8)
    assert total.epsilon_at(3e-7) == inf


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(0.05, 1.5), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0.01, 1.5), st.sampled_from([0.0, 1e-8])), max_size=3),
    st.sampled_from([0.0, 1e-8]),
    st.sampled_from([1e-6, 1e-3]),
)
def test_a_mixed_bound_is_never_below_the_truth(
    mus: list[float], pairs: list[tuple[float, float]], outside: float, delta: float
) -> None:
    releases = [gdp(mus[0], outside), *map(gdp, mus[1:]), *(dp(*pair) for pair in pairs)]
    for epsilon in (gaussian(releases).epsilon_at(delta), optimal(releases, delta)):
        if epsilon < inf:
            assert mixed_delta(epsilon, mus, pairs, outside) <= delta * (1 + 1e-12)


def test_an_epsilon_is_no_more_than_its_mu() -> None:
    """ε-differential privacy is μ-GDP for μ = ε·√(π/2): Φ(μ/2) ≥ e^ε/(1 + e^ε), with the rounding upwards."""
    with mpmath.workdps(40):
        root = mpmath.mpf(ROOT_OF_HALF_PI.numerator) / ROOT_OF_HALF_PI.denominator
        assert root > mpmath.sqrt(mpmath.pi / 2)
        for k in range(1, 400):
            epsilon = mpmath.mpf(k) / 20
            half = mpmath.sqrt(mpmath.pi / 8) * epsilon
            assert mpmath.ncdf(-half) < 1 / (1 + mpmath.exp(epsilon))


def test_many_weighted_releases_cost_a_third_of_the_sum() -> None:
    promise = Weighted(1, 1e-6).plan().guarantee
    assert gaussian([promise] * 10).epsilon_at(1e-5) < 3.2 < 10 == basic([promise] * 10).epsilon
    mixed = [*[promise] * 5, *[dp(0.1, 1e-8)] * 3]
    assert optimal(mixed, 1e-5) < gaussian(mixed).epsilon_at(1e-5) < 2.4 < 5.3 == float(basic(mixed).epsilon)


def test_the_noise_of_a_weighted_release_keeps_its_promise() -> None:
    """δ of the Gaussian part and what lies outside come to little more than the δ of the release alone."""
    for neighbours in get_args(Neighbours):
        total = gaussian([Weighted(1, 1e-6, neighbours=neighbours).plan().guarantee])
        assert 0.99e-6 < float(total.delta_at(1.0) + total.delta) < 1.1e-6
    public: Any = SimpleNamespace(size=1000)
    total = gaussian([Weighted(1, 1e-6, pool=public).plan().guarantee])
    assert total.delta == 0
    assert float(total.delta_at(1.0)) == pytest.approx(1e-6, rel=1e-6)


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
