"""Is a release folder what it says it is? For whoever got one: nothing but the folder itself is needed."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from searchveil.errors import InputError, printable
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.card.deployment import privacy_parameters
from searchveil.publish.reading import read_folder
from searchveil.publish.release import Release

BESIDE_THE_DATA = ("README.md", "croissant.json", "deployment.yaml", "guarantee.json")
NUMBERS = ("count", "score", "draws")


@dataclass(frozen=True)
class Check:
    """One question about the folder; `problem` is empty if the answer is as it should be."""

    name: str
    problem: str = ""


@dataclass(frozen=True)
class Verification:
    folder: Path
    checks: tuple[Check, ...]
    release: Release | None = None

    @property
    def is_right(self) -> bool:
        return not any(check.problem for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        checks = {check.name: check.problem or "right" for check in self.checks}
        return {"folder": str(self.folder), "right": self.is_right, "checks": checks}

    def __str__(self) -> str:
        lines = [f"  {'wrong' if check.problem else 'right'}  {check.name}" for check in self.checks]
        problems = [f"         {check.problem}" for check in self.checks]
        told = [line for pair in zip(lines, problems, strict=True) for line in pair if line.strip()]
        return "\n".join(told)


def verify(folder: str | Path) -> Verification:
    """Checksums, record, schema, and whether the folder's two records agree. A fault does not hide those after it."""
    folder = Path(folder)
    record = _record(folder)
    checks = [Check("checksums: every file is the one that guarantee.json names", _checksums(folder, record))]
    release = None
    try:
        release = read_folder(folder)
    except InputError as problem:
        checks.append(Check("record: guarantee.json says what was published and promised", str(problem)))
    else:
        checks.append(Check("record: guarantee.json says what was published and promised"))
        checks += [
            Check("schema: the tables have the rows and columns that are told", _schema(release, folder)),
            Check("description: croissant.json names the same files", _catalogue(folder, record)),
            Check("promise: deployment.yaml says the same ε, δ and unit", _promise(folder, release.guarantee)),
        ]
    checks.append(Check("nothing else is in the folder", _strangers(folder, record)))
    return Verification(folder, tuple(checks), release)


def _record(folder: Path) -> Mapping[str, Any]:
    try:
        written = json.loads((folder / "guarantee.json").read_text(encoding="utf-8"))
        files = written["files"]
        if not isinstance(files, dict) or not all(isinstance(told, dict) for told in files.values()):
            raise TypeError
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as problem:
        raise InputError(
            f"{folder} is no release folder: it has no guarantee.json that names its files; ask for the whole folder"
        ) from problem
    return written  # type: ignore[no-any-return]


def _checksums(folder: Path, record: Mapping[str, Any]) -> str:
    told = {name: about.get("sha256") for name, about in record["files"].items()} | _documents(record)
    return "; ".join(filter(None, (_wrong_file(folder, name, sha256) for name, sha256 in told.items())))


def _documents(record: Mapping[str, Any]) -> dict[str, Any]:
    """The checksums of the files beside the tables, by file; the check of the record says if they are no such."""
    found = (record.get(kind, {}) for kind in ("documents", "proof"))
    return {name: sha256 for listed in found if isinstance(listed, dict) for name, sha256 in listed.items()}


def _wrong_file(folder: Path, name: str, sha256: Any) -> str:
    path = folder / name
    if Path(name).name != name or not path.is_file():
        return f"{printable(name)} is missing"
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return "" if found == sha256 else f"{printable(name)} was changed: its SHA-256 is {found}"


def _schema(release: Release, folder: Path) -> str:
    assert release.record is not None
    wrong = []
    for name, path in release.record.files.items():
        try:
            table = release.tables[name]
        except InputError as problem:
            wrong.append(str(problem))
            continue
        told = release.record.rows[path.name]
        if table.num_rows != told:
            wrong.append(f"{path.name} has {table.num_rows:,} rows, not {told:,}")
        wrong += [f"{path.name}: {problem}" for problem in _wrong_columns(table)]
    described = _columns_described(folder)
    for name, path in release.record.files.items():
        expected = described.get(path.name)
        if expected is not None and name in release.tables and set(expected) != set(release.tables[name].column_names):
            wrong.append(f"{path.name} has other columns than croissant.json says")
    return "; ".join(wrong)


def _wrong_columns(table: pa.Table) -> Iterator[str]:
    for column in NUMBERS:
        if column in table.column_names:
            kind = table[column].type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
                yield f"the column {column} holds no numbers"
            elif table[column].null_count:
                yield f"the column {column} lacks values"


def _described(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _columns_described(folder: Path) -> dict[str, list[str]]:
    """By file, the columns that croissant.json gives it."""
    columns: dict[str, list[str]] = {}
    try:
        for records in _described(folder).get("recordSet", []):
            for one in records["field"]:
                source = one["source"]
                columns.setdefault(source["fileObject"]["@id"], []).append(source["extract"]["column"])
    except (KeyError, TypeError, AttributeError):
        return {}
    return columns


def _catalogue(folder: Path, record: Mapping[str, Any]) -> str:
    """A folder without the description is whole: it is for catalogues."""
    if not (folder / "croissant.json").exists():
        return ""
    try:
        told = {one["@id"]: one.get("sha256") for one in _described(folder)["distribution"]}
    except (KeyError, TypeError, AttributeError):
        return "croissant.json cannot be read"
    named = {name: about.get("sha256") for name, about in record["files"].items()}
    return "" if told == named else "croissant.json names other files or checksums than guarantee.json"


def _promise(folder: Path, guarantee: Guarantee) -> str:
    """The publisher fills in other fields of deployment.yaml; these are as they were written."""
    try:
        told = yaml.safe_load((folder / "deployment.yaml").read_text(encoding="utf-8"))["deployment"]["privacy_loss"]
        unit, parameters = told["privacy_unit"], told["privacy_parameters"]
    except FileNotFoundError:
        return "deployment.yaml is missing"
    except (OSError, ValueError, RecursionError, KeyError, TypeError, yaml.YAMLError):
        return "deployment.yaml cannot be read"
    promised = privacy_parameters(guarantee)
    if (unit, parameters) == (guarantee.unit, promised):
        return ""
    return f"guarantee.json says {_loss(guarantee.unit, promised)}, but deployment.yaml {_loss(unit, parameters)}"


def _loss(unit: Any, parameters: Any) -> str:
    numbers = [f"{name} = {value}" for name, value in parameters.items()] if isinstance(parameters, dict) else []
    return printable(f"{', '.join(numbers) or 'no epsilon'} for a {unit}")


def files_of(record: Mapping[str, Any]) -> set[str]:
    """The names of all that belongs to a release, by its guarantee.json."""
    return {*BESIDE_THE_DATA, *record["files"], *_documents(record)}


def _strangers(folder: Path, record: Mapping[str, Any]) -> str:
    known = files_of(record)
    found = sorted(printable(path.name) for path in folder.iterdir() if path.name not in known)
    return f"{', '.join(found)}: guarantee.json does not name it and promises nothing about it" if found else ""
