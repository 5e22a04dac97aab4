"""Plans as typed values, and the records made from them.

golden/plans.json holds the records as they were when plans were dictionaries; they must not change by themselves. Where
a change of a mechanism is meant to change its plans, `python tests/publish/test_plan.py` writes the file anew.
"""

import json
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyed import keyed

from searchveil.errors import InputError
from searchveil.items.pool import QueryPool
from searchveil.publish import METHODS, method_named
from searchveil.publish.plan import Plan, Recorded, Selection, Settings
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.zealous import Zealous, ZealousSettings

GOLDEN = Path(__file__).parent / "golden" / "plans.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))


def planned(case: Mapping[str, Any], folder: Path) -> Plan:
    options = dict(case["options"])
    for name in ("candidates", "transition_candidates"):
        if name in options:
            options[name] = pa.table(options[name])
    if "pool" in options:
        pq.write_table(pa.table({"query": options["pool"]}), folder / "pool.parquet")
        options["pool"] = QueryPool.open(folder / "pool.parquet")
    return method_named(case["method"])(**options).plan(case["users"])


def same(now: Any, before: Any) -> bool:
    """All that was there is there, in the same order; more may be."""
    if isinstance(before, dict):
        kept = [name for name in now if name in before]
        return kept == list(before) and all(same(now[name], before[name]) for name in before)
    if isinstance(before, float):
        return bool(now == pytest.approx(before, rel=1e-12, abs=0))  # the last digit is the platform's
    return type(now) is type(before) and bool(now == before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['method']} {case['options']}")
def test_the_record_is_what_it_was(case: dict[str, Any], tmp_path: Path) -> None:
    plan = planned(case, tmp_path)
    record = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert same(record, case["plan"]), f"{record} was {case['plan']}"
    assert list(record["parameters"]) == list(case["plan"]["parameters"])
    assert plan.parameters == record["parameters"]


def test_every_method_is_among_the_records() -> None:
    assert {case["method"] for case in CASES} == set(METHODS)


@pytest.mark.parametrize(
    ("now", "before"),
    [({"a": 1}, {"a": 2}), ({}, {"a": 1}), ({"b": 1, "a": 1}, {"a": 1, "b": 1}), ({"a": [1]}, {"a": [2]}), (1, True)],
)
def test_a_record_that_changed_would_be_noticed(now: Any, before: Any) -> None:
    assert not same(now, before)
    assert same(now, now)
    assert same({**now, "new": 1} if isinstance(now, dict) else now, now)


def test_a_plan_cannot_be_changed() -> None:
    plan = Zealous(1, 1e-6).plan()
    for part, name in ((plan, "method"), (plan.settings, "users"), (plan.settings.selection, "threshold")):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, 7)
    dict(plan.parameters)["second_threshold"] = 1
    assert plan.settings.selection.threshold == plan.parameters["second_threshold"] == 76


def test_settings_that_select_cannot_be_made_without_a_selection() -> None:
    with pytest.raises(TypeError, match="selection"):
        ZealousSettings()  # type: ignore[call-arg]


def test_all_selections_can_be_switched_off_together(tmp_path: Path) -> None:
    mechanism = SafeLogClick(epsilon=1, delta=1e-6, transitions=True, fresh_counts=True)
    off = mechanism.plan().settings.switched_off(0.02)
    found = [value for one in fields(off) if isinstance(value := getattr(off, one.name), Selection)]
    assert [(one.noise_scale, one.threshold, one.first_threshold) for one in found] == [(0.02, 0, 0)] * 3
    assert [one.count_scale for one in found] == [0.02, None, None]
    assert off.to_json()["domain"] == "pool+log"


def test_what_is_drawn_before_a_release_is_part_of_its_plan() -> None:
    mechanism = Zealous(2, 0.01, notion="probabilistic")
    plan, source = mechanism.plan(700), keyed(b"seed")
    prepared = mechanism.prepare(plan, source)
    assert prepared.settings.choice_seed == keyed(b"seed").seed()
    assert prepared.parameters == {**plan.parameters, "choice_seed": prepared.settings.choice_seed}
    assert replace(prepared, settings=plan.settings) == plan


def test_a_threshold_at_which_the_papers_epsilon_is_infinite_is_refused() -> None:
    with pytest.raises(InputError, match=r"nothing is promised above 0: .* infinite; raise above"):
        SafeLogSession(noise_scale=1, above=0, variant="published").plan()


def test_a_threshold_that_one_user_reaches_alone_is_not_sold_as_private() -> None:
    guarantee = SafeLogClick(noise_scale=10, above=0).plan().guarantee
    assert (guarantee.delta, guarantee.is_private) == (1.0, False)
    assert str(guarantee).startswith("This release is NOT differentially private. Its δ is 1")


def test_settings_read_back_are_shown_as_they_were_written() -> None:
    written = {"k": 7, "pool_size": 3, "odd": [1, 2]}
    recorded = Recorded.of(written)
    assert recorded.to_json() == written
    assert (recorded.pool_size, recorded.selection) == (3, None)
    assert Settings().to_json() == {}


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        anew = [{**case, "plan": planned(case, Path(folder)).to_json()} for case in CASES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in anew)
    GOLDEN.write_text(f"[\n{lines}\n]\n", "utf-8")
