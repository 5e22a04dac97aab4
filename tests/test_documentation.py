"""What the documentation shows works: its commands run, its links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from forked import fork_server

from searchveil.log.demo import write_demo
from searchveil.publish import METHODS
from searchveil.publish.k_keyword import KKeyword
from searchveil.publish.k_query import KQuery
from searchveil.publish.k_session import KSession
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.sampling import Sampling
from searchveil.publish.synthetic.mechanism import Synthetic
from searchveil.publish.votes import Votes
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SHELL_FENCES = {"console", "sh", "bash"}
PLACEHOLDERS = {"FILE", "LOG", "DIR", "your-log.tsv"}  # files of the reader's own
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SHELLS_OWN = re.compile(r"[|<>&;$`*?~]")
SECONDS = 280  # after which a command hangs, on a machine however slow
SIZE = re.compile(r"(--(?:users|clients)) (\d+)")
LARGEST = {"--users": 2000, "--clients": 60}  # a larger log or crowd shows nothing more about a command
EXPECTED_CODE = re.compile(r"#.*\bexit (\d)\b")  # a line that shows a refusal says so: `searchveil …  # exit 3`


def commands(text: str) -> list[str]:
    """The searchveil lines of the shell blocks, continued lines joined, without the prompt."""
    found = []
    for language, block in FENCE.findall(text):
        if language in SHELL_FENCES:
            lines = block.replace("\\\n", " ").splitlines()
            found += [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("searchveil ")]
    return found


def is_for_the_reader(line: str) -> bool:
    return not PLACEHOLDERS.isdisjoint(shlex.split(line, comments=True))


def test_commands_are_found() -> None:
    page = (
        "```sh\nsearchveil demo \\\n    --out log.tsv  # a remark\nls\n```\n"
        "```console\n$ searchveil inspect log.tsv\nsearchveil  output\n$ searchveil inspect LOG\n```\n"
        "```text\nsearchveil not to run\n```\n"
    )
    assert commands(page)[0].split() == ["searchveil", "demo", "--out", "log.tsv", "#", "a", "remark"]
    assert "searchveil inspect log.tsv" in commands(page)
    assert not any("not to run" in line for line in commands(page))
    assert [is_for_the_reader(line) for line in commands(page)] == [False, False, False, True]


def outcome(line: str, folder: Path) -> tuple[int, str]:
    """The exit code and standard error; a shell is asked only for what is a shell's business."""
    if not SHELLS_OWN.search(line.partition(" #")[0]):
        code, _, err = fork_server().run(shlex.split(line, comments=True), folder, os.environ, SECONDS)
        return code, err
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, encoding="utf-8")
    return done.returncode, done.stderr


def in_small(line: str) -> str:
    """The line with fewer users or clients, where it makes a log or a crowd."""
    if "demo" not in line and "simulate" not in line:
        return line
    return SIZE.sub(lambda found: f"{found[1]} {min(int(found[2]), LARGEST[found[1]])}", line)


def test_only_the_size_of_a_line_is_changed() -> None:
    assert in_small("searchveil demo --users 20000 --seed 1") == "searchveil demo --users 2000 --seed 1"
    assert in_small("searchveil crowd simulate --clients 300 --k 5") == "searchveil crowd simulate --clients 60 --k 5"
    assert in_small("searchveil demo --users 300") == "searchveil demo --users 300"
    assert in_small("searchveil plan --users 20000") == "searchveil plan --users 20000"


def test_a_line_means_what_a_shell_takes_it_for(tmp_path: Path) -> None:
    assert outcome("searchveil --version  # exit 0; fine", tmp_path) == (0, "")
    assert outcome("searchveil --version > version.txt", tmp_path) == (0, "")
    assert (tmp_path / "version.txt").read_text().startswith("searchveil ")
    refused = outcome("searchveil --frobnicate", tmp_path)
    assert refused == outcome("searchveil --frobnicate && true", tmp_path)
    assert refused[0] == 2


def commands_to_run(name: str) -> list[str]:
    return [line for line in commands((ROOT / name).read_text(encoding="utf-8")) if not is_for_the_reader(line)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if commands_to_run(name)])
def test_the_commands_of_a_page_run_in_order(name: str, tmp_path: Path) -> None:
    lines = commands_to_run(name)
    if not any("--out log.tsv" in line for line in lines):  # most pages begin where there is a log already
        write_demo(tmp_path / "log.tsv", users=300, seed=1)
    for line in lines:
        code, err = outcome(in_small(line), tmp_path)
        expected = EXPECTED_CODE.search(line)
        assert code == (int(expected[1]) if expected else 0), f"{line}\n{err}"


def test_the_readme_shows_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert commands(readme), "the README has a worked example"
    assert "make demo" in readme
    assert "make test" in readme


def anchors(page: Path) -> set[str]:
    """The anchors that headings get where Markdown is shown: small letters, hyphens for spaces, no punctuation."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#{1,6} +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def assert_leads_somewhere(target: str, base: Path) -> None:
    path, _, anchor = target.partition("#")
    page = (base / path).resolve() if path else base
    assert page.exists(), f"{target}: there is no {path}"
    if anchor:
        assert anchor in anchors(page), f"{target}: no heading is called so"


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        if target.startswith("#"):
            assert target[1:] in anchors(page), f"{target}: no heading is called so"
        else:
            assert_leads_somewhere(target, page.parent)


MECHANISMS: list[Mechanism] = [
    Weighted(1, 1e-6),
    Votes(1, 1e-6),
    Synthetic(1, 1e-6),
    Zealous(1, 1e-6),
    Zealous(1, 1e-6, notion="probabilistic"),
    Zealous(1, 1e-6, notion="indistinguishable"),
    Korolova(1, 1e-6),
    Korolova(1, 1e-6, variant="published"),
    SafeLogClick(epsilon=1, delta=1e-6),
    SafeLogSession(epsilon=1, delta=1e-6),
    Sampling(delta=0.5, epsilon=1),
    Sampling(delta=0.5, sampler="poisson"),
    KQuery(),
    KSession(),
    KKeyword(),
]


def test_no_method_is_missing() -> None:
    assert {mechanism.method for mechanism in MECHANISMS} == set(METHODS)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: str(mechanism.plan(1000).guarantee.proof))
def test_every_mechanism_refers_to_its_proof(mechanism: Mechanism) -> None:
    proof = mechanism.plan(1000).guarantee.proof
    assert proof.startswith("docs/guarantees/"), "a page of its own"
    assert_leads_somewhere(proof, ROOT)
    page = proof.partition("#")[0]
    assert any(page in (one.__doc__ or "") for one in type(mechanism).__mro__), "its docstring points there"
    index = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
    assert f"({proof.removeprefix('docs/')})" in index, "the list of proofs has it"


@pytest.mark.parametrize("name", NAMES)
def test_every_test_that_a_page_names_is_there(name: str) -> None:
    named = re.findall(r"tests/[\w/]+(?:\.\w+)?", (ROOT / name).read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_that_the_program_names_is_there() -> None:
    """Messages, help and records send people to pages such as docs/formats.md, or to a heading of one."""
    named = {
        page
        for source in (ROOT / "src").rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md(?:#[\w-]+)?", source.read_text(encoding="utf-8"))
    }
    assert any("#" in page for page in named)
    for page in named:
        assert_leads_somewhere(page, ROOT)
