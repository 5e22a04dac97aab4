"""The active attack: certain against k-anonymity, next to useless against differential privacy."""

import json
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import QUERY
from searchveil.lab.attacks import AttackResult, attack_k_anonymity
from searchveil.lab.attacks.k_anonymity import PERSONAL_QUERY, Target, advantage_allowed
from searchveil.log import SearchLog
from searchveil.privacy.guarantee import Guarantee

K = 4
START = datetime(2024, 3, 1)
QUERIES = ["weather", "weather berlin", "news", "train times", "train tickets", "my secret illness", "cheap flights"]


def small_log(engine: Engine, *, times: bool = True) -> SearchLog:
    """Twelve users; everything but 'my secret illness' (user 5 alone) and 'cheap flights' (3 users) is popular."""
    rows = [(user, QUERIES[i % 5], 40 * i) for user in range(12) for i in range(user, user + 4)]
    rows += [(5, "My secret illness", 3), (5, "weather rome", 4)]
    rows += [(user, "cheap flights", 500) for user in (1, 2, 3)]
    columns: dict[str, Any] = {"user": [user for user, _, _ in rows], "query": [query for _, query, _ in rows]}
    if times:
        columns["time"] = pa.array([START + timedelta(minutes=minute) for _, _, minute in rows], pa.timestamp("us"))
    return SearchLog(engine.load(pa.table(columns)), engine)


def attack(log: SearchLog, guess: str | None = None, runs: int = 1) -> AttackResult:
    return attack_k_anonymity(log, k=K, guess=guess, runs=runs, source=keyed(b"test"))


@pytest.mark.slow
def test_the_attack_is_certain_against_k_anonymity_and_not_against_zealous(duckdb_engine: Engine) -> None:
    log = small_log(duckdb_engine)
    before = sorted(map(str, duckdb_engine.fetch(log.table).to_pylist()))
    result = attack(log, runs=10)

    *baselines, zealous, zealous_at_its_threshold = result.trials
    assert [trial.method for trial in baselines] == ["k-query", "k-session", "k-keyword"]
    for trial in baselines:
        assert (trial.seen_with_victim, trial.seen_without_victim) == (1, 0)
        assert trial.advantage == trial.success == trial.success_at_most == 1
    assert [trial.fake_accounts for trial in baselines] == [K - 1, K, K - 1]

    assert zealous.fake_accounts == K - 1
    assert (zealous.seen_with_victim, zealous.seen_without_victim, zealous.success) == (0, 0, 0.5)
    assert zealous.success_at_most < 0.74
    # Right below the threshold noise decides: published sometimes, with and without the victim.
    assert zealous_at_its_threshold.fake_accounts > 50
    assert 0 < zealous_at_its_threshold.seen_with_victim < 1
    assert 0 < zealous_at_its_threshold.seen_without_victim < 1

    assert result.guess == PERSONAL_QUERY
    assert sorted(map(str, duckdb_engine.fetch(log.table).to_pylist())) == before


@pytest.mark.slow
def test_the_result_is_plain_json_and_a_text(duckdb_engine: Engine) -> None:
    result = attack(small_log(duckdb_engine, times=False))
    read_back = json.loads(json.dumps(result.to_json()))
    assert read_back["guess"] == PERSONAL_QUERY
    assert read_back["k"] == K
    first = read_back["trials"][0]
    assert first["method"] == "k-query"
    assert first["advantage"] == 1
    assert "The attacker is right 100% of the time; nothing forbids it." in str(result).splitlines()[1]


@pytest.mark.slow
@pytest.mark.parametrize("guess", ["my secret  ILLNESS", "cheap flights"])
def test_a_query_of_the_log_is_found_out_even_where_others_share_it(duckdb_engine: Engine, guess: str) -> None:
    result = attack(small_log(duckdb_engine), guess)
    assert [trial.advantage for trial in result.trials[:3]] == [1, 1, 1]


@pytest.mark.slow
def test_what_k_others_search_anyway_tells_nothing_about_the_victim(duckdb_engine: Engine) -> None:
    k_query, _, k_keyword, *_ = attack(small_log(duckdb_engine), "weather").trials
    for trial in (k_query, k_keyword):
        assert trial.fake_accounts == 0
        assert (trial.seen_with_victim, trial.seen_without_victim) == (1, 1)


def test_the_scene_plays_on_every_engine(engine: Engine) -> None:
    target = Target.of(small_log(engine), "my secret illness")
    assert target.victim == "account 5"
    fakes = {"fake account 1", "fake account 2"}
    for with_victim, accounts in [(True, {"account 5", *fakes}), (False, fakes)]:
        searched = QUERY.of(target.with_fakes(2, with_victim=with_victim))
        of_the_guess = engine.fetch(searched.filter(searched["query"] == target.guess))
        assert set(of_the_guess["user"].to_pylist()) == accounts


@pytest.mark.parametrize(("guess", "runs", "says"), [("  ", 1, "has no text"), ("weather", 0, "at least 1 run, not 0")])
def test_senseless_attacks_are_refused(duckdb_engine: Engine, guess: str, runs: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        attack(small_log(duckdb_engine), guess, runs)


def test_k_is_checked_before_anything_is_released(duckdb_engine: Engine) -> None:
    with pytest.raises(InputError, match="at least 2, not 1"):
        attack_k_anonymity(small_log(duckdb_engine), k=1)


@pytest.mark.parametrize(
    ("guarantee", "allowed"),
    [
        (Guarantee("approximate", 0, 0, proof=""), 0),
        (Guarantee("approximate", 0, 0.25, proof=""), 0.25),
        (Guarantee("approximate", 1, 0, proof=""), 0.46211715726),
        (Guarantee("approximate", 50, 0.5, proof=""), 1),
        (Guarantee.no_differential_privacy("", ()), 1),
    ],
)
def test_the_advantage_a_guarantee_allows(guarantee: Guarantee, allowed: float) -> None:
    assert advantage_allowed(guarantee) == pytest.approx(allowed)
