"""What a release folder says was published and promised."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from searchveil.errors import InputError
from searchveil.lab.folder import release_record
from searchveil.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Published:
    method: str
    item: str
    date: str
    rows: Mapping[str, int]  # by file
    parameters: Mapping[str, Any]
    guarantee: Guarantee
    promise: str  # the guarantee in a sentence


def published(folder: Path) -> Published:
    record = release_record(folder)
    try:
        guarantee = _guarantee(record["guarantee"])
        return Published(
            method=record["method"],
            item=record["item"],
            date=record["date"],
            rows={name: int(file["rows"]) for name, file in record["files"].items()},
            parameters=dict(record["parameters"]),
            guarantee=guarantee,
            promise=str(guarantee),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(
            f"{folder / 'guarantee.json'} does not say what was published and promised; make the folder anew with "
            "searchveil release"
        ) from problem


def _guarantee(record: Mapping[str, Any]) -> Guarantee:
    known: dict[str, Any] = {field.name: record[field.name] for field in fields(Guarantee) if field.name in record}
    if known.get("epsilon", 0) is None:  # JSON has no infinity
        known["epsilon"] = inf
    for name, value in known.items():
        known[name] = tuple(value) if isinstance(value, list) else value
    return Guarantee(**known)
