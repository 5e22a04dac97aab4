"""The report: its figures, where it may go, and how it looks and behaves in a real browser that is given no network."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.evaluate import Evaluation, evaluate
from searchveil.lab.report import check_place, in_figures, place_beside, report, sections, write_report
from searchveil.lab.report.charts import at_least, chart_of_scores, charts_of_counts
from searchveil.lab.report.table import Row, Section
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.plan import Plan, Recorded, Settings
from searchveil.publish.release import Release

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page, Route

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")

SCRIPT, PICTURE = "</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>"
HOSTILE_CARD = f"""
{SCRIPT} {PICTURE} <b onmouseover=alert(3)>bold</b>

![far away](https://example.org/pixel.png) [click](javascript:alert(4)) `{SCRIPT}`

| {PICTURE} | {"a" * 200} |
|---|---|
| {SCRIPT} | {"b" * 200} |
"""


def hostile_log(engine: Engine) -> SearchLog:
    """Searches that would be code if a page took them for it. Everybody clicks, and goes on to the next search."""
    queries = [SCRIPT, PICTURE, "weather berlin", "news", "cheap flights", "maps"]
    rows = [(user, queries[(user + step) % 6], step) for user in range(60) for step in range(1 + user % 4)]
    columns: dict[str, Any] = {
        "user": [f"u{user}" for user, _, _ in rows],
        "query": [query for _, query, _ in rows],
        "time": pa.array([1_000_000 * 60 * step for _, _, step in rows], pa.timestamp("us")),
        "url": [f"https://{queries.index(query)}.example/{PICTURE}" for _, query, _ in rows],
    }
    return SearchLog(engine.load(pa.table(columns)), engine, source=f"{PICTURE}/{'long' * 60}.tsv")


def by_hand(tables: dict[str, pa.Table], item: str, parameters: dict[str, Any]) -> Release:
    promise = Guarantee("approximate", 1.0, 1e-6, proof="docs/none.md")
    return Release(tables, Plan("by-hand", item, Recorded.of(parameters), promise))


@dataclass(frozen=True)
class Evaluated:
    folder: Path
    result: Evaluation
    against: str


@pytest.fixture(scope="module")
def hostile(duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """A release with all that a report shows, wherever possible in the hands of an attacker."""
    log = hostile_log(duckdb_engine)
    clicks = pa.table(
        {
            "query": [SCRIPT, PICTURE, "news", "maps"],
            "url": [f"https://{i}.example/{PICTURE}" for i in (0, 1, 3, 5)],
            "count": [40, 30, 20, 0],
        }
    )
    pairs = pa.table({"query": [SCRIPT, "news"], "next": [PICTURE, "cheap flights"], "count": [9, 3]})
    release = by_hand({"data": clicks, "transitions": pairs}, "click", {"patterns": [SCRIPT, PICTURE], PICTURE: 1})
    folder = release.write(tmp_path_factory.mktemp("hostile") / PICTURE)
    with (folder / "README.md").open("a", encoding="utf-8") as card:
        card.write(HOSTILE_CARD)
    result = evaluate(folder, log)
    assert len(result.applications) > 5
    return Evaluated(folder, result, log.source)


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (1.0, "1"),
        (1234567.0, "1,234,567"),
        (12345.678, "12,345.7"),
        (17.219612, "17.22"),
        (-0.5, "-0.5"),
        (0.0012222, "0.001222"),
        (0.000028786, "2.9e-05"),
    ],
)
def test_figures(value: float | None, shown: str) -> None:
    assert in_figures(value) == shown


NOTHING: dict[str, Any] = {
    "item": None,
    "count_distribution": {"original": [], "release": []},
    "coverage": [],
    "frequency": [],
}


def test_sections_pair_what_is_known_of_each_side() -> None:
    result = Evaluation(
        applications={"index-caching": {"original": {"hits": 0.5, "lists": 7.0}, "release": {"hits": 0.25}}},
        measures={
            "coverage": {"query@10": 0.2},
            "count-distribution": {"query.items_original": 9, "query.items_release": 4, "query.exponent_original": 2.5},
        },
        skipped={},
        in_sample=False,
        charts=NOTHING,
    )
    applications, measures = sections(result.applications, result.measures)
    assert [section.name for section in applications + measures] == ["index-caching", "coverage", "count-distribution"]
    assert applications[0].rows == (Row("hits", 0.5, 0.25), Row("lists", 7.0, None))
    assert measures[0].rows == (Row("query@10", None, 0.2),)
    assert measures[1].rows == (Row("query.items", 9, 4), Row("query.exponent", 2.5, None))
    assert measures[0].about.startswith("Top-j coverage")
    assert applications[0].about.startswith("Index caching")
    assert applications[0].how.startswith("Fill the memory")


def test_how_many_items_reach_a_count() -> None:
    assert at_least([]) == []
    assert at_least([(0, 5)]) == [], "a count of 0 has no place on a logarithmic axis"
    assert at_least([(7, 3)]) == [(7, 3)]
    assert at_least([(0, 2), (1, 10), (2, 4), (9, 1)]) == [(1, 15), (2, 5), (9, 1)]


def test_many_counts_are_thinned_where_they_fall_together() -> None:
    points = at_least([(count, 1) for count in range(1, 20_001)])
    assert len(points) < 300
    assert points[0] == (1, 20_000)
    assert points[-1] == (20_000, 1)
    assert all(reached == 20_001 - count for count, reached in points), "what stays is exact"
    assert [count for count, _ in points][:5] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_scores_are_drawn_and_counts_are_told() -> None:
    rows = (Row("nDCG@10", 0.9, 0.5), Row("as published", 1.6, 0.0), Row("answered", 1.0, 0.0), Row("asked", 1.0, 1.0))
    chart = chart_of_scores(Section("ad-hoc-search", "Walks.", "", rows))
    assert chart.about == "Walks. Answered: 1 of 1 by the original, 0 of 1 by the release."
    assert chart.spec is not None
    (values,) = chart.spec["datasets"].values()
    assert {(bar["score"], bar["side"], bar["value"]) for bar in values} == {
        ("nDCG@10", "original", 0.9),
        ("nDCG@10", "release", 0.5),
    }


def test_charts_without_data_are_not_drawn() -> None:
    assert [chart.spec for chart in charts_of_counts(NOTHING)] == [None, None, None]
    only_zero = NOTHING | {"item": "query", "frequency": [[0.5, 0.0]]}
    assert charts_of_counts(only_zero)[2].spec is None


# --- where it may go --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "place"), [("a/release", "a/release-report.html"), ("release/", "release-report.html")]
)
def test_beside_the_folder(folder: str, place: str) -> None:
    assert place_beside(Path(folder)) == Path(place)


def test_beside_the_folder_we_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "release" / "deeper"
    inside.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "release")
    assert place_beside(Path(".")) == tmp_path / "release-report.html"
    monkeypatch.chdir(inside)
    assert place_beside(Path("..")) == tmp_path / "release-report.html"


def test_places_that_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "door").symlink_to(folder)
    (tmp_path / "log.tsv").write_text("mine")
    for place, why in {
        folder / "report.html": "handed out",
        folder / "deep" / "report.html": "handed out",
        tmp_path / "door" / "report.html": "handed out",
        tmp_path / "nowhere" / "report.html": "not a folder",
        tmp_path: "is a folder",
        tmp_path / "log.tsv": "no earlier report",
    }.items():
        with pytest.raises(InputError, match=why):
            check_place(place, folder)
    check_place(tmp_path / "release-report.html", folder)


@pytest.mark.slow
def test_an_earlier_report_is_replaced_and_nothing_else_stays(hostile: Evaluated, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    once = write_report(page, hostile.result, hostile.folder, against="a.tsv").read_text(encoding="utf-8")
    again = write_report(page, hostile.result, hostile.folder, against="b.tsv").read_text(encoding="utf-8")
    assert "a.tsv" in once
    assert "b.tsv" in again
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# --- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_text_of_the_log_is_in_the_page_as_code(hostile: Evaluated) -> None:
    page = report(hostile.result, hostile.folder, against=hostile.against)
    page = page[: page.rindex("<script>") + len("<script>")]  # the drawing libraries have HTML of their own
    assert "alert(1)" in page, "the examples and the parameters do show it"
    assert SCRIPT not in page
    assert "<img" not in page
    assert "<b " not in page
    assert "javascript:alert" not in page.replace("[click](javascript:alert(4))", "")
    assert page.count("<script") == 2, "the data and the one that draws them"


def test_it_says_what_was_published_and_promised(hostile: Evaluated) -> None:
    page = report(hostile.result, hostile.folder, against="log.tsv")
    for words in (
        "do not publish this page",
        "not covered by the guarantee",
        "by-hand",
        "<dt>data.parquet</dt><dd>4 rows</dd>",
        "<dt>transitions.parquet</dt><dd>2 rows</dd>",
        "The release is (1, 1e-06)-differentially private",
        "<strong>Share of the most frequent that were published</strong>",
        "most frequent clicks",
        "ε = 1, δ = 1e-06, by by-hand",
        "Just missed (private",
        'href="#good-for"',
        "the release has no users",  # why retained users are left out
        '/README.md">data card</a>',
    ):
        assert words in page
    assert page.index("do not publish") < page.index("<h1>")
    assert "Before handing it out" not in page, "the data card is linked, not repeated"
    assert not any(name in page for name in ("query@", "click@", ">kl<", ">l1<")), "words, not names of programs"


def test_a_release_without_a_promise_says_so(tmp_path: Path, hostile: Evaluated) -> None:
    nothing = Guarantee.no_differential_privacy(proof="none", caveats=("Made by hand.",))
    table = pa.table({"query": ["a"], "count": [2]})
    folder = Release({"data": table}, Plan("by-hand", "query", Settings(), nothing)).write(tmp_path / "out")
    (folder / "README.md").unlink()
    page = report(hostile.result, folder, against="log.tsv")
    assert "This release is NOT differentially private. Made by hand." in page
    assert 'class="unprotected"' in page
    assert "The folder has no README.md." in page
    assert Release.read(folder).guarantee == nothing


@pytest.mark.parametrize(
    "broken", [{"guarantee": None}, {"guarantee": {"notion": "odd"}}, {"method": None}, {"date": None}]
)
def test_a_record_that_is_not_ours_is_refused(hostile: Evaluated, tmp_path: Path, broken: dict[str, Any]) -> None:
    record = json.loads((hostile.folder / "guarantee.json").read_text(encoding="utf-8")) | broken
    kept = {name: value for name, value in record.items() if value is not None}
    (tmp_path / "guarantee.json").write_text(json.dumps(kept))
    with pytest.raises(InputError, match="does not say what was published"):
        Release.read(tmp_path)


# --- how it looks -----------------------------------------------------------------------------------------------------


@dataclass
class Visit:
    """A page that was opened, and everything that should not have happened to it."""

    page: "Page"
    trouble: list[str] = field(default_factory=list)


def visit(browser: "Browser", path: Path, *, width: int = 1280, scheme: Any = "light") -> Visit:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    seen = Visit(page)

    def refuse(route: "Route") -> None:
        seen.trouble.append(f"request {route.request.url}")
        route.abort()

    def dismiss(dialog: "Dialog") -> None:
        seen.trouble.append(f"dialog {dialog.message}")
        dialog.dismiss()

    context.route(lambda url: url != path.as_uri(), refuse)
    page.on("console", lambda message: seen.trouble.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.trouble.append(f"error: {error}"))
    page.on("dialog", dismiss)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-charts=drawn]", state="attached", timeout=280_000)
    return seen


@pytest.fixture(scope="module")
def page_file(hostile: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(place, hostile.result, hostile.folder, against=hostile.against)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_in_a_browser(browser: "Browser", page_file: Path, hostile: Evaluated, width: int, scheme: str) -> None:
    seen = visit(browser, page_file, width=width, scheme=scheme)
    assert seen.trouble == []
    charts = seen.page.evaluate(DRAWN)
    assert len(charts) == 3 + len(hostile.result.applications)
    assert all(chart["marks"] > 0 and chart["width"] > 200 for chart in charts), charts
    assert seen.page.evaluate(TOO_WIDE) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = seen.page.evaluate(CONTRASTS)
    assert min(contrasts["text"]) >= 4.5
    assert min(contrasts["marks"]) >= 3
    seen.page.context.close()


@pytest.mark.slow
def test_charts_follow_the_page_when_it_changes(browser: "Browser", page_file: Path) -> None:
    """From light to dark and from wide to narrow, with the page open."""
    seen = visit(browser, page_file, width=1280, scheme="light")
    light = seen.page.evaluate(COLOURS)
    seen.page.emulate_media(color_scheme="dark")
    dark = seen.page.evaluate(COLOURS)
    assert set(light).isdisjoint(dark)
    seen.page.set_viewport_size({"width": 390, "height": 800})
    seen.page.wait_for_function("document.querySelector('.chart svg').getBoundingClientRect().right <= 390")
    assert seen.page.evaluate(TOO_WIDE) == []
    assert seen.trouble == []
    seen.page.context.close()


@pytest.mark.slow
def test_a_point_tells_its_figures(browser: "Browser", page_file: Path) -> None:
    seen = visit(browser, page_file, scheme="dark")
    bar = seen.page.locator(".chart .mark-rect path").first
    bar.scroll_into_view_if_needed()
    bar.hover()
    seen.page.wait_for_selector("#vg-tooltip-element.visible")
    assert "original" in (seen.page.text_content("#vg-tooltip-element") or "")
    assert seen.trouble == []
    seen.page.context.close()


@pytest.mark.slow
def test_a_report_of_nothing(browser: "Browser", tmp_path: Path, hostile: Evaluated) -> None:
    nothing = replace(hostile.result, applications={}, measures={}, charts=NOTHING)
    place = write_report(tmp_path / "report.html", nothing, hostile.folder, against="log.tsv")
    seen = visit(browser, place, width=390)
    assert seen.trouble == []
    assert seen.page.locator(".nothing").count() == 3
    assert seen.page.locator(".chart").count() == 0
    assert "No application was tried." in seen.page.inner_text("main")
    seen.page.context.close()


@pytest.mark.slow
def test_a_single_point_can_be_drawn(browser: "Browser", tmp_path: Path, hostile: Evaluated) -> None:
    charts = {
        "item": "query",
        "count_distribution": {"original": [[3, 1]], "release": [[5, 1]]},
        "coverage": [[1, 1.0]],
        "frequency": [[1.0, 1.0]],
    }
    place = write_report(
        tmp_path / "report.html", replace(hostile.result, applications={}, charts=charts), hostile.folder, against="one"
    )
    seen = visit(browser, place)
    assert seen.trouble == []
    assert [chart["marks"] > 0 for chart in seen.page.evaluate(DRAWN)] == [True] * 3
    seen.page.context.close()


@pytest.mark.slow
def test_the_policy_stops_what_escaping_would_miss(browser: "Browser", page_file: Path, tmp_path: Path) -> None:
    """A page with code put into it by hand: the second line of defence."""
    smuggled = f"<main>{PICTURE}<script>document.title = 'taken'</script><img src='https://example.org/pixel.png'>"
    place = tmp_path / "report.html"
    place.write_text(page_file.read_text(encoding="utf-8").replace("<main>", smuggled), encoding="utf-8")
    seen = visit(browser, place)
    assert "taken" not in seen.page.title()
    assert all("Content Security Policy" in trouble for trouble in seen.trouble), "nothing ran and nothing was fetched"
    assert len(seen.trouble) >= 3
    seen.page.context.close()


DRAWN = """() => Array.from(document.querySelectorAll(".chart"), chart => ({
  marks: chart.querySelectorAll("svg .mark-line path, svg .mark-rect path, svg .mark-symbol path").length,
  width: chart.querySelector("svg")?.getBoundingClientRect().width ?? 0,
}))"""

TOO_WIDE = """() => Array.from(document.querySelectorAll("body *:not(svg *):not(.vega-bind)"))
  .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(element => element.outerHTML.slice(0, 200))"""

COLOURS = """() => Array.from(document.querySelectorAll(".chart svg text"), text => getComputedStyle(text).fill)"""

# The ratio of luminances of WCAG 2, of letters and of bars and lines, against the card that they stand on.
CONTRASTS = """() => {
  const channel = value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).map(value => channel(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (element, property) => {
    const colours = [getComputedStyle(element)[property], getComputedStyle(element.closest(".card")).backgroundColor];
    const [dark, light] = colours.map(luminance).sort((one, other) => one - other);
    return (light + 0.05) / (dark + 0.05);
  };
  const all = (selector, property) =>
    Array.from(document.querySelectorAll(selector), element => contrast(element, property));
  return {
    text: [...all(".chart svg text", "fill"), ...all(".card p", "color"), ...all(".card h3", "color")],
    marks: [...all(".chart .mark-rect path", "fill"), ...all(".chart .mark-line path", "stroke")],
  };
}"""
