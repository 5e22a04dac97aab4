"""A whole consortium on one machine: the log split by user, real processes on loopback, and the comparison."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ibis

from searchveil.collab import identity
from searchveil.collab.agreement import check_settings
from searchveil.errors import InputError, as_option, shortest
from searchveil.log import SearchLog
from searchveil.ports import LOOPBACK, KeptPorts
from searchveil.progress import Progress, silent
from searchveil.publish.individual import Individual
from searchveil.publish.release import Release
from searchveil.publish.zealous import Zealous
from searchveil.scratch import Scratch

COORDINATOR = "coordinator"
COMMAND = (sys.executable, "-m", "searchveil", "collab")
MOST_PARTIES = 26


def run_text(fingerprints: Mapping[str, str], address: str, settings: Mapping[str, Any]) -> str:
    """A run file with these certificates, of which one is the coordinator's."""
    lines = [f"{name} = {_toml(value)}" for name, value in settings.items()]
    lines += ["", "[coordinator]", f'address = "{address}"', f'certificate = "{fingerprints[COORDINATOR]}"', ""]
    lines += ["[parties]", *(f'{name} = "{one}"' for name, one in fingerprints.items() if name != COORDINATOR)]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return shortest(value) if isinstance(value, float) else json.dumps(value)


@dataclass
class Standing:
    """Where a process stands, read off its transcript: what a live table shows."""

    name: str
    phase: str = "starting"
    seconds: float = 0.0
    sent: int = 0
    received: int = 0
    ended: bool = False
    _read: int = field(default=0, repr=False)

    def follow(self, transcript: Path) -> None:
        if not transcript.exists():
            return
        with transcript.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        self.seconds = event["at"]
        if event["event"] == "phase":
            self.phase = event["phase"]
        elif event["event"] == "ended":
            self.phase, self.ended = "done" if event["how"] == "done" else "ended", True
        elif event["event"] == "sent":
            self.sent += event["bytes"]
        elif event["event"] == "received":
            self.received += event["bytes"]


Watch = Callable[[list[Standing]], None]


@dataclass(frozen=True)
class Simulated:
    """What came out, beside what one owner of all logs, and each owner alone, would have published."""

    rows: int
    central_rows: int
    local_rows: list[int]
    seconds: float
    bytes: int
    phases: dict[str, float]
    out: Path
    plan: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "out": str(self.out)}


@dataclass(frozen=True)
class Ran:
    """A joint run: the folder that the first party wrote, and what all parties report."""

    folder: Path
    seconds: float
    reports: list[dict[str, Any]]

    @property
    def bytes(self) -> int:
        return sum(report["bytes_sent"] + report["bytes_received"] for report in self.reports)

    @property
    def phases(self) -> dict[str, float]:
        """Of each phase the seconds of the party that took longest."""
        names = self.reports[0]["phases"]
        return {name: max(report["phases"].get(name, 0.0) for report in self.reports) for name in names}


@dataclass(frozen=True)
class Simulation:
    """`settings` are those of a run file; parties are called party-a, party-b, …"""

    parties: int
    settings: Mapping[str, Any]
    transcripts: Path | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.parties <= MOST_PARTIES:
            raise InputError(
                f"a joint release has 2 to {MOST_PARTIES} parties here, not {self.parties}", parameter="parties"
            )
        check_settings(self.settings, self.parties)

    @property
    def names(self) -> list[str]:
        return [f"party-{chr(ord('a') + i)}" for i in range(self.parties)]

    def run(self, log: SearchLog, out: Path, *, progress: Progress = silent, watch: Watch | None = None) -> Simulated:
        with Scratch() as place:
            ran = self.joint(log, place, progress=progress, watch=watch)
            made = Release.read(ran.folder)
            rows, plan = made.table.num_rows, made.plan.to_json()
            shutil.copytree(ran.folder, out)
        progress("making the central release and the local ones")
        central, *local = [self._rows_alone(one) for one in (log, *self.split(log).values())]
        return Simulated(rows, central, local, ran.seconds, ran.bytes, ran.phases, out, plan)

    def joint(self, log: SearchLog, place: Path, *, progress: Progress = silent, watch: Watch | None = None) -> Ran:
        """Only the joint release, in a folder in which everybody's files lie."""
        progress(f"splitting the log by user into {self.parties}")
        logs = {name: self._written(part, place / f"{name}.parquet") for name, part in self.split(log).items()}
        with KeptPorts(1) as port:
            self._prepare(place, log.normalization.words, port.numbers[0])
            progress("running the parties")
            start = time.monotonic()
            self._processes(place, logs, log.normalization.words, watch)
            seconds = time.monotonic() - start
        if self.transcripts is not None:
            self.transcripts.mkdir(exist_ok=True)
            for name in (*self.names, COORDINATOR):
                shutil.copy(place / f"{name}.transcript", self.transcripts / f"{name}.jsonl")
        reports = [json.loads((place / f"{name}.json").read_text()) for name in self.names]
        return Ran(place / f"out-{self.names[0]}", seconds, reports)

    def split(self, log: SearchLog) -> dict[str, SearchLog]:
        """Every user wholly at one party, by a hash of the user."""
        user = log.table["user"].cast("string")
        hashed = log.engine.fast_hash([user, ibis.literal("collab")], 1)
        place = (hashed & ((1 << 31) - 1)) % self.parties
        return {
            name: replace(log, table=log.table.filter(place == i), source=f"the part of {name}")
            for i, name in enumerate(self.names)
        }

    def alone(self, log: SearchLog) -> Release:
        """The same release by one owner."""
        epsilon, delta = self.settings["epsilon"], self.settings["delta"]
        if self.settings.get("mode") == "paper":
            from searchveil.collab.paper import by_one_owner

            return by_one_owner(epsilon, delta, self.settings.get("objective"), self.settings.get("support")).release(
                log
            )
        if self.settings["method"] == "sampling":
            return Individual(delta, epsilon).release(log)
        known = {name: self.settings[name] for name in ("per_user", "item")}
        return Zealous(epsilon=epsilon, delta=delta, **known).release(log)

    def _rows_alone(self, log: SearchLog) -> int:
        """None where a single user is not enough."""
        try:
            return self.alone(log).table.num_rows
        except InputError:
            return 0

    def _written(self, log: SearchLog, path: Path) -> Path:
        import pyarrow.parquet as pq

        pq.write_table(log.engine.fetch(log.table), path)
        return path

    def _prepare(self, place: Path, normalize: str, port: int) -> None:
        identities = {name: identity.create(place / name, name) for name in (*self.names, COORDINATOR)}
        for one in identities.values():
            for other in identities.values():
                if one is not other:
                    one.pin(other.certificate_path)
        fingerprints = {name: one.certificate.fingerprint for name, one in identities.items()}
        settings = {**self.settings, "normalize": normalize}
        (place / "run.toml").write_text(run_text(fingerprints, f"{LOOPBACK}:{port}", settings))

    def _processes(self, place: Path, logs: Mapping[str, Path], normalize: str, watch: Watch | None) -> None:
        names = [COORDINATOR, *self.names]
        running: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for name in names:
                running[name] = self._start(place, name, logs.get(name), normalize)
            standings = [Standing(name) for name in names]
            while any(process.poll() is None for process in running.values()):
                time.sleep(0.1)
                for standing in standings:
                    standing.follow(place / f"{standing.name}.transcript")
                if watch is not None:
                    watch(standings)
        finally:
            for process in running.values():
                if process.poll() is None:
                    process.terminate()
                process.wait()
        failed = [name for name in (*self.names, COORDINATOR) if running[name].returncode]
        if failed:
            raise InputError(f"{failed[0]}: {_last_words(place / f'{failed[0]}.err')}")

    def _start(self, place: Path, name: str, log: Path | None, normalize: str) -> "subprocess.Popen[bytes]":
        """A process as it would run on a host of its own."""
        with (place / f"{name}.err").open("wb") as err, (place / f"{name}.json").open("wb") as out:
            environment = {**os.environ, **same_modules(), "PYTHONUNBUFFERED": "1"}
            command = [*COMMAND, *arguments_of(name, log, normalize)]
            return subprocess.Popen(
                command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )


def arguments_of(name: str, log: Path | None, normalize: str) -> list[str]:
    common = _options(run="run.toml", folder=name, transcript=f"{name}.transcript")
    if log is None:
        return ["coordinator", *common]
    return ["party", log.name, *common, *_options(out=f"out-{name}", normalize=normalize, json=True)]


def same_modules() -> dict[str, str]:
    """The environment in which a Python in another folder imports what this one does: relative places are not those."""
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}


def _last_words(path: Path) -> str:
    said = path.read_text(errors="replace").strip().splitlines()
    return said[-1].removeprefix("searchveil: ") if said else "it said nothing"


def _options(**given: Any) -> list[str]:
    return [word for name, value in given.items() for word in as_option(name, value).split(" ")]
