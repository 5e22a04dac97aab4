"""The two ways searchveil says no, which the command line turns into one line and an exit code; and Ctrl-C."""


def printable(text: str) -> str:
    """Text as a terminal may be given it: names in files may hold codes that rewrite what it shows."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class SearchveilError(Exception):
    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class InputError(SearchveilError):
    """The input or a parameter is wrong; the message says what, where, and what to type instead."""


class BudgetRefused(SearchveilError):  # noqa: N818 (refusing is a normal outcome)
    """The ledger's budget does not cover the release; nothing was computed or written."""

    exit_code = 3


def was_interrupted(problem: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C: DuckDB passes it on as an error of its own, or of a function of ours in it."""
    return str(problem) == "Query interrupted" or "KeyboardInterrupt" in str(problem)
