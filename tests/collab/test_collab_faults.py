"""Things that go wrong between hosts: the run goes on or ends cleanly everywhere, and whoever is gone is named."""

import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from consortium import Consortium, NoNoise, counts

from searchveil.collab.member import Member
from searchveil.errors import InputError
from searchveil.privacy.ledger import Ledger

LOGS = {name: {f"{name}{i}": ["weather", f"{name} {i}"] for i in range(20)} for name in "abc"}
LIMIT = 120  # seconds after which a process hangs, on a machine however slow


class Proxy:
    """Between the parties and the coordinator: a line that can be cut."""

    def __init__(self, target: str) -> None:
        self.target = target.rpartition(":")
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.cut = False
        self.passed = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            try:
                far = None if self.cut else socket.create_connection((self.target[0], int(self.target[2])))
            except OSError:
                far = None
            if far is None:
                near.close()
                continue
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                self.passed += len(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def cut_for(self, seconds: float) -> None:
        self.cut = True
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()
        time.sleep(seconds)
        self.cut = False


def slowed(party: Member, slow: str, seconds: float) -> None:
    honest = party.link.send

    def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
        if topic == slow:
            time.sleep(seconds)
        honest(recipient, phase, topic, payload)

    party.link.send = send  # type: ignore[method-assign]


@pytest.mark.slow
def test_a_line_that_is_cut_for_a_while(tmp_path: Path) -> None:
    """The run goes on as if nothing had been: no message is lost, and none is there twice."""
    consortium = Consortium(tmp_path, settings={"silence": 20})
    proxy = Proxy(consortium.address)
    parties = {name: consortium.party(name, LOGS[name], noise=NoNoise()) for name in consortium.names}
    for party in parties.values():
        party.link.address = proxy.address
        party.link._client = party.link._new_client()
    slowed(parties["b"], "ids", 1.5)

    def cut_when_it_runs() -> None:
        while not parties["a"].link.session:
            time.sleep(0.02)
        proxy.cut_for(3)

    threading.Thread(target=cut_when_it_runs, daemon=True).start()
    outcome = consortium.run(LOGS, parties=parties)
    assert outcome.failed == {}
    assert all(table == counts(LOGS) for table in outcome.tables.values())


@pytest.mark.slow
def test_a_party_that_is_slow_is_waited_for(tmp_path: Path) -> None:
    """Longer than the silence that is allowed: it lives, and its heart beats."""
    consortium = Consortium(tmp_path, 2, settings={"silence": 3})
    parties = {name: consortium.party(name, LOGS[name], noise=NoNoise()) for name in consortium.names}
    slowed(parties["b"], "ids", 5)
    assert consortium.run(LOGS, parties=parties).failed == {}


def test_a_party_that_misses_the_deadline_is_named(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings={"silence": 3, "deadline": 4})
    parties = {name: consortium.party(name, LOGS[name]) for name in consortium.names}
    slowed(parties["b"], "totals", 6)
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    for failed in outcome.failed.values():
        assert "the deadline of 4 s has passed" in str(failed)
        assert "b had not finished" in str(failed)


def test_a_party_that_comes_again_cannot_take_up_the_run(tmp_path: Path) -> None:
    """It has no key and no noise of before, and draws none anew: the run ends."""
    consortium = Consortium(tmp_path, 2)
    parties = {name: consortium.party(name, LOGS[name]) for name in consortium.names}
    slowed(parties["b"], "ids", 4)
    again: list[BaseException] = []

    def come_again() -> None:
        while not parties["b"].link.session:
            time.sleep(0.02)
        try:
            consortium.party("b", LOGS["b"]).join(tmp_path / "again")
        except BaseException as problem:
            again.append(problem)

    second = threading.Thread(target=come_again, daemon=True)
    second.start()
    outcome = consortium.run(LOGS, parties=parties)
    second.join(30)
    outcome.assert_nothing_published()
    for failed in (*outcome.failed.values(), *again):
        assert "b sent what is refused: it came a second time" in str(failed)
    assert len(again) == 1


# --- real processes ---------------------------------------------------------------------------------------------------


class Processes:
    """The commands as they run on hosts of their own."""

    def __init__(self, consortium: Consortium) -> None:
        self.folder, self.names = consortium.folder, consortium.names
        (self.folder / "run.toml").write_text(consortium.text)
        for name in self.names:
            rows = [f"{user},{query}" for user, queries in LOGS[name].items() for query in queries]
            (self.folder / f"{name}.csv").write_text("\n".join(["user,query", *rows]) + "\n")
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *more: str) -> None:
        common = ["--run", "run.toml", "--folder", name, *more]
        what = ["coordinator"] if name == "coordinator" else ["party", f"{name}.csv", "--out", f"out-{name}"]
        self.running[name] = subprocess.Popen(
            [sys.executable, "-m", "searchveil", "collab", *what, *common],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def await_phase(self, name: str, phase: str) -> None:
        transcript = self.folder / f"{name}.jsonl"
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            lines = transcript.read_text().splitlines() if transcript.exists() else []
            if any(json.loads(line).get("phase") == phase for line in lines if line.endswith("}")):
                return
            assert self.running[name].poll() is None, self.running[name].communicate()
            time.sleep(0.005)
        raise AssertionError(f"{name} never came to {phase}")

    def last_lines(self) -> dict[str, tuple[int, str]]:
        ended = {}
        for name, process in self.running.items():
            _, err = process.communicate(timeout=LIMIT)
            lines = [line for line in err.splitlines() if not line.startswith("… ")]
            assert len(lines) <= 1, err
            ended[name] = (process.returncode, lines[0] if lines else "")
        return ended


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "phase"), [("b", "keys"), ("b", "blind"), ("b", "sum"), ("coordinator", "blind")])
def test_a_process_that_is_killed(victim: str, phase: str, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings={"silence": 4, "deadline": 100})
    processes = Processes(consortium)
    for name in (*consortium.names, "coordinator"):
        paying = () if name == "coordinator" else ("--ledger", f"{name}.sqlite", "--budget-epsilon", "9")
        budget = (*paying, "--budget-delta", "0.1") if paying else ()
        processes.start(name, "--transcript", f"{name}.jsonl", *budget)
    processes.await_phase("b", phase)
    processes.running[victim].send_signal(signal.SIGKILL)
    ended = processes.last_lines()
    survivors = [name for name in consortium.names if name != victim]
    assert survivors
    for name in survivors:
        code, line = ended[name]
        if phase == "sum" and code == 0:  # it was over before the kill arrived: then there is a whole release
            assert (tmp_path / f"out-{name}" / "guarantee.json").exists()
            continue
        # A party that is killed before its first message arrives never came, as far as the others can tell.
        gone = ("the coordinator at",) if victim == "coordinator" else ("b has not been heard of", "b never came")
        assert code == 2
        assert any(words in line for words in gone), line
        assert "nothing was published" in line
        assert not (tmp_path / f"out-{name}").exists()
        (entry,) = Ledger.open(tmp_path / f"{name}.sqlite").spent().entries
        assert entry.status == "reserved"


@pytest.mark.slow
def test_a_full_disk_at_one_party(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings={"silence": 10, "deadline": 100})
    processes = Processes(consortium)
    processes.start("coordinator")
    processes.start("b")
    said = processes.running["b"].stderr
    assert said is not None
    while "waiting for the other parties" not in said.readline():
        assert processes.running["b"].poll() is None
    resource.prlimit(processes.running["b"].pid, resource.RLIMIT_FSIZE, (2500, 2500))  # no file can grow beyond
    processes.start("a")
    ended = processes.last_lines()
    code, line = ended["b"]
    assert code == 2
    assert "out-b could not be written" in line
    assert not (tmp_path / "out-b").exists()
    assert (ended["a"][0] == 0) == (tmp_path / "out-a").exists()  # the one that could write has its release, or says no


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2)
    taken = socket.create_server(("127.0.0.1", int(consortium.address.rpartition(":")[2])))
    with taken, pytest.raises(InputError, match="cannot listen at"):
        consortium.coordinator().serve()
