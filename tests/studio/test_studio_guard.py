"""Who may ask the studio: checked over HTTP against a server as people start it."""

import os
import re
import signal
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from commandline import COMMAND, LIMIT, PLENTY, assert_refused, crowd_log, environment, run
from serving import Serving, serving, until

from searchveil.studio.serve import MOST_CONNECTIONS, address_of, hosts_of


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio") / "start"
    folder.mkdir()
    crowd_log(folder)
    (folder.parent / "outside.csv").write_text("user,query\nann,secret illness\n")
    (folder / "link.csv").symlink_to(folder.parent / "outside.csv")
    (folder / "up").symlink_to(folder.parent, target_is_directory=True)
    (folder / ".hidden.csv").write_text("user,query\nann,secret illness\n")
    os.mkfifo(folder / "pipe.csv")
    (folder / os.fsdecode(b"no text \xff.csv")).write_text("user,query\n")
    (folder / "two\nlines.csv").write_text("user,query\n")
    planted = folder / "planted"
    run(folder, "release", "crowd.csv", *PLENTY, "--out", planted)
    (planted / "README.md").unlink()
    (planted / "README.md").symlink_to(folder.parent / "outside.csv")
    (planted / "report.html").write_text("secret illness")
    return folder


@pytest.fixture(scope="module")
def studio(place: Path) -> Iterator[Serving]:
    with serving(place) as made:
        yield made


def test_a_link_opens_one_browser_once(studio: Serving) -> None:
    link = studio.link
    with httpx.Client(timeout=LIMIT) as first, httpx.Client(timeout=LIMIT) as second:
        assert second.head(link).status_code == 405, "who only looks at a link does not use it up"
        entered = first.get(link)
        assert entered.status_code == 200
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert entered.headers["referrer-policy"] == "same-origin", "the link goes to no other site"
        assert first.get(f"{studio.address}/").status_code == 200
        assert second.get(link).status_code == 401, "the link was used up"
        assert second.get(f"{studio.address}/drafts/x/log").status_code == 401
        assert second.get(f"{studio.address}/", follow_redirects=True).status_code == 401
    assert studio.next_link() != link


@pytest.mark.parametrize("token", ["", "x", "é", "0" * 43])
def test_a_wrong_token_opens_nothing(studio: Serving, token: str) -> None:
    with httpx.Client(timeout=LIMIT) as stranger:
        answer = stranger.get(f"{studio.address}/enter", params={"token": token})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:80", ""])
def test_a_foreign_host_is_refused(studio: Serving, host: str) -> None:
    """A name of the attacker's that leads here (DNS rebinding), even with the right cookie and the right link."""
    for path in ("/", "/static/studio.css", urlsplit(studio.link).path + "?" + urlsplit(studio.link).query):
        answer = studio.http.get(path, headers={"host": host})
        assert answer.status_code in (400, 403)
        assert answer.text.count("\n") <= 1


def test_names_without_a_port_are_answered_on_the_usual_port() -> None:
    """Browsers leave port 80 out of what they ask for."""
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        port = taken.getsockname()[1]
        assert hosts_of("::1", taken) == {f"{name}:{port}" for name in ("[::1]", "127.0.0.1", "localhost")}
    assert [address_of("127.0.0.1", 80), address_of("::", 80), address_of("HOST", 81)] == [
        "127.0.0.1", "[::1]", "host:81"
    ]  # fmt: skip


def test_many_silent_connections_do_not_keep_anybody_out_for_long(studio: Serving) -> None:
    """More than are served at once: they are told so, and given up when they stay silent."""
    where = urlsplit(studio.address)
    silent = [socket.create_connection((str(where.hostname), where.port)) for _ in range(MOST_CONNECTIONS + 20)]
    try:
        until(lambda: studio.http.get("/").status_code == 200)
    finally:
        for one in silent:
            one.close()
    until(lambda: studio.http.get("/").status_code == 200)


def test_this_machines_other_names_are_answered(studio: Serving) -> None:
    port = urlsplit(studio.address).port
    assert studio.http.get("/static/studio.css", headers={"host": f"localhost:{port}"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_a_foreign_origin_is_refused(studio: Serving, origin: str) -> None:
    form = {"form_token": studio.form_token}
    assert studio.http.post("/drafts", data=form, headers={"origin": origin}).status_code == 403
    assert studio.http.get("/", headers={"origin": origin}).status_code == 403


def test_a_form_needs_an_origin_and_its_token(studio: Serving) -> None:
    token = studio.form_token
    own = {"origin": studio.address}
    assert studio.http.post("/drafts", data={"form_token": token}).status_code == 403
    for form in ({}, {"form_token": ""}, {"form_token": token[:-1]}, {"form_token": "é"}):
        assert studio.http.post("/drafts", data=form, headers=own).status_code == 403
    assert studio.http.post("/drafts", data={"form_token": token}, headers=own).status_code == 303
    with httpx.Client(base_url=studio.address, timeout=LIMIT) as other:
        other.get(studio.link)
        studio.next_link()
        assert other.post("/drafts", data={"form_token": token}, headers=own).status_code == 403, "of another session"


@pytest.mark.parametrize(("site", "mode", "status"), [
    ("cross-site", "no-cors", 403),
    ("same-site", "cors", 403),
    ("cross-site", "navigate", 200),
    ("same-origin", "cors", 200),
    ("none", "navigate", 200),
])  # fmt: skip
def test_what_other_sites_pages_load_is_refused(studio: Serving, site: str, mode: str, status: int) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
    assert studio.http.get("/", headers=headers).status_code == status


@pytest.mark.parametrize("size", [1 << 17, 10_000_000])
def test_a_large_form_is_refused_in_one_line(studio: Serving, size: int) -> None:
    answer = studio.post("/drafts", {"filler": "x" * size})
    assert answer.status_code == 413
    assert answer.text == "the form is larger than 65,536 bytes; nothing was done\n"


def test_what_is_no_form_is_refused_in_one_line(studio: Serving) -> None:
    own = {"origin": studio.address, "content-type": "application/x-www-form-urlencoded"}
    for body in (b"\xff\xfe", b"novalue", b"&".join(b"a=1" for _ in range(600))):
        answer = studio.http.post("/drafts", content=body, headers=own)
        assert answer.status_code == 400
        assert answer.text.count("\n") == 1
    assert studio.http.request("DELETE", "/drafts", headers=own).status_code == 405


def test_every_page_says_what_a_browser_may_do_with_it(studio: Serving) -> None:
    for path in ("/", "/series", "/nowhere", "/static/studio.css"):
        headers = studio.http.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'", "nothing inline"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_pages_have_nothing_inline_and_nothing_from_outside(studio: Serving) -> None:
    draft = studio.new_draft()
    for path in ("/", "/series", *(f"{draft}/{step}" for step in ("log", "what", "promise", "budget", "release"))):
        text = studio.get(path)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src=)|javascript:", text), path
        assert not re.search(r"(?:src|href|action)=\"(?!/|#)", text), path


TRAVERSALS = [
    "../outside.csv", "..", "/etc/passwd", "link.csv", "up/outside.csv", "up", ".hidden.csv", "a/../../outside.csv",
    "crowd.csv/../../outside.csv", "nul\0.csv", "x" * 5000, "absent.csv",
    "/dev/zero", "pipe.csv", "/proc/self/environ", "%2e%2e/outside.csv", "file:///etc/passwd", ".searchveil-studio",
]  # fmt: skip


@pytest.mark.parametrize("path", TRAVERSALS, ids=range(len(TRAVERSALS)))
def test_a_log_outside_the_folder_cannot_be_named(studio: Serving, path: str) -> None:
    draft = studio.new_draft()
    shown = studio.save(draft, "log", {"log": path})
    assert re.search(r'id="error-log"[^>]*>[^<]+<', shown)
    assert "secret" not in shown
    assert 'id="reading" aria-live="polite">\n</section>' in shown, "nothing was read"


@pytest.mark.parametrize("path", TRAVERSALS, ids=range(len(TRAVERSALS)))
def test_nothing_outside_the_folder_can_be_shown(studio: Serving, path: str) -> None:
    for address in ("/results", "/results/zip", "/results/report"):
        assert studio.http.get(address, params={"folder": path}).status_code in (400, 404)
    listed = studio.get(f"{studio.new_draft()}/log", folder=path)
    assert 'class="check file"' not in listed
    assert re.search(r'id="error-folder"[^>]*>[^<]+<', listed)


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fguard.py", "/static//etc/passwd"]
)
def test_static_files_are_static_files(studio: Serving, path: str) -> None:
    answer = httpx.get(httpx.URL(studio.address, raw_path=path.encode()), timeout=LIMIT)
    assert answer.status_code in (401, 404)


def test_links_and_hidden_files_are_not_listed(studio: Serving) -> None:
    listed = studio.get(f"{studio.new_draft()}/log")
    assert "crowd.csv" in listed
    hidden = ("link.csv", ".hidden.csv", "outside", 'value="up"', "pipe.csv", "lines.csv", "no text")
    assert not any(name in listed for name in hidden)


def test_a_name_that_is_no_text_breaks_no_page(studio: Serving) -> None:
    draft = studio.new_draft()
    for path in ("/", "/series", f"{draft}/log", f"{draft}/what", f"{draft}/budget"):
        studio.get(path)


def test_a_release_is_shown_without_what_came_to_lie_in_its_folder(studio: Serving) -> None:
    page = studio.get("/results", folder="planted")
    assert "The folder has no README.md" in page
    archive = zipfile.ZipFile(BytesIO(studio.http.get("/results/zip", params={"folder": "planted"}).content))
    assert sorted(archive.namelist()) == [
        f"planted/{name}"
        for name in ("PROOF.md", "croissant.json", "data.parquet", "deployment.yaml", "guarantee.json")
    ]


@pytest.mark.parametrize("rows", ["²", "-1", "0", "9" * 5000, "1e9", "x"])
def test_odd_numbers_in_addresses_are_no_failure(studio: Serving, rows: str) -> None:
    assert "5 of 5 rows" in studio.get("/results", folder="planted", rows=rows)
    assert studio.http.get("/series", params={"times": rows, "epsilon": rows}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: int) -> None:
    made = Serving(tmp_path)
    code, out, err = made.end(number)
    assert (code, err) == (0, "")
    assert out.endswith("The studio has ended.\n")
    assert not any((tmp_path / "scratch").iterdir()), "nothing private stays"


@pytest.mark.slow
def test_a_second_ctrl_c_adds_no_traceback(tmp_path: Path) -> None:
    made = Serving(tmp_path)
    made.process.send_signal(signal.SIGINT)
    code, out, err = made.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert out.endswith("The studio has ended.\n")


def test_what_cannot_be_served_is_said_before_anything_starts(tmp_path: Path, studio: Serving) -> None:
    port = str(urlsplit(studio.address).port)
    assert_refused(run(tmp_path, "studio", "--no-browser", "--port", port), f"127.0.0.1:{port} cannot be listened on")
    assert_refused(run(tmp_path, "studio", "--no-browser", "absent.tsv"), "absent.tsv: there is no such file")
    assert_refused(
        run(tmp_path, "studio", "--no-browser", "--host", "nowhere.invalid"), "choose another --host or --port"
    )


@pytest.mark.slow
def test_a_terminal_without_a_screen_keeps_its_link(tmp_path: Path) -> None:
    """Python would start a w3m there, in front of what the studio says."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("www-browser", "w3m", "lynx", "links"):
        (tools / name).write_text(f'#!/bin/sh\ntouch "{tmp_path}/started"\n')
        (tools / name).chmod(0o755)
    shown = {name: text for name, text in environment(tmp_path).items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    with subprocess.Popen(
        [COMMAND, "studio"], cwd=tmp_path, env={**shown, "PATH": f"{tools}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        link = next(line.strip() for line in process.stdout if "/enter?token=" in line)
        with httpx.Client(timeout=LIMIT) as client:
            assert client.get(link).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (0, "")
    assert not (tmp_path / "started").exists()


@pytest.mark.slow
def test_the_browser_is_not_started_with_the_token(tmp_path: Path) -> None:
    """All users of a machine see with which arguments a program runs."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > "{seen}.part"\nmv "{seen}.part" "{seen}"\n')
    browser.chmod(0o755)

    with subprocess.Popen(
        [COMMAND, "studio"], cwd=tmp_path, env=environment(tmp_path) | {"BROWSER": f"{browser} %s"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
    ) as process:  # fmt: skip
        until(seen.exists)
        opened = seen.read_text()
        assert opened.startswith("file://")
        assert "token" not in opened
        page = Path(opened.removeprefix("file://"))
        assert "/enter?token=" in page.read_text()
        assert page.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
    assert not page.exists()
    assert os.listdir(tmp_path / "scratch") == []
