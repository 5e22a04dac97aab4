"""The extension's own tests, types, lint and archives; and its normal form against Python's for every character."""

import hashlib
import json
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from searchveil.crowd.artifacts import normal

pytestmark = pytest.mark.slow


def run(extension: Path, *command: str | Path, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=extension, capture_output=True, text=True, input=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tests(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unit tests, in a copy: they look for the vectors and for what was built beside them."""
    home = tmp_path_factory.mktemp("units")
    (home / "tests").symlink_to(extension.parent / "tests")
    copy = home / "extension"
    shutil.copytree(extension, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(extension / "node_modules")
    run(copy, "node", "build.mjs", "--tests")
    return copy


def test_types(extension: Path) -> None:
    run(extension, "node", "node_modules/typescript/bin/tsc", "--noEmit")


def test_units(tests: Path) -> None:
    files = sorted((tests / "dist/tests").glob("*.test.mjs"))
    said = run(tests, "node", "--test", "--test-reporter=tap", *files)
    assert "# fail 0" in said
    assert int(said.split("# pass ")[1].split()[0]) >= 40


def test_lint(tests: Path) -> None:
    lint = ("lint", "--source-dir", "dist/unpacked", "--no-config-discovery", "--output=json")
    found = json.loads(run(tests, "node", "node_modules/web-ext/bin/web-ext.js", *lint))
    assert found["summary"]["errors"] == 0
    # One manifest for both browsers: Firefox says that it passes over the other's key.
    assert {one["code"] for one in found["warnings"]} <= {"BACKGROUND_SERVICE_WORKER_IGNORED"}


def test_the_same_sources_give_the_same_bytes(built: Path, tests: Path) -> None:
    """Built twice, in two places."""
    archives = [sorted(folder.glob("*.zip")) for folder in (built.parent, tests / "dist")]
    assert len(archives[0]) == 2
    one, other = ([(path.name, hashlib.sha256(path.read_bytes()).digest()) for path in paths] for paths in archives)
    assert one == other


def test_no_text_is_normalised_otherwise_than_in_python(tests: Path) -> None:
    """Every character that both know, alone, beside letters and beside combining marks."""
    characters = [
        chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")
    ]
    texts = characters + [
        f" A{one}\u0301b{one} Σ" for one in characters if not unicodedata.category(one).startswith("Lo")
    ]
    found = json.loads(run(tests, "node", "dist/tests/normal-forms.mjs", given=json.dumps(texts)))
    compared = [(text, there) for text, there in zip(texts, found, strict=True) if there is not None]
    assert len(compared) > 150_000
    assert [(text, there) for text, there in compared if there != normal(text)] == []
