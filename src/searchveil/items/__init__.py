"""What may be published? Kinds of items, each a (user, item) table read off a log."""

from searchveil.errors import InputError
from searchveil.items.click import CLICK
from searchveil.items.item import Derivation, Item, Search
from searchveil.items.keyword import KEYWORD
from searchveil.items.pair import PAIR
from searchveil.items.query import QUERY
from searchveil.items.url import URL

ITEMS = {item.name: item for item in (QUERY, KEYWORD, CLICK, URL, PAIR)}  # also the order in reports


def item_named(name: str | Item) -> Item:
    if isinstance(name, Item):
        return name
    if name not in ITEMS:
        raise InputError(f"no item '{name}'; there are {', '.join(ITEMS)}")
    return ITEMS[name]


__all__ = [
    "CLICK",
    "ITEMS",
    "KEYWORD",
    "PAIR",
    "QUERY",
    "URL",
    "Derivation",
    "Item",
    "Search",
    "item_named",
]
