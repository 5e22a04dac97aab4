"""Processes that a run or a test starts import the package of who started them, whatever else is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import searchveil

PROGRAM = """
import subprocess, sys
from pathlib import Path

sys.path += sys.argv[1:]

import searchveil
from forks import Fork
from searchveil.collab.simulate import same_modules

streams = [Path("out").absolute(), Path("err").absolute()]
Fork(["--version"], Path("/"), streams, fault=("tells_its_package", str(Path("forked").absolute()))).wait()
ask = [sys.executable, "-c", "import searchveil; print(searchveil.__file__)"]
started = subprocess.run(ask, cwd="/", env=same_modules(), capture_output=True, encoding="utf-8", check=True)
print(Path(searchveil.__file__).absolute(), Path("forked").read_text(), started.stdout, sep="\\n")
"""


@pytest.mark.slow
def test_processes_import_the_package_of_who_started_them(tmp_path: Path) -> None:
    """A tree beside the installed package, found by a relative path; the processes work in another folder."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "searchveil").symlink_to(Path(searchveil.__file__).parent)
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tests), str(tests.parent)],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": "tree"}, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == 3 * [str(tmp_path / "tree" / "searchveil" / "__init__.py")]
