"""PROOF.md: whoever has a release folder has the proof, complete and without a link that leads nowhere."""

import re
from pathlib import Path

import pytest

from searchveil.collab.joint import PROOF as JOINT
from searchveil.publish import METHODS, method_named
from searchveil.publish.card.proof import proof_text

ROOT = Path(__file__).parents[2]
ADDRESSES = {
    *(str(page.relative_to(ROOT)) for page in (ROOT / "docs/guarantees").glob("*.md")),
    *("docs/guarantees/zealous.md#" + notion for notion in ("approximate", "indistinguishable", "probabilistic")),
    *("docs/guarantees/korolova.md#" + variant for variant in ("exact", "published")),
    *("docs/guarantees/crowd.md#" + policy for policy in ("st_u", "dp_u-and-dp_a", "ft_u-and-ft_a")),
    JOINT,
}


@pytest.mark.parametrize("address", sorted(ADDRESSES))
def test_a_proof_is_whole_and_leads_nowhere_else(address: str) -> None:
    text = proof_text(address)
    assert text is not None
    page, _, anchor = address.partition("#")
    title = (ROOT / page).read_text(encoding="utf-8").splitlines()[0]
    assert f"#{title}\n" in text
    assert ("of which the section" in text) == bool(anchor)
    assert "](" not in text
    for shared in ("Noise", "Gaussian account", "Composition"):
        assert f"\n### {shared}\n" in text
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    assert all(text.count(f"\n{heading}\n") == 1 for heading in re.findall(r"^## .*$", text, re.MULTILINE))


def test_a_proof_brings_those_that_it_builds_on() -> None:
    text = proof_text("docs/guarantees/safelog-click.md") or ""
    for proof in ("SafeLog for queries", "Korolova et al. 2009", "ZEALOUS"):
        assert f"\n## Proof: {proof}\n" in text


@pytest.mark.parametrize("name", METHODS)
def test_every_method_cites_a_proof_that_comes_with_the_package(name: str) -> None:
    mechanism = method_named(name)
    assert proof_text(mechanism(**mechanism.example).plan(1000).guarantee.proof)


@pytest.mark.parametrize("address", ["mine", "docs/guarantees/mine.md", "docs/../secret.md", "docs/guarantees", ""])
def test_what_does_not_come_with_the_package_is_not_cited(address: str) -> None:
    assert proof_text(address) is None
