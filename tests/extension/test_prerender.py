"""Chromium makes a page of results ready before anybody has asked for it, as its address bar does with half a word.

Playwright forbids this to every page that it drives, so here the browser is asked over a pipe, and the page made
ready is left alone.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from chromium import READ, executable, until
from websites import Websites

pytestmark = pytest.mark.slow


class Browser:
    """Chromium over its remote debugging pipe: JSON, a zero byte after each message."""

    def __init__(self, built: Path, folder: Path, proxy: int) -> None:
        told, self.tell = os.pipe()
        self.hear, said = os.pipe()
        options = [
            *("--headless=new", "--no-sandbox", "--no-first-run", "--remote-debugging-pipe"),
            *(f"--user-data-dir={folder}", f"--proxy-server=127.0.0.1:{proxy}", "--ignore-certificate-errors"),
            *(f"--disable-extensions-except={built}", f"--load-extension={built}", "about:blank"),
        ]
        shell = f'exec "$0" "$@" 3<&{told} 4>&{said}'
        self.process = subprocess.Popen(["bash", "-c", shell, executable(), *options], pass_fds=(told, said))
        os.close(told)
        os.close(said)
        self.numbers, self.rest = count(1), b""

    def __call__(self, method: str, session: str = "", **parameters: Any) -> Any:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self.tell, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != number:
            pass
        assert "result" in found, f"{method}: {found}"
        return found["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            part = os.read(self.hear, 65_536)
            assert part, "Chromium has gone"
            self.rest += part
        one, self.rest = self.rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(one)
        return found

    def targets(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self("Target.getTargets")["targetInfos"] if one["type"] == kind]

    def attach(self, target: str) -> str:
        return str(self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def evaluate(self, session: str, script: str) -> Any:
        given = {"expression": script, "awaitPromise": True, "returnByValue": True}
        return self("Runtime.evaluate", session, **given)["result"].get("value")

    def close(self) -> None:
        self("Browser.close")
        self.process.wait(240)
        os.close(self.tell)
        os.close(self.hear)


@pytest.fixture
def browser(built: Path, websites: Websites, tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(built, tmp_path / "profile", websites.port)
    yield opened
    opened.close()


def test_a_page_that_is_made_ready_is_no_search(browser: Browser, websites: Websites) -> None:
    (worker,) = until(lambda: [one for one in browser.targets("service_worker") if "background.js" in one["url"]])
    home = worker["url"].rsplit("/", 1)[0]
    own = browser.attach(browser("Target.createTarget", url=f"{home}/sender.html")["targetId"])
    assert until(lambda: browser.evaluate(own, "document.readyState") == "complete")
    stored = f"({READ})('search').then((rows) => rows.map((row) => row.query))"

    # Only a page in front makes others ready, and the extension opens its settings when it is new.
    assert until(lambda: any("settings.html" in one["url"] for one in browser.targets("page")))
    page = browser("Target.createTarget", url="https://www.google.com/guessing")["targetId"]
    browser("Target.activateTarget", targetId=page)
    assert until(lambda: "www.google.com/search?q=guessed" in websites.seen), "nothing was made ready"
    # A search elsewhere shows that nothing is on its way any more.
    browser("Target.createTarget", url="https://www.bing.com/search?q=after")
    assert until(lambda: browser.evaluate(own, stored))
    assert browser.evaluate(own, stored) == ["after"]

    session = browser.attach(page)
    browser.evaluate(session, "document.querySelector('a').click()")
    assert until(lambda: len(browser.evaluate(own, stored)) == 2)
    assert browser.evaluate(own, stored) == ["after", "guessed"]
    assert websites.seen.count("www.google.com/search?q=guessed") == 1, "it was loaded again"
