"""Before the first cell: the log in two parts, public tables for those who need them, and fingerprints of all."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from searchveil.atomic import atomic_path
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.errors import InputError
from searchveil.items import CLICK, PAIR, QUERY, Item
from searchveil.lab.split import split
from searchveil.lab.sweep.cells import Setup
from searchveil.lab.sweep.experiment import DemoLog, Experiment, LogFiles
from searchveil.log.read import read_log
from searchveil.log.readers.source import find_sources
from searchveil.log.schema import Problem
from searchveil.progress import Progress
from searchveil.scratch import Scratch

PUBLIC_ITEMS = {"pool": QUERY, "candidates": CLICK, "transition_candidates": PAIR}
PUBLIC_USERS = 2  # of the other demo log who must share something before it is public knowledge


@dataclass(frozen=True)
class Prepared:
    setup: Setup
    files: Mapping[int, Mapping[str, Path]]  # of each point: parameter → file
    problems: tuple[Problem, ...]  # rows of the log that could not be read


@contextmanager
def prepared(experiment: Experiment, out: Path, step: Progress) -> Iterator[Prepared]:
    """The two parts of the log as Parquet, for as long as it takes.

    A demo log stays in the output folder and is used again. The parts of a real one lie in a temporary folder, where
    they are private: whoever passes the results on should not pass the log on with them.
    """
    kept = out / "log"
    kept.mkdir(parents=True, exist_ok=True)
    public = {
        (number, name): _public_file(name, value, kept, step)
        for number, point in enumerate(experiment.points)
        for name, value in point.public.items()
    }
    files: dict[int, dict[str, Path]] = {}
    for (number, name), path in public.items():
        files.setdefault(number, {})[name] = path
    fingerprints = {path: fingerprint([path]) for path in set(public.values())}
    with Scratch() as scratch:
        source = experiment.log
        if isinstance(source, DemoLog):
            read = LogFiles((str(_demo(source, kept, step)),))
        else:
            read = _from(experiment.folder, source)
        step("reading the log")
        train, test, problems = _parts(experiment, read, scratch)
        setup = Setup(train, test, experiment, _fingerprint_of(read), fingerprints)
        yield Prepared(setup, files, problems)


def _from(folder: Path, files: LogFiles) -> LogFiles:
    """Paths as seen from the experiment file."""
    return LogFiles(
        tuple(path if "://" in path else str(folder / path) for path in files.path), files.format, files.columns
    )


def _demo(wanted: DemoLog, folder: Path, step: Progress) -> Path:
    from searchveil.log.demo import write_demo

    path = folder / f"demo-{wanted.users}-{wanted.seed}.parquet"
    if not path.exists():
        step(f"making a {wanted}")
        write_demo(path, users=wanted.users, seed=wanted.seed)
    return path


def _parts(experiment: Experiment, read: LogFiles, folder: Path) -> tuple[Path, Path, tuple[Problem, ...]]:
    engine = DuckDBEngine()
    try:
        engine.keep_order()  # or the noise of the same seed would fall on other items
        log = read_log(list(read.path), format=read.format, columns=dict(read.columns), engine=engine)
        paths = folder / "train.parquet", folder / "test.parquet"
        for part, path in zip(split(log, fraction=experiment.test_fraction, seed=experiment.seed), paths, strict=True):
            engine.connection.to_parquet(part.table, path)
            if not engine.value(part.table.limit(1).count()):
                raise InputError(f"{part.source} has no users; the log is too small for test_fraction")
    finally:
        engine.close()
    return *paths, log.problems


def _public_file(name: str, value: str | DemoLog, folder: Path, step: Progress) -> Path:
    """A file that is given, or what at least two users share in another demo log, as if it were public."""
    if not isinstance(value, DemoLog):
        return Path(value)
    path = folder / f"{name}-{value.users}-{value.seed}.parquet"
    if path.exists():
        return path
    demo = _demo(value, folder, step)
    step(f"making public {name.replace('_', ' ')} of another log")
    engine = DuckDBEngine()
    try:
        _write_public(PUBLIC_ITEMS[name], demo, path, engine)
    finally:
        engine.close()
    return path


def _write_public(item: Item, demo: Path, path: Path, engine: DuckDBEngine) -> None:
    held, columns = item.of(read_log(demo, engine=engine)), list(item.columns)
    shared = held.group_by(columns).agg(_users=held.count())
    shared = shared.filter(shared["_users"] >= PUBLIC_USERS)
    with atomic_path(path) as partial:
        engine.connection.to_parquet(shared.select(*columns).order_by(columns), partial)


def _fingerprint_of(read: LogFiles) -> str:
    """Of the files' content and of how they are read, wherever they lie and whatever they are called."""
    paths: list[Path] = []
    for source in find_sources(list(read.path)):
        if "://" in source.path:
            raise InputError(f"{source.path}: a sweep needs files of this machine; copy it here first")
        path = Path(source.path)
        paths += sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return fingerprint(paths, read.format, dict(read.columns))


def fingerprint(paths: list[Path], *how: Any) -> str:
    summed = hashlib.sha256(repr(how).encode())
    for path in paths:
        with path.open("rb") as file:
            of_file = hashlib.file_digest(file, "sha256")
        summed.update(of_file.digest())
    return summed.hexdigest()
