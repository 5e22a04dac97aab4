"""The figures of an evaluation as rows, the same ones on a terminal and in the report."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import getdoc

from searchveil.lab.applications import application_named
from searchveil.lab.measures import measure_named
from searchveil.lab.words import figure_in_words, name_in_words

NO_FIGURE = "–"
SIDES = ("original", "release")


@dataclass(frozen=True)
class Row:
    """A figure of the original beside that of the release; a measure that compares the two has only the latter."""

    name: str
    original: float | None
    release: float | None

    @property
    def title(self) -> str:
        return figure_in_words(self.name)


@dataclass(frozen=True)
class Section:
    """One measure or application: its name, what it is and how it is done in a line each, and its figures."""

    name: str
    about: str
    how: str
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        return name_in_words(self.name)


def sections(
    applications: Mapping[str, Mapping[str, Mapping[str, float]]], measures: Mapping[str, Mapping[str, float]]
) -> tuple[list[Section], list[Section]]:
    """The scores of an evaluation. Applications first: what a release is good for is what people ask."""
    of_applications = [
        Section(name, _module_line(runs), _first_line(getdoc(runs)), tuple(_paired(scores)))
        for name, scores in applications.items()
        for runs in (application_named(name),)
    ]
    of_measures = [
        Section(name, _module_line(measure_named(name)), "", tuple(_compared(figures)))
        for name, figures in measures.items()
    ]
    return of_applications, of_measures


def in_figures(value: float | None) -> str:
    """Four digits are as many as these comparisons deserve; whole numbers stay whole."""
    if value is None:
        return NO_FIGURE
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.1f}"
    return f"{value:.4g}" if abs(value) >= 0.001 else f"{value:.2g}"


def _paired(scores: Mapping[str, Mapping[str, float]]) -> Iterator[Row]:
    original, release = (scores[side] for side in SIDES)
    for name in {**original, **release}:
        yield Row(name, original.get(name), release.get(name))


def _compared(figures: Mapping[str, float]) -> Iterator[Row]:
    """A measure that looks at each side by itself names the side at the end, as in `query.items_original`."""
    seen = set()
    for name in figures:
        stem, _, side = name.rpartition("_")
        if side not in SIDES:
            yield Row(name, None, figures[name])
        elif stem not in seen:
            seen.add(stem)
            yield Row(stem, figures.get(f"{stem}_original"), figures.get(f"{stem}_release"))


def _module_line(of: type) -> str:
    return _first_line(sys.modules[of.__module__].__doc__)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]  # Python can be told to forget docstrings
