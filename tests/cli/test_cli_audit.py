"""The audit and the re-identification attack on the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import assert_refused, demo_log

from searchveil.items import ITEMS, Item
from searchveil.log import SearchLog
from searchveil.privacy import noise

AUDIT = ("audit", "--method", "zealous", "--epsilon", "1.5", "--delta", "0.05", "--per-user", "1", "--canary", "near")


@pytest.mark.slow
def test_a_kept_promise_is_not_refuted(searchveil: Any) -> None:
    """With noise of its own: a false alarm once in 14,000 times at most, were the promise kept by nothing to spare."""
    said = searchveil(*AUDIT, "--runs", "120", "--confidence", "0.999", "--json")
    assert said.code == 0, said.err
    assert said.json["verdict"] == "not refuted"
    assert said.json["runs"] == 120
    assert [finding["canary"] for finding in said.json["findings"]] == ["near"]
    assert "… release 1 of 120" in said.err


@pytest.mark.slow
def test_a_broken_promise_ends_with_one(searchveil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is not there at all: the counts themselves are published."""
    monkeypatch.setattr(noise._Table, "draw", lambda self, n, source: np.zeros(n, np.int64))
    said = searchveil(*AUDIT, "--runs", "120")
    assert said.code == 1, said.out
    assert "REFUTED by near" in said.out


def test_there_may_be_nothing_to_audit(searchveil: Any) -> None:
    said = searchveil("audit", "--method", "k-query", "--k", "5")
    assert said.code == 0
    assert "nothing to audit" in said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--canary", "nobody"), "no canary 'nobody'"),
        (("--runs", "3"), "at least 24 runs"),
        (("--runs", "30"), "30 runs cannot refute ε = 1.5: were everything published, they would prove ε ≥ 0.73"),
        (("--confidence", "1"), "confidence"),
        (("--k", "3"), "zealous has no --k"),
    ],
)
def test_what_is_refused(searchveil: Any, arguments: tuple[str, ...], message: str) -> None:
    assert_refused(searchveil(*AUDIT, *arguments), message)


def test_a_synthetic_log_has_canaries_of_its_own(searchveil: Any) -> None:
    asked = ("audit", "--method", "synthetic", "--epsilon", "0.3", "--delta", "0.1", "--canary", "near")
    assert_refused(searchveil(*asked), "no canary 'near' for this method; there are query, pair, transition, word")


@pytest.mark.slow
def test_an_item_that_no_canary_could_be_seen_by_is_refused(searchveil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def days(log: SearchLog) -> Any:
        return log.table.select("user", weekday=log.table["time"].day_of_week.full_name())

    monkeypatch.setitem(ITEMS, "weekday", Item("weekday", ("weekday",), days, needs=("time",)))
    said = searchveil(*AUDIT, "--runs", "60", "--item", "weekday")
    assert_refused(said, "the audit cannot see its canary 'near'")


@pytest.mark.slow
def test_who_knows_three_queries_finds_nobody_in_a_release_of_counts(searchveil: Any) -> None:
    log = demo_log(250)
    assert searchveil("release", log, "--epsilon", "1", "--delta", "1e-6", "--out", "counts").code == 0
    said = searchveil(
        "attack", "re-identification", log, "--release", "counts", "--targets", "50", "--demo-seed", "1", "--json"
    )
    assert said.code == 0, said.err
    assert said.json["before"]["found"] > 0.9
    assert said.json["after"] is None
    assert said.json["planted"] > 0
    assert said.json["planted_published"] == []


def test_a_folder_that_is_no_release_is_refused(searchveil: Any, tmp_path: Path) -> None:
    said = searchveil("attack", "re-identification", demo_log(250), "--release", tmp_path)
    assert_refused(said, "is no release folder")
