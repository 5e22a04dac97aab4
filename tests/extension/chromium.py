"""A profile of the Chromium that is there, with the extension as `make extension` built it."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from playwright.sync_api import BrowserContext, Error, Page, Playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
READ = """(store) => new Promise((resolve, reject) => {
  const request = indexedDB.open("searchveil");
  request.onupgradeneeded = () => request.transaction.abort(); // the extension has not made it yet
  request.onerror = () => (request.error.name === "AbortError" ? resolve([]) : reject(request.error));
  request.onsuccess = () => {
    const all = request.result.transaction(store).objectStore(store).getAll();
    const plain = (row) => ({ ...row, report: row.report ? "bytes" : null });
    all.onsuccess = () => { request.result.close(); resolve(all.result.map(plain)); };
  };
})"""
PATIENCE = 240  # seconds: the machine may be busy


def executable() -> str:
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    assert found is not None, "no Chromium is installed (make browser)"
    return found


def until(holds: Callable[[], Any]) -> Any:
    """What is true at last."""
    end = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.1)


class Chromium:
    """One person's browser."""

    def __init__(self, playwright: Playwright, built: Path, folder: Path, proxy: int) -> None:
        self.playwright, self.built, self.folder, self.proxy = playwright, built, folder, proxy
        self.language = "en"  # the only one that Debian's Chromium brings
        self.open()

    def open(self) -> None:
        self.context: BrowserContext = self.playwright.chromium.launch_persistent_context(
            self.folder,
            executable_path=executable(),
            headless=True,
            timeout=PATIENCE * 1000,
            viewport={"width": 1100, "height": 800},
            args=[
                "--no-sandbox",
                f"--proxy-server=127.0.0.1:{self.proxy}",
                "--ignore-certificate-errors",
                f"--disable-extensions-except={self.built}",
                f"--load-extension={self.built}",
            ],
        )
        self.context.set_default_timeout(PATIENCE * 1000)
        self.context.set_default_navigation_timeout(PATIENCE * 1000)
        running = self.context.service_workers
        worker = running[0] if running else self.context.wait_for_event("serviceworker")
        self.base = f"chrome-extension://{worker.url.split('/')[2]}"
        self.own = self.context.new_page()  # looks into the store and at the icon, whether the worker sleeps or not
        self.own.goto(f"{self.base}/sender.html")

    def speak(self, language: str) -> None:
        """Open it again with the extension's texts in this language, where it looks for English ones."""
        self.context.close()
        shutil.copy(self.built / "_locales" / language / "messages.json", self.built / "_locales/en/messages.json")
        self.language = language
        self.open()

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.context.close()

    def kill(self) -> None:
        """As a power cut does it."""
        session = self.context.browser.new_browser_cdp_session() if self.context.browser else None
        assert session is not None
        (browser,) = [
            one["id"] for one in session.send("SystemInfo.getProcessInfo")["processInfo"] if one["type"] == "browser"
        ]
        os.kill(browser, signal.SIGKILL)
        assert until(lambda: not Path(f"/proc/{browser}").exists())
        for lock in self.folder.glob("Singleton*"):
            lock.unlink()

    def page(self, name: str) -> Page:
        page = self.context.new_page()
        page.goto(f"{self.base}/{name}.html")
        page.wait_for_selector("nav a")
        return page

    def search(self, address: str, click: int | None = None, selector: str = "a", recorded: bool = True) -> None:
        """Open a page of results; perhaps click on the link with this number. Waits until both are recorded."""
        page, rows = self.context.new_page(), self.stored("search")
        page.goto(address)
        if recorded:
            rows = self.other(rows)
        if click is not None:
            page.locator(selector).nth(click).click()
            page.wait_for_url(lambda url: url != address)
            if recorded:
                self.other(rows)
        page.close()

    def other(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The log, once it is another one than this."""
        found = until(lambda: (now := self.stored("search")) != rows and now)
        assert found, f"nothing was recorded after {rows[-1:]}"
        return list(found)

    def join(self, community: Path, invitation: str) -> None:
        page = self.page("settings")
        page.get_by_label("Wait up to so many minutes").fill("0")
        page.get_by_label("Wait up to so many minutes").press("Tab")
        page.get_by_text("Saved.").wait_for()
        page.get_by_label("File of the crowd").set_input_files(community)
        page.get_by_label("Invitation").fill(invitation)
        page.get_by_role("button", name="Join").click()
        page.get_by_text("You are in: Reading club.").wait_for()
        page.close()

    def toggle(self) -> None:
        """What a click on the icon does; drivers have no hand in the toolbar."""

        def clicked() -> bool:
            self.own.evaluate("chrome.runtime.sendMessage({ type: 'changed' })")  # wakes the worker up
            for worker in self.context.service_workers:
                with suppress(Error):  # it has just fallen asleep
                    worker.evaluate("chrome.action.onClicked.dispatch({})")
                    return True
            return False

        assert until(clicked)

    def badge(self, text: str) -> bool:
        """Whether the icon says this, at last."""
        return bool(until(lambda: self.icon()["badge"] == text))

    def icon(self) -> dict[str, str]:
        found: dict[str, str] = self.own.evaluate(
            "(async () => ({ title: await chrome.action.getTitle({}), badge: await chrome.action.getBadgeText({}) }))()"
        )
        return found

    def stored(self, store: str) -> list[dict[str, Any]]:
        """All rows of one of the extension's tables."""
        found: list[dict[str, Any]] = self.own.evaluate(READ, store)
        return found
