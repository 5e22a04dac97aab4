"""Whose logs a simulation takes: the first users of the log, in the order of its file, however it is read."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchveil.crowd.aggregate import publish
from searchveil.crowd.choice import central
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import make_policy
from searchveil.crowd.simulate import enough_for_all, simulate, users_of
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.log import read_log
from searchveil.log.demo import write_demo

ROWS, CLIENTS = 300_000, 300  # DuckDB reads 122,880 rows at a time, by several threads

Row = tuple[str, str]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """New users come all along; a third of the rows is of somebody who was there before."""
    draw = random.Random(1)
    found = []
    for i in range(ROWS):
        user = i // 400 if draw.random() < 0.7 else draw.randrange(i // 400 + 1)
        found.append((f"u{user}", f"query {(user * 31 + draw.randrange(4)) % 400}"))
    return found


def first_searches(rows: list[Row], most: int) -> dict[str, list[str]]:
    """What is expected, one row after the other."""
    found: dict[str, list[str]] = {}
    for user, query in rows:
        if user in found or len(found) < most:
            found.setdefault(user, []).append(query)
    return found


def write(folder: Path, rows: list[Row], layout: str) -> list[Path]:
    """The log in one file, or in five of different kinds."""
    if layout == "parquet":
        table = pa.table({"user": [user for user, _ in rows], "query": [query for _, query in rows]})
        pq.write_table(table, folder / "log.parquet", row_group_size=20_000)
        return [folder / "log.parquet"]
    if layout == "jsonl":
        text = "".join(json.dumps({"user": user, "query": query}) + "\n" for user, query in rows)
        (folder / "log.jsonl").write_text(text)
        return [folder / "log.jsonl"]
    between, ending = ("\t", "tsv") if layout.startswith("tsv") else (",", "csv")
    parts = 5 if layout.endswith("files") else 1
    paths = []
    for i in range(parts):
        some = rows[i * len(rows) // parts : (i + 1) * len(rows) // parts]
        names, swapped = ("user", "query"), i == 3  # one file has its columns in another order
        text = "".join(between.join(row[::-1] if swapped else row) + "\n" for row in (names, *some))
        paths.append(folder / (f"part-{i}.{ending}" + (".gz" if i % 2 else "")))
        paths[-1].write_bytes(gzip.compress(text.encode()) if i % 2 else text.encode())
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["csv", "tsv", "parquet", "jsonl", "tsv in files", "csv in files"])
def test_the_first_users_are_those_of_the_file(tmp_path: Path, rows: list[Row], layout: str) -> None:
    paths = write(tmp_path, rows, layout)
    engine = DuckDBEngine(threads=4)
    engine.keep_order()
    users = users_of(read_log(paths, engine=engine), CLIENTS)
    engine.close()
    assert {user: [one.query for one in found] for user, found in users.items()} == first_searches(rows, CLIENTS)
    assert list(users) == list(first_searches(rows, CLIENTS))


@pytest.mark.slow
def test_queries_that_are_joined_with_their_clicks_keep_their_order(tmp_path: Path, rows: list[Row]) -> None:
    some = rows[::2]
    with (tmp_path / "queries.jsonl").open("w") as file:
        for i, (user, query) in enumerate(some):
            file.write(json.dumps({"query_id": f"q{i}", "client_id": user, "user_query": query, "timestamp": i}) + "\n")
    with (tmp_path / "events.jsonl").open("w") as file:
        for i, (user, _) in enumerate(some):
            if i % 3 == 0:
                event = {"action_name": "click", "query_id": f"q{i}", "client_id": user, "timestamp": i}
                file.write(json.dumps(event) + "\n")
    engine = DuckDBEngine(threads=4)
    engine.keep_order()
    log = read_log([tmp_path / "queries.jsonl", tmp_path / "events.jsonl"], engine=engine)
    users = users_of(log, CLIENTS)
    engine.close()
    assert log.format == "ubi"
    assert {user: [one.query for one in found] for user, found in users.items()} == first_searches(some, CLIENTS)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["csv", "tsv", "parquet"])
def test_the_rows_are_what_k_of_the_first_users_have(tmp_path: Path, rows: list[Row], layout: str) -> None:
    (path,) = write(tmp_path, rows, layout)
    line = ["crowd", "simulate", str(path), "--clients", "60", "--policy", "FT_u", "--k", "2"]
    command = [sys.executable, "-m", "searchveil", *line, "--out", str(tmp_path / "out"), "--json"]
    figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    counted = Counter(query for found in first_searches(rows, 60).values() for query in {*found})
    expected = {query: count for query, count in counted.items() if count >= 2}
    found = pq.read_table(tmp_path / "out" / "data.parquet").to_pydict()
    assert dict(zip(found["query"], found["count"], strict=True)) == expected
    assert expected
    assert (figures["clients"], figures["rows"], figures["reports"]) == (60, len(expected), counted.total())


@pytest.mark.slow
@pytest.mark.parametrize(("artifact", "name"), [("query", "FT_a"), ("ltr", "FT_u")])
def test_what_an_experiment_computes_is_what_a_simulation_releases(tmp_path: Path, artifact: str, name: str) -> None:
    """Row by row, counts included: `crowd.choice.central` stands for a crowd that runs."""
    write_demo(str(tmp_path / "log.parquet"), users=60, seed=5)
    engine = DuckDBEngine()
    engine.keep_order()
    users = users_of(read_log(tmp_path / "log.parquet", engine=engine), 40)
    engine.close()
    policy = enough_for_all(artifact, make_policy(name, k=2), users)
    made = simulate(users, artifact, policy, tmp_path / "out")
    job = Job("experiment", artifact, policy, 0, "", "", "", 0, 1)
    expected = publish(job, central(job, ((bytes([i]) * 32, rows) for i, rows in enumerate(users.values()))))
    assert made.release.table.to_pylist() == expected.table.to_pylist()
    assert expected.table.num_rows >= 3
    assert pq.read_table(tmp_path / "out" / "data.parquet").to_pylist() == expected.table.to_pylist()
    assert (made.clients, made.beyond) == (40, 0)


@pytest.mark.slow
def test_a_client_with_very_many_queries_sends_them_all(tmp_path: Path) -> None:
    queries = [f"query {i}" for i in range(1_100)] + ["x" * 255]
    (tmp_path / "log.tsv").write_text("user\tquery\n" + "".join(f"{user}\t{one}\n" for one in queries for user in "ab"))
    line = ["crowd", "simulate", str(tmp_path / "log.tsv"), "--policy", "FT_u", "--k", "2", "--json"]
    command = [sys.executable, "-m", "searchveil", *line, "--out", str(tmp_path / "out")]
    figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert (figures["rows"], figures["reports"], figures["beyond"], figures["too_long"]) == (1_100, 2_200, 0, 2)


@pytest.mark.slow
def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path: Path) -> None:
    """Neither by the three programs and the clients nor by the libraries that they use."""
    (tmp_path / "log.tsv").write_text("user\tquery\nann\train\nbob\train\n")
    (tmp_path / "tmp").mkdir()
    line = ["crowd", "simulate", str(tmp_path / "log.tsv"), "--policy", "FT_u", "--k", "2"]
    command = [sys.executable, "-m", "searchveil", *line, "--out", str(tmp_path / "out")]
    subprocess.run(command, capture_output=True, check=True, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")})
    assert pq.read_table(tmp_path / "out" / "data.parquet").to_pylist() == [{"query": "rain", "count": 2}]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_an_engine_that_keeps_no_order_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("user\tquery\nann\train\n")
    line = ["crowd", "simulate", str(tmp_path / "log.tsv"), "--engine", "spark", "--policy", "FT_u"]
    command = [sys.executable, "-m", "searchveil", *line, "--out", str(tmp_path / "out")]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 2
    assert "leave out --engine spark" in said.stderr
