"""ZEALOUS: the numbers of Götz et al. 2011, and those of the specification where the paper is wrong."""

import papers
import pytest

from searchveil.privacy import calibrate
from searchveil.publish.zealous import Zealous

USERS = 500_000  # of the paper's log


@pytest.mark.parametrize(
    ("scale", "threshold", "delta", "indistinguishable_delta"),
    [
        (1, 100, 1.26e-37, 1.38e-41),
        (1, 200, 4.7e-81, 5.13e-85),
        (5, 100, 3.15e-3, 1.40e-8),
        (5, 200, 6.5e-12, 2.9e-17),
    ],
)
def test_table_1(scale: float, threshold: float, delta: float, indistinguishable_delta: float) -> None:
    """The printed values agree within two percent; δ' only with erratum Z1 (a factor 2 is missing in eq. 3)."""
    per_user = 5
    assert papers.zealous_probabilistic_delta(scale, per_user, USERS, threshold) == pytest.approx(delta, rel=0.02)
    stated = papers.zealous_indistinguishable_delta(scale, per_user, threshold)
    assert stated == pytest.approx(indistinguishable_delta, rel=0.02)


def test_the_thresholds_of_two_items_per_user_at_epsilon_1_and_delta_a_millionth() -> None:
    """τ' = T - 1: 29 for add-remove and 56 for replace-one, against 57.3 of Theorem 2 and 106.2 of Theorem 3."""
    delta, per_user = 1e-6, 2
    assert calibrate.approximate_threshold(2.0, delta, per_user) - 1 == 29
    assert calibrate.approximate_threshold(4.0, delta, per_user) - 1 == 56
    assert calibrate.published_threshold(4.0, delta, per_user) == pytest.approx(57.3, abs=0.05)
    theorem_3 = min(
        calibrate.probabilistic_threshold_continuous(4.0, delta, per_user, USERS, first) for first in range(1, 20)
    )
    assert theorem_3 == pytest.approx(106.2, abs=0.05)


def test_the_same_thresholds_through_the_mechanism() -> None:
    thresholds = {
        (notion, neighbours): Zealous(1, 1e-6, per_user=2, notion=notion, neighbours=neighbours)  # type: ignore[arg-type]
        .plan(USERS)
        .parameters["second_threshold"]
        for notion, neighbours in (
            ("approximate", "add-remove"),
            ("approximate", "replace-one"),
            ("indistinguishable", "replace-one"),
            ("probabilistic", "replace-one"),
        )
    }
    assert list(thresholds.values()) == [30, 57, 58, 107]


def test_at_epsilon_1_the_papers_first_threshold_is_best() -> None:
    """Proposition 4: τ = ⌈2m/ε⌉ = 4 for m = 2."""
    cuts = {t: calibrate.probabilistic_threshold_continuous(4.0, 1e-6, 2, USERS, t) for t in range(1, 40)}
    assert min(cuts, key=cuts.__getitem__) == 4


def test_at_epsilon_1_9_rounding_the_first_threshold_down_is_better() -> None:
    scale = calibrate.scale_for(1.9, 4)
    floor_, ceiling = (calibrate.probabilistic_threshold_continuous(scale, 1e-6, 2, USERS, first) for first in (2, 3))
    assert floor_ < ceiling


def test_the_chosen_first_threshold_is_at_least_as_good_as_the_papers_and_its_floor() -> None:
    for epsilon in (0.5, 1.0, 1.9, 3.0):
        scale = calibrate.scale_for(epsilon, 4)
        _, best = calibrate.best_first_threshold(scale, 1e-6, 2, USERS)
        for first in (int(scale), int(scale) + 1):
            threshold = calibrate.probabilistic_threshold(scale, 1e-6, 2, USERS, max(1, first))
            assert threshold is not None
            assert best <= threshold


@pytest.mark.parametrize("per_user", [1, 2, 5, 10])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_first_threshold_above_1_only_hurts_the_approximate_notion(per_user: int, neighbours: str) -> None:
    scale = calibrate.scale_for(1.0, calibrate.changed_counts(per_user, neighbours))  # type: ignore[arg-type]
    thresholds = [calibrate.approximate_threshold(scale, 1e-6, per_user, first) for first in range(1, 10)]
    assert thresholds == list(range(thresholds[0], thresholds[0] + 9))


def test_the_example_of_theorem_1_with_erratum_z2() -> None:
    """τ+ξ = 50, m = 10, U = 10^6, ε = 1, c = 0.01: 2.1e29, still below the 5.3e35 possible pairs."""
    for lower in (0, 30):  # the second term is too small to matter
        domain = papers.zealous_impossibility_domain(10**6, 10, 1.0, upper=50, lower=lower, accuracy=0.01)
        assert domain == pytest.approx(2.1e29, rel=0.02)
        assert domain < 5.3e35
