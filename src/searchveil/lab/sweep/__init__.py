"""A grid of ways to publish, parameters and applications, run in parallel, and able to go on after it was stopped."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from searchveil.atomic import write_atomically
from searchveil.errors import InputError, setting
from searchveil.lab.sweep.cells import Store, grid
from searchveil.lab.sweep.charts import Chart, charts
from searchveil.lab.sweep.experiment import DemoLog, Experiment
from searchveil.lab.sweep.prepare import prepared
from searchveil.lab.sweep.results import Results
from searchveil.lab.sweep.work import Failure, run
from searchveil.lab.tools import check_tools
from searchveil.log.schema import Problem
from searchveil.progress import Progress, silent

__all__ = ["DemoLog", "Experiment", "Failure", "Swept", "sweep"]

Done = Callable[[int, int], None]
SHARE_OF_MEMORY = 0.7  # of the machine's, for the engines of all processes together
ENGINES = 2  # of a process at the same time


@dataclass(frozen=True)
class Swept:
    """What there is after a sweep."""

    results: Path
    charts: tuple[Path, ...]
    drawn: tuple[Chart, ...]
    cells: int
    kept: int  # cells that were there already
    failures: tuple[Failure, ...]
    problems: tuple[Problem, ...]


def sweep(
    experiment: Experiment,
    out: str | Path,
    *,
    workers: int | None = None,
    step: Progress = silent,
    done: Done = lambda done, of: None,
) -> Swept:
    """Do every cell that is not in `out` yet, then write results.parquet and the charts there.

    A cell that fails is reported and tried again in the next run; the others go on without it.
    """
    check_tools()
    if workers is not None and workers < 1:
        raise InputError(setting("workers") + f" must be at least 1, not {workers}", parameter="workers", value=workers)
    folder = Path(out)
    store = Store(folder / "cells")
    for made in (store.folder, folder / "failures"):
        made.mkdir(parents=True, exist_ok=True)
    with prepared(experiment, folder, step) as ready:
        cells = grid(ready.setup, ready.files)
        missing, of = store.missing(cells), len({cell.key for cell in cells})
        cores = os.cpu_count() or 1
        several = max(1, min(workers or cores, len(missing)))
        threads = max(1, cores // several)
        setup = replace(ready.setup, threads=threads, memory=_memory(several))
        failures: list[Failure] = []
        step(f"{len(missing)} of {of} cells to do, {several} at a time")
        done(of - len(missing), of)
        for number, failure in enumerate(run(setup, missing, store, several), 1):
            failures += [failure] if failure else []
            done(of - len(missing) + number, of)
    step("drawing")
    _write_failures(folder / "failures", failures)
    found = {cell.key: what for cell in cells if (what := store.read(cell.key)) is not None}
    results = Results.gather(cells, found, failures, experiment)
    drawn = charts(experiment, results)
    return Swept(
        results.write(folder / "results.parquet"),
        tuple(chart.write(folder) for chart in drawn),
        tuple(drawn),
        of,
        of - len(missing),
        tuple(failures),
        ready.problems,
    )


def _memory(processes: int) -> str | None:
    """Each engine would take most of the machine for itself."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # not a system that tells
        return None
    return f"{int(SHARE_OF_MEMORY * there / processes / ENGINES / 1e6)}MB"


def _write_failures(folder: Path, failures: list[Failure]) -> None:
    """What went wrong this time, with all that is known of it; what was wrong before is history."""
    for old in folder.glob("*.txt"):
        old.unlink()
    for failure in failures:
        write_atomically(
            folder / f"{failure.cell.key}.txt", f"{failure.cell.called}\n{failure.reason}\n{failure.details}"
        )
