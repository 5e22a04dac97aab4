"""A profile of the Chromium that is there, with the extension as `make extension` built it."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from playwright.sync_api import BrowserContext, Page, Playwright, Worker

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
READ = """(store) => new Promise((resolve, reject) => {
  const request = indexedDB.open("searchveil");
  request.onerror = () => reject(request.error);
  request.onsuccess = () => {
    const all = request.result.transaction(store).objectStore(store).getAll();
    const plain = (row) => ({ ...row, report: row.report ? "bytes" : null });
    all.onsuccess = () => { request.result.close(); resolve(all.result.map(plain)); };
  };
})"""
PATIENCE = 60  # seconds: the machine may be busy


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
        self.open()

    def open(self) -> None:
        self.context: BrowserContext = self.playwright.chromium.launch_persistent_context(
            self.folder,
            executable_path=executable(),
            headless=True,
            locale="en-US",
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
        self.base = f"chrome-extension://{self.worker().url.split('/')[2]}"

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

    def worker(self) -> Worker:
        """The extension's service worker, woken up where it sleeps."""
        running = self.context.service_workers
        return running[0] if running else self.context.wait_for_event("serviceworker")

    def page(self, name: str) -> Page:
        page = self.context.new_page()
        page.goto(f"{self.base}/{name}.html")
        page.wait_for_selector("nav a")
        return page

    def search(self, address: str, click: int | None = None, selector: str = "a") -> None:
        """Open a page of results; perhaps click on the link with this number."""
        page = self.context.new_page()
        page.goto(address)
        page.wait_for_timeout(200)
        if click is not None:
            page.locator(selector).nth(click).click()
            page.wait_for_url(lambda url: url != address)
        page.close()

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
        self.worker().evaluate("chrome.action.onClicked.dispatch({})")

    def icon(self) -> dict[str, str]:
        found: dict[str, str] = self.worker().evaluate(
            "(async () => ({ title: await chrome.action.getTitle({}), badge: await chrome.action.getBadgeText({}) }))()"
        )
        return found

    def stored(self, store: str) -> list[dict[str, Any]]:
        """All rows of one of the extension's tables."""
        found: list[dict[str, Any]] = self.worker().evaluate(READ, store)
        return found
