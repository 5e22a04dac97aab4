"""What a reader is: how it knows its format, and how it makes a table of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from searchveil.errors import InputError, setting
from searchveil.log.readers.source import Source
from searchveil.log.readers.staging import Parsed, Parser


@dataclass(frozen=True)
class Request:
    """What was asked of a reader."""

    sources: Sequence[Source]
    columns: Mapping[str, str] = field(default_factory=dict)  # our name -> the file's
    options: Mapping[str, str] = field(default_factory=dict)

    def choice(self, option: str, allowed: Sequence[str]) -> str:
        """The value of an option; the first one allowed unless told otherwise."""
        value = self.options.get(option, allowed[0])
        if value not in allowed:
            raise wrong_option(option, value, f"it is one of {', '.join(allowed)}")
        return value


def wrong_option(option: str, value: str, problem: str) -> InputError:
    """Of what the caller said about one format."""
    return InputError(setting("options", {option: value}) + f": {problem}", parameter="options", value=value)


@dataclass(frozen=True)
class Reader:
    name: str
    recognises: Callable[[bytes, str], bool]  # the first bytes of a file, unpacked, and its name
    parse: Callable[[Parser, Request], Parsed] | None  # None: the engine reads the files in place
    options: Mapping[str, str] = field(default_factory=dict)  # name -> what it does
    takes_columns: bool = False
    declared: Callable[[bytes, str], bool] = lambda head, name: False  # recognised without looking at any row
    whole_files: str | None = None  # why its files cannot be cut into lines, each read for itself
