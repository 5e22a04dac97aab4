"""Policies: the paper's known answers, what F4 corrects, and jobs that promise what their numbers keep."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log, sqrt
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from searchveil.crowd.aggregate import Opened, publish
from searchveil.crowd.artifacts import Artifact, Search, fits, kind_named
from searchveil.crowd.choice import candidates, chance_of_publishing, sends
from searchveil.crowd.jobs import Job, JobError, read_job
from searchveil.crowd.policy import POLICIES, Policy, make_policy
from searchveil.errors import InputError
from searchveil.privacy import calibrate
from searchveil.privacy.noise import Source

LN10, USERS = log(10), 657_426
DELTA = 1 / (USERS + 1)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = KEY.public_key().public_bytes_raw()


def published_k(d: int) -> float:
    """k_u = 1 − d ln(2δ/d)/ε, as the paper has it."""
    return 1 - d * log(2 * DELTA / d) / LN10


def published_k_of_instances(d: int) -> float:
    """K = d(1 − ln(2δ/d)/ε), as Korolova et al. have it."""
    return d * (1 - log(2 * DELTA / d) / LN10)


def test_the_papers_table() -> None:
    """Nothing below 6.52; DP_u has d = 1 for k = 7-12, 2 for 13-18, 3 for 19-25; DP_a 7-13, 14-20, 21-28."""
    assert published_k(1) == pytest.approx(6.52, abs=0.005)
    assert [ceil(published_k(d)) for d in (1, 2, 3, 4)] == [7, 13, 19, 26]
    assert [ceil(published_k_of_instances(d)) for d in (1, 2, 3, 4)] == [7, 14, 21, 29]


def test_publishing_at_the_opening_threshold_is_not_private() -> None:
    """F4: with T = k the δ is 0.91 for ε = ln 10, d = 1, k = 7, where 5e-7 is claimed."""
    claimed = Policy("DP_u", 7, 1, 1.0, LN10, 5e-7, threshold=7)
    assert claimed.exact_delta() == pytest.approx(0.91, abs=0.001)
    with pytest.raises(InputError, match="promises 5e-07"):
        claimed.check()
    true = make_policy("DP_u", k=7, epsilon=LN10, delta=5e-7)
    assert true.threshold > 7
    assert true.exact_delta() <= 5e-7


def test_dp_u_is_section_one_with_the_first_threshold_k() -> None:
    policy = make_policy("DP_u", k=10, per_user=2, epsilon=1, delta=1e-6)
    first = make_policy("DP_u", k=2, per_user=2, epsilon=1, delta=1e-6)
    assert policy.threshold == first.threshold + 8 == 30 - 1 + 10  # section 1: τ' = T − 1 = 29 for τ = 1
    assert calibrate.approximate_delta(2.0, 2, policy.threshold - 1, 10) > 1e-6


def test_dp_a_counts_what_one_user_may_heap_on_one_artifact() -> None:
    policy = make_policy("DP_a", k=10, per_user=3, epsilon=3, delta=1e-6)
    assert policy.threshold > make_policy("DP_u", k=10, per_user=3, epsilon=3, delta=1e-6).threshold
    assert replace(policy, threshold=policy.threshold - 1).exact_delta() > 1e-6


@pytest.mark.slow
def test_st_u_takes_the_smallest_threshold_and_allows_for_liars() -> None:
    assert make_policy("ST_u", epsilon=1, delta=1e-6).k == 8
    assert make_policy("ST_u", epsilon=1, delta=1e-6, p=0.2, per_user=3).k == 13
    assert make_policy("ST_u", epsilon=1, delta=1e-6, colluding=4).k == 12
    with pytest.raises(InputError, match="has delta"):
        make_policy("ST_u", epsilon=1, delta=1e-6, k=7)
    with pytest.raises(InputError, match="has delta"):
        replace(make_policy("ST_u", epsilon=1, delta=1e-6), p=0.2).check()


@pytest.mark.slow
def test_a_liar_counts_with_all_its_tokens() -> None:
    """Nothing ties a member's d tokens to different artifacts, so two liars of d = 3 are six shares."""
    alone = make_policy("ST_u", epsilon=1, delta=1e-6, per_user=3)
    made = make_policy("ST_u", epsilon=1, delta=1e-6, per_user=3, colluding=2)
    assert made.k == alone.k + 6
    with pytest.raises(InputError, match="has delta"):
        replace(made, k=made.k - 1).check()
    assert "up to s·d" in " ".join(made.guarantee().caveats)


@pytest.mark.parametrize("colluding", [-6, 0.5])
def test_a_number_of_liars_that_is_none_is_refused_by_clients_too(colluding: int) -> None:
    """A negative one would let k = 2 claim a δ of 1e-6."""
    honest = make_policy("ST_u", epsilon=1, delta=1e-6)
    weak = replace(honest, k=2, colluding=colluding)
    text = replace(job(), policy=weak).text
    document = json.dumps({"job": text, "signature": KEY.sign(b"searchveil crowd job v1\n" + text.encode()).hex()})
    with pytest.raises(InputError, match="colluding"):
        read_job(document, SIGNER)
    with pytest.raises(InputError, match="colluding"):
        make_policy("ST_u", epsilon=1, delta=1e-6, colluding=colluding)


def test_guarantees_say_who_is_trusted() -> None:
    st, dp = make_policy("ST_u", epsilon=1, delta=1e-6), make_policy("DP_u", epsilon=1, delta=1e-6)
    assert (st.guarantee().trust, dp.guarantee().trust) == ("nobody", "server")
    assert any("invitations" in one for one in st.guarantee().caveats)
    assert make_policy("FT_u").guarantee().notion == "none"


@pytest.mark.parametrize("name", POLICIES)
def test_every_promise_has_its_proof(name: str) -> None:
    epsilon, delta = (None, None) if name.startswith("FT") else (1.0, 1e-6)
    path, _, anchor = make_policy(name, epsilon=epsilon, delta=delta).guarantee().proof.partition("#")
    titles = re.findall(r"^## (.*)$", (Path(__file__).parents[2] / path).read_text(), re.MULTILINE)
    assert anchor in [title.lower().replace(" ", "-") for title in titles]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"name": "FT_x"}, "no policy"),
        ({"name": "ST_u"}, "needs its promise"),
        ({"name": "FT_u", "epsilon": 1.0}, "promises no epsilon"),
        ({"name": "DP_u", "p": 0.1, "epsilon": 1.0, "delta": 1e-6}, "only ST_u samples"),
        ({"name": "FT_u", "k": 1}, "k is 2 to 10,000"),
        ({"name": "DP_u", "colluding": 1, "epsilon": 1.0, "delta": 1e-6}, "only ST_u allows"),
    ],
)
def test_wrong_numbers_are_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_policy(**given)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "holders"),
    [
        (make_policy("ST_u", epsilon=2.0, delta=0.2, p=0.5), range(0, 30, 3)),
        (make_policy("DP_u", k=3, epsilon=1.0, delta=0.01), range(0, 16, 2)),
        (make_policy("FT_u", k=3), (2, 3, 9)),
    ],
)
def test_the_chance_of_publishing_is_that_of_coins_and_noise(policy: Policy, holders: Sequence[int]) -> None:
    """4,000 releases by the crowd's own code; each comparison is wrong with a probability below 1e-5 over keys."""
    asked, runs = job(policy), 4_000
    for number in holders:
        texts = [f"text {i}" for i in range(runs)]
        senders = [sum(sends(asked, bytes([i]) * 32, text) for i in range(number)) for text in texts]
        opened = [Opened(text, n) for text, n in zip(texts, senders, strict=True) if n >= policy.k]
        found = publish(asked, opened, source=Source(bytes(32))).table.num_rows
        chance = chance_of_publishing(policy, number)
        assert abs(found - runs * chance) <= 4.5 * sqrt(runs * chance * (1 - chance)) + 1e-6, number


# --- jobs ---


def job(policy: Policy | None = None, **changes: object) -> Job:
    made = Job("club", "query", policy or make_policy("ST_u", epsilon=1, delta=1e-6), 3, "aa", "cc", "bb", 100, 200)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_signed_job_comes_back() -> None:
    document = job().sign(KEY.private_bytes_raw())
    assert read_job(document, SIGNER, now=150) == job()
    assert len(job().id) == 16
    assert job().id != job(epoch=4).id


def test_forged_and_expired_jobs_are_refused() -> None:
    document = job().sign(KEY.private_bytes_raw())
    other = Ed25519PrivateKey.generate().private_bytes_raw()
    record = json.loads(document)
    weaker = json.dumps(record | {"job": record["job"].replace('"k":8', '"k":2')})
    for forged in (job().sign(other), weaker, "{}", "nonsense", json.dumps(record | {"signature": "zz"})):
        with pytest.raises(JobError, match="not signed"):
            read_job(forged, SIGNER)
    for now in (99, 200, 10**10):
        with pytest.raises(JobError, match="not open now"):
            read_job(document, SIGNER, now)


def test_a_signed_job_with_a_false_promise_is_refused_by_clients() -> None:
    """A server that signs numbers which do not keep its promise, or words that say something else."""
    weak = replace(job().policy, k=3)
    text = replace(job(), policy=weak).text
    document = json.dumps({"job": text, "signature": KEY.sign(b"searchveil crowd job v1\n" + text.encode()).hex()})
    with pytest.raises(InputError, match="has delta"):
        read_job(document, SIGNER)
    nicer = job().text.replace("Encrypted:", "Nothing but")
    document = json.dumps({"job": nicer, "signature": KEY.sign(b"searchveil crowd job v1\n" + nicer.encode()).hex()})
    with pytest.raises(JobError, match="words"):
        read_job(document, SIGNER)


def test_the_words_name_every_number() -> None:
    words = " ".join(job().words().values())
    assert "at most 1 of them" in words
    assert "10 times in 100" in words
    assert "reports of 8 different people" in words
    assert "e^1" in words
    assert "0.000001" in words or "1e-06" in words or "1e-6" in words
    noisy = make_policy("DP_u", k=5, epsilon=1, delta=1e-6)
    assert str(noisy.threshold) in job(noisy).words()["public"]


def test_the_words_speak_of_people_only_where_people_count() -> None:
    """Under FT_a one person's repetitions open an artifact and its spelling."""
    words = job(make_policy("FT_a"), secondary_k=2).words()
    assert "2 searches have it typed in the same way" in words["public"]
    assert "people" not in " ".join(words.values())
    assert "2 people typed it" in job(make_policy("FT_u"), secondary_k=2).words()["public"]


def test_spellings_are_for_fixed_thresholds_alone() -> None:
    with pytest.raises(JobError, match="spellings"):
        job(secondary_k=3).check()
    job(make_policy("FT_u"), secondary_k=3).check()


# --- artifacts ---


def test_a_submission_with_several_clicks_is_one_query() -> None:
    clicks = [Search("a", 1.0, "u1", 1), Search("a", 1.0, "u2", 2), Search("a", 2.0)]
    assert [one.text for one in kind_named("query").extract(clicks, False)] == ["a", "a"]


def test_reformulations_end_with_the_session() -> None:
    searches = [Search("a", 0.0), Search("b", 1800.0), Search("c", 1800.0 + 1801), Search("no time")]
    assert [one.text for one in kind_named("reformulation").extract(searches, False)] == ["a\tb"]


@pytest.mark.parametrize(
    ("url", "cut"),
    [
        ("https://Cats.example/a?b", "cats.example"),
        ("https://me:secret@bank.example:8443/?x@y", "bank.example"),
        ("HTTP://h.example", "h.example"),
        ("//h.example/x", "h.example"),
        ("shop.example:80/cart?me@home", "shop.example"),
        ("http://[2001:DB8::1]:80/x", "[2001:db8::1]"),
        ("mailto:bob@mail.example", "mail.example"),
        ("no-address", "no-address"),
        ("http://[broken", "[broken"),
        ("/only/a/path", ""),
    ],
)
def test_of_an_address_the_domain_only(url: str, cut: str) -> None:
    """No user, no password, no path: that is what the job's words say."""
    found = list(kind_named("query-url").extract([Search("a", 1.0, url)], True))
    assert [one.text for one in found] == [f"a\t{cut}"] * bool(cut)


def test_what_does_not_fit_is_left_out() -> None:
    assert not fits(Artifact("", " "))
    assert not fits(Artifact("ü" * 128, ""))
    assert fits(Artifact("ü" * 127, ""))
    one_of_two = [Search("x" * 255), Search("X" * 255), Search("short"), Search("other")]
    found = candidates(job(make_policy("FT_u", per_user=1)), one_of_two)
    assert ([one.text for one in found.taken], found.beyond, found.too_long) == (["short"], 1, 1)


# --- limits ---


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"k": 10**9}, "k is 2 to 10,000"),
        ({"k": 10_001}, "k is 2 to 10,000"),
        ({"per_user": 10_001}, "1 to 10,000 artifacts"),
        ({"p": 0.5}, "only ST_u samples"),
    ],
)
def test_a_job_that_would_stop_clients_is_refused(changes: dict[str, object], problem: str) -> None:
    """Shares of a polynomial of a huge degree: at making a job, and at reading a signed one."""
    policy = replace(make_policy("FT_u"), **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=problem):
        policy.check()
    with pytest.raises(InputError, match=problem):
        job(policy).sign(KEY.private_bytes_raw())
    with pytest.raises(InputError, match=problem):
        read_job(signed(job(policy).text), SIGNER)
    replace(policy, k=10_000, per_user=10_000, p=1.0).check()


def test_a_spelling_that_too_many_must_share_is_refused() -> None:
    with pytest.raises(JobError, match="2 to 10,000"):
        read_job(signed(job(make_policy("FT_u"), secondary_k=10_001).text), SIGNER)
    job(make_policy("FT_u"), secondary_k=10_000).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"k": 1_999, "p": 1e-9, "epsilon": 1e-8},
        {"k": 10_000, "p": 1e-9, "epsilon": 1e-8, "per_user": 20},
        {"k": 10_000, "p": 1e-300, "epsilon": 1e-300},
        {"p": 5e-324},
        {"epsilon": 1e308},
        {"epsilon": float("inf")},
        {"p": "0.1"},
        {"p": None},
        {"epsilon": "1"},
        {"delta": float("nan")},
        {"k": 8.0},
        {"k": True},
        {"per_user": [1]},
        {"name": ["ST_u"]},
        {"name": {}},
    ],
)
def test_no_numbers_of_a_job_stop_a_client(changes: dict[str, object]) -> None:
    """Whatever a server has signed, a client answers soon: with an error it knows, or a promise that holds."""
    record = json.loads(job().text)
    record["policy"] |= changes
    try:
        found = read_job(signed(json.dumps(record)), SIGNER)
    except InputError:
        return
    assert found.policy.exact_delta() <= 1e-6


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '"x"', "[" * 100_000, '{"version": 1}', '{"version": 1, "words": {}}']
)
def test_a_signed_document_that_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(JobError, match="not the document"):
        read_job(signed(text), SIGNER)


def signed(text: str) -> str:
    return json.dumps({"job": text, "signature": KEY.sign(b"searchveil crowd job v1\n" + text.encode()).hex()})
