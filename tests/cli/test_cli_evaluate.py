"""`searchveil evaluate`: a table, a JSON object, a page beside the folder; and every refusal in one line."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commandline import PLENTY, Outcome, assert_refused, crowd_log, demo_log, everything_in, run, succeed

from searchveil.cli import answer
from searchveil.lab.applications import APPLICATIONS
from searchveil.lab.measures import MEASURES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and a release of its clicks, which the tests only read: all are kept, without much noise."""
    folder = tmp_path_factory.mktemp("evaluate")
    shutil.copy(demo_log(150), folder / "log.tsv")
    asked = ("--method", "zealous", "--item", "click", "--epsilon", "50000", "--delta", "1e-6", "--per-user", "1000")
    assert succeed(folder, "release", "log.tsv", *asked, "--out", "release", "--json").json["rows"] > 5
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def searchveil(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """The command without a new process, for what is refused before any work."""
    monkeypatch.chdir(place)

    def refused(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["searchveil", *arguments])
        with pytest.raises(SystemExit) as stop:
            answer()
        said = capsys.readouterr()
        return Outcome(int(str(stop.value.code)), said.out, said.err)

    return refused


def test_a_table_and_a_page(place: Path) -> None:
    """The example of the help, with a log that has rows to spare."""
    assert "searchveil evaluate release --against log.tsv" in " ".join(succeed(place, "evaluate", "--help").out.split())
    before = everything_in(place)
    outcome = succeed(place, "evaluate", "release", "--against", "log.tsv", "--applications", "index-caching")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Warning: ")
    assert "not covered by the guarantee" in lines[0]
    assert "were published, which are" in lines[1]
    assert lines[2].split() == ["release:", "zealous,", "item", "click", "original", "release"]
    assert "Filling a search engine's cache" in lines
    (hits,) = [line.split() for line in lines if line.startswith("  hit probability")]
    assert 0 <= float(hits[3]) <= float(hits[2]) <= 1, "original, then release"
    (covered,) = [line.split() for line in lines if line.startswith("  the 10 most frequent clicks ")][:1]
    assert covered[5] == "–"
    assert 0 <= float(covered[6]) <= 1
    assert "Left out Users who are still in it: the release has no users." in lines
    assert lines[-1] == "The report is release-report.html; it opens without a network."
    assert "… trying index caching" in outcome.err
    assert everything_in(place) - before == {"release-report.html"}


def test_json_of_everything(place: Path) -> None:
    record = succeed(place, "evaluate", "release/", "--against", "log.tsv", "--json").json
    assert set(record) == {"applications", "measures", "skipped", "in_sample", "warning", "doubt", "report"}
    assert {*record["applications"], *record["measures"], *record["skipped"]} == {*APPLICATIONS, *MEASURES}
    assert {"ad-hoc-search", "site-clustering"} <= set(record["applications"])
    for scores in record["applications"].values():
        assert set(scores) == {"original", "release"}
    assert record["measures"]["coverage"].keys() >= {"click@10", "query@10"}
    assert record["in_sample"] is True
    assert record["report"] == "release-report.html"
    assert (place / record["report"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_other_searches_to_test_on_and_another_place(place: Path) -> None:
    """Half of the users stand for others; bad rows of either log are told."""
    lines = (place / "log.tsv").read_text(encoding="utf-8").splitlines()
    middle = len(lines) // 2
    (place / "other.tsv").write_text("\n".join([lines[0], *lines[middle:], "bad"]) + "\n", encoding="utf-8")
    chosen = ("--applications", "index-caching, session-search", "--test", "other.tsv", "--report", "here.html")
    outcome = run(place, "evaluate", "release", "--against", "log.tsv", *chosen, "--json")
    assert outcome.code == 0, outcome.err
    assert len(outcome.said) == 1
    assert "left out" in outcome.said[0]
    assert "other.tsv" in outcome.said[0]
    assert outcome.json["in_sample"] is False
    assert set(outcome.json["applications"]) == {"index-caching", "session-search"}
    assert outcome.json["report"] == "here.html"
    assert (place / "here.html").exists()
    assert not (place / "release-report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("empty", "--against", "log.tsv"), ("empty is no release folder", "searchveil release")),
        (("nowhere", "--against", "log.tsv"), ("nowhere is no release folder",)),
        (
            ("release", "--against", "log.tsv", "--applications", "telepathy"),
            ("no application 'telepathy'", *APPLICATIONS),
        ),
        (("release", "--against", "log.tsv", "--report", "release/report.html"), ("handed out", "--report")),
        (("release", "--against", "log.tsv", "--report", "nowhere/report.html"), ("nowhere is not a folder",)),
        (("release", "--against", "log.tsv", "--report", "notes.txt"), ("notes.txt exists",)),
        (("release",), ("--against",)),
    ],
)
def test_refusals_come_before_the_work(
    place: Path, searchveil: Callable[..., Outcome], arguments: tuple[str, ...], says: tuple[str, ...]
) -> None:
    (place / "empty").mkdir()
    (place / "notes.txt").write_text("mine")
    before = everything_in(place)
    outcome = searchveil("evaluate", *arguments)
    assert_refused(outcome, *says)
    assert "…" not in outcome.err, "nothing had begun"
    assert everything_in(place) == before
    assert (place / "notes.txt").read_text() == "mine"


def test_a_log_that_cannot_be_read_is_one_line(place: Path) -> None:
    (place / "odd.csv").write_text("colour,smell\nred,rose\n")
    assert_refused(run(place, "evaluate", "release", "--against", "missing.tsv"), "missing.tsv")
    assert_refused(run(place, "evaluate", "release", "--against", "odd.csv"), "odd.csv", "query")
    assert not (place / "release-report.html").exists()


def test_a_damaged_folder_is_one_line(place: Path, searchveil: Callable[..., Outcome]) -> None:
    path = place / "release" / "guarantee.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["guarantee"]
    path.write_text(json.dumps(record))
    outcome = searchveil("evaluate", "release", "--against", "log.tsv")
    assert_refused(outcome, "guarantee.json does not say what was published and promised", "searchveil release")


@pytest.mark.parametrize(
    "asked",
    [
        ("evaluate", "release", "--against", "log.tsv"),
        ("export", "release", "--out", "graph"),
        ("pool", "--release", "release", "--out", "pool.parquet"),
        ("attack", "re-identification", "log.tsv", "--release", "release"),
    ],
    ids=lambda asked: asked[0],
)
def test_a_data_file_that_was_exchanged_is_refused_by_all(
    place: Path, asked: tuple[str, ...], searchveil: Callable[..., Outcome]
) -> None:
    """A table that reads well, with one more row: only the SHA-256 in guarantee.json tells."""
    data = place / "release" / "data.parquet"
    table = pq.read_table(data)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), data)
    before = everything_in(place)
    assert_refused(searchveil(*asked), "data.parquet is not the file that was released", "SHA-256")
    assert everything_in(place) == before


def test_another_log_is_doubted_aloud(tmp_path: Path) -> None:
    log, other = crowd_log(tmp_path), tmp_path / "other.csv"
    succeed(tmp_path, "release", log, *PLENTY, "--out", "release")
    other.write_text(log.read_text().replace("00000003", "something else"))
    asked = ("evaluate", "release", "--applications", "none", "--json", "--against")
    outcome = run(tmp_path, *asked, other)
    assert outcome.code == 0
    (said,) = outcome.said
    assert "1 of 5 published queries are not in the log: the release was made of another log" in said
    assert "00000003" not in said
    assert outcome.json["warning"].startswith(outcome.json["doubt"])
    assert "made of another log" in (tmp_path / "release-report.html").read_text()
    assert succeed(tmp_path, *asked, log).json["doubt"] is None


@pytest.mark.parametrize("tool", ["altair", "vl_convert", "ir_measures", "sklearn"])
def test_without_the_lab_the_command_to_type_is_told(
    searchveil: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setitem(sys.modules, tool, None)  # as if it were not installed
    outcome = searchveil("evaluate", "release", "--against", "log.tsv")
    assert_refused(outcome, tool, "type: ", "install ")


def test_a_log_without_clicks_and_no_application(place: Path) -> None:
    """What the log lacks is left out with the reason, not refused."""
    (place / "plain.csv").write_text("user,query\n" + "".join(f"{user},google\n" for user in range(9)))
    chosen = ("--against", "plain.csv", "--applications", "none", "--json")
    answered = run(place, "evaluate", "release", *chosen)  # it may say that the log is another one
    assert answered.code == 0, answered.err
    outcome = answered.json
    assert outcome["applications"] == {}
    assert outcome["skipped"]["frequent-pairs"] == "the log has no clicks"
    assert outcome["skipped"]["coverage"] == "the log and the release share nothing that it could compare"
