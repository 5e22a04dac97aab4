"""The catalogue: every text in every language, every text used, and the same blanks in each."""

import re
from importlib.resources import files
from pathlib import Path
from string import Formatter

import pytest

from searchveil.publish import METHODS, method_named
from searchveil.publish.described import described
from searchveil.publish.parameters import parameters_of
from searchveil.studio.words import LANGUAGES, catalogue, german, limits, preferred

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


def test_what_methods_declare_is_there_in_german() -> None:
    """And nothing else: a sentence that was changed in the code is changed here."""
    sentences = {text for one in described() for text in (one.summary, one.promise)}
    sentences |= {one.declared.help for name in METHODS for one in parameters_of(method_named(name))}
    assert set(german()) == sentences
    assert all(text.strip() and text != sentence for sentence, text in german().items())


@pytest.mark.parametrize(("english", "text"), [
    ("from 1 to 4,194,304", "von 1 bis 4\u202f194\u202f304"),
    ("above 0 and below 1", "über 0 und unter 1"),
    ("at least 0, in seconds", "mindestens 0, in Sekunden"),
    ("above 0 and at most 100", "über 0 und höchstens 100"),
])  # fmt: skip
def test_ranges_are_said_in_german(english: str, text: str) -> None:
    assert limits("de", english) == text
    assert limits("en", english) == english


def test_no_word_of_a_range_stays_english() -> None:
    ranges = {one.limits for name in METHODS for one in parameters_of(method_named(name))}
    assert not re.findall(
        r"\b(?:from|to|above|below|at|least|most|and|minutes|seconds)\b", limits("de", " ".join(ranges))
    )


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("", "en"), ("de-AT,de;q=0.9,en;q=0.8", "de"), ("fr-FR,fr;q=0.9,de;q=0.5", "de"), ("fr", "en"), ("EN-gb", "en")],
)
def test_the_language_is_the_first_that_a_browser_asks_for(accepted: str, language: str) -> None:
    assert preferred(accepted) == language
