"""What people try and cannot be read, because it does not say who searched, or hides it: each is told what is read."""

import re

from searchveil.errors import InputError
from searchveil.log.readers.source import first_lines

NOBODY = "says what was searched and not by whom, and a release protects those who searched"
INSTEAD_OF_SLOW = (
    "read recorded searches with a user.id (docs/formats.md, Elasticsearch), or the access log of the web server "
    "before the engine"
)
UNREAD = (  # the first line, what it is, what to do
    (
        re.compile(r"\[[^\]]+\]\[\w+ *\]\[(?:i\.s\.s|index\.(?:search|indexing)\.slowlog)[^\]]*\].*"),
        f"is a slow log of Elasticsearch or OpenSearch, which {NOBODY}",
        INSTEAD_OF_SLOW,
    ),
    (
        re.compile(r'\{.*"(?:elasticsearch\.slowlog\.\w+|type" *: *"index_(?:search|indexing)_slowlog)".*'),
        f"is a slow log of Elasticsearch or OpenSearch, which {NOBODY}",
        INSTEAD_OF_SLOW,
    ),
    (
        re.compile(r".* path=/\S+ params=\{.*\}.* QTime=\d+.*"),
        f"is a log of Solr, which {NOBODY}",
        "read the access log of the web server before Solr",
    ),
    (
        re.compile(r".*\bidVisit\b.*\bactionDetails\W?_?\d.*"),
        "is Matomo's table of visits, in which a search may stand in any of many columns",
        "export the visits as JSON (format=JSON) and read that",
    ),
)


def refuse_what_does_not_say_who(head: bytes, shown: str) -> None:
    line = next(iter(first_lines(head, 1)), "")
    for kind, what, instead in UNREAD:
        if kind.fullmatch(line):
            raise InputError(f"{shown}: {what}", instead=instead)
