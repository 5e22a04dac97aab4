"""Reading a release folder back: its record, and its data files if they are the ones that were written."""

import hashlib
import json
from pathlib import Path
from typing import Any

from searchveil.errors import InputError


def release_record(folder: str | Path) -> dict[str, Any]:
    """The record of a release folder: its method, item, parameters, guarantee and files."""
    path = Path(folder) / "guarantee.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(
            f"{folder} is no release folder: it has no readable guarantee.json; make one with searchveil release"
        ) from problem
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict) or not record["files"]:
        raise InputError(f"{path} does not name the files of a release; make the folder anew with searchveil release")
    return record


def release_files(folder: str | Path) -> list[Path]:
    """The data files, the main one first, each with the SHA-256 that the record names."""
    return [_checked(Path(folder), name, told) for name, told in release_record(folder)["files"].items()]


def _checked(folder: Path, name: str, told: Any) -> Path:
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise InputError(f"{path} is missing, which guarantee.json beside it names")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not isinstance(told, dict) or told.get("sha256") != found:
        raise InputError(
            f"{path} is not the file that was released: its SHA-256 is not that in guarantee.json; use the folder as "
            "it was written, or make it anew with searchveil release"
        )
    return path
