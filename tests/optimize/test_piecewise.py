"""Chords from below, a known distance away: the cross-check of the concave solver."""

from math import log

import numpy as np
import pytest
from chords import error_of, piecewise
from click_logs import example, random_log

from searchveil.optimize.objectives import KL, Diversity, Objective, Size
from searchveil.optimize.program import Sampler
from searchveil.optimize.solve import relax


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["kl", "diversity"])
def test_the_concave_solver_agrees_within_the_error_of_the_pieces(sampler: Sampler, seed: int, kind: str) -> None:
    counts = random_log(seed)
    total = 0.6 * relax(counts, sampler, Size(), log(2)).objective if kind == "kl" else None
    objective: Objective = KL.of(counts) if kind == "kl" else Diversity()
    curved = relax(counts, sampler, objective, log(2), total=total, tolerance=1e-5)
    chords = piecewise(counts, sampler, objective, log(2), total=total)
    assert chords.objective <= curved.upper_bound
    assert curved.objective <= chords.objective + chords.error
    assert chords.objective <= objective.value(chords.x) * (1 + 1e-9) <= curved.upper_bound * (1 + 1e-6)


def test_finer_pieces_are_nearer() -> None:
    counts = random_log(8)
    coarse, fine = (piecewise(counts, "poisson", KL.of(counts), 1.0, total=5.0, ratio=ratio) for ratio in (1.5, 1.05))
    assert fine.error < coarse.error / 20
    assert coarse.objective < fine.objective <= coarse.objective + coarse.error


def test_the_error_of_one_chord_is_that_of_the_logarithm() -> None:
    """ln(1+x) on [0, 1]: as steep as the chord, ln 2, at 1 + x = 1/ln 2."""
    steepest = 1 / log(2)
    expected = 3 * (log(steepest) - log(2) * (steepest - 1))
    assert error_of(KL(np.array([3.0])), np.array([1.0]), []) == pytest.approx(expected)


def test_a_linear_objective_has_no_error() -> None:
    found = piecewise(example(), "poisson", Size(), 1.0)
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.objective == pytest.approx(relax(example(), "poisson", Size(), 1.0).objective)
