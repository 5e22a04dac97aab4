"""The five steps over HTTP: nothing is lost, errors stand at their fields, and what is shown to copy is true."""

import html
import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from commandline import crowd_log, demo_log, entries, new_ledger, run
from serving import Serving, serving, until

from searchveil.log import read_log
from searchveil.publish import METHODS, build, method_named
from searchveil.publish.release import Release
from searchveil.publish.top import COUNTED
from searchveil.studio.pages.steps import STEPS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    crowd_log(folder)
    (folder / "log.tsv").symlink_to("real.tsv")
    (folder / "real.tsv").write_bytes(demo_log(60).read_bytes())
    (folder / "broken.txt").write_text("no log at all\n")
    rows = [f"{user},{query}\n" for query in ("news", "weather", "maps", "mail", "shoes") for user in range(200)]
    (folder / "many.csv").write_text("user,query\n" + "".join(rows))
    (folder / "urls.csv").write_text("query,url\nnews,http://news.example\n")
    return folder


@pytest.fixture(scope="module")
def studio(place: Path) -> Iterator[Serving]:
    with serving(place) as made:
        yield made


def shown_code(page: str) -> list[str]:
    """The command line and the Python that a page shows to copy."""
    return [html.unescape(code) for code in re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)]


def error_at(page: str, field: str) -> str:
    found = re.search(rf'id="error-{field}"[^>]*>(.*?)</p>', page)
    return html.unescape(found.group(1)) if found else ""


COMMAND = re.compile(r"<p class=\"help\">On the command line: <code>(.*?)</code>")


def private(page: str) -> str:
    """What stands in red frames."""
    return "".join(re.findall(r'<section class="private".*?</section>', page, re.DOTALL))


def in_python(place: Path, code: str) -> str:
    """What Python prints, in that folder."""
    with chdir(place), redirect_stdout(StringIO()) as printed:
        exec(code, {})
    return printed.getvalue()


def test_what_was_typed_stays_wherever_one_goes(studio: Serving) -> None:
    draft, other = studio.new_draft(), studio.new_draft()
    typed: dict[str, dict[str, str]] = {
        "log": {"log": "crowd.csv", "format": "csv", "skip_lines": "0"},
        "what": {"method": "zealous", "item": "url", "per_user": "not a number"},
        "promise": {"epsilon": "-7", "delta": "0.25", "guess-users": "many"},
        "budget": {"ledger": "new", "new_ledger": "mine.sqlite", "budget_epsilon": "lots", "out": "some/where"},
    }
    for step, form in typed.items():
        studio.save(draft, step, form)
    for step in (*STEPS, *reversed(STEPS)):
        page = studio.get(f"{draft}/{step}")
        for name, text in typed.get(step, {}).items():
            ways = (
                f'name="{name}" value="{text}" checked',
                f'name="{name}" value="{text}"',
                f'value="{text}" selected',
            )
            assert any(way in page for way in ways) or f'value="{text}" id="method-{text}" checked' in page, (
                step,
                name,
            )
    assert "not a number" not in studio.get(f"{other}/what"), "another draft is another draft"
    studio.save(draft, "what", {"method": "korolova"})
    studio.save(draft, "what", {"method": "zealous"})
    assert 'value="not a number"' in studio.get(f"{draft}/what"), "not even a change of the method loses it"


def test_errors_stand_at_the_field_that_they_belong_to(studio: Serving) -> None:
    draft = studio.new_draft()
    studio.save(draft, "what", {"method": "zealous"})
    page = studio.save(draft, "what", {"method": "zealous", "per_user": "0", "first_threshold": "x"})
    assert error_at(page, "per_user") == "per user must be a whole number of at least 1, not 0"
    assert "whole number" in error_at(page, "first_threshold")
    assert error_at(page, "epsilon") == error_at(page, "form") == ""
    page = studio.save(draft, "promise", {"epsilon": "-1", "delta": "2", "guess-users": "1,000"})
    assert error_at(page, "epsilon") == "epsilon must be a positive number, not -1; try epsilon 1"
    assert "below 1" in error_at(page, "delta")
    assert error_at(page, "guess-users") == "users must be a number, not '1,000'"
    assert "The plan appears here" in page
    studio.save(draft, "what", {"method": "zealous", "per_user": "5", "first_threshold": ""})
    page = studio.save(
        draft, "promise", {"epsilon": "1", "delta": "1e-6", "notion": "probabilistic", "neighbours": "add-remove"}
    )
    assert error_at(page, "neighbours").endswith("; add neighbours replace-one"), "parameters that do not fit together"


def test_a_plan_needs_no_log_and_says_what_an_attacker_may_learn(studio: Serving) -> None:
    draft = studio.new_draft()
    page = studio.save(draft, "promise", {"epsilon": "1", "delta": "1e-6"})
    assert "The release is (1, 1e-06)-differentially private" in page
    assert "right in at most 74 of 100" in page
    assert [page.count(f'class="{kind}"') for kind in ("chance", "gained", "wrong")] == [50, 24, 26]
    page = studio.save(draft, "promise", {"epsilon": "8", "delta": "0.5"})
    assert "right in at most 100 of 100" in page
    studio.save(draft, "what", {"method": "k-query"})
    page = studio.get(f"{draft}/promise")
    assert "NOT differentially private" in page
    assert "Nothing bounds it" in page
    assert 'class="gained"' not in page


@pytest.mark.parametrize("method", METHODS)
def test_the_plan_that_is_shown_is_that_of_the_command_and_of_python(studio: Serving, place: Path, method: str) -> None:
    draft = studio.new_draft()
    studio.save(draft, "what", {"method": method})
    studio.save(draft, "promise", {name: str(value) for name, value in method_named(method).example.items()})
    guess = {"guess-users": "2000", "guess-held": "9"}
    example = {name: str(value) for name, value in method_named(method).example.items()}
    page = studio.save(draft, "promise", {**example, **guess})
    shown = re.search(r'<blockquote class="guarantee[^>]*>(.*?)</blockquote>', page, re.DOTALL)
    assert shown is not None
    command, python = shown_code(page)
    assert method in command
    planned = run(place, *shlex.split(command)[1:])
    assert planned.code == 0, planned.err
    assert html.unescape(shown.group(1)) in planned.out
    assert in_python(place, python).strip() == html.unescape(shown.group(1))


def test_what_is_expected_is_what_the_command_says(studio: Serving, place: Path) -> None:
    draft = studio.new_draft()
    studio.save(draft, "what", {"method": "zealous"})
    page = studio.save(draft, "promise", {"epsilon": "2", "delta": "1e-6", "guess-users": "20000", "guess-held": "20"})
    told = run(place, *shlex.split(shown_code(page)[0])[1:], "--json").json
    until(lambda: "<strong>" in studio.get(f"{draft}/expected"))
    expected = studio.get(f"{draft}/expected")
    assert f"<strong>{round(told['expected_rows']):,}</strong>" in expected
    assert f"about {told['needed_users']['users']:,} users have it" in expected
    assert "the private log was not looked at" in expected
    until(lambda: "hx-get" not in studio.get(f"{draft}/chart"))
    chart = studio.get(f"{draft}/chart")
    assert f"<td>{round(told['expected_rows']):,}</td>" in chart
    assert "not from the log" in chart


def test_how_a_log_is_read_is_shown_and_nothing_that_is_in_it(studio: Serving, place: Path) -> None:
    draft = studio.new_draft()
    studio.save(draft, "log", {"log": "real.tsv"})
    until(lambda: "How it is read" in studio.get(f"{draft}/log"))
    page = studio.get(f"{draft}/log")
    figures = run(place, "inspect", "real.tsv", "--json").json
    shown = re.sub(r"<[^>]+>", " ", page)
    assert "aol" in shown
    for name in ("rows", "queries", "clicks", "submissions", "sessions"):
        assert f"{figures[name]:,}" not in shown
    command, python = shown_code(page)
    told = run(place, *shlex.split(command)[1:], "--json").json
    assert told["columns"] == ["user", "query", "time", "rank", "url"]
    assert in_python(place, python + "\nprint(log.format)").strip() == told["format"] == "aol"

    answer = studio.post(f"{draft}/private", {"kind": "figures", "step": "log"})
    assert answer.status_code == 303
    until(lambda: f"{figures['queries']:,}" in studio.get(f"{draft}/log"))
    page = studio.get(f"{draft}/log")
    framed = page.index('class="private"')
    assert all(page.index(f"<dd>{figures[name]:,}</dd>") > framed for name in ("rows", "queries", "clicks"))
    studio.post(f"{draft}/private", {"kind": "figures", "step": "log", "hide": "yes"})
    assert f"{figures['queries']:,}" not in studio.get(f"{draft}/log")


def test_a_promise_is_about_whom_the_log_tells_apart(studio: Serving, place: Path) -> None:
    """A log of sessions promises nothing about people, on no page."""
    (place / "sessions.csv").write_text((place / "crowd.csv").read_text().replace("user,", "session,"))
    draft = studio.drafted("crowd.csv", ledger="none", out="of-sessions")
    studio.save(draft, "log", {"log": "sessions.csv", "user": "session"})
    until(lambda: "<strong>session</strong>" in studio.get(f"{draft}/log"))
    for step in ("promise", "budget"):
        page = html.unescape(studio.get(f"{draft}/{step}"))
        shown = re.search(r'<blockquote class="guarantee[^>]*>(.*?)</blockquote>', page, re.DOTALL)
        assert shown is not None
        assert "one session's whole history" in shown.group(1)
        assert "one user's" not in page
    assert "whether one session is in the log" in studio.get(f"{draft}/promise")
    studio.released(draft)
    assert "one session's whole history" in html.unescape(studio.get("/results", folder="of-sessions"))


@pytest.mark.parametrize("method", METHODS)
def test_the_promise_of_a_draft_is_that_of_a_plan_with_its_log(studio: Serving, place: Path, method: str) -> None:
    (place / "sessions.csv").write_text((place / "crowd.csv").read_text().replace("user,", "session,"))
    mechanism = build(method, method_named(method).example)
    with_log = mechanism.plan(read_log(place / "sessions.csv", columns={"user": "session"})).guarantee
    draft = studio.new_draft()
    studio.save(draft, "log", {"log": "sessions.csv", "user": "session"})
    until(lambda: "<strong>session</strong>" in studio.get(f"{draft}/log"))
    studio.save(draft, "what", {"method": method})
    example = {name: str(value) for name, value in method_named(method).example.items()}
    assert str(with_log) in html.unescape(studio.save(draft, "promise", example))


def test_what_was_asked_of_the_log_is_gone_when_the_settings_change(studio: Serving) -> None:
    draft = studio.drafted("crowd.csv", ledger="none", epsilon="100")
    studio.post(f"{draft}/private", {"kind": "plan", "step": "promise"})
    until(lambda: "noise scale" in studio.get(f"{draft}/promise").partition('id="private"')[2])
    page = studio.save(draft, "promise", {"epsilon": "50", "delta": "1e-6"})
    private = page.partition('id="private"')[2]
    assert "noise scale" not in private, "figures for another ε"
    assert "Plan with the log" in private
    page = studio.save(draft, "promise", {"epsilon": "x", "delta": "1e-6"})
    assert 'id="private"' in page, "so that what was there is replaced"
    assert studio.http.get(f"{draft}/private/compare").status_code == 404


def test_the_proposed_folder_follows_the_method_until_another_is_typed(studio: Serving) -> None:
    draft = studio.new_draft()
    studio.save(draft, "log", {"log": "crowd.csv"})
    assert 'name="out" value="crowd-weighted"' in studio.get(f"{draft}/budget")
    studio.save(draft, "budget", {"ledger": "none", "out": "crowd-weighted"})
    studio.save(draft, "what", {"method": "votes"})
    assert 'name="out" value="crowd-votes"' in studio.get(f"{draft}/budget")
    studio.save(draft, "budget", {"ledger": "none", "out": "mine"})
    studio.save(draft, "what", {"method": "zealous"})
    assert 'name="out" value="mine"' in studio.get(f"{draft}/budget")


def test_after_a_refused_form_the_language_can_be_changed(studio: Serving) -> None:
    answer = studio.post("/results/evaluate", {"folder": "nowhere"})
    assert answer.status_code == 400
    assert 'name="back" value="/"' in answer.text


def test_a_broken_file_is_told_with_a_remedy(studio: Serving) -> None:
    draft = studio.new_draft()
    studio.save(draft, "log", {"log": "broken.txt"})
    until(lambda: "its format is none I know" in studio.get(f"{draft}/log"))
    assert "or say above how these are to be read" in studio.get(f"{draft}/log")
    studio.save(draft, "budget", {"ledger": "none", "out": "broken-out"})
    page = studio.get(f"{draft}/budget")
    assert "Before this can be paid, finish:" in page
    assert 'name="confirm"' not in page
    assert studio.post(f"{draft}/release", {"fingerprint": "x", "confirm": "1"}).status_code == 200
    assert not list(Path(studio.folder).glob("broken-out"))


@pytest.fixture(scope="module")
def released(studio: Serving, place: Path) -> dict[str, Any]:
    """A release from beginning to end, and the pages on the way."""
    draft = studio.drafted("crowd.csv", epsilon="100", out="shared", counts="users")
    studio.save(draft, "budget", {"ledger": "new", "new_ledger": "account.sqlite", "out": "shared",
                                  "budget_epsilon": "150", "budget_delta": "1e-5"})  # fmt: skip
    budget = studio.get(f"{draft}/budget")
    wrong = [studio.confirm(draft, word).text for word in ("", "99", "100.0")]
    run_page = studio.released(draft, "100")
    return {"draft": draft, "budget": budget, "wrong": wrong, "run": run_page}


def test_only_the_right_word_pays(studio: Serving, place: Path, released: dict[str, Any]) -> None:
    assert "To spend ε = 100, type 100" in released["budget"]
    for page in released["wrong"]:
        assert error_at(page, "confirm").endswith("type 100")
    assert [entry.out for entry in entries(place / "account.sqlite")] == [str(place / "shared")]
    assert "shared is there" in studio.get(released["run"])
    assert "Paid, as entry 1 of account.sqlite" in studio.get(released["run"])


def copied(place: Path, folder: Path) -> Path:
    folder.mkdir()
    for name in ("crowd.csv", "many.csv"):
        (folder / name).write_bytes((place / name).read_bytes())
    return folder


def record(folder: Path) -> dict[str, Any]:
    """What is promised, worked out and named; counts have noise of their own."""
    written: dict[str, Any] = json.loads((folder / "guarantee.json").read_text())
    found = {name: written[name] for name in ("method", "item", "parameters", "guarantee", "counts")}
    table = Release.read(folder).table
    names = [name for name in table.column_names if name not in (*COUNTED, "session", "draws")]
    return found | {"columns": table.column_names, "rows": sorted(map(str, table.select(names).to_pylist()))}


@pytest.mark.parametrize("method", ["weighted", "votes", "zealous", "korolova", "k-query"])
def test_the_release_is_that_of_the_command_and_of_python(
    studio: Serving, place: Path, method: str, tmp_path: Path
) -> None:
    """Taken from the page and run as they stand there. With so large an ε the noise changes no row."""
    is_private = method != "k-query"
    ledger = f"{method}.sqlite" if is_private else ""
    draft = studio.new_draft()
    studio.save(draft, "log", {"log": "many.csv"})
    until(lambda: "How it is read" in studio.get(f"{draft}/log"))
    studio.save(draft, "what", {"method": method})
    studio.save(draft, "what", {"method": method, "counting": "users"})
    studio.save(draft, "promise", {"epsilon": "100", "delta": "1e-6"} if is_private else {"k": "2"})
    form = {"out": f"of-{method}", "table": "parquet" if is_private else "csv"}
    paid = {"ledger": "new", "new_ledger": ledger, "budget_epsilon": "150", "budget_delta": "1e-5"}
    studio.save(draft, "budget", form | (paid if is_private else {"ledger": "none"}))
    command, python = shown_code(studio.get(f"{draft}/budget"))
    run_page = studio.released(draft, "100" if is_private else "0")
    assert shown_code(studio.get(run_page)) == [command, python], "the same while it is made"

    by_command, by_python = copied(place, tmp_path / "command"), copied(place, tmp_path / "python")
    made = run(by_command, *shlex.split(command)[1:])
    assert made.code == 0, made.err
    in_python(by_python, python)
    records = [record(folder / f"of-{method}") for folder in (place, by_command, by_python)]
    assert records[0] == records[1] == records[2]
    assert len(records[0]["rows"]) == (5 if is_private else 1000)
    if is_private:
        assert [entries(folder / ledger)[0].epsilon for folder in (place, by_command, by_python)] == [100.0] * 3


def test_what_is_asked_of_the_private_log_runs_as_printed(
    studio: Serving, place: Path, released: dict[str, Any], tmp_path: Path
) -> None:
    draft = studio.drafted("many.csv", ledger="none", epsilon="100")
    for kind, step in (("figures", "log"), ("plan", "promise"), ("compare", "promise")):
        studio.post(f"{draft}/private", {"kind": kind, "step": step})
    studio.post("/results/evaluate", {"folder": "shared", "log": "crowd.csv"})
    pages = [f"{draft}/log", f"{draft}/promise", "/results?folder=shared"]
    until(lambda: not any('class="working">Working' in private(studio.get(page)) for page in pages))
    commands = [shlex.split(html.unescape(one)) for page in pages for one in COMMAND.findall(private(studio.get(page)))]
    assert [command[1] for command in commands] == ["inspect", "plan", "compare", "evaluate"]
    folder = copied(place, tmp_path / "command")
    copytree(place / "shared", folder / "shared")
    figures, plan, compared, evaluated = (run(folder, *command[1:], "--json").json for command in commands)
    log, promise, result = map(studio.get, pages)
    assert f"<dd>{figures['rows']:,}</dd>" in private(log)
    assert f"<dd>{plan['parameters']['noise_scale']:.6g}</dd>" in private(promise)
    rows = dict(re.findall(r'<th scope="row">([a-z-]+)</th><td>([0-9,]+)</td>', private(promise)))
    assert set(rows) == set(compared["methods"])
    assert rows["weighted"] == str(compared["methods"]["weighted"]["rows"])
    assert private(result).count('<td class="number">') == 2 * len(evaluated["applications"])
    for report in (folder / "comparison.html", folder / "report.html"):
        assert report.is_file()


def test_the_budget_refuses_and_nothing_is_paid(studio: Serving, place: Path, released: dict[str, Any]) -> None:
    draft = studio.drafted("crowd.csv", ledger="account.sqlite", epsilon="60", out="second")
    page = studio.get(f"{draft}/budget")
    assert "budget refused: asked ε = 60" in html.unescape(page)
    assert 'name="confirm"' not in page
    answer = studio.post(f"{draft}/release", {"confirm": "60", "fingerprint": "0"})
    assert answer.status_code == 200
    assert len(entries(place / "account.sqlite")) == 1


def test_a_ledger_of_another_log_refuses_until_it_is_said_to_be_the_same(
    studio: Serving, place: Path, tmp_path: Path
) -> None:
    new_ledger(tmp_path).rename(place / "bound.sqlite")
    studio.released(studio.drafted("crowd.csv", ledger="bound.sqlite", out="bound-first"))
    draft = studio.drafted("many.csv", ledger="bound.sqlite", out="bound-other")
    refused = studio.get(studio.released(draft))
    assert 'data-state="refused"' in refused
    assert "ledger bound.sqlite is the account of another log, or this one has changed since" in refused
    assert "Nothing was paid and nothing was written" in refused
    assert len(entries(place / "bound.sqlite")) == 1
    studio.save(draft, "budget", {"ledger": "bound.sqlite", "out": "bound-other", "same_log": "yes"})
    assert 'data-state="done"' in studio.get(studio.released(draft))
    assert len(entries(place / "bound.sqlite")) == 2


def test_a_ledger_that_is_gone_or_damaged_is_told_at_its_field(studio: Serving, place: Path, tmp_path: Path) -> None:
    new_ledger(tmp_path).rename(place / "gone.sqlite")
    draft = studio.drafted("crowd.csv", ledger="gone.sqlite", out="never")
    assert 'name="confirm"' in studio.get(f"{draft}/budget")
    with (place / "gone.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))
    assert "restore it from a backup" in error_at(studio.get(f"{draft}/budget"), "ledger")
    assert "restore it from a backup" in html.unescape(studio.get("/"))
    (place / "gone.sqlite").unlink()
    page = studio.get(f"{draft}/budget")
    assert error_at(page, "ledger") == "there is no file 'gone.sqlite'; choose one of the list"
    assert 'name="confirm"' not in page
    assert studio.post(f"{draft}/release", {"fingerprint": "x", "confirm": "5"}).status_code == 200
    assert not (place / "never").exists()
    assert not (place / "gone.sqlite").exists()


def test_what_changed_in_another_tab_is_not_confirmed(studio: Serving, place: Path, released: dict[str, Any]) -> None:
    draft = studio.drafted("crowd.csv", ledger="account.sqlite", epsilon="1", out="third")
    seen = re.search(r'name="fingerprint" value="([0-9a-f]+)"', studio.get(f"{draft}/budget"))
    assert seen is not None
    studio.save(draft, "what", {"method": "zealous", "item": "keyword"})
    answer = studio.post(f"{draft}/release", {"fingerprint": seen.group(1), "confirm": "1"})
    assert "changed in another tab" in error_at(answer.text, "confirm")
    assert len(entries(place / "account.sqlite")) == 1


def test_a_release_is_shown_searched_and_downloaded(studio: Serving, place: Path, released: dict[str, Any]) -> None:
    page = studio.get("/results", folder="shared")
    rows = page[page.index('id="rows"') :].partition("</table>")[0]
    assert rows.count('<td class="number">') == 5
    assert "Data card" in page
    assert "license: other" not in page, "what machines read of the card"
    assert "1 of 5 rows" in studio.get("/results", folder="shared", search="00000003")
    assert "No row." in studio.get("/results", folder="shared", search="<script>")
    archive = zipfile.ZipFile(BytesIO(studio.http.get("/results/zip", params={"folder": "shared"}).content))
    assert sorted(archive.namelist()) == sorted(f"shared/{file.name}" for file in (place / "shared").iterdir())
    for file in (place / "shared").iterdir():
        assert archive.read(f"shared/{file.name}") == file.read_bytes()


def test_releases_are_listed_compared_and_planned(studio: Serving, place: Path, released: dict[str, Any]) -> None:
    home = studio.get("/")
    assert '<a href="/results?folder=shared">shared</a>' in home
    assert "ε ≤ 50" in html.unescape(home)
    run(place, "release", "crowd.csv", "--method", "zealous", "--epsilon", "90", "--delta", "1e-6", "--out", "other")
    page = studio.http.get("/compare", params=[("folder", "shared"), ("folder", "other")]).text
    assert "5 in both, 0 in the first alone, 0 in the second alone" in page
    assert studio.http.get("/compare", params=[("folder", "shared")]).status_code == 400
    series = studio.get("/series", ledger="account.sqlite", epsilon="20", delta="1e-6", times="9")
    assert "2 more are paid; release 3 of the series is refused" in series
    assert len(entries(place / "account.sqlite")) == 1
    assert "epsilon must be a number" in html.unescape(studio.get("/series", ledger="account.sqlite", epsilon="x"))


def test_the_page_speaks_german(studio: Serving) -> None:
    own = {"language": "de", "back": "/series"}
    answer = studio.post("/language", own)
    assert (answer.status_code, answer.headers["location"]) == (303, "/series")
    page = studio.get("/series")
    assert '<html lang="de">' in page
    assert "Reihe planen" in page
    for back in ("//evil.example", "https://evil.example", "/\\evil.example", "/enter?token=x"):
        assert studio.post("/language", {"language": "en", "back": back}).headers["location"] == "/"
    assert studio.post("/language", {"language": "xx", "back": "/"}).status_code == 400
