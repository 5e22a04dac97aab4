"""The audit: every method passes at the promise it makes, every mutant is refuted.

Keys are fixed, so nothing fails by chance on unchanged code. A change that draws anew refutes a right method with a
probability of at most 1 − CONFIDENT in each of the tests that audit one. The parameters of the mutants are such that
other keys refute them too, but no number is promised for that.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf, log
from pathlib import Path

import mutants
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyed import keyed
from scipy.stats import binom

from searchveil.engine import Engine
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.errors import InputError
from searchveil.items import item_named
from searchveil.items.pool import QueryPool
from searchveil.lab.audit import AuditReport, audit
from searchveil.lab.audit.engine import RepeatingEngine
from searchveil.lab.audit.evidence import (
    SCORES,
    Event,
    Finding,
    Runs,
    View,
    choose,
    published_counts,
    ways_to_reach,
)
from searchveil.lab.audit.scenes import Canary, Shape, Stage, Watched, canaries_for, letters
from searchveil.lab.estimate import epsilon_proved
from searchveil.log import SearchLog
from searchveil.publish import METHODS, method_named
from searchveil.publish.k_keyword import KKeyword
from searchveil.publish.k_query import KQuery
from searchveil.publish.k_session import KSession
from searchveil.publish.korolova import Korolova
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.zealous import Zealous

CONFIDENT = 0.999
CANDIDATES = pa.table({"query": ["the auditor"], "url": ["http://brings-her-own.example"]})

# --- methods pass ---------------------------------------------------------------------------------------------------

RIGHT: dict[str, tuple[Mechanism, int]] = {
    "zealous": (Zealous(1.5, 0.05, per_user=1), 120),
    "zealous, usual parameters": (Zealous(1, 1e-6), 24),
    "zealous, two items": (Zealous(1, 0.1, per_user=2, first_threshold=2), 30),
    "zealous, replace-one": (Zealous(1.5, 0.05, per_user=1, neighbours="replace-one"), 30),
    "zealous, probabilistic": (Zealous(2, 0.05, per_user=1, notion="probabilistic"), 30),
    "zealous, indistinguishable": (Zealous(2, 0.05, per_user=1, notion="indistinguishable"), 24),
    "zealous, clicks": (Zealous(1.5, 0.05, per_user=1, item="click"), 24),
    "zealous, pairs": (Zealous(1.5, 0.05, per_user=1, item="pair"), 24),
    "korolova": (Korolova(1.5, 0.05, queries_per_user=1), 60),
    "korolova, users": (Korolova(1.5, 0.05, queries_per_user=2, counting="users"), 24),
    "korolova, as published, clicks": (Korolova(2, 0.05, 1, 1, variant="published", candidates=CANDIDATES), 24),
    "safelog-click": (SafeLogClick(3, 0.05, queries_per_user=2, clicks_per_user=1, transitions=True), 24),
    "safelog-session": (SafeLogSession(2, 0.1, queries_per_session=2, clicks_per_user=1), 24),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_method_is_not_refuted(name: str) -> None:
    mechanism, runs = RIGHT[name]
    report = audit(mechanism, runs=runs, confidence=CONFIDENT, source=keyed(name.encode()))
    assert report.verdict == "not refuted", str(report)
    assert len(report.findings) >= 7
    assert all(finding.runs and finding.runs_of_neighbour for finding in report.findings)


def test_a_right_method_over_a_pool_is_not_refuted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": ["the auditor brings her own"]}), tmp_path / "pool.parquet")
    pool = QueryPool.open(tmp_path / "pool.parquet")
    mechanism = SafeLogClick(epsilon=2, domain="pool", pool=pool, queries_per_user=1, clicks_per_user=0)
    report = audit(mechanism, runs=24, confidence=CONFIDENT, source=keyed(b"pool"))
    assert report.verdict == "not refuted", str(report)
    assert report.guarantee.delta == 0
    unique = next(finding for finding in report.findings if finding.canary == "unique")
    assert not unique.event.startswith("of her items that came out: at least 1"), "outside the pool nothing comes out"


@pytest.mark.parametrize("mechanism", [KQuery(), KSession(), KKeyword()], ids=str)
def test_there_is_nothing_to_audit_where_no_differential_privacy_is_claimed(mechanism: Mechanism) -> None:
    report = audit(mechanism)
    assert report.verdict == "nothing to audit"
    assert "ε is infinite" in str(report)
    assert report.to_json()["claimed_epsilon"] is None
    assert report.runs == 0


def test_a_promise_with_a_hole_is_not_audited_as_if_it_had_none() -> None:
    report = audit(SafeLogClick(1, 1e-3, at_least=3))
    assert report.verdict == "nothing to audit"
    assert "Not covered: which queries the frequency filter removes" in str(report)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_audited_or_has_nothing_to_audit(name: str) -> None:
    if name in {mechanism.method for mechanism, _ in RIGHT.values()}:
        return
    kind = method_named(name)
    mechanism = kind() if name.startswith("k-") else kind(epsilon=1, delta=1e-3)  # type: ignore[call-arg]
    assert audit(mechanism).verdict == "nothing to audit", f"{name} is missing among the right methods"


# --- mutants are refuted --------------------------------------------------------------------------------------------

MUTANTS: dict[str, tuple[Mechanism, int, Sequence[str]]] = {
    "noise halved": (mutants.ZealousNoiseHalved(1.5, 0.05, per_user=1), 240, ["far", "near", "unique"]),
    "threshold one too low": (mutants.ZealousThresholdOneTooLow(2, 0.12, per_user=1), 240, ["unique"]),
    "one item more": (mutants.OneItemMore(2, 1e-3, per_user=1), 270, ["one-more"]),
    "one query more": (mutants.KorolovaOneQueryMore(1.5, 1e-3, queries_per_user=1), 240, ["repeating"]),
    "most popular first": (mutants.TheMostPopularItems(1, 0.01, per_user=1), 75, ["pivot", "far"]),
    "hash that is no secret": (mutants.HashThatIsNoSecret(1, 1e-6, per_user=1), 90, ["favourite", "far"]),
    "float noise": (mutants.FloatNoise(0.5, 0.05, per_user=30), 150, ["near"]),
    "clicks as published": (
        mutants.ClicksAsPublished(0.5, 1e-3, queries_per_user=1, clicks_per_user=1),
        60,
        ["lone-click"],
    ),
}
MORE_MUTANTS: dict[str, tuple[Mechanism, int, Sequence[str]]] = {
    "noise halved, replace-one": (
        mutants.ZealousNoiseHalved(1.5, 0.02, per_user=1, neighbours="replace-one"),
        330,
        ["far"],
    ),
    "float noise on candidates": (
        mutants.FloatNoiseOnCandidates(1, 0.05, 3, 3, candidates=CANDIDATES),
        120,
        ["lone-click"],
    ),
}


def assert_refuted(name: str, mechanism: Mechanism, runs: int, canaries: Sequence[str]) -> None:
    """By the first of the canaries at least, which is the one that was made for it."""
    report = audit(mechanism, runs=runs, canaries=canaries, source=keyed(name.encode()))
    assert report.refuted, str(report)
    assert canaries[0] in report.refuted_by, str(report)
    assert report.epsilon_at_least > report.guarantee.epsilon


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refuted(name: str) -> None:
    assert_refuted(name, *MUTANTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_MUTANTS)
def test_more_mutants_are_refuted(name: str) -> None:
    assert_refuted(name, *MORE_MUTANTS[name])


def test_keeping_a_users_first_items_breaks_nothing() -> None:
    """Any function of a user's own history may choose (docs/guarantees.md, Lemma 1): "first m" is no mutant."""
    mechanism = mutants.TheFirstItems(1.5, 0.05, per_user=1)
    report = audit(mechanism, runs=75, canaries=["far", "one-more", "pivot"], source=keyed(b"first"))
    assert report.verdict == "not refuted", str(report)


# --- the statistics -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "epsilon", "delta"), [(0.9, 1.0, 0.0), (0.5, 0.3, 0.1), (0.3, 2.0, 0.05)])
@pytest.mark.parametrize(("n", "n_other"), [(30, 50), (50, 20)])
def test_the_bound_is_wrong_no_more_often_than_stated(
    p: float, epsilon: float, delta: float, n: int, n_other: int
) -> None:
    """Summed over all outcomes, for probabilities that meet the promise with equality."""
    other, error = (p - delta) * exp(-epsilon), 0.2
    outcomes = ((a, b) for a in range(n + 1) for b in range(n_other + 1))
    wrong = sum(
        float(binom.pmf(a, n, p) * binom.pmf(b, n_other, other))
        for a, b in outcomes
        if epsilon_proved(a, n, b, n_other, delta, error) > epsilon + 1e-12
    )
    assert 0 < wrong <= error


def test_choosing_the_event_costs_nothing() -> None:
    """The whole way from scores to findings, 400 times, for a mechanism that loses exactly the claimed ε at δ = 0.

    Expected: at most 80 of 400 wrong at an error of 0.2; more than 113 have a chance of less than 1e-4.
    """
    epsilon, draw = 1.0, np.random.default_rng(7)
    canary = Canary("far", "", [], [])

    def scores(shift: int, n: int) -> list[dict[str, float]]:
        noise = draw.geometric(1 - exp(-epsilon), n) - draw.geometric(1 - exp(-epsilon), n)
        return [dict.fromkeys(SCORES, float(value)) for value in shift + noise]

    wrong = 0
    for _ in range(400):
        event = choose(Runs(scores(1, 25), scores(0, 25)), 0.0)
        wrong += Finding.of(canary, event, Runs(scores(1, 50), scores(0, 50)), 0.0, 0.2).epsilon_at_least > epsilon
    assert wrong <= 113
    assert binom.sf(113, 400, 0.2) < 1e-4


def test_the_choice_finds_the_event_that_tells() -> None:
    def scores(**values: float) -> dict[str, float]:
        return dict.fromkeys(SCORES, 0.0) | values

    runs = Runs([scores(above=1.0)] * 18 + [scores()] * 2, [scores()] * 18 + [scores(above=1.0)] * 2)
    event = choose(runs, delta=0.01)
    assert (event.score, runs.shares(event)) == ("above", (18, 20, 2, 20))
    rare = Runs([scores(total=5.0)] * 6 + [scores()] * 14, [scores()] * 20)
    assert choose(rare, delta=0.05) == Event("total", 5.0, at_least=True, with_her=True)
    assert choose(Runs([], []), delta=0) == Event("appeared", 1, at_least=True, with_her=True)


def test_a_side_without_runs_proves_nothing() -> None:
    assert epsilon_proved(0, 0, 0, 9, 0.0, 0.05) == epsilon_proved(9, 9, 0, 0, 0.0, 0.05) == 0
    assert epsilon_proved(9, 9, 0, 9, 0.0, 0.05) > 0.6


# --- what the auditor sees ------------------------------------------------------------------------------------------


def test_counts_are_read_from_every_kind_of_table() -> None:
    tables = {
        "data": pa.table({"session": [["a", "b"]], "count": [7]}),
        "clicks": pa.table({"query": ["a"], "url": ["u"], "count": [5.5]}),
        "sampled": pa.table({"user": ["x", "y"], "query": ["q", "q"]}),
    }
    assert published_counts(tables) == {("a", "b"): 7, ("a", "u"): 5.5, ("q",): 2}


def test_the_scores_of_a_release() -> None:
    watched = [Watched(("a",), 10), Watched(("b",), 10), Watched(("c",), 10)]
    place = [Watched(("d",), 3)]
    view = View({("a",): 11, ("b",): 40, ("d",): 4}, watched, place, most=2, scale=1.0)
    assert [view.appeared(), view.above(), view.excess(), view.total(), view.digits()] == [2, 1, 0, 47, 0]


def test_the_digits_of_doubles_tell_the_count_they_were_added_to() -> None:
    """Noise as numpy draws it is reached from its own count always, from the next one often not at all."""
    scale, draw = 10.0, np.random.default_rng(5)
    drawn = [21 + float(noise) for noise in draw.laplace(scale=scale, size=400)]
    assert all(ways_to_reach(value, 21, scale) for value in drawn)
    never = sum(ways_to_reach(value, 20, scale) == 0 for value in drawn)
    assert 40 < never < 120
    view = View({("a",): drawn[0]}, [Watched(("a",), 20)], [], most=1, scale=scale)
    ratio = (ways_to_reach(drawn[0], 21, scale) + 0.1) / (ways_to_reach(drawn[0], 20, scale) + 0.1)
    assert view.digits() == pytest.approx(log(ratio))
    assert replace(view, counts={("a",): inf}).digits() == 0


# --- the logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", ["query", "keyword", "click", "url", "pair"])
def test_a_crowd_has_the_size_that_the_auditor_assumes(item: str, duckdb_engine: Engine) -> None:
    """Counted by the items themselves; nobody in a crowd but the pivot's has more than a user may keep."""
    shape = Shape.of(Zealous(1, 0.01, per_user=3, first_threshold=2, item=item).plan())
    stage = Stage(shape, canaries_for(shape, favourite=4))
    rows = stage.rows()
    kind = item_named(item)

    def counts(slots: set[str]) -> dict[tuple[str, ...], int]:
        chosen = rows.filter(pa.array([slot in slots for slot in rows["slot"].to_pylist()])).drop_columns(["slot"])
        held = kind.of(SearchLog(duckdb_engine.load(chosen), duckdb_engine))
        found: dict[tuple[str, ...], int] = {}
        for row in duckdb_engine.fetch(held).to_pylist():
            key = tuple(row[column] for column in kind.columns)
            found[key] = found.get(key, 0) + 1
        return found

    empty = counts({""})
    assert {canary.name for canary in stage.canaries} == {
        "unique", "near", "far", "one-more", "heavy", "repeating", "pivot", "favourite",
    }  # fmt: skip
    for canary in (stage.bystander, *stage.canaries):
        assert {w.key: empty.get(w.key, 0) for w in canary.watched} == {w.key: w.others for w in canary.watched}
    for canary in stage.canaries:
        there = counts({"", f"+{canary.name}"})
        changed = {key for key in there if there[key] != empty.get(key, 0)}
        assert changed == {w.key for w in canary.watched}
        assert all(there[key] == empty.get(key, 0) + 1 for key in changed)


def test_neighbouring_logs_differ_in_one_user() -> None:
    shape = Shape.of(SafeLogClick(2, 0.05).plan())
    stage = Stage(shape, canaries_for(shape))
    users: dict[str, set[str]] = {}
    for row in stage.rows().to_pylist():
        users.setdefault(row["slot"], set()).add(row["user"])
    crowd = users.pop("")
    for canary in stage.canaries:
        assert users.pop(f"+{canary.name}") == users.pop(f"-{canary.name}") == {f"canary {canary.name}"}
        assert f"canary {canary.name}" not in crowd
    assert not users


def test_names_are_words() -> None:
    assert [letters(i) for i in (0, 25, 26, 27)] == ["a", "z", "ba", "bb"]
    assert len({letters(i) for i in range(2000)}) == 2000


@pytest.mark.parametrize(
    "mechanism",
    [
        Zealous(2, 0.1, per_user=2),
        Zealous(2, 0.1, per_user=2, item="click", notion="probabilistic"),
        Korolova(2, 0.1, 2, 2, candidates=CANDIDATES),
        SafeLogClick(4, 0.1, queries_per_user=2, transitions=True),
        SafeLogSession(2, 0.1, queries_per_session=2, clicks_per_user=2),
    ],
    ids=lambda mechanism: str(mechanism.method),
)
def test_the_auditors_engine_gives_the_usual_release(mechanism: Mechanism) -> None:
    """The same source, the same log: the same tables, in the first run and in later ones."""
    shape = Shape.of(mechanism.plan(1000))
    rows = Stage(shape, canaries_for(shape)).rows().drop_columns(["slot"])
    usual, repeating = DuckDBEngine(), RepeatingEngine()
    source, again = keyed(b"same"), keyed(b"same")
    try:
        for _ in range(3):
            repeating.begin()
            first = mechanism.release(SearchLog(usual.load(rows), usual), source=source)
            second = mechanism.release(SearchLog(repeating.load(rows), repeating), source=again)
            assert first.table.num_rows > 0
            assert {name: table.to_pylist() for name, table in first.tables.items()} == {
                name: table.to_pylist() for name, table in second.tables.items()
            }
    finally:
        usual.close()
        repeating.close()


# --- asking and reading ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return audit(Zealous(1, 0.05, per_user=1), runs=24, canaries=["far", "unique"], source=keyed(b"report"))


def test_the_report_is_plain_json_and_a_text(report: AuditReport) -> None:
    record = json.loads(json.dumps(report.to_json()))
    assert (record["method"], record["claimed_epsilon"], record["claimed_delta"]) == ("zealous", 1, 0.05)
    assert (record["verdict"], record["refuted"], record["runs"]) == ("not refuted", False, 24)
    assert [finding["canary"] for finding in record["findings"]] == ["unique", "far"]
    first, *rest = str(report).splitlines()
    assert first.startswith("zealous claims ε = 1, δ = 0.05 (add-remove); 24 releases prove ε ≥ 0 at that δ")
    assert first.endswith("Not refuted; that is no proof that the claim is true.")
    assert rest[1].startswith("far (whose items many others have): ")


def test_the_same_source_gives_the_same_report(report: AuditReport) -> None:
    again = audit(Zealous(1, 0.05, per_user=1), runs=24, canaries=["far", "unique"], source=keyed(b"report"))
    assert again == report


def test_a_refuted_report_names_the_canary(report: AuditReport) -> None:
    worse = tuple(replace(finding, epsilon_at_least=2.0) for finding in report.findings[:1])
    refuted = replace(report, findings=(*worse, *report.findings[1:]))
    assert (refuted.verdict, refuted.refuted_by, refuted.epsilon_at_least) == ("refuted", ("unique",), 2.0)
    assert "REFUTED by unique." in str(refuted)


def test_progress_is_told() -> None:
    told: list[str] = []
    audit(Zealous(2, 0.1, per_user=1), runs=24, canaries=["unique"], source=keyed(b"p"), progress=told.append)
    assert told[0] == "release 1 of 24"


@pytest.mark.parametrize(
    ("mechanism", "asked", "says"),
    [
        (Zealous(1, 0.1), {"runs": 5}, "at least 24 runs, not 5"),
        (Zealous(1, 0.1), {"confidence": 95}, "a probability, not 95"),
        (
            Zealous(1, 0.1),
            {"canaries": ["lone-click"]},
            "no canary 'lone-click' for this method; there are unique, near",
        ),
        (Zealous(0.01, 1e-9, per_user=40), {}, "more than a million rows"),
    ],
)
def test_senseless_audits_are_refused(mechanism: Mechanism, asked: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        audit(mechanism, **asked)  # type: ignore[arg-type]


def test_a_plan_that_does_not_say_what_a_user_may_change_is_refused() -> None:
    plan = replace(Zealous(1, 0.1).plan(), parameters={"colour": "blue"})
    with pytest.raises(InputError, match="how much a user may change; its parameters are colour"):
        Shape.of(plan)
