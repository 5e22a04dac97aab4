"""A cell of the grid: one release, made and judged. Its file has the name of all that decides what is in it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from searchveil import __version__
from searchveil.atomic import write_atomically
from searchveil.lab.sweep.experiment import ORIGINAL, DemoLog, Experiment, Point

Found = dict[str, Any]  # what was found in a cell, as JSON


@dataclass(frozen=True)
class Setup:
    """What all cells of a sweep share, and what a process needs to know to work on one."""

    train: Path
    test: Path
    experiment: Experiment
    fingerprint: str  # of the log
    public: Mapping[Path, str]  # pools and candidates: file → fingerprint
    threads: int = 1
    memory: str | None = None


@dataclass(frozen=True)
class Cell:
    point: Point
    repeat: int
    files: Mapping[str, Path] = field(default_factory=dict)  # parameters that are tables
    key: str = ""

    @property
    def called(self) -> str:
        varied = f" {self.point.varied}" if self.point.varied else ""
        return f"{self.point.label}{varied}" + (f", repeat {self.repeat}" if self.repeat > 1 else "")


def grid(setup: Setup, files: Mapping[int, Mapping[str, Path]]) -> list[Cell]:
    """All cells, the original first: every figure of a release is looked at beside it."""
    experiment = setup.experiment
    cells = [Cell(Point(ORIGINAL, ORIGINAL, {}), 1)] if experiment.applications else []
    cells += [
        Cell(point, repeat, files.get(number, {}))
        for repeat in range(1, experiment.repeats + 1)
        for number, point in enumerate(experiment.points)
    ]
    keyed = (Cell(cell.point, cell.repeat, cell.files, _key(cell, setup)) for cell in cells)
    return list({(cell.key, cell.point.label): cell for cell in keyed}.values())


def _key(cell: Cell, setup: Setup) -> str:
    """The same settings on the same log by the same version. How a cell is called or drawn is not among them."""
    experiment = setup.experiment
    settings = {
        "version": __version__,
        "log": setup.fingerprint,
        "test_fraction": experiment.test_fraction,
        "seed": experiment.seed,
        "applications": experiment.applications,
        "measures": experiment.measures if cell.point.method != ORIGINAL else {},
        "method": cell.point.method,
        "parameters": {name: value for name, value in cell.point.parameters.items() if name not in cell.files},
        "files": {name: setup.public[path] for name, path in cell.files.items()},
        "repeat": cell.repeat,
    }
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def shown(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they can stand in a table."""
    return {
        name: value if isinstance(value, bool | int | float | str) or value is None else _as_text(value)
        for name, value in parameters.items()
    }


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, DemoLog) else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class Store:
    """Finished cells, a file each: written completely or not at all, so that what is there can be relied on."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def read(self, key: str) -> Found | None:
        try:
            found = json.loads(self.path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or torn by a loss of power: to be done again
            return None
        return found if isinstance(found, dict) else None

    def write(self, key: str, found: Found) -> None:
        write_atomically(self.path(key), json.dumps(found, ensure_ascii=False))

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those to be done. Two tables may ask for the same under two labels: once is enough."""
        return [cell for cell in {cell.key: cell for cell in cells}.values() if self.read(cell.key) is None]
