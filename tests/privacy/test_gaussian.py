"""The Gaussian account: known answers, the promise at its limit, and what it refuses."""

from fractions import Fraction
from math import exp, inf, nextafter

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm

from searchveil.privacy.gaussian import (
    GaussianAccount,
    crossing_probability,
    crossing_threshold,
    delta_of,
    sigma_for,
)
from searchveil.privacy.noise import RoundedGaussian, Source

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [(1, 0.7e-6, 4.2974), (3, 0.7e-6, 1.5665), (1, 0.7e-10, 5.9237)]
)
def test_sigma_is_the_smallest(epsilon: float, delta: float, sigma: float) -> None:
    found = sigma_for(epsilon, delta)
    assert found == pytest.approx(sigma, abs=5e-5)
    assert delta_of(found, epsilon) <= delta < delta_of(found * (1 - 1e-8), epsilon)


@pytest.mark.parametrize(("sigma", "epsilon"), [(4.3, 1.0), (0.5, 2.0), (30.0, 0.05)])
def test_delta_is_the_divergence_of_two_normal_densities(sigma: float, epsilon: float) -> None:
    def exceeding(x: float) -> float:
        return max(0.0, float(norm.pdf(x, 1, sigma)) - exp(epsilon) * float(norm.pdf(x, 0, sigma)))

    start = sigma * sigma * epsilon + 0.5  # from here on the first density exceeds e^ε times the second
    divergence, _ = quad(exceeding, start, start + 12 * sigma, epsabs=1e-15)
    assert delta_of(sigma, epsilon) == pytest.approx(divergence, rel=1e-6, abs=1e-12)


def test_a_share_is_spent_once() -> None:
    account = GaussianAccount(4.0, "add-remove")
    totals = np.zeros(3, np.int64)
    for _ in range(4):
        account.measure(totals, squared_length=1, share=Fraction(1, 4), source=Source(KEY))
    with pytest.raises(ValueError, match="promise would be broken"):
        account.measure(totals, squared_length=1, share=Fraction(1, 2**40), source=Source(KEY))


def test_replace_one_costs_the_root_of_two() -> None:
    one, two = GaussianAccount(4.0, "add-remove"), GaussianAccount(4.0, "replace-one")
    assert two.variance(9, Fraction(1, 3)) == 2 * one.variance(9, Fraction(1, 3)) == 2 * 9 * 3 * 16


def test_the_crossing_threshold_is_the_smallest() -> None:
    variances = [Fraction(k, 10) for k in range(1, 11)]
    threshold = crossing_threshold(1e-9, variances)
    assert crossing_probability(threshold, variances) <= 1e-9 < crossing_probability(threshold * (1 - 1e-8), variances)
    summed = sum(float(norm.sf(threshold / float(variance) ** 0.5)) for variance in variances)
    assert summed == pytest.approx(1e-9, rel=1e-6)


def test_looks_with_almost_no_noise_cross_nothing() -> None:
    alone = crossing_probability(5.0, [Fraction(1)])
    assert crossing_probability(5.0, [Fraction(1, 10**8), Fraction(1)]) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(9, 4), Fraction(40)])
def test_rounded_noise_has_the_right_distribution(variance: Fraction) -> None:
    """Chi-square over the values that are likely enough; a false alarm once in 10^5."""
    n = 400_000
    drawn = RoundedGaussian(variance).sample(n, Source(KEY))
    values = np.arange(-60, 61)
    deviation = float(variance) ** 0.5
    expected = n * (norm.cdf((values + 0.5) / deviation) - norm.cdf((values - 0.5) / deviation))
    likely = expected > 10
    observed = np.array([(drawn == value).sum() for value in values[likely]])
    rest = n - observed.sum(), n - expected[likely].sum()
    statistic = ((observed - expected[likely]) ** 2 / expected[likely]).sum() + (rest[0] - rest[1]) ** 2 / max(
        1, rest[1]
    )

    assert statistic < chi2.isf(1e-5, likely.sum())


def test_the_slow_path_agrees_with_the_fast_one() -> None:
    noise = RoundedGaussian(Fraction(10_000) ** 2)
    words = Source(KEY).words(150)
    fast = noise._draw(words, lambda place: Source(KEY))
    assert [noise._decide(int(word), Source(KEY)) for word in words] == fast.tolist()


def test_quantiles_are_within_their_error() -> None:
    import mpmath

    from searchveil.privacy.noise import _Quantiles, _quantiles

    middle = Source(KEY).words(200)
    tails = np.array([int(2**64 * float(norm.cdf(z))) for z in np.linspace(-5, -4, 60)], np.uint64)
    words = np.concatenate([middle, tails, ~tails])
    found = _quantiles().of(words)
    with mpmath.workprec(200):
        for word, z in zip(words.tolist(), found.tolist(), strict=True):
            if z == z:
                distance = (mpmath.ncdf(mpmath.mpf(z)) - mpmath.mpf(word) / 2**64) / mpmath.npdf(z)
                assert abs(distance) < _Quantiles.ERROR / 4
    assert np.isnan(_quantiles().of(np.array([0, 2**64 - 1], np.uint64))).all()


def test_far_tails_are_drawn_by_intervals() -> None:
    """The first and the last word stand for values far out, where no table reaches."""
    noise = RoundedGaussian(Fraction(100) ** 2)
    low, high = (noise._decide(word, Source(KEY)) for word in (0, 2**64 - 1))
    assert low < -900
    assert high > 900


def test_a_threshold_far_beyond_all_noise_is_bounded_at_once() -> None:
    """Interval arithmetic would need more bits the farther out it is: a billion deviations took minutes."""
    assert crossing_probability(1e9, [Fraction(1)] * 17) == nextafter(0.0, inf)
    assert crossing_probability(37.0, [Fraction(1)]) == pytest.approx(float(norm.sf(37.0)), rel=1e-9)


def test_many_draws_are_those_of_one_core_and_no_part_repeats_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are drawn on all cores, each from a stream of its own; a wide distribution shows a stream used twice."""
    noise, n = RoundedGaussian(Fraction(10**6) ** 2), (1 << 19) + 5
    drawn = noise.sample(n, Source(KEY))
    for cores in (1, 3):
        monkeypatch.setattr("searchveil.cores.usable_cores", lambda cores=cores: cores)
        assert np.array_equal(noise.sample(n, Source(KEY)), drawn)
    size = 1 << 18
    one, other = drawn[:size], drawn[size : 2 * size]
    assert abs(float(np.corrcoef(one, other)[0, 1])) < 6 / size**0.5
    source = Source(KEY)
    assert not np.array_equal(noise.sample(n, source), noise.sample(n, source))
    assert abs(float(drawn.mean())) < 6 * 10**6 / n**0.5
