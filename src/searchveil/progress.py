"""How long work tells what it is doing: one line for each step."""

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(step: str) -> None:
    """The progress of a caller who does not want to hear about it."""
