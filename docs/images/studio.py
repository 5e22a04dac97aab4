"""Make studio.png: the step Promise for a demo log. Needs Chromium and what `make test` installs.

python docs/images/studio.py            the picture of this folder
python docs/images/studio.py FOLDER     every step, at 390 and 1280 pixels, light and dark
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "searchveil"]
PATIENCE = 240_000  # milliseconds


def shoot(page: Any, folder: Path, name: str) -> None:
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")


def walk(page: Any, link: str, folder: Path | None) -> None:
    def seen(name: str) -> None:
        if folder is not None:
            shoot(page, folder, name)

    page.goto(link)
    page.click("form[action='/drafts'] button")
    page.wait_for_selector("#reading dl")
    seen("1-log")
    page.click(".steps button[value=what]")
    page.wait_for_selector("#settings")
    seen("2-what")
    page.click(".steps button[value=promise]")
    page.fill("#guess-users", "20000")
    page.wait_for_selector("#expected strong")
    page.wait_for_selector("#chart:not([hx-get]) svg")
    seen("3-promise")
    if folder is None:
        page.set_viewport_size({"width": 1040, "height": 1300})
        page.screenshot(path=HERE / "studio.png")
        return
    page.click(".steps button[value=budget]")
    page.check("input[name=ledger][value=new]")
    page.fill("#budget_epsilon", "4")
    page.fill("#budget_delta", "1e-5")
    page.wait_for_selector("#confirm")
    seen("4-budget")
    page.fill("#confirm", "1")
    page.click("button.pay")
    page.wait_for_selector("[data-state=done]")
    seen("5-release")
    page.click("a.primary")
    page.wait_for_selector("#rows")
    seen("6-result")
    page.goto(link.partition("/enter")[0])
    seen("7-releases")


def main(folder: Path | None) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        subprocess.run([*COMMAND, "demo", "--users", "2000", "--out", "log.tsv"], cwd=place, check=True)
        serving = subprocess.Popen(
            [*COMMAND, "studio", "log.tsv", "--no-browser"], cwd=place, stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert serving.stdout is not None
        link = next(line.strip() for line in serving.stdout if "/enter?token=" in line)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(locale="en-GB").new_page()
        page.set_default_timeout(PATIENCE)
        walk(page, link, folder)
        browser.close()
        serving.terminate()
        serving.communicate()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
