"""Things that go wrong between hosts: the run goes on or ends cleanly everywhere, and whoever is gone is named."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from consortium import Consortium, NoNoise, Searches, counts
from forks import LIMIT, Fault, Fork

from searchveil.collab.member import Member
from searchveil.collab.messages import Refused
from searchveil.collab.simulate import same_modules
from searchveil.errors import InputError
from searchveil.privacy.ledger import Ledger
from searchveil.privacy.noise import Integers, Source
from searchveil.privacy.noise_shares import NoiseShare

LOGS = {name: {f"{name}{i}": ["weather", f"{name} {i}"] for i in range(20)} for name in "abc"}


class Proxy:
    """Between the parties and the coordinator: a line that can be cut."""

    def __init__(self, target: str) -> None:
        self.target = target.rpartition(":")
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.cut = False
        self.heard: list[bytes] = []
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
                self.heard.append(data)
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
    consortium = Consortium(tmp_path, settings={"silence": 40, "deadline": 100})
    proxy = Proxy(consortium.address)
    parties = {name: consortium.party(name, LOGS[name], noise=NoNoise()) for name in consortium.names}
    for party in parties.values():
        party.link.address = proxy.address
        party.link._client = party.link._new_client()
    slowed(parties["b"], "ids", 1.5)

    def cut_when_it_runs() -> None:
        while not parties["a"].link.session:
            time.sleep(0.02)
        proxy.cut_for(10)

    threading.Thread(target=cut_when_it_runs, daemon=True).start()
    outcome = consortium.run(LOGS, parties=parties)
    assert outcome.failed == {}
    assert all(table == counts(LOGS) for table in outcome.tables.values())


@pytest.mark.slow
def test_a_party_that_is_slow_is_waited_for(tmp_path: Path) -> None:
    """Longer than the silence that is allowed: it lives, and its heart beats."""
    consortium = Consortium(tmp_path, 2, settings={"silence": 8})
    parties = {name: consortium.party(name, LOGS[name], noise=NoNoise()) for name in consortium.names}
    slowed(parties["b"], "ids", 10)
    assert consortium.run(LOGS, parties=parties).failed == {}


@pytest.mark.slow
def test_a_party_that_misses_the_deadline_is_named(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings={"silence": 20, "deadline": 10})
    parties = {name: consortium.party(name, LOGS[name]) for name in consortium.names}
    slowed(parties["b"], "totals", 13)
    outcome = consortium.run(LOGS, parties=parties)
    outcome.assert_nothing_published()
    for failed in outcome.failed.values():
        assert "the deadline of 10 s has passed" in str(failed)
        assert "b had not finished" in str(failed)


@pytest.mark.slow
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
    second.join(LIMIT)
    outcome.assert_nothing_published()
    for failed in (*outcome.failed.values(), *again):
        assert "b sent what is refused: it came a second time" in str(failed)
    assert len(again) == 1


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2)
    taken = socket.create_server(("127.0.0.1", int(consortium.address.rpartition(":")[2])))
    with taken, pytest.raises(InputError, match="cannot listen at"):
        consortium.coordinator().serve()


# --- real processes ---------------------------------------------------------------------------------------------------

CLICKS = {name: {f"{name}{i}": ["weather→w.example", f"{name} {i}→x.example"] for i in range(20)} for name in "ab"}
OF_PARTY = ("agreement", "keys", "count", "blind", "universe", "sum", "open", "shuffle", "agree")
OF_COORDINATOR = ("keys", "blind", "universe", "sum", "open", "shuffle", "agree")
PAPER = {"mode": "paper", "epsilon": 20.0, "delta": 0.9}


class Processes:
    """The commands as they run on hosts of their own, each with a fault where one is named."""

    def __init__(self, consortium: Consortium, logs: Mapping[str, Searches] = CLICKS) -> None:
        self.folder, self.names, self.text = consortium.folder, consortium.names, consortium.text
        (self.folder / "run.toml").write_text(consortium.text)
        for name in self.names:
            rows = [f"{user},{click.replace('→', ',')}" for user, clicks in logs[name].items() for click in clicks]
            (self.folder / f"{name}.csv").write_text("\n".join(["user,query,url", *rows]) + "\n")
        self.running: dict[str, Fork] = {}

    def start(self, name: str, *more: str, fault: Fault = (), **environment: str) -> None:
        streams = [self.folder / f"{name}.stdout", self.folder / f"{name}.stderr"]
        argv = ["collab", *arguments(name), *more]
        self.running[name] = Fork(argv, self.folder, streams, fault=fault, **environment)

    def start_all(self, faults: Mapping[str, Fault]) -> None:
        paper = 'mode = "paper"' in self.text
        for name in (*self.names, "coordinator"):
            paying = ["--ledger", f"{name}.sqlite", "--budget-epsilon", "9", "--budget-delta", "0.9"]
            more = [] if name == "coordinator" or paper else paying
            self.start(name, *more, fault=faults.get(name, ()))

    def last_lines(self) -> dict[str, tuple[int, str]]:
        ended = {}
        for name, process in self.running.items():
            code = process.wait()
            said = (self.folder / f"{name}.stderr").read_text().splitlines()
            lines = [line for line in said if not line.startswith(("… ", "searchveil: warning"))]
            assert len(lines) <= 1, said
            ended[name] = (code, lines[0] if lines else "")
        return ended


def arguments(name: str) -> list[str]:
    what = ["coordinator"] if name == "coordinator" else ["party", f"{name}.csv", "--out", f"out-{name}"]
    return [*what, "--run", "run.toml", "--folder", name]


def assert_others_end_cleanly(processes: Processes, victim: str, phase: str) -> None:
    """One line that names who is gone; no release, no leftovers; what was reserved stays spent."""
    ended = processes.last_lines()
    assert ended[victim][0] == -signal.SIGKILL
    for name in [*processes.names, "coordinator"]:
        code, line = ended[name]
        if name == victim:
            continue
        if victim == "coordinator":
            gone = "the coordinator at 127.0.0.1"
        else:
            gone = f"{victim} never came" if phase in ("agreement", "keys") else f"{victim} has not been heard of"
        assert code == 2, (name, line)
        assert gone in line, (name, line)
        assert "nothing was published" in line
        assert not list(processes.folder.glob(f"*out-{name}*"))
        if (processes.folder / f"{name}.sqlite").exists():
            (entry,) = Ledger.open(processes.folder / f"{name}.sqlite").spent().entries
            assert entry.status == "reserved"
            assert f"entry {entry.id}" in line


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "phases"), [("a", OF_PARTY), ("b", OF_PARTY), ("coordinator", OF_COORDINATOR)])
def test_a_process_that_is_killed(victim: str, phases: Sequence[str], tmp_path: Path) -> None:
    """At every phase, in a run of its own; the runs wait side by side."""
    runs = {}
    for phase in phases:
        deadline = 60 if phase in ("agreement", "keys") else 200  # who never comes is waited for until then
        settings = {"method": "sampling", "item": "click", "delta": 0.5, "silence": 20, "deadline": deadline}
        runs[phase] = Processes(Consortium(tmp_path / phase, 2, settings=settings))
        runs[phase].start_all({victim: ("killed_at", phase)})
    for phase, processes in runs.items():
        assert_others_end_cleanly(processes, victim, phase)


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "phase"), [("coordinator", "transform"), ("b", "draw")])
def test_a_process_that_is_killed_in_paper_mode(victim: str, phase: str, tmp_path: Path) -> None:
    few = {name: dict(list(clicks.items())[:3]) for name, clicks in CLICKS.items()}
    processes = Processes(Consortium(tmp_path, 2, settings=PAPER | {"silence": 20, "deadline": 100}), few)
    processes.start_all({victim: ("killed_at", phase)})
    assert_others_end_cleanly(processes, victim, phase)


@pytest.mark.slow
def test_a_full_disk_at_one_party(tmp_path: Path) -> None:
    processes = Processes(Consortium(tmp_path, 2, settings={"item": "click", "silence": 20, "deadline": 100}))
    processes.start_all({"b": ("full_disk_at", "agree")})
    ended = processes.last_lines()
    code, line = ended["b"]
    assert code == 2
    assert "out-b could not be written" in line
    assert not (tmp_path / "out-b").exists()
    assert (ended["a"][0] == 0) == (tmp_path / "out-a").exists()  # the one that could write has its release, or says no


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "more", "says"),
    [
        ("agreement", (), "ledger b.sqlite: nothing was released, because that could not be recorded"),
        ("blind", ("--transcript", "b.jsonl"), "File too large"),  # what the system calls this limit
    ],
)
def test_a_disk_that_is_full_before_the_end(phase: str, more: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """Where the ledger cannot be written nothing leaves; a transcript that cannot be written ends the run as well."""
    processes = Processes(Consortium(tmp_path, 2, settings={"item": "click", "silence": 20, "deadline": 100}))
    paying = ("--ledger", "b.sqlite", "--budget-epsilon", "9", "--budget-delta", "0.9")
    for name in ("a", "coordinator"):
        processes.start(name)
    processes.start("b", *paying, *more, fault=("full_disk_at", phase, "500"))
    ended = processes.last_lines()
    assert ended["b"][0] != 0
    assert "Traceback" not in (tmp_path / "b.stderr").read_text()
    assert says in ended["b"][1], ended["b"]
    assert "b: it" in ended["a"][1], ended["a"]
    for name in "ab":
        assert not (tmp_path / f"out-{name}").exists()


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two hosts with a line between them: 10.117.0.1, the coordinator's, and 10.117.0.2."""
    there, here = (f"sv{tmp_path.stat().st_ino}{end}" for end in "ch")
    made = subprocess.run(["ip", "netns", "add", there], capture_output=True, encoding="utf-8", check=False)
    if made.returncode:
        pytest.skip(f"network namespaces are not allowed here: {made.stderr.strip()}")
    try:
        ip("netns", "add", here)
        ip("-n", there, "link", "add", "line", "type", "veth", "peer", "name", "line", "netns", here)
        for name, address in ((there, "10.117.0.1/24"), (here, "10.117.0.2/24")):
            ip("-n", name, "address", "add", address, "dev", "line")
            ip("-n", name, "link", "set", "line", "up")
        yield there, here
    finally:
        for name in (there, here):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip of iproute2")
def test_a_link_between_hosts_that_is_cut_for_ten_seconds(tmp_path: Path, namespaces: tuple[str, str]) -> None:
    """Packets are lost, and nobody is told: the run goes on where it was."""
    there, here = namespaces
    consortium = Consortium(tmp_path, 2, settings={"item": "click", "silence": 60, "deadline": 120})
    consortium.text = consortium.text.replace("127.0.0.1", "10.117.0.1")
    processes = Processes(consortium)
    processes.start("coordinator", fault=("within", there))
    for name in consortium.names:
        processes.start(name, "--transcript", f"{name}.jsonl", fault=("within_and_slow_at", here, "sum", "3"))
    transcript = tmp_path / "a.jsonl"
    until = time.monotonic() + LIMIT
    while not (transcript.exists() and '"phase": "universe"' in transcript.read_text()):
        assert time.monotonic() < until
        time.sleep(0.05)
    ip("-n", there, "link", "set", "line", "down")
    time.sleep(10)
    assert all(process.poll() is None for process in processes.running.values())
    ip("-n", there, "link", "set", "line", "up")
    assert {code for code, _ in processes.last_lines().values()} == {0}
    assert (tmp_path / "out-a" / "data.parquet").read_bytes() == (tmp_path / "out-b" / "data.parquet").read_bytes()


FAKETIME = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


@pytest.mark.slow
@pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime (apt-get install faketime)")
@pytest.mark.parametrize("off", ["+1h", "-1h"])
def test_a_clock_that_is_an_hour_off(off: str, tmp_path: Path) -> None:
    """Deadlines go by a clock that nobody sets, and certificates made just now are good an hour ago."""
    processes = Processes(Consortium(tmp_path, 2, settings={"item": "click", "silence": 60, "deadline": 120}))
    for name in ("a", "coordinator"):
        processes.start(name)
    wrong = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": off, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    command = [sys.executable, "-m", "searchveil", "collab", *arguments("b")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **same_modules(), **wrong},
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert {code for code, _ in processes.last_lines().values()} == {0}
    assert (tmp_path / "out-a" / "data.parquet").read_bytes() == (tmp_path / "out-b" / "data.parquet").read_bytes()


@pytest.mark.slow
def test_no_share_of_noise_is_used_twice(tmp_path: Path) -> None:
    """A run that ended after the sum, and another one of the same parties: all shares are drawn anew."""
    drawn: list[bytes] = []

    class Watched(NoNoise):
        def shares(self, n: int, source: Source) -> Integers:
            found = NoiseShare(50.0, 1).sample(n, source)
            drawn.append(found[:20].tobytes())
            return found

    for _ in range(2):
        consortium = Consortium(tmp_path / f"{len(drawn)}", 2)
        parties = {name: consortium.party(name, LOGS[name], noise=Watched()) for name in consortium.names}
        parties["b"]._open = lost  # type: ignore[attr-defined]
        consortium.run({name: LOGS[name] for name in "ab"}, parties=parties).assert_nothing_published()
    assert len(set(drawn)) == 4


def lost(*given: Any) -> Any:
    raise Refused("lost")
