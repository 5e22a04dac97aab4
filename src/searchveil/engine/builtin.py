"""Functions that an engine has and ibis does not know, for any number of values."""

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

import ibis
import ibis.expr.datatypes as dt


@cache
def builtin(name: str, values: int, returns: dt.DataType) -> Callable[..., Any]:
    """The engine's function of this name, called with so many values of any type.

    It is the same object at every call, so that two expressions that use it can be the same too.
    """

    def call(*given: Any) -> None: ...

    parameters = [Parameter(f"value_{i}", Parameter.POSITIONAL_OR_KEYWORD) for i in range(values)]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    made: Callable[..., Any] = ibis.udf.scalar.builtin(call, name=name, signature=((None,) * values, returns))
    return made
