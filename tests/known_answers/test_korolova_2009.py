"""Korolova et al. 2009: the published formulas at worked points, and the exact ones beside them."""

from math import e, exp, log

import papers
import pytest

from searchveil.privacy import calibrate
from searchveil.publish.korolova import Korolova


@pytest.mark.parametrize(
    ("scale", "turning_point"), [(6, 8.08), (11, 20.25), (39.5, 119.33), (24.75, 63.76), (3, 2.70)]
)
def test_the_turning_points_of_alpha(scale: float, turning_point: float) -> None:
    """K(b) = 1 - b ln(2(1 - e^(-1/b))), as SafeLog's Table 3.10 prints it: from there on α = e^(1/b)."""
    assert papers.korolova_alpha(scale, turning_point + 0.01) == pytest.approx(exp(1 / scale), rel=1e-12)
    assert papers.korolova_alpha(scale, turning_point - 0.05) > exp(1 / scale) * (1 + 1e-6)


@pytest.mark.parametrize(("items", "epsilon"), [(1, 0.43), (2, 0.85), (4, 1.71), (10, 4.27), (80, 34.18)])
def test_epsilon_with_clicks_at_k_and_b_of_10(items: int, epsilon: float) -> None:
    """SafeLog's Table 3.8 is this ε with p_g = 1 and b = b_q = b_c = K = 10."""
    stated = papers.korolova_epsilon(items, items, 10, 10, 10, 10)
    assert stated == pytest.approx(epsilon, abs=0.006)


def test_epsilon_without_clicks_is_selection_plus_counts() -> None:
    assert papers.korolova_epsilon(3, 0, 10, 1000, 20, None) == pytest.approx(3 / 10 + 3 / 20)


def test_delta_and_its_inverse() -> None:
    """δ = (d/2)e^((d-K)/b), and K = d(1 - ln(2δ/d)/ε) at b = d/ε."""
    assert papers.korolova_delta(1.0, 1, 1.0) == 0.5
    assert papers.korolova_delta(2.0, 4, 10.0) == pytest.approx(2 * e**-3)
    for queries in (1, 2, 5, 20):
        k = calibrate.published_threshold(queries / log(10), 1e-6, queries)
        assert papers.korolova_delta(queries / log(10), queries, k) == pytest.approx(1e-6)


def test_the_smallest_threshold_of_the_crowd_at_epsilon_ln_10() -> None:
    """Feild et al. use this formula: with δ = 1/657,427, one item per user needs K = 6.52."""
    assert calibrate.published_threshold(1 / log(10), 1 / 657_427, 1) == pytest.approx(6.52, abs=0.005)


@pytest.mark.parametrize("queries", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, log(10)])
def test_the_exact_formulas_are_never_worse_than_the_published(queries: int, epsilon: float) -> None:
    exact, published = (
        Korolova(epsilon, 1e-6, queries_per_user=queries, variant=variant).plan().parameters
        for variant in ("exact", "published")
    )
    assert exact["noise_scale"] < published["noise_scale"], "the count that was selected needs no noise of its own"
    assert exact["second_threshold"] < published["second_threshold"]
    scale, threshold = published["noise_scale"], published["second_threshold"]
    assert calibrate.occurrences_delta(scale, queries, threshold) <= papers.korolova_delta(
        scale, queries, threshold - 1
    )
    assert papers.korolova_delta(scale, queries, threshold - 1) <= 1e-6 * (1 + 1e-12)
    stated = papers.korolova_epsilon(queries, 0, scale, threshold - 1, published["count_scale"], None)
    assert stated <= epsilon * (1 + 1e-12)


def test_exact_delta_takes_the_worse_of_spreading_and_heaping() -> None:
    spread, heaped = 1 - (1 - calibrate.tail(10, 29)) ** 3, calibrate.tail(10, 27)
    assert spread > heaped
    assert calibrate.occurrences_delta(10, 3, 30) == pytest.approx(spread)
    spread, heaped = 1 - (1 - calibrate.tail(1, 29)) ** 3, calibrate.tail(1, 27)
    assert heaped > spread
    assert calibrate.occurrences_delta(1, 3, 30) == pytest.approx(heaped)
