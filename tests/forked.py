"""Commands without the second that a new Python takes to import everything: forked from one that has.

Each is still a process of its own, with its folder, environment, streams and exit code. What is not tested this way is
the start, and that Python takes its modules apart at the end: whoever looks at these, or sends signals, runs the
command itself.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

# What commands load when they need it.
HEAVY = (
    "altair", "dp_accounting.pld.privacy_loss_distribution", "duckdb", "highspy", "ibis.backends.duckdb.converter",
    "ibis.expr.types.groupby", "ibis.formats.pandas", "ir_measures", "jinja2", "markdown_it", "numpy", "pyarrow.csv",
    "pyarrow.dataset", "pyarrow.parquet", "pyarrow.substrait", "pydantic.type_adapter", "rich.progress",
    "scipy.sparse", "scipy.stats", "typer.rich_utils", "vl_convert",
)  # fmt: skip


class ForkServer:
    """A Python that has loaded searchveil and waits for commands, one after the other."""

    def __init__(self) -> None:
        self.python = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def run(self, argv: list[str], folder: Path, environment: Mapping[str, str], limit: int) -> tuple[int, str, str]:
        """The exit code, standard output and standard error; after `limit` seconds the command is killed."""
        with tempfile.TemporaryDirectory() as place:
            streams = [f"{place}/out", f"{place}/err"]
            asked = {"argv": argv, "folder": str(folder), "environment": dict(environment), "streams": streams}
            assert self.python.stdin is not None
            print(json.dumps(asked | {"limit": limit}), file=self.python.stdin, flush=True)
            assert self.python.stdout is not None
            code = int(self.python.stdout.readline())
            out, err = (Path(path).read_text(encoding="utf-8") for path in streams)
        assert code != -signal.SIGALRM, f"{argv} hangs\n{err}"
        return code, out, err

    def close(self) -> None:
        self.python.communicate()


@cache
def fork_server() -> ForkServer:
    """One for all tests of this process, started by the first that needs it."""
    started = ForkServer()
    atexit.register(started.close)
    return started


def serve() -> None:
    import importlib
    import pkgutil

    import searchveil

    names = [module.name for module in pkgutil.walk_packages(searchveil.__path__, "searchveil.")]
    for name in [*HEAVY, *(name for name in names if not name.endswith("__main__"))]:
        importlib.import_module(name)
    noise = importlib.import_module("searchveil.privacy.noise")
    noise._quantiles()  # a table of constants, which most releases need
    gc.collect()
    gc.freeze()  # so that no command looks through all this again
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(**asked)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)  # nothing is left to put away


def become(argv: list[str], folder: str, environment: dict[str, str], streams: list[str], limit: int) -> NoReturn:
    """This process is the command from here on, to its end."""
    from searchveil.cli import main

    signal.alarm(limit)
    for number, path in enumerate([os.devnull, *streams]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace")
    sys.argv = argv
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    tempfile.tempdir = None
    code: object = 1
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError):  # a command may have closed it
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve()
