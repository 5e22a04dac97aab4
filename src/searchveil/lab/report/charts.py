"""The charts of the report as Vega-Lite specifications, with nothing in them but numbers and our own words.

Colours are CSS variables of the page, so that a chart follows it from light to dark and onto paper by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10
from typing import TYPE_CHECKING, Any, Literal

from searchveil.lab.behaviour import AXES
from searchveil.lab.report.table import Row, Section, in_figures
from searchveil.lab.view import called

if TYPE_CHECKING:
    import altair as alt

Spec = dict[str, Any]
HEIGHT = 260
LETTERS = "system-ui, sans-serif"  # those of the page, by name: widths are measured outside it
BAR_HEIGHT = 36  # of a pair of bars and the room around them
STEPS = 250  # of a logarithmic axis: points closer than that fall on each other
FEW = 30  # points that a line can show one by one

# What applications count. Nearly all their other figures are scores from 0 to 1, which one axis can show together.
COUNTS = {"asked", "answered", "sessions", "evaluated sessions", "sites", "clustered sites", "clusters", "cached lists"}
LARGEST_SCORE = 1.0


@dataclass(frozen=True)
class Chart:
    """A title, what to see in it, and how to draw it; `spec` is None where there is nothing to draw."""

    title: str
    about: str
    spec: Spec | None


def charts_of_counts(data: Mapping[str, Any]) -> list[Chart]:
    """How counts are distributed, which items are covered, and how their frequencies moved."""
    items = called(data["item"]) if data["item"] else "items"
    return [
        Chart(
            "Count distribution",
            f"How many {items} have at least a certain count, of users or of occurrences as the release counts. Many "
            "methods keep only some items of a user, so heights differ and shapes should not.",
            _count_distribution(data["count_distribution"], items),
        ),
        Chart(
            "Coverage by rank",
            f"Of the original's most frequent {items}, up to each rank, the share that is in the release at all.",
            _coverage(data["coverage"]),
        ),
        Chart(
            "Frequency",
            f"Every point is one of the published {items}: its share of all counts in the original and in the "
            "release. On the line, the two are the same; a release of fewer items gives each a larger share, so a "
            "faithful one lies along the line, above it.",
            _frequency(data["frequency"]),
        ),
    ]


def charts_of_behaviour(pictures: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]) -> list[Chart]:
    """What users do in a synthetic log and in the original."""
    about = "The share of each value. The measure behaviour has the distance of the two."
    return [Chart(name.capitalize(), about, _values(sides, AXES[name])) for name, sides in pictures.items()]


def _values(sides: Mapping[str, Sequence[tuple[int, float]]], axis: str) -> Spec:
    import altair as alt

    points = [
        {"side": side, "value": value, "share": share} for side, shares in sides.items() for value, share in shares
    ]
    return styled(
        alt.Chart({"values": points})
        .mark_line(point=len(points) <= 2 * FEW)
        .encode(
            x=alt.X("value:Q", title=axis, axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%")),
            color=_side(),
            tooltip=["side:N", "value:Q", alt.Tooltip("share:Q", format=".2%")],
        )
    )


def chart_of_scores(section: Section) -> Chart:
    """An application's scores; what it merely counts is said in words."""
    figures = {row.name: row for row in section.rows}
    answered = ""
    if {"answered", "asked"} <= set(figures):
        answered = " Answered: " + ", ".join(
            f"{in_figures(getattr(figures['answered'], side))} of {in_figures(getattr(figures['asked'], side))} "
            f"by the {side}"
            for side in ("original", "release")
        )
        answered += "."
    return Chart(section.title, section.about + answered, _scores(section))


def _count_distribution(sides: Mapping[str, Sequence[tuple[int, int]]], items: str) -> Spec | None:
    import altair as alt

    points: list[dict[str, Any]] = [
        {"side": side, "count": count, "items": number}
        for side, counts in sides.items()
        for count, number in at_least(counts)
    ]
    if not points:
        return None
    return styled(
        alt.Chart({"values": points})
        .mark_line(interpolate="step-before", point=len(points) <= FEW)
        .encode(
            x=alt.X("count:Q", title="count (logarithmic)", **logarithmic([point["count"] for point in points])),
            y=alt.Y(
                "items:Q",
                title=f"{items} with at least this count (logarithmic)",
                **logarithmic([point["items"] for point in points]),
            ),
            color=_side(),
            tooltip=["side:N", alt.Tooltip("count:Q", format=","), alt.Tooltip("items:Q", format=",")],
        )
    )


def at_least(counts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """How many items have at least each count, at counts that can be told apart on a logarithmic axis."""
    positive = sorted(((count, items) for count, items in counts if count > 0), reverse=True)
    if not positive:
        return []
    widest = log(positive[0][0] / positive[-1][0]) or 1.0
    reached, points = 0, {}
    for count, items in positive:
        reached += items
        points[int(STEPS * log(count / positive[-1][0]) / widest)] = (count, reached)
    return sorted(points.values())


def _coverage(points: Sequence[tuple[int, float]]) -> Spec | None:
    import altair as alt

    if not points:
        return None
    return styled(
        alt.Chart({"values": [{"rank": rank, "share": share} for rank, share in points]})
        .mark_line(color="var(--release)", point={"color": "var(--release)"} if len(points) <= FEW else False)
        .encode(
            x=alt.X(
                "rank:Q",
                title="up to rank in the original (logarithmic)",
                **logarithmic([rank for rank, _ in points]),
            ),
            y=alt.Y("share:Q", title="share published", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            tooltip=[alt.Tooltip("rank:Q", format=","), alt.Tooltip("share:Q", format=".1%")],
        )
    )


def _frequency(points: Sequence[tuple[float, float]]) -> Spec | None:
    import altair as alt

    drawn = [{"original": x, "release": y} for x, y in points if x > 0 and y > 0]  # a count of 0 has no logarithm
    if not drawn:
        return None
    both = [share for point in drawn for share in point.values()]
    x, y = (
        channel(f"{side}:Q", title=f"share in the {side} (logarithmic)", **logarithmic(both, format=".2~%"))
        for channel, side in ((alt.X, "original"), (alt.Y, "release"))
    )  # on the same scale, so that the line is the diagonal
    diagonal = [{"original": edge, "release": edge} for edge in _padded(both)]
    line = alt.Chart({"values": diagonal}).mark_line(color="var(--quiet)", strokeDash=[4, 4]).encode(x=x, y=y)
    dots = (
        alt.Chart({"values": drawn})
        .mark_point(color="var(--release)", filled=True, opacity=0.6, size=30)
        .encode(
            x=x,
            y=y,
            tooltip=[alt.Tooltip("original:Q", format=".3~%"), alt.Tooltip("release:Q", format=".3~%")],
        )
    )
    return styled(line + dots)


def _scores(section: Section) -> Spec | None:
    import altair as alt

    scores = [row for row in section.rows if row.name not in COUNTS and max(_given(row)) <= LARGEST_SCORE]
    bars = [
        {"score": row.name, "side": side, "value": value}
        for row in scores
        for side, value in (("original", row.original), ("release", row.release))
        if value is not None
    ]
    if not bars:
        return None
    chart = (
        alt.Chart({"values": bars})
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)),
            y=alt.Y("score:N", title=None, sort=[row.name for row in scores], scale=alt.Scale(paddingInner=0.35)),
            yOffset=alt.YOffset("side:N", sort=["original", "release"]),
            color=_side(),
            tooltip=["score:N", "side:N", alt.Tooltip("value:Q", format=".4f")],
        )
    )
    return styled(chart, height=BAR_HEIGHT * len(scores))


def _given(row: Row) -> list[float]:
    return [value for value in (row.original, row.release) if value is not None]


def styled(
    chart: "alt.Chart | alt.LayerChart", height: int = HEIGHT, width: int | Literal["container"] = "container"
) -> Spec:
    """As wide as the page lets it, unless told otherwise, in the page's own colours and letters."""
    chart = (
        chart.properties(width=width, height=height)
        .configure(background="transparent", font=LETTERS)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="var(--ink)",
            titleColor="var(--ink)",
            gridColor="var(--line)",
            domainColor="var(--quiet)",
            tickColor="var(--quiet)",
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelLimit=150,
        )
        .configure_legend(labelColor="var(--ink)", labelFontSize=12, orient="top", title=None)
    )
    spec: Spec = chart.to_dict()
    return spec


def _side() -> Any:
    import altair as alt

    colours = alt.Scale(domain=["original", "release"], range=["var(--original)", "var(--release)"])
    return alt.Color("side:N", scale=colours)


def logarithmic(values: Sequence[float], format: str = "~s") -> dict[str, Any]:
    """Scale and axis; a label at each power of ten, more only where there would be one: a telephone has little room."""
    import altair as alt

    low, high = domain = _padded(values)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        labels = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(labels) > 1:
            break
    return {"scale": alt.Scale(type="log", domain=domain, nice=False), "axis": alt.Axis(format=format, values=labels)}


def _padded(values: Sequence[float]) -> list[float]:
    """A little room on either side; an axis of one point is an axis still."""
    return [min(values) / 1.2, max(values) * 1.2]
