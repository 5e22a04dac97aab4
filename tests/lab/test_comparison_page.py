"""The page of `compare` in a real browser: readable on a telephone, light and dark."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from searchveil.errors import Text
from searchveil.lab.applications import APPLICATIONS
from searchveil.lab.comparison import Comparison, Scored, Tried
from searchveil.lab.report.comparison import page

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def tried(promise: str) -> Tried:
    scores = {name: Scored("figure", 0.9, 0.0125) for name in APPLICATIONS}
    return Tried(57, 0.0513, 0.91, 0.4, scores, {"click-model": "the release has no clicks"}, promise)


FOUND = Comparison(
    "log.tsv",
    4,
    1e-5,
    {"weighted": tried("It holds."), "zealous": tried("It holds."), "safelog-session": tried("It holds, too.")},
    {"sampling": Text.of("nothing would come out: " + "so it is " * 20)},
)


def test_one_promise_is_told_once() -> None:
    assert FOUND.promises == {"It holds.": ["weighted", "zealous"], "It holds, too.": ["safelog-session"]}
    assert "<dt>weighted, zealous</dt><dd>It holds.</dd>" in page(FOUND)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_text_has_room(width: int, scheme: str, browser: "Browser", tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(FOUND), encoding="utf-8")
    shown = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    shown.goto((tmp_path / "page.html").as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width, "no wider than the screen"
    narrowest = shown.evaluate("Math.min(...[...document.querySelectorAll('dd')].map(one => one.clientWidth))")
    assert narrowest >= 250, "a column of single letters is no text"
    assert shown.evaluate("document.documentElement.scrollHeight") < 6000
    shown.close()
