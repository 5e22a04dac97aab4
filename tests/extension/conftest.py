"""The extension as built, the web around it, and a community of processes."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Playwright, sync_playwright
from servers import Servers
from websites import Websites

EXTENSION = Path(__file__).parents[2] / "extension"


@pytest.fixture(scope="session")
def extension() -> Path:
    """Its folder, with what `npm ci` installed."""
    if shutil.which("node") is None or not (EXTENSION / "node_modules").is_dir():
        pytest.skip("the extension's tools are not installed (make node)")
    return EXTENSION


@pytest.fixture(scope="session")
def built(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked extension, built by this worker for itself."""
    out = tmp_path_factory.mktemp("extension")
    subprocess.run(["node", "build.mjs", "--out", out], cwd=extension, check=True)
    return out / "unpacked"


@pytest.fixture
def websites(tmp_path: Path) -> Iterator[Websites]:
    sites = Websites(tmp_path)
    yield sites
    sites.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    (tmp_path / "community").mkdir()
    running = Servers(tmp_path / "community")
    yield running
    running.close()


@pytest.fixture(scope="module")  # as `browser` of ../conftest.py: only one may run in a process
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running
