"""Who moves the counts too much, checked by solving from scratch without her."""

import numpy as np
import pytest
from click_logs import example, random_log

from searchveil.errors import InputError
from searchveil.optimize import sensitivity
from searchveil.optimize.highs import linear_program
from searchveil.optimize.program import ClickCounts, Sampler
from searchveil.optimize.sensitivity import _Program, bound_effects


def largest(counts: ClickCounts, sampler: Sampler, b: float) -> float:
    if not counts.pairs:
        return 0.0
    return linear_program(np.ones(counts.pairs), counts.exposure(sampler), b, np.full(counts.pairs, np.inf))[1]


def without(counts: ClickCounts, users: list[int]) -> ClickCounts:
    left = np.delete(counts.matrix.toarray(), users, axis=0)
    rows, columns = np.nonzero(left[:, (left > 0).sum(axis=0) >= 2])
    values = left[:, (left > 0).sum(axis=0) >= 2][rows, columns]
    return ClickCounts.of(np.unique(rows, return_inverse=True)[1], columns, values)


@pytest.mark.parametrize("sampler", ["multinomial", "poisson"])
def test_the_program_without_her_is_the_program_of_the_log_without_her(sampler: Sampler) -> None:
    """Changed in place and started warm, it has the optimum of the one that is built anew."""
    counts = random_log(1, users=25, pairs=30)
    program = _Program(counts, sampler, 0.7)
    assert program.x.sum() == pytest.approx(largest(counts, sampler, 0.7))
    gone: list[int] = []
    for user in (3, 0, 11):
        program.effect(user + 1)  # which must leave no trace
        program.remove(user)
        gone.append(user)
        assert program.x.sum() == pytest.approx(largest(without(counts, gone), sampler, 0.7))


def test_the_effect_of_a_user_on_whom_a_pair_depends() -> None:
    """Two users click one pair once each: x = b/(1/2) with both, and 0 with one."""
    counts = ClickCounts.of([0, 1], [0, 0], [1, 1])
    assert _Program(counts, "poisson", 0.5).effect(0) == pytest.approx(1)


def test_the_effect_of_a_user_of_a_shared_pair() -> None:
    """Three equal users: x = 3b with all, 2b with two."""
    counts = ClickCounts.of([0, 1, 2], [0, 0, 0], [1, 1, 1])
    assert _Program(counts, "poisson", 0.5).effect(2) == pytest.approx(0.5)


@pytest.mark.parametrize("d", [1.0, 2.0])
def test_nobody_who_is_left_moves_a_count_by_more_than_d(d: float) -> None:
    counts = random_log(2, users=40, pairs=30)
    assert max(_Program(counts, "poisson", 1.0).effect(user) for user in range(counts.users)) > d
    left = bound_effects(counts, "poisson", 1.0, d)
    assert 0 < len(left.users) < counts.users
    assert (left.effects <= d + 1e-6).all()
    assert (left.counts.users, left.counts.pairs) == (len(left.users), len(left.pairs))
    assert (left.counts.matrix.toarray() == counts.matrix.toarray()[np.ix_(left.users, left.pairs)]).all()
    assert ((left.counts.matrix > 0).sum(axis=0) >= 2).all()


def test_a_generous_d_keeps_everybody_and_none_at_all_keeps_few() -> None:
    counts = random_log(3, users=30, pairs=20)
    assert len(bound_effects(counts, "poisson", 1.0, 1e6).users) == counts.users
    assert len(bound_effects(example(), "poisson", 1.0, 0.0).users) == 0


def test_an_empty_log_stays_empty() -> None:
    left = bound_effects(ClickCounts.of([], [], []), "poisson", 1.0, 1.0)
    assert (left.counts.users, left.counts.pairs, len(left.effects)) == (0, 0, 0)


def test_progress_counts_up_to_everybody() -> None:
    heard: list[tuple[int, int]] = []
    bound_effects(example(), "poisson", 1.0, 1e6, progress=lambda done, users: heard.append((done, users)))
    assert heard == [(0, 3), (1, 3), (2, 3)]


def test_large_logs_and_senseless_bounds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="must not be negative"):
        bound_effects(example(), "poisson", 1.0, -1.0)
    monkeypatch.setattr(sensitivity, "MOST_USERS", 2)
    with pytest.raises(InputError, match="too many for 3 users"):
        bound_effects(example(), "poisson", 1.0, 1.0)
