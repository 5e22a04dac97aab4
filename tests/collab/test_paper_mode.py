"""CELS as published: it makes the release it promises, and its outside solver can read everything (erratum C1)."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import log as ln
from typing import Any, get_args

import numpy as np
import pytest
from consortium import Searches, search_log
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.optimize import brentq
from threads import SOLVER, PaperRun, Wire, WireEnd

from searchveil.collab import paper_program
from searchveil.collab.agreement import Agreement, CoordinatorPlace
from searchveil.collab.messages import Refused
from searchveil.collab.opening import encoded
from searchveil.collab.paper import by_one_owner, paper_plan
from searchveil.collab.paper_party import LocalClicks, PaperParty
from searchveil.collab.paper_program import Answer, Transformed
from searchveil.crypto import pohlig_hellman
from searchveil.optimize.certify import Limit, violated
from searchveil.optimize.objectives import Frequent, Goal
from searchveil.optimize.program import ClickCounts
from searchveil.privacy.noise import Source
from searchveil.progress import silent

LOGS: dict[str, Searches] = {
    "a": {
        "a1": [*3 * ["weather→w.example"], "news→n.example", "only a→x.example"],
        "a2": ["weather→w.example", *5 * ["book→b.example"]],
        "a3": ["maps→m.example", "weather→w.example"],
    },
    "b": {
        "b1": [*2 * ["weather→w.example"], *7 * ["news→n.example"]],
        "b2": ["book→b.example", "weather→w.example", "news→n.example", "maps→m.example"],
    },
    "c": {
        "c1": [*4 * ["book→b.example"], "weather→w.example", *2 * ["only c→y.example"]],
        "c2": ["weather→w.example", "news→n.example"],
        "c3": ["only c three→z.example"],
    },
}
SHARED = sorted(encoded([name, f"{name[0]}.example"]) for name in ("weather", "news", "book", "maps"))


def counts_by_hand() -> dict[str, dict[bytes, int]]:
    """Clicks of every user on pairs that several users hold, counted one by one."""
    found: dict[str, dict[bytes, int]] = {}
    for searches in LOGS.values():
        for user, clicks in searches.items():
            for click in clicks:
                pair = encoded(click.split("→"))
                if pair in SHARED:
                    mine = found.setdefault(user, {})
                    mine[pair] = mine.get(pair, 0) + 1
    return found


@pytest.fixture(scope="module")
def ran() -> PaperRun:
    """With the keys of 2048 bits that the command uses."""
    clicks = {name: LocalClicks.of(search_log(searches)) for name, searches in LOGS.items()}
    return PaperRun.of(clicks, by_one_owner(20, 0.9, "kl"))


def test_all_parties_have_the_shared_pairs_and_draw_as_the_counts_say(ran: PaperRun) -> None:
    assert sorted(ran.outcome.pairs) == SHARED
    drawn = np.zeros(len(SHARED), np.int64)
    for _, pair, times in ran.outcome.rows:
        drawn[pair] += times
    assert drawn.tolist() == ran.outcome.draws.tolist()
    assert ran.outcome.draws.sum() > 0
    assert ran.bytes > 0


def test_no_user_is_exposed_beyond_the_limit(ran: PaperRun) -> None:
    held = counts_by_hand()
    users = sorted(held)
    matrix = [(users.index(user), ran.outcome.pairs.index(pair), n) for user in users for pair, n in held[user].items()]
    counts = ClickCounts.of(*zip(*matrix, strict=True))
    assert not len(violated(counts, "multinomial", ran.outcome.draws, by_one_owner(20, 0.9, "kl").b))


def recovered_counts(seen: Transformed) -> tuple[np.ndarray[Any, Any], float]:
    """The attack of erratum C1: every user's count of every pair, and b, from what P0 sees and nothing else.

    t_ij = c_i/(c_i − c_ij), so 1 − e^(−T_ji) = c_ij/c_i, and these add up to 1 over the users of a pair: that gives b.
    """
    shares = seen.conditions()
    most = int(np.argmax(np.count_nonzero(shares, axis=0)))  # any pair would do

    def excess(b: float) -> float:
        return float(-np.expm1(-b * shares[:, most]).sum()) - 1

    b = float(brentq(excess, 1e-12, 1e3, xtol=1e-15, rtol=1e-14))
    return -np.expm1(-b * shares) * np.array(seen.totals, np.float64), b


def test_the_solver_reads_every_count_of_every_user(ran: PaperRun) -> None:
    """Erratum C1: from what P0 sees, up to the order of the pairs; users come party by party."""
    assert ran.solver.seen is not None
    found, b = recovered_counts(ran.solver.seen)
    assert b == pytest.approx(ln(10), rel=1e-9)
    whole = np.rint(found).astype(int)
    assert np.abs(found - whole).max() < 1e-6
    held = counts_by_hand()
    truth = [[held[user].get(pair, 0) for pair in SHARED] for user in sorted(held)]
    assert sorted(map(tuple, whole.T.tolist())) == sorted(zip(*truth, strict=True))


def test_draws_come_back_to_the_pairs_they_were_computed_for(ran: PaperRun) -> None:
    """Columns are told apart by the counts that the attack reads: no two pairs have the same."""
    assert ran.solver.seen is not None
    columns = np.rint(recovered_counts(ran.solver.seen)[0]).astype(int).T.tolist()
    draws = paper_program.solved(ran.solver.seen, "kl", 0.1).draws.tolist()
    held = counts_by_hand()
    at = [columns.index([held[user].get(pair, 0) for user in sorted(held)]) for pair in ran.outcome.pairs]
    assert len(set(draws)) > 1
    assert ran.outcome.draws.tolist() == [draws[i] for i in at]


@pytest.mark.slow
def test_a_solver_that_answers_too_much_exposes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every party judges its own users, exactly: P0 is not trusted with the condition."""

    def greedy(seen: Transformed, goal: Goal, support: float) -> Answer:
        return Answer(np.full(len(seen.totals), 20), None, 0.0)

    monkeypatch.setattr("searchveil.collab.paper_party.solved", greedy)
    clicks = {name: LocalClicks.of(search_log(searches)) for name, searches in LOGS.items()}
    test_no_user_is_exposed_beyond_the_limit(PaperRun.of(clicks, by_one_owner(20, 0.9, "kl")))


def transformed(counts: ClickCounts, b: Limit) -> Transformed:
    """What P0 decrypts of a log, as one party of all users makes it."""
    party = PaperParty(WireEnd(Wire(), "a"), ["a"], SOLVER, LocalClicks([], counts.matrix), b, Source(bytes(32)))
    columns, slack, right = party._products(counts.matrix, counts.totals, counts.users)
    products, slack = ([column[:-1] for column in block] for block in (columns, slack))
    return Transformed(products, slack, right[:-1], [column[-1] for column in columns])


def many_clicks(users: int, pairs: int, seed: int) -> ClickCounts:
    chance = np.random.default_rng(seed)
    matrix = chance.poisson(np.linspace(0.05, 1.5, pairs), (users, pairs))
    matrix[0], matrix[1] = np.maximum(matrix[0], 1), np.maximum(matrix[1], 1)  # nobody holds a pair alone
    return ClickCounts(sparse.csr_array(matrix.astype(np.int64)))


@pytest.mark.slow
@pytest.mark.parametrize("goal", get_args(Goal))
@pytest.mark.parametrize("seed", range(3))
def test_the_solver_knows_every_objective_of_the_optimiser(goal: Goal, seed: int) -> None:
    """P0's draws of the transformed program beside the optimiser's of the log itself: as good, and as private."""
    counts, rule = many_clicks(40, 12, seed), by_one_owner(2, 0.9, goal, 0.1)
    answer = paper_program.solved(transformed(counts, rule.b), goal, 0.1)
    assert not len(violated(counts, "multinomial", answer.draws, rule.b))
    size, largest = rule._output_size(counts, silent)
    theirs = rule._certified(counts, rule._solved(counts, size, largest, silent))
    assert theirs.sum() > 0
    assert answer.output_size == (None if size is None else int(size))
    if goal == "diversity":  # solved to the end, both
        assert answer.draws.max() == 1
        assert answer.draws.sum() == theirs.sum() == answer.upper_bound // 1
        return
    objective = rule._objective(counts, size)
    nothing, ours, best = (
        objective.value(np.asarray(x, np.float64)) for x in (np.zeros(counts.pairs), answer.draws, theirs)
    )
    assert ours <= answer.upper_bound + 1e-9
    assert ours - nothing >= 0.85 * (best - nothing)  # P0 rounds and fills, and does not search
    if isinstance(objective, Frequent):
        assert 0 < objective.frequent.sum() < counts.pairs
        assert (answer.draws[~objective.frequent] < 0.1 * answer.draws.sum()).all()


def test_a_support_that_no_pair_has_ends_the_run() -> None:
    counts, rule = many_clicks(40, 12, 1), by_one_owner(2, 0.9, "frequent", 0.9)
    with pytest.raises(Refused, match=r"no shared pair holds 0\.9 of all clicks: agree on a smaller support"):
        paper_program.solved(transformed(counts, rule.b), "frequent", 0.9)


def test_the_draws_of_a_pair_fall_to_parties_as_one_multinomial_draw() -> None:
    """Erratum C3: 4,000 pairs of two draws each, whose clicks are 1, 1 and 2 of 4; a false alarm in 10,000 seeds.

    And where an arc begins is a uniform number to its party.
    """
    pairs, held = 4000, (1, 1, 2)
    wire, ring = Wire(), ["a", "b", "c"]
    totals, draws = np.full(pairs, 4), np.full(pairs, 2)
    nothing = LocalClicks([], None)
    parties = [
        PaperParty(WireEnd(wire, name), ring, SOLVER, nothing, 1.0, Source(bytes([i]) * 32))
        for i, name in enumerate(ring)
    ]
    starts: dict[str, Any] = {}
    put = wire.put

    def listening(sender: str, to: str, phase: str, topic: str, payload: bytes) -> None:
        if topic == "arc":
            starts[to] = json.loads(payload)
        put(sender, to, phase, topic, payload)

    wire.put = listening  # type: ignore[method-assign]
    with ThreadPoolExecutor(3) as pool:
        split = list(pool.map(lambda i: parties[i]._split(np.full(pairs, held[i]), totals, draws), range(3)))
    joint = Counter(zip(*(one.tolist() for one in split), strict=True))
    chances = {
        (i, j, 2 - i - j): stats.multinomial.pmf([i, j, 2 - i - j], 2, [0.25, 0.25, 0.5])
        for i in range(3)
        for j in range(3 - i)
    }
    assert set(joint) <= set(chances)
    observed = [joint[one] for one in chances]
    assert stats.chisquare(observed, [pairs * chance for chance in chances.values()]).pvalue > 1e-4
    assert set(starts) == {"b", "c"}
    for seen in starts.values():
        assert stats.chisquare(np.bincount(seen, minlength=4)).pvalue > 1e-4


def test_what_the_solver_sees_is_no_plain_count(ran: PaperRun) -> None:
    """The attack has something to undo: A is dense, so a user who does not hold a pair has no 0 there."""
    assert ran.solver.seen is not None
    assert all(entry > 2**32 for column in ran.solver.seen.products for entry in column)


def test_no_shared_pair_is_an_empty_output() -> None:
    logs: dict[str, Searches] = {name: {f"{name}{i}": [f"{name}{i}→x"] for i in range(2)} for name in "ab"}
    clicks = {name: LocalClicks.of(search_log(searches)) for name, searches in logs.items()}
    outcome = PaperRun.of(clicks, by_one_owner(2, 0.5, "size")).outcome
    assert (outcome.pairs, outcome.rows, outcome.users) == ([], [], 0)


@pytest.mark.slow
def test_a_party_without_clicks_takes_part() -> None:
    clicks = {name: LocalClicks.of(search_log(LOGS[name])) for name in "ab"}
    nothing = LocalClicks([], sparse.csr_array((0, 0), dtype=np.int64))
    outcome = PaperRun.of({**clicks, "c": nothing}, by_one_owner(20, 0.9, "size")).outcome
    assert sorted(outcome.pairs) == SHARED
    assert outcome.users == 5


def test_an_error_of_one_party_ends_all() -> None:
    clicks = {name: LocalClicks.of(search_log(searches)) for name, searches in LOGS.items()}
    broken = LocalClicks([*clicks["b"].pairs, b"x" * 1000], clicks["b"].matrix)
    with pytest.raises(ValueError, match="1000 bytes"):
        PaperRun.of({**clicks, "b": broken}, by_one_owner(20, 0.9, "kl"))


def test_the_record_names_what_is_not_protected() -> None:
    shown = [f"sha256:{i:064x}" for i in range(4)]
    place = CoordinatorPlace(address="localhost:1", certificate=shown[0])
    parties = dict(zip("abc", shown[1:], strict=True))
    plan = paper_plan(Agreement(mode="paper", epsilon=1, delta=0.5, coordinator=place, parties=parties), "0" * 64)
    assert (plan.guarantee.notion, plan.guarantee.trust) == ("sampling-step", "central")
    assert not plan.guarantee.is_private
    said = str(plan.guarantee)
    assert "the outside solver P0, which is the coordinator, can compute every count" in said
    assert "(C1)" in said
    assert "(C2)" in said
    assert plan.settings.exposure_limit == 0.5  # ε/2, below ln 2


@settings(max_examples=50)
@given(st.binary(max_size=pohlig_hellman.LONGEST))
def test_a_text_can_be_read_off_its_group_element(text: bytes) -> None:
    assert pohlig_hellman.from_group(pohlig_hellman.check(pohlig_hellman.to_group(text))) == text
