"""How is it published? One file per mechanism; every one returns a Release."""

from importlib import import_module
from typing import TYPE_CHECKING, cast

from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.publish.mechanism import Mechanism

METHODS = {
    "weighted": "searchveil.publish.weighted:Weighted",
    "zealous": "searchveil.publish.zealous:Zealous",
    "korolova": "searchveil.publish.korolova:Korolova",
    "safelog-click": "searchveil.publish.safelog_click:SafeLogClick",
    "safelog-session": "searchveil.publish.safelog_session:SafeLogSession",
    "sampling": "searchveil.publish.sampling:Sampling",
    "k-query": "searchveil.publish.k_query:KQuery",
    "k-session": "searchveil.publish.k_session:KSession",
    "k-keyword": "searchveil.publish.k_keyword:KKeyword",
}


def method_named(name: str) -> "type[Mechanism]":
    if name not in METHODS:
        raise InputError(f"no method '{name}'; there are {', '.join(METHODS)}")
    module, _, class_name = METHODS[name].partition(":")
    return cast("type[Mechanism]", getattr(import_module(module), class_name))
