"""Which method is worth it? Every one at the same (ε, δ) on one log; the releases are looked at and thrown away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from time import monotonic
from typing import Any

from searchveil.errors import InputError, Style, Text, in_python
from searchveil.lab.applications import APPLICATIONS, application_named
from searchveil.lab.evaluate import IN_SAMPLE, WARNING
from searchveil.lab.measures.compare import covered_volume
from searchveil.lab.measures.jensen_shannon import JensenShannon
from searchveil.lab.report.table import NO_FIGURE, in_figures
from searchveil.lab.split import split
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View, lacking
from searchveil.lab.words import name_in_words, percent, score_in_words
from searchveil.log import SearchLog
from searchveil.progress import Progress, silent
from searchveil.publish import METHODS, build, method_named
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.release import Release


@dataclass(frozen=True)
class Scored:
    """What an application made of the log and of the release, by the figure that it calls its score."""

    figure: str
    original: float
    release: float

    @property
    def kept(self) -> float | None:
        return self.release / self.original if self.original else None


@dataclass(frozen=True)
class Tried:
    """One method. `volume` is the share of the log's searches whose query was published."""

    rows: int
    volume: float
    distance: float | None  # Jensen–Shannon, of the frequencies of queries or what there is instead
    seconds: float
    applications: Mapping[str, Scored]
    untried: Mapping[str, str]  # application → what there is not that it needs
    promise: str

    def to_json(self) -> dict[str, Any]:
        scores = {
            name: {"figure": one.figure, "original": one.original, "release": one.release, "kept": one.kept}
            for name, one in self.applications.items()
        }
        told = {"rows": self.rows, "volume": self.volume, "distance": self.distance, "seconds": self.seconds}
        return told | {"applications": scores, "untried": dict(self.untried), "promise": self.promise}


@dataclass(frozen=True)
class Comparison:
    source: str
    epsilon: float
    delta: float
    methods: Mapping[str, Tried]
    left_out: Mapping[str, Text] = field(default_factory=dict)  # method → why

    @property
    def warning(self) -> str:
        scored = any(tried.applications for tried in self.methods.values())
        return f"{WARNING} {IN_SAMPLE}" if scored else WARNING

    @property
    def applications(self) -> list[str]:
        return list(dict.fromkeys(name for tried in self.methods.values() for name in tried.applications))

    @property
    def table(self) -> list[list[str]]:
        """A header, and the methods as rows of texts."""
        return [
            ["method", "rows", "searches covered", "distance", "seconds"],
            *(
                [
                    name,
                    f"{tried.rows:,}",
                    percent(tried.volume),
                    NO_FIGURE if tried.distance is None else f"{tried.distance:.2f}",
                    f"{tried.seconds:.1f}",
                ]
                for name, tried in self.methods.items()
            ),
        ]

    @property
    def scores(self) -> list[list[str]]:
        """A header, and for each application its score on the log and on the release of each method."""
        lines = [
            [name_in_words(one), in_figures(self._on_the_log(one)), *map(partial(_score, one), self.methods.values())]
            for one in self.applications
        ]
        return [["score, from 0 to 1", "the log", *self.methods], *lines] if lines else []

    @property
    def meanings(self) -> dict[str, str]:
        """What the score of each application is, by its name in words."""
        return {name_in_words(one): score_in_words(one) for one in self.applications}

    @property
    def untried(self) -> dict[str, list[str]]:
        """Why a method has no score: what there is not, and the methods whose release lacks it."""
        reasons: dict[str, list[str]] = {}
        for name, tried in self.methods.items():
            for reason in dict.fromkeys(tried.untried.values()):
                reasons.setdefault(reason, []).append(name)
        return reasons

    @property
    def promises(self) -> dict[str, list[str]]:
        """Each promise once, with the methods that make it."""
        found: dict[str, list[str]] = {}
        for name, tried in self.methods.items():
            found.setdefault(tried.promise, []).append(name)
        return found

    def _on_the_log(self, application: str) -> float:
        scored = (tried.applications.get(application) for tried in self.methods.values())
        return next(one.original for one in scored if one is not None)

    @property
    def verdict(self) -> str:
        if not self.methods:
            return "No method was tried."
        best = max(self.methods, key=lambda name: self.methods[name].volume)
        if not self.methods[best].volume:
            return "No method publishes anything of this log at this ε and δ: more users or a larger ε would help."
        tried = self.methods[best]
        return f"{best} covers the most: {percent(tried.volume)} of all searches, with {tried.rows:,} rows."

    def to_json(self, style: Style = in_python) -> dict[str, Any]:
        return {
            "source": self.source,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "methods": {name: tried.to_json() for name, tried in self.methods.items()},
            "left_out": {name: why.written(style) for name, why in self.left_out.items()},
            "warning": self.warning,
        }


def _score(application: str, tried: Tried) -> str:
    scored = tried.applications.get(application)
    return NO_FIGURE if scored is None else in_figures(scored.release)


def compare(
    log: SearchLog,
    epsilon: float,
    delta: float,
    *,
    methods: Sequence[str] | None = None,
    applications: Sequence[str] | None = None,
    period: tuple[str, str] | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> Comparison:
    """Release by every method that promises (ε, δ)-differential privacy, with its defaults, and measure each.

    `period` is the first and the last day, which methods that invent times have to be told.
    """
    wanted = list(METHODS) if methods is None else list(methods)
    running = {name: application_named(name)() for name in (APPLICATIONS if applications is None else applications)}
    mechanisms, left_out = _with_such_a_promise(wanted, epsilon, delta, period)
    original = View.of_log(log)
    judges = _Judges(log, original, running, seed, progress)
    found: dict[str, Tried] = {}
    with log.engine.sharing_memory():
        for name, mechanism in mechanisms.items():
            progress(f"trying {name}")
            began = monotonic()
            try:
                release = mechanism.release(log)
            except InputError as problem:  # before anything was computed: the log lacks what it needs
                left_out[name] = problem.text
                continue
            seconds = monotonic() - began
            released = View.of_release(release, log.engine)
            scores, untried = judges.score(released)
            found[name] = _tried(release, original, released, seconds, scores, untried)
    return Comparison(log.source, epsilon, delta, found, left_out)


@dataclass
class _Judges:
    """The applications. What they make of the log is found once, and only where a release can be held against it."""

    log: SearchLog
    original: View
    applications: Mapping[str, Any]
    seed: int
    progress: Progress
    on_the_log: dict[str, float] = field(default_factory=dict)

    @cached_property
    def test(self) -> TestSet:
        self.progress("drawing the searches to test on")
        return TestSet.draw(split(self.log, seed=self.seed)[1], original=self.original, seed=self.seed)

    def score(self, released: View) -> tuple[dict[str, Scored], dict[str, str]]:
        """The score of each application, and why there is none of others."""
        scores, untried = {}, {}
        for name, runs in self.applications.items():
            if missing := lacking(runs.needs, self.original, released):
                untried[name] = missing
                continue
            if name not in self.on_the_log:
                self.on_the_log[name] = runs.run(self.original, self.test)[runs.score]
            scores[name] = Scored(runs.score, self.on_the_log[name], runs.run(released, self.test)[runs.score])
        return scores, untried


def _with_such_a_promise(
    methods: Sequence[str], epsilon: float, delta: float, period: tuple[str, str] | None
) -> tuple[dict[str, Mechanism], dict[str, Text]]:
    """The methods that can be held to this ε and δ, and why each of the others cannot."""
    mechanisms, left_out = {}, {}
    for name in methods:
        mechanism = method_named(name)
        parameters = {one.name for one in fields(mechanism)}
        if mechanism.notions[0] != "approximate":
            left_out[name] = Text.of("it promises no ε")
        elif not {"epsilon", "delta"} <= parameters:
            left_out[name] = Text.of("it takes other parameters than ε and δ")
        else:
            days = {"from_": period[0], "to": period[1]} if period is not None and "from_" in parameters else {}
            mechanisms[name] = build(name, {"epsilon": epsilon, "delta": delta, **days})
    return mechanisms, left_out


def _tried(
    release: Release,
    original: View,
    released: View,
    seconds: float,
    scores: Mapping[str, Scored],
    untried: Mapping[str, str],
) -> Tried:
    distances = JensenShannon().measure(original.counted_as(released), released)
    return Tried(
        rows=release.table.num_rows,
        volume=covered_volume(original, released),
        distance=next(iter(distances.values()), None),
        seconds=seconds,
        applications=scores,
        untried=untried,
        promise=str(release.guarantee),
    )
