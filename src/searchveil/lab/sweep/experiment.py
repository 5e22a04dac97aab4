"""An experiment file: which ways of publishing, with which parameters, judged by what, on which log.

All that can be wrong with it is told before any work, with the table in which it stands and that table's line.
"""

import fnmatch
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from searchveil.errors import InputError, in_toml
from searchveil.lab.applications import APPLICATIONS, application_named
from searchveil.lab.measures import MEASURES, measure_named
from searchveil.publish import METHODS, build, method_named, no_such_parameter
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import parameters_of

Parameters = Mapping[str, Any]
Judges = Mapping[str, Parameters]  # applications or measures: name → its parameters

ORIGINAL = "original"  # the log itself, a row like any other wherever an application is tried
TOP = ("title", "repeats", "seed", "test_fraction", "applications", "measures")
TABLES = ("log", "application", "measure", "mechanism", "chart")
# The columns of results.parquet that stand beside the parameters; a chart may use them too.
COLUMNS = (
    "cell label method varied repeat kind name figure of at value original note guarantee_epsilon guarantee_delta "
    "guarantee_notion guarantee_neighbours published_rows release_seconds evaluation_seconds"
).split()
PLANNED = "plan_"  # begins the columns of what a mechanism works out from its parameters, as plan_noise_scale
OF_A_RELEASE = ("plan", "release")  # what a chart can show besides applications and measures


@dataclass(frozen=True)
class DemoLog:
    """A log that is made, not read: nobody's searches, so its noise may be repeatable."""

    users: int
    seed: int = 1

    def __str__(self) -> str:
        return f"demo log of {self.users} users, seed {self.seed}"


@dataclass(frozen=True)
class LogFiles:
    path: tuple[str, ...]
    format: str = "auto"
    columns: Parameters = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(self.path)


@dataclass(frozen=True)
class Point:
    """One way of publishing with its parameters; `swept` names those that differ within its table."""

    label: str
    method: str
    parameters: Parameters
    swept: tuple[str, ...] = ()

    @property
    def varied(self) -> str:
        return ", ".join(f"{name}={self.parameters[name]}" for name in self.swept)

    @property
    def public(self) -> Parameters:
        """The parameters that are tables or pools, kept in files."""
        in_files = [one.name for one in parameters_of(method_named(self.method)) if one.in_file]
        return {name: value for name, value in self.parameters.items() if name in in_files}

    def build(self, files: Mapping[str, Path]) -> Mechanism:
        """The mechanism; what is kept in files is read from `files`."""
        simple = {name: value for name, value in self.parameters.items() if name not in self.public}
        return build(self.method, {**simple, **files})


@dataclass(frozen=True)
class ChartSpec:
    """`y` names figures as application/figure or measure/figure, with * for any; the rest names columns.

    `where` keeps the rows with one of these values. A method that has no such parameter is not asked about it.
    """

    file: str
    y: tuple[str, ...]
    x: str = "guarantee_epsilon"
    series: tuple[str, ...] = ()
    facet: str | None = None
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    title: str = ""
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Experiment:
    title: str
    log: DemoLog | LogFiles
    points: tuple[Point, ...]
    applications: Judges
    measures: Judges
    repeats: int
    seed: int
    test_fraction: float
    charts: tuple[ChartSpec, ...]
    folder: Path  # the files it names are looked for from here

    @classmethod
    def read(cls, path: str | Path) -> "Experiment":
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as problem:
            raise InputError(f"{path}: is not UTF-8, as TOML has to be") from problem
        except OSError as problem:
            raise InputError(f"{path}: cannot be read ({problem.strerror})") from problem
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise InputError(f"{path}: is not TOML: {problem}") from problem
        return _Reading(path, text).experiment(given)


@dataclass(frozen=True)
class _Reading:
    """The file while it is read: every complaint names it, the table and the line."""

    path: Path
    text: str

    def experiment(self, given: Parameters) -> Experiment:
        self._known(given, (*TOP, *TABLES), "")
        for name in ("mechanism", "chart"):
            if not isinstance(given.get(name, []), list):
                self._fail(f"[{name}]", f"there may be several: write [[{name}]]")
        if not given.get("mechanism"):
            self._fail("", "has no [[mechanism]]: name at least one way of publishing")
        applications = self._judges(given, "application")
        measures = self._judges(given, "measure")
        if not applications and not measures:
            self._fail("", "judges nothing: name applications, measures or both")
        points = [point for place, table in enumerate(given["mechanism"], 1) for point in self._points(table, place)]
        columns = {*COLUMNS, *(one.name for point in points for one in parameters_of(method_named(point.method)))}
        judged = {*applications, *measures, *OF_A_RELEASE}
        charts = [self._chart(table, place, columns, judged) for place, table in enumerate(given.get("chart", []), 1)]
        if len({chart.file for chart in charts}) < len(charts):
            self._fail("", "has two charts of the same file; give each its own")
        fraction = given.get("test_fraction", 0.2)
        if not isinstance(fraction, float) or not 0 < fraction < 1:
            self._fail("", f"test_fraction is a share of the users between 0 and 1, not {fraction!r}; try 0.2")
        return Experiment(
            title=str(given.get("title", self.path.stem)),
            log=self._log(given.get("log")),
            points=tuple(points),
            applications=applications,
            measures=measures,
            repeats=self._whole(given, "repeats", 1, 1, ""),
            seed=self._whole(given, "seed", 1, 0, ""),
            test_fraction=fraction,
            charts=tuple(charts),
            folder=self.path.parent,
        )

    def _log(self, table: Any) -> DemoLog | LogFiles:
        if not isinstance(table, dict):
            self._fail("", 'has no [log]: write [log] and users = 5000 for a demo log, or path = "log.tsv"')
        if "users" in table:
            return self._demo(table, "[log]")
        self._known(table, ("path", "format", "columns"), "[log]")
        paths = table.get("path")
        paths = [paths] if isinstance(paths, str) else paths
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
            self._fail("[log]", 'needs users = N for a demo log, or path = "log.tsv" or a list of paths')
        return LogFiles(tuple(paths), str(table.get("format", "auto")), dict(table.get("columns", {})))

    def _demo(self, table: Parameters, where: str) -> DemoLog:
        self._known(table, ("users", "seed"), where)
        return DemoLog(self._whole(table, "users", 0, 1, where), self._whole(table, "seed", 1, 0, where))

    def _judges(self, given: Parameters, kind: str) -> dict[str, Parameters]:
        """The applications or measures that are named, each with the parameters its own table gives it."""
        there, named = (APPLICATIONS, application_named) if kind == "application" else (MEASURES, measure_named)
        names = given.get(f"{kind}s", [])
        names = list(there) if names == "all" else names
        if not isinstance(names, list):
            self._fail("", f'{kind}s is a list of names, or "all"; there are {", ".join(there)}')
        tables = given.get(kind, {})
        for name in names:
            if name not in there:
                self._fail("", f"no {kind} '{name}'; there are {', '.join(there)}")
        for name in tables:
            if name not in names:
                self._fail(f"[{kind}.{name}]", f"'{name}' is not among the {kind}s that are named")
        judges: dict[str, Parameters] = {}
        for name in names:
            where, parameters = f"[{kind}.{name}]", tables.get(name, {})
            judge: Any = named(name)
            self._known(parameters, [one.name for one in fields(judge)], where)
            judges[name] = {parameter: as_tuples(value) for parameter, value in parameters.items()}
            self._try(lambda judge=judge, chosen=judges[name]: judge(**chosen), where)
        return judges

    def _points(self, table: Parameters, place: int) -> Iterator[Point]:
        where = f"[[mechanism]] {place}"
        method = table.get("method")
        if method not in METHODS:
            self._fail(where, f"no method '{method}'; there are {', '.join(METHODS)}")
        known = {one.name: one for one in parameters_of(method_named(str(method)))}
        given = {name.replace("-", "_"): value for name, value in table.items() if name not in ("method", "label")}
        cases = given.pop("cases", [{}])
        if not isinstance(cases, list) or not cases or not all(isinstance(case, dict) for case in cases):
            self._fail(where, "cases is a list of tables, each with parameters that belong together")
        cases = [{name.replace("-", "_"): value for name, value in case.items()} for case in cases]
        for name in [*given, *(name for case in cases for name in case)]:
            if name not in known:
                self._fail(where, no_such_parameter(str(method), name).written(in_toml))
        swept = [name for name, value in given.items() if isinstance(value, list)]
        several = {*swept, *(name for case in cases if len(cases) > 1 for name in case)}
        if empty := [name for name in swept if not given[name]]:
            self._fail(where, f"{empty[0]} is an empty list; leave it out or give it a value")
        for case in cases:
            for values in product(*(given[name] for name in swept)):
                chosen = {**given, **dict(zip(swept, values, strict=True)), **case}
                parameters = {
                    name: self._in_file(name, value, where) if known[name].in_file else as_tuples(value)
                    for name, value in chosen.items()
                }
                differing = tuple(name for name in chosen if name in several)
                point = Point(str(table.get("label", method)), str(method), parameters, differing)
                self._try(lambda point=point: point.build({}), where)
                yield point

    def _in_file(self, name: str, value: Any, where: str) -> str | DemoLog:
        if isinstance(value, dict):
            return self._demo(value, where)
        if not isinstance(value, str) or not (self.path.parent / value).is_file():
            self._fail(where, f"{name}: there is no file {value}; or write {{ users = N, seed = S }} for a demo log's")
        return str(self.path.parent / value)

    def _chart(self, table: Parameters, place: int, columns: set[str], judged: set[str]) -> ChartSpec:
        where = f"[[chart]] {place}"
        self._known(table, [one.name for one in fields(ChartSpec)], where)
        y, series = (_listed(table.get(name, [])) for name in ("y", "series"))
        if not y:
            self._fail(where, f'needs y = "name/figure", a name being one of {", ".join(sorted(judged))}')
        for name in y:
            if not isinstance(name, str) or "/" not in name or not fnmatch.filter(judged, name.partition("/")[0]):
                self._fail(
                    where, f"y = '{name}' should be name/figure, a name being one of {', '.join(sorted(judged))}"
                )
        beside = table.get("where", {})
        for column in [*series, *beside, *(table[name] for name in ("x", "facet") if name in table)]:
            if column not in columns and not str(column).startswith(PLANNED):
                self._fail(where, f"no column '{column}'; there are {', '.join(sorted(columns))}")
        file = table.get("file", f"chart-{place}")
        if not isinstance(file, str) or not re.fullmatch(r"[\w.-]+", file):
            self._fail(where, f"file = {file!r} should be a name of letters, digits, dots and hyphens")
        given = dict(table) | {"file": file, "y": y, "series": series}
        given["where"] = {column: _listed(value) for column, value in beside.items()}
        return ChartSpec(**given)

    def _whole(self, table: Parameters, name: str, default: int, least: int, where: str) -> int:
        value = table.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self._fail(where, f"{name} is a whole number of at least {least}, not {value!r}")
        return int(value)

    def _known(self, table: Any, known: Sequence[str], where: str) -> None:
        if not isinstance(table, dict):
            self._fail(where, "is not a table")
        for name in table:
            if name not in known:
                self._fail(where, f"'{name}' means nothing here; there are {', '.join(known)}")

    def _try(self, build: Any, where: str) -> None:
        try:
            build()
        except InputError as problem:
            self._fail(where, problem.written(in_toml))
        except (TypeError, ValueError) as problem:
            self._fail(where, str(problem))

    def _fail(self, where: str, what: str) -> NoReturn:
        raise InputError(f"{self.path}{self._line(where)}: {where + ': ' if where else ''}{what}")

    def _line(self, where: str) -> str:
        """`:LINE` of a table's header; the parser of the standard library does not tell where it found what."""
        header, _, place = where.partition(" ")
        written = [
            number
            for number, line in enumerate(self.text.splitlines(), 1)
            if header and line.split("#")[0].replace(" ", "").replace('"', "") == header
        ]
        number = int(place or 1) - 1
        return f":{written[number]}" if number < len(written) else ""


def as_tuples(value: Any) -> Any:
    """Lists as frozen dataclasses have them. (In a mechanism's table the outer list was swept by now.)"""
    return tuple(as_tuples(one) for one in value) if isinstance(value, list) else value


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
