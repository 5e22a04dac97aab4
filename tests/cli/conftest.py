"""The command line without a new process, for tests that mostly look at what it says."""

import gc
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest
from commandline import Outcome

from searchveil.cli import main


@pytest.fixture
def searchveil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command in an empty folder, without a new process: most of these say no before they have done anything."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["searchveil", *map(str, arguments)])
        code: Any = 1
        with warnings.catch_warnings():  # a process that ends need not close the engine of a log it refuses
            warnings.filterwarnings("ignore", "Implicitly cleaning up", ResourceWarning)
            try:
                main()
            except SystemExit as stop:
                code = stop.code
            except Exception:
                traceback.print_exc()
            gc.collect()
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return run
