"""`searchveil attack k-anonymity` shows on a log that k-anonymity tells on people and ZEALOUS does not."""

from pathlib import Path

import pytest
from commandline import assert_refused, crowd_log, demo_log, run, succeed


@pytest.mark.slow
def test_the_attack_succeeds_on_k_anonymity_and_not_on_zealous(tmp_path: Path) -> None:
    told = succeed(tmp_path, "attack", "k-anonymity", demo_log(), "--k", "4", "--runs", "2", "--json").json
    assert told["k"] == 4
    advantage = {trial["method"]: trial["advantage"] for trial in told["trials"]}
    assert advantage["k-query"] == advantage["k-session"] == advantage["k-keyword"] == 1
    zealous = [trial for trial in told["trials"] if trial["method"] == "zealous"]
    assert zealous[0]["advantage"] == 0
    assert all(trial["advantage_at_most"] < 0.5 for trial in zealous)


@pytest.mark.slow
def test_people_read_who_is_right_how_often(tmp_path: Path) -> None:
    shown = succeed(tmp_path, "attack", "k-anonymity", crowd_log(tmp_path), "--runs", "1", "--guess", "My Secret").out
    assert shown.startswith("Did the victim search 'my secret'?\n")
    assert "k-query, 4 fake accounts" in shown
    assert "zealous" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("--k", "1"), "at least 2", marks=pytest.mark.slow),  # after the demo log is made
        (("--k", "x"), "--k"),
        (("--runs", "0"), "at least 1 run"),
        (("--guess", " "), "guess"),
    ],
)
def test_what_the_attack_refuses(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert_refused(run(tmp_path, "attack", "k-anonymity", crowd_log(tmp_path), *arguments), says)
