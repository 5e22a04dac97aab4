"""A profile of the Firefox that is there, driven by Marionette, the remote control that geckodriver speaks to."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

FIREFOX = ("firefox-esr", "firefox")
ADDON = "extension@searchveil.example"
UUID = "5d9c2a10-7f3e-4c55-9a51-0c2f6f0a9b11"  # of this profile's installation: what must never be said on the network
PATIENCE = 240  # seconds: the machine may be busy

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

CLICK = """const [widget] = arguments;
  window.CustomizableUI.addWidgetToArea(widget, "nav-bar");
  const button = document.getElementById(widget).querySelector(".unified-extensions-item-action-button");
  const label = button.getAttribute("label");
  button.click();
  return label;"""
READ = """const [store, done] = arguments;
  const request = indexedDB.open("searchveil");
  request.onupgradeneeded = () => request.transaction.abort(); // the extension has not made it yet
  request.onerror = () => done([]);
  request.onsuccess = () => {
    const all = request.result.transaction(store).objectStore(store).getAll();
    const plain = (row) => ({ ...row, report: row.report ? "bytes" : null });
    all.onsuccess = () => { request.result.close(); done(all.result.map(plain)); };
  };"""


def executable() -> str:
    found = next((path for name in FIREFOX if (path := shutil.which(name))), None)
    assert found is not None, "no Firefox is installed (make firefox)"
    return found


class Marionette:
    """WebDriver's commands as Firefox takes them over TCP: a length, then [0, number, name, parameters]."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.settimeout(2 * PATIENCE)
        self.read = self.connection.makefile("rb")
        self.number = 0
        self._receive()  # Firefox says who it is

    def _receive(self) -> Any:
        size = b""
        while not size.endswith(b":"):
            part = self.read.read(1)
            if not part:
                raise ConnectionError("Firefox has gone")
            size += part
        return json.loads(self.read.read(int(size[:-1])))

    def __call__(self, command: str, **parameters: Any) -> Any:
        self.number += 1
        sent = json.dumps([0, self.number, command, parameters]).encode()
        self.connection.sendall(b"%d:%b" % (len(sent), sent))
        _, number, error, result = self._receive()
        assert number == self.number
        assert error is None, f"{command}: {error['message']}"
        return result.get("value", result) if isinstance(result, dict) else result

    def close(self) -> None:
        self.read.close()
        self.connection.close()


class Firefox:
    """One person's browser."""

    def __init__(self, archive: Path, folder: Path, proxy: int) -> None:
        self.folder, self.base = folder, f"moz-extension://{UUID}"
        folder.mkdir()
        preferences = PREFERENCES | {"network.proxy.ssl_port": proxy, "network.proxy.http_port": proxy}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
        (folder / "user.js").write_text("\n".join(lines))
        self.open()
        self.do("Addon:Install", path=str(archive), temporary=False, allowPrivateBrowsing=True)
        self.look()

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
        self.do = Marionette(int(port.read_text()))
        limits = dict.fromkeys(("implicit", "pageLoad", "script"), 1000 * PATIENCE)
        self.do("WebDriver:NewSession", acceptInsecureCerts=True, timeouts=limits)

    def look(self) -> None:
        """A tab that looks into the store."""
        self.tab = self.do("WebDriver:GetWindowHandle")
        self.own = self.do("WebDriver:NewWindow", type="tab")["handle"]
        self.do("WebDriver:SwitchToWindow", handle=self.own)
        self.navigate(f"{self.base}/sender.html")
        self.do("WebDriver:SwitchToWindow", handle=self.tab)

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
        self.do.close()

    def page(self, name: str) -> None:
        self.navigate(f"{self.base}/{name}.html")
        self.find("nav a")

    def navigate(self, address: str) -> None:
        self.do("WebDriver:Navigate", url=address)

    def find(self, selector: str, using: str = "css selector") -> str:
        """The element's name, once it is there."""
        (found,) = self.do("WebDriver:FindElement", using=using, value=selector).values()
        return str(found)

    def click(self, element: str) -> None:
        self.do("WebDriver:ElementClick", id=element)

    def press(self, text: str) -> None:
        """The button with this text."""
        self.click(self.find(f"//button[normalize-space()='{text}']", "xpath"))

    def type(self, selector: str, text: str) -> None:
        self.do("WebDriver:ElementSendKeys", id=self.find(selector), text=text)

    def wait(self, text: str) -> None:
        """Until the page says this."""
        self.find(f"//*[contains(text(), '{text}')]", "xpath")

    def search(self, address: str, click: str = "", recorded: bool = True) -> None:
        """Open a page of results; perhaps click on a link. Waits until both are recorded."""
        rows = self.stored("search")
        self.navigate(address)
        if recorded:
            rows = self.other(rows)
        if click:
            self.click(self.find(click))
            self.until(lambda: self.do("WebDriver:GetCurrentURL") != address)
            if recorded:
                self.other(rows)

    def other(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The log, once it is another one than this."""
        return list(self.until(lambda: (now := self.stored("search")) != rows and now))

    def privately(self, address: str, click: str) -> None:
        """A search in a private window, and a click on a result."""
        window = self.do("WebDriver:NewWindow", type="window", private=True)["handle"]
        self.do("WebDriver:SwitchToWindow", handle=window)
        self.navigate(address)
        self.click(self.find(click))
        self.until(lambda: self.do("WebDriver:GetCurrentURL") != address)
        self.do("WebDriver:CloseWindow")
        self.do("WebDriver:SwitchToWindow", handle=self.tab)

    def until(self, holds: Callable[[], Any]) -> Any:
        """What is true at last."""
        end = time.monotonic() + PATIENCE
        while not (found := holds()):
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.1)
        return found

    def join(self, community: Path, invitation: str) -> None:
        self.page("settings")
        self.script(
            "const [at] = arguments; at.value = '0'; at.dispatchEvent(new Event('change'));", self.find("#wait")
        )
        self.wait("Saved.")
        self.type("#community", str(community))
        self.type("#invitation", invitation)
        self.click(self.find("#join button"))
        self.wait("You are in: Reading club.")

    def script(self, text: str, *arguments: Any) -> Any:
        return self.do("WebDriver:ExecuteScript", script=text, args=[_element(one) for one in arguments])

    def toggle(self) -> str:
        """A real click on the icon; what its label says then."""
        widget = f"{ADDON.replace('@', '_').replace('.', '_')}-browser-action"
        self.do("Marionette:SetContext", value="chrome")  # the browser's own window
        label = self.script(CLICK, widget)
        self.do("Marionette:SetContext", value="content")
        return str(label)

    def stored(self, store: str) -> list[dict[str, Any]]:
        """All rows of one of the extension's tables; asked in a tab of its own."""
        self.do("WebDriver:SwitchToWindow", handle=self.own)
        found: list[dict[str, Any]] = self.do("WebDriver:ExecuteAsyncScript", script=READ, args=[store])
        self.do("WebDriver:SwitchToWindow", handle=self.tab)
        return found


def _element(argument: str) -> Any:
    """Elements are known by their names, which are UUIDs."""
    return {"element-6066-11e4-a52e-4f735466cecf": argument} if argument.count("-") == 4 else argument
