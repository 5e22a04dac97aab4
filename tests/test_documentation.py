"""What the documentation shows works: its commands run and print that, its links lead somewhere, its site is built."""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openpyxl
import pytest
from forked import fork_server

import searchveil as sv
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

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SHELL_FENCES = {"console", "sh", "bash"}
PLACEHOLDERS = {"FILE", "LOG", "DIR", "your-log.tsv"}  # files of the reader's own
FENCE = re.compile(r"^```([\w{}-]*) ?([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SHELLS_OWN = re.compile(r"[|<>&;$`*?~]")
SECONDS = 280  # after which a command hangs, on a machine however slow
SIZE = re.compile(r"(--(?:users|clients)) (\d+)")
LARGEST = {"--users": 2000, "--clients": 60}  # a larger log or crowd shows nothing more about a command
EXPECTED_CODE = re.compile(r"#.*\bexit (\d)\b")  # a line that shows a refusal says so: `searchveil …  # exit 3`


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the lines of output that the page shows for it."""

    line: str
    output: tuple[str, ...] = ()
    noisy: bool = False  # its numbers are drawn with noise: they stand for others near them


def commands(text: str) -> list[Shown]:
    """The searchveil lines of the shell blocks, continued lines joined, without the prompt, and what they print."""
    found: list[Shown] = []
    for language, noisy, block in FENCE.findall(text):
        if language not in SHELL_FENCES:
            continue
        output: list[str] = []  # of no command yet
        prompts = "$ " in block
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ ") or not prompts:
                output = []
                if line.removeprefix("$ ").startswith("searchveil "):
                    found.append(Shown(line.removeprefix("$ "), (), noisy == "noisy"))
            elif found and line.strip("… "):
                output.append(line.rstrip())
                found[-1] = replace(found[-1], output=tuple(output))
    return found


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
TIME_OF_DAY = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\+00:00)?")
NEAR = 0.35  # of a noisy number: at the counts shown, more than four standard deviations of the noise


def is_printed(shown: str, printed: Sequence[str], noisy: bool) -> bool:
    """Whether a line of a page is among those of a command; … stands for anything, spaces do not matter."""
    shown = re.sub(r"\s+", " ", TIME_OF_DAY.sub("…", shown)).strip()
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(shown)]
    between = [re.escape(part).replace("…", ".*") for part in (NUMBER.split(shown) if noisy else [shown])]
    pattern = f"({NUMBER.pattern})".join(between)
    for line in printed:
        match = re.fullmatch(pattern, re.sub(r"\s+", " ", line).strip())
        if match and not noisy:
            return True
        if match:
            pairs = zip(numbers, (float(value.replace(",", "")) for value in match.groups()), strict=True)
            if all(abs(said - value) <= max(3, NEAR * max(said, value)) for said, value in pairs):
                return True
    return False


def test_a_stale_line_is_found() -> None:
    printed = [
        "claims ε = 0.427, δ = 0",
        "  websearch.com        2,303",
        "1  2026-01-01T00:00:00+00:00 in x",
    ]
    assert is_printed("claims ε = 0.427, …", printed, noisy=False)
    assert not is_printed("claims ε = 0.428, …", printed, noisy=False)
    assert is_printed("  websearch.com   2,103", printed, noisy=True)
    assert not is_printed("  websearch.com   2,103", printed, noisy=False)
    assert not is_printed("  websearch.com   1,103", printed, noisy=True)
    assert not is_printed("  websearch.org   2,303", printed, noisy=True)
    assert is_printed("(1, 1e-06)-private: 9", ["(1, 1e-06)-private: 10"], noisy=True)
    assert is_printed("  1  2026-11-16T00:20:11+00:00 in x", printed, noisy=False)


# Commands in fences of no shell are not run; these pages have some, for a reason.
NOT_RUN = {
    "docs/experiments/": "they take hours; the figures beside them are from such runs",
    "docs/howto/cluster.md": "there is no cluster here; tests/engine/test_cluster.py starts one",
    "docs/formats.md": "likewise",
    "docs/methods.md": "made from the code; docs/methods/ has a page for each method that runs",
    "docs/run-a-crowd.md": "several processes that talk; tests/crowd/test_run_a_crowd.py runs them",
    "docs/studio.md": "a server that does not end; tests/studio/ starts it",
}
A_COMMAND = re.compile(r"^(?:\$ )?searchveil [a-z]", re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_run_or_there_is_a_reason(name: str) -> None:
    blocks = FENCE.findall((ROOT / name).read_text(encoding="utf-8"))
    left = [block for language, _, block in blocks if language not in SHELL_FENCES and A_COMMAND.search(block)]
    assert not left or any(name.startswith(page) for page in NOT_RUN), "a fence of sh or console is run"


UBI = {
    "ubi_queries.ndjson": {
        "query_id": "1",
        "client_id": "c7",
        "user_query": "shoe",
        "timestamp": "2024-05-01T10:00:00Z",
    },
    "ubi_events.ndjson": {
        "query_id": "1",
        "client_id": "c7",
        "user_id": "u",
        "action_name": "product_click",
        "event_attributes": {"object": {"object_id": "sku-1"}, "position": {"ordinal": 3}},
    },
}
SESSION = (
    '<{0}><session num="1" starttime="10:00:01"{1}><interaction num="1" starttime="10:00:02"><query>at&t</query>'
    "</interaction></session></{0}>"
)


def put_files_of_readers(folder: Path) -> None:
    """What docs/formats.md reads: the samples that it shows, under the names that its commands have."""
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    samples: list[str] = [block for language, _, block in FENCE.findall(page) if not language]

    def sample(begin: str) -> str:
        return next(block for block in samples if block.startswith(begin))

    for name in ("01", "02"):
        with gzip.open(folder / f"user-ct-test-collection-{name}.txt.gz", "wt") as file:
            file.write(sample("AnonID"))
    for name, record in UBI.items():
        (folder / name).write_text(json.dumps(record) + "\n")
    with gzip.open(folder / "access.log.gz", "wt") as file:
        file.write(sample("203.0.113.7"))
    (folder / "access_log.20060801.decode.filter").write_text(sample("00:00:00"), encoding="utf-8")
    (folder / "excite.log").write_text(sample("2A9EABFB35F5B954"))
    (folder / "sessiontrack2013.xml").write_text(SESSION.format("sessiontrack2013", ' userid="u"'))
    (folder / "sessiontrack2012.xml").write_text(SESSION.format("sessiontrack2012", ""))
    (folder / "log.csv").write_text(sample("uid,q,when") + "18,weather,2024-05-01 12:00:00\n")
    (folder / "log.jsonl").write_text('{"session": {"id": "s1"}, "search": {"query": "shoe"}}\n')
    (folder / "bare.tsv").write_text("shoe\t2024-05-01 12:00:00\tu1\n")
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        archive.writestr("export.csv", "Export\n\nu1,2024-05-01 12:00:00,shoe\n")
    book = openpyxl.Workbook()
    book.create_sheet("Searches").append(("user", "query"))
    book["Searches"].append((1, "shoe"))
    book.save(folder / "report.xlsx")


def is_for_the_reader(line: str) -> bool:
    return not PLACEHOLDERS.isdisjoint(shlex.split(line, comments=True))


def test_commands_are_found() -> None:
    page = (
        "```sh\nsearchveil demo \\\n    --out log.tsv  # a remark\nls\n```\n"
        "```console\n$ searchveil inspect log.tsv\nsearchveil  output\n$ searchveil inspect LOG\n```\n"
        "```text\nsearchveil not to run\n```\n"
    )
    lines = [shown.line for shown in commands(page)]
    assert lines[0].split() == ["searchveil", "demo", "--out", "log.tsv", "#", "a", "remark"]
    assert lines[1:] == ["searchveil inspect log.tsv", "searchveil inspect LOG"]
    assert [is_for_the_reader(line) for line in lines] == [False, False, True]
    assert [shown.output for shown in commands(page)] == [(), ("searchveil  output",), ()]
    assert [shown.noisy for shown in commands("```console noisy\n$ searchveil plan\n  1\n…\n```\n")] == [True]


def outcome(line: str, folder: Path) -> tuple[int, str]:
    """The exit code and all that was printed; a shell is asked only for what is a shell's business."""
    if not SHELLS_OWN.search(line.partition(" #")[0]):
        code, out, err = fork_server().run(shlex.split(line, comments=True), folder, os.environ, SECONDS)
        return code, out + err
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


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
    assert outcome("searchveil --version  # exit 0; fine", tmp_path)[0] == 0
    assert outcome("searchveil --version > version.txt", tmp_path) == (0, "")
    assert (tmp_path / "version.txt").read_text().startswith("searchveil ")
    refused = outcome("searchveil --frobnicate", tmp_path)
    assert refused == outcome("searchveil --frobnicate && true", tmp_path)
    assert refused[0] == 2


def commands_to_run(name: str) -> list[Shown]:
    shown = commands((ROOT / name).read_text(encoding="utf-8"))
    return [one for one in shown if not is_for_the_reader(one.line)]


def programs(page: str) -> list[str]:
    """The Python blocks that are whole programs: they begin with what they import."""
    blocks = [block for language, _, block in FENCE.findall(page) if language == "python"]
    return [block for block in blocks if block.startswith(("import ", "from "))]


def runs_spark(name: str) -> bool:
    return any("--engine spark" in shown.line for shown in commands_to_run(name))


def is_run(name: str) -> bool:
    return bool(commands_to_run(name) or programs((ROOT / name).read_text(encoding="utf-8")))


def marked(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.spark] if runs_spark(name) else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", [marked(name) for name in NAMES if is_run(name)])
def test_a_page_runs_and_prints_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    if not any("--out log.tsv" in shown.line for shown in commands_to_run(name)):
        # Most pages begin where there is a log already.
        write_demo(tmp_path / "log.tsv", users=300, seed=1)
    if name == "docs/formats.md":
        put_files_of_readers(tmp_path)
    if name == "docs/ledger.md":  # the log has grown, and the last command pays for it
        write_demo(tmp_path / "log-until-june.tsv", users=310, seed=1)
    shows = any(shown.output for shown in commands_to_run(name))  # figures that come of logs of the size told
    for shown in commands_to_run(name):
        line = shown.line if shows and "simulate" not in shown.line else in_small(shown.line)
        code, said = outcome(line, tmp_path)
        expected = EXPECTED_CODE.search(shown.line)
        assert code == (int(expected[1]) if expected else 0), f"{shown.line}\n{said}"
        printed = said.splitlines()
        stale = [line for line in shown.output if not is_printed(line, printed, shown.noisy)]
        assert not stale, f"{shown.line} does not print\n" + "\n".join(stale) + f"\nbut\n{said}"
    monkeypatch.chdir(tmp_path)
    for program in programs(page):
        exec(compile(program, name, "exec"), {"__name__": "__main__"})


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


@pytest.mark.parametrize("name", NAMES)
def test_every_test_function_that_a_page_names_is_there(name: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / name).read_text(encoding="utf-8")))
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")) if named else ""
    assert [one for one in sorted(named) if f"def {one}(" not in written] == []


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(folder / "doctrees")]
    built = subprocess.run([*command, str(ROOT / "docs"), str(folder / "html")], capture_output=True, encoding="utf-8")
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_site_has_every_page_and_asks_no_network(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        made = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert made.exists(), f"{page} is no page of the site"
    loads = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"|<link\b[^>]*\bhref=\"([^\"]*)\"")
    for made in site.rglob("*.html"):
        for addresses in loads.findall(made.read_text(encoding="utf-8")):
            address = "".join(addresses).partition("?")[0]
            assert "//" not in address, f"{made.name} loads {address}"
    styles = "".join(style.read_text(encoding="utf-8") for style in site.rglob("*.css"))
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|@import", styles)
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "--budget-composition" in commands
    assert "searchveil-collab-simulate" in commands
    for name in sorted(set(sv.__all__) - {"__version__"}):
        assert f"searchveil.{name}" in python, f"the reference does not have {name}"


@pytest.mark.slow
def test_the_site_is_searched_from_a_folder(site: Path, browser: "Browser") -> None:
    """Without a server: the index is a script, which a browser loads from a file."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{(site / 'search.html').as_uri()}?q=weekly")
    page.wait_for_selector("#search-results li a", timeout=60_000)
    found = page.locator("#search-results li a").all_inner_texts()
    assert any("weekly logs" in title for title in found)
    for name in ("index", "methods", "reference/commands", "howto/choose"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{name} is wider than a telephone"
    page.close()
    assert {address.partition(":")[0] for address in asked} <= {"file", "data"}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_page_that_says_when(method: str) -> None:
    page = (ROOT / "docs" / "methods" / f"{method}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {method}: ")
    assert "**When to take it**" in page
    assert "**When not**" in page
    assert any(f"--method {method} " in shown.line for shown in commands(page))
    index = (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    assert f"]({method}.md)" in index
