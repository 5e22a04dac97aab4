"""What machines do to the programs: slow clients on real sockets, a place that is taken, a disk that is full."""

import json
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from local import LocalCrowd
from test_crowd_faults import a_report
from test_tokens import batch, post

from searchveil import bodies
from searchveil.crowd import web
from searchveil.crowd.artifacts import Search
from searchveil.crowd.config import Addresses, Community, init, key_in, listening, members_in
from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.policy import make_policy
from searchveil.crowd.relay import Relay, relay_app
from searchveil.crowd.store import ACCEPTED, RETRY
from searchveil.crowd.tokens import credential, member_of
from searchveil.crypto import hpke
from searchveil.errors import InputError


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A relay on a port of this machine that has little patience."""
    monkeypatch.setattr(bodies, "SLOWEST_HEADERS", 1.0)
    monkeypatch.setattr(web, "KEPT_ALIVE", 1)
    monkeypatch.setattr(bodies, "SLOWEST_BODY", 1.0)
    server = web.serving(relay_app(Relay(hpke.generate()[0], {0: "http://127.0.0.1:1"})))
    with web.listen("127.0.0.1", 0) as place:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield place.getsockname()[1]
        server.should_exit = True
        thread.join()


def answer_to(port: int, sent: bytes, drip: bytes = b"") -> bytes:
    """All that comes back until the other side closes; meanwhile it gets a byte of `drip` now and then."""
    with socket.create_connection(("127.0.0.1", port), timeout=280) as client:
        client.sendall(sent)
        stop = threading.Event()

        def go_on() -> None:
            for byte in drip:
                if stop.wait(0.02):
                    return
                try:
                    client.sendall(bytes([byte]))
                except OSError:
                    return

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            return client.recv(1 << 16)
        except ConnectionResetError:
            return b""
        finally:
            stop.set()
            thread.join()


@pytest.mark.slow
def test_who_never_finishes_a_request_is_given_up(relay: int) -> None:
    """Nothing at all, a head that drips in, a body that drips in; the others are answered meanwhile."""
    assert answer_to(relay, b"") == b""
    assert answer_to(relay, b"POST /reports/1 HTTP/1.1\r\n", drip=b"X-Slow: " + b"a" * 1000) == b""
    head = b"POST /reports/1 HTTP/1.1\r\nHost: relay\r\nContent-Length: 5000\r\n\r\n"
    assert answer_to(relay, head, drip=bytes(1000)).startswith(b"HTTP/1.1 408 ")
    assert answer_to(relay, b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n").startswith(b"HTTP/1.1 404 ")


@pytest.mark.slow
def test_who_never_finishes_a_second_request_is_given_up(relay: int) -> None:
    with socket.create_connection(("127.0.0.1", relay), timeout=280) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):  # its head and its body may come one after the other
            answer += client.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 404 ")
        client.sendall(b"POST /reports/1 HTTP/1.1\r\nX-Slow: ")
        client.settimeout(0.05)
        for _ in range(4800):
            try:
                client.sendall(b"X")
                assert client.recv(1) == b""
                break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            raise AssertionError("the connection is still held")


def test_a_place_that_is_taken_is_told(relay: int) -> None:
    with pytest.raises(InputError, match=f"nothing can listen on 127.0.0.1:{relay}"):
        web.listen("127.0.0.1", relay)


def test_settings_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no certificate"):
        web.serving(relay_app(Relay(bytes(32), {})), str(tmp_path / "none.pem"), str(tmp_path / "key.pem"))
    for key in ("zz", "00", 7):
        with pytest.raises(InputError, match="'private_key' must be 64 hexadecimal digits"):
            key_in({"private_key": key}, "private_key")
    assert listening({"listen": "[::1]:80"}) == ("::1", 80)
    for place in ("8700", "host:", "host:port", "host:99999"):
        with pytest.raises(InputError, match="no place to listen on"):
            listening({"listen": place})
    with pytest.raises(InputError, match="no such list of members"):
        members_in(tmp_path / "members.txt")


@pytest.mark.parametrize(
    "changes",
    [
        {"hops": 0},
        {"hops": 2},
        {"hops": "1"},
        {"relays": []},
        {"relays": [{"number": 300, "url": "http://127.0.0.1:1", "key": "00" * 32}]},
        {"relays": [{"number": 1, "url": None, "key": "00" * 32}]},
        {"server_key": "00"},
        {"signer": None},
        {"server": 7},
    ],
)
def test_a_community_that_no_report_could_pass_is_told(tmp_path: Path, changes: dict[str, object]) -> None:
    made = init(tmp_path, "club", Addresses())
    assert Community.of(json.loads(made.to_json())) == made
    with pytest.raises(InputError, match="not the record of a community"):
        Community.of(json.loads(made.to_json()) | changes)


def test_a_list_of_members_is_read_anew_while_it_grows(tmp_path: Path) -> None:
    """Two writes may fall on one tick of the file system's clock."""
    path = tmp_path / "members.txt"
    path.write_text("one\n")
    members = members_in(path)
    assert members() == {"one"}
    before = path.stat()
    with path.open("a") as file:
        file.write("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert members() == {"one", "two"}


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """The system refuses what this process writes beyond it, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
def test_a_write_that_the_system_refuses_acknowledges_nothing(crowd: LocalCrowd) -> None:
    """Neither reports nor tokens; once there is room again, the same requests succeed and count once."""
    job = crowd.job(make_policy("FT_a", k=2))
    reports = [a_report(crowd, job) for _ in range(40)]
    invitation = crowd.invite()[0]
    with no_file_grows_beyond(max(path.stat().st_size for path in crowd.home.glob("server.sqlite*"))):
        assert set(post(crowd, reports)) == {RETRY}
        assert batch(crowd, job, invitation, 1) == []
    assert crowd.server.store.count_reports(job.id) == 0
    assert set(post(crowd, reports)) == {ACCEPTED}
    assert crowd.counts(job) == {}  # all with the same number
    assert crowd.server.store.count_reports(job.id) == 40
    assert crowd.server.tokens_left(job.id, member_of(credential(invitation, "server"))) == job.policy.per_user


def test_nobody_else_on_the_machine_reads_what_the_programs_keep(crowd: LocalCrowd) -> None:
    """Keys of epochs and of tokens, and a member's log, whatever the folder allows."""
    crowd.run(crowd.member("a", ["x"]), crowd.job(make_policy("FT_u", k=2)))
    found = [path for path in crowd.home.rglob("*") if path.name.startswith(("server.", "randomness.", "relay-", "a."))]
    assert len(found) >= 6
    assert {path.name: path.stat().st_mode & 0o077 for path in found} == {path.name: 0 for path in found}


def test_a_members_disk_that_is_full_is_told_and_changes_nothing(tmp_path: Path) -> None:
    log = OwnLog(tmp_path / "log.sqlite")
    log.add([Search("kept")])
    with no_file_grows_beyond(40_000), pytest.raises(InputError, match="cannot be written"):
        log.add(Search(f"{i} " * 100) for i in range(2_000))
    assert [one.search.query for one in log.entries()] == ["kept"]
    log.close()
