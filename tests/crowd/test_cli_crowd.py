"""The command line of a crowd, end to end: init, programs, members, jobs, a release; and a simulation."""

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from searchveil.cli import answer
from searchveil.crowd import tools
from searchveil.crowd.config import Addresses
from searchveil.crowd.own_log import _search_in
from searchveil.crowd.simulate import ENDS_WITHIN, wait_for
from searchveil.log.demo import write_demo
from searchveil.log.normalize import Normalization
from searchveil.ports import KeptPorts

pytestmark = pytest.mark.slow


Run = Callable[..., str]


@pytest.fixture
def searchveil(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command without a new process: what it printed, or with another code than 0 what it complained of."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["searchveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            answer()
        shown = capsys.readouterr()
        assert (ended.value.code or 0) == code, shown
        return shown.err if code else shown.out

    return run


def test_the_rows_of_a_simulation_are_exactly_the_shared_queries(tmp_path: Path, searchveil: Run) -> None:
    log = tmp_path / "log.tsv"
    write_demo(str(log), users=60, seed=3)
    out = tmp_path / "release"
    line = ["crowd", "simulate", log, "--clients", 40, "--artifact", "query", "--policy", "FT_u", "--k", 3]
    figures = json.loads(searchveil(*line, "--out", out, "--json"))
    users: dict[str, set[str]] = {}
    with log.open() as file:
        next(file)
        for row in file:
            user, query = row.split("\t")[:2]
            if user in users or len(users) < 40:
                users.setdefault(user, set()).add(Normalization().apply_to_text(query))
    texts = [text for held in users.values() for text in held]
    expected = {text: texts.count(text) for text in set(texts) if texts.count(text) >= 3}
    found = pq.read_table(out / "data.parquet").to_pydict()
    assert dict(zip(found["query"], found["count"], strict=True)) == expected
    assert expected
    assert figures["clients"] == 40
    assert figures["rows"] == figures["opened"] == len(expected)
    assert figures["reports"] == len(texts)
    record = json.loads((out / "guarantee.json").read_text())
    assert (record["guarantee"]["notion"], record["guarantee"]["trust"]) == ("none", "server")


def firefox_history(path: Path, queries: list[str]) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT)")
        file.execute("CREATE TABLE moz_historyvisits (place_id INTEGER, visit_date INTEGER)")
        for i, query in enumerate(queries, 1):
            file.execute("INSERT INTO moz_places VALUES (?, ?)", (i, f"https://duckduckgo.com/?q={query}&ia=web"))
            file.execute("INSERT INTO moz_historyvisits VALUES (?, ?)", (i, 1_700_000_000_000_000 + i))
        file.execute("INSERT INTO moz_places VALUES (99, 'https://bank.example/?q=secret')")
        file.execute("INSERT INTO moz_historyvisits VALUES (99, 1)")
    file.close()


def chromium_history(path: Path, query: str) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT)")
        file.execute("CREATE TABLE visits (url INTEGER, visit_time INTEGER)")
        file.execute("INSERT INTO urls VALUES (1, ?)", (f"https://www.google.com/search?q={query}",))
        file.execute("INSERT INTO visits VALUES (1, 13344473600000000)")
    file.close()


def test_a_community_from_the_command_line(tmp_path: Path, searchveil: Run) -> None:
    """Three members with a Firefox, a Chromium and a CSV: what two share is published, and paid for by a ledger."""
    home = tmp_path / "community"
    ports = KeptPorts(3)
    urls = [f"http://127.0.0.1:{port}" for port in ports.numbers]
    places = ["--server", urls[0], "--randomness", urls[1], "--relay", urls[2]]
    made = json.loads(searchveil("crowd", "init", home, "--name", "Club", *places, "--members", 3, "--json"))
    assert Addresses().server.endswith("8700")
    assert (home / "server.toml").stat().st_mode & 0o077 == 0
    programs = [("randomness", "randomness.toml"), ("server", "server.toml"), ("relay", "relay-1.toml")]
    command = [sys.executable, "-m", "searchveil", "crowd"]
    processes = [subprocess.Popen([*command, name, "--config", str(home / config)]) for name, config in programs]
    try:
        for url, process in zip((urls[1], urls[0], urls[2]), processes, strict=True):
            wait_for(url, process)
        config = ["--config", home / "server.toml"]
        policy = ["--policy", "FT_u", "--k", 2]
        job = json.loads(searchveil("crowd", "job", "new", *config, *policy, "--json"))["job"]
        firefox_history(tmp_path / "places.sqlite", ["rain+tomorrow", "only+mine"])
        chromium_history(tmp_path / "History", "Rain%20Tomorrow")
        (tmp_path / "own.csv").write_text("user,query\nme,something else\n")
        for i, file in enumerate(("places.sqlite", "History", "own.csv")):
            member = ["--home", tmp_path / f"member-{i}"]
            invitation = ["--invitation", made["invitations"][i], "--passphrase", f"word {i}"]
            searchveil("crowd", "client", "join", home / "community.json", *invitation, *member)
            searchveil("crowd", "client", "import", tmp_path / file, *member)
            shown = json.loads(searchveil("crowd", "client", "jobs", *member, "--json"))["jobs"]
            assert [one["job"] for one in shown] == [job]
            assert "bank" not in json.dumps(shown)
            searchveil("crowd", "client", "consent", job[:8], "always", *member)
            ran = json.loads(searchveil("crowd", "client", "run", *member, "--wait", 0, "--json"))["jobs"]
            assert ran[0]["reports"] == ran[0]["candidates"] == len(shown[0]["artifacts"])
        status = searchveil("crowd", "status", urls[0])
        assert "NOT differentially private" in status
        assert job[:8] in status
        out = tmp_path / "release"
        searchveil("crowd", "job", "release", job[:8], *config, "--out", out, "--publish")
        assert pq.read_table(out / "data.parquet").to_pylist() == [{"query": "rain tomorrow", "count": 2}]
        assert "has been released" in searchveil(
            "crowd", "job", "release", job[:8], *config, "--out", tmp_path / "again", code=2
        )
        private = ["--policy", "ST_u", "--epsilon", 1, "--delta", "1e-6"]
        other = json.loads(searchveil("crowd", "job", "new", *config, *private, "--json"))["job"]
        ledger = ["--ledger", tmp_path / "ledger", "--budget-epsilon", "0.5", "--budget-delta", "1e-6"]
        searchveil("crowd", "job", "release", other[:8], *config, "--out", tmp_path / "dear", *ledger, code=3)
        enough = ["--ledger", tmp_path / "other", "--budget-epsilon", "1", "--budget-delta", "1e-6"]
        searchveil("crowd", "job", "release", other[:8], *config, "--out", tmp_path / "paid", *enough)
        record = json.loads((tmp_path / "paid" / "guarantee.json").read_text())
        assert (record["guarantee"]["trust"], record["guarantee"]["epsilon"]) == ("nobody", 1.0)
        page = httpx.get(urls[0], timeout=60).text
        assert "What leaves your machine" in page
        assert "Club: jobs" in page
        links = re.findall(r'href="([^"]+)"', page)
        assert {link.split("/")[-1] for link in links} == {path.name for path in out.iterdir()}
        assert all(f"releases/{job}/" in link for link in links)  # the other release was not published
        for link in links:
            assert httpx.get(f"{urls[0]}/{link}", timeout=60).content == (out / link.split("/")[-1]).read_bytes()
            assert f"{urls[0]}/{link}" in searchveil("crowd", "status", urls[0])
        for missing in (f"{job}/..%2fserver.toml", f"{job}/server.toml", f"{other}/README.md", "zz/README.md"):
            assert httpx.get(f"{urls[0]}/releases/{missing}", timeout=60).status_code == 404
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(ENDS_WITHIN)
        ports.close()


def test_searches_are_found_on_the_pages_of_many_countries_and_nowhere_else() -> None:
    """Whatever else was visited is nobody's business, even where its address has a `q`."""
    found = {
        "https://www.google.co.uk/search?q=a": "a",
        "https://google.de/search?hl=de&q=zwei+worte": "zwei worte",
        "https://html.duckduckgo.com/html/?q=b": "b",
        "https://de.search.yahoo.com/search;_ylt=x?p=c": "c",
        "https://yandex.com.tr/search/?text=d": "d",
        "https://de.wikipedia.org/w/index.php?search=e": "e",
        "https://www.google.com/search?tbm=isch": None,
        "https://www.google.com/maps?q=home": None,
        "https://mail.google.com/search?q=private": None,
        "https://google.com.bank.example/search?q=private": None,
        "https://bank.example/search?q=private": None,
        "https://[broken/search?q=x": None,
    }
    for url, query in found.items():
        search = _search_in(url, 1.0)
        assert (search and search.query) == query, url


def test_a_long_log_is_listed_from_its_end(tmp_path: Path, searchveil: Run) -> None:
    rows = "".join(f"me,q{i},2024-01-01 00:00:{i:02}\n" for i in range(9))
    (tmp_path / "own.csv").write_text(f"user,query,time\n{rows}")
    home = ["--home", tmp_path / "me"]
    searchveil("crowd", "client", "import", tmp_path / "own.csv", *home)
    said = searchveil("crowd", "client", "list", "--most", 2, *home)
    assert [line.split()[-1] for line in said.splitlines()[1:]] == ["q7", "q8"]
    assert "The last 2 of 9" in said
    assert "no entry has the number 99" in searchveil("crowd", "client", "delete", 99, *home, code=2)


def test_missing_tools_are_told_with_what_to_type(searchveil: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "TOOLS", ("sqlalchemy", "no_such_tool"))
    said = searchveil("crowd", "status", "http://127.0.0.1:1", code=2)
    assert "the crowd's tools are not installed (no_such_tool missing)" in said
    assert "[crowd]" in said


def test_nobody_joins_where_a_credential_would_travel_in_the_clear(tmp_path: Path, searchveil: Run) -> None:
    places = ["--server", "http://crowd.example:8700", "--randomness", "https://dice.example:8701"]
    searchveil("crowd", "init", tmp_path / "club", *places)
    member = ["--invitation", "code", "--home", tmp_path / "me"]
    said = searchveil("crowd", "client", "join", tmp_path / "club" / "community.json", *member, code=2)
    assert "'http://crowd.example:8700' is not https" in said
    assert not (tmp_path / "me").exists()


@pytest.mark.parametrize(
    ("jobs", "shown"),
    [
        ("[3]", "does not answer as a server"),
        ("{}", "There is no job"),
        ('[{"job": 1}]', "does not answer as a server"),
        (
            json.dumps(
                [dict.fromkeys(("open", "released", "job", "artifact", "policy", "k", "guarantee", "files"), "\x1b[2J")]
            ),
            "open",
        ),
    ],
)
def test_what_a_server_says_cannot_write_to_the_terminal_as_it_likes(
    searchveil: Run, monkeypatch: pytest.MonkeyPatch, jobs: str, shown: str
) -> None:
    monkeypatch.setattr(httpx, "get", lambda *given, **more: httpx.Response(200, content=jobs.encode()))
    said = searchveil("crowd", "status", "http://127.0.0.1:1", code=2 if "does not" in shown else 0)
    assert shown in said
    assert "\x1b" not in said


def test_errors_say_what_to_do(tmp_path: Path, searchveil: Run) -> None:
    assert "add --epsilon 1" in searchveil("crowd", "simulate", "x.tsv", "--out", tmp_path / "o", code=2)
    assert "no artifact" in searchveil(
        "crowd", "simulate", "x.tsv", "--artifact", "mail", "--policy", "FT_u", "--out", tmp_path / "o", code=2
    )
    assert "crowd client join" in searchveil("crowd", "client", "jobs", "--home", tmp_path / "me", code=2)
    assert "cannot be read as TOML" in searchveil("crowd", "server", "--config", tmp_path / "none.toml", code=2)
