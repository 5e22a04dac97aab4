"""How do people ask? Thin: parses, calls, prints; no logic."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

from searchveil.errors import was_interrupted

INTERRUPTED = 130


def main() -> NoReturn:
    """The command `searchveil`: exit 0 done, 2 the input or a parameter is wrong, 3 the budget refuses."""
    _prepare_streams()
    from searchveil.cli.app import app
    from searchveil.errors import SearchveilError

    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()  # here, where a reader who has gone or a full disk can still be told apart from success
    except SearchveilError as refusal:
        _stop(str(refusal), refusal.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever reads our output has gone (`… | head`): not an error of ours, and nothing more can be said there.
        _leave_stdout()
        sys.exit(1)
    except OSError as problem:
        _leave_stdout()
        _stop(f"{problem.filename or 'the output'}: {problem.strerror or problem}", 2)
    except Exception as problem:
        if hasattr(problem, "format_message"):  # the command line itself is wrong
            asked = getattr(getattr(problem, "ctx", None), "command_path", None) or "searchveil"
            _stop(f"{problem.format_message().rstrip('.')}. Try '{asked} --help'.", 2)
        if was_interrupted(problem):
            code = INTERRUPTED
        elif type(problem).__module__.split(".")[0] in ("duckdb", "_duckdb"):
            _stop(f"the engine gave up: {str(problem).splitlines()[0]}", 2)
        else:
            raise
    if code == INTERRUPTED:
        paid = any(word.split("=")[0] == "--ledger" for word in sys.argv)
        unless = "; what the ledger had already reserved stays spent (docs/ledger.md)" if paid else ""
        _stop(f"stopped by the keyboard; nothing was published{unless}", INTERRUPTED)
    sys.exit(code)


def _prepare_streams() -> None:
    """Whatever the terminal is, a Greek letter or a closed stream must not be what stops a release."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (lives as long as the process)
        with suppress(AttributeError):  # a stand-in without the method
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _leave_stdout() -> None:
    """What is still buffered for it goes nowhere, instead of failing once more at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(message: str, code: int) -> NoReturn:
    print(f"searchveil: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
