"""Pictures as SVG in the page's own colours: what an attacker can tell, and what to expect at which ε."""

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from markupsafe import Markup

from searchveil.lab.report.charts import logarithmic, styled

DOTS, ROW, STEP = 100, 20, 14
WIDTH, HEIGHT = 420, 240


def right_of_hundred(most_often_right: float) -> int:
    """The guesses in a hundred that are right at most, rounded up."""
    return min(DOTS, ceil(DOTS * most_often_right))


def guesses(right: int, label: str) -> Markup:
    """A hundred guesses: those that chance gets right, those that the release may add, and the wrong ones."""

    def kind(number: int) -> str:
        return "chance" if number < DOTS // 2 else "gained" if number < right else "wrong"

    dots = Markup("").join(
        Markup('<circle class="{}" cx="{}" cy="{}" r="5"/>').format(
            kind(number), STEP * (number % ROW) + STEP // 2, STEP * (number // ROW) + STEP // 2
        )
        for number in range(DOTS)
    )
    size = Markup('viewBox="0 0 {} {}"').format(STEP * ROW, STEP * (DOTS // ROW))
    return Markup('<svg class="guesses" role="img" aria-label="{}" {}>{}</svg>').format(label, size, dots)


def expected_chart(
    points: Sequence[Mapping[str, Any]], methods: Sequence[str], chosen: float, labels: Mapping[str, str]
) -> Markup:
    """Expected items at each ε, a line for each method; the ε that was chosen is marked."""
    import altair as alt
    import vl_convert

    drawn = [point for point in points if point["items"] > 0]
    if not drawn:
        return Markup("")
    colours = alt.Scale(domain=list(methods), range=[f"var(--line-{number})" for number, _ in enumerate(methods)])
    x = alt.X("epsilon:Q", title=labels["x"], **logarithmic([point["epsilon"] for point in points], format="~g"))
    y = alt.Y("items:Q", title=labels["y"], **logarithmic([point["items"] for point in drawn], format="~s"))
    shape = alt.Shape("method:N", scale=alt.Scale(domain=list(methods)))
    lines = alt.Chart({"values": drawn}).mark_line().encode(x=x, y=y, color=alt.Color("method:N", scale=colours))
    marks = lines.mark_point(filled=True, size=60).encode(shape=shape)
    here = (
        alt.Chart({"values": [{"epsilon": chosen}]})
        .mark_rule(strokeDash=[4, 4], color="var(--quiet)")
        .encode(x="epsilon:Q")
    )
    svg = vl_convert.vegalite_to_svg(styled(here + lines + marks, height=HEIGHT, width=WIDTH))
    return Markup(_named(svg, labels["title"]))  # made of our own words and numbers alone


def _named(svg: str, title: str) -> str:
    """As wide as the page lets it, and one picture with one name for those who hear the page."""
    svg = re.sub(r'width="\d+" height="\d+" (viewBox="[\d. ]+")', r"\1", svg, count=1)
    svg = re.sub(r' (role|aria-[a-z]+)="[^"]*"', "", svg)
    return svg.replace("<svg ", str(Markup('<svg role="img" aria-label="{}" ').format(title)), 1)
