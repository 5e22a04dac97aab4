"""What a simulation and a party show while they run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from searchveil.cli import show
from searchveil.cli.collab import table_of
from searchveil.collab.simulate import Standing
from searchveil.collab.transcript import Transcript


def test_the_live_table_follows_a_transcript(tmp_path: Path) -> None:
    written = Transcript(tmp_path / "a.jsonl")
    standing = Standing("party-a")
    standing.follow(tmp_path / "missing.jsonl")
    assert _shown(standing) == ["party-a", "starting", "0.0", "0", "0"]
    written.phase("blind")
    written.message("sent", "b", "blind", "a", 0, 5_000)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"at": 1.0, "ev')  # a line that is being written
    standing.follow(tmp_path / "a.jsonl")
    assert _shown(standing)[:2] == ["party-a", "blind"]
    assert _shown(standing)[3:] == ["5", "0"]
    (tmp_path / "a.jsonl").write_text((tmp_path / "a.jsonl").read_text().rpartition("\n")[0] + "\n")
    written.message("received", "b", "blind", "b", 0, 7_000_000)
    written.ended("done")
    standing.follow(tmp_path / "a.jsonl")
    assert (_shown(standing)[1], _shown(standing)[3:]) == ("done", ["5", "7,000"])


def _shown(standing: Standing) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=120).print(table_of([standing]))
    return [cell.strip() for cell in text.getvalue().splitlines()[3].strip("│").split("│")]


def test_a_party_tells_of_countable_work_in_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    with show.steps_and_bars() as (step, bar):
        step("blinding queries")
        for done in range(0, 1001, 10):
            bar("blinding its own items", done, 1000)
        bar("sending totals to b", 0, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "… blinding queries"
    assert lines[1:12] == [f"… blinding its own items: {tenth} %" for tenth in range(0, 101, 10)]
    assert lines[12:] == ["… sending totals to b: 0 %"]
