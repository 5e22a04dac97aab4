"""Lines that are JSON objects, and the texts found in them."""

import json
from collections.abc import Sequence
from typing import Any

from searchveil.engine.sql import literal
from searchveil.log.readers.staging import Layout

MALFORMED = {
    "malformed JSON": "case when coalesce(json_valid(line), false) then json_type(line) <> 'OBJECT' else true end"
}


def json_lines(paths: Sequence[str]) -> Layout:
    """Every line one object; `found` holds the texts at these paths, the object being parsed once."""
    found = f"case when json_valid(line) then json_extract_string(line, [{', '.join(map(literal, paths))}]) end"
    # JSON holds no raw control character: with one as delimiter, every line is one column.
    return Layout({"line": "VARCHAR"}, delimiter="\x01", derived={"found": found})


def path_of(*keys: str) -> str:
    """A JSON pointer: in DuckDB's other paths, a key may not be empty, nor be a star."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def first_objects(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Those of the first lines that are objects."""
    objects = []
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply for Python
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects
