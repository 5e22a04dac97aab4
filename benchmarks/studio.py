"""How long after the last key the plan is on the page: in a Chromium, from the key to the sentence that is shown.

python benchmarks/studio.py [--keys 40]
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

COMMAND = [sys.executable, "-m", "searchveil"]
# Types another ε as a key press does, and answers with the milliseconds until its sentence stands in the page.
TYPED = """(epsilon) => new Promise((done) => {
  const began = performance.now();
  const wanted = `(${epsilon}, `;
  new MutationObserver((_, observer) => {
    if (document.querySelector("#plan")?.textContent.includes(wanted)) {
      observer.disconnect();
      requestAnimationFrame(() => done(performance.now() - began));
    }
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
  const field = document.querySelector("#epsilon");
  field.value = epsilon;
  field.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=40)
    keys = parser.parse_args().keys
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        serving = subprocess.Popen([*COMMAND, "studio", "--no-browser"], cwd=place, stdout=subprocess.PIPE, text=True)
        assert serving.stdout is not None
        link = next(line.strip() for line in serving.stdout if "/enter?token=" in line)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(link)
        page.click("form[action='/drafts'] button")
        page.click(".steps button[value=promise]")
        page.wait_for_selector("#plan")
        took = [
            page.evaluate(TYPED, f"{1 + number / 100:.2f}"[:4].rstrip("0").rstrip(".")) for number in range(1, keys + 1)
        ]
        browser.close()
        serving.terminate()
        serving.communicate()
    ordered = sorted(took)
    print("| keys | p50 ms | p95 ms | largest ms |\n|---|---|---|---|")
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    print(f"| {keys} | {statistics.median(took):.0f} | {p95:.0f} | {ordered[-1]:.0f} |")


if __name__ == "__main__":
    main()
