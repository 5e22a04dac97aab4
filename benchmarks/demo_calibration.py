"""Measure the demo log against the figures of real search logs, line by line.

    python benchmarks/demo_calibration.py                          # 657,426 users, like the whole AOL log
    python benchmarks/demo_calibration.py --users 66000            # quicker: leaves out the lines of the whole log
    python benchmarks/demo_calibration.py --write docs/demo-log.md # puts the measured tables into the page

One log is generated; smaller ones are its beginnings, since a demo log of fewer users is the beginning of a larger one.
Exits with 1 if a line that must hold is off by more than a fifth.

Who is measured:
* everyday lines: the first 20,000 users;
* the 1,000 heavy users: of the first 65,000 users those with at least as many distinct queries as makes their mean 178,
  the mean of the real sample; then the 1,000 of them whose hashed numbers are lowest, which is a random choice;
* the 2,500 users: likewise with at least as many rows as makes their mean 95.1, the mean of the real sample.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from searchveil.log.demo import write_demo

WHOLE, TENTH, EVERYDAY = 657_426, 65_000, 20_000
GROWTH = (1_000, 10_000, TENTH, WHOLE)
TOLERANCE = 0.2
HOUR_SHARES = [
    *(3.9, 2.6, 1.7, 1.1, 0.8, 0.9, 1.3, 2.2, 3.1, 4.0, 4.7, 5.2),
    *(5.2, 5.2, 5.5, 5.6, 5.8, 5.7, 5.7, 6.0, 6.3, 6.4, 6.1, 5.2),
]
ADDRESS = r"^(www\.|https?:)|\.(com|net|org|edu|gov|info)s?$"


@dataclass(frozen=True)
class Line:
    what: str
    target: float
    measured: float
    must_hold: bool = True

    @property
    def ratio(self) -> float:
        return self.measured / self.target

    @property
    def holds(self) -> bool:
        return abs(self.ratio - 1) <= TOLERANCE


def lines(names: list[str], targets: list[float], measured: list[float], must_hold: bool = True) -> list[Line]:
    return [Line(*line, must_hold) for line in zip(names, targets, measured, strict=True)]


class Log:
    """A generated log in DuckDB, and the questions asked of it."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.db = duckdb.connect(str(scratch / "scratch.duckdb"))
        self.db.execute(f"SET temp_directory = '{scratch}'; SET memory_limit = '10GB'")
        self.db.execute("SET preserve_insertion_order = false")
        self.db.execute(f"CREATE VIEW log AS SELECT * FROM read_parquet('{path}')")

    def row(self, sql: str) -> list[float]:
        found = self.db.execute(sql).fetchone()
        assert found is not None
        return [float(value or 0) for value in found]

    def column(self, sql: str) -> list[float]:
        return [float(value or 0) for (value,) in self.db.execute(sql).fetchall()]

    def keep_submissions(self, name: str, users: int) -> None:
        """A table of submissions, each with the query before and whether the 30-minute rule opens a session with it."""
        self.db.execute(f"""
            CREATE OR REPLACE TABLE {name} AS
            SELECT *, lag(query) OVER past AS query_before,
                   coalesce(time - lag(time) OVER past > INTERVAL 30 MINUTE, true) AS opens
            FROM (SELECT user, query, time, count(rank) AS clicks FROM log WHERE user <= {users} GROUP BY ALL)
            WINDOW past AS (PARTITION BY user ORDER BY time)""")


def everyday_lines(log: Log) -> Iterator[Line]:
    log.keep_submissions("everyday", EVERYDAY)
    log.db.execute(f"CREATE OR REPLACE VIEW everyday_rows AS SELECT * FROM log WHERE user <= {EVERYDAY}")
    log.db.execute(f"""
        CREATE OR REPLACE TABLE texts AS
        SELECT query, least(len(string_split(query, ' ')), 7) AS words, regexp_matches(query, '{ADDRESS}') AS address
        FROM (SELECT DISTINCT query FROM everyday)""")
    yield from lines(
        [f"distinct queries of {words} word{'s' * (words != '1')}" for words in ("1", "2", "3", "4", "5", "6", "7+")],
        [0.34, 0.27, 0.18, 0.11, 0.05, 0.02, 0.03],
        log.column("SELECT count(*) / (SELECT count(*) FROM texts) FROM texts GROUP BY words ORDER BY words"),
    )
    yield from lines(
        ["addresses among one-word queries", "characters, mean", "characters, median"],
        [1 / 3, 18.0, 16],
        log.row("""SELECT count(*) FILTER (address AND words = 1) / count(*) FILTER (words = 1), avg(length(query)),
                   median(length(query)) FROM texts"""),
    )
    yield from lines(
        ["rows whose query is an address"],
        [0.17],
        log.row(f"SELECT avg(regexp_matches(query, '{ADDRESS}')::INT) FROM everyday_rows"),
    )
    yield from lines(
        [f"clicks at rank {rank}" for rank in (*range(1, 11), "> 10")],
        [0.41, 0.12, 0.08, 0.06, 0.05, 0.04, 0.04, 0.03, 0.03, 0.03, 0.11],
        log.column("""SELECT count(*) / sum(count(*)) OVER () FROM everyday_rows WHERE rank IS NOT NULL
                      GROUP BY least(rank, 11) ORDER BY least(rank, 11)"""),
    )
    yield from lines(
        ["submissions with a click", "clicks when clicked"],
        [0.45, 1.63],
        log.row("SELECT avg((clicks > 0)::INT), avg(clicks) FILTER (clicks > 0) FROM everyday"),
    )
    yield from lines(
        ["submissions per session, mean", "median", "90th percentile", "sessions with 2 or more distinct queries"],
        [2.8, 2, 6, 0.43],
        log.row("""SELECT avg(n), median(n), quantile_disc(n, 0.9), avg((queries > 1)::INT) FROM (
                     SELECT count(*) AS n, count(DISTINCT query) AS queries FROM (
                       SELECT *, sum(opens::INT) OVER (PARTITION BY user ORDER BY time) AS session FROM everyday)
                     GROUP BY user, session)"""),
    )
    yield from lines(
        ["next submission: same query", "shares a word", "within edit distance 2"],
        [0.33, 0.23, 0.09],
        log.row("""SELECT avg((query = query_before)::INT),
                     avg((query <> query_before
                          AND list_has_any(string_split(query, ' '), string_split(query_before, ' ')))::INT),
                     avg((query <> query_before AND abs(length(query) - length(query_before)) <= 2
                          AND levenshtein(query, query_before) <= 2)::INT)
                   FROM everyday WHERE NOT opens"""),
    )
    yield from lines(
        ["submissions repeating an own earlier query"],
        [0.43],
        log.row("SELECT 1 - count(DISTINCT (user, query)) / count(*) FROM everyday"),
    )
    yield from lines(
        [f"share of hour {hour}, percent" for hour in range(24)],
        HOUR_SHARES,
        log.column("""SELECT 100 * count(*) / sum(count(*)) OVER () FROM everyday
                      GROUP BY hour(time) ORDER BY hour(time)"""),
    )


def choose_users(log: Log, name: str, size: str, mean: float, count: int) -> None:
    """The table `name` of `count` random users among those large enough for `size` to have this mean."""
    log.db.execute(f"""
        CREATE OR REPLACE TABLE sizes AS SELECT user, {size} AS size FROM log WHERE user <= {TENTH} GROUP BY user""")
    [at_least] = log.row(f"""
        SELECT size FROM (SELECT size, avg(size) OVER (ORDER BY size DESC) AS mean FROM sizes)
        ORDER BY abs(mean - {mean}) LIMIT 1""")
    log.db.execute(f"""
        CREATE OR REPLACE TABLE {name} AS
        SELECT user FROM sizes WHERE size >= {at_least} ORDER BY md5(user::VARCHAR) LIMIT {count}""")


def heavy_lines(log: Log) -> Iterator[Line]:
    choose_users(log, "heavy", "count(DISTINCT query)", 178, 1_000)
    log.db.execute("""
        CREATE OR REPLACE TABLE held AS SELECT query, count(DISTINCT user) AS holders, count(*) AS rows
        FROM log SEMI JOIN heavy USING (user) GROUP BY query""")
    yield from lines(
        [f"queries held by {holders} of 1,000 heavy users" for holders in ("1", "2", "3", "4", "5+")],
        [154_282, 4_089, 1_121, 461, 899],
        log.column("SELECT count(*) FROM held GROUP BY least(holders, 5) ORDER BY least(holders, 5)"),
    )
    yield from lines(
        [f"holders of the most common query, number {place}" for place in range(1, 6)],
        [351, 228, 200, 134, 130],
        log.column("SELECT holders FROM held ORDER BY holders DESC LIMIT 5"),
    )
    yield from lines(
        [f"rows whose query {who}" for who in ("one user alone holds", "5 or more hold", "20 or more hold")],
        [0.78, 0.13, 0.07],
        log.row("""SELECT sum(rows) FILTER (holders = 1) / sum(rows), sum(rows) FILTER (holders >= 5) / sum(rows),
                   sum(rows) FILTER (holders >= 20) / sum(rows) FROM held"""),
    )


def whole_lines(log: Log) -> Iterator[Line]:
    names = ["rows", "distinct queries", "clicks", "clicks per user"]
    sql = "SELECT count(*), count(DISTINCT query), count(rank), count(rank) / count(DISTINCT user) FROM log"
    yield from lines(names, [36_389_567, 10_154_742, 19_442_629, 29.57], log.row(sql))
    yield from lines(
        ["adjacent pairs of different queries", "distinct among them"],
        [20.4e6, 18.7e6],
        log.row("""SELECT sum(n), count(*) FROM (SELECT count(*) AS n FROM whole
                   WHERE query <> query_before GROUP BY query_before, query)"""),
    )
    yield from lines(
        ["distinct (user, query, url)", "distinct (query, url)"],
        [9.2e6, 5.4e6],
        log.row("""SELECT sum(n), count(*) FROM (SELECT count(DISTINCT user) AS n FROM log
                   WHERE url IS NOT NULL GROUP BY query, url)"""),
    )


def other_lines(log: Log) -> Iterator[Line]:
    """Figures of other published samples, some of which contradict each other: shown, not required."""
    log.db.execute(f"CREATE OR REPLACE VIEW tenth AS SELECT * FROM log WHERE user <= {TENTH}")
    yield from lines(
        ["a tenth: clicks", "users who click", "clicked queries", "urls", "distinct (query, url)"],
        [1_864_860, 51_922, 583_084, 373_837, 1_190_491],
        log.row("""SELECT count(*), count(DISTINCT user), count(DISTINCT query), count(DISTINCT url),
                   (SELECT count(*) FROM (SELECT DISTINCT query, url FROM tenth WHERE url IS NOT NULL))
                   FROM tenth WHERE url IS NOT NULL"""),
        must_hold=False,
    )
    yield from lines(
        ["a tenth: most rows of a user", "rows per user", "distinct (query, url or none) per user"],
        [6_925, 54.7, 38.14],
        log.row("""SELECT max(n), avg(n), avg(pairs) FROM (
                   SELECT count(*) AS n, count(DISTINCT (query, url)) AS pairs FROM tenth GROUP BY user)"""),
        must_hold=False,
    )
    choose_users(log, "chosen", "count(*)", 95.1, 2_500)
    log.db.execute("""CREATE OR REPLACE TABLE pairs AS SELECT query, url, list(DISTINCT user) AS users
                      FROM log SEMI JOIN chosen USING (user) GROUP BY query, url""")
    yield from lines(
        ["2,500 users: rows", "distinct (query, url or none)", "held by 2 or more users", "users holding any of those"],
        [237_786, 163_681, 6_043, 1_980],
        log.row("""SELECT (SELECT count(*) FROM log SEMI JOIN chosen USING (user)), count(*),
                   count(*) FILTER (len(users) > 1),
                   (SELECT count(DISTINCT user) FROM (SELECT unnest(users) AS user FROM pairs WHERE len(users) > 1))
                   FROM pairs"""),
        must_hold=False,
    )


def growth_rows(log: Log, sizes: list[int]) -> list[list[str]]:
    """Distinct queries and pairs of the first 1,000, 10,000, ... users."""
    rows = []
    for users in sizes:
        found = log.row(f"""
            SELECT count(*), count(DISTINCT query),
              (SELECT count(*) FROM (SELECT DISTINCT query_before, query FROM whole
                                     WHERE user <= {users} AND query <> query_before)),
              (SELECT count(*) FROM (SELECT DISTINCT query, url FROM log WHERE user <= {users} AND url IS NOT NULL))
            FROM log WHERE user <= {users}""")
        rows.append([f"{users:,}", *(f"{value:,.0f}" for value in found), f"{found[1] / found[0]:.3f}"])
    return rows


def peak_memory_mb() -> float:
    """The most memory this process ever held; generating starts no other process."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else float("nan")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def table_of(measured: list[Line]) -> str:
    rows = [
        [line.what, number(line.target), number(line.measured), f"{line.ratio:.2f}", "yes" if line.holds else "**no**"]
        for line in measured
    ]
    return markdown(["what", "target", "measured", "ratio", "within a fifth"], rows)


def replace_section(page: str, name: str, content: str) -> str:
    start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    before, found, rest = page.partition(start)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"the page has no section marked {start.strip()} ... {end}")
    return f"{before}{start}{content}\n{end}{after}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    arguments.add_argument("--users", type=int, default=WHOLE)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--write", type=Path, help="page whose marked tables are replaced")
    chosen = arguments.parse_args()
    if chosen.users < TENTH:
        arguments.error(f"--users must be at least {TENTH}, the size of the published tenth")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.parquet"
        begun = time.perf_counter()
        made = write_demo(path, users=chosen.users, seed=chosen.seed)
        cost = (
            f"{made.rows:,} rows of {made.users:,} users in {time.perf_counter() - begun:.0f} s, "
            f"peak memory {peak_memory_mb():,.0f} MB, Parquet file {path.stat().st_size / 1e6:,.0f} MB, "
            f"{made.planted:,} rows with planted queries"
        )
        print(cost)
        log = Log(path, Path(folder))
        sections = {"everyday": list(everyday_lines(log)), "heavy": list(heavy_lines(log))}
        log.keep_submissions("whole", chosen.users)
        if chosen.users == WHOLE:
            sections["whole"] = list(whole_lines(log))
        sections["other"] = list(other_lines(log))
        growth = markdown(
            ["users", "rows", "distinct queries", "distinct adjacent pairs", "distinct (query, url)", "queries / rows"],
            growth_rows(log, [size for size in GROWTH if size <= chosen.users]),
        )

    for name, measured in sections.items():
        print(f"\n{name}\n{table_of(measured)}")
    print(f"\ngrowth\n{growth}")
    if chosen.write:
        page = chosen.write.read_text()
        for name, measured in sections.items():
            page = replace_section(page, name, table_of(measured))
        page = replace_section(replace_section(page, "growth", growth), "cost", cost)
        chosen.write.write_text(page)
    outside = [line.what for measured in sections.values() for line in measured if line.must_hold and not line.holds]
    print(f"\n{len(outside)} lines outside a fifth" + "".join(f"\n  {what}" for what in outside))
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
