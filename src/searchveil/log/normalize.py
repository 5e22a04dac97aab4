"""When are two typed queries the same query? Case, white space and Unicode forms by default; punctuation on request."""

import unicodedata
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir


@ibis.udf.scalar.pyarrow(signature=((ibis.dtype("string"),), ibis.dtype("string")))  # type: ignore[untyped-decorator]
def nfkc(text: Any) -> Any:
    """Compatibility forms, composed: neither engine has it. Only rows outside ASCII pay for the trip through Python."""
    import pyarrow as pa

    values = text.to_pylist()
    return pa.array([None if v is None else unicodedata.normalize("NFKC", v) for v in values], pa.string())


@dataclass(frozen=True)
class Normalization:
    """Which differences between typed queries do not matter."""

    case: bool = True
    spaces: bool = True
    unicode: bool = True
    punctuation: bool = False

    def apply(self, text: ir.StringValue) -> ir.StringValue:
        if self.unicode:
            # A text of as many bytes as characters is ASCII and is its own NFKC form.
            outside_ascii = text.re_search(r"[^\x00-\x7F]")
            text = ibis.ifelse(outside_ascii, nfkc(text), text)
        if self.case:
            text = text.lower()
        if self.punctuation:
            text = text.re_replace(r"[!-/:-@\[-`{-~]", " ")
        if self.spaces or self.punctuation:
            text = text.re_replace(r"\s+", " ").strip()
        return text


AS_TYPED = Normalization(case=False, spaces=False, unicode=False)
