"""Every text in every language, from one catalogue; what stands in records stays as it is there."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "de")  # the first is for whoever asks for none of them


SPACE = "\u202f"  # narrow, and no line ends there


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))


def catalogue() -> dict[str, dict[str, str]]:
    """The studio's own texts: name → language → text."""
    return {name: texts for name, texts in _file().items() if name not in ("declared", "ranges")}


def german() -> dict[str, str]:
    """What methods and their parameters declare, sentence by sentence."""
    return dict(_file()["declared"])


def preferred(accepted: str) -> str:
    """The language of ours that a browser's Accept-Language names first."""
    for wish in accepted.split(","):
        language = wish.partition(";")[0].strip().lower().partition("-")[0]
        if language in LANGUAGES:
            return language
    return LANGUAGES[0]


def declared(language: str, text: str) -> str:
    """A sentence that a method declares."""
    return text if language == "en" else german()[text]


def limits(language: str, text: str) -> str:
    """A parameter's range, such as "at least 1"."""
    if language == "en":
        return text
    ranges: dict[str, str] = _file()["ranges"]
    longest_first = "|".join(sorted(ranges, key=len, reverse=True))
    return grouped(language, re.sub(rf"\b({longest_first})\b", lambda found: ranges[found[1]], text))


def grouped(language: str, number: str) -> str:
    """A number as Python writes it with commas. In German a comma would begin the decimals, and a point end them."""
    return number if language == "en" else re.sub(r"(?<=\d),(?=\d{3})", SPACE, number)


def said(language: str, name: str, **values: Any) -> str:
    text: str = _file()[name][language]
    return text.format(**values) if values else text
