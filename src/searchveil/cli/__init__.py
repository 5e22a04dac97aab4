"""How do people ask? Thin: parses, calls, prints; no logic."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The command `searchveil`: exit 0 done, 2 the input or a parameter is wrong, 3 the budget refuses."""
    from searchveil.cli.app import app
    from searchveil.errors import SearchveilError

    try:
        sys.exit(app(standalone_mode=False) or 0)
    except SearchveilError as refusal:
        _stop(str(refusal), refusal.exit_code)
    except KeyboardInterrupt:
        _stop("stopped by the keyboard; nothing was published", 130)
    except BrokenPipeError:
        # Whoever reads our output has gone (`… | head`): not an error of ours, and nothing more can be said there.
        sys.stderr.close()
        sys.exit(1)
    except OSError as problem:
        _stop(f"{problem.filename or 'the system'}: {problem.strerror or problem}", 2)
    except Exception as problem:
        if hasattr(problem, "format_message"):  # the command line itself is wrong
            _stop(f"{problem.format_message()} Try 'searchveil --help'.", 2)
        if type(problem).__module__.split(".")[0] not in ("duckdb", "_duckdb"):
            raise
        _stop(f"the engine gave up: {str(problem).splitlines()[0]}", 2)


def _stop(message: str, code: int) -> NoReturn:
    print(f"searchveil: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
