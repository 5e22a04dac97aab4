"""The whole journey in a Chromium and a Firefox; and what those need who see or hear differently."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from commandline import crowd_log, demo_log, entries
from drivers import Driver, chromium, firefox
from serving import Serving, halt, halted, runs_of, serving, until

from searchveil.publish.release import Release

pytestmark = pytest.mark.slow

UBI = '{"query_id": "%s", "client_id": "%s", "user_query": "%s", "timestamp": "2024-03-01T10:00:%02dZ"}\n'
Start = Callable[[str], AbstractContextManager[Driver]]


@pytest.fixture(params=["chromium", "firefox"])
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Start:
    def start(own: str) -> AbstractContextManager[Driver]:
        if request.param == "chromium":
            return chromium(own)
        return firefox(own, tmp_path_factory.mktemp("firefox") / "profile")

    return start


def ubi_log(folder: Path) -> None:
    rows = [UBI % (f"{user}-{query}", f"c{user}", f"shoes {query}", user) for user in range(12) for query in range(4)]
    (folder / "ubi_queries.ndjson").write_text("".join(rows))


def enter(driver: Driver, studio: Serving) -> None:
    """By the link, whose page goes on to the first one by itself."""
    driver.open(studio.link)
    until(lambda: driver.evaluate("location.pathname") == "/")


def has(driver: Driver, text: str, within: str = "body") -> bool:
    return bool(driver.evaluate(f"(document.querySelector({within!r})?.innerText ?? '').includes({text!r})"))


def read(driver: Driver, name: str, told: str) -> None:
    """Tick a file and read it; what is told of it names it, so that no earlier page is taken for this one."""
    driver.click(f'input[name="log"][value="{name}"]')
    driver.click("button.primary")
    until(partial(has, driver, told, "#reading"))


@pytest.mark.parametrize(("log", "told"), [("demo.tsv", "aol"), ("ubi_queries.ndjson", "ubi")])
def test_the_whole_journey(tmp_path: Path, start: Start, log: str, told: str) -> None:
    (tmp_path / "demo.tsv").write_bytes(demo_log(400).read_bytes())
    ubi_log(tmp_path)
    (tmp_path / "broken.txt").write_text("no log at all\n")
    with serving(tmp_path) as studio, start(studio.address) as driver:
        enter(driver, studio)
        driver.click("form[action='/drafts'] button")
        read(driver, "broken.txt", "its format is none I know")
        driver.click('input[name="log"][value="broken.txt"]')
        read(driver, log, told)
        driver.click(".steps button[value=what]")
        driver.click("#method-zealous")
        driver.find("#per_user")
        driver.fill("#per_user", "0")
        until(partial(has, driver, "whole number of at least 1"))
        driver.fill("#per_user", "5")
        until(lambda: not has(driver, "whole number of at least 1"))
        driver.click(".steps button[value=promise]")
        driver.fill("#epsilon", "100")
        until(partial(has, driver, "The release is (100, 1e-06)-differentially private"))
        driver.fill("#guess-users", "2000")
        driver.find("#expected strong")
        driver.find("#chart svg")
        driver.click(".steps button[value=what]")
        driver.find("#per_user")
        assert driver.evaluate("document.querySelector('#per_user').value") == "5"
        driver.click(".steps button[value=budget]")
        driver.click("input[name=ledger][value=new]")
        driver.fill("#budget_epsilon", "150")
        driver.fill("#budget_delta", "1e-5")
        driver.fill("#out", "shared")
        until(partial(has, driver, "ε = 100 and δ = 1e-06 are spent in all"))
        driver.fill("#confirm", "100")
        driver.click("button.pay")
        driver.find("#run")
        driver.open(driver.evaluate("location.href"))
        driver.find("[data-state=done]")
        driver.click("a.primary")
        driver.find("#rows tbody tr")
        rows = Release.read(tmp_path / "shared").table
        wanted = str(rows["query"][0].as_py())
        driver.fill("#search", wanted)
        found = sum(wanted in str(text) for text in rows["query"].to_pylist())
        until(partial(has, driver, f"{found} of {rows.num_rows} rows"))
        assert has(driver, wanted, "#rows")
        assert entries(tmp_path / "account.sqlite")[0].out == str(tmp_path / "shared")
        assert driver.complaints() == []


def test_two_tabs_see_the_same_release_while_it_runs(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd_log(tmp_path)
    halt(monkeypatch, "after … paid")
    with serving(tmp_path) as studio, start(studio.address) as driver:
        answer = studio.confirm(studio.drafted("crowd.csv"))
        pid = halted(tmp_path)
        run = studio.address + answer.headers["location"]
        enter(driver, studio)
        driver.find("form[action='/drafts']")
        driver.open(run)
        driver.find("[data-state=running]")
        driver.new_tab()
        for _ in range(2):  # and a reload
            driver.open(run)
            driver.find("[data-state=running]")
            until(partial(has, driver, "Paid, as entry 1 of account.sqlite"))
        os.kill(pid, signal.SIGCONT)
        driver.find("[data-state=done]")
        driver.other_tab()
        driver.find("[data-state=done]")
        assert driver.complaints() == []
    assert len(entries(tmp_path / "account.sqlite")) == 1


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, str]]:
    """A studio with two releases and a draft that waits for its confirmation."""
    folder = tmp_path_factory.mktemp("shown")
    crowd_log(folder)
    (folder / "broken.txt").write_text("no log at all\n")
    with serving(folder) as studio:
        studio.released(studio.drafted("crowd.csv", out="shared"))
        studio.released(studio.drafted("crowd.csv", ledger="account.sqlite", out="second"))
        yield studio, studio.drafted("crowd.csv", ledger="account.sqlite", out="next")


def pages(studio: Serving, waiting: str) -> list[str]:
    """Every page, and those that differ much by what was asked, chosen or mistyped."""
    broken, unprotected, mistyped = (studio.new_draft() for _ in range(3))
    studio.save(broken, "log", {"log": "broken.txt"})
    studio.save(unprotected, "what", {"method": "k-query"})
    studio.save(unprotected, "budget", {"ledger": "none", "out": "plain"})
    studio.save(mistyped, "what", {"method": "zealous", "per_user": "0"})
    studio.save(mistyped, "promise", {"epsilon": "-1", "delta": "7", "guess-users": "many"})
    studio.save(mistyped, "budget", {"ledger": "new", "new_ledger": "crowd.csv", "budget_epsilon": "x", "out": "a/b"})
    studio.save(waiting, "promise", {"epsilon": "5", "delta": "1e-6", "guess-users": "2000"})
    for kind, step in (("figures", "log"), ("plan", "promise")):
        studio.post(f"{waiting}/private", {"kind": kind, "step": step})
    studio.post("/results/evaluate", {"folder": "shared", "log": "crowd.csv"})
    steps = [f"{draft}/{step}" for draft in (waiting, mistyped) for step in ("log", "what", "promise", "budget")]
    run = f"/runs/{runs_of(studio.folder)[0].parent.name}"
    found = ["/", "/series?epsilon=1", "/series?epsilon=x", "/results?folder=shared", "/results?folder=nowhere",
             "/results?folder=shared&search=nothing", "/compare?folder=shared&folder=second", "/enter?token=x",
             f"{broken}/log", f"{unprotected}/promise", f"{unprotected}/budget", f"{waiting}/release", run,
             *steps]  # fmt: skip
    for page in found:
        until(partial(is_settled, studio, page))
    until(lambda: "hx-get" not in studio.get(f"{waiting}/chart") + studio.get(f"{waiting}/expected"))
    return found


def is_settled(studio: Serving, page: str) -> bool:
    text = studio.http.get(page).text
    return all(part not in text for part in ("Reading the log", 'class="working">Working:'))


OF_COLOURS = "axe.run({runOnly: ['color-contrast', 'link-in-text-block']})"  # all that the dark style can break


def test_the_dark_style_changes_colours_alone() -> None:
    style = files("searchveil.studio").joinpath("static/studio.css").read_text("utf-8")
    assert style.count("prefers-color-scheme") == 1
    (dark,) = re.findall(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{([^{}]*)\}\s*\}", style)
    assert all(re.fullmatch(r"--[\w-]+: #[0-9a-f]{6}", rule.strip()) for rule in dark.split(";")[:-1])


def test_those_who_see_or_hear_differently_can_use_every_page(shown: tuple[Serving, str]) -> None:
    """axe-core's rules, in light and dark, in English and German; and no page is wider than a telephone."""
    studio, draft = shown
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    with chromium(studio.address) as driver:
        enter(driver, studio)
        studio.next_link()
        found = []
        addresses = pages(studio, draft)
        for language, schemes in (("en", ("light", "dark")), ("de", ("light",))):
            driver.open(studio.address)
            driver.click(f"button[name=language][value={language}]")
            driver.find(f"html[lang={language}]")
            for address in addresses:
                driver.open(studio.address + address)
                driver.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                driver.page.evaluate(axe)
                for scheme in schemes:
                    driver.page.emulate_media(color_scheme=scheme)
                    rules = "axe.run()" if scheme == "light" else OF_COLOURS
                    found += [f"{language} {address} {scheme}: {one}" for one in broken_rules(driver.page, rules)]
                for width in (390, 1600):
                    driver.page.set_viewport_size({"width": width, "height": 900})
                    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                    wider = driver.evaluate(wide)
                    found += [f"{language} {address}: {wider} pixels too wide at {width}"] if wider > 0 else []
        assert found == []


def broken_rules(page: Any, rules: str) -> list[str]:
    result = page.evaluate(rules)
    return [
        f"{rule['id']} at {rule['nodes'][0]['target']}"
        for rule in result["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


def test_the_keyboard_is_enough(shown: tuple[Serving, str]) -> None:
    studio, draft = shown
    with chromium(studio.address) as driver:
        enter(driver, studio)
        studio.next_link()
        driver.open(f"{studio.address}{draft}/what")
        driver.page.keyboard.press("Tab")
        assert driver.evaluate("document.activeElement.className") == "skip"
        driver.page.focus("#method-zealous")
        driver.page.keyboard.press("ArrowUp")
        driver.find("#method-synthetic:checked")
        until(lambda: has(driver, "Settings of synthetic"))
        assert driver.evaluate("document.activeElement.id") == "method-synthetic", "the focus stays where it was"
        driver.page.focus(".steps button[value=promise]")
        driver.page.keyboard.press("Enter")
        driver.find("#plan")
        assert driver.complaints() == []
