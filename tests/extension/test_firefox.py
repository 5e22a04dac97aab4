"""The extension in a real Firefox: from a click on a result to a release, and killed in the middle of a job."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from firefox import UUID, Firefox
from search_pages import HITS
from servers import Servers, requests
from test_chromium import check_wires
from websites import Websites

from searchveil.crowd.artifacts import Search
from searchveil.crowd.client import Client
from searchveil.crowd.config import Community
from searchveil.crowd.jobs import Job
from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.policy import make_policy

pytestmark = pytest.mark.slow


@pytest.fixture
def browser(built: Path, websites: Websites, tmp_path: Path) -> Iterator[Firefox]:
    (archive,) = built.parent.glob("*-firefox.zip")
    xpi = tmp_path / "searchveil.xpi"
    xpi.write_bytes(archive.read_bytes())
    with Firefox(xpi, tmp_path / "profile", websites.port) as opened:
        yield opened


def four_others(servers: Servers, job: Job) -> None:
    """Members with the Python client: two clients, one crowd."""
    with httpx.Client(timeout=60) as http:
        for number, queries in enumerate((["shared by all"], ["shared by all"], ["by two"], ["only one"])):
            log = OwnLog(servers.home / f"{number}.sqlite")
            log.add(Search(query, 1.0) for query in queries)
            log.set_consent(job.id.hex(), "always")
            community = Community.read(servers.home / "community.json")
            client = Client(log, community, servers.invitation(), bytes([number]) * 32, http=http)
            (found,) = [one for one in client.jobs() if one.id == job.id]
            client.run(found)
            log.close()


def test_with_four_others(browser: Firefox, servers: Servers) -> None:
    job = servers.job(make_policy("FT_u", k=3))
    four_others(servers, job)
    browser.search("https://www.google.com/search?q=Shared+BY+all", ".MjjYud:nth-of-type(4) a")
    browser.search("https://no-rule.example/search?q=nothing", "#search a", recorded=False)
    browser.search("https://www.bing.com/search?q=jane%40roe.example.org", recorded=False)
    browser.privately("https://www.google.com/search?q=in+private", ".MjjYud:nth-of-type(4) a")
    before = browser.stored("search")
    browser.navigate("https://search.brave.com/")  # searches without a page being loaded
    browser.type("#searchbox", "by two\ue007")
    browser.other(before)
    browser.page("log")
    rows = [(row["query"], row["url"], row["rank"]) for row in browser.stored("search")]
    assert rows == [("Shared BY all", HITS[1], 2), ("by two", None, None)]

    assert "records" in browser.toggle()
    browser.wait("Paused")
    browser.search("https://www.bing.com/search?q=while+paused", recorded=False)
    assert "paused" in browser.toggle()
    browser.page("log")
    assert len(browser.stored("search")) == 2

    browser.join(servers.file, servers.invitation())
    servers.stop("relay-1")
    browser.page("jobs")
    browser.press("Send this once")
    browser.wait("a relay does not answer")
    reports = [row["report"] for row in browser.stored("outbox")]
    assert reports == ["bytes", "bytes"]
    browser.kill()
    servers.start("relay-1")
    browser.open()
    browser.look()
    browser.page("jobs")
    browser.press("Try now")
    browser.wait("Done: delivered 2, not delivered 0.")
    assert servers.release(job, "released") == {"shared by all": 3}
    check_wires(servers, 4)
    assert any(
        UUID in headers.get("origin", "")
        for wire in servers.wires.values()
        for said in wire.said
        for _, headers in requests(said)
    ), "the check above sees nothing"
