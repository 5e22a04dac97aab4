"""Members who lie: what false shares, and true shares of what was never typed, do to what is opened and published."""

from dataclasses import replace

import numpy as np
import pytest
from local import LocalCrowd
from test_tokens import batch, post

from searchveil.crowd.aggregate import Opened, publish
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy, make_policy
from searchveil.crowd.report import make_report, primary_input
from searchveil.crypto import shamir, voprf
from searchveil.privacy import calibrate
from searchveil.privacy.noise import Source
from searchveil.privacy.sample_threshold import sample_threshold_delta

SECRET = bytes(range(32))


def opened(k: int, true: int, false: int) -> int | None:
    """How many true shares are counted of a group with so many true and false ones; None if it stays closed."""
    points = [(x, shamir.share(SECRET, k, x) ^ (x > true)) for x in range(1, true + false + 1)]
    found = shamir.open_group(points[::-1], k, SECRET.__eq__)
    return None if found is None else sum(found[1])


def published(policy: Policy, count: int | None, key: int) -> bool:
    job = Job("c", "query", policy, 0, "", "", "", 0, 1)
    found = [] if count is None else [Opened("a", count)]
    return publish(job, found, source=Source(key.to_bytes(32, "big"))).table.num_rows == 1


def send(crowd: LocalCrowd, job: Job, text: str, number: int, *, false: bool) -> None:
    """One member who spends so many tokens on one artifact."""
    private, _ = crowd.randomness._keys(job.epoch)
    output = voprf.output(private, primary_input(job.id, text))
    tokens = batch(crowd, job, crowd.invite()[0], number)
    made = [make_report(job.id, text, output, job.policy.k, x, token) for x, token in enumerate(tokens, 1)]
    assert post(crowd, [replace(one, y=one.y ^ false).to_bytes() for one in made]) == [0] * number


@pytest.mark.slow
def test_false_shares_decide_about_a_noisy_policy_and_not_about_st_u() -> None:
    """20 of them, and the 70th true sender decides alone whether an artifact is published: δ is near 1, not 1e-6."""
    policy, false = make_policy("DP_u", k=50, epsilon=1, delta=1e-6), 20
    assert policy.threshold - policy.k < false
    assert [opened(50, true, false) for true in (50, 69, 70, 71)] == [None, None, 70, 71]
    with_her, without = ([published(policy, count, key) for key in range(100)] for count in (70, None))
    assert np.mean(with_her) > 0.95
    assert not any(without)
    # As the record says: the δ of a threshold that is lower by e.
    lower = [calibrate.approximate_delta(1.0, 1, policy.threshold - e, 50) for e in (0, 5, 13)]
    assert lower[0] <= 1e-6 < lower[1] < 0.001 < lower[2]
    assert any("false shares" in one and "near 1" in one for one in policy.guarantee().caveats)
    # Under ST_u what hangs on her is only that a count from 70 on comes out, which is a higher threshold than k.
    sampled = make_policy("ST_u", epsilon=1, delta=1e-6, k=50)
    assert sample_threshold_delta(1, sampled.p, 70) <= sampled.exact_delta() <= 1e-6
    assert not any("near 1" in one for one in sampled.guarantee().caveats)


def test_a_false_share_is_never_counted() -> None:
    for true, false in ((3, 0), (5, 1), (9, 4), (40, 15)):
        assert opened(3, true, false) == true
    assert opened(3, 2, 10) is None


@pytest.mark.slow
def test_one_member_can_hold_back_what_it_knows(crowd: LocalCrowd) -> None:
    """With 40 tokens spent on false shares; what it does not know it cannot touch."""
    job = crowd.job(make_policy("FT_u", k=5, per_user=40))
    for i in range(5):
        crowd.run(crowd.member(str(i), ["known", "unknown"]), job)
    send(crowd, job, "known", 40, false=True)
    assert crowd.counts(job) == {"unknown": 5}
    assert any("hold back" in one for one in job.policy.guarantee().caveats)


@pytest.mark.parametrize("name", ["DP_u", "DP_a", "FT_u"])
def test_shares_of_what_a_member_never_typed_count_as_often_as_it_has_tokens(crowd: LocalCrowd, name: str) -> None:
    promise = (3.0, 0.01) if name.startswith("DP") else (None, None)
    job = crowd.job(make_policy(name, k=4, per_user=3, epsilon=promise[0], delta=promise[1]))
    crowd.run(crowd.member("victim", ["rare"]), job)
    send(crowd, job, "rare", 3, false=False)
    assert crowd.counts(job) == {"rare": 4}
    assert any("s·d" in one for one in job.policy.guarantee().caveats)
