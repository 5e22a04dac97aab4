"""A community of real processes, each of which can be stopped and started again."""

import json
import os
import re
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from searchveil.crowd.aggregate import release_job
from searchveil.crowd.config import Addresses, init, invite
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy
from searchveil.crowd.programs import job_named, new_job
from searchveil.crowd.simulate import start, wait_for
from searchveil.ports import KeptPorts


class Servers:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = KeptPorts(3)
        urls = [f"http://127.0.0.1:{port}" for port in self.ports.numbers]
        self.urls = dict(zip(("server", "randomness", "relay-1"), urls, strict=True))
        self.community = init(home, "Reading club", Addresses(urls[0], urls[1], (urls[2],)), hold_seconds=0.05)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for program in ("randomness", "server", "relay-1"):
            self.start(program)
        self.wires = {program: Wire(int(url.rsplit(":", 1)[1])) for program, url in self.urls.items()}
        self.file = home / "watched.json"  # what members get
        watched = (home / "community.json").read_text()
        for program, url in self.urls.items():
            watched = watched.replace(url, f"http://127.0.0.1:{self.wires[program].port}")
        self.file.write_text(watched)

    def start(self, program: str) -> None:
        self.processes[program] = start(program.removesuffix("-1"), self.home / f"{program}.toml")
        wait_for(self.urls[program], self.processes[program])

    def stop(self, program: str) -> None:
        process = self.processes.pop(program)
        process.terminate()
        process.wait(240)

    def close(self) -> None:
        for program in list(self.processes):
            self.stop(program)
        for wire in self.wires.values():
            wire.close()
        self.ports.close()

    def settings(self, program: str, **changed: object) -> None:
        """Change lines of a program's file; it takes them when it starts again."""
        path = self.home / f"{program}.toml"
        lines = path.read_text().splitlines()
        for name, value in changed.items():
            lines = [f"{name} = {json.dumps(value)}" if line.startswith(f"{name} =") else line for line in lines]
        path.write_text("\n".join(lines) + "\n")

    def invitation(self) -> str:
        now = os.stat(self.home / "server-members.txt").st_mtime
        made = invite(self.home, 1)[0]
        for program in ("server", "randomness"):  # read again when its time changes, however coarse clocks are
            os.utime(self.home / f"{program}-members.txt", (now + 1, now + 1))
        return made

    def job(self, policy: Policy, artifact: str = "query", **more: Any) -> Job:
        return new_job(self.home / "server.toml", artifact, policy, days=1, **more)

    def release(self, job: Job, name: str) -> dict[str, int]:
        """The queries in a release folder, with their counts."""
        store, job = job_named(self.home / "server.toml", job.id.hex())
        release_job(store, job, self.home / name)
        store.close()
        table = pq.read_table(self.home / name / "data.parquet").to_pylist()
        return {row["query"]: row["count"] for row in table}


class Wire:
    """Stands before a program and keeps what clients say, connection by connection.

    Answers to requests that begin with `lost` do not reach them; `unheard` is how many bytes of such there were.
    """

    def __init__(self, port: int) -> None:
        self.to = port
        self.lost, self.unheard = b"", 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        self.said: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            try:
                program = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # it is down
                client.close()
                continue
            kept = bytearray()
            self.said.append(kept)
            for source, sink in ((client, program), (program, client)):
                threading.Thread(target=self._pass_on, args=(source, sink, kept, source is client), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, said: bytearray, asks: bool) -> None:
        with suppress(OSError):
            while part := source.recv(65_536):
                if asks:
                    said += part
                elif self.lost and self.lost in said:
                    self.unheard += len(part)
                    continue
                sink.sendall(part)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def requests(said: bytearray) -> list[tuple[str, dict[str, str]]]:
    """(method and path, headers) of the requests on a connection."""
    found = []
    for one in re.finditer(rb"(?:GET|POST|OPTIONS) /[^ ]* HTTP/1\.1\r\n(?:[^\r\n]+\r\n)+\r\n", bytes(said)):
        first, *lines = one.group().decode().strip().split("\r\n")
        found.append((first.rsplit(" ", 1)[0], dict(line.lower().split(": ", 1) for line in lines)))
    return found
