"""The studio's own texts in every language, from one catalogue; what stands in records stays as it is there."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "de")  # the first is for whoever asks for none of them


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """Name → language → text."""
    return tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))


def preferred(accepted: str) -> str:
    """The language of ours that a browser's Accept-Language names first."""
    for wish in accepted.split(","):
        language = wish.partition(";")[0].strip().lower().partition("-")[0]
        if language in LANGUAGES:
            return language
    return LANGUAGES[0]


def said(language: str, name: str, **values: Any) -> str:
    text = catalogue()[name][language]
    return text.format(**values) if values else text
