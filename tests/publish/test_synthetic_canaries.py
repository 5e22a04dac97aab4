"""What one user alone has never comes out, in any domain that is not known; without thresholds it would."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine
from searchveil.lab.estimate import lower_end
from searchveil.log import SearchLog
from searchveil.log.demo import planted_personal_queries, write_demo
from searchveil.log.read import read_log
from searchveil.progress import silent
from searchveil.publish.mechanism import Published
from searchveil.publish.rounds import Holdings, Named, select
from searchveil.publish.rounds_in_memory import HeldInMemory
from searchveil.publish.synthetic.budget import CANDIDATES, NOISE_SHARE, Budget, share_of
from searchveil.publish.synthetic.mechanism import Synthetic

METHOD = Synthetic(10.0, 1e-6, from_="2024-03-01", to="2024-05-31")
START = datetime(2024, 3, 1)


def crowd_with_canary(engine: Engine) -> SearchLog:
    """A crowd that shares queries, clicks, transitions and words, and one user with a lone item of each kind."""
    rows: list[tuple[Any, ...]] = []

    def search(user: str, minute: int, query: str, url: str | None = None) -> None:
        rows.append((user, query, START + timedelta(minutes=minute), None if url is None else 1, url))

    for number in range(120):
        user = f"u{number}"
        search(user, 0, "weather", "http://weather.example")
        search(user, 1, "news", "http://news.example")
        for place in range(3):
            search(user, 100 + place, f"cheap flights {'abcdefgh'[place]}{number}", "http://flights.example")
    search("canary", 0, "news", "http://lonepair.example")
    search("canary", 1, "weather")  # after news: a transition that nobody else makes
    search("canary", 50, "canaryquery")
    search("canary", 60, "canaryword flights", "http://loneurl.example")
    search("canary", 70, "flights cheap")  # the words in an order that nobody else has
    names = ("user", "query", "time", "rank", "url")
    types: dict[str, Any] = {"time": pa.timestamp("us"), "rank": pa.int64()}
    table = pa.table({n: pa.array([row[i] for row in rows], types.get(n, pa.string())) for i, n in enumerate(names)})
    return SearchLog(engine.stage(engine.load(table)), engine)


def told(published: Published) -> set[str]:
    """Which canaries the release tells of."""
    record = published.documents["statistics"]
    queries, words = record["queries"], record["words"]
    transitions = {(queries[first], queries[second]) for first, second in record["transitions"]}
    bigrams = {(words[first], words[second]) for first, second in record["bigrams"]}
    pairs = {(queries[number], url) for number, url in record["pairs"]}
    everything = json.dumps(record) + "".join(
        json.dumps(table.to_pydict(), default=str) for table in published.tables.values()
    )
    found = {
        "queries": "canaryquery" in queries,
        "words": "canaryword" in words,
        "urls": "http://loneurl.example" in record["urls"],
        "pairs": ("news", "http://lonepair.example") in pairs,
        "transitions": ("news", "weather") in transitions,
        "bigrams": ("flights", "cheap") in bigrams,
        "any text": any(text in everything for text in ("canaryquery", "canaryword", "lonepair", "loneurl")),
    }
    return {kind for kind, there in found.items() if there}


@pytest.mark.slow
def test_lone_items_of_every_domain_stay_in(duckdb_engine: Engine) -> None:
    log, plan = crowd_with_canary(duckdb_engine), METHOD.plan()
    for number in range(5):
        published = METHOD.publish(log, plan, keyed(f"canary {number}".encode()), silent)
        assert told(published) == set()
        assert {"weather", "news"} <= set(published.documents["statistics"]["queries"])


@pytest.mark.slow
def test_without_thresholds_they_would_come_out(duckdb_engine: Engine) -> None:
    """The control: next to no noise, and in one domain after the other a threshold that one user reaches."""
    log, plan = crowd_with_canary(duckdb_engine), METHOD.plan()
    right = replace(plan.settings.budget, sigma=1e-4)
    for domain in CANDIDATES:
        budget = replace(right, thresholds={**right.thresholds, domain: 0.01})
        careless = replace(plan, settings=replace(plan.settings, budget=budget))
        assert domain in told(METHOD.publish(log, careless, keyed(b"careless"), silent))


RUNS = 300


@pytest.mark.slow
@pytest.mark.parametrize("domain", CANDIDATES)
def test_a_user_of_lone_items_is_named_as_rarely_as_is_promised(domain: str) -> None:
    """She holds as many as may take part. False alarms: one in a million for each domain."""
    budget = Budget.of(1.0, 0.2, "add-remove")
    assert lower_end(named_runs(budget, domain), RUNS, 1e-6) <= allowed(budget, 1.0, 0.2)


@pytest.mark.slow
def test_a_threshold_for_the_whole_account_would_be_too_low() -> None:
    """The mistake: b computed with the σ of the account, not with that of the domain's own share."""
    budget = Budget.of(1.0, 0.2, "add-remove")
    careless = replace(
        budget, thresholds={name: b * float(share_of(name)) ** 0.5 for name, b in budget.thresholds.items()}
    )
    assert lower_end(named_runs(careless, "transitions"), RUNS, 1e-6) > allowed(budget, 1.0, 0.2)


def allowed(budget: Budget, epsilon: float, delta: float) -> float:
    return exp(epsilon) * budget.crossing / len(CANDIDATES) + NOISE_SHARE * delta


def named_runs(budget: Budget, domain: str) -> int:
    """In how many of RUNS any item of a user who holds nothing but lone items is named."""
    n = CANDIDATES[domain]
    lone = Holdings.of(np.zeros(n, np.int32), np.ones(n, np.int64))
    return sum(
        len(
            select(
                lone,
                policy=budget.policy,
                threshold=budget.thresholds[domain],
                sigma=budget.set_sigma(domain),
                account=budget.account(),
                share=share_of(domain),
                source=keyed(f"{domain} {run}".encode()),
            ).items
        )
        > 0
        for run in range(RUNS)
    )


@pytest.mark.slow
def test_planted_queries_and_lone_words_stay_in(
    tmp_path: Path, duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred releases of a demo log, at an ε so large that much is named.

    Two are made from end to end. Of the others only what can name a text is run again, with other noise: the rounds of
    the six domains. The log, what users hold of it and the invented texts are those of the first two.
    """
    path = write_demo(tmp_path / "log.parquet", users=300, seed=3).path
    read = read_log(path, engine=duckdb_engine)
    log = replace(read, table=duckdb_engine.stage(read.table))
    planted = {str(text) for text in planted_personal_queries(300, 3)["query"].to_pylist()}
    holders: dict[str, set[Any]] = {}
    for row in duckdb_engine.fetch(log.table.select("user", "query").distinct()).to_pylist():
        for word in str(row["query"]).lower().split():
            holders.setdefault(word, set()).add(row["user"])
    lone = {word for word, users in holders.items() if len(users) == 1}
    assert planted
    assert lone
    asked: list[tuple[HeldInMemory, dict[str, Any]]] = []
    choose = HeldInMemory.select

    def recorded(held: HeldInMemory, **known: Any) -> Named:
        asked.append((held, known))
        return choose(held, **known)

    monkeypatch.setattr(HeldInMemory, "select", recorded)
    plan = METHOD.plan()
    for number in range(2):
        published = METHOD.publish(log, plan, keyed(f"planted {number}".encode()), silent)
        record = published.documents["statistics"]
        texts = {str(text) for text in published.tables["data"]["query"].to_pylist()}
        assert not planted & (texts | set(record["queries"]))
        assert not lone & {word for text in (*texts, *record["words"], *record["queries"]) for word in text.split()}
    assert len(asked) == 2 * len(CANDIDATES)
    named = 0
    for number in range(2, 200):
        account, source = plan.settings.budget.account(), keyed(f"planted {number}".encode())
        first = number % 2 * len(CANDIDATES)
        for held, known in asked[first : first + len(CANDIDATES)]:
            again = held.texts(choose(held, **known | {"account": account, "source": source}))
            words = {word for column in again.columns for text in column.to_pylist() for word in str(text).split()}
            assert not planted & {str(text) for column in again.columns for text in column.to_pylist()}
            assert not lone & words
            named += again.num_rows
    assert named > 200, "releases of nothing would show nothing"
