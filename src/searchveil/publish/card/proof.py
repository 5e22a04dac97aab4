"""PROOF.md: the proof of a release's promise, for whoever has the folder and not the source of searchveil."""

import re
from importlib.metadata import version
from importlib.resources import files
from posixpath import join, normpath

FILE = "PROOF.md"
SHARED = "docs/guarantees.md"  # what all proofs build on; before its first section it is a list of them
FIRST_SECTION = "## Setting"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,5}) +(.*?) *$", re.MULTILINE)


def proof_text(address: str) -> str | None:
    """The page at an address such as docs/guarantees/zealous.md#approximate, with all that it builds on.

    None if the page is not among those that come with the package: somebody's own method proves its promise elsewhere.
    """
    page, _, anchor = address.partition("#")
    if _page(page) is None:
        return None
    pages = [*_with_linked(page), SHARED]
    titles = {_anchor(title): title for _, title in HEADING.findall(_page(page) or "")}
    section = titles.get(anchor)
    opening = (
        f"# Proof of the promise\n\nThis is `{page}` of searchveil {version('searchveil')}"
        + (f", of which the section “{section}” is about this release" if section else "")
        + ", and what it builds on, as it was when the release was made. Files that it names (`publish/…`, `tests/…`, "
        "`docs/…`) are in the source of that version.\n"
    )
    return "\n".join([opening, *(_embedded(each, pages) for each in pages)])


def _page(name: str) -> str | None:
    path = files(__package__).joinpath("proofs", *name.removeprefix("docs/").split("/"))
    return path.read_text("utf-8") if name.startswith("docs/") and path.is_file() else None


def _with_linked(page: str) -> list[str]:
    """The page, and the proofs that it leads to."""
    found = [page]
    for each in found:  # grows on the way
        linked = (_resolved(target, each) for _, target in LINK.findall(_page(each) or ""))
        found += [one for one in dict.fromkeys(linked) if one.startswith("docs/guarantees/") and one not in found]
    return found


def _resolved(target: str, page: str) -> str:
    return normpath(join(page, "..", target.partition("#")[0])) if not target.startswith("#") else page


def _embedded(page: str, pages: list[str]) -> str:
    """Its headings one level lower, and its links as words: they lead to what is not in the folder."""
    text = _page(page) or ""
    if page == SHARED:
        text = "# What all proofs build on\n\n" + text[text.index(FIRST_SECTION) :]

    def in_words(link: re.Match[str]) -> str:
        linked = _resolved(link[2], page)
        return link[1] if linked in pages else f"{link[1]} (`{linked}`)"

    return HEADING.sub(r"#\1 \2", LINK.sub(in_words, text))


def _anchor(title: str) -> str:
    """As pages of Markdown name their headings."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
