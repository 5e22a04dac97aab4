"""What a release folder says was published and promised."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from searchveil.errors import InputError
from searchveil.privacy.guarantee import Guarantee
from searchveil.release_folder import release_record


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
        guarantee = Guarantee.from_json(record["guarantee"])
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
