"""What is drawn of the results, and the same numbers as a table of text."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any

from searchveil.atomic import write_atomically
from searchveil.lab.sweep.experiment import ORIGINAL, PLANNED, ChartSpec, Experiment
from searchveil.lab.sweep.results import SWEPT, Results, Row

WIDTH, HEIGHT = 360, 240
IN_WORDS = {"guarantee_epsilon": "ε of the guarantee", "guarantee_delta": "δ of the guarantee", "at": "top"}
SPEAKING = (
    "label",
    "method",
    "figure",
    "of",
    "name",
    "varied",
    "item",
)  # columns whose values need no name beside them
NO_X = "–"
COLORS = "#4c78a8 #f58518 #54a24b #e45756 #b279a2 #72b7b2 #9d755d #eeca3b #ff9da6 #bab0ac".split()


@dataclass(frozen=True)
class Mark:
    """The mean over the repeats, and their range. Without an x it is drawn as a level: k-anonymity has no ε."""

    facet: str
    series: str
    x: float | str | None
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    spec: ChartSpec
    marks: tuple[Mark, ...]

    def table(self) -> list[list[str]]:
        """A header and a line for each series: what the chart shows, in figures."""
        facets = list(dict.fromkeys(mark.facet for mark in self.marks))
        named = len(facets) > 1  # otherwise there is nothing to tell apart
        places = self._places()
        header = [self.spec.facet or "", self.spec.x] if named else [self.spec.x]
        lines = [header + [NO_X if x is None else _number(x) for x in places]]
        found = {(mark.facet, mark.series, mark.x): _number(mark.mean) for mark in self.marks}
        rows = dict.fromkeys((mark.facet, mark.series) for mark in self.marks)
        for facet, series in sorted(rows, key=lambda row: facets.index(row[0])):
            names = [facet, series] if named else [series]
            lines.append(names + [found.get((facet, series, x), "") for x in places])
        return lines

    def _places(self) -> list[float | str | None]:
        """On the axis in order, numbers before texts; last the marks that have none."""
        places = {mark.x for mark in self.marks}
        return sorted(places, key=lambda x: (x is None, isinstance(x, str), 0 if x is None else x))

    def text(self) -> str:
        """The table in columns, under its title; the first columns are names, the others numbers."""
        lines = self.table()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        names = len(lines[0]) - len({mark.x for mark in self.marks})
        aligned = (
            "  ".join(
                cell.ljust(width) if place < names else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )
        return "\n".join([f"{self.spec.title or self.spec.file}: {', '.join(self.spec.y)}", *aligned])

    def write(self, folder: Path) -> Path:
        """An SVG that needs nothing else, white behind: pages may be dark."""
        import vl_convert

        path = folder / f"{self.spec.file}.svg"
        write_atomically(path, vl_convert.vegalite_to_svg(_drawn(self.spec, self.marks).to_dict()))
        return path


def charts(experiment: Experiment, results: Results) -> list[Chart]:
    """Those that the experiment asks for, or what every application gained and lost; none where there is nothing."""
    specs = experiment.charts or [_of_application(name, results) for name in experiment.applications]
    drawn = [Chart(spec, tuple(_marks(spec, results.rows))) for spec in specs if spec is not None]
    return [chart for chart in drawn if chart.marks]


def _of_application(name: str, results: Results) -> ChartSpec | None:
    """Privacy against utility: its first figure by ε or, where δ is all that varies, by δ."""
    rows = [row for row in results.rows if row.get("name") == name and _has_figure(row)]
    if not rows:
        return None
    epsilons, deltas = ({row[f"guarantee_{which}"] for row in rows} for which in ("epsilon", "delta"))
    x = "guarantee_delta" if len(epsilons) == 1 and len(deltas) > 1 else "guarantee_epsilon"
    values = [row[x] for row in rows if row[x]]
    wide = bool(values) and max(values) / min(values) > 20
    return ChartSpec(name, (f"{name}/{rows[0]['figure']}",), x, title=name.replace("-", " "), log_x=wide)


def _marks(spec: ChartSpec, rows: Sequence[Row]) -> Iterable[Mark]:
    wanted = [row for row in rows if _shown(spec, row)]
    several = {column for column in ("name", "figure", "of") if len({row[column] for row in wanted}) > 1}
    on_axes = {*(spec.series or ("label",)), spec.x, spec.facet, spec.x.removeprefix("guarantee_")}
    naming = _naming(spec, several, on_axes)
    for (facet, series), value in _originals(spec, wanted, several).items():
        yield Mark(facet, series, None, value, value, value)
    for (facet, series, x), found in _values(spec, wanted, naming, on_axes).items():
        yield Mark(facet, series, x, fmean(found), min(found), max(found))


def _values(
    spec: ChartSpec, rows: Sequence[Row], naming: tuple[str, ...], on_axes: set[str | None]
) -> dict[tuple[str, str, Any], list[float]]:
    """The values of all repeats for each facet, series and place; what varies names a series where it must."""
    crowded = _crowded(spec, rows, naming)
    values: defaultdict[tuple[str, str, Any], list[float]] = defaultdict(list)
    for row in rows:
        facet, series, x = _place(spec, row, naming)
        if x is None or series in crowded:
            series = _series(row, (*naming, *(name for name in row[SWEPT] if name not in on_axes)))
        values[facet, series, x].append(row["value"])
    return values


def _naming(spec: ChartSpec, several: set[str], on_axes: set[str | None]) -> tuple[str, ...]:
    """The columns that name a series; figures are told apart, unless an axis does it."""
    naming = spec.series or ("label",)
    figure = "of" if "at" in on_axes else "figure"
    return (*naming, figure) if figure in several and not on_axes & {"of", "figure"} else naming


def _originals(spec: ChartSpec, rows: Sequence[Row], several: set[str]) -> dict[tuple[str, str], float]:
    """What the log itself reaches, for each facet and figure."""
    which = [column for column in ("name", "figure") if column in several and spec.facet != column]
    return {
        (_facet(spec, row), " ".join([ORIGINAL, *(row[column] for column in which)])): row["original"]
        for row in rows
        if row.get("original") is not None
    }


def _crowded(spec: ChartSpec, rows: Sequence[Row], naming: Sequence[str]) -> set[str]:
    """Series that have different settings in one place: only repeats of the same setting may be averaged."""
    settings: defaultdict[tuple[str, str, Any], set[str]] = defaultdict(set)
    for row in rows:
        settings[_place(spec, row, naming)].add(row["varied"])
    return {series for (_, series, _), several in settings.items() if len(several) > 1}


def _place(spec: ChartSpec, row: Row, naming: Sequence[str]) -> tuple[str, str, Any]:
    return _facet(spec, row), _series(row, naming), row.get(spec.x)


def _facet(spec: ChartSpec, row: Row) -> str:
    return _said(spec.facet, row) if spec.facet else ""


def _series(row: Row, naming: Iterable[str]) -> str:
    return ", ".join(filter(None, (_said(column, row) for column in naming)))


def _shown(spec: ChartSpec, row: Row) -> bool:
    return (
        _has_figure(row)
        and any(fnmatchcase(f"{row['name']}/{row['figure']}", pattern) for pattern in spec.y)
        and all(row.get(column) in (None, *values) for column, values in spec.where.items())
    )


def _has_figure(row: Row) -> bool:
    """Of a release; the original is drawn beside it."""
    return row.get("value") is not None and row["method"] != ORIGINAL


def _said(column: str, row: Row) -> str:
    value = row.get(column)
    if value is None:
        return ""
    return _number(value) if column in SPEAKING else f"{_called(column)} {_number(value)}"


def _called(column: str) -> str:
    return IN_WORDS.get(column, column.removeprefix(PLANNED).replace("_", " "))


def _number(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e9 else f"{value:.4g}"


def _drawn(spec: ChartSpec, marks: Sequence[Mark]) -> Any:
    """Lines with a rule over the range of the repeats; levels as broken lines."""
    import altair as alt

    marks = _on_scales(spec, marks)
    x, y, color = _x(spec, marks), _y(spec), _color(marks)
    base = alt.Chart(alt.InlineData(values=[vars(mark) | {"level": mark.x is None} for mark in marks]))
    points = base.transform_filter("!datum.level")
    chart: Any = alt.layer(
        points.mark_line(point=True).encode(x=x, y=y, color=color),
        points.mark_rule(opacity=0.5).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=color),
        base.transform_filter("datum.level").mark_rule(strokeDash=[5, 4]).encode(y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT)
    if spec.facet:
        facet = alt.Facet("facet:N", title=None, sort=list(dict.fromkeys(mark.facet for mark in marks)))
        chart = chart.facet(facet, columns=2).resolve_scale(x="independent", y="independent")
    return chart.properties(title=spec.title).configure(background="white").configure_axis(titleFontWeight="normal")


def _on_scales(spec: ChartSpec, marks: Sequence[Mark]) -> Sequence[Mark]:
    """Without what has no logarithm where a scale is logarithmic."""
    if spec.log_x:
        marks = [mark for mark in marks if mark.x is None or (isinstance(mark.x, int | float) and mark.x > 0)]
    if spec.log_y:
        marks = [replace(mark, low=max(mark.low, mark.mean / 10)) for mark in marks if mark.mean > 0]
    return marks


def _x(spec: ChartSpec, marks: Sequence[Mark]) -> Any:
    import altair as alt

    title = spec.x_title or _called(spec.x)
    if any(isinstance(mark.x, str) for mark in marks):
        return alt.X("x:N", title=title)
    scale = alt.Scale(type="log" if spec.log_x else "linear", zero=False, nice=not spec.log_x)
    return alt.X("x:Q", title=title, scale=scale)


def _y(spec: ChartSpec) -> Any:
    import altair as alt

    scale = alt.Scale(type="log") if spec.log_y else alt.Scale(zero=False)
    return alt.Y("mean:Q", title=spec.y_title or ", ".join(spec.y), scale=scale)


def _color(marks: Sequence[Mark]) -> Any:
    """A colour for each series; what the original reaches is grey."""
    import altair as alt

    names = list(dict.fromkeys(mark.series for mark in marks))
    colors = ["#666" if name.startswith(ORIGINAL) else COLORS[place % len(COLORS)] for place, name in enumerate(names)]
    scale = alt.Scale(domain=names, range=colors)
    return alt.Color("series:N", title=None, scale=scale, legend=alt.Legend(labelLimit=300))
