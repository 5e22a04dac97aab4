"""Two browsers under one hand: the Chromium by playwright, the Firefox by Marionette, its own remote control."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from serving import LIMIT, until

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIREFOX = ("firefox-esr", "firefox")


# Without its style a page still moves away under a click, and htmx does not listen yet to what it has just put in.
SETTLED = "document.readyState == 'complete' && !document.querySelector('.htmx-added, .htmx-settling')"
# What htmx writes as an error when the next key replaces a request; one that fails is "htmx:sendError" besides.
REPLACED = ("htmx:afterRequest, ", "htmx:sendAbort, ")
LEFT = ("no such element", "stale element reference", "no such window", "unknown error")  # while a page is replaced


class PageLeftError(Exception):
    """The page was just being replaced by the next."""


class Driver(Protocol):
    """What a person does."""

    def open(self, address: str) -> None: ...
    def find(self, selector: str) -> Any: ...
    def click(self, selector: str) -> None: ...
    def fill(self, selector: str, text: str) -> None: ...
    def evaluate(self, expression: str) -> Any: ...
    def new_tab(self) -> None: ...
    def other_tab(self) -> None: ...
    def complaints(self) -> list[str]: ...


def installed(names: tuple[str, ...]) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    assert found is not None, f"none of {', '.join(names)} is installed (make browser)"
    return found


class Chromium:
    def __init__(self, page: Any, own: str) -> None:
        self.page, self.own = page, own
        self._complaints: list[str] = []
        self._watch(page)

    def _watch(self, page: Any) -> None:
        own = self.own
        page.set_default_timeout(1000 * LIMIT)
        page.on("console", lambda said: self._complain(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._complain(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(own) else self._complain(f"asked {asked.url}"))

    def _complain(self, what: str) -> None:
        if not what.startswith(REPLACED):
            self._complaints.append(what)

    def open(self, address: str) -> None:
        self.page.goto(address)

    def find(self, selector: str) -> Any:
        return self.page.wait_for_selector(selector, state="attached")

    def click(self, selector: str) -> None:
        self.find(selector)
        until(lambda: self.evaluate(SETTLED))
        self.page.click(selector)

    def fill(self, selector: str, text: str) -> None:
        self.find(selector)
        until(lambda: self.evaluate(SETTLED))
        self.page.fill(selector, "")
        self.page.type(selector, text)

    def evaluate(self, expression: str) -> Any:
        from playwright.sync_api import Error

        try:
            return self.page.evaluate(expression)
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
            return None  # the page is being left

    def new_tab(self) -> None:
        self.page = self.page.context.new_page()
        self._watch(self.page)

    def other_tab(self) -> None:
        self.page = next(one for one in self.page.context.pages if one != self.page)

    def complaints(self) -> list[str]:
        return self._complaints


@contextmanager
def chromium(own: str) -> Iterator[Chromium]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(CHROMIUM), args=["--no-sandbox"])
        try:
            yield Chromium(browser.new_context(locale="en-GB").new_page(), own)
        finally:
            browser.close()


class Firefox:
    """WebDriver's commands as Firefox takes them over TCP: a length, then [0, number, name, parameters]."""

    def __init__(self, port: int, own: str) -> None:
        self.own, self.number = own, 0
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.settimeout(2 * LIMIT)
        self.read = self.connection.makefile("rb")
        self._receive()  # Firefox says who it is
        limits = {"implicit": 0, "pageLoad": 1000 * LIMIT, "script": 1000 * LIMIT}
        self.do("WebDriver:NewSession", timeouts=limits)

    def _receive(self) -> Any:
        size = b""
        while not size.endswith(b":"):
            part = self.read.read(1)
            if not part:
                raise ConnectionError("Firefox has gone")
            size += part
        return json.loads(self.read.read(int(size[:-1])))

    def do(self, command: str, **parameters: Any) -> Any:
        self.number += 1
        sent = json.dumps([0, self.number, command, parameters]).encode()
        self.connection.sendall(b"%d:%b" % (len(sent), sent))
        _, _, error, result = self._receive()
        if error is not None and error["error"] in LEFT:
            raise PageLeftError(error["message"])
        assert error is None, f"{command}: {error['message']}"
        return result.get("value", result) if isinstance(result, dict) else result

    def open(self, address: str) -> None:
        self.do("WebDriver:Navigate", url=address)

    def find(self, selector: str) -> Any:
        """Once it is there; polled, because partial updates come without a navigation."""
        found: list[str] = []

        def there() -> bool:
            if not self.evaluate(SETTLED):
                return False
            with suppress(PageLeftError):
                (element,) = self.do("WebDriver:FindElement", using="css selector", value=selector).values()
                found.append(element)
            return bool(found)

        until(there)
        return found[0]

    def click(self, selector: str) -> None:
        self._with(selector, lambda element: self.do("WebDriver:ElementClick", id=element))

    def fill(self, selector: str, text: str) -> None:
        def type(element: str) -> None:
            self.do("WebDriver:ElementClear", id=element)
            self.do("WebDriver:ElementSendKeys", id=element, text=text)

        self._with(selector, type)

    def _with(self, selector: str, act: Callable[[str], object]) -> None:
        """A partial update may replace an element between its being found and its being used."""

        def done() -> bool:
            with suppress(PageLeftError):
                act(self.find(selector))
                return True
            return False

        until(done)

    def evaluate(self, expression: str) -> Any:
        with suppress(PageLeftError):
            return self.do("WebDriver:ExecuteScript", script=f"return {expression}", args=[])
        return None

    def new_tab(self) -> None:
        self.do("WebDriver:SwitchToWindow", handle=self.do("WebDriver:NewWindow", type="tab")["handle"])

    def other_tab(self) -> None:
        here = self.do("WebDriver:GetWindowHandle")
        other = next(one for one in self.do("WebDriver:GetWindowHandles") if one != here)
        self.do("WebDriver:SwitchToWindow", handle=other)

    def complaints(self) -> list[str]:
        """What the browser's console has of these pages, and what they asked of other places."""
        self.do("Marionette:SetContext", value="chrome")
        script = """return Services.console.getMessageArray()
            .filter((one) => one instanceof Ci.nsIScriptError && (one.sourceName || "").startsWith(arguments[0]))
            .map((one) => one.errorMessage)"""
        found: list[str] = self.do("WebDriver:ExecuteScript", script=script, args=[self.own])
        self.do("Marionette:SetContext", value="content")
        loaded = "performance.getEntriesByType('resource').map((one) => one.name)"
        return found + [name for name in self.evaluate(loaded) if not name.startswith(self.own)]


@contextmanager
def firefox(own: str, folder: Path) -> Iterator[Firefox]:
    folder.mkdir()
    preferences = {"marionette.port": 0, "browser.shell.checkDefaultBrowser": False, "browser.startup.page": 0,
                   "datareporting.policy.dataSubmissionEnabled": False, "app.update.enabled": False,
                   "network.proxy.type": 1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9,
                   "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9,
                   "intl.accept_languages": "en-GB"}  # fmt: skip
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
    (folder / "user.js").write_text("\n".join(lines))
    arguments = ["--headless", "--marionette", "--remote-allow-system-access", "--profile", str(folder)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([installed(FIREFOX), *arguments], stdout=quiet, stderr=quiet)
    port = folder / "MarionetteActivePort"
    try:
        ends = time.monotonic() + LIMIT
        while not (port.exists() and port.read_text().strip()):
            assert process.poll() is None, "Firefox ended"
            assert time.monotonic() < ends, "Firefox did not start"
            time.sleep(0.1)
        made = Firefox(int(port.read_text()), own)
        yield made
        made.read.close()
        made.connection.close()
    finally:
        process.kill()
        process.wait()
