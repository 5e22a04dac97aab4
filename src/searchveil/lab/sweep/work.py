"""One cell after another in several processes, each with an engine of its own.

Processes are spawned, never forked: a source of noise must not cross a fork. One that dies takes its cell with it and
nothing else. When the parent dies its end of the pipe closes, and a process stops after the cell it is in.
"""

import hashlib
import signal
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from searchveil.engine.duckdb import DuckDBEngine
from searchveil.errors import SearchveilError, in_toml
from searchveil.lab.applications import application_named
from searchveil.lab.measures import measure_named
from searchveil.lab.sweep.cells import Cell, Found, Setup, Store, shown
from searchveil.lab.sweep.experiment import ORIGINAL, DemoLog
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View, lacking
from searchveil.log.read import read_log
from searchveil.privacy.noise import Source
from searchveil.publish.mechanism import Mechanism, Release
from searchveil.publish.parameters import as_value, parameters_of
from searchveil.stopping import end_cleanly, held_back, received
from searchveil.whole import keep_private

PATIENCE = 6  # seconds for a process to put its things away
GRACE = 4  # seconds after which it removes its files whatever it was doing


@dataclass(frozen=True)
class Failure:
    cell: Cell
    reason: str
    details: str = ""


def run(setup: Setup, cells: Sequence[Cell], store: Path, workers: int) -> Iterator[Failure | None]:
    """Do the cells, in any order. Yields after each: what went wrong, or None."""
    waiting = deque(cells)
    busy: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _Worker.start(setup, store)
                busy.append(worker)
                worker.take(waiting.popleft())
            spoke = connection.wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in spoke]:
                busy.remove(worker)
                failure, alive = worker.answer()
                if alive:
                    idle.append(worker)
                yield failure
    finally:
        _stop([*busy, *idle])


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    cell: Cell | None = None

    @classmethod
    def start(cls, setup: Setup, store: Path) -> "_Worker":
        spawning = get_context("spawn")
        resource_tracker.ensure_running()  # which unblocks the signals that must stay blocked for what is started next
        with held_back():  # half a process is nobody's to stop, and one that is still importing would print a traceback
            ours, theirs = spawning.Pipe()
            process = spawning.Process(target=_work, args=(setup, store, theirs), daemon=True)
            process.start()
            theirs.close()
            return cls(process, ours)

    def take(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # it died while it had nothing to do; its answer will tell
            self.pipe.send(cell)

    def answer(self) -> tuple[Failure | None, bool]:
        """What came of the cell, and whether the process still lives."""
        assert self.cell is not None
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE)
            self.pipe.close()
            code = self.process.exitcode
            how = f"killed by signal {-code}, perhaps for want of memory" if code and code < 0 else f"exit code {code}"
            return Failure(self.cell, f"its process ended ({how})"), False
        return (None if said is None else Failure(self.cell, *said)), True


def _stop(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(PATIENCE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()


def _work(setup: Setup, folder: Path, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keyboard stops the parent, which stops this
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `start`
    end_cleanly(GRACE)
    keep_private()
    bench, store = Bench(setup), Store(folder)
    try:
        while True:
            cell: Cell = pipe.recv()
            try:
                store.write(cell.key, bench.judge(cell))
                pipe.send(None)
            except SearchveilError as refusal:
                pipe.send((refusal.written(in_toml),))
            except Exception as problem:
                if received() is not None:  # the engine's word for having been stopped
                    break
                first = (str(problem).splitlines() or [""])[0]
                pipe.send((f"{type(problem).__name__}: {first}", traceback.format_exc()))
    except (EOFError, OSError, KeyboardInterrupt):  # the parent has gone, or stops this
        pass
    finally:
        bench.close()


class Bench:
    """What a process keeps from cell to cell: the log's view and the test, asked for when first needed."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def engine(self) -> DuckDBEngine:
        return self._new_engine()

    def _new_engine(self) -> DuckDBEngine:
        return DuckDBEngine(threads=self.setup.threads, memory=self.setup.memory)

    @cached_property
    def original(self) -> View:
        return View.of_log(read_log(self.setup.train, engine=self.engine))

    @cached_property
    def test(self) -> TestSet:
        log = read_log(self.setup.test, engine=self.engine)
        return TestSet.draw(log, original=self.original, seed=self.setup.experiment.seed)

    def close(self) -> None:
        if "engine" in vars(self):
            self.engine.close()

    def judge(self, cell: Cell) -> Found:
        if cell.point.method == ORIGINAL:
            began = monotonic()
            figures, skipped = self._try(self.original)
            return {"figures": figures, "skipped": skipped, "evaluation_seconds": monotonic() - began}
        began = monotonic()
        mechanism = cell.point.build(cell.files)
        release = self._release(mechanism, cell)
        made = monotonic()
        view = View.of_release(release, self.engine)
        figures, skipped = self._try(view)
        measures, unmeasured = self._measure(view)
        return {
            "parameters": _parameters(mechanism, cell),
            "guarantee": release.guarantee.to_json(),
            "rows": {name: table.num_rows for name, table in release.tables.items()},
            "release_seconds": made - began,
            "evaluation_seconds": monotonic() - made,
            "figures": {"plan": _planned(release), "release": _released(release), **measures, **figures},
            "skipped": skipped | unmeasured,
        }

    def _release(self, mechanism: Mechanism, cell: Cell) -> Release:
        """In an engine that lives no longer: what mechanisms stage is as large as the log, cell after cell."""
        engine = self._new_engine()
        try:
            return mechanism.release(read_log(self.setup.train, engine=engine), source=self._source(cell))
        finally:
            engine.close()

    def _source(self, cell: Cell) -> Source:
        """Fresh noise; that of a demo log, in which there is nobody to protect, is the same in every run."""
        if not isinstance(self.setup.experiment.log, DemoLog):
            return Source()
        return Source(hashlib.sha256(f"sweep {cell.key}".encode()).digest())

    def _try(self, view: View) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
        figures, skipped = {}, {}
        for name, parameters in self.setup.experiment.applications.items():
            application = application_named(name)(**parameters)
            if missing := lacking(application.needs, self.original, view):
                skipped[name] = missing
            else:
                figures[name] = application.run(view, self.test)
        return figures, skipped

    def _measure(self, view: View) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
        figures, skipped = {}, {}
        original = self.original.counted_as(view)
        for name, parameters in self.setup.experiment.measures.items():
            measure = measure_named(name)(**parameters)
            if missing := lacking(measure.needs, original, view):
                skipped[name] = missing
            else:
                figures[name] = measure.measure(original, view)
        return figures, skipped


def _parameters(mechanism: Mechanism, cell: Cell) -> dict[str, Any]:
    """All of them, those left out in the file too; what is the mechanism's default is a parameter still."""
    effective = {
        one.name: as_value(getattr(mechanism, one.name)) for one in parameters_of(type(mechanism)) if not one.in_file
    }
    return shown({**effective, **cell.point.public})


def _planned(release: Release) -> dict[str, float]:
    """What the mechanism worked out from its parameters and promises, and what a paper claims for them."""
    promised = {"epsilon": release.guarantee.epsilon, "delta": release.guarantee.delta}
    return _numbers({**release.plan.parameters, **release.plan.claims, **promised})


def _released(release: Release) -> dict[str, float]:
    rows = {f"rows.{name}": table.num_rows for name, table in release.tables.items()}
    counted = {
        f"counted.{name}": int(np.sum(table["count"].to_numpy()))
        for name, table in release.tables.items()
        if "count" in table.column_names
    }
    return _numbers({**release.plan.figures, **rows, **counted})


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """What can be drawn. A seed is a number too, but one that no axis needs and no float can hold."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 2**53
    }
