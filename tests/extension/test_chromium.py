"""The extension in a real Chromium, against fake search pages and real servers."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium, until
from playwright.sync_api import Page, Playwright
from search_pages import HITS
from servers import Servers, requests
from websites import Websites

from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import make_policy

pytestmark = pytest.mark.slow
Profile = Callable[[str], Chromium]

GOOGLE = "https://www.google.com/search?q={}"
RESULT = ".MjjYud a:has(h3)"


@pytest.fixture
def profile(playwright: Playwright, built: Path, websites: Websites, tmp_path: Path) -> Iterator[Profile]:
    opened: list[Chromium] = []

    def new(name: str) -> Chromium:
        own = shutil.copytree(built, tmp_path / f"{name}-extension")
        opened.append(Chromium(playwright, own, tmp_path / name, websites.port))
        return opened[-1]

    yield new
    for one in opened:
        one.context.close()


def article(browser: Chromium, job: Job) -> Page:
    """The page of jobs, once this job is there."""
    page = browser.page("jobs")
    page.locator(f"article[data-job='{job.id.hex()}']").wait_for()
    return page


def send(browser: Chromium, job: Job, *, strike: str = "", button: str = "Send this once") -> list[str]:
    """Agree to a job; what the page said that would be sent."""
    page = article(browser, job)
    part = page.locator(f"article[data-job='{job.id.hex()}']")
    shown = part.locator("fieldset li").all_inner_texts()
    if strike:
        part.get_by_label(strike, exact=True).uncheck()
    part.get_by_role("button", name=button).click()
    part.get_by_text("Done:").wait_for()
    page.close()
    return sorted(text.strip() for text in shown)


def test_five_people(profile: Profile, servers: Servers, websites: Websites) -> None:
    """What three of them typed comes out; what two typed, struck out or refused does not."""
    job = servers.job(make_policy("FT_u", k=3))
    searches = {
        "a": [(GOOGLE.format("Shared+Query"), 1, RESULT), (GOOGLE.format("struck+by+one"), None, "")],
        "b": [
            ("https://www.bing.com/search?q=shared++query&first=11", 0, ".b_algo h2 a[h]"),
            ("https://www.bing.com/search?q=struck+by+one", None, ""),
        ],
        "c": [
            ("https://duckduckgo.com/?q=SHARED+query", 4, "article[data-testid=result] h2 a"),
            ("https://duckduckgo.com/?q=struck+by+one", None, ""),
        ],
        "d": [
            ("https://search.brave.com/search?q=shared+by+two", 2, ".snippet[data-type=web] a"),
            ("https://search.brave.com/search?q=refused+by+one", None, ""),
        ],
        "e": [
            ("https://www.startpage.com/sp/search?query=shared+by+two", 3, "a.result-title"),
            ("https://www.startpage.com/sp/search?query=refused+by+one", None, ""),
        ],
    }
    clicks = {"a": (HITS[1], 2), "b": (HITS[0], 11), "c": (HITS[4], 5), "d": (HITS[2], 3), "e": (HITS[3], 4)}
    for name, pages in searches.items():
        browser = profile(name)
        for address, click, selector in pages:
            browser.search(address, click, selector)
        rows = browser.stored("search")
        assert [(row["url"], row["rank"]) for row in rows] == [clicks[name], (None, None)]
        browser.join(servers.file, servers.invitation())
        assert browser.badge("1")
        if name == "a":
            assert send(browser, job, strike="struck by one") == ["shared query", "struck by one"]
        elif name == "c":
            assert send(browser, job, button="always what I search later") == ["shared query", "struck by one"]
        elif name == "e":
            page = article(browser, job)
            page.get_by_label("Your answer").select_option("never")
            page.get_by_role("button", name="Send this once").wait_for(state="detached")
        else:
            send(browser, job)
        assert browser.badge("")
        sent = [row["artifact"] for row in browser.stored("outbox") if row["sent"]]
        assert ("struck by one" in sent, len(sent)) == {
            "a": (False, 1),
            "b": (True, 2),
            "c": (True, 2),
            "d": (False, 2),
            "e": (False, 0),
        }[name]
        browser.context.close()
    assert servers.release(job, "released") == {"shared query": 3}
    check_wires(servers, 16)


def check_wires(servers: Servers, least: int) -> None:
    """Who asked is on connections of its own, and nothing else that a browser adds tells one member from another."""
    seen = 0
    for wire in servers.wires.values():
        for said in wire.said:
            asked = requests(said)
            named = [path for path, headers in asked if "authorization" in headers]
            assert not named or all("/tokens/" in path for path, _ in asked), asked
            for path, headers in asked:
                assert "cookie" not in headers
                assert "referer" not in headers
                if not path.startswith("OPTIONS"):
                    assert headers["accept-language"] == "en"
                if "authorization" not in headers and not path.startswith("OPTIONS"):
                    assert "moz-extension" not in headers.get("origin", "")
                    seen += 1
    assert seen >= least


def test_what_is_recorded_and_what_is_not(profile: Profile, websites: Websites, tmp_path: Path) -> None:
    browser = profile("one")
    browser.search("https://no-rule.example/search?q=nothing+here", 1, recorded=False)
    browser.search("https://www.google.com/preferences?q=no+search+page", recorded=False)
    browser.search(GOOGLE.format("jane%40roe.example.org"), recorded=False)
    browser.search(GOOGLE.format("lost+card+4111+1111+1111+1111"), recorded=False)
    assert browser.context.browser is not None
    private = browser.context.browser.new_context(ignore_https_errors=True)
    page = private.new_page()
    page.goto(GOOGLE.format("in+private"))
    page.locator(RESULT).first.click()
    page.wait_for_url(HITS[0])
    private.close()
    # With one click on the icon.
    browser.toggle()
    assert until(lambda: "paused" in browser.icon()["title"])
    browser.search(GOOGLE.format("while+paused"), 1, RESULT, recorded=False)
    browser.toggle()
    assert until(lambda: "records" in browser.icon()["title"])
    # What comes after shows that nothing before it is still on its way.
    page = browser.context.new_page()
    page.goto(GOOGLE.format("jaguar"))
    assert until(lambda: browser.stored("search"))
    page.reload()
    page.goto("https://www.google.com/search?q=jaguar&start=10")
    page.locator(RESULT).nth(2).click(button="middle")
    assert until(lambda: browser.stored("search")[0]["rank"])
    page.locator(RESULT).first.click()
    page.wait_for_url(HITS[0])
    assert until(lambda: len(browser.stored("search")) == 2)
    page.goto(GOOGLE.format("jaguar+car"))
    assert until(lambda: len(browser.stored("search")) == 3)
    browser.search("https://en.wikipedia.org/w/index.php?search=Panthera&offset=20", 1, ".mw-search-result-heading > a")
    browser.search("https://openlibrary.org/search?q=Panthera&page=2", 0, ".booktitle a")
    rows = [(row["query"], row["url"], row["rank"], row["site"]) for row in browser.stored("search")]
    assert rows == [
        ("jaguar", HITS[2], 13, "Google"),
        ("jaguar", HITS[0], 11, "Google"),
        ("jaguar car", None, None, "Google"),
        ("Panthera", "https://en.wikipedia.org/wiki/Result_1", 22, "Wikipedia"),
        ("Panthera", "https://openlibrary.org/works/result-1.example", 21, "Open Library"),
    ]
    settings = browser.page("settings")
    settings.get_by_label("Also record searches that look personal").check()
    settings.get_by_text("Saved.").wait_for()
    browser.search(GOOGLE.format("jane%40roe.example.org"))
    assert browser.stored("search")[-1]["query"] == "jane@roe.example.org"
    the_log(browser, tmp_path)


def listed(browser: Chromium) -> list[tuple[str, str | None, int | None]]:
    return [(row["query"], row["url"], row["rank"]) for row in browser.stored("search")]


def test_results_of_each_site(profile: Profile, websites: Websites) -> None:
    """Results alone, where they really lead, with the place that they have; no advertisements or boxes."""
    browser = profile("one")
    own = "https://en.wikipedia.org/wiki/Result_4", "https://openlibrary.org/works/result-5.example"
    for address, selector, url, rank in [
        ("https://www.google.co.nz/search?q=1&start=20", ".MjjYud a:has(h3)", HITS[4], 25),
        ("https://www.bing.com/search?q=2&first=21", ".b_algo:not(:has(.b_adSlug)) h2 a[h]", HITS[4], 25),
        ("https://duckduckgo.com/?q=3&t=h_&ia=web", "article[data-testid=result] h2 a", HITS[4], 5),
        ("https://html.duckduckgo.com/html/?q=4&s=30", ".web-result a.result__a", HITS[4], 35),
        ("https://search.brave.com/search?q=5&offset=1", ".snippet[data-type=web] a", HITS[4], 25),
        ("https://www.startpage.com/sp/search?query=6&page=2&cat=web", ".w-gl a.result-link", HITS[4], 15),
        ("https://en.wikipedia.org/wiki/Special:Search?search=7&offset=20", "a[data-serp-pos]", own[0], 25),
        ("https://openlibrary.org/search?q=8&page=3", ".booktitle a", own[1], 45),
    ]:
        browser.search(address, 4, selector)
        assert listed(browser)[-1] == (str(len(listed(browser))), url, rank)
    # Posted: the query is in a box, and the address does not say which page it is.
    page = browser.context.new_page()
    page.goto("https://www.startpage.com/")
    page.locator("input").fill("posted")
    page.locator("button").click()
    assert until(lambda: listed(browser)[-1][0] == "posted")
    page.locator("a.result-link").nth(2).click()
    assert until(lambda: listed(browser)[-1] == ("posted", HITS[1], None))
    # What is no result, and tabs that show other things.
    rows = listed(browser)
    for address, selector in [
        (GOOGLE.format("posted"), "#tads a"),
        (GOOGLE.format("posted"), "[data-text-ad] a"),
        (GOOGLE.format("posted"), ".related-question-pair a"),
        ("https://www.bing.com/search?q=posted", ".b_adSlug + h2 a"),
        (GOOGLE.format("tab&udm=2"), RESULT),
        (GOOGLE.format("tab&tbm=nws"), RESULT),
        ("https://duckduckgo.com/?q=tab&iax=images&ia=images", "article[data-testid=result] h2 a"),
        ("https://www.startpage.com/sp/search?query=tab&cat=news", ".w-gl a.result-link"),
    ]:
        browser.search(address, 0, selector, recorded=False)
    browser.search(GOOGLE.format("last"))
    assert [row for row in listed(browser)[len(rows) :] if row[0] != "posted"] == [("last", None, None)]
    assert [url for query, url, _ in listed(browser) if query == "posted"] == [HITS[1], None, None]


def test_what_is_no_search(profile: Profile, websites: Websites) -> None:
    """A page that was come back to or loaded again, and one that makes up searches."""
    browser = profile("one")
    page = browser.context.new_page()
    page.goto("https://search.brave.com/")
    rows: list[dict[str, Any]] = []
    for query in ("one", "two"):
        page.locator("#searchbox").fill(query)
        page.locator("#searchbox").press("Enter")
        rows = browser.other(rows)
    page.go_back()
    page.locator(".snippet[data-type=web] a").nth(1).click()
    page.wait_for_url(HITS[1])
    assert until(lambda: listed(browser) == [("one", HITS[1], 2), ("two", None, None)])
    page.go_back()  # out of the back/forward cache, where there is one
    page.wait_for_url("**/search?q=one**")
    page.reload()
    browser.search(GOOGLE.format("three"))
    # A page that makes up searches of its own, which nobody has touched.
    page = browser.context.new_page()
    page.goto("https://www.google.is/search?q=four")
    page.wait_for_url("**/search?q=made+up")
    browser.search(GOOGLE.format("five"))
    assert [query for query, *_ in listed(browser)] == ["one", "two", "three", "four", "five"]


def the_log(browser: Chromium, tmp_path: Path) -> None:
    """Read, filter, export and delete."""
    page = browser.page("log")
    assert page.get_by_text("6 of 6 rows").is_visible()
    assert page.get_by_text("instead of: jaguar", exact=True).is_visible()
    page.get_by_label("Words in searches").fill("JAGUAR")
    page.get_by_text("3 of 6 rows").wait_for()
    page.get_by_role("button", name="Show everything").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    exported = tmp_path / "searchveil-log.csv"
    download.value.save_as(exported)
    rows = list(csv.DictReader(exported.read_text().splitlines()))
    assert [row["query"] for row in rows].count("jaguar") == 2
    inspected = subprocess.run(
        [sys.executable, "-m", "searchveil", "inspect", exported, "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(inspected.stdout)
    assert (found["rows"], found["users"]) == (6, 1)
    page.get_by_role("button", name="Delete: jaguar car").click()
    page.get_by_text("5 of 5 rows").wait_for()
    page.get_by_label("Site").select_option("Google")
    page.get_by_text("3 of 5 rows").wait_for()
    page.get_by_role("button", name="Delete what is shown (3)").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert len(browser.stored("search")) == 5
    page.get_by_role("button", name="Delete what is shown (3)").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("2 of 2 rows").wait_for()
    page.locator("#bars button").click()
    page.get_by_role("button", name="Delete this day").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("No searches yet.").wait_for()
    assert browser.stored("search") == []


def pages(browser: Chromium) -> None:
    """Each page, light and dark, wide and as narrow as a phone: no barrier that axe finds, nothing that sticks out."""
    barriers = "axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes.map((node) => node.html)]))"
    axe = (Path(__file__).parents[2] / "extension/node_modules/axe-core/axe.min.js").read_text()
    said = json.loads((browser.built / "_locales" / browser.language / "messages.json").read_text())
    shots = os.environ.get("SCREENSHOTS")
    for name in ("log", "jobs", "settings"):
        page = browser.page(name)
        assert page.locator("html").get_attribute("lang") == browser.language
        assert page.locator("h1").inner_text() == said[f"menu_{name}"]["message"]
        page.evaluate(axe)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 800})
                found = page.evaluate(barriers)
                assert found == [], (name, scheme, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                if shots:
                    path = Path(shots) / f"{name}-{browser.language}-{scheme}-{width}.png"
                    page.screenshot(path=path, full_page=True)
        page.close()


def test_pages_with_a_job(profile: Profile, servers: Servers, websites: Websites) -> None:
    """The question that a job asks, in both languages: what was struck out stays so, whatever comes in between."""
    done = servers.job(make_policy("FT_u", k=2))
    browser = profile("one")
    for i in range(3):
        browser.search(GOOGLE.format(f"a+query+{i}"), i, RESULT)
    browser.search(GOOGLE.format("struck+out"))
    browser.join(servers.file, servers.invitation())
    send(browser, done, strike="struck out")
    job = servers.job(make_policy("FT_a", k=2, per_user=40), "query-url", secondary_k=3)
    private = servers.job(make_policy("ST_u", epsilon=1.0, delta=1e-6, per_user=2), "reformulation")
    look = browser.page("jobs")
    look.get_by_role("button", name="Look for jobs now").click()
    look.locator(f"article[data-job='{private.id.hex()}']").wait_for()
    look.close()

    page = article(browser, job)
    part = page.locator(f"article[data-job='{job.id.hex()}']")
    struck = part.get_by_label("a query 1", exact=False)
    struck.focus()
    page.keyboard.press("Space")
    assert not struck.is_checked()
    page.wait_for_timeout(3000)  # longer than the page takes to draw itself anew
    assert part.get_by_text("Exactly this would be sent (2)").is_visible()
    assert struck.evaluate("(box) => box === document.activeElement"), "a keyboard stays where it was"
    page.reload()
    struck.wait_for()
    assert not struck.is_checked()
    struck.focus()
    browser.search(GOOGLE.format("One+more+" + "and+on+" * 30), 3, RESULT)
    part.get_by_text("as typed: One more and on").wait_for()
    assert struck.evaluate("(box) => box === document.activeElement"), "also when the page is drawn anew"
    assert not struck.is_checked()
    assert part.locator("input:checked").count() == 3
    page.close()

    pages(browser)
    browser.speak("de")
    pages(browser)
    part = article(browser, job).locator(f"article[data-job='{job.id.hex()}']")
    assert part.locator("input:not(:checked)").count() == 1
    part.get_by_role("button", name="Dies einmal senden").click()
    part.get_by_text("Fertig: 3 zugestellt, 0 nicht zugestellt.").wait_for()
    sent = {
        row["artifact"].split("\t")[0] for row in browser.stored("outbox") if row["job"] == job.id.hex() and row["sent"]
    }
    assert len(sent) == 3
    assert "a query 1" not in sent


def test_trouble(profile: Profile, servers: Servers, websites: Websites) -> None:
    """A forged job, servers that are down, deletion before sending, a browser killed twice in the middle of a job."""
    job = servers.job(make_policy("FT_a", k=2))
    browser = profile("one")
    for i in range(3):
        browser.search(GOOGLE.format(f"again+and+again&x={i}"))
        browser.search(GOOGLE.format("taken+back" if i else "only+once"))
    browser.join(servers.file, servers.invitation())

    servers.stop("server")
    page = article(browser, job)
    page.get_by_role("button", name="Send this once").click()
    page.get_by_text("a server does not answer").wait_for()
    assert browser.stored("outbox") == []
    forged(browser, servers, page)

    servers.stop("relay-1")
    page.get_by_role("button", name="Send this once").click()
    page.get_by_text("a relay does not answer").wait_for()
    before = browser.stored("outbox")
    assert [row["artifact"] for row in before if row["report"] == "bytes"].count("again and again") == 3
    log = browser.page("log")
    log.get_by_role("button", name="Delete: taken back").first.click()
    log.get_by_text("5 of 5 rows").wait_for()
    log.get_by_role("button", name="Delete: taken back").click()
    log.get_by_text("4 of 4 rows").wait_for()
    assert len(browser.stored("outbox")) == len(before) - 2
    browser.kill()

    # The reports arrive, and nobody tells this browser before it is killed.
    wire = servers.wires["relay-1"]
    wire.lost = b"POST /reports/"
    servers.start("relay-1")
    browser.open()
    try_now(article(browser, job))
    assert until(lambda: wire.unheard)
    browser.kill()
    servers.stop("relay-1")
    wire.lost = b""
    browser.open()
    assert [row["sent"] for row in browser.stored("outbox")] == [None] * 4
    servers.start("relay-1")
    page = article(browser, job)
    try_now(page)
    page.get_by_text("Done: delivered 4, not delivered 0.").wait_for()
    assert servers.release(job, "released") == {"again and again": 3}


def try_now(page: Page) -> None:
    """Unless the browser has tried by itself meanwhile."""
    button = page.get_by_role("button", name="Try now")
    assert until(lambda: button.is_visible() or page.get_by_text("Done:").is_visible())
    if button.is_visible():
        button.click()


def forged(browser: Chromium, servers: Servers, page: Page) -> None:
    """A server that signs with another key than the community's."""
    mine = (servers.home / "server.toml").read_text()
    servers.settings("server", signing_key="11" * 32, database="forged.sqlite")
    servers.start("server")
    other = servers.job(make_policy("FT_a", k=2), "query-url")
    page.get_by_role("button", name="Look for jobs now").click()
    page.get_by_text("It is forged or damaged").wait_for()
    assert other.id.hex() not in {row["id"] for row in browser.stored("job")}
    servers.stop("server")
    (servers.home / "server.toml").write_text(mine)
    servers.start("server")
    page.get_by_role("button", name="Look for jobs now").click()
    page.get_by_text("It is forged or damaged").wait_for(state="hidden")
