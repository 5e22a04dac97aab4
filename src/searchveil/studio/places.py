"""Which files the page may name: those of the folder that the studio was started in, and what its command named."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from searchveil.errors import InputError, printable
from searchveil.privacy.ledger_file import APPLICATION_ID

MOST_LISTED = 1000
NO_LOG = (".html", ".ipynb", ".md", ".pdf", ".png", ".py", ".sqlite", ".toml", ".yaml")


@dataclass(frozen=True)
class Listed:
    name: str  # relative to the start folder
    is_folder: bool
    size: int


@dataclass(frozen=True)
class Places:
    """`named` are paths from the command line, which may lie elsewhere."""

    root: Path
    named: frozenset[Path]

    @classmethod
    def of(cls, root: Path, named: Iterable[str]) -> "Places":
        return cls(root.resolve(), frozenset((root / path).resolve() for path in named))

    @property
    def shown(self) -> str:
        """The start folder's name, for pages."""
        return printable(self.root.name) or "/"

    def path(self, text: str, parameter: str) -> Path:
        """The path that a form names, whether there is something or not; links are followed before it is judged."""
        shown = printable(text)
        try:
            resolved = (self.root / text).resolve()
            resolved.exists()  # which a name that is too long does not survive either
        except (OSError, ValueError, RuntimeError):
            raise InputError(f"'{shown[:80]}' is no name of a file", parameter=parameter) from None
        if resolved in self.named:
            return resolved
        if not text or not resolved.is_relative_to(self.root) or resolved == self.root:
            said = f"'{shown}' is outside the folder {self.shown}" if text else "no file was named"
            raise InputError(said, parameter=parameter, value=text, instead="choose a file of that folder")
        if any(part.startswith(".") for part in (*resolved.relative_to(self.root).parts, *Path(text).parts)):
            raise InputError(f"'{shown}' is hidden", parameter=parameter, value=text, instead="choose another name")
        return resolved

    def file(self, text: str, parameter: str) -> Path:
        path = self.path(text, parameter)
        if not path.is_file():
            said = f"there is no file '{printable(text)}'"
            raise InputError(said, parameter=parameter, value=text, instead="choose one of the list")
        return path

    def folder(self, text: str) -> Path:
        """A folder to list; the start folder has no name."""
        path = self.path(text, "folder") if text else self.root
        if not path.is_dir():
            raise InputError(f"there is no folder '{printable(text)}'", parameter="folder", value=text)
        return path

    def name(self, path: Path) -> str:
        """As a form and a command have it."""
        if not path.is_relative_to(self.root):
            return str(path)
        name = str(path.relative_to(self.root))
        return f"./{name}" if name.startswith("-") else name

    def listed(self, folder: str) -> list[Listed]:
        """What may be a log or leads to one: folders first; nothing hidden, nothing that a link leads outside to."""
        found = []
        for path in _in(self.folder(folder)):
            try:
                resolved = self.path(self.name(path), "log")
                if resolved.is_dir() or (resolved.is_file() and not path.name.endswith(NO_LOG)):
                    found.append(Listed(self.name(path), resolved.is_dir(), resolved.stat().st_size))
            except (InputError, OSError):
                continue
        return sorted(found, key=lambda one: not one.is_folder)[:MOST_LISTED]

    def ledgers(self) -> list[str]:
        """Ledgers of the start folder, by what is in them, and those that the command named."""
        near = [path for path in _in(self.root) if not path.name.startswith(".")]
        names = [self.name(path) for path in [*sorted(self.named), *near] if is_ledger(path)]
        return list(dict.fromkeys(names))


def _in(folder: Path) -> list[Path]:
    """What lies in a folder, except names that are no text: no page can show them and no form can send them."""
    try:
        return sorted(path for path in folder.iterdir() if printable(path.name) == path.name)
    except OSError as problem:
        raise InputError(f"the folder {folder.name} cannot be read: {problem.strerror}", parameter="folder") from None


def is_ledger(path: Path) -> bool:
    """By the mark in the header of SQLite's files. A pipe or a device is not opened: it might never answer."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION_ID.to_bytes(4, "big")
