"""Which method is worth it? Every one at the same (ε, δ) on one log; the releases are looked at and thrown away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from time import monotonic
from typing import Any

from searchveil.errors import InputError, in_python
from searchveil.lab.applications import APPLICATIONS, Application, application_named
from searchveil.lab.evaluate import IN_SAMPLE, WARNING
from searchveil.lab.measures.compare import covered_volume
from searchveil.lab.measures.jensen_shannon import JensenShannon
from searchveil.lab.split import split
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View, lacking
from searchveil.lab.words import name_in_words, percent
from searchveil.log import SearchLog
from searchveil.progress import Progress, silent
from searchveil.publish import METHODS, build, method_named
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.release import Release


@dataclass(frozen=True)
class Scored:
    """What an application made of the log and of the release."""

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
    promise: str

    def to_json(self) -> dict[str, Any]:
        scores = {
            name: {"original": one.original, "release": one.release, "kept": one.kept}
            for name, one in self.applications.items()
        }
        told = {"rows": self.rows, "volume": self.volume, "distance": self.distance, "seconds": self.seconds}
        return told | {"applications": scores, "promise": self.promise}


@dataclass(frozen=True)
class Comparison:
    source: str
    epsilon: float
    delta: float
    methods: Mapping[str, Tried]
    left_out: Mapping[str, str] = field(default_factory=dict)  # method → why

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
                    "–" if tried.distance is None else f"{tried.distance:.2f}",
                    f"{tried.seconds:.1f}",
                ]
                for name, tried in self.methods.items()
            ),
        ]

    @property
    def scores(self) -> list[list[str]]:
        """A header, and for each application the part of the log's score that is kept, by method."""
        lines = [
            [name_in_words(one), *(_kept(tried.applications.get(one)) for tried in self.methods.values())]
            for one in self.applications
        ]
        return [["kept of the score on the log", *self.methods], *lines] if lines else []

    @property
    def verdict(self) -> str:
        if not self.methods:
            return "No method was tried."
        best = max(self.methods, key=lambda name: self.methods[name].volume)
        if not self.methods[best].volume:
            return "No method publishes anything of this log at this ε and δ: more users or a larger ε would help."
        tried = self.methods[best]
        return f"{best} covers the most: {percent(tried.volume)} of all searches, with {tried.rows:,} rows."

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "methods": {name: tried.to_json() for name, tried in self.methods.items()},
            "left_out": dict(self.left_out),
            "warning": self.warning,
        }


def _kept(scored: Scored | None) -> str:
    return "–" if scored is None or scored.kept is None else percent(scored.kept)


def compare(
    log: SearchLog,
    epsilon: float,
    delta: float,
    *,
    methods: Sequence[str] | None = None,
    applications: Sequence[str] | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> Comparison:
    """Release by every method that promises (ε, δ)-differential privacy, with its defaults, and measure each."""
    wanted = list(METHODS) if methods is None else list(methods)
    running = {name: application_named(name)() for name in (APPLICATIONS if applications is None else applications)}
    mechanisms, left_out = _with_such_a_promise(wanted, epsilon, delta)
    original = View.of_log(log)
    asked = None
    found: dict[str, Tried] = {}
    with log.engine.sharing_memory():
        for name, mechanism in mechanisms.items():
            progress(f"trying {name}")
            began = monotonic()
            try:
                release = mechanism.release(log)
            except InputError as problem:  # before anything was computed: the log lacks what it needs
                left_out[name] = problem.problem.written(in_python)
                continue
            seconds = monotonic() - began
            released = View.of_release(release, log.engine)
            able = {one: runs for one, runs in running.items() if lacking(runs.needs, original, released) is None}
            if able and asked is None:
                progress("drawing the searches to test on")
                asked = TestSet.draw(split(log, seed=seed)[1], original=original, seed=seed)
            scores = {one: _scored(runs, original, released, asked) for one, runs in able.items() if asked is not None}
            found[name] = _tried(release, original, released, seconds, scores)
    return Comparison(log.source, epsilon, delta, found, left_out)


def _with_such_a_promise(
    methods: Sequence[str], epsilon: float, delta: float
) -> tuple[dict[str, Mechanism], dict[str, str]]:
    """The methods that can be held to this ε and δ, and why each of the others cannot."""
    mechanisms, left_out = {}, {}
    for name in methods:
        mechanism = method_named(name)
        if mechanism.notions[0] != "approximate":
            left_out[name] = "it promises no ε"
        elif not {"epsilon", "delta"} <= {one.name for one in fields(mechanism)}:
            left_out[name] = "it takes other parameters than ε and δ"
        else:
            mechanisms[name] = build(name, {"epsilon": epsilon, "delta": delta})
    return mechanisms, left_out


def _scored(runs: Application, original: View, released: View, asked: TestSet) -> Scored:
    """By the first figure of an application, which is its score."""
    before, after = runs.run(original, asked), runs.run(released, asked)
    first = next(iter(before))
    return Scored(before[first], after.get(first, 0.0))


def _tried(release: Release, original: View, released: View, seconds: float, scores: Mapping[str, Scored]) -> Tried:
    distances = JensenShannon().measure(original.counted_as(released), released)
    distance = next(iter(distances.values()), None)
    return Tried(
        release.table.num_rows, covered_volume(original, released), distance, seconds, scores, str(release.guarantee)
    )
