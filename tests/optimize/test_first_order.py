"""The first-order method against HiGHS, against arithmetic of its own, and against lies."""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from click_logs import logs, random_log
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from searchveil.optimize import highs
from searchveil.optimize.first_order import ON_TOTAL, Packing, _Best, _root, solve
from searchveil.optimize.objectives import KL, Diversity, Frequent, Objective, Size
from searchveil.optimize.program import ClickCounts, Reals, Sampler

samplers = st.sampled_from(["multinomial", "poisson"])


def every_objective(counts: ClickCounts) -> list[tuple[Objective, float | None]]:
    """With the totals that they need, which fit at b = ln 2."""
    fits = 0.7 * solve(counts.exposure("multinomial"), log(2), Size(), tolerance=1e-3).objective
    return [(Size(), None), (Diversity(), None), (KL.of(counts), fits), (Frequent.of(counts, 0.01, fits), fits)]


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
@pytest.mark.parametrize("seed", range(4))
def test_the_size_is_the_one_that_highs_finds(sampler: Sampler, seed: int) -> None:
    exposure = random_log(seed).exposure(sampler)
    pairs = exposure.shape[1]
    _, best, _ = highs.linear_program(np.ones(pairs), exposure, 0.5, np.full(pairs, np.inf))
    ours = solve(exposure, 0.5, Size(), tolerance=1e-5)
    assert ours.gap <= 1e-5
    assert ours.objective <= best * (1 + 1e-7)
    assert ours.upper_bound >= best * (1 - 1e-7)


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("seed", range(3))
def test_every_objective_is_solved_within_the_tolerance_by_feasible_counts(kind: int, seed: int) -> None:
    counts = random_log(seed)
    exposure = counts.exposure("multinomial")
    objective, total = every_objective(counts)[kind]
    largest = np.asarray(solve(exposure, log(2), Size(), tolerance=1e-3).x, np.float64)
    found = solve(exposure, log(2), objective, tolerance=1e-4, total=total, largest=largest)
    scale = max(abs(found.upper_bound), abs(objective.value(np.zeros(counts.pairs))))
    assert 0 <= found.upper_bound - found.objective <= 1e-4 * scale
    assert (exposure @ found.x).max() <= log(2)
    assert found.x.min() >= 0
    assert found.objective == objective.value(np.asarray(found.x, np.float64))
    if total is not None:
        assert found.x.sum() == pytest.approx(total, rel=1e-12)


@given(logs(), samplers, st.floats(1e-6, 20))
@settings(deadline=None, max_examples=40)
def test_no_user_is_overexposed_and_the_physical_limit_holds(counts: ClickCounts, sampler: Sampler, b: float) -> None:
    """Summed over users, exposures are at least the counts, so that no output exceeds users × b."""
    found = solve(counts.exposure(sampler), b, Size(), tolerance=1e-3, steps=500)
    x = [Fraction(count) for count in found.x.tolist()]
    for row in counts.exposure(sampler).toarray().tolist():
        assert sum(Fraction(exposed) * count for exposed, count in zip(row, x, strict=True)) <= Fraction(b)
    assert found.objective <= counts.users * b
    assert found.objective <= found.upper_bound


@pytest.mark.slow
@given(logs(), st.lists(st.floats(0, 1e3), min_size=6, max_size=6), st.floats(0.05, 3), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_any_prices_bound_any_feasible_counts(counts: ClickCounts, prices: list[float], b: float, seed: int) -> None:
    """Weak duality is what the upper bound rests on: it must hold for prices from anywhere, and for every objective."""
    program = Packing.of(counts.exposure("poisson"), b)
    x = program.feasible(np.random.default_rng(seed).random(counts.pairs) ** 3)
    size = float(x.sum())
    objectives: list[tuple[Objective, float | None]] = [
        (Size(), None),
        (Diversity(), None),
        (KL.of(counts), size),
        (Frequent.of(counts, 0.1, size), size),
    ]
    for objective, total in objectives:
        best = _Best(program, objective, total, x)
        best.look(np.zeros(counts.pairs), np.array(prices[: counts.users]))
        assert best.upper >= objective.value(x)


@given(logs(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_counts_that_a_solver_made_up_become_feasible(counts: ClickCounts, seed: int) -> None:
    exposure = counts.exposure("multinomial")
    program = Packing.of(exposure, 1.0)
    shares: Reals = np.random.default_rng(seed).random(counts.pairs)
    assert (exposure @ program.feasible(shares)).max() <= 1.0
    largest = program.feasible(np.ones(counts.pairs))
    total = 0.9 * float(largest.sum())
    mixed = program.feasible(shares / 100, total, largest)
    assert mixed.sum() == pytest.approx(total)
    assert (exposure @ mixed).max() <= 1.0


def test_filling_never_takes_anything_away() -> None:
    program = Packing.of(random_log(1).exposure("poisson"), 1.0)
    within = program.within(np.full(len(program.most), 0.5))
    assert (program.filled(within) >= within * (1 - 1e-12)).all()
    assert program.filled(within).sum() > within.sum()


def test_a_solve_that_is_cut_short_still_tells_the_truth() -> None:
    exposure = random_log(2).exposure("multinomial")
    early, late = (solve(exposure, 1.0, Size(), tolerance=1e-6, steps=steps) for steps in (3, 20_000))
    assert early.gap > 1e-3
    assert (exposure @ early.x).max() <= 1.0
    assert early.objective <= late.upper_bound
    assert late.objective <= early.upper_bound


def test_users_who_hold_nothing_do_not_matter() -> None:
    exposure = random_log(3).exposure("poisson")
    padded = sparse.vstack([exposure, sparse.csr_array((2, exposure.shape[1]))], format="csr")
    plain, more = (solve(matrix, 1.0, Size(), tolerance=1e-4) for matrix in (exposure, padded))
    assert more.objective == pytest.approx(plain.objective, rel=2e-4)


def test_progress_is_told() -> None:
    heard: list[str] = []
    solve(random_log(0).exposure("poisson"), 1.0, Size(), tolerance=1e-3, progress=heard.append)
    assert heard[0].startswith("step 50: at least ")


def dominated(seed: int, users: int = 40, pairs: int = 30) -> ClickCounts:
    """Every pair is held nearly alone by one user, which is where logarithms of shares go wrong."""
    chance = np.random.default_rng(seed)
    rows = np.concatenate([chance.permutation(users)[:2] for _ in range(pairs)])
    counts = np.tile([999_999, 1], pairs)
    return ClickCounts.of(np.unique(rows, return_inverse=True)[1], np.repeat(np.arange(pairs), 2), counts)


def test_exposure_is_as_exact_for_who_holds_nearly_all() -> None:
    exposed = dominated(0).exposure("multinomial").data
    largest = float(exposed.max())
    assert abs(largest - log(1_000_000)) <= 2 * np.spacing(largest)


@pytest.mark.parametrize("b", [1e-6, 1e-22, 1e4])
@pytest.mark.parametrize("objective", [Size(), Diversity()])
def test_very_small_and_very_large_limits_are_solved_too(objective: Objective, b: float) -> None:
    counts = random_log(4)
    found = solve(counts.exposure("poisson"), b, objective, tolerance=1e-3)
    assert 0 < found.objective <= found.upper_bound <= found.objective * 1.0011


def test_kl_does_not_lose_small_counts_to_single_precision() -> None:
    counts = random_log(4)
    found = solve(counts.exposure("poisson"), 1e-6, KL.of(counts), tolerance=1e-3, steps=5_000)
    assert found.gap <= 0.01


def test_where_there_is_nothing_to_gain_nothing_is_divided_by_0() -> None:
    counts = random_log(4)
    pointless = Frequent(np.full(counts.pairs, 1e9), np.zeros(counts.pairs, bool), 1.0)
    found = solve(counts.exposure("poisson"), 1.0, pointless, tolerance=1e-3, steps=50)
    assert found.objective == 0 <= found.upper_bound < 1e-6


@given(st.floats(-50, 50), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(1e-6, 1e9))
def test_the_root_is_found_from_any_guess_and_slope(at: float, guess: float, steep: float, slope: float) -> None:
    """Of a falling function with flat ends, and the last place it was asked at is the answer."""
    asked = []

    def excess(price: float) -> float:
        asked.append(price)
        return float(-np.tanh(steep * (price - at) / 100) - 1e-9 * (price - at))

    found, new_slope = _root(excess, guess, -slope)
    assert asked[-1] == found
    assert abs(excess(found)) <= ON_TOTAL or abs(found - at) <= 1e-12 * max(1, abs(at))
    assert new_slope < 0
