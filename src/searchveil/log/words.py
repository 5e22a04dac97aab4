"""What are the words of a query? What stands between spaces and, in scripts that use none, what a dictionary finds.

Chinese, Japanese, Thai, Lao, Khmer and Burmese are cut by ICU (Unicode Standard Annex 29 with ICU's dictionaries). Each
part between spaces is cut by itself, so a part in Latin letters is a word as it stands, whatever stands beside it.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import ibis
import ibis.expr.types as ir

from searchveil.log.normalize import Normalization

# The scripts for which ICU has dictionaries, as first and last characters; full stops and marks among them do no harm.
_SCRIPTS = (
    ("\u0e01", "\u0eff"),  # Thai, Lao
    ("\u1000", "\u109f"),  # Burmese
    ("\u1780", "\u17ff"),  # Khmer
    ("\u3005", "\u3007"),  # the sign that repeats a Chinese character, and zero
    ("\u3040", "\u30ff"),  # Hiragana, Katakana
    ("\u31f0", "\u31ff"),
    ("\u3400", "\u4dbf"),  # Chinese characters
    ("\u4e00", "\u9fff"),
    ("\ua9e0", "\ua9ff"),  # Burmese
    ("\uaa60", "\uaa7f"),
    ("\uf900", "\ufaff"),  # Chinese characters
    ("\uff66", "\uff9f"),  # Katakana of half width
    ("\U00020000", "\U0003ffff"),  # Chinese characters
)
# The same in the regular expressions of every engine.
WITHOUT_SPACES = "[" + "".join(f"{first}-{last}" for first, last in _SCRIPTS) + "]"


def words(text: ir.StringValue, normalization: Normalization | None = None) -> ir.ArrayValue:
    """The words of a normal form inside the engine, perhaps with blank ones: a few texts take the trip through Python.

    Of a normal form it may be known that single spaces separate words: a regular expression takes three times as long.
    """
    single = normalization is not None and normalization.single_spaces
    spaced = text.split(" ") if single else text.re_split(r"\s+")
    return ibis.ifelse(text.re_search(WITHOUT_SPACES), _in_engine()(text), spaced)


def words_of_text(text: str) -> list[str]:
    """The same for one text.

    >>> words_of_text("c++ book")
    ['c++', 'book']
    >>> words_of_text("iphone 東京の天気")
    ['iphone', '東京', 'の', '天気']
    """
    return _cutter()(text)


def joined(parts: Iterable[str]) -> str:
    """A text of these words, as it is written.

    >>> joined(["cheap", "flights"]), joined(["東京", "の", "天気"])
    ('cheap flights', '東京の天気')
    """
    return re.sub(f"(?<={WITHOUT_SPACES}) (?={WITHOUT_SPACES})", "", " ".join(parts))


def joined_texts(spaced: Any) -> Any:
    """The same for many texts of spaced words, as an Arrow array."""
    import pyarrow.compute as pc

    between = f"({WITHOUT_SPACES}) ({WITHOUT_SPACES})"
    for _ in range(2):  # a word of one character is on the right of one space and on the left of the next
        spaced = pc.replace_substring_regex(spaced, pattern=between, replacement=r"\1\2")
    return spaced


def segmentation() -> str:
    """By what words are cut: another version may cut otherwise, so records name it."""
    import icu4py

    return f"ICU {icu4py.icu_version}"


@cache
def _cutter() -> Callable[[str], list[str]]:
    """Carries all it needs, so that it can travel to a worker where searchveil is not installed."""
    pattern = WITHOUT_SPACES

    def cut(text: str) -> list[str]:
        found: list[str] = []
        for part in text.split():
            if re.search(pattern, part) is None:
                found.append(part)
                continue
            from icu4py.breakers import WordBreaker

            # A word has a letter or a digit; what is between words is marks.
            found += [piece for piece in WordBreaker(part, "und") if any(map(str.isalnum, piece))]
        return found

    return cut


@cache
def _in_engine() -> Any:
    cut = _cutter()

    def words_of_texts(texts: Any) -> Any:
        import pyarrow

        if not hasattr(texts, "to_pylist"):  # DuckDB hands over an array, Spark one text at a time
            return cut(texts) if isinstance(texts, str) else None
        found = [None if text is None else cut(text) for text in texts.to_pylist()]
        return pyarrow.array(found, pyarrow.list_(pyarrow.string()))

    signature = ((ibis.dtype("string"),), ibis.dtype("array<string>"))
    return ibis.udf.scalar.pyarrow(words_of_texts, name="words_of_texts", signature=signature)
