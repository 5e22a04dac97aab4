"""When are two typed queries the same query? Case, white space and Unicode forms by default; punctuation on request."""

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import cache
from typing import Any

import ibis
import ibis.expr.types as ir

from searchveil.errors import InputError

# Printable ASCII words with single spaces between them: such a text needs no more than lower case. The patterns find
# the other texts, and mean the same in the regular expressions of every engine.
NOT_PLAIN = r"[^ -~]|  |^ | $"
NOT_PLAIN_OR_PUNCTUATED = r"[^ 0-9A-Za-z]|  |^ | $"
NOT_PLAIN_LOWER_CASE = r"[^ -@\[-~]|  |^ | $"
NOT_PLAIN_LOWER_CASE_OR_PUNCTUATED = r"[^ 0-9a-z]|  |^ | $"


@dataclass(frozen=True)
class Normalization:
    """Which differences between typed queries do not matter.

    >>> sv.Normalization().apply_to_text("  New   YORK ")
    'new york'
    """

    case: bool = True
    spaces: bool = True
    unicode: bool = True
    punctuation: bool = False

    @classmethod
    def of_words(cls, text: str) -> "Normalization":
        """As an option or a run file says it.

        >>> sv.Normalization.of_words("case,punctuation")
        Normalization(case=True, spaces=False, unicode=False, punctuation=True)
        """
        known = [field.name for field in fields(cls)]
        chosen = [] if text == "none" else text.split(",")
        for name in chosen:
            if name not in known:
                raise InputError(
                    f"there is no '{name}' to normalize; write any of {','.join(known)}, or none",
                    parameter="normalize",
                    value=text,
                )
        return cls(**{name: name in chosen for name in known})

    @property
    def words(self) -> str:
        return ",".join(field.name for field in fields(self) if getattr(self, field.name)) or "none"

    def apply_to_text(self, text: str) -> str:
        return _normalizer(*astuple(self))(text)

    def apply(self, text: ir.StringValue) -> ir.StringValue:
        """The same inside the engine: nearly every query is plain, and only the others take the trip through Python.

        What lower case, white space and Unicode forms are differs from engine to engine; in Python it does not.
        """
        if not any(astuple(self)):
            return text
        return ibis.ifelse(text.re_search(self.not_plain), _in_engine(*astuple(self))(text), self.apply_to_plain(text))

    def leaves(self, text: ir.StringValue) -> ir.BooleanValue:
        """Whether the text surely is its own normal form: of nearly all that are, the engine can tell by itself."""
        if not any(astuple(self)):
            return ibis.literal(True)
        if not self.case:
            return ~text.re_search(self.not_plain)
        return ~text.re_search(NOT_PLAIN_LOWER_CASE_OR_PUNCTUATED if self.punctuation else NOT_PLAIN_LOWER_CASE)

    @property
    def not_plain(self) -> str:
        """Finds the texts whose normal form takes more than lower case."""
        return NOT_PLAIN_OR_PUNCTUATED if self.punctuation else NOT_PLAIN

    def apply_to_plain(self, text: ir.StringValue) -> ir.StringValue:
        return text.lower() if self.case else text

    @property
    def single_spaces(self) -> bool:
        """Whether nothing but single spaces separates the words of a normal form."""
        return self.spaces or self.punctuation


@cache
def _normalizer(case: bool, spaces: bool, unicode: bool, punctuation: bool) -> Callable[[str], str]:
    """Carries all it needs, so that it can travel to a worker where searchveil is not installed."""
    import string
    from unicodedata import normalize

    to_space = str.maketrans(dict.fromkeys(string.punctuation, " "))

    def normal_form(text: str) -> str:
        if unicode:
            text = normalize("NFKC", text)
        if case:
            text = text.lower()
        if case and unicode:  # lower case may leave parts that compose
            text = normalize("NFKC", text)
        if punctuation:
            text = text.translate(to_space)
        if spaces or punctuation:
            text = " ".join(text.split())
        return text

    return normal_form


@cache
def _in_engine(case: bool, spaces: bool, unicode: bool, punctuation: bool) -> Any:
    normal_form = _normalizer(case, spaces, unicode, punctuation)

    def normal_forms(texts: Any) -> Any:
        import pyarrow

        if not hasattr(
            texts, "to_pylist"
        ):  # DuckDB hands over an array, Spark one text at a time, NaN for a missing one
            return normal_form(texts) if isinstance(texts, str) else None
        forms = [None if text is None else normal_form(text) for text in texts.to_pylist()]
        return pyarrow.array(forms, pyarrow.string())

    name = f"normal_form_{case:d}{spaces:d}{unicode:d}{punctuation:d}"
    return ibis.udf.scalar.pyarrow(normal_forms, name=name, signature=((ibis.dtype("string"),), ibis.dtype("string")))


USUAL = Normalization()
AS_TYPED = Normalization(case=False, spaces=False, unicode=False)
