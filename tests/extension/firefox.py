"""A profile of the Firefox that is there, driven by Marionette, its own remote control."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from marionette_driver import By
from marionette_driver.addons import Addons
from marionette_driver.marionette import Marionette, WebElement

FIREFOX = ("firefox-esr", "firefox")
ADDON = "extension@searchveil.example"
UUID = "5d9c2a10-7f3e-4c55-9a51-0c2f6f0a9b11"  # of this profile's installation: what must never be said on the network
PATIENCE = 120  # seconds: the machine may be busy

PREFERENCES = {
    "marionette.port": 0,  # any free one, which Firefox writes down
    "extensions.webextensions.uuids": json.dumps({ADDON: UUID}),
    "xpinstall.signatures.required": False,
    "extensions.autoDisableScopes": 0,
    "extensions.webextOptionalPermissionPrompts": False,  # its own question about sharing is answered with yes
    "network.proxy.type": 1,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.http": "127.0.0.1",
    "network.trr.mode": 5,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.server": "",
    "browser.safebrowsing.update.enabled": False,
    "browser.startup.page": 0,
    "intl.accept_languages": "de-CH",  # so that it shows where requests name it
}


def executable() -> str:
    found = next((path for name in FIREFOX if (path := shutil.which(name))), None)
    assert found is not None, "no Firefox is installed (make firefox)"
    return found


class Firefox:
    """One person's browser."""

    def __init__(self, archive: Path, folder: Path, proxy: int) -> None:
        self.folder, self.base = folder, f"moz-extension://{UUID}"
        folder.mkdir()
        preferences = PREFERENCES | {"network.proxy.ssl_port": proxy, "network.proxy.http_port": proxy}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
        (folder / "user.js").write_text("\n".join(lines))
        self.open()
        Addons(self.driver).install(str(archive))

    def open(self) -> None:
        port = self.folder / "MarionetteActivePort"
        port.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [executable(), "--headless", "--marionette", "--remote-allow-system-access", "--profile", self.folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE
        while not (port.exists() and port.read_text().strip()):
            assert self.process.poll() is None, "Firefox ended"
            assert time.monotonic() < end, "Firefox did not start"
            time.sleep(0.1)
        self.driver = Marionette(host="127.0.0.1", port=int(port.read_text()))
        self.driver.start_session({"acceptInsecureCerts": True})
        self.driver.timeout.implicit = PATIENCE
        self.driver.timeout.page_load = PATIENCE

    def __enter__(self) -> "Firefox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """As a power cut does it."""
        self.process.kill()
        self.process.wait()
        with suppress(Exception):
            self.driver.cleanup()

    def page(self, name: str) -> None:
        self.driver.navigate(f"{self.base}/{name}.html")
        self.find("nav a")

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def button(self, text: str) -> WebElement:
        return self.driver.find_element(By.XPATH, f"//button[normalize-space()='{text}']")

    def wait(self, text: str) -> None:
        """Until the page says this."""
        self.driver.find_element(By.XPATH, f"//*[contains(text(), '{text}')]")

    def search(self, address: str, click: str = "") -> None:
        self.driver.navigate(address)
        time.sleep(0.3)
        if click:
            self.find(click).click()
            end = time.monotonic() + PATIENCE
            while self.driver.get_url() == address and time.monotonic() < end:
                time.sleep(0.1)

    def join(self, community: Path, invitation: str) -> None:
        self.page("settings")
        self.driver.execute_script(
            "const wait = document.getElementById('wait'); wait.value = '0'; wait.dispatchEvent(new Event('change'));"
        )
        self.wait("Saved.")
        self.find("#community").send_keys(str(community))
        self.find("#invitation").send_keys(invitation)
        self.find("#join button").click()
        self.wait("You are in: Reading club.")

    @contextmanager
    def chrome(self) -> Iterator[None]:
        """The browser's own window instead of the page."""
        with self.driver.using_context("chrome"):
            yield

    def toggle(self) -> str:
        """A real click on the icon; what its label says then."""
        with self.chrome():
            widget = f"{ADDON.replace('@', '_').replace('.', '_')}-browser-action"
            script = """const [widget] = arguments;
              window.CustomizableUI.addWidgetToArea(widget, "nav-bar");
              const button = document.getElementById(widget).querySelector(".unified-extensions-item-action-button");
              const label = button.getAttribute("label");
              button.click();
              return label;"""
            return str(self.driver.execute_script(script, [widget]))

    def stored(self, store: str) -> list[dict[str, Any]]:
        """All rows of one of the extension's tables; asked on one of its pages."""
        script = """const [store, done] = [arguments[0], arguments[arguments.length - 1]];
          const request = indexedDB.open("searchveil");
          request.onsuccess = () => {
            const all = request.result.transaction(store).objectStore(store).getAll();
            const plain = (row) => ({ ...row, report: row.report ? "bytes" : null });
            all.onsuccess = () => { request.result.close(); done(all.result.map(plain)); };
          };"""
        found: list[dict[str, Any]] = self.driver.execute_async_script(script, [store])
        return found
