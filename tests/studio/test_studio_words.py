"""The catalogue: every text in every language, every text used, and the same blanks in each."""

import re
from importlib.resources import files
from pathlib import Path
from string import Formatter

import pytest

from searchveil.studio.words import LANGUAGES, catalogue, preferred

PACKAGE = Path(str(files("searchveil.studio")))
NAME = re.compile(r"""["']([a-z0-9_.-]+)["'](?: if|[ ,)]| ~)""")


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("name", catalogue())
def test_every_text_is_there_in_every_language(name: str) -> None:
    texts = catalogue()[name]
    assert set(texts) == set(LANGUAGES)
    assert all(text.strip() for text in texts.values())
    one, *others = (blanks(text) for text in texts.values())
    assert all(one == other for other in others)


def asked() -> tuple[set[str], set[str]]:
    """The names that pages ask for, and the beginnings of those that they put together."""
    sources = [path.read_text("utf-8") for path in PACKAGE.rglob("*") if path.suffix in (".jinja", ".py")]
    found = {
        name
        for text in sources
        for name in re.findall(
            r"""\b(?:t\(|said\(\w+(?:\.\w+)*(?:\[[^]]*\])?(?:\.\w+)*, )f?["']([a-z0-9_.-]+)["{]?""", text
        )
    }
    either = {name for text in sources for name in re.findall(r"""t\('([a-z.]+)' if [^']+ else '([a-z.]+)'""", text)}
    found |= {name for pair in either for name in pair}
    return {name for name in found if not name.endswith(".")}, {name for name in found if name.endswith(".")}


def test_every_text_is_used_and_every_name_is_a_texts() -> None:
    names, beginnings = asked()
    texts = set(catalogue())
    assert names <= texts, names - texts
    unused = {name for name in texts - names if not any(name.startswith(one) for one in beginnings)}
    assert not unused


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("", "en"), ("de-AT,de;q=0.9,en;q=0.8", "de"), ("fr-FR,fr;q=0.9,de;q=0.5", "de"), ("fr", "en"), ("EN-gb", "en")],
)
def test_the_language_is_the_first_that_a_browser_asks_for(accepted: str, language: str) -> None:
    assert preferred(accepted) == language
