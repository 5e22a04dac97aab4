"""Votes: what the ballot does, by a slow reading of its rule, and the release from end to end."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed import keyed

import searchveil as sv
from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog
from searchveil.privacy.naming import NamingChance
from searchveil.privacy.noise import Integers
from searchveil.publish import votes
from searchveil.publish.ballot import Ballot
from searchveil.publish.rounds import Holdings
from searchveil.publish.votes import COUNT_UNIT, cast, count_parts, named

LISTS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True), min_size=1, max_size=12)


def ballot(lists: list[list[int]]) -> Ballot:
    items = np.array([item for own in lists for item in own], np.int64)
    return Ballot(items, np.cumsum([len(own) for own in lists]), 5)


def in_turn(lists: list[list[int]], most: int) -> list[int]:
    votes = [0] * 5
    for own in lists:
        item = next((item for item in own if votes[item] < most), None)
        if item is not None:
            votes[item] += 1
    return votes


@given(LISTS, st.integers(1, 4))
def test_users_vote_in_turn_for_the_first_that_takes_votes(lists: list[list[int]], most: int) -> None:
    assert ballot(lists).votes(most).tolist() == in_turn(lists, most)


@given(LISTS, st.integers(1, 3), st.lists(st.integers(-3, 3), min_size=5, max_size=5), st.data())
def test_a_user_changes_one_number_by_one(
    lists: list[list[int]], most: int, noise: list[int], data: st.DataObject
) -> None:
    """In the first vote, and in the second whatever the first one said: `guide` is what both logs published."""
    place = data.draw(st.integers(0, len(lists)))
    hers = data.draw(st.permutations(range(5)).map(lambda order: list(order)[:3]))
    with_her = ballot([*lists[:place], hers, *lists[place:]])
    first = with_her.first_choices() - ballot(lists).first_choices()
    assert sorted(first.tolist()) == [0, 0, 0, 0, 1]
    guide = np.array(noise)
    second = with_her.sorted(guide).votes(most) - ballot(lists).sorted(guide).votes(most)
    assert sorted(second.tolist()) in ([0, 0, 0, 0, 0], [0, 0, 0, 0, 1])


def test_a_guide_puts_the_promising_first() -> None:
    lists = [[0, 1], [0, 1], [1, 2], [3, 1]]
    assert cast(ballot(lists), None, 9).tolist() == [2, 1, 0, 1, 0]
    # First choices 2, 1, 0, 1, 0 and this noise: item 1 is the best of all.
    assert cast(ballot(lists), np.array([0, 5, 0, 0, 0]), 9).tolist() == [0, 4, 0, 0, 0]
    assert cast(ballot(lists), np.array([0, 5, 0, 0, 0]), 2).tolist() == [0, 2, 1, 1, 0]


def test_turns_and_lists_are_uniform() -> None:
    """Of three users with two items each: 6 orders of turns, 8 of lists. Chi-square with 47 degrees, α = 1e-6: 113."""
    users, items = np.repeat(np.arange(3), 2), np.arange(6)
    seen: dict[tuple[int, ...], int] = {}
    source = keyed(b"ballots")
    for _ in range(9_600):
        drawn = tuple(Ballot.drawn(users, items, 6, source).items.tolist())
        seen[drawn] = seen.get(drawn, 0) + 1
    assert len(seen) == 48
    assert sum((n - 200) ** 2 / 200 for n in seen.values()) < 113


def test_every_item_of_somebody_gets_noise_of_the_first_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """One item of 5,000 users, and 9,999 of one: their noise has the variance of the plan, within five deviations."""
    drawn: list[Integers] = []

    def watched(ballot: Ballot, noise: Integers, most: int) -> Integers:
        drawn.append(noise)
        return ballot.votes(most)

    monkeypatch.setattr(votes, "cast", watched)
    users = np.concatenate([np.arange(5_000), np.arange(9_999) % 5_000]).astype(np.int32)
    holdings = Holdings.of(users, np.concatenate([[5_000], np.ones(9_999, np.int64)]))
    selection = sv.Votes(1, 1e-6, guide_share=0.2).plan().settings.votes
    votes.elected(holdings, selection, keyed(b"guide"))
    (noise,) = drawn
    assert selection.guide_scale is not None
    p = np.exp(-1 / selection.guide_scale)
    variance = 2 * p / (1 - p) ** 2
    assert len(noise) == 10_000
    assert abs(noise.var() / variance - 1) < 5 * (5 / 10_000) ** 0.5  # the fourth moment is six times the square
    assert abs(noise.mean()) < 5 * (variance / 10_000) ** 0.5


def test_items_are_named_with_the_chance_of_their_votes() -> None:
    chance = NamingChance(Fraction(1), Fraction(1, 10))
    votes = np.repeat(np.arange(6), 20_000)
    chosen = named(votes, chance, keyed(b"named"))
    assert np.all(np.diff(chosen) > 0)
    shares = np.bincount(votes[chosen], minlength=6) / 20_000
    for n, share in enumerate(shares):
        expected = chance.bounds(n, 64)[0] / 2**64 if n < chance.certain else 1.0
        assert abs(share - expected) <= 5 * (expected * (1 - expected) / 20_000) ** 0.5  # six in ten million a line


@given(st.integers(1, 7), st.integers(0, 60))
def test_nobody_adds_more_to_the_counts_than_the_noise_is_for(counted: int, most: int) -> None:
    parts = count_parts(counted, most)
    assert all(n * part <= counted * COUNT_UNIT for n, part in enumerate(parts))
    assert all(later <= earlier for earlier, later in pairwise(parts))
    assert parts[0] == COUNT_UNIT


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("guide", "counts"), [(0.0, "none"), (0.1, "none"), (0.1, "users"), (0.3, "users")])
def test_the_parts_are_the_whole_budget(neighbours: str, guide: float, counts: str) -> None:
    asked = sv.Votes(0.7, 1e-6, guide_share=guide, counts=counts, neighbours=neighbours)  # type: ignore[arg-type]
    part = asked.plan().settings.votes
    changed = 1 if neighbours == "add-remove" else 2
    spent = changed * part.epsilon
    if part.guide_scale is not None:
        spent += changed / Fraction(part.guide_scale)
    if part.count_scale is not None:
        spent += changed * 3 * COUNT_UNIT / Fraction(part.count_scale)
    assert spent == min(Fraction(0.7), Fraction("0.7"))
    assert changed * part.delta == min(Fraction(1e-6), Fraction("1e-6"))


def test_known_answers() -> None:
    parameters = sv.Votes(1, 1e-6, counts="none", guide_share=0.0).plan().parameters
    assert (parameters["needed_votes"], parameters["most_votes"]) == (14, 17)
    assert "guide_scale" not in parameters
    usual = sv.Votes(1, 1e-6).plan().parameters
    assert (usual["guide_scale"], usual["count_scale"]) == pytest.approx((10, 20))  # in votes, in users


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Item i of 200 users has 400/(i + 1) holders, and everybody has one item more that is hers alone."""
    rows = [(f"u{(7 * i + j) % 400}", f"Query {i}") for i in range(200) for j in range(400 // (i + 1))]
    rows += [(f"u{j}", f"alone {j}") for j in range(400)]
    path = tmp_path_factory.mktemp("votes") / "log.parquet"
    pq.write_table(pa.table({"user": [user for user, _ in rows], "query": [query for _, query in rows]}), path)
    return path


def test_a_release(log: Path) -> None:
    release = sv.Votes(2, 1e-6).release(sv.read_log(str(log)), source=keyed(b"release"))
    table = release.table
    assert table.column_names == ["query", "count"]
    assert 8 <= table.num_rows <= 60
    rows: list[dict[str, Any]] = table.to_pylist()
    counts = {row["query"]: row["count"] for row in rows}
    assert not any(query.startswith("alone") for query in counts)
    assert abs(counts["query 0"] - 400) < 150  # noise of scale 10 users; users of more than three items count less
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_the_engine_makes_no_difference_to_who_is_counted(log: Path) -> None:
    from searchveil.engine import open_engine
    from searchveil.items import QUERY
    from searchveil.publish.rounds import Named
    from searchveil.publish.rounds_in_engine import HeldInEngine
    from searchveil.publish.rounds_in_memory import HeldInMemory
    from searchveil.publish.votes import numbered

    opened = sv.read_log(str(log), engine=open_engine())
    known = []
    for where in (HeldInMemory, HeldInEngine):
        held = where.of(opened, QUERY, None, 1000, keyed(b"who"))
        ids, holdings = numbered(held)
        chosen = Named(ids, np.zeros(0, np.int64))
        texts = held.texts(chosen)["query"].to_pylist()
        totals = held.totals(chosen, count_parts(3, 50))
        known.append(sorted(zip(texts, holdings.degrees.tolist(), totals.tolist(), strict=True)))
    assert known[0] == known[1]


def test_without_counts_the_items_alone_come_out(log: Path) -> None:
    table = sv.Votes(2, 1e-6, counts="none", item="keyword").release(sv.read_log(str(log)), source=keyed(b"bare")).table
    assert table.column_names == ["keyword"]
    assert "query" in table["keyword"].to_pylist()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"counts": "none", "count_share": 0.1}, "measures no counts"),
        ({"guide_share": 0.8, "count_share": 0.2}, "0.1 must be left"),
        ({"counts": "score"}, "users"),
        ({"counted_items": 0}, "counted_items"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sv.Votes(1, 1e-6, **wrong)  # type: ignore[arg-type]


def test_every_engine_names_the_same(engine: Engine) -> None:
    """So little noise that two votes name an item and counts are exact; the item of one user is hidden by δ."""
    rows = [
        ("a", "Shoes"),
        ("b", "shoes "),
        ("c", "shoes"),
        ("c", "shoes"),
        ("d", "maps"),
        ("e", "maps"),
        ("f", "alone"),
    ]
    table = pa.table({"user": [user for user, _ in rows], "query": [query for _, query in rows]})
    asked = sv.Votes(100, 1e-6, count_share=0.5)
    named = asked.release(SearchLog(engine.load(table), engine), source=keyed(b"engines")).table
    assert named.to_pylist() == [{"query": "shoes", "count": 3}, {"query": "maps", "count": 2}]


def test_a_log_without_items_is_an_empty_release(duckdb_engine: Engine) -> None:
    table = pa.table({"user": ["a", "b"], "query": ["  ", ""]})
    for asked in (sv.Votes(1, 1e-6), sv.Votes(1, 1e-6, counts="none", guide_share=0.0)):
        assert asked.release(SearchLog(duckdb_engine.load(table), duckdb_engine)).table.num_rows == 0
