"""How do people ask? Thin: parses, calls, prints; no logic."""

import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

from searchveil.atomic import keep_private, written
from searchveil.errors import SearchveilError, printable, was_interrupted
from searchveil.stopping import end_cleanly, received

INTERRUPTED = 130
GRACE = 8  # seconds for putting things away after a signal; service managers wait ten and more


def main() -> NoReturn:
    """The command `searchveil`, a process of its own."""
    end_cleanly(GRACE)
    keep_private()
    answer()


def answer() -> NoReturn:
    """Exit 0 done, 2 the input or a parameter is wrong, 3 the budget refuses, 128 + n stopped by signal n."""
    _prepare_streams()
    from searchveil.cli.app import app

    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()  # here, where a reader who has gone or a full disk can still be told apart from success
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as problem:
        if received() is not None or was_interrupted(problem):  # what else went wrong is the signal's doing
            code = INTERRUPTED
        else:
            _refuse(problem)
    if code == INTERRUPTED:
        _say_stopped(received() or signal.SIGINT)
    sys.exit(code)


def _refuse(problem: Exception) -> NoReturn:
    """End with one line for what the user can mend; what is a fault of ours is raised again."""
    if isinstance(problem, SearchveilError):
        from searchveil.wording import on_command_line

        _stop(problem.written(on_command_line), problem.exit_code)
    if isinstance(problem, OSError):
        _leave_stdout()
        if isinstance(problem, BrokenPipeError):
            # Whoever reads our output has gone (`… | head`): not an error of ours, and nothing more can be said there.
            sys.exit(128 + signal.SIGPIPE)
        _stop(f"{problem.filename or 'the output'}: {problem.strerror or problem}", 2)
    if hasattr(problem, "format_message"):  # the command line itself is wrong
        _refuse_command_line(problem)
    _refuse_failure_of_engine(problem)
    raise problem


def _refuse_failure_of_engine(problem: Exception) -> None:
    library = type(problem).__module__.split(".")[0]
    if library in ("duckdb", "_duckdb"):
        name = type(problem).__name__
        # Other errors may quote a cell of a private row.
        said = str(problem).splitlines()[0] if name in ("OutOfMemoryException", "IOException") else name
        _stop(f"the engine gave up: {said}", 2)
    if library in ("pyspark", "py4j"):
        from searchveil.engine.spark import cause_of

        _stop(f"Spark gave up: {cause_of(problem)}", 2)


def _refuse_command_line(problem: Any) -> NoReturn:
    asked = getattr(getattr(problem, "ctx", None), "command_path", None) or "searchveil"
    said = _of_parameter(problem) or problem.format_message().rstrip(".")
    if not said:  # nothing was asked, and help was shown
        sys.exit(2)
    if said.startswith("No such command") and not said.endswith("?"):
        of_group = getattr(getattr(getattr(problem, "ctx", None), "command", None), "commands", {})
        said += f"; there are {', '.join(of_group)}" if of_group else ""
    _stop(f"{said}{'' if said.endswith('?') else '.'} Try '{asked} --help'.", 2)


def _of_parameter(problem: Any) -> str:
    """What is wrong with an option or argument, in our words; "" for what typer says well enough."""
    parameter = getattr(problem, "param", None)
    if parameter is None:
        return ""
    is_option = str(parameter.opts[0]).startswith("-")
    name = str(parameter.opts[0]) if is_option else str(parameter.metavar or parameter.name).strip("[].").upper()
    if type(problem).__name__ == "MissingParameter":
        about = (getattr(parameter, "help", None) or "").rstrip(".")
        return f"{name} is missing" + (f": {about}" if about else "")
    reasons = getattr(problem.__cause__, "errors", None)  # typer has values checked by pydantic
    if reasons is None:
        return ""
    reason, *_ = reasons()
    limits = reason.get("ctx", {})
    wanted = {
        "int_parsing": "a whole number",
        "float_parsing": "a number",
        "greater_than_equal": f"at least {limits.get('ge')}",
        "less_than_equal": f"at most {limits.get('le')}",
    }.get(reason["type"])
    return "" if wanted is None else f"{name} must be {wanted}, not {reason['input']}"


def _say_stopped(number: int) -> NoReturn:
    by = "the keyboard" if number == signal.SIGINT else signal.Signals(number).name
    if written:
        _stop(f"stopped by {by} after {written[-1]} was written completely", 128 + number)
    paid = any(word.split("=")[0] == "--ledger" for word in sys.argv)
    unless = "; what the ledger had already reserved stays spent (docs/ledger.md)" if paid else ""
    _stop(f"stopped by {by}; nothing was published{unless}", 128 + number)


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
    with suppress(OSError):  # a terminal that hung up
        print(f"searchveil: {printable(' '.join(message.split()))}", file=sys.stderr)
    sys.exit(code)
