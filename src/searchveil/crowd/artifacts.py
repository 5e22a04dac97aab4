"""What a job takes out of a person's own log: queries, reformulations, query-url pairs, features for ranking."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from string import ascii_uppercase
from typing import TYPE_CHECKING, NamedTuple

from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.log.normalize import Normalization

BETWEEN = "\t"  # the fields of an artifact; a normal form never holds it
WITHIN_MINUTES = 30  # between a query and its reformulation: all clients agree on it, whatever a session is
LONGEST = 254  # bytes of an artifact in UTF-8: reports have a constant size


class Search(NamedTuple):
    """A row of one's own log. Rows of one submission with several clicks share query and time."""

    query: str
    time: float | None = None
    url: str | None = None
    rank: int | None = None


class Artifact(NamedTuple):
    """One instance: the primary field, in normal form, and the secondary one, as it was typed."""

    text: str
    typed: str


@dataclass(frozen=True)
class Kind:
    """A kind of artifact: its columns in a release, and how it is taken out of a log."""

    name: str
    columns: tuple[str, ...]
    extract: Callable[[Sequence[Search], bool], Iterator[Artifact]]
    words: str  # what leaves the machine
    queries: int = 1  # so many of the columns, the first ones, are queries

    def holds(self, text: str) -> bool:
        """Whether an honest client can have sent it: as many fields as columns, each of words with single spaces."""
        fields = text.split(BETWEEN)
        return len(fields) == len(self.columns) and all(one and one == " ".join(one.split()) for one in fields)

    def spells(self, typed: str, text: str) -> bool:
        """Whether somebody who typed this has the artifact `text`."""
        return [normal(one) for one in typed.split(BETWEEN, self.queries - 1)] == text.split(BETWEEN)[: self.queries]


@cache
def _normalization() -> "Normalization":
    """Relays and servers that open nothing do without it: the engines that come with it take half their start."""
    from searchveil.log.normalize import Normalization

    return Normalization()


def normal(query: str) -> str:
    return _normalization().apply_to_text(query)


def _submissions(searches: Sequence[Search]) -> Iterator[Search]:
    """A search with several clicks is one; rows of unknown time count once a query."""
    seen: set[tuple[str, float | None]] = set()
    for search in searches:
        if (search.query, search.time) not in seen:
            seen.add((search.query, search.time))
            yield search


def _queries(searches: Sequence[Search], domains: bool) -> Iterator[Artifact]:
    for search in _submissions(searches):
        yield Artifact(normal(search.query), search.query)


def _reformulations(searches: Sequence[Search], domains: bool) -> Iterator[Artifact]:
    timed = sorted((one for one in searches if one.time is not None), key=lambda one: (one.time, normal(one.query)))
    for one, other in pairwise(timed):
        assert one.time is not None
        assert other.time is not None
        first, then = normal(one.query), normal(other.query)
        if first != then and other.time - one.time <= 60 * WITHIN_MINUTES and first and then:
            yield Artifact(first + BETWEEN + then, one.query.replace(BETWEEN, " ") + BETWEEN + other.query)


_DOMAIN = re.compile(r"(?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^:/?#]*)")
_LOWER = {ord(one): one.lower() for one in ascii_uppercase}


def domain(url: str) -> str:
    """The host that an address names, without user, password and port. Every text has one; it may be empty."""
    found = _DOMAIN.match(url)
    return found[1].translate(_LOWER) if found else ""


def _clicks(searches: Sequence[Search], domains: bool) -> Iterator[tuple[str, str, Search]]:
    for search in searches:
        if search.url:
            query, url = normal(search.query), " ".join(search.url.split())
            url = domain(url) if domains else url
            if query and url:
                yield query, url, search


def _query_urls(searches: Sequence[Search], domains: bool) -> Iterator[Artifact]:
    for query, url, search in _clicks(searches, domains):
        yield Artifact(query + BETWEEN + url, search.query)


def _features(searches: Sequence[Search], domains: bool) -> Iterator[Artifact]:
    """One artifact per query, url and feature: the place of the result, and how often this user clicked it."""
    clicked = list(_clicks(searches, domains))
    times: dict[tuple[str, str], int] = {}
    for query, url, _ in clicked:
        times[query, url] = times.get((query, url), 0) + 1
    for query, url, search in clicked:
        if search.rank is not None:
            place = _bucket(search.rank, {1: "1", 3: "2-3", 10: "4-10"}, "11+")
            yield Artifact(BETWEEN.join((query, url, "rank", place)), search.query)
    for (query, url), number in times.items():
        yield Artifact(BETWEEN.join((query, url, "clicks", _bucket(number, {1: "1", 4: "2-4"}, "5+"))), query)


def _bucket(value: int, ends: Mapping[int, str], beyond: str) -> str:
    return next((name for end, name in ends.items() if value <= end), beyond)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("query", ("query",), _queries, "the queries that you typed"),
        Kind(
            "reformulation",
            ("query", "next"),
            _reformulations,
            f"pairs of different queries that you typed one after the other within {WITHIN_MINUTES} minutes",
            queries=2,
        ),
        Kind("query-url", ("query", "url"), _query_urls, "your queries, each with an address that you clicked"),
        Kind(
            "ltr",
            ("query", "url", "feature", "value"),
            _features,
            "your queries, each with an address that you clicked, its place among the results or how often you "
            "clicked it, both in coarse steps",
        ),
    )
}


def kind_named(name: str) -> Kind:
    if name not in KINDS:
        raise InputError(f"no artifact '{name}'; there are {', '.join(KINDS)}", parameter="artifact", value=name)
    return KINDS[name]


def fits(artifact: Artifact) -> bool:
    """Whether it can be sent: neither blank nor longer than a report has room for."""
    return bool(artifact.text) and len(artifact.text.encode()) <= LONGEST


def distinct(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """Each primary text once, as it was first typed."""
    first: dict[str, Artifact] = {}
    for artifact in artifacts:
        first.setdefault(artifact.text, artifact)
    return list(first.values())
