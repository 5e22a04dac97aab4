"""Losses, repetitions, restarts, garbage: no acknowledged report is lost and none counts twice."""

import os
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from local import START, LocalCrowd
from test_tokens import batch, post

from searchveil.crowd import randomness
from searchveil.crowd.artifacts import Search
from searchveil.crowd.client import Client, CrowdError
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import make_policy
from searchveil.crowd.report import SEALED_BYTES, dummy, make_report, primary_input, seal
from searchveil.crowd.server import LATE
from searchveil.crowd.store import ACCEPTED, EPOCH, REFUSED, RETRY, SPENT, Store
from searchveil.crowd.tokens import credential
from searchveil.crypto import voprf
from searchveil.errors import InputError

SEEDS = int(os.environ.get("CROWD_SEEDS", "200"))


class Faults:
    """Loses requests before they are handled and answers after, and now and then ends the client's process."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.rate = draw, 0.0

    def __call__(self, when: str, host: str) -> None:
        chance = self.draw.random()
        if chance < self.rate:
            raise httpx.ReadError("lost")
        if chance < 1.3 * self.rate and not host.startswith("server"):
            raise Killed


class Killed(BaseException):
    """The client's process ends here."""


class Model:
    """Random operations on a community, and what must come out of it in the end."""

    def __init__(self, crowd: LocalCrowd, seed: int) -> None:
        self.crowd, self.draw = crowd, random.Random(seed)
        self.faults = Faults(self.draw)
        crowd.network.fault = self.faults
        policy = self.draw.choice([make_policy("FT_u", k=2), make_policy("FT_a", k=2)])
        self.job = crowd.job(policy)
        self.logs = [
            [Search(self.draw.choice("abcdef"), START + i) for i in range(self.draw.randint(1, 4))] for _ in range(3)
        ]
        self.known = [(crowd.invite()[0], os.urandom(32)) for _ in self.logs]
        self.skews = [self.draw.randint(-LATE, LATE) for _ in self.logs]

    def client(self, number: int, searches: bool = False) -> Client:
        """From its file, as after a restart."""
        invitation, secret = self.known[number]
        rows = self.logs[number] if searches else []
        return self.crowd.member(str(number), rows, invitation=invitation, secret=secret)

    def run(self, number: int, skew: int = 0) -> bool:
        """Whether the client has seen the job and done what it asks; `skew` is how far its clock is off."""
        client = self.client(number, searches=True)
        client.clock = lambda: self.crowd.clock() + skew
        client.log.set_consent(self.job.id.hex(), "always")
        try:
            found = [one for one in client.jobs() if one.id == self.job.id]
            for one in found:
                client.run(one)
        except (CrowdError, Killed):
            return False
        finally:
            client.log.close()
        return bool(found)

    def step(self) -> None:
        what = self.draw.choice(["run", "run", "run", "restart", "replay", "garbage", "clock"])
        if what == "run":
            number = self.draw.randrange(len(self.logs))
            self.run(number, self.skews[number])
        elif what == "restart":
            self.crowd.start(self.draw.choice(["server", "randomness", "relay-1"]))
        elif what == "replay" and self.crowd.network.seen:
            host, path, body = self.draw.choice(self.crowd.network.seen)
            if path.startswith("/reports"):
                self.send(f"http://{host}{path}", body)
        elif what == "garbage":
            self.send("http://server/reports/0", self.draw.randbytes(SEALED_BYTES))
        elif what == "clock":
            self.crowd.clock.now += self.draw.randint(0, 60)

    def send(self, url: str, body: bytes) -> None:
        with suppress(httpx.HTTPError, Killed):
            self.crowd.http.post(url, content=body)

    def expected(self) -> Counter[str]:
        """How many reports of each artifact must be there."""
        counted: Counter[str] = Counter()
        for rows in self.logs:
            texts = [row.query for row in rows]
            counted.update(texts if self.job.policy.per_artifact else set(texts))
        return counted


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_random_operations_lose_nothing_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """CROWD_SEEDS=5000 pytest … for more; a seed that fails fails again."""
    monkeypatch.setattr("searchveil.crowd.client.BATCH", 4)  # what fills batches up costs time alone
    for seed in range(part, SEEDS, 5):
        crowd = LocalCrowd(tmp_path / str(seed))
        model = Model(crowd, seed)
        model.faults.rate = 0.1
        for _ in range(6):
            model.step()
        model.faults.rate = 0.0
        assert all(model.run(number) for number in range(len(model.logs))), f"seed {seed}"
        expected = model.expected()
        assert crowd.counts(model.job) == {text: n for text, n in expected.items() if n >= 2}, f"seed {seed}"
        assert crowd.server.store.count_reports(model.job.id) == expected.total(), f"seed {seed}"
        crowd.close()


# --- one fault each, so that what breaks has a name ---


def test_an_answer_that_is_lost_makes_no_second_report(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_a", k=2))
    client = crowd.member("a", [Search("x", START), Search("x", START + 1)])
    lost = {"server": 2, "relay-1": 1, "randomness": 1}

    def lose(when: str, host: str) -> None:
        if when == "after" and lost.get(host, 0):
            lost[host] -= 1
            raise httpx.ReadError("lost")

    crowd.network.fault = lose
    crowd.run(client, job)
    assert not any(lost.values())
    assert crowd.counts(job) == {"x": 2}
    assert crowd.server.store.count_reports(job.id) == 2


def test_the_server_is_down_and_the_run_goes_on_later(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_a", k=2))
    client = crowd.member("a", [Search("x", START), Search("x", START + 1)])
    client.log.set_consent(job.id.hex(), "always")
    client._begin(job)
    client._make_reports(job)
    crowd.stop("server")
    with pytest.raises(CrowdError, match="nothing is lost"):
        client.run(job)
    crowd.start("server")
    assert client.run(job).reports == 2
    assert client.run(job).reports == 2  # and nothing is sent again
    assert crowd.counts(job) == {"x": 2}


def test_a_relay_that_lies_about_delivery_is_not_believed(crowd: LocalCrowd) -> None:
    from searchveil.crowd.relay import ANSWER_BYTES

    client = crowd.member("a", ["x"])
    job = crowd.job(make_policy("FT_u", k=2))
    client.log.set_consent(job.id.hex(), "always")
    client._begin(job)
    client._make_reports(job)
    rows = client.log.file.execute("SELECT id, report FROM outbox").fetchall()
    assert client._note(rows, bytes(ANSWER_BYTES) * len(rows)) == set()
    assert client.log.history()[0][2] is False


def a_report(crowd: LocalCrowd, job: Job, text: str = "x") -> bytes:
    (token,) = batch(crowd, job, crowd.invite()[0], 1)
    output = voprf.output(crowd.randomness._keys(job.epoch)[0], primary_input(job.id, text))
    return make_report(job.id, text, output, job.policy.k, 7, token).to_bytes()


def test_a_replayed_report_counts_once(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_a", k=2))
    report = a_report(crowd, job)
    assert post(crowd, [report]) == [ACCEPTED]
    crowd.start("server")
    assert post(crowd, [report, report]) == [ACCEPTED, ACCEPTED]
    changed = report[:70] + bytes([report[70] ^ 1]) + report[71:]  # another share number with the same token
    assert post(crowd, [changed]) == [REFUSED]
    assert crowd.server.store.count_reports(job.id) == 1


@pytest.mark.parametrize(
    "text",
    [
        lambda report: b"\x02" + report[1:],  # another version
        lambda report: report[:1] + b"\x07" + report[2:],  # another kind
        lambda report: report[:50] + bytes(16) + report[66:],  # share number 0
        lambda report: report[:66] + b"\xff" * 32 + report[98:],  # a value outside of the field
        lambda report: report[:2] + bytes(16) + report[18:],  # another job
        lambda report: report[:-1] + bytes([report[-1] ^ 1]),  # a token that nobody issued
    ],
)
def test_malformed_reports_are_refused_and_their_neighbours_taken(crowd: LocalCrowd, text: object) -> None:
    job = crowd.job(make_policy("FT_u", k=2))
    good = a_report(crowd, job)
    bad = text(a_report(crowd, job))  # type: ignore[operator]
    assert post(crowd, [good, bad]) == [ACCEPTED, REFUSED]


def test_bodies_of_any_other_size_are_refused(crowd: LocalCrowd) -> None:
    for url, most in (("http://server/reports/0", 2_000 * SEALED_BYTES), ("http://relay-1/reports/1", 3_000_000)):
        assert crowd.http.post(url, content=b"").status_code == 400
        assert crowd.http.post(url, content=b"x" * 1000).status_code == 400
        assert crowd.http.post(url, content=bytes(most + 1)).status_code == 413
    assert crowd.http.post("http://relay-1/reports/9", content=b"x").status_code == 404
    assert crowd.http.post("http://server/tokens/zz", content=b"x").status_code in (401, 404)


@pytest.mark.parametrize("number", ["0", "99", "-1", "1.5", "x", "9" * 5_000, "2147483648", "٣"])
def test_numbers_that_are_nobodys_are_refused(crowd: LocalCrowd, number: str) -> None:
    """Without an error of the database or of Python, which would fill the log."""
    shown = {"Authorization": f"Bearer {credential(crowd.invite()[0], 'randomness')}"}
    asked = (
        f"http://relay-1/reports/{number}",
        f"http://randomness/evaluate/{number}",
        f"http://randomness/tokens/{number}",
    )
    for url in asked:
        assert crowd.http.post(url, content=bytes(960), headers=shown).status_code in (400, 404), url


def test_a_report_wrapped_for_another_relay_is_refused(crowd: LocalCrowd) -> None:
    from searchveil.crypto import hpke

    sealed = seal(dummy(bytes(16)), crowd.community.server_key, [(1, hpke.generate()[1])])
    answer = crowd.http.post("http://relay-1/reports/1", content=sealed)
    assert list(answer.content[:1]) == [REFUSED]


def test_clocks_may_differ_a_little(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=2), days=1)
    early, late, too_late = (a_report(crowd, job, text) for text in "abc")
    crowd.clock.now = job.opens - LATE + 1
    assert post(crowd, [early]) == [ACCEPTED]
    crowd.clock.now = job.expires + LATE - 1
    assert post(crowd, [late]) == [ACCEPTED]
    crowd.clock.now = job.expires + LATE
    assert post(crowd, [too_late]) == [REFUSED]


def test_a_full_disk_is_a_refusal_that_passes(crowd: LocalCrowd) -> None:
    """SQLite says that the disk is full; the client is told to try again, and later it works."""
    from sqlalchemy import event

    job = crowd.job(make_policy("FT_u", k=2))
    reports = [a_report(crowd, job, str(i)) for i in range(40)]
    store = crowd.server.store

    def fill(connection: object, record: object, proxy: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]

    event.listen(store.engine, "checkout", fill)
    assert set(post(crowd, reports)) == {RETRY}
    assert store.count_reports(job.id) == 0
    event.remove(store.engine, "checkout", fill)
    store.engine.dispose()
    assert set(post(crowd, reports)) == {ACCEPTED}


def test_an_epochs_key_is_destroyed_though_nobody_asks(crowd: LocalCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the list of its tokens with it; the next epoch's key is there by then."""
    monkeypatch.setattr(randomness, "TURN_SECONDS", 0.01)
    crowd.start("randomness")
    job = crowd.job(make_policy("FT_u", k=2))
    crowd.run(crowd.member("a", ["x"]), job)
    kept = sa.select(EPOCH.c.number).where(EPOCH.c.oprf_private.is_not(None))
    crowd.clock.now = (job.epoch + 1) * crowd.randomness.epoch_seconds + crowd.randomness.grace_seconds
    for _ in range(12_000):
        with crowd.randomness.store.engine.connect() as connection:
            numbers = set(connection.execute(kept).scalars())
            spent = connection.execute(sa.select(SPENT)).all()
        if job.epoch not in numbers and not spent:
            break
        time.sleep(0.02)
    assert job.epoch not in numbers
    assert {job.epoch + 1, job.epoch + 2} <= numbers
    assert spent == []


def where_it_is(home: Path, key: bytes) -> list[str]:
    return [path.name for path in home.glob("randomness.sqlite*") if key in path.read_bytes()]


@pytest.mark.slow
def test_a_destroyed_key_does_not_survive_a_reader_or_a_killed_process(crowd: LocalCrowd) -> None:
    """Neither in the file nor in its log of changes, once the key's time is over and nobody reads any more."""
    import sqlite3

    number = crowd.randomness.turn()
    key, _ = crowd.randomness._keys(number)
    over = (number + 1) * crowd.randomness.epoch_seconds + crowd.randomness.grace_seconds
    reader = sqlite3.connect(crowd.home / "randomness.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM epoch").fetchone()
    crowd.clock.now = over
    crowd.randomness.turn()
    assert where_it_is(crowd.home, key)  # the reader still needs it
    crowd.stop("randomness")  # what was not yet overwritten is found by the next one
    assert where_it_is(crowd.home, key)
    again = randomness.Randomness(
        Store(str(crowd.home / "randomness.sqlite")), bytes(32), epoch_seconds=crowd.randomness.epoch_seconds
    )
    again.clock = crowd.clock
    again.turn()
    assert where_it_is(crowd.home, key)
    assert not again.overwritten
    reader.close()
    for _ in range(1200):  # the turn that a server begins with may hold a checkpoint up, even now that it is stopped
        again.turn()
        if again.overwritten:
            break
        time.sleep(0.05)
    assert again.overwritten
    assert not where_it_is(crowd.home, key)
    again.store.close()


@pytest.mark.slow
def test_no_page_keeps_a_key_of_long_ago(tmp_path: Path) -> None:
    """Through 90 epochs, while the table of keys outgrows a page of the file and tokens come and go."""
    now, keys = [50.0], {}
    store = Store(str(tmp_path / "randomness.sqlite"))
    made = randomness.Randomness(store, bytes(32), epoch_seconds=100, grace_seconds=10, clock=lambda: now[0])
    for number in range(90):
        now[0] = 100.0 * number + 50
        made.turn()
        keys[number] = made._keys(number)
        for i in range(3):
            store.issue(f"randomness {number}", f"{i:064x}", bytes([number, i]), 1, 3)
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert all(key in stored for key in keys[number])
        # Its grace is over with the second turn after it.
        assert not [old for old in range(number - 1) if any(key in stored for key in keys[old])]
    store.close()


@pytest.mark.parametrize("stage", ["begun", "evaluated", "made", "sent"])
def test_what_is_deleted_is_not_sent_any_more(crowd: LocalCrowd, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """Wherever the run was stopped; another search with the same text keeps it, and what was sent loses its text."""
    job = crowd.job(make_policy("FT_u", k=2))
    client = crowd.member("a", [Search("my secret", START), Search("Twice", START), Search("twice", START + 1)])
    client.log.set_consent(job.id.hex(), "always")
    client._begin(job)
    if stage == "evaluated":
        with monkeypatch.context() as patch:
            patch.setattr("searchveil.crowd.client.make_report", kill)
            with pytest.raises(Killed):
                client._make_reports(job)
    elif stage == "made":
        client._make_reports(job)
    elif stage == "sent":
        client.run(job)
    for text in ("secret", "Twice"):
        assert client.log.delete(client.log.entries(text)[0].id) == 1
    assert [row[1] for row in client.log.history()] == ["twice"]
    assert client.run(job).reports == (2 if stage == "sent" else 1)
    assert crowd.server.store.count_reports(job.id) == (2 if stage == "sent" else 1)
    assert b"my secret" not in b"".join(path.read_bytes() for path in client.log.path.parent.iterdir())


def kill(*given: object) -> None:
    raise Killed


def test_one_of_two_instances_deleted_leaves_one(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_a", k=2), secondary_k=2)
    client = crowd.member("a", [Search("X", START), Search("x", START), Search("x", START + 1)])
    client.log.set_consent(job.id.hex(), "always")
    client._begin(job)
    client._make_reports(job)
    assert client.log.delete(client.log.entries()[0].id) == 1
    assert client.run(job).reports == 2
    assert crowd.opened(job)["x"].spellings == {"x": 2}


def test_pausing_refusing_and_deleting(crowd: LocalCrowd) -> None:
    job = crowd.job(make_policy("FT_u", k=2))
    client = crowd.member("a", ["x", "y"])
    with pytest.raises(InputError, match="no consent"):
        client.run(job)
    client.log.set_consent(job.id.hex(), "always")
    client.log.pause(True)
    with pytest.raises(InputError, match="paused"):
        client.run(job)
    with pytest.raises(InputError, match="paused"):
        client.log.add([Search("z")])
    client.log.pause(False)
    assert client.log.delete(client.log.entries("x")[0].id) == 1
    assert client.run(job).reports == 1
    assert [row[1] for row in client.log.history()] == ["y"]
    assert client.log.delete(None) == 1
    assert client.log.history() == []
    assert client.run(job).reports == 0
