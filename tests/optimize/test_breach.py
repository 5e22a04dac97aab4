"""The smallest b for a wanted output: it gives what was wanted, and a smaller one is proved not to."""

from math import exp, log

import numpy as np
import pytest
from click_logs import example, random_log

from searchveil.errors import InputError
from searchveil.optimize.breach import for_recall, for_size
from searchveil.optimize.certify import violated
from searchveil.optimize.objectives import Size
from searchveil.optimize.program import ClickCounts, Sampler
from searchveil.optimize.solve import relax


def test_an_expected_size_by_hand() -> None:
    """Two users with one click each on one pair: x costs each x/2."""
    breach = for_size(ClickCounts.of([0, 1], [0, 0], [1, 1]), "poisson", 3.0)
    assert breach.b == pytest.approx(1.5)
    assert breach.at_least == pytest.approx(1.5)
    assert breach.delta == pytest.approx(1 - exp(-1.5))
    assert breach.solution.x == pytest.approx([3.0])


def test_an_integer_size_by_hand() -> None:
    """The same in draws: each costs ln 2, and two are wanted."""
    breach = for_size(ClickCounts.of([0, 1], [0, 0], [1, 1]), "multinomial", 2.0, seconds=0.0)
    assert 2 * log(2) <= breach.b <= 2 * log(2) * (1 + 2e-3)
    assert breach.solution.x.tolist() == [2]


@pytest.mark.slow
def test_an_integer_is_dearer_than_its_relaxation_and_nobody_is_overexposed() -> None:
    counts = random_log(1)
    breach = for_size(counts, "multinomial", 12.0, seconds=0.1)
    assert breach.solution.objective >= 12
    assert breach.b >= breach.at_least
    assert relax(counts, "multinomial", Size(), breach.at_least).objective == pytest.approx(12, rel=1e-3)
    assert len(violated(counts, "multinomial", np.asarray(breach.solution.x, np.int64), breach.b)) == 0


@pytest.mark.parametrize("recall", [0.2, 0.6, 0.95])
def test_an_expected_recall_is_reached_and_little_less_would_not_do(recall: float) -> None:
    counts = random_log(2)
    frequent = counts.totals >= 0.01 * counts.size
    breach = for_recall(counts, "poisson", 0.01, recall)
    x = np.asarray(breach.solution.x, np.float64)
    assert len(x) == counts.pairs
    assert (x[~frequent] == 0).all()
    assert -np.expm1(-x[frequent]).mean() >= recall * (1 - 1e-6)
    assert (counts.exposure("poisson") @ x).max() <= breach.b
    assert 0.99 * breach.b <= breach.at_least <= breach.b


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
def test_more_recall_needs_a_larger_b(sampler: Sampler) -> None:
    counts = random_log(3)
    needed = [for_recall(counts, sampler, 0.02, recall, seconds=0.2).b for recall in (0.2, 0.5, 0.9)]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1] / 2


def test_full_recall_in_draws_publishes_every_frequent_pair() -> None:
    counts = random_log(4)
    frequent = counts.totals >= 0.02 * counts.size
    breach = for_recall(counts, "multinomial", 0.02, 1.0, seconds=0.2)
    assert (breach.solution.x == frequent).all()
    exact = (counts.exposure("multinomial") @ frequent.astype(float)).max()
    assert exact * (1 - 1e-9) <= breach.b <= exact * (1 + 2e-3)


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan")])
def test_a_size_must_be_positive(size: float) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        for_size(example(), "poisson", size)


@pytest.mark.parametrize(("sampler", "recall"), [("poisson", 1.0), ("poisson", 0.0), ("multinomial", 1.1)])
def test_a_recall_must_be_possible(sampler: Sampler, recall: float) -> None:
    with pytest.raises(InputError, match="recall must be above 0"):
        for_recall(example(), sampler, 0.1, recall)


def test_wishes_that_no_b_grants() -> None:
    with pytest.raises(InputError, match="ask for a smaller one"):
        for_recall(example(), "poisson", 0.99, 0.5)
    with pytest.raises(InputError, match="nothing can be published"):
        for_size(ClickCounts.of([], [], []), "poisson", 1.0)
