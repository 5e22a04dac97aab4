"""Erratum S2 at work: the paper's click release is refuted by a dozen runs, ours is not."""

import json

import pytest
from keyed import keyed

from searchveil.errors import InputError
from searchveil.lab.attacks.safelog_clicks import ClickAttack, Outcome, attack_safelog_clicks
from searchveil.lab.estimate import epsilon_proved
from searchveil.privacy import safelog

RUNS = 12


@pytest.fixture(scope="module")
def attack() -> ClickAttack:
    return attack_safelog_clicks(runs=RUNS, source=keyed(b"attack"))


@pytest.mark.slow
def test_the_papers_release_is_distinguished_far_beyond_its_epsilon(attack: ClickAttack) -> None:
    paper, _ = attack.outcomes
    assert paper.claimed_epsilon == pytest.approx(safelog.click_epsilon(1, 1, 10, 10))
    assert paper.claimed_epsilon == pytest.approx(0.427, abs=0.001)
    assert paper.claimed_delta == 0
    assert (paper.seen_with_victim, paper.seen_without_victim) == (RUNS, 0)
    assert paper.epsilon_at_least == pytest.approx(epsilon_proved(RUNS, RUNS, 0, RUNS, 0.0))
    assert paper.refuted


@pytest.mark.slow
def test_ours_with_the_same_epsilon_is_not(attack: ClickAttack) -> None:
    paper, ours = attack.outcomes
    assert ours.claimed_epsilon == pytest.approx(paper.claimed_epsilon)
    assert ours.claimed_delta == 1e-6
    assert (ours.seen_with_victim, ours.seen_without_victim) == (0, 0)
    assert not ours.refuted


def test_the_paper_can_hide_the_click_only_with_the_query() -> None:
    """At a threshold that the popular query does not pass nothing is released, so nothing is refuted."""
    paper, _ = attack_safelog_clicks(runs=1, above=5_000, noise_scale=10, source=keyed(b"high")).outcomes
    assert (paper.seen_with_victim, paper.seen_without_victim) == (0, 0)
    assert not paper.refuted


def test_the_verdict_compares_what_is_proved_with_what_is_claimed() -> None:
    at = {"mechanism": "m", "claimed_delta": 0.0, "seen_with_victim": 5, "seen_without_victim": 0, "runs": 5}
    assert Outcome(**at, claimed_epsilon=0.4, epsilon_at_least=0.5).refuted  # type: ignore[arg-type]
    assert not Outcome(**at, claimed_epsilon=0.5, epsilon_at_least=0.5).refuted  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_result_is_plain_json_and_two_lines(attack: ClickAttack) -> None:
    record = json.loads(json.dumps(attack.to_json()))
    assert [outcome["refuted"] for outcome in record["outcomes"]] == [True, False]
    first, second = str(attack).splitlines()
    assert first.endswith(" REFUTED.")
    assert f"{RUNS} of {RUNS} releases with the victim, 0 without" in first
    assert second.endswith(" not refuted.")


def test_no_runs_prove_nothing_and_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 run, not 0"):
        attack_safelog_clicks(runs=0)
