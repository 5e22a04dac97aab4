"""A bad cell is its row's matter: counted, never shown, no reason for other rows or the whole run to fail."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchveil import SafeLogSession, Zealous
from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import PAIR
from searchveil.log import SearchLog, read_log, with_sessions
from searchveil.log.summary import summarize

NOON = datetime(2024, 5, 1, 12)
SESSION = {"user": "session"}


def rows_of(log: SearchLog) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in log.engine.fetch(log.table).to_pylist()), key=str)


def reasons_of(log: SearchLog) -> dict[str, int]:
    return {problem.reason: problem.rows for problem in log.problems}


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# Times that only some of DuckDB, Spark and Python know

ENDS = ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"]
BEYOND = [
    "294246-12-31 23:59:59",
    "294247-01-10 04:00:54.775806",
    "290309-12-22 (BC) 00:00:00",
    "10000-01-01 00:00:00",
    "0001-01-01 (BC) 00:00:00",
    "infinity",
    "-infinity",
    "1e400",
    "nan",
    "99999999999999999999999999",
]


def csv_of(folder: Path, times: list[str]) -> Path:
    rows = [f"u{i},{time},shoe" for i, time in enumerate(times)]
    return put(folder / "log.csv", "\n".join(["user,time,query", *rows, ""]))


def aol_of(folder: Path, times: list[str]) -> Path:
    rows = [f"u{i}\tshoe\t{time}\t\t" for i, time in enumerate(times)]
    return put(folder / "log.tsv", "\n".join(["AnonID\tQuery\tQueryTime\tItemRank\tClickURL", *rows, ""]))


def jsonl_of(folder: Path, times: list[str]) -> Path:
    rows = [json.dumps({"user": f"u{i}", "time": time, "query": "shoe"}) for i, time in enumerate(times)]
    return put(folder / "log.jsonl", "\n".join([*rows, ""]))


def ubi_of(folder: Path, times: list[str]) -> Path:
    rows = [
        json.dumps({"query_id": f"{i}", "client_id": f"u{i}", "user_query": "shoe", "timestamp": time})
        for i, time in enumerate(times)
    ]
    return put(folder / "ubi.json", "\n".join([*rows, ""]))


def trec_of(folder: Path, times: list[str]) -> Path:
    rows = [
        f'<session num="{i}" userid="u{i}"><interaction starttime="{time}"><query>shoe</query></interaction></session>'
        for i, time in enumerate(times)
    ]
    return put(folder / "log.xml", "\n".join(["<x>", *rows, "</x>"]))


def parquet_of(folder: Path, times: list[str]) -> Path:
    users = [f"u{i}" for i in range(len(times))]
    pq.write_table(pa.table({"user": users, "query": ["shoe"] * len(times), "time": times}), folder / "log.parquet")
    return folder / "log.parquet"


@pytest.mark.parametrize("make", [csv_of, aol_of, jsonl_of, ubi_of, trec_of, parquet_of])
def test_a_time_out_of_range_is_a_bad_row_in_every_format(
    tmp_path: Path, duckdb_engine: Engine, make: Callable[[Path, list[str]], Path]
) -> None:
    log = read_log(make(tmp_path, [*ENDS, *BEYOND, "2024-05-01 12:00:00"]), engine=duckdb_engine)
    assert [row[0] for row in rows_of(log)] == ["u0", "u1", f"u{len(BEYOND) + 2}"]
    assert reasons_of(log) == {"bad time": len(BEYOND)}
    with_sessions(log).to_pyarrow()
    summary = summarize(log)
    assert (summary.first_time, summary.last_time) == (datetime.min, datetime.max)
    assert summary.to_json()["last_time"] == "9999-12-31 23:59:59.999999"


def test_written_times_in_parquet_mean_the_same_on_every_engine(tmp_path: Path, engine: Engine) -> None:
    noon = ["2024-05-01 12:00", "2024-05-01T12:00:00Z", "2024-05-01 14:00:00.000+02:00", "2024-5-1 12:00:00+00"]
    none = [
        "",
        "now",
        "epoch",
        "today",
        "12:00",
        "T12:00",
        "2024",
        "2024-02-30",
        "2024-05-01 25:00:00",
        "secret",
        *BEYOND,
    ]
    log = read_log(parquet_of(tmp_path, [*noon, *none]), engine=engine)
    assert [row[2].replace(tzinfo=None) for row in rows_of(log)] == [NOON] * len(noon)
    assert reasons_of(log) == {"bad time": len(none)}


I64 = 2**63 - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Paris"), pa.date32()], ids=str
)
def test_stored_times_out_of_range_are_bad_rows(tmp_path: Path, engine: Engine, kind: pa.DataType) -> None:
    """Neighbours that differ in one of them must not differ in whether there is a release."""
    day = 1 if kind == pa.date32() else 86_400_000_000
    ends = [-719162 * day, 2932896 * day]  # the first and the last day
    most = 2**31 - 1 if kind == pa.date32() else I64
    beyond = [most, -most, -most - 1, most - 1, most // 2, ends[0] - 1, ends[1] + day]
    times = [*ends, None, *beyond]
    queries = ["shoe", "boot"] * 5
    table = pa.table({"user": list(range(10)), "query": queries, "time": pa.array(times, kind)})
    pq.write_table(table, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", engine=engine)
    assert [row[0] for row in rows_of(log)] == [0, 1, 2]
    assert reasons_of(log) == {"bad time": len(beyond)}
    summary = summarize(log)
    assert (summary.first_time, summary.last_time) == (datetime.min, datetime(9999, 12, 31))
    assert engine.fetch(PAIR.of(log)).num_rows == 0
    assert SafeLogSession(epsilon=1, delta=1e-6).release(log).table.num_rows == 0
    assert Zealous(epsilon=1, delta=1e-6, item="pair").release(log).table.num_rows == 0


def test_nanoseconds_are_read(tmp_path: Path, duckdb_engine: Engine) -> None:
    times = pa.array([I64 - 1, 1 - I64, 0, I64, -I64], pa.timestamp("ns"))
    pq.write_table(pa.table({"user": [1, 2, 3, 4, 5], "query": ["a"] * 5, "time": times}), tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", engine=duckdb_engine)
    assert [row[2].year for row in rows_of(log)] == [2262, 1677, 1970]
    assert reasons_of(log) == {"bad time": 2}, "DuckDB takes the ends of the range for infinities"


# Ranks

RANKS: dict[str, tuple[Any, list[int | None], int]] = {
    "text": (pa.array(["7", "-1", None, "", "1.5", "3000000000", "9" * 30, "secret", "1e3"]), [7, -1, None], 6),
    "int64": (pa.array([7, None, 3_000_000_000, -(2**31) - 1, 2**31 - 1]), [7, None, 2**31 - 1], 2),
    "double": (pa.array([7.0, None, 1.5, 3e9, float("nan"), float("inf"), -float("inf"), 1e300]), [7, None], 6),
    "int8": (pa.array([7, None], pa.int8()), [7, None], 0),
}


@pytest.mark.parametrize("ranks", RANKS)
def test_ranks_in_parquet(tmp_path: Path, engine: Engine, ranks: str) -> None:
    column, good, bad = RANKS[ranks]
    table = pa.table({"user": [f"u{i}" for i in range(len(column))], "query": ["a"] * len(column), "rank": column})
    pq.write_table(table, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", engine=engine)
    assert sorted(map(str, (row[2] for row in rows_of(log)))) == sorted(map(str, good))
    assert reasons_of(log) == ({"bad rank": bad} if bad else {})


@pytest.mark.parametrize("rank", ["2147483648", "3000000000", "-3000000000", "9" * 400])
def test_ranks_in_text(tmp_path: Path, duckdb_engine: Engine, rank: str) -> None:
    rows = {
        "aol": "1\ta\t2006-03-01 07:17:12\t{}\thttp://a\n",
        "sogou": "00:00:00\t1\t[a]\t{} 1\thttp://a\n",
        "jsonl": '{{"user": "1", "query": "a", "rank": {}}}\n',
    }
    for format, row in rows.items():
        path = put(tmp_path / format, row.format(7) + row.format(rank))
        log = read_log(path, format=format, engine=duckdb_engine)
        assert (log.rows, reasons_of(log)) == (1, {"bad rank": 1}), format


def test_ranks_in_trec(tmp_path: Path, duckdb_engine: Engine) -> None:
    ranks = ["2147483647", "3000000000", "9" * 5000, "-1", "two", "٣"]
    clicks = "".join(f"<click><rank>{rank}</rank><docno>d</docno></click>" for rank in ranks)
    text = f'<x><session num="1"><interaction><query>a</query><clicked>{clicks}</clicked></interaction></session></x>'
    log = read_log(put(tmp_path / "s.xml", text), format="trec", engine=duckdb_engine, options=SESSION)
    assert rows_of(log) == [("1:1", "a", None, 2**31 - 1, "d")]
    assert reasons_of(log) == {"bad rank": 5}


def test_ranks_in_ubi(tmp_path: Path, duckdb_engine: Engine) -> None:
    ranks: list[Any] = [7, 3_000_000_000, "two", 1e300, {"deep": [1]}]
    asked = [{"query_id": str(i), "client_id": "c", "user_query": "a", "timestamp": 1} for i in range(len(ranks))]
    happened = [
        {
            "query_id": str(i),
            "client_id": "c",
            "action_name": "click",
            "event_attributes": {"position": {"ordinal": rank}},
        }
        for i, rank in enumerate(ranks)
    ]
    paths = [
        put(tmp_path / "q.json", "".join(json.dumps(row) + "\n" for row in asked)),
        put(tmp_path / "e.json", "".join(json.dumps(row) + "\n" for row in happened)),
    ]
    log = read_log(paths, format="ubi", engine=duckdb_engine)
    assert [row[3] for row in rows_of(log)].count(7) == 1
    assert reasons_of(log) == {"bad rank": 4}


@pytest.mark.parametrize(
    "start", ["inf", "-inf", "1e400", "1e18", "99999999:00:00", "9999-12-31T23:59:00-05:00", "1:2"]
)
def test_start_times_in_trec(tmp_path: Path, duckdb_engine: Engine, start: str) -> None:
    log = read_log(trec_of(tmp_path, ["12.5", start]), format="trec", engine=duckdb_engine)
    assert [row[0] for row in rows_of(log)] == ["u0"]
    assert reasons_of(log) == {"bad time": 1}


# Users and texts


def test_rows_of_nobody_are_not_one_users(tmp_path: Path, engine: Engine) -> None:
    users = pa.array(["ann", "", None])
    pq.write_table(pa.table({"user": users, "query": ["a"] * 3}), tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", engine=engine)
    assert rows_of(log) == [("ann", "a")]
    assert reasons_of(log) == {"no user": 2}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("user", pa.array([1.0, float("nan")])),
        ("user", pa.array([b"a", b"b"])),
        ("user", pa.array([{"id": 1}, {"id": 2}])),
        ("user", pa.array([[1], [2]])),
        ("user", pa.array([True, False])),
        ("rank", pa.array([[1], [2]])),
        ("rank", pa.array([True, False])),
        ("url", pa.array([1.5, 2.5])),
        ("url", pa.array([{"id": 1}, {"id": 2}])),
        ("time", pa.array([[1], [2]])),
        ("time", pa.array([1, 2])),
    ],
    ids=str,
)
def test_what_a_column_may_hold_is_told_from_the_schema(
    tmp_path: Path, duckdb_engine: Engine, column: str, values: Any
) -> None:
    table = {"user": pa.array(["a", "b"]), "query": pa.array(["a", "b"])} | {column: values}
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=f"log.parquet: the {column} column '{column}' holds"):
        read_log(tmp_path / "log.parquet", engine=duckdb_engine)


def not_utf8(path: Path) -> Path:
    texts = pa.array([b"shoe", b"secret \xff\xfe"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"user": ["a", "b"], "query": texts}), path)
    return path


def test_duckdb_refuses_text_that_is_not_utf8_before_anything_is_paid(tmp_path: Path, duckdb_engine: Engine) -> None:
    with pytest.raises(InputError, match="a cell of it cannot be decoded") as refused:
        read_log(not_utf8(tmp_path / "log.parquet"), engine=duckdb_engine)
    assert "secret" not in str(refused.value)


@pytest.mark.spark
def test_spark_counts_text_that_is_not_utf8(tmp_path: Path, spark_engine: Engine) -> None:
    log = read_log(not_utf8(tmp_path / "log.parquet"), engine=spark_engine)
    assert rows_of(log) == [("a", "shoe")]
    assert reasons_of(log) == {"invalid UTF-8": 1}


def test_milliseconds_that_no_engine_can_hold_are_refused_before_anything_is_paid(
    tmp_path: Path, engine: Engine
) -> None:
    times = pa.array([0, 2**62], pa.timestamp("ms"))
    pq.write_table(pa.table({"user": ["a", "b"], "query": ["x", "y"], "time": times}), tmp_path / "log.parquet")
    with pytest.raises(InputError, match="a cell of it cannot be decoded") as refused:
        read_log(tmp_path / "log.parquet", engine=engine)
    assert "\n" not in str(refused.value)
    assert any("can be decoded" in public for public in read_log(_sound(tmp_path), engine=engine).taken_as_public)


def _sound(folder: Path) -> Path:
    pq.write_table(pa.table({"user": ["a", "b"], "query": ["x", "y"]}), folder / "sound.parquet")
    return folder / "sound.parquet"
