"""A Spark standalone cluster on loopback, of pyspark's own classes: a master and workers, each a process."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from java import SHORT_LIVED_JAVA

import searchveil

LIMIT = 300  # seconds within which a process of the cluster starts, on a machine however slow
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class Daemon:
    """A Java process and what it starts; it ends with the tests, however these end."""

    def __init__(self, folder: Path, name: str, *command: str, user: int | None = None) -> None:
        import pyspark

        self.log = folder / f"{name}.log"
        home = Path(pyspark.__file__).parent
        keeper = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL"]
        if user is not None:
            keeper += ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JAVA,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*keeper, str(home / "bin" / "spark-class"), *command],
                env=kept | settings,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, words: str) -> re.Match[str]:
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            said = self.log.read_text(errors="replace")
            if found := re.search(words, said):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"no '{words}' from\n{self.log.read_text(errors='replace')}")

    def kill(self) -> None:
        """With kill -9, and what it started too."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Daemon] = []
        at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self.master = Daemon(folder, "master", MASTER, *at)
        self.url = self.master.wait_for(r"Starting Spark master at (spark://\S+)")[1]

    def add_worker(self, *, user: int | None = None) -> Daemon:
        name = f"worker-{len(self.workers)}"
        work = self.folder / name
        work.mkdir()
        if user is not None:
            os.chown(work, user, user)
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
        at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        worker = Daemon(self.folder, name, WORKER, *at, *size, self.url, user=user)
        self.workers.append(worker)
        worker.wait_for("Successfully registered with master")
        return worker

    def stop(self) -> None:
        for daemon in [*self.workers, self.master]:
            daemon.kill()

    @property
    def options(self) -> list[str]:
        """What the command is told to work here."""
        loopback = ["spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
        settings = [*loopback, "spark.sql.shuffle.partitions=2", "spark.sql.files.maxPartitionBytes=200000"]
        told = [word for setting in settings for word in ("--spark-conf", setting)]
        return ["--engine", "spark", "--master", self.url, "--executor-memory", "600MB", *told]

    def environment(self, **more: str) -> dict[str, Any]:
        """For a driver that runs the searchveil under test, while the workers have what this Python has installed."""
        source = str(Path(searchveil.__file__).parents[1])
        return {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable} | more
