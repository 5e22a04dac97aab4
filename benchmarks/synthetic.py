"""How near a synthetic log comes to its log: demo logs of other seeds than any number was tuned on, mean of five.

    python benchmarks/synthetic.py --users 65000 --seeds 201 202 203 204 205 --epsilon 1 4

What is compared is counted here in plain SQL, apart from the measures of the package.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import duckdb

import searchveil as sv

FIRST, LAST, AFTER = "2024-03-01", "2024-05-31", "2024-06-01"
SEARCHES = """
create table searches as
select *, sum(starts) over (partition by u order by t, q rows unbounded preceding) as session from (
    select *, coalesce(t - lag(t) over w > interval 30 minute, true)::int as starts,
        epoch(t) - epoch(lag(t) over w) as gap, row_number() over (partition by u, q order by t) as times
    from (select "user" as u, time as t, lower(query) as q, count(url) as k from rows group by all)
    window w as (partition by u order by t, q))
"""
DISTRIBUTIONS = {
    "session length": "select least(n, 100), count(*) from sessions group by 1",
    "sessions per user": "select least(n, 100), count(*) from (select count(*) n from sessions group by u) group by 1",
    "hour of day": "select hour(t), count(*) from searches group by 1",
    "gap": "select floor(3 * log2(1 + gap)), count(*) from searches where starts = 0 group by 1",
    "click rank": "select least(rank, 50), count(*) from rows where rank is not null group by 1",
    "clicks per search": "select least(k, 7), count(*) from searches group by 1",
    "new to user": "select times = 1, count(*) from searches group by 1",
}
TOP = "select q from searches group by q order by count({}) desc, q limit {}"


def opened(path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.execute(
        f"create view rows as select * from '{path}' where time >= timestamp '{FIRST}' and time < timestamp '{AFTER}'"
    )
    connection.execute(SEARCHES)
    connection.execute("create view sessions as select u, session, count(*) n from searches group by all")
    return connection


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return connection.execute(query).fetchall()


def distance(first: dict[Any, float], second: dict[Any, float]) -> float:
    """Total variation."""
    sums = max(sum(first.values()), 1), max(sum(second.values()), 1)
    return sum(abs(first.get(k, 0) / sums[0] - second.get(k, 0) / sums[1]) for k in {*first, *second}) / 2


def compared(log: duckdb.DuckDBPyConnection, drawn: duckdb.DuckDBPyConnection, named: set[str]) -> dict[str, float]:
    found = {
        name: distance(dict(fetched(log, query)), dict(fetched(drawn, query))) for name, query in DISTRIBUTIONS.items()
    }
    rates = [
        fetched(side, "select count(*) filter (k > 0) / count(*), count(distinct q) / count(*) from searches")[0]
        for side in (log, drawn)
    ]
    found["click-through error"] = abs(rates[1][0] - rates[0][0])
    found["distinct queries per search, ratio"] = rates[1][1] / rates[0][1]
    for counted, words in (("distinct u", "users"), ("*", "searches")):
        for depth in (100, 1000):
            top = [text for (text,) in fetched(log, TOP.format(counted, depth))]
            found[f"coverage query@{depth} by {words}"] = mean(text in named for text in top)
    top = [text for (text,) in fetched(log, TOP.format("*", 100))]
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in top)
    counts = [
        dict(fetched(side, f"select q, count(*) from searches where q in ({listed}) group by q"))
        for side in (log, drawn)
    ]
    found["misplaced mass query@100"] = distance(*counts)
    return found


def measured(users: int, seed: int, epsilons: list[float], engine: str) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        sv.write_demo(path, users=users, seed=seed)
        original = opened(path)
        for epsilon in epsilons:
            started, cpu = time.perf_counter(), time.process_time()
            log = sv.read_log(path, engine=sv.open_engine(engine))
            release = sv.Synthetic(epsilon, 1e-6, from_=FIRST, to=LAST).release(log)
            release.write(Path(folder) / f"release-{epsilon:g}")
            log.engine.close()
            spent = {"seconds": time.perf_counter() - started, "cpu seconds": time.process_time() - cpu}
            named = {str(text) for text in release.tables["queries"]["query"].to_pylist()}
            drawn = opened(Path(folder) / f"release-{epsilon:g}" / "data.parquet")
            rows.append(
                {"epsilon": epsilon, "seed": seed, "queries": len(named), **compared(original, drawn, named), **spent}
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=65_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[201, 202, 203, 204, 205])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--engine", default="duckdb", choices=["duckdb", "spark"])
    asked = parser.parse_args()
    rows = [row for seed in asked.seeds for row in measured(asked.users, seed, asked.epsilon, asked.engine)]
    for epsilon in asked.epsilon:
        print(f"epsilon {epsilon:g}, mean of {len(asked.seeds)}")
        for name in rows[0]:
            if name not in ("epsilon", "seed"):
                print(f"  {name}: {mean(row[name] for row in rows if row['epsilon'] == epsilon):.4g}")
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
