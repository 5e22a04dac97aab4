"""The two ways searchveil says no. The command line turns each into one line and an exit code."""


class SearchveilError(Exception):
    exit_code = 2


class InputError(SearchveilError):
    """The input or a parameter is wrong; the message says what, where, and what to type instead."""


class BudgetRefused(SearchveilError):  # noqa: N818 (refusing is a normal outcome)
    """The ledger's budget does not cover the release; nothing was computed or written."""

    exit_code = 3
