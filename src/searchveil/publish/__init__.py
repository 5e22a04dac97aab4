"""How is it published? One file per mechanism; every one returns a Release."""

import ast
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

from searchveil.errors import InputError, setting, settings

if TYPE_CHECKING:
    from searchveil.publish.mechanism import Mechanism

METHODS = {
    "weighted": "searchveil.publish.weighted:Weighted",
    "votes": "searchveil.publish.votes:Votes",
    "synthetic": "searchveil.publish.synthetic.mechanism:Synthetic",
    "zealous": "searchveil.publish.zealous:Zealous",
    "korolova": "searchveil.publish.korolova:Korolova",
    "safelog-click": "searchveil.publish.safelog_click:SafeLogClick",
    "safelog-session": "searchveil.publish.safelog_session:SafeLogSession",
    "sampling": "searchveil.publish.sampling:Sampling",
    "k-query": "searchveil.publish.k_query:KQuery",
    "k-session": "searchveil.publish.k_session:KSession",
    "k-keyword": "searchveil.publish.k_keyword:KKeyword",
}


DEFAULT_METHOD = "weighted"


def method_named(name: str) -> "type[Mechanism]":
    if name not in METHODS:
        raise InputError(f"no method '{name}'; there are {', '.join(METHODS)}", parameter="method", value=name)
    return cast("type[Mechanism]", resolve_name(METHODS[name]))


def build(name: str, given: Mapping[str, Any]) -> "Mechanism":
    """The mechanism of this name. What is given are values, or texts as the command line, a form or a file has them."""
    from searchveil.publish.parameters import parameters_of

    mechanism = method_named(name)
    known = {one.name: one for one in parameters_of(mechanism)}
    for parameter in given:
        if parameter not in known:
            raise no_such_parameter(name, parameter)
    for one in known.values():
        if one.required and one.name not in given:
            instead = "try " + settings(mechanism.example)
            raise InputError(f"{name} needs " + setting(one.name), parameter=one.name, instead=instead)
    return mechanism(**{parameter: known[parameter].value(value) for parameter, value in given.items()})


def no_such_parameter(name: str, parameter: str, others: "list[str] | None" = None) -> InputError:
    """`others` are the methods that have it; they are looked for if not given."""
    from searchveil.publish.parameters import parameters_of

    def names(method: str) -> list[str]:
        return [one.name for one in parameters_of(method_named(method))]

    others = [method for method in METHODS if parameter in names(method)] if others is None else others
    instead = f"methods that have it: {', '.join(others)}" if others else f"it has {', '.join(names(name))}"
    return InputError(f"{name} has no " + setting(parameter), parameter=parameter, instead=instead)


def method(text: str) -> "Mechanism":
    """The mechanism whose text form this is, as in `zealous(epsilon=1, delta=1e-06)`.

    >>> sv.method("zealous(epsilon=1, delta=1e-06)").per_user
    5
    """
    name, opened, _ = text.strip().partition("(")
    try:
        call = ast.parse(text.strip().replace(name, "_", 1) if opened else "_()", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(one.arg is None for one in call.keywords):
            raise ValueError
        given = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError):
        raise InputError(
            f"'{text}' is not the text of a method; write for example zealous(epsilon=1, delta=1e-6)"
        ) from None
    return build(name.strip(), given)
