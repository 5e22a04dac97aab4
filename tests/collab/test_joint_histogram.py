"""A joint release: without noise it is the central histogram exactly, and at every party the same."""

from pathlib import Path

import pytest
from consortium import Consortium, NoNoise, counts

from searchveil.collab.agreement import RunFile
from searchveil.collab.joint import plan_for
from searchveil.privacy.noise import Source
from searchveil.publish.release import Release

LOGS = {
    "a": {"u1": ["weather", "news"], "u2": ["weather"], "u3": ["only at a"]},
    "b": {"v1": ["weather", "maps"], "v2": ["news", "ünïcode ☃"]},
    "c": {"w1": ["maps"], "w2": ["weather", "a" * 200], "w3": ["ünïcode ☃"]},
}


@pytest.mark.parametrize("parties", [2, 3])
def test_without_noise_it_is_the_central_histogram(parties: int, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, parties)
    logs = {name: LOGS[name] for name in consortium.names}
    outcome = consortium.run(logs, of_party=lambda name: {"noise": NoNoise()})
    assert outcome.failed == {}
    assert len(outcome.tables) == parties
    for table in outcome.tables.values():
        assert table == counts(logs)


@pytest.mark.slow
def test_every_party_has_the_same_folder(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 3)
    many = {name: {f"{name}{i}": ["weather", "news", f"{name} {i}"] for i in range(60)} for name in consortium.names}
    outcome = consortium.run(many)
    assert outcome.failed == {}
    folders = [consortium.folder / f"out-{name}" for name in consortium.names]
    written = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert written[0] == written[1] == written[2]
    release = Release.read(folders[0])
    assert set(release.table["query"].to_pylist()) == {"weather", "news"}
    assert release.guarantee.trust == "parties"
    assert (release.guarantee.epsilon, release.guarantee.delta) == (5.0, 1e-4)


@pytest.mark.slow
def test_parties_without_any_item_that_can_be_opened(tmp_path: Path) -> None:
    """Every text is too long, and there are no dummies: nothing goes around, and nothing comes out."""
    consortium = Consortium(tmp_path, 2)
    logs = {name: {f"{name}{i}": [f"{i}" * 300] for i in range(2)} for name in "ab"}
    outcome = consortium.run(logs, of_party=lambda name: {"noise": NoDummies()})
    assert outcome.failed == {}
    assert all(table == {} for table in outcome.tables.values())


class NoDummies(NoNoise):
    def dummies(self, source: Source) -> int:
        return 0


@pytest.mark.parametrize("collusion", [0, 1, 2])
def test_the_record_says_for_whom_which_numbers_hold_and_what_nothing_covers(collusion: int, tmp_path: Path) -> None:
    run = RunFile(Consortium(tmp_path, 3, settings={"collusion": collusion}).text)
    plan = plan_for(run.agreement, run.hash)
    holds = {one["who"].partition(" about")[0].rstrip(","): one["epsilon"] for one in plan.parameters["holds_for"]}
    coalition = {f"up to {collusion} of the parties together": 5.5} if collusion else {}
    assert holds == {"outsiders": 5.0, **coalition, "the coordinator alone": None}
    said = "; ".join((*plan.guarantee.unprotected, *plan.guarantee.caveats))
    assert ("nothing holds against a party" in said) == (collusion == 0)
    assert "how many items each party has, dummies among them, and how many of these the parties share" in said
    assert "how long a party took to count its log" in said
    assert "the coordinator together with a party learns who holds the published items" in said
