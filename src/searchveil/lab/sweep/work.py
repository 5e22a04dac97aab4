"""One cell after another in several processes, each with an engine of its own.

Processes are spawned, never forked: a source of noise must not cross a fork. Each is an executor of one process, so
that one that dies takes its cell with it and nothing else. Their temporary files lie in the sweep's own temporary
folder, so they can be killed at any time. They end when their parent does, and then remove that folder.
"""

import hashlib
import os
import signal
import tempfile
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import parent_process, resource_tracker
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import numpy as np

from searchveil.atomic import keep_private
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
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import as_value, parameters_of
from searchveil.publish.release import Release
from searchveil.scratch import remove_dead
from searchveil.stopping import held_back


@dataclass(frozen=True)
class Failure:
    cell: Cell
    reason: str
    details: str = ""


def run(setup: Setup, cells: Sequence[Cell], store: Store, workers: int) -> Iterator[Failure | None]:
    """Do the cells, in any order, and keep what was found. Yields after each: what went wrong, or None."""
    waiting = deque(cells)
    busy: dict[Future[Found | Failure], tuple[_Worker, Cell]] = {}
    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, cell = idle.pop() if idle else _Worker(setup), waiting.popleft()
                busy[worker.submit(cell)] = worker, cell
            for done in wait(busy, return_when=FIRST_COMPLETED).done:
                worker, cell = busy.pop(done)
                if done.exception() is not None:
                    yield Failure(cell, f"its process ended ({worker.how_it_ended})")
                    continue
                idle.append(worker)
                yield _kept(done.result(), cell, store)
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.kill()


def _kept(found: Found | Failure, cell: Cell, store: Store) -> Failure | None:
    if isinstance(found, Failure):
        return found
    store.write(cell.key, found)
    return None


class _Spawning(SpawnContext):
    """Remembers the process that it started, which alone knows how it ended."""

    process: BaseProcess | None = None

    def Process(self, *given: Any, **named: Any) -> BaseProcess:  # type: ignore[override]  # noqa: N802
        self.process = super().Process(*given, **named)
        return self.process


class _Worker:
    """A process that works on one cell at a time."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._executor: ProcessPoolExecutor | None = None
        self._context = _Spawning()

    def submit(self, cell: Cell) -> Future[Found | Failure]:
        if self._executor is not None:
            try:
                return self._executor.submit(_judge, cell)
            except BrokenProcessPool:  # it died while it had nothing to do
                self._executor.shutdown()
        resource_tracker.ensure_running()  # which unblocks the signals that must stay blocked for what is started next
        with held_back():  # half a process is nobody's to stop, and one that is still importing would print a traceback
            self._executor = ProcessPoolExecutor(1, self._context, _begin, (self._setup,))
            return self._executor.submit(_judge, cell)

    @property
    def how_it_ended(self) -> str:
        assert self._context.process is not None
        self._context.process.join()
        code = self._context.process.exitcode
        return f"killed by signal {-code}, perhaps for want of memory" if code and code < 0 else f"exit code {code}"

    def kill(self) -> None:
        if self._context.process is not None:
            self._context.process.kill()
        if self._executor is not None:
            self._executor.shutdown()


_state: "WorkerState | None" = None  # of a worker's process


def _begin(setup: Setup) -> None:
    """The first thing that a worker's process does."""
    global _state
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keyboard stops the parent, which stops this
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `submit`
    Thread(target=_end_with_parent, args=(setup.train.parent,), daemon=True).start()
    keep_private()
    tempfile.tempdir = str(setup.train.parent)
    _state = WorkerState(setup)


def _end_with_parent(folder: Path) -> None:
    """Ends this process and removes the sweep's temporary folder, which a parent that was killed leaves behind.

    Tried more than once: the parent's lock may be let go of a moment after the parent is known to be gone, and other
    threads may still write.
    """
    parent = parent_process()
    assert parent is not None
    parent.join()
    for _ in range(50):
        remove_dead(folder.parent)
        if not folder.exists():
            break
        sleep(0.1)
    os._exit(1)


def _judge(cell: Cell) -> Found | Failure:
    assert _state is not None
    try:
        return _state.judge(cell)
    except SearchveilError as refusal:
        return Failure(cell, refusal.written(in_toml))
    except Exception as problem:
        first = (str(problem).splitlines() or [""])[0]
        return Failure(cell, f"{type(problem).__name__}: {first}", traceback.format_exc())


class WorkerState:
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
