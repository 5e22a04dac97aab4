"""An experiment file: which ways of publishing, with which parameters, judged by what, on which log.

All that can be wrong with it is told before any work, with the table in which it stands and that table's line.
"""

import fnmatch
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked
from pydantic_core import ErrorDetails

from searchveil.errors import InputError, in_toml
from searchveil.lab.applications import APPLICATIONS, application_named
from searchveil.lab.measures import MEASURES, measure_named
from searchveil.publish import METHODS, build, method_named, no_such_parameter
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import parameters_of

Parameters = Mapping[str, Any]
Judges = Mapping[str, Parameters]  # applications or measures: name → its parameters

ORIGINAL = "original"  # the log itself, a row like any other wherever an application is tried
# The columns of results.parquet that stand beside the parameters; a chart may use them too.
COLUMNS = (
    "cell label method varied repeat kind name figure of at value original note guarantee_epsilon guarantee_delta "
    "guarantee_notion guarantee_neighbours published_rows release_seconds evaluation_seconds"
).split()
PLANNED = "plan_"  # begins the columns of what a mechanism works out from its parameters, as plan_noise_scale
OF_A_RELEASE = ("plan", "release")  # what a chart can show besides applications and measures


STRICT = ConfigDict(strict=True, extra="forbid")
LONGEST_VALUE = 60  # characters of a wrong value that are repeated


def _listed(value: Any) -> Any:
    """One value may stand for a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Several = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Share = Annotated[float, Field(gt=0, lt=1)]
AtLeast0 = Annotated[int, Field(ge=0)]
AtLeast1 = Annotated[int, Field(ge=1)]


@checked(frozen=True, config=STRICT)
class DemoLog:
    """A log that is made, not read: nobody's searches, so its noise may be repeatable."""

    users: AtLeast1
    seed: AtLeast0 = 1

    def __str__(self) -> str:
        return f"demo log of {self.users} users, seed {self.seed}"


@checked(frozen=True, config=STRICT)
class LogFiles:
    path: Annotated[Several, Field(min_length=1)]
    format: str = "auto"
    columns: dict[str, Any] = field(default_factory=dict)

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


@checked(frozen=True, config=STRICT)
class ChartSpec:
    """`y` names figures as application/figure or measure/figure, with * for any; the rest names columns.

    `where` keeps the rows with one of these values. A method that has no such parameter is not asked about it.
    """

    file: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    y: Annotated[Several, Field(min_length=1)]
    x: str = "guarantee_epsilon"
    series: Several = ()
    facet: str | None = None
    where: dict[str, Annotated[tuple[Any, ...], BeforeValidator(_listed)]] = field(default_factory=dict)
    title: str = ""
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns of the results that it asks for."""
        return [*self.series, *self.where, self.x, *([self.facet] if self.facet else [])]


class _File(BaseModel):
    """The tables of the file and the keys above them."""

    model_config = STRICT

    title: str | None = None
    repeats: AtLeast1 = 1
    seed: AtLeast0 = 1
    test_fraction: Share = 0.2
    applications: list[str] | None = None
    measures: list[str] | None = None
    log: dict[str, Any]
    application: dict[str, dict[str, Any]] = {}
    measure: dict[str, dict[str, Any]] = {}
    mechanism: Annotated[list[dict[str, Any]], Field(min_length=1)]
    chart: list[dict[str, Any]] = []


class _MechanismTable(BaseModel):
    """What is no parameter of the mechanism; its parameters are all that is there besides."""

    model_config = ConfigDict(strict=True, extra="allow")

    method: str
    label: str | None = None
    cases: Annotated[list[dict[str, Any]], Field(min_length=1)] = [{}]


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


T = TypeVar("T")


@dataclass(frozen=True)
class _Reading:
    """The file while it is read: every complaint names it, the table and the line."""

    path: Path
    text: str

    def experiment(self, given: Parameters) -> Experiment:
        file = self._parsed(_File, _all_written_out(given), "")
        applications = self._judges("application", file.applications or [], file.application)
        measures = self._judges("measure", file.measures or [], file.measure)
        if not applications and not measures:
            self._fail("", "judges nothing: name applications, measures or both")
        points = [point for place, table in enumerate(file.mechanism, 1) for point in self._points(table, place)]
        return Experiment(
            title=self.path.stem if file.title is None else file.title,
            log=self._log(file.log),
            points=tuple(points),
            applications=applications,
            measures=measures,
            repeats=file.repeats,
            seed=file.seed,
            test_fraction=file.test_fraction,
            charts=self._charts(file.chart, points, {*applications, *measures, *OF_A_RELEASE}),
            folder=self.path.parent,
        )

    def _log(self, table: Parameters) -> DemoLog | LogFiles:
        if "users" in table:
            return self._parsed(DemoLog, table, "[log]")
        return self._parsed(LogFiles, table, "[log]")

    def _judges(self, kind: str, names: Sequence[str], tables: Mapping[str, Parameters]) -> dict[str, Parameters]:
        """The applications or measures that are named, each with the parameters its own table gives it."""
        there, named = (APPLICATIONS, application_named) if kind == "application" else (MEASURES, measure_named)
        for name in names:
            if name not in there:
                self._fail("", f"no {kind} '{name}'; there are {', '.join(there)}")
        for name in tables:
            if name not in names:
                self._fail(f"[{kind}.{name}]", f"'{name}' is not among the {kind}s that are named")
        judges = {name: as_tuples(tables.get(name, {})) for name in names}
        for name, parameters in judges.items():
            judge: Any = named(name)
            self._parsed(checked(frozen=True, config=STRICT)(judge), parameters, f"[{kind}.{name}]")
        return judges

    def _points(self, table: Parameters, place: int) -> Iterator[Point]:
        where = f"[[mechanism]] {place}"
        asked = self._parsed(_MechanismTable, table, where)
        method = asked.method
        if method not in METHODS:
            self._fail(where, f"no method '{method}'; there are {', '.join(METHODS)}")
        given, cases = _with_underscores(asked.model_extra or {}), [_with_underscores(case) for case in asked.cases]
        known = {one.name: one for one in parameters_of(method_named(method))}
        self._check_names(method, known, given, cases, where)
        for chosen, varied in _combinations(given, cases):
            parameters = {
                name: self._in_file(name, value, where) if known[name].in_file else as_tuples(value)
                for name, value in chosen.items()
            }
            point = Point(asked.label or method, method, parameters, varied)
            self._try(lambda point=point: point.build({}), where)
            yield point

    def _check_names(
        self, method: str, known: Parameters, given: Parameters, cases: Sequence[Parameters], where: str
    ) -> None:
        for name in [*given, *(name for case in cases for name in case)]:
            if name not in known:
                self._fail(where, no_such_parameter(method, name).written(in_toml))
        for name, value in given.items():
            if value == []:
                self._fail(where, f"{name} is an empty list; leave it out or give it a value")

    def _in_file(self, name: str, value: Any, where: str) -> str | DemoLog:
        if isinstance(value, dict):
            return self._parsed(DemoLog, value, where)
        if not isinstance(value, str) or not (self.path.parent / value).is_file():
            self._fail(where, f"{name}: there is no file {value}; or write {{ users = N, seed = S }} for a demo log's")
        return str(self.path.parent / value)

    def _charts(self, tables: Sequence[Parameters], points: Sequence[Point], judged: set[str]) -> tuple[ChartSpec, ...]:
        columns = {*COLUMNS, *(one.name for point in points for one in parameters_of(method_named(point.method)))}
        charts = []
        for place, table in enumerate(tables, 1):
            where = f"[[chart]] {place}"
            charts.append(self._parsed(ChartSpec, {"file": f"chart-{place}", **table}, where))
            self._check_chart(charts[-1], where, columns, judged)
        if len({chart.file for chart in charts}) < len(charts):
            self._fail("", "has two charts of the same file; give each its own")
        return tuple(charts)

    def _check_chart(self, chart: ChartSpec, where: str, columns: set[str], judged: set[str]) -> None:
        for name in chart.y:
            if "/" not in name or not fnmatch.filter(judged, name.partition("/")[0]):
                names = ", ".join(sorted(judged))
                self._fail(where, f"y = '{name}' should be name/figure, a name being one of {names}")
        for column in chart.columns:
            if column not in columns and not column.startswith(PLANNED):
                self._fail(where, f"no column '{column}'; there are {', '.join(sorted(columns))}")

    def _parsed(self, kind: type[T], table: Parameters, where: str) -> T:
        """The table as an object of this kind; the first thing that is wrong with it is told."""
        try:
            return kind(**table)
        except ValidationError as problem:
            self._fail(where, _in_words(problem.errors()[0], _keys_of(kind)))
        except InputError as problem:
            self._fail(where, problem.written(in_toml))

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


# What is said where a table is missing or written as another kind of table.
OF_TABLES = {
    "log": 'has no [log]: write [log] and users = 5000 for a demo log, or path = "log.tsv"',
    "mechanism": "has no [[mechanism]]: name at least one way of publishing, and for each write [[mechanism]]",
    "chart": "there may be several charts: write [[chart]]",
}


def _in_words(problem: ErrorDetails, known: Sequence[str]) -> str:
    """What pydantic found, in one line that begins with the key."""
    key, kind, said = ".".join(map(str, problem["loc"])), problem["type"], problem["msg"]
    if key in OF_TABLES:
        return OF_TABLES[key]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"'{key}' means nothing here; there are {', '.join(known)}"
    if kind in ("missing", "missing_argument"):
        return f"needs {key}"
    value = repr(problem["input"])
    shown = value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
    return f"{key} = {shown}: {said[0].lower()}{said[1:]}"


def _keys_of(kind: type) -> list[str]:
    return list(kind.model_fields) if issubclass(kind, BaseModel) else [one.name for one in fields(kind)]  # type: ignore[arg-type]


def _all_written_out(given: Parameters) -> dict[str, Any]:
    """Applications and measures may be "all" of them, or one name alone."""
    names = {"applications": APPLICATIONS, "measures": MEASURES}
    return {
        key: value if key not in names or isinstance(value, list) else list(names[key]) if value == "all" else [value]
        for key, value in given.items()
    }


def _with_underscores(given: Parameters) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in given.items()}


def _combinations(given: Parameters, cases: Sequence[Parameters]) -> Iterator[tuple[Parameters, tuple[str, ...]]]:
    """Every case with every combination of what is a list, and the names of what varies."""
    swept = [name for name, value in given.items() if isinstance(value, list)]
    several = {*swept, *(name for case in cases if len(cases) > 1 for name in case)}
    for case in cases:
        for values in product(*(given[name] for name in swept)):
            chosen = {**given, **dict(zip(swept, values, strict=True)), **case}
            yield chosen, tuple(name for name in chosen if name in several)


def as_tuples(value: Any) -> Any:
    """Lists as frozen dataclasses have them. (In a mechanism's table the outer list was swept by now.)"""
    if isinstance(value, dict):
        return {name: as_tuples(one) for name, one in value.items()}
    return tuple(as_tuples(one) for one in value) if isinstance(value, list) else value
