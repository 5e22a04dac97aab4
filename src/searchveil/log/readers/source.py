"""The files a log is read from: found, opened, and looked into far enough to tell their format."""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO, cast

from searchveil.errors import InputError, printable

HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Stream:
    """The unpacked bytes of a file; one that cannot be read or unpacked to its end is wrong input."""

    def __init__(self, path: str, gzipped: bool, called: str | None = None) -> None:
        self.called = called or path
        with self._refusing():
            opened = gzip.open(path) if gzipped else open(path, "rb", buffering=0)  # noqa: SIM115 (closed below)
            self._file = cast(BinaryIO, opened)

    def read(self, size: int) -> bytes:
        with self._refusing():
            return self._file.read(size)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, zlib.error) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise InputError(f"{self.called}: cannot be read to its end ({reason})") from problem

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


@dataclass(frozen=True)
class Source:
    path: str
    head: bytes = b""  # the first bytes, unpacked; none for a path only the engine can open
    gzipped: bool = False
    shown: str = ""  # how messages call it: its name, or its path where two files have that name
    position: int = 0  # among the files given

    @property
    def name(self) -> str:
        return Path(self.path).name

    def open(self) -> Stream:
        return Stream(self.path, self.gzipped)

    def first_lines(self, most: int = 20) -> list[str]:
        return first_lines(self.head, most)


def first_lines(head: bytes, most: int = 20) -> list[str]:
    """The first whole lines that are not empty, as text; what is not UTF-8 is replaced."""
    text = head.removeprefix(BYTE_ORDER_MARK)
    whole = text[: text.rfind(b"\n")] if len(head) >= HEAD_BYTES else text
    lines = (line.removesuffix(b"\r").decode(errors="replace") for line in whole.split(b"\n"))
    return [line for line in lines if line][:most]


def mostly(row: re.Pattern[str], lines: Sequence[str]) -> bool:
    """Whether at least half of the lines are such rows: the first ones may be bad."""
    fitting = sum(row.fullmatch(line) is not None for line in lines)
    return fitting > 0 and 2 * fitting >= len(lines)


def named_paths(paths: str | Path | Sequence[str | Path]) -> list[str]:
    asked = [paths] if isinstance(paths, str | Path) else list(paths)
    if not asked or "" in map(str, asked):  # an unset variable of the shell, which would mean the current folder
        raise InputError("no log was named; give at least one file")
    return [str(path) for path in asked]


def find_sources(
    paths: str | Path | Sequence[str | Path], called: Mapping[str, str] = MappingProxyType({})
) -> list[Source]:
    """Every file meant by these paths and globs, in the order given, each once; `called` names copies."""
    found: dict[str, Source] = {}
    for path in named_paths(paths):
        for file in expand(path):
            found.setdefault(file, _look_into(file, called.get(file)))
    names = Counter(source.name for source in found.values())
    return [
        replace(source, position=i, shown=printable(source.name if names[source.name] == 1 else source.path))
        for i, source in enumerate(found.values())
    ]


def expand(path: str) -> list[str]:
    if _only_the_engine_can_open(path) or Path(path).exists():
        return [path]
    if not has_magic(path):
        raise InputError(f"{path}: no such file")
    matches = sorted(match for match in glob(path, recursive=True) if Path(match).is_file())
    if not matches:
        raise InputError(f"{path}: no file matches")
    return matches


def _only_the_engine_can_open(path: str) -> bool:
    return "://" in path or Path(path).is_dir()


def _look_into(path: str, called: str | None) -> Source:
    if _only_the_engine_can_open(path):
        return Source(path)
    if not Path(path).is_file():  # it is read more than once
        raise InputError(f"{path}: is a pipe or a device; write it to a file first")
    with Stream(path, gzipped=False, called=called) as file:
        gzipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    with Stream(path, gzipped, called) as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        if called is not None:
            raise InputError(f"{called}: is UTF-16; unpack it first, and type: iconv -f UTF-16 -t UTF-8")
        raise InputError(f"{path}: is UTF-16; type: iconv -f UTF-16 -t UTF-8 {path} > {path}.utf8")
    return Source(path, head, gzipped)
