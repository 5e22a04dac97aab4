"""The programs as processes: killed at any moment, and with PostgreSQL behind the server."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from searchveil.crowd.aggregate import open_reports
from searchveil.crowd.artifacts import Search
from searchveil.crowd.client import Client
from searchveil.crowd.config import Addresses, Community, init, invite
from searchveil.crowd.jobs import Job
from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.policy import make_policy
from searchveil.crowd.programs import job_named, new_job
from searchveil.crowd.simulate import ENDS_WITHIN, HOLD_SECONDS, start, wait_for
from searchveil.ports import LOOPBACK, KeptPorts

pytestmark = pytest.mark.slow

LIMIT = 250  # seconds after which a client hangs, on a machine however slow


def run_clients(home: Path, community: Community, job: Job, clients: int, queries: int) -> None:
    """One after the other; each has queries 0 … q − 1 and goes on until all have arrived."""
    invitations = invite(home, clients)
    with httpx.Client(timeout=60) as http:
        for number in range(clients):
            log = OwnLog(home / "clients" / f"{number}.sqlite")
            log.add(Search(f"query {i}", 1.0) for i in range(queries))
            log.set_consent(job.id.hex(), "always")
            until = time.monotonic() + LIMIT
            while time.monotonic() < until:  # a program may take long to be back
                client = Client(
                    log, community, invitations[number], bytes([number]) * 32, http=http, named=http, patience=0.05
                )
                try:
                    (found,) = [one for one in client.jobs() if one.id == job.id]
                    if client.run(found).reports == queries:
                        break
                except Exception as error:
                    print("again, after", error)
                    time.sleep(0.2)
            else:
                raise AssertionError(f"client {number} never arrived")
            log.close()


def counts(home: Path, job: Job) -> dict[str, int]:
    store, job = job_named(home / "server.toml", job.id.hex())
    found = {one.text: one.count for one in open_reports(store, job)}
    store.close()
    return found


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_killed_servers_lose_and_double_nothing(tmp_path: Path, request: pytest.FixtureRequest, database: str) -> None:
    """kill -9 of server, relay and randomness server, again and again, while clients send; all is there, once."""
    programs = {"randomness": "randomness.toml", "server": "server.toml", "relay": "relay-1.toml"}
    ports = KeptPorts(len(programs))  # a program that is down finds its port again
    urls = {name: f"http://{LOOPBACK}:{port}" for name, port in zip(programs, ports.numbers, strict=True)}
    places = Addresses(urls["server"], urls["randomness"], (urls["relay"],))
    community = init(tmp_path, "test", places, hold_seconds=HOLD_SECONDS)
    if database == "postgresql":
        config = tmp_path / "server.toml"
        config.write_text(config.read_text().replace("server.sqlite", request.getfixturevalue("postgres")))
    processes = {name: start(name, tmp_path / config) for name, config in programs.items()}
    stop = threading.Event()

    def kill_again_and_again() -> None:
        turn = 0
        while not stop.wait(0.8):
            name = ("server", "relay", "randomness")[turn % 3]
            processes[name].send_signal(signal.SIGKILL)
            processes[name].wait()
            processes[name] = start(name, tmp_path / programs[name])
            wait_for(urls[name], processes[name])
            turn += 1

    try:
        for name, process in processes.items():
            wait_for(urls[name], process)
        job = new_job(tmp_path / "server.toml", "query", make_policy("FT_a", k=2))
        killer = threading.Thread(target=kill_again_and_again)
        killer.start()
        try:
            run_clients(tmp_path, community, job, clients=6, queries=12)
        finally:
            stop.set()
            killer.join()
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
        ports.close()
    assert counts(tmp_path, job) == {f"query {i}": 6 for i in range(12)}


# --- PostgreSQL ---


def postgres_programs() -> Path | None:
    """The folder with initdb and postgres: Debian keeps them out of the path."""
    places = (
        sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True) if Path("/usr/lib/postgresql").is_dir() else []
    )
    found = shutil.which("initdb")
    places += [Path(found).parent] if found else []
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


@pytest.fixture
def postgres() -> Iterator[str]:
    """A PostgreSQL of our own on loopback; it refuses to run as root, so root hands it to `nobody`."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="searchveil-postgres-"))  # pytest's own folders are for root's eyes only
    kept = KeptPorts(1)
    port = kept.numbers[0]
    user: dict[str, object] = {}
    if os.getuid() == 0:
        user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")
    data = folder / "data"
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "crowd", "-A", "trust", "-E", "UTF8", "--no-sync"],
        capture_output=True,
        cwd=folder,
        **user,  # type: ignore[call-overload]
    )
    if made.returncode:
        shutil.rmtree(folder)
        pytest.skip(f"PostgreSQL cannot start here: {made.stderr.decode()[-300:]}")
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        **user,  # type: ignore[call-overload]
    )
    url = f"postgresql://crowd@127.0.0.1:{port}/postgres"
    try:
        _wait_for_postgres(url)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(ENDS_WITHIN)
        kept.close()
        shutil.rmtree(folder)


def _wait_for_postgres(url: str) -> None:
    import psycopg

    for _ in range(1200):
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("PostgreSQL does not answer")


def test_the_server_on_postgresql(tmp_path: Path, postgres: str) -> None:
    """The same end to end, with the same answers; a replay counts once there too."""
    from local import LocalCrowd
    from test_crowd_faults import a_report
    from test_tokens import post

    crowd = LocalCrowd(tmp_path, database=postgres)
    job = crowd.job(make_policy("FT_u", k=3))
    for i in range(3):
        crowd.run(crowd.member(str(i), ["shared", "by two"] if i < 2 else ["shared"]), job)
    report = a_report(crowd, job, "by two")
    assert post(crowd, [report, report]) == [0, 0]
    crowd.start("server")
    assert post(crowd, [report]) == [0]
    assert crowd.server.store.count_reports(job.id) == 6
    assert crowd.counts(job) == {"shared": 3, "by two": 3}
    crowd.close()
