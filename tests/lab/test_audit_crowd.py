"""The audit does not refute the crowd's promises, and refutes the two mistakes that are easiest to make."""

from dataclasses import replace
from math import log

import pytest

from searchveil.crowd.policy import make_policy
from searchveil.errors import InputError
from searchveil.lab.audit.crowd import audit_policy
from searchveil.privacy.noise import Source

# Each test is wrong with a probability of at most 5 % over keys; the key is fixed, so it is right or wrong for good.
KEY = bytes(range(32))


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"name": "ST_u", "epsilon": 1.0, "delta": 0.01, "p": 0.2},
        {"name": "ST_u", "epsilon": 1.0, "delta": 0.02, "p": 0.2, "per_user": 2},
        {"name": "DP_u", "epsilon": 1.0, "delta": 0.01, "k": 3},
    ],
)
def test_true_promises_are_not_refuted(given: dict[str, object]) -> None:
    policy = make_policy(**given)  # type: ignore[arg-type]
    report = audit_policy(policy, runs=6000, source=Source(KEY))
    assert not report.refuted, str(report)


@pytest.mark.slow
def test_a_promise_that_is_a_little_too_good_is_refuted() -> None:
    """So that the test above can fail: the same release with a fifth of its δ claimed."""
    policy = make_policy("ST_u", epsilon=1, delta=0.05, p=0.2)
    report = audit_policy(policy, claimed=replace(policy, delta=0.01), runs=6000, source=Source(KEY))
    assert report.refuted, str(report)


@pytest.mark.slow
def test_a_coin_twice_as_likely_is_refuted() -> None:
    promised = make_policy("ST_u", epsilon=1, delta=0.01, p=0.2)
    report = audit_policy(replace(promised, p=0.4), claimed=promised, runs=6000, source=Source(KEY))
    assert report.refuted, str(report)
    assert report.refuted_by == ("last of k",)


@pytest.mark.slow
def test_publishing_at_the_opening_threshold_is_refuted() -> None:
    """F4, the paper's own: k = 7, ε = ln 10, d = 1 claims 1/(n+1)."""
    promised = make_policy("DP_u", k=7, epsilon=log(10), delta=1 / 657_427)
    report = audit_policy(replace(promised, threshold=7), claimed=promised, runs=1000, source=Source(KEY))
    assert report.refuted, str(report)


def test_too_few_releases_are_refused() -> None:
    with pytest.raises(InputError, match=r"12 runs cannot refute ε = 1: .* take at least 48 runs"):
        audit_policy(make_policy("ST_u", epsilon=1, delta=0.01, p=0.2), runs=12)


def test_fixed_thresholds_claim_nothing() -> None:
    with pytest.raises(InputError, match="nothing to audit"):
        audit_policy(make_policy("FT_u"))
