"""Each objective's answers against a search by brute force."""

from itertools import pairwise

import numpy as np
import pytest
from click_logs import example
from hypothesis import given
from hypothesis import strategies as st

from searchveil.errors import InputError
from searchveil.optimize.objectives import KL, Diversity, Frequent, Objective, Size
from searchveil.optimize.program import Reals

OBJECTIVES: list[Objective] = [
    Size(),
    Diversity(),
    KL(np.array([7.0])),
    Frequent(np.array([2.5]), np.array([True]), 10.0),
    Frequent(np.array([2.5]), np.array([False]), 10.0),
]
objectives = st.sampled_from(OBJECTIVES)


def one(value: float) -> Reals:
    return np.array([value])


def worth(objective: Objective, x: Reals) -> Reals:
    """Of many counts of the only pair."""
    return np.array([objective.value(one(count)) for count in x])


@given(objectives, st.floats(-30, 30), st.floats(1e-3, 1e3))
def test_no_point_beats_the_proximal_step(objective: Objective, v: float, step: float) -> None:
    def gain(x: Reals) -> Reals:
        return worth(objective, x) - (x - v) ** 2 / (2 * step)

    found = objective.prox(one(v), one(step))
    assert found[0] >= 0
    others = np.concatenate([np.linspace(0, 60, 200), found * (1 + 1e-4), found * (1 - 1e-4), found + 1e-5])
    assert gain(found)[0] >= gain(others).max() - 1e-9 * (1 + abs(gain(found)[0]))


@given(objectives, st.floats(-2, 20), st.floats(1e-3, 1e4))
def test_no_point_in_the_box_beats_the_best_response(objective: Objective, price: float, most: float) -> None:
    def gain(x: Reals) -> Reals:
        return worth(objective, x) - price * x

    found = objective.best_response(one(price), one(most))
    assert 0 <= found[0] <= most
    others = np.concatenate([np.linspace(0, most, 200), np.clip(found * (1 + 1e-4), 0, most), found * (1 - 1e-4)])
    assert gain(found)[0] >= gain(others).max() - 1e-9 * (1 + abs(gain(found)[0]))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_extreme_steps_and_prices_raise_no_warning(objective: Objective) -> None:
    for extreme in (0.0, 1e-300, 1e300, -1e12, 1e12):
        assert np.isfinite(objective.best_response(one(extreme), one(5_000.0))).all()
        assert np.isfinite(objective.prox(one(np.clip(extreme, -1e12, 1e12)), one(1e-12))).all()
        assert np.isfinite(objective.prox(one(np.clip(extreme, -1e12, 1e12)), one(1e12))).all()


@given(st.sampled_from([Size(), OBJECTIVES[3]]), st.floats(0.1, 50))
def test_linear_objectives_are_linear_between_their_kinks(objective: Objective, most: float) -> None:
    kinks = objective.kinks(one(most))
    assert kinks is not None
    points = [0.0, *(kink[0] for kink in kinks), most]
    for left, right in pairwise(points):
        ends = worth(objective, np.array([left, right]))
        middle = worth(objective, one((left + right) / 2))[0]
        assert middle == pytest.approx(ends.mean(), abs=1e-12)


def test_known_values() -> None:
    x = np.array([1.0, 0.0, 3.0])
    assert Size().value(x) == 4
    assert Diversity().value(x) == pytest.approx(1 - np.exp(-1) + 1 - np.exp(-3))
    assert KL(np.array([39.0, 4, 7])).value(x) == pytest.approx(39 * np.log(2) + 7 * np.log(4))


def test_frequent_pairs_are_those_with_the_support_and_their_target_keeps_it() -> None:
    objective = Frequent.of(example(), support=7 / 50, total=10.0)
    assert objective.frequent.tolist() == [True, False, True]  # 39, 4 and 7 of 50: the boundary counts as frequent
    assert objective.target == pytest.approx([7.8, 1.4, 1.4], rel=1e-5)
    assert objective.value(objective.target) == 0
    assert objective.value(np.zeros(3)) == pytest.approx(-46 / 50)


def test_an_infrequent_pair_costs_nothing_below_the_support_and_twice_a_miss_beyond() -> None:
    objective = Frequent.of(example(), support=7 / 50, total=10.0)
    assert objective.target[1] / 10 < 7 / 50

    def value(*x: float) -> float:
        return objective.value(np.array(x))

    assert value(7.8, 0.0, 1.4) == value(7.8, 1.39, 1.4) == pytest.approx(0, abs=1e-12)
    assert value(7.8, 2.4, 1.4) == pytest.approx(-2 * 0.1, rel=1e-4)
    assert value(8.8, 0.0, 1.4) == pytest.approx(-0.1)


@pytest.mark.parametrize(("support", "total"), [(0.0, 1.0), (1.5, 1.0), (0.1, 0.0), (0.1, -2.0), (float("nan"), 1.0)])
def test_frequent_refuses_what_makes_no_sense(support: float, total: float) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        Frequent.of(example(), support, total)
