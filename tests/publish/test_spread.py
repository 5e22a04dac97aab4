"""What a card says of the noise in a count is what the noise does: by its distribution, and in true releases."""

from math import exp
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed import keyed
from scipy.stats import binom

from searchveil.collab.joint import JointSettings
from searchveil.engine import Engine
from searchveil.log import SearchLog
from searchveil.privacy.noise_shares import NoiseShare, Padding
from searchveil.publish import METHODS, method_named
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.plan import Selection
from searchveil.publish.release import Release
from searchveil.publish.safelog_click import SafeLogClick
from searchveil.publish.safelog_session import SafeLogSession
from searchveil.publish.spread import gaussian_below, in_words, laplace_below
from searchveil.publish.synthetic.mechanism import Synthetic
from searchveil.publish.votes import Votes
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

USERS = 60  # of an item: enough that it is nearly always published


@given(st.floats(0.05, 500))
def test_the_number_is_the_smallest_that_holds_by_the_definition(scale: float) -> None:
    def above(t: int) -> float:
        p = exp(-1 / scale)
        return 2 * p**t / (1 + p) if t else 1.0

    below = laplace_below(scale)
    assert above(below) <= 0.05 * (1 + 1e-9)
    assert below == 1 or above(below - 1) > 0.05 * (1 - 1e-9)


def test_gaussian_noise_and_the_rounding_of_a_count() -> None:
    assert gaussian_below(10.0) == 21  # 19.6 and a half, rounded up
    assert gaussian_below(0.0) == 1


NOISY: list[tuple[Mechanism, str]] = [  # with a table of counts
    (Weighted(8, 1e-3, item="query"), "data"),
    (Weighted(8, 1e-3, item="query", counts="searches"), "data"),
    (Votes(8, 1e-3, item="query"), "data"),
    (Zealous(0.5, 1e-3, item="query", per_user=1), "data"),
]


@pytest.mark.parametrize(("mechanism", "table"), NOISY, ids=str)
def test_counts_of_a_release_are_off_by_less_in_95_of_100_cases(
    mechanism: Mechanism, table: str, duckdb_engine: Engine
) -> None:
    """Every user holds one item of a group of her own, so true counts are known and nothing is scaled down.

    False alarms: one in a million for each mechanism, by the binomial distribution of what is off by more.
    """
    number = 1500
    rows = pa.table(
        {
            "user": [str(user) for user in range(number * USERS)],
            "query": [f"item {user // USERS}" for user in range(number * USERS)],
        }
    )
    log = SearchLog(duckdb_engine.load(rows), duckdb_engine)
    release = mechanism.release(log, source=keyed(b"noise"))
    counts = release.tables.get(table, release.table)["count"].to_numpy()
    assert len(counts) > 0.9 * number, "else what was selected could decide how far off it is"
    below = mechanism.plan().settings.noise_below[table]
    wrong = int((abs(counts - USERS) >= below).sum())
    assert wrong <= binom.isf(5e-7, len(counts), 0.05)
    # And the number says something: a tenth less would not hold.
    assert int((abs(counts - USERS) >= 0.6 * below).sum()) > binom.ppf(5e-7, len(counts), 0.1)


def test_shares_of_several_parties_are_more_noise_than_one_needs() -> None:
    selection = Selection(3, 4.0, 30)
    settings = JointSettings(
        selection=selection, parties=4, collusion=2, run="", padding=Padding(0.1, 1e-7, 3)
    ).noise_below["data"]
    share, source = NoiseShare(4.0, 2), keyed(b"shares")
    drawn = sum((share.sample(20_000, source) for _ in range(4)), np.zeros(20_000, np.int64))
    wrong = int((abs(drawn) >= settings).sum())
    assert wrong <= binom.isf(5e-7, len(drawn), 0.05)
    assert settings > laplace_below(4.0)
    assert int((abs(drawn) >= settings - 1).sum()) > binom.ppf(5e-7, len(drawn), 0.045)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_with_noisy_counts_says_how_noisy(name: str) -> None:
    mechanism = method_named(name)
    plan = mechanism(**mechanism.example).plan(1000)
    without = name == "sampling" or not plan.guarantee.is_private
    assert bool(plan.settings.noise_below) != without
    assert plan.to_json().get("noise_below", {}) == plan.settings.noise_below


def test_further_tables_have_noise_of_their_own() -> None:
    assert set(SafeLogClick(epsilon=1, delta=1e-6).plan().settings.noise_below) == {"data", "clicks"}
    assert set(SafeLogSession(epsilon=4, delta=1e-4).plan().settings.noise_below) >= {"data"}
    assert set(Synthetic(4, 1e-6).plan().settings.noise_below) == {"queries", "clicks", "transitions"}
    assert Weighted(1, 1e-6, counts="none").plan().settings.noise_below == {}
    assert Votes(1, 1e-6, counts="none").plan().settings.noise_below == {}


def test_in_words() -> None:
    assert in_words({}) == ""
    assert in_words({"data": 12, "clicks": 1300}) == (
        "Noise moves a count by less than 12, less than 1,300 in clicks, in 95 of 100 cases."
    )


@pytest.mark.slow
def test_the_card_the_record_and_the_release_that_is_read_say_the_same(tmp_path: Path, duckdb_engine: Engine) -> None:
    rows = pa.table({"user": [n for n in range(90) for _ in range(2)], "query": ["weather", "news"] * 90})
    release = Weighted(8, 1e-3).release(SearchLog(duckdb_engine.load(rows), duckdb_engine))
    below = release.plan.settings.noise_below
    folder = release.write(tmp_path / "out")
    assert f"**{in_words(below)}**" in (folder / "README.md").read_text()
    assert Release.read(folder).plan.settings.noise_below == below
    again = Release.read(folder).write(tmp_path / "again")
    assert f"**{in_words(below)}**" in (again / "README.md").read_text()
