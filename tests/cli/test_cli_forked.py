"""A forked command is what a new one is, so that tests may use either."""

from pathlib import Path

import pytest
from commandline import COMMAND, crowd_log, environment, run, run_anew
from forked import fork_server

ASKED = {
    "help": ("--help",),
    "a result": ("plan", "--epsilon", "1", "--delta", "1e-6", "--json"),
    "progress": ("inspect", "crowd.csv"),
    "a refusal": ("release", "missing.tsv", "--epsilon", "1", "--delta", "1e-6", "--out", "out"),
    "a wrong option": ("plan", "--frobnicate"),
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_it_says_and_leaves_the_same(tmp_path: Path, asked: tuple[str, ...]) -> None:
    crowd_log(tmp_path)
    assert run(tmp_path, *asked) == run_anew(tmp_path, *asked)
    assert {path.name for path in tmp_path.iterdir()} == {"crowd.csv", "scratch"}
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.slow
def test_one_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    argv = [COMMAND, "demo", "--users", "10000000", "--out", str(tmp_path / "log.tsv")]
    with pytest.raises(AssertionError, match="hangs"):
        fork_server().run(argv, tmp_path, environment(tmp_path), 1)
    assert run(tmp_path, "--version").code == 0
