"""The CrowdLogging paper's figures 3 to 5 and its pilot, on the demo log, by the crowd's own central computation.

    python experiments/crowd.py --users 5000

Prints the tables of docs/experiments/crowd.md. Figures of a private log, were it one: do not publish them.
"""

import argparse
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

from searchveil.crowd.aggregate import publish
from searchveil.crowd.artifacts import Search, normal
from searchveil.crowd.choice import central, chance_of_publishing
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy, PolicyName, make_policy
from searchveil.crowd.simulate import users_of
from searchveil.engine import open_engine
from searchveil.log import SearchLog
from searchveil.log.demo import write_demo
from searchveil.log.read import read_log
from searchveil.log.sessions import GAP_MINUTES
from searchveil.privacy.noise import Source
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

Users = Mapping[str, Sequence[Search]]
KS = (5, 7, 10, 14, 20, 30, 50)
EPSILON = log(10)
RUNS = 10  # of a central release
EXACT: tuple[PolicyName, ...] = ("FT_a", "FT_u")
NOISY: tuple[PolicyName, ...] = ("DP_a", "DP_u")


def job(policy: Policy) -> Job:
    return Job("experiment", "query", policy, 0, "", "", "", 0, 1)


def released(users: Users, policy: Policy) -> dict[str, int]:
    """What comes out, with the noise of a fixed key."""
    secrets = ((hashlib.sha256(name.encode()).digest(), searches) for name, searches in users.items())
    made = publish(job(policy), central(job(policy), secrets), source=Source(bytes(32)))
    rows: list[dict[str, Any]] = made.table.to_pylist()
    return {row["query"]: row["count"] for row in rows}


def published_d(k: int, delta: float, per_artifact: bool) -> int:
    """The largest d that the paper's formula allows at this k; 0 if none."""
    d = 0
    while k >= ((d + 1) if per_artifact else 1) - (d + 1) * log(2 * delta / (d + 1)) / EPSILON:
        d += 1
    return d


def by_sessions(users: Users) -> dict[str, list[Search]]:
    """Each session as a user of its own: what the MSN log of figure 4 has."""
    found: dict[str, list[Search]] = {}
    for name, searches in users.items():
        number, last = 0, None
        for one in sorted(searches, key=lambda one: one.time or 0):
            if last is not None and (one.time or 0) - last > 60 * GAP_MINUTES:
                number += 1
            last = one.time or 0
            found.setdefault(f"{name} {number}", []).append(one)
    return found


def figure(users: Users, whose: Sequence[str] | None = None) -> list[list[str]]:
    """Per cent of all impressions that are released, or of the distinct queries of one user."""
    delta = 1 / (len(users) + 1)
    impressions = Counter(normal(query) for rows in users.values() for query, _ in {(r.query, r.time) for r in rows})
    counted: dict[tuple[PolicyName, int], dict[str, int]] = {}

    def opened(name: PolicyName, per_user: int) -> dict[str, int]:
        """Exact counts from 2 on: one pass serves every k."""
        if (name, per_user) not in counted:
            secrets = ((b"", searches) for searches in users.values())
            found = central(job(Policy(name, 2, per_user)), secrets)
            counted[name, per_user] = {one.text: one.count for one in found}
        return counted[name, per_user]

    def share(texts: set[str]) -> str:
        if whose is not None:
            return f"{100 * len(texts & set(whose)) / len(set(whose)):.1f}"
        return f"{100 * sum(impressions[text] for text in texts) / impressions.total():.1f}"

    rows = []
    for k in KS:
        row = [str(k)]
        for name in EXACT:
            row.append(share({text for text, n in opened(name, 1000).items() if n >= k}))
        for name in NOISY:
            d = published_d(k, delta, name == "DP_a")
            if d == 0:
                row += ["–", "–"]
                continue
            at_k = {text for text, n in opened(name, d).items() if n >= k}  # as published, without the noise
            true = make_policy(name, k=k, per_user=d, epsilon=EPSILON, delta=delta)
            row += [f"{share(at_k)} (d {d})", f"{share(set(released(users, true)))} (T {true.threshold})"]
        rows.append(row)
    return rows


def expected(users: Users, policy: Policy) -> float:
    """How many queries come out on average over coins and noise, by the policy's own law."""
    every = replace(policy, name="FT_u", k=2, p=1.0)
    secrets = ((b"", searches) for searches in users.values())
    return sum(chance_of_publishing(policy, one.count) for one in central(job(every), secrets))


def costs(users: Users, log_read: SearchLog) -> list[list[str]]:
    """Queries released on average at equal (ε, δ): exactly for the crowd, of RUNS releases for the central ones."""
    rows = []
    for epsilon in (1.0, 2.0):
        for p in (0.1, 0.2, 0.3, 0.5):
            policy = make_policy("ST_u", epsilon=epsilon, delta=1e-6, p=p)
            name = f"ST_u, p = {policy.p}, k = {policy.k}"
            rows.append([f"{epsilon:g}", name, "nobody", f"{expected(users, policy):.2f}"])
        for k in (2, 5):
            noisy = make_policy("DP_u", epsilon=epsilon, delta=1e-6, k=k)
            name = f"DP_u, k = {k}, T = {noisy.threshold}"
            rows.append([f"{epsilon:g}", name, "server", f"{expected(users, noisy):.2f}"])
        for mechanism in (Zealous(epsilon, 1e-6, per_user=1), Weighted(epsilon, 1e-6)):
            found = [mechanism.release(log_read).table.num_rows for _ in range(RUNS)]
            rows.append([f"{epsilon:g}", mechanism.method, "central", f"{sum(found) / RUNS:.2f}"])
    return rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--more-users", type=int, default=20_000, help="of the log that shows what ST_u costs")
    given = parser.parse_args()
    with demo(given.users) as (users, _):
        head = ("k", "FT_a", "FT_u", "DP_a published", "DP_a true", "DP_u published", "DP_u true")
        print("Figure 3: per cent of query impressions released, users", end="")
        table(head, figure(users))
        sessions = by_sessions(users)
        print(f"\nFigure 4: the same with {len(sessions):,} sessions as users", end="")
        table(head, figure(sessions))
        busy = max(users.values(), key=lambda rows: len({normal(one.query) for one in rows}))
        print("\nFigure 5: per cent of the distinct queries of the busiest user", end="")
        table(head, figure(users, [normal(one.query) for one in busy]))
        first = dict(list(users.items())[:70])
        print("\nPilot: 70 users, k = 5", end="")
        texts = {name: released(first, make_policy(name, k=5)) for name in ("FT_u", "FT_a")}
        table(("policy", "queries released"), [[name, str(len(found))] for name, found in texts.items()])
    for number in (given.users, given.more_users):
        with demo(number) as (users, log_read):
            print(f"\nWhat ST_u costs: queries released of {number:,} users, δ = 1e-6, on average", end="")
            table(("ε", "release", "trusted", "queries"), costs(users, log_read))


@contextmanager
def demo(number: int) -> Iterator[tuple[Users, SearchLog]]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.tsv")
        write_demo(path, users=number, seed=1)
        engine = open_engine()
        engine.keep_order()
        log_read = read_log(path, engine=engine)
        yield users_of(log_read, number), log_read
        engine.close()


if __name__ == "__main__":
    main()
