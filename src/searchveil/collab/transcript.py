"""What went in and out, a line of JSON for each message: who, what, when and how many bytes, and no content."""

import json
import os
import time
from pathlib import Path
from threading import Lock
from typing import IO, Any


class Transcript:
    """Appended to a file as the run goes on, or kept to itself; the sums are known in any case."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[str] | None = None
        if path is not None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = Lock()
        self._start = time.monotonic()
        self.sent = self.received = 0
        self.seconds: dict[str, float] = {}  # by phase
        self._phase: tuple[str, float] | None = None

    def message(self, direction: str, peer: str, phase: str, topic: str, number: int, size: int) -> None:
        if direction == "sent":
            self.sent += size
        else:
            self.received += size
        self._write(event=direction, peer=peer, phase=phase, topic=topic, number=number, bytes=size)

    def phase(self, name: str) -> None:
        now = time.monotonic()
        if self._phase is not None:
            before, since = self._phase
            self.seconds[before] = self.seconds.get(before, 0.0) + now - since
        self._phase = (name, now)
        self._write(event="phase", phase=name)

    def ended(self, how: str) -> None:
        self.phase("ended")
        self._write(event="ended", how=how)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, **event: Any) -> None:
        if self._file is None:
            return
        with self._lock:
            self._file.write(json.dumps({"at": round(time.monotonic() - self._start, 3), **event}) + "\n")
            self._file.flush()
