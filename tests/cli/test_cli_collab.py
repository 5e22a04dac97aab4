"""Joint releases from the command line: folders, run files, and a simulation of real processes."""

from pathlib import Path
from typing import Any

import pytest
from commandline import PLENTY, assert_refused, crowd_log, demo_log, run, succeed

from searchveil.publish.release import Release

SIMULATE = ("collab", "simulate")
PAPER = ("--mode=paper", "--epsilon", "1", "--delta", "0.5", "--out", "o")
ASKED = ("--parties", "3", "--method", "zealous", "--item", "query", "--epsilon", "5", "--delta", "1e-4")


@pytest.mark.slow
def test_a_simulation_as_scripts_ask_for_it(tmp_path: Path) -> None:
    said = succeed(tmp_path, *SIMULATE, demo_log(), *ASKED, "--per-user", "3", "--out", "joint", "--json").json
    assert {"rows", "central_rows", "local_rows", "seconds", "bytes"} <= set(said)
    assert len(said["local_rows"]) == 3
    release = Release.read(tmp_path / "joint")
    assert release.table.num_rows == said["rows"]
    assert release.guarantee.trust == "parties"
    assert (release.guarantee.epsilon, release.guarantee.delta) == (5.0, 1e-4)
    assert succeed(tmp_path, "verify", "joint").code == 0
    assert next(one["who"] for one in release.plan.parameters["holds_for"]) == "outsiders"
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.slow
def test_what_everybody_searched_comes_out_of_a_joint_release(tmp_path: Path) -> None:
    log = crowd_log(tmp_path, users=30, queries=2)
    told = run(tmp_path, *SIMULATE, log, "--parties", "2", *PLENTY[2:], "--per-user", "2", "--out", "joint")
    assert told.code == 0, told.err
    assert "2 rows in joint: a joint release of 2 parties" in told.out
    counts = Release.read(tmp_path / "joint").table["count"].to_pylist()
    assert all(abs(count - 30) < 10 for count in counts if count is not None)


@pytest.mark.slow
def test_paper_mode_warns_on_screen_and_in_the_record(tmp_path: Path) -> None:
    rows = [f"{user}\t{query}\t{query}.example" for user in range(12) for query in ("news", "weather")]
    (tmp_path / "log.tsv").write_text("\n".join(["user\tquery\turl", *rows]) + "\n")
    asked = ("--mode", "paper", "--parties", "2", "--epsilon", "3", "--delta", "0.5", "--out", "joint")
    told = run(tmp_path, *SIMULATE, "log.tsv", *asked, "--json")
    assert told.code == 0, told.err
    assert "warning: Paper mode does not keep the parties' logs from each other" in told.err
    assert {"rows", "central_rows", "local_rows", "seconds", "bytes"} <= set(told.json)
    release = Release.read(tmp_path / "joint")
    assert release.table.num_rows == told.json["rows"]
    counts, draws = release.to_pandas()["count"], release.to_pandas("rates")["draws"]
    assert draws.sum() == counts.sum() > 0
    assert release.guarantee.notion == "sampling-step"
    assert any("P0, which is the coordinator, can" in caveat for caveat in release.guarantee.caveats)
    assert any("(C2)" in fact for fact in release.guarantee.unprotected)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("size",), ("diversity",), ("frequent", "--support", "0.1")])
def test_paper_mode_has_the_objectives_of_the_optimiser(asked: tuple[str, ...], tmp_path: Path) -> None:
    rows = [f"{user}\t{query}\t{query}.example" for user in range(12) for query in ("news", "weather")]
    (tmp_path / "log.tsv").write_text("\n".join(["user\tquery\turl", *rows]) + "\n")
    given = ("--mode", "paper", "--parties", "2", "--epsilon", "3", "--delta", "0.5", "--out", "joint")
    told = run(tmp_path, *SIMULATE, "log.tsv", *given, "--objective", *asked, "--json")
    assert told.code == 0, told.err
    parameters = told.json["plan"]["parameters"]
    assert parameters["objective"] == asked[0]
    assert parameters.get("support") == (0.1 if asked[0] == "frequent" else None)
    draws = Release.read(tmp_path / "joint").to_pandas("rates")["draws"]
    assert draws.sum() > 0
    assert asked[0] != "diversity" or set(draws) == {1.0}
    assert succeed(tmp_path, "verify", "joint").code == 0


@pytest.mark.slow
def test_folders_are_made_and_certificates_pinned(tmp_path: Path, searchveil: Any) -> None:
    first = searchveil("collab", "init", "a", "--name", "library-a", "--json").json
    second = searchveil("collab", "init", "b", "--name", "library-b", "--json").json
    assert set(first["certificates"]) == {"library-a"}
    pinned = searchveil("collab", "init", "a", "--pin", "b/certificate.pem", "--json").json
    assert pinned["certificates"]["library-b"] == second["certificates"]["library-b"]
    assert (tmp_path / "a" / "pinned" / "library-b.pem").exists()
    assert 'library-b = "sha256:' in searchveil("collab", "init", "a", "--pin", "b/certificate.pem").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("init", "a"), "--name"),
        (
            ("init", "nowhere", "--pin", "x.pem"),
            "no certificate.pem; make one: searchveil collab init nowhere --name NAME",
        ),
        (("init", "a", "--name", "Bad Name"), "small letters"),
        (("coordinator", "--run", "missing.toml", "--folder", "a"), "missing.toml cannot be read"),
        (("coordinator", "--run", "bad.toml", "--folder", "a"), "bad.toml, line 2: epsilon"),
        (("coordinator", "--run", "unknown.toml", "--folder", "a"), "unknown.toml, line 1: epsilom"),
        (
            ("simulate", "log.tsv", "--parties", "1", "--epsilon", "1", "--delta", "1e-6", "--out", "o"),
            "2 to 26 parties",
        ),
        (
            ("coordinator", "--run", "paper.toml", "--folder", "a"),
            "paper.toml, line 2: per_user: is for the private mode; leave it out",
        ),
        (("simulate", "log.tsv", *PAPER[1:], "--mode", "papier"), "there are private, paper"),
        (("simulate", "log.tsv", *PAPER[1:], "--objective", "kl"), "objective: is for the paper mode"),
        (("simulate", "log.tsv", *PAPER, "--per-user", "3"), "per_user: is for the private mode"),
        (("simulate", "log.tsv", *PAPER, "--objective", "best"), "'size', 'frequent', 'diversity' or 'kl'"),
        (("simulate", "log.tsv", *PAPER[1:], "--support", "0.1"), "support: is for the paper mode"),
        (("simulate", "log.tsv", *PAPER, "--support", "0.1"), 'support: is for the objective "frequent"'),
        (("simulate", "log.tsv", *PAPER, "--delta", "0"), "delta: Input should be greater than 0"),
        (("coordinator", "--run", "read.toml", "--folder", "a"), "read.toml, line 1: normalize: there is no 'lower'"),
        (("simulate", "log.tsv", *PAPER[1:], "--collusion", "3"), "collusion: at most 2 of 3 parties"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path, searchveil: Any
) -> None:
    place = '[coordinator]\naddress = "localhost:1"\ncertificate = "sha256:' + "0" * 64 + '"\n[parties]\n'
    place += "".join(f'{name} = "sha256:{digit * 64}"\n' for name, digit in (("a", "1"), ("b", "2")))
    (tmp_path / "bad.toml").write_text("delta = 1e-6\nepsilon = -1\n" + place)
    (tmp_path / "unknown.toml").write_text("epsilom = 1\ndelta = 1e-6\nepsilon = 1\n" + place)
    (tmp_path / "paper.toml").write_text('mode = "paper"\nper_user = 3\ndelta = 1e-6\nepsilon = 1\n' + place)
    (tmp_path / "read.toml").write_text('normalize = "lower"\ndelta = 1e-6\nepsilon = 1\n' + place)
    (tmp_path / "log.tsv").write_text("user\tquery\na\tb\n")
    assert_refused(searchveil("collab", *arguments), says)
