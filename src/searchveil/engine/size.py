"""How much memory an engine may use, as people write it."""

import re

from searchveil.errors import InputError, setting

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
LEAST = 32 * 10**6  # bytes; with less no engine gets anywhere


def memory_in_bytes(text: str, parameter: str = "memory") -> int:
    """3GB, 512MB, 2GiB, 1.5TB: one meaning for every engine."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([KMGT]i?B)", text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise InputError(
            setting(parameter) + f" {text!r} is no size",
            parameter=parameter,
            value=text,
            instead="write for example " + setting(parameter, "3GB") + ", 512MB or 2GiB",
        )
    size = int(float(found[1]) * UNITS[found[2].upper()])
    if size < LEAST:
        raise InputError(
            setting(parameter, text) + " is too little to work with",
            parameter=parameter,
            value=text,
            instead=f"give at least {LEAST // 10**6}MB",
        )
    return size
