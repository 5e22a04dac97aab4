"""Sampling by several parties: rows of users at individual rates, and nobody knows whose party a row came from."""

from math import log as ln
from pathlib import Path
from typing import Any

import pytest
from consortium import Consortium, NoNoise
from scipy import stats

from searchveil.collab import shuffle
from searchveil.collab.agreement import RunFile
from searchveil.collab.joint import paid_for, plan_for
from searchveil.collab.member import RunFailed
from searchveil.errors import InputError
from searchveil.publish.release import Release

SAMPLING = {"method": "sampling", "item": "click", "delta": 0.5, "time_unit": "none"}
LOGS = {
    name: {
        f"{name}{i}": [*3 * ["weather→w.example"], "news→n.example", f"only {name} {i}→x.example"] for i in range(25)
    }
    for name in "abc"
}
SHARED = {("weather", "w.example"), ("news", "n.example")}


@pytest.mark.slow
def test_rows_of_all_parties_come_out_in_one_table(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 3, settings=SAMPLING)
    outcome = consortium.run(LOGS)
    assert outcome.failed == {}
    folders = [tmp_path / f"out-{name}" for name in consortium.names]
    written = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert written[0] == written[1] == written[2]
    release = Release.read(folders[0])
    rows = release.table.to_pylist()
    assert {(row["query"], row["url"]) for row in rows} == SHARED
    assert {(row["query"], row["url"]) for row in release.tables["vocabulary"].to_pylist()} == SHARED
    people = {row["user"] for row in rows}
    assert people == set(range(1, len(people) + 1))
    # Each of 75 users appears with probability 1 − e^(−b) ≤ 0.5: 20 … 55 but for one run in ten thousand.
    assert 20 <= len(people) <= 55
    assert release.guarantee.delta == 0.5


def test_two_clicks_of_one_user_that_are_alike_are_two_rows() -> None:
    row = ("pseudonym", "weather", "w.example", None, None, 1)
    first, second = shuffle._padded(row, 300), shuffle._padded(row, 300)
    assert first != second
    assert len(first) == len(second) == 300
    assert shuffle._row(first, "a") == shuffle._row(second, "a") == row


def test_delta_is_divided_between_the_choice_of_pairs_and_the_drawing(tmp_path: Path) -> None:
    run = RunFile(Consortium(tmp_path, 3, settings=SAMPLING).text)
    plan = plan_for(run.agreement, run.hash)
    assert plan.settings.selection_delta == 1e-6
    assert plan.settings.exposure_limit == pytest.approx(ln(2), abs=1e-5)
    assert plan.settings.exposure_limit is not None
    assert plan.settings.exposure_limit < ln(2)  # 0.5 − 1e-6 is left for it
    assert plan.settings.padding.delta == 1e-7  # a tenth of what chooses pairs, not of the chance to appear
    assert (paid_for(plan).epsilon, paid_for(plan).delta) == (5.5, 0.5000001)


def test_sampling_is_of_clicks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sampling draws clicks"):
        RunFile(Consortium(tmp_path, 2, settings=SAMPLING | {"item": "query"}).text)


@pytest.mark.slow
def test_a_sealed_row_that_comes_twice_ends_the_run(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings=SAMPLING)
    logs = {name: LOGS[name] for name in "ab"}
    parties = {name: consortium.party(name, logs[name], noise=NoNoise()) for name in consortium.names}
    honest = parties["b"].link.send

    def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
        honest(recipient, phase, topic, payload + payload if topic == "rows" else payload)

    parties["b"].link.send = send  # type: ignore[method-assign]
    outcome = consortium.run(logs, parties=parties)
    outcome.assert_nothing_published()
    for name in consortium.names:
        assert isinstance(outcome.failed[name], RunFailed)
        assert "the same sealed row came twice" in str(outcome.failed[name])


@pytest.mark.slow
def test_a_row_that_is_left_out_is_missed(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, 2, settings=SAMPLING)
    logs = {name: LOGS[name] for name in "ab"}
    parties = {name: consortium.party(name, logs[name], noise=NoNoise()) for name in consortium.names}
    honest = parties["b"].link.send

    def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
        """The last party publishes its own rows alone."""
        honest(recipient, phase, topic, b"" if topic == "all" else payload)

    parties["b"].link.send = send  # type: ignore[method-assign]
    outcome = consortium.run(logs, parties=parties)
    assert "rows of this party are not among those" in str(outcome.failed["a"])
    outcome.assert_nothing_published()


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [True, False])
def test_rows_have_one_size_and_an_order_of_no_meaning(
    mixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places of a's rows among all (rank sum, false alarm 1e-6); without the shuffling the same test finds them."""
    if not mixed:
        monkeypatch.setattr(shuffle, "_shuffled", lambda rows, source: list(rows))
    logs = {name: {f"{name}{i}": [f"only {name} {i}→x.example"] for i in range(60)} for name in "ab"}
    consortium = Consortium(tmp_path, 2, settings=SAMPLING)
    parties = {name: consortium.party(name, logs[name], noise=NoNoise()) for name in "ab"}
    final: list[bytes] = []
    honest = parties["b"].link.send

    def send(recipient: str, phase: Any, topic: str, payload: bytes) -> None:
        if topic == "all":
            final.append(payload)
        honest(recipient, phase, topic, payload)

    parties["b"].link.send = send  # type: ignore[method-assign]
    assert consortium.run(logs, parties=parties).failed == {}
    width = parties["a"].agreement.longest_text + shuffle.BESIDE_TEXT + 2
    assert len(final[0]) % width == 0
    rows = [final[0][i : i + width] for i in range(0, len(final[0]), width)]
    places = {name: [i for i, row in enumerate(rows) if f"only {name}".encode() in row] for name in "ab"}
    assert len(places["a"]) + len(places["b"]) == len(rows)
    assert (stats.mannwhitneyu(places["a"], places["b"]).pvalue > 1e-6) == mixed
