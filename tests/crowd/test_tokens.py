"""One enrolled member has one batch of tokens; nobody else has any. The paper's four attackers and bob."""

import pytest
from local import LocalCrowd

from searchveil.crowd.client import CrowdError
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import make_policy
from searchveil.crowd.randomness import BATCH
from searchveil.crowd.relay import ANSWER_BYTES
from searchveil.crowd.report import dummy, fresh_number, make_report, primary_input, seal
from searchveil.crowd.store import ACCEPTED, REFUSED
from searchveil.crowd.tokens import Request, credential, is_genuine, new_invitation
from searchveil.crypto import voprf


def post(crowd: LocalCrowd, reports: list[bytes]) -> list[int]:
    """Sent by hand through the relay, as an attacker would; the statuses."""
    relay = crowd.community.relays[0]
    body = b"".join(seal(one, crowd.community.server_key, [(relay.number, relay.key)]) for one in reports)
    answer = crowd.http.post(f"{relay.url}/reports/1", content=body)
    assert answer.status_code == 200
    return list(answer.content[::ANSWER_BYTES])


def attack(crowd: LocalCrowd, job: Job, tokens: list[bytes], text: str = "bob") -> list[int]:
    """A share of `text` for each token, each with a number of its own. The attacker may evaluate the OPRF."""
    private, _ = crowd.randomness._keys(job.epoch)
    output = voprf.output(private, primary_input(job.id, text))
    made = [make_report(job.id, text, output, job.policy.k, fresh_number(), token) for token in tokens]
    return post(crowd, [one.to_bytes() for one in made])


def batch(crowd: LocalCrowd, job: Job, invitation: str, number: int) -> list[bytes]:
    request = Request.fresh(number)
    url = f"{crowd.community.server}/tokens/{job.id.hex()}"
    shown = {"Authorization": f"Bearer {credential(invitation, 'server')}"}
    answer = crowd.http.post(url, content=request.body, headers=shown)
    return request.tokens(bytes.fromhex(job.token_key), answer.content) if answer.status_code == 200 else []


def test_four_attackers_without_invitations_do_not_find_bob(crowd: LocalCrowd) -> None:
    """k = 5, one person typed "bob", four attackers want to know: without enrolment their shares are refused."""
    job = crowd.job(make_policy("FT_u", k=5, per_user=1))
    crowd.run(crowd.member("victim", ["bob"]), job)
    assert batch(crowd, job, new_invitation(), 1) == []
    made_up = [bytes(96), Request.fresh(1).nonces[0] + bytes(64)]
    assert attack(crowd, job, made_up * 2) == [REFUSED] * 4
    assert crowd.counts(job) == {}


def test_one_enrolled_attacker_is_one_share(crowd: LocalCrowd) -> None:
    """With one artifact per member, a member who lies has one share, whatever its share numbers."""
    job = crowd.job(make_policy("FT_u", k=5, per_user=1))
    crowd.run(crowd.member("victim", ["bob"]), job)
    invitation = crowd.invite()[0]
    assert batch(crowd, job, invitation, 4) == []  # more than its batch
    (token,) = batch(crowd, job, invitation, 1)
    assert batch(crowd, job, invitation, 1) == []
    assert sorted(attack(crowd, job, [token] * 4)) == [ACCEPTED, REFUSED, REFUSED, REFUSED]
    assert crowd.counts(job) == {}


def test_four_enrolled_attackers_find_bob_under_ft_u_and_not_under_st_u(crowd: LocalCrowd) -> None:
    """What remains possible: k − 1 members who conspire. ST_u can allow for them."""
    job = crowd.job(make_policy("FT_u", k=5, per_user=1))
    crowd.run(crowd.member("victim", ["bob"]), job)
    for invitation in crowd.invite(4):
        attack(crowd, job, batch(crowd, job, invitation, 1))
    assert crowd.counts(job) == {"bob": 5}
    sampled = crowd.job(make_policy("ST_u", epsilon=1, delta=1e-6, colluding=4))
    assert sampled.policy.k == 12
    assert sampled.policy.exact_delta() <= 1e-6  # whatever four liars add


def test_a_batch_can_be_asked_for_again_but_not_another_one(crowd: LocalCrowd) -> None:
    """The answer may have been lost; the same question has the same tokens as its answer."""
    job, invitation = crowd.job(make_policy("FT_u", k=2, per_user=2)), crowd.invite()[0]
    request = Request.fresh(2)
    url = f"{crowd.community.server}/tokens/{job.id.hex()}"
    shown = {"Authorization": f"Bearer {credential(invitation, 'server')}"}
    answers = [crowd.http.post(url, content=request.body, headers=shown).content for _ in range(2)]
    first, second = (request.tokens(bytes.fromhex(job.token_key), one) for one in answers)
    assert first == second
    assert crowd.http.post(url, content=Request.fresh(1).body, headers=shown).status_code == 400
    assert Request.from_text(request.to_text()) == request


def test_a_token_of_another_job_is_refused(crowd: LocalCrowd) -> None:
    one, other = crowd.job(make_policy("FT_u", k=2)), crowd.job(make_policy("FT_u", k=3))
    (token,) = batch(crowd, one, crowd.invite()[0], 1)
    assert attack(crowd, other, [token]) == [REFUSED]
    assert attack(crowd, one, [token]) == [ACCEPTED]


def test_the_issuer_cannot_tell_whose_token_it_is(crowd: LocalCrowd) -> None:
    """What it saw at issue and what comes back have nothing in common: any pair fits, by some blind."""
    job = crowd.job(make_policy("FT_u", k=2))
    request = Request.fresh(1)
    url, invitation = f"{crowd.community.server}/tokens/{job.id.hex()}", crowd.invite()[0]
    shown = {"Authorization": f"Bearer {credential(invitation, 'server')}"}
    answer = crowd.http.post(url, content=request.body, headers=shown)
    (token,) = request.tokens(bytes.fromhex(job.token_key), answer.content)
    assert token[:32] not in request.body + answer.content
    assert is_genuine(crowd.server.open_jobs()[job.id][1], token)


def test_the_randomness_server_answers_tokens_alone_and_each_once(crowd: LocalCrowd) -> None:
    job, invitation = crowd.job(make_policy("FT_u", k=2)), crowd.invite()[0]
    url = f"{crowd.community.randomness}/evaluate/{job.epoch}"
    element = voprf.blind(b"guess").element
    assert crowd.http.post(url, content=bytes(96) + element).status_code == 400
    request = Request.fresh(1)
    shown = {"Authorization": f"Bearer {credential(invitation, 'randomness')}"}
    answer = crowd.http.post(f"{crowd.community.randomness}/tokens/{job.epoch}", content=request.body, headers=shown)
    key = crowd.randomness._keys(job.epoch)[1]
    (token,) = request.tokens(voprf.public_of(key), answer.content)
    assert crowd.http.post(url, content=token + element).status_code == 200
    assert crowd.http.post(url, content=token + element).status_code == 200  # the same question again
    assert crowd.http.post(url, content=token + voprf.blind(b"another").element).status_code == 400
    assert crowd.http.post(url, content=token + element * (BATCH + 1)).status_code == 413


def test_the_servers_credential_is_of_no_use_at_the_randomness_server(crowd: LocalCrowd) -> None:
    job, invitation = crowd.job(make_policy("FT_u", k=2)), crowd.invite()[0]
    shown = {"Authorization": f"Bearer {credential(invitation, 'server')}"}
    url = f"{crowd.community.randomness}/tokens/{job.epoch}"
    assert crowd.http.post(url, content=Request.fresh(1).body, headers=shown).status_code == 401


def test_dummies_are_taken_and_count_nowhere(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=2))
    assert post(crowd, [dummy(job.id), dummy(job.id)]) == [ACCEPTED, ACCEPTED]
    assert crowd.server.store.count_reports(job.id) == 0


def test_a_relay_that_sends_again_does_not_learn_which_reports_are_true(crowd: LocalCrowd) -> None:
    """While the job is open all are taken; after its end all are refused, dummies like the others."""
    job = crowd.job(make_policy("FT_u", k=2))
    crowd.run(crowd.member("a", ["x", "y", "z"]), job)
    bodies = [body for host, path, body in crowd.network.seen if (host, path) == ("server", "/reports/0")]

    def answers() -> set[int]:
        again = [crowd.http.post("http://server/reports/0", content=body).content for body in bodies]
        return {status for one in again for status in one[::ANSWER_BYTES]}

    assert answers() == {ACCEPTED}
    crowd.server.store.close_job(job.id)
    assert answers() == {REFUSED}


def test_a_client_without_a_valid_invitation_is_told(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=2))
    with pytest.raises(CrowdError, match="no member"):
        crowd.run(crowd.member("stranger", ["a"], invitation=new_invitation()), job)


def test_who_knows_a_members_secret_does_not_know_its_blinds(crowd: LocalCrowd) -> None:
    """Whoever made the invitation may know the secret: with the blinds it could test guesses about what was asked."""
    secret, token = bytes(32), bytes(96)
    laptop, phone = (crowd.member(name, ["a"], secret=secret) for name in ("laptop", "phone"))
    assert laptop._drawn(token, 0) != phone._drawn(token, 0)
    assert len({laptop._drawn(token, i) for i in range(64)}) == 64
    again = crowd.member("laptop", [], secret=secret)  # a run that was stopped asks the same question
    assert again._drawn(token, 0) == laptop._drawn(token, 0)


def test_tokens_under_another_key_than_the_jobs_are_found_out(crowd: LocalCrowd) -> None:
    """A token key for one victim alone would mark this victim's evaluations."""
    import sqlite3

    job = crowd.job(make_policy("FT_u", k=2))
    private = voprf.generate()
    with sqlite3.connect(crowd.home / "randomness.sqlite") as file:
        changed = (private, voprf.public_of(private), job.epoch)
        file.execute("UPDATE epoch SET token_private = ?, token_public = ? WHERE number = ?", changed)
    file.close()
    with pytest.raises(CrowdError, match="other keys"):
        crowd.run(crowd.member("victim", ["a"]), job)


def test_a_randomness_server_with_another_key_is_found_out(crowd: LocalCrowd) -> None:
    """A key for one victim alone would mark this victim's reports."""
    import sqlite3

    job = crowd.job(make_policy("FT_u", k=2))
    victim = crowd.member("victim", ["a"])
    crowd.stop("randomness")
    with sqlite3.connect(crowd.home / "randomness.sqlite") as file:
        file.execute("UPDATE epoch SET oprf_private = ? WHERE number = ?", (voprf.generate(), job.epoch))
    crowd.start("randomness")
    with pytest.raises(voprf.VoprfError, match="proof"):
        crowd.run(victim, job)
    assert crowd.server.store.count_reports(job.id) == 0
