"""The promise as a record and as a sentence."""

import json
from dataclasses import replace
from fractions import Fraction
from math import exp, inf, nan, nextafter
from typing import Any, get_args

import pytest

from searchveil.errors import InputError
from searchveil.privacy.guarantee import (
    NEIGHBOURS_IN_WORDS,
    TRUST_IN_WORDS,
    Guarantee,
    Neighbours,
    Relation,
    Trust,
)

PROMISE = Guarantee(
    "approximate", 1.0, 1e-6, "docs/guarantees.md#x", assumed_public=("the pool",), unprotected=("the time of day",)
)
NONE = Guarantee.no_differential_privacy("docs/k-anonymity.md", ("Counts are exact.",))


def test_the_record_has_exactly_these_fields_and_survives_json() -> None:
    record = PROMISE.to_json()
    assert set(record) == {
        "notion",
        "epsilon",
        "delta",
        "unit",
        "neighbours",
        "assumed_public",
        "unprotected",
        "caveats",
        "proof",
        "trust",
    }
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["unit"] == "user"
    assert record["assumed_public"] == ["the pool"]


def test_the_sentence_says_what_who_and_on_what_conditions() -> None:
    sentence = str(PROMISE)
    assert "(1, 1e-06)-differentially private" in sentence
    assert "adding or removing one user's whole history" in sentence
    assert "Taken as public: the pool." in sentence
    assert "Not protected: the time of day." in sentence


@pytest.mark.parametrize(
    ("notion", "words"),
    [
        ("probabilistic", "probabilistically differentially private"),
        ("indistinguishable", "indistinguishable (the same inequality"),
    ],
)
def test_other_notions_are_not_sold_as_differential_privacy(notion: str, words: str) -> None:
    promise = Guarantee(notion, 2.0, 0.25, "x", neighbours="replace-one")  # type: ignore[arg-type]
    assert f"(2, 0.25)-{words}" in str(promise)
    assert "replacing one user's whole history by any other" in str(promise)


def test_no_guarantee_says_so_first() -> None:
    assert str(NONE).startswith("This release is NOT differentially private.")
    assert "Counts are exact." in str(NONE)
    assert not NONE.is_private
    record = NONE.to_json()
    assert (record["notion"], record["epsilon"], record["delta"]) == ("none", None, 1.0), "JSON has no infinity"
    json.dumps(record, allow_nan=False)
    assert NONE.epsilon == inf


def test_replacing_is_removing_and_adding() -> None:
    replaced = PROMISE.under("replace-one")
    assert replaced.neighbours == "replace-one"
    assert replaced.epsilon == 2.0
    assert replaced.delta == pytest.approx((1 + exp(1)) * 1e-6)
    vacuous = Guarantee("approximate", 5.0, 0.1, "x").under("replace-one")
    assert (vacuous.delta, vacuous.is_private) == (1.0, False), "e^5 times 0.1 promises nothing"
    assert str(vacuous).startswith("This release is NOT differentially private. Its δ is 1, which promises nothing.")
    assert replaced.assumed_public == PROMISE.assumed_public


def test_the_same_neighbours_change_nothing_and_the_reverse_is_not_implied() -> None:
    assert PROMISE.under("add-remove") is PROMISE
    assert NONE.under("replace-one") is NONE
    with pytest.raises(ValueError, match="does not imply"):
        PROMISE.under("replace-one").under("add-remove")


def test_a_printed_promise_is_never_smaller_than_the_true_one() -> None:
    assert "(1.00001, 0.000304396)-differentially" in str(replace(PROMISE, epsilon=1.0000004, delta=0.00030439507))


@pytest.mark.parametrize("neighbours", get_args(Relation))
def test_the_sentence_is_about_the_unit(neighbours: Relation) -> None:
    of_sessions = replace(PROMISE, unit="session", neighbours=neighbours)
    assert "one session" in of_sessions.neighbours_in_words
    assert of_sessions.neighbours_in_words in str(of_sessions)
    assert "user" not in str(of_sessions)
    assert set(NEIGHBOURS_IN_WORDS) == set(get_args(Relation))


@pytest.mark.parametrize("notion", ["none", "sampling-step", "conditional"])
def test_what_is_no_promise_about_the_whole_says_so_with_all_that_is_open(notion: str) -> None:
    numbers = {"epsilon": inf, "delta": 1.0} if notion == "none" else {}
    partial = replace(PROMISE, notion=notion, caveats=("Given the filter, it is.",), **numbers)  # type: ignore[arg-type]
    assert not partial.is_private
    assert str(partial) == (
        "This release is NOT differentially private. Given the filter, it is. Taken as public: the pool. "
        "Not protected: the time of day."
    )


def test_mu_is_part_of_the_record_where_it_is_known() -> None:
    known = replace(PROMISE, mu=0.25, mu_delta=1e-7)
    assert Guarantee.from_json(json.loads(json.dumps(known.to_json()))) == known
    assert {**PROMISE.to_json(), "mu": 0.25, "mu_delta": 1e-7} == known.to_json()
    assert known.under("replace-one") == PROMISE.under("replace-one"), "it says nothing about other neighbours"


@pytest.mark.parametrize("neighbours", get_args(Neighbours))
def test_removal_alone_implies_no_other_relation(neighbours: Neighbours) -> None:
    with pytest.raises(ValueError, match="does not imply"):
        replace(PROMISE, neighbours="remove").under(neighbours)


@pytest.mark.parametrize(
    "guarantee", [PROMISE, NONE, replace(PROMISE, trust="nobody")], ids=["private", "not", "trust"]
)
def test_a_record_read_back_is_the_guarantee(guarantee: Guarantee) -> None:
    assert Guarantee.from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"notion": "nonsense"}, "no notion 'nonsense'; there are approximate, probabilistic"),
        ({"neighbours": "cousins"}, "no neighbours 'cousins'; there are add-remove, replace-one, remove"),
        ({"unit": "face"}, "no unit 'face'; there are user, session"),
        ({"trust": "everybody"}, "no trust 'everybody'; there are central, parties, server, nobody"),
        ({"epsilon": -1.0}, "finite epsilon of at least 0 and a delta between 0 and 1, not -1 and 1e-06"),
        ({"epsilon": inf}, "finite epsilon"),
        ({"epsilon": nan}, "finite epsilon"),
        ({"epsilon": "1"}, "the epsilon of a guarantee must be a number, not '1'"),
        ({"epsilon": None}, "must be a number, not None"),
        ({"delta": True}, "the delta of a guarantee must be a number, not True"),
        ({"delta": -1e-9}, "delta between 0 and 1"),
        ({"delta": 7.0}, "delta between 0 and 1"),
        ({"delta": nextafter(1.0, 2.0)}, "for what promises nothing use Guarantee.no_differential_privacy"),
        ({"delta": nan}, "delta between 0 and 1"),
        ({"notion": "none"}, "has an infinite epsilon and delta 1, not 1 and 1e-06"),
        ({"proof": 7}, "are texts"),
        ({"caveats": (7,)}, "are texts"),
    ],
)
def test_nonsense_is_refused_on_creation(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as refusal:
        replace(PROMISE, **wrong)
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError):
        Guarantee("nonsense", -1, 7, "x")  # type: ignore[arg-type]


def test_the_limits_of_what_makes_sense_are_accepted() -> None:
    assert replace(PROMISE, epsilon=0, delta=0).delta == 0
    assert replace(PROMISE, delta=nextafter(1.0, 0.0)).is_private
    assert replace(NONE, trust="parties").epsilon == inf


def test_a_record_from_before_there_was_a_trust_model_means_central() -> None:
    record = replace(PROMISE, trust="parties").to_json()
    assert record.pop("trust") == "parties"
    assert Guarantee.from_json(record) == PROMISE
    assert PROMISE.trust == "central"


@pytest.mark.parametrize(
    "wrong",
    [
        {"notion": "approximate"},
        {**PROMISE.to_json(), "colour": "blue"},
        {**PROMISE.to_json(), "epsilon": None},
        {**PROMISE.to_json(), "delta": "0.1"},
        [],
        None,
    ],
)
def test_what_is_no_record_of_a_guarantee_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="guarantee"):
        Guarantee.from_json(wrong)


def test_the_sentence_says_who_is_trusted_where_it_is_not_the_publisher() -> None:
    assert "rusted" not in str(PROMISE)
    assert "Trusted: each party holds the searches of its own users" in str(replace(PROMISE, trust="parties"))
    nobody = replace(PROMISE, trust="nobody", unit="device")
    assert (
        nobody.trust_in_words == "nobody but the device holds the searches of a device, and nobody is trusted with them"
    )
    assert set(TRUST_IN_WORDS) == set(get_args(Trust))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 0.0), (0.0, 0.25), (8.0, 0.5), (0.0, 0.0)])
def test_the_best_attack_on_randomised_response_is_right_so_often(epsilon: float, delta: float) -> None:
    """One that shows the truth with probability δ, and else lies once in 1 + e^ε times: no (ε, δ) shows more."""
    promise = replace(PROMISE, epsilon=epsilon, delta=delta)
    odds, shown = Fraction(exp(epsilon)), Fraction(delta)
    right = shown + (1 - shown) * odds / (1 + odds)
    assert right * (1 - Fraction(1, 10**14)) <= Fraction(promise.most_often_right) <= right * (1 + Fraction(1, 10**14))


def test_nothing_bounds_an_attacker_where_nothing_is_promised() -> None:
    assert NONE.most_often_right == 1
    assert replace(PROMISE, delta=1.0).most_often_right == 1
    assert replace(PROMISE, neighbours="remove").most_often_right == 1, "the proof needs both directions"
    assert replace(PROMISE, epsilon=800.0).most_often_right == 1
