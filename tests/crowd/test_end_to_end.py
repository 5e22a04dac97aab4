"""What k people share comes out; what k − 1 share exists nowhere in a form that a guess could open."""

import sqlite3
from pathlib import Path

import pytest
from local import START, LocalCrowd

from searchveil.crowd.artifacts import Search
from searchveil.crowd.choice import central
from searchveil.crowd.client import Sent
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import make_policy
from searchveil.crowd.report import open_text, primary_input, secret_of, tag_of
from searchveil.crypto import shamir, voprf
from searchveil.errors import InputError


def test_k_users_open_and_fewer_do_not(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=3))
    for i in range(3):
        queries = ["Shared  Query", "shared by two"] if i < 2 else ["shared query", "only mine"]
        sent = crowd.run(crowd.member(str(i), queries), job)
        assert (sent.candidates, sent.reports, sent.refused) == (2, 2, 0)
    assert crowd.counts(job) == {"shared query": 3}


def everything_stored(home: Path) -> bytes:
    """All that the server keeps: its database with its log of changes, row by row and byte by byte."""
    with sqlite3.connect(home / "server.sqlite") as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = [value for table in tables for row in file.execute(f"SELECT * FROM {table}") for value in row]
    found = b"".join(value if isinstance(value, bytes) else str(value).encode() for value in values)
    return found + b"".join(path.read_bytes() for path in home.glob("server.sqlite*"))


def stored_tags(home: Path) -> list[tuple[bytes, bytes, bytes]]:
    with sqlite3.connect(home / "server.sqlite") as file:
        return file.execute("SELECT tag, primary_field, y FROM report").fetchall()


def test_a_guess_opens_nothing_without_the_randomness_key(crowd: LocalCrowd) -> None:
    """The server has all reports and a correct guess. It gets nowhere, until it has the epoch's key as well."""
    secret_query = "my rare illness"
    job = crowd.job(make_policy("FT_u", k=5))
    for i in range(4):
        crowd.run(crowd.member(str(i), [secret_query]), job)
    assert crowd.counts(job) == {}
    stored = everything_stored(crowd.home)
    assert secret_query.encode() not in stored
    rows = stored_tags(crowd.home)
    assert len(rows) == 4

    def guess_opens(output: bytes) -> bool:
        secret = secret_of(output)
        found = tag_of(secret)
        return any(
            tag == found or open_text(secret, primary) is not None or secret in stored or found in stored
            for tag, primary, _ in rows
        )

    asked = primary_input(job.id, secret_query)
    # Without the key: whatever key it tries, also its own private ones.
    for key in (voprf.generate(), crowd.server.private, voprf.derive_key(bytes(32), b"")):
        assert not guess_opens(voprf.output(key, asked))
    # With the key of the epoch a guess can be tested: that is why another organisation holds and destroys it.
    private, _ = crowd.randomness._keys(job.epoch)
    assert guess_opens(voprf.output(private, asked))
    assert not guess_opens(voprf.output(private, primary_input(job.id, "another guess")))
    # After the epoch nobody has it: it is neither in the randomness server's tables nor in its file.
    crowd.clock.now = (job.epoch + 1) * crowd.randomness.epoch_seconds + crowd.randomness.grace_seconds
    crowd.randomness.turn()
    with pytest.raises(InputError, match="destroyed"):
        crowd.randomness._keys(job.epoch)
    crowd.stop("randomness")
    assert private not in b"".join(path.read_bytes() for path in crowd.home.glob("randomness.sqlite*"))


def test_the_same_secret_in_another_job_looks_different(crowd: LocalCrowd) -> None:
    client = crowd.member("a", ["same"])
    one, other = crowd.job(make_policy("FT_u", k=2)), crowd.job(make_policy("FT_u", k=3))
    crowd.run(client, one)
    crowd.run(client, other)
    with sqlite3.connect(crowd.home / "server.sqlite") as file:
        rows = file.execute("SELECT tag, x, grp FROM report").fetchall()
    assert all(len(set(column)) == 2 for column in zip(*rows, strict=True))


def test_two_devices_of_one_user_count_as_one(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=2))
    invitation, secret = crowd.invite()[0], bytes(range(32))
    for device in ("laptop", "phone"):
        assert crowd.run(crowd.member(device, ["mine"], invitation=invitation, secret=secret), job).reports == 1
    assert crowd.server.store.count_reports(job.id) == 2
    assert crowd.counts(job) == {}
    crowd.run(crowd.member("another", ["mine"]), job)
    assert crowd.counts(job) == {"mine": 2}


def test_a_member_has_one_secret_on_all_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined with the same invitation, with or without a pass-phrase; and a pass-phrase alone tells nothing."""
    from searchveil.cli.crowd_client import client_join
    from searchveil.crowd import client
    from searchveil.crowd.config import Addresses, init
    from searchveil.crowd.own_log import OwnLog

    assert client.SCRYPT_N >= 2**17
    monkeypatch.setattr(client, "SCRYPT_N", 2**4)  # the derivation is the same, only faster
    init(tmp_path, "test", Addresses())

    def joined(machine: str, invitation: str, passphrase: str = "") -> str | None:
        client_join(tmp_path / "community.json", invitation, tmp_path / machine, passphrase)
        log = OwnLog(tmp_path / machine / "log.sqlite")
        secret = log.get("secret")
        log.close()
        return secret

    mine, other = "00" * 16, "11" * 16
    assert joined("laptop", mine) == joined("phone", mine)
    assert joined("tablet", mine, "word") == joined("watch", mine, "word")
    known = [joined("a", mine), joined("b", other), joined("c", mine, "word"), joined("d", other, "word")]
    assert len(set(known)) == 4


def test_two_devices_share_one_contribution_bound(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=2, per_user=3))
    invitation, secret = crowd.invite()[0], bytes(range(32))
    first = crowd.member("laptop", ["a", "b"], invitation=invitation, secret=secret)
    second = crowd.member("phone", ["c", "d", "e"], invitation=invitation, secret=secret)
    assert (crowd.run(first, job).reports, crowd.run(second, job).reports) == (2, 1)


def test_two_devices_that_begin_at_once_share_one_bound_too(crowd: LocalCrowd) -> None:
    """Each counts on tokens that the other takes: the second one begins again with what is left."""
    job = crowd.job(make_policy("FT_u", k=2, per_user=3))
    invitation, secret = crowd.invite()[0], bytes(range(32))
    devices = [crowd.member(name, list(name[:2]), invitation=invitation, secret=secret) for name in ("ab", "cd")]
    for device in devices:
        device.log.set_consent(job.id.hex(), "always")
        device._begin(job)
    assert [device.run(job).reports for device in devices] == [2, 1]
    assert crowd.server.store.count_reports(job.id) == 3


@pytest.mark.slow
def test_more_than_a_thousand_artifacts_of_one_member_arrive(crowd: LocalCrowd) -> None:
    """All that the policy allows; what is beyond it is told."""
    queries = [f"query {i}" for i in range(1_300)]
    job, usual = crowd.job(make_policy("FT_u", k=2, per_user=1_250)), crowd.job(make_policy("FT_u", k=2))
    for name in "ab":
        member = crowd.member(name, [*queries, "x" * 300])
        assert crowd.run(member, job) == Sent(1_250, 1_250, 0, 50, 1)
        assert crowd.run(member, usual) == Sent(1_000, 1_000, 0, 300, 1)
    assert crowd.counts(job) == dict.fromkeys(queries[:1_250], 2)
    assert crowd.counts(usual) == dict.fromkeys(queries[:1_000], 2)


def test_a_job_that_asks_for_more_than_the_randomness_server_answers_is_not_made(crowd: LocalCrowd) -> None:
    with pytest.raises(InputError, match="batches = 313"):
        crowd.job(make_policy("FT_u", k=2, per_user=10_000), secondary_k=2)


def test_instances_count_under_ft_a(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_a", k=3))
    crowd.run(crowd.member("one", [Search("again", START + i) for i in range(4)]), job)
    assert crowd.counts(job) == {"again": 4}


def test_spellings_need_a_threshold_of_their_own(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=3), secondary_k=2)
    for i, typed in enumerate(["New York", "New York", "NEW  YORK!", "new york"]):
        crowd.run(crowd.member(str(i), [typed.replace("!", "")]), job)
    opened = crowd.opened(job)["new york"]
    assert (opened.count, opened.spellings) == (4, {"New York": 2})


@pytest.mark.slow
def test_a_way_of_three_relays(tmp_path: Path) -> None:
    crowd = LocalCrowd(tmp_path, relays=3, hops=3)
    job = crowd.job(make_policy("FT_u", k=2))
    for i in range(16):
        crowd.run(crowd.member(str(i), ["far"]), job)
    assert crowd.counts(job) == {"far": 16}
    entered = {host for host, path, _ in crowd.network.seen if path == "/reports/3"}
    assert len(entered) > 1  # not always one: by chance in one of 14 million runs
    sizes = {len(body) % 8 for _, path, body in crowd.network.seen if path.startswith("/reports")}
    assert sizes == {0}  # dummies round the number of reports
    crowd.close()


@pytest.mark.slow
def test_other_artifacts(crowd: LocalCrowd) -> None:
    searches = [
        Search("jaguar", START, "https://cats.example/a?b", 2),
        Search("Jaguar CAR", START + 60, "https://cars.example/x", 1),
        Search("much later", START + 6000),
    ]
    expected = {
        "reformulation": {"jaguar\tjaguar car"},
        "query-url": {"jaguar\tcats.example", "jaguar car\tcars.example"},
        "ltr": {
            "jaguar\tcats.example\trank\t2-3",
            "jaguar\tcats.example\tclicks\t1",
            "jaguar car\tcars.example\trank\t1",
            "jaguar car\tcars.example\tclicks\t1",
        },
    }
    members = [crowd.member(str(i), searches) for i in range(2)]
    for artifact, texts in expected.items():
        job = crowd.job(make_policy("FT_u", k=2), artifact, domains=True)
        for member in members:
            crowd.run(member, job)
        assert set(crowd.counts(job)) == texts


def test_of_two_releases_at_once_one_is_refused(crowd: LocalCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would show two noisy counts for the price of one."""
    from searchveil.crowd import aggregate

    job = crowd.job(make_policy("DP_u", k=2, epsilon=5, delta=0.01))
    store, plan_of, drawn = crowd.server.store, aggregate.plan_of, []

    def meanwhile(one: Job) -> object:
        monkeypatch.setattr(aggregate, "plan_of", plan_of)
        aggregate.release_job(store, job, crowd.home / "first")
        monkeypatch.setattr(aggregate, "publish", lambda *given: drawn.append(given))
        return plan_of(one)

    monkeypatch.setattr(aggregate, "plan_of", meanwhile)
    with pytest.raises(InputError, match="has been released"):
        aggregate.release_job(store, job, crowd.home / "second")
    assert (crowd.home / "first" / "guarantee.json").exists()
    assert not (crowd.home / "second").exists()
    assert drawn == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DP_u", "FT_u"])
def test_a_release_that_was_interrupted_can_be_made_again(
    crowd: LocalCrowd, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """While reports are opened nothing is lost; with noise there is no second try once it was drawn."""
    from searchveil.crowd import aggregate

    promised = (9.0, 0.4) if name == "DP_u" else (None, None)
    job = crowd.job(make_policy(name, k=2, epsilon=promised[0], delta=promised[1]))
    for i in range(9):
        crowd.run(crowd.member(str(i), ["shared"]), job)
    out, store = crowd.home / "release", crowd.server.store

    def stop(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    for stopped_at in ("open_reports", "publish"):
        with monkeypatch.context() as patch:
            patch.setattr(aggregate, stopped_at, stop)
            with pytest.raises(KeyboardInterrupt):
                aggregate.release_job(store, job, out)
        assert not out.exists()
        if stopped_at == "publish" and name == "DP_u":
            with pytest.raises(InputError, match="has been released"):
                aggregate.release_job(store, job, out)
        elif stopped_at == "publish":
            assert aggregate.release_job(store, job, out)[0].table.to_pylist() == [{"query": "shared", "count": 9}]
            with pytest.raises(InputError, match="has been released"):
                aggregate.release_job(store, job, crowd.home / "again")


def test_a_report_that_arrives_while_its_job_is_closed_is_not_acknowledged(crowd: LocalCrowd) -> None:
    """The release reads what is there when the job is closed: what comes later would be lost."""
    from test_crowd_faults import a_report
    from test_tokens import post

    job = crowd.job(make_policy("FT_u", k=2))
    sent = [a_report(crowd, job, text) for text in "ab"]
    assert post(crowd, sent[:1]) == [0]
    server, add = crowd.server, crowd.server.store.add_reports

    def closed_first(reports: object) -> list[int]:
        server.store.add_reports = add  # type: ignore[method-assign]
        server.store.close_job(job.id)
        return add(reports)  # type: ignore[arg-type]

    server.store.add_reports = closed_first  # type: ignore[method-assign]
    assert post(crowd, sent) == [1, 1]
    assert server.store.count_reports(job.id) == 1


@pytest.mark.slow
def test_a_second_group_with_the_same_text_is_not_published_too(crowd: LocalCrowd) -> None:
    """A member who lies needs no randomness server to make a secret of its own for a text that others share."""
    from test_tokens import batch, post

    from searchveil.crowd.report import make_report

    job = crowd.job(make_policy("FT_u", k=3))
    for i in range(4):
        crowd.run(crowd.member(str(i), ["common"]), job)
    for text in ("common", "no  normal form", "two\tfields", "new\nline"):
        tokens = batch(crowd, job, crowd.invite()[0], 3)
        made = [make_report(job.id, text, bytes(64), 3, x, token) for x, token in enumerate(tokens, 1)]
        assert post(crowd, [one.to_bytes() for one in made]) == [0, 0, 0]
    assert crowd.counts(job) == {"common": 4}


@pytest.mark.slow
def test_a_spelling_of_another_text_is_not_published(crowd: LocalCrowd) -> None:
    """Two members lie about how they typed it."""
    job = crowd.job(make_policy("FT_u", k=3), secondary_k=2)
    for i in range(6):
        member = crowd.member(str(i), ["New York" if i < 3 else "new york"])
        member.log.set_consent(job.id.hex(), "always")
        member._begin(job)
        if i in (3, 4):
            member.log.file.execute("UPDATE outbox SET typed = 'an insult'")
        member.run(job)
    opened = crowd.opened(job)["new york"]
    assert (opened.count, opened.spellings) == (6, {"New York": 3})


@pytest.mark.slow
def test_a_corrupt_share_is_harmless(crowd: LocalCrowd) -> None:
    """One of the senders lies about its share: the others open the artifact, and it is not counted."""
    job = crowd.job(make_policy("FT_u", k=3))
    true_share = shamir.share
    try:
        shamir.share = lambda secret, k, x: true_share(secret, k, x) ^ 1
        crowd.run(crowd.member("liar", ["common"]), job)
    finally:
        shamir.share = true_share
    for i in range(3):
        crowd.run(crowd.member(str(i), ["common"]), job)
    assert crowd.counts(job) == {"common": 3}


@pytest.mark.slow
def test_another_text_cannot_be_attached_to_a_group(crowd: LocalCrowd) -> None:
    """A sender who knows the artifact encrypts another text under its key: that is a group of its own."""
    from searchveil.crowd import report as module

    job = crowd.job(make_policy("FT_u", k=3))
    true_encrypt = module._encrypt
    try:
        module._encrypt = lambda secret, text: true_encrypt(secret, "an insult")
        crowd.run(crowd.member("liar", ["common"]), job)
    finally:
        module._encrypt = true_encrypt
    for i in range(3):
        crowd.run(crowd.member(str(i), ["common"]), job)
    assert crowd.counts(job) == {"common": 3}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FT_u", "FT_a", "ST_u"])
def test_the_central_computation_gives_the_same(crowd: LocalCrowd, name: str) -> None:
    """With the same secrets, so the same coins: what an experiment counts is what a crowd opens."""
    more: dict[str, float] = {"epsilon": 2.0, "delta": 0.2, "p": 0.5} if name == "ST_u" else {}
    job = crowd.job(make_policy(name, k=2 if name != "ST_u" else None, per_user=2, **more))  # type: ignore[arg-type]
    users = [
        (bytes([i]) * 32, [*(Search(text, START - at) for at, text in enumerate(texts)), *map(Search, texts[: i % 2])])
        for i, texts in enumerate(["aab", "abc", "bca", "ddd", "cab", "bad", "abba", "dab"] * 4)
    ]
    for secret, searches in users:
        crowd.run(crowd.member(secret.hex()[:4], searches, secret=secret), job)
    expected = {one.text: one.count for one in central(job, users)}
    assert crowd.counts(job) == expected
    assert expected
