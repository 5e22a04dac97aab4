"""Each format with hand-made files: recognised, read, and its faults counted."""

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog, read_log

EXCITE_SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "excite_small.parquet"


def rows_of(log: SearchLog) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in log.engine.fetch(log.table).to_pylist()), key=str)


def problems_of(log: SearchLog) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {problem.reason: (problem.rows, problem.first) for problem in log.problems}


def put(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# AOL

AOL = (
    "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    "142\trentdirect.com\t2006-03-01 07:17:12\t\t\n"
    "142\t-\t2006-03-12 12:31:06\t1\thttp://www.a.com\n"
)
AOL_ROWS = [
    ("142", "-", datetime(2006, 3, 12, 12, 31, 6), 1, "http://www.a.com"),
    ("142", "rentdirect.com", datetime(2006, 3, 1, 7, 17, 12), None, None),
]


def test_aol(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "log.txt", AOL), engine=duckdb_engine)
    assert rows_of(log) == AOL_ROWS
    assert log.table.columns == ("user", "query", "time", "rank", "url")
    assert not log.problems


def test_aol_several_packed_files_by_glob(tmp_path: Path, duckdb_engine: Engine) -> None:
    for number in range(3):
        with gzip.open(tmp_path / f"user-ct-{number}.txt.gz", "wt") as packed:
            packed.write(AOL)
    put(tmp_path / "user-ct-3.txt", AOL.partition("\n")[2])
    log = read_log(str(tmp_path / "user-ct-*"), engine=duckdb_engine)
    assert rows_of(log) == sorted(AOL_ROWS * 4, key=str)
    assert log.source.endswith("user-ct-0.txt.gz and 3 more files")


def test_gzip_of_several_members_and_without_its_ending(tmp_path: Path, duckdb_engine: Engine) -> None:
    body = AOL.partition("\n")[2].encode()
    log = read_log(put(tmp_path / "log.txt", gzip.compress(body) + gzip.compress(body)), engine=duckdb_engine)
    assert rows_of(log) == sorted(AOL_ROWS * 2, key=str)


def test_a_name_that_looks_like_a_glob(tmp_path: Path, duckdb_engine: Engine) -> None:
    put(tmp_path / "log1.tsv", AOL + "9\tother\t2006-03-01 07:17:12\t\t\n")
    assert rows_of(read_log(put(tmp_path / "log[1]*.tsv", AOL), engine=duckdb_engine)) == AOL_ROWS


# UBI


def query(query_id: str, text: str, time: object = "2024-05-01T10:00:00Z", client: str | None = "c1") -> str:
    fields = {"query_id": query_id, "client_id": client, "user_query": text, "timestamp": time, "application": "shop"}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def event(
    query_id: str | None,
    action: str = "click",
    ordinal: object = 3,
    item: str = "sku-1",
    client: str | None = "c1",
    **more: str,
) -> str:
    attributes = {"object": {"object_id": item}, "position": {"ordinal": ordinal}}
    fields: dict[str, object] = {"query_id": query_id, "action_name": action, "client_id": client, "timestamp": "x"}
    fields |= {"event_attributes": attributes, **more}
    return json.dumps(fields) + "\n"


NOON = datetime(2024, 5, 1, 12)


def test_ubi_queries_joined_to_their_clicks(tmp_path: Path, duckdb_engine: Engine) -> None:
    queries = put(tmp_path / "q.ndjson", query("1", "shoe") + query("2", "hat", "2024-05-01T12:00:00+0000", "c2"))
    events = put(tmp_path / "e.ndjson", event("1") + event("1", item="sku-2", ordinal=1) + event("1", action="view"))
    log = read_log([events, queries], engine=duckdb_engine)
    ten = datetime(2024, 5, 1, 10)
    assert rows_of(log) == [
        ("c1", "shoe", ten, 1, "sku-2"),
        ("c1", "shoe", ten, 3, "sku-1"),
        ("c2", "hat", NOON, None, None),
    ]
    assert not log.problems


@pytest.mark.parametrize(
    "time",
    [
        *("2024-05-01T12:00:00Z", "2024-05-01T14:00:00+02:00", "2024-05-01T12:00:00+0000", "2024-05-01 12:00:00"),
        *(1714564800000, "1714564800000", 1714564800),
    ],
)
def test_ubi_times(tmp_path: Path, duckdb_engine: Engine, time: object) -> None:
    log = read_log(put(tmp_path / "q.ndjson", query("1", "shoe", time)), engine=duckdb_engine)
    assert rows_of(log) == [("c1", "shoe", NOON)]


def test_ubi_faults(tmp_path: Path, duckdb_engine: Engine) -> None:
    queries = put(
        tmp_path / "queries.json",
        query("1", "shoe") + '{"query_id": "2", \n' + query("3", "hat", "soon") + query("4", "", client=None)
        + query("5", "") + "[1]\n" + query("6", "a\0b"),
    )  # fmt: skip
    events = put(
        tmp_path / "events.json",
        event("1") + event("9") + event("1", ordinal="top") + "nonsense\n" + event(None, "view", client=None)
        + event("1", client=None) + event("1", client="c2"),
    )  # fmt: skip
    log = read_log([queries, events], format="ubi", engine=duckdb_engine)
    assert [row[:2] for row in rows_of(log)] == [("c1", "shoe")]
    assert problems_of(log) == {
        "malformed JSON": (3, ("queries.json:2", "queries.json:6", "events.json:4")),
        "bad time": (1, ("queries.json:3",)),
        "no user": (1, ("queries.json:4",)),
        "no query": (1, ("queries.json:5",)),
        "NUL byte": (1, ("queries.json:7",)),
        "event of an unknown query_id": (2, ("events.json:2", "events.json:7")),
        "event without a client_id": (1, ("events.json:6",)),
        "bad rank": (1, ("events.json:3",)),
    }


def test_ubi_other_user_and_click(tmp_path: Path, duckdb_engine: Engine) -> None:
    queries = put(tmp_path / "q.json", query("1", "shoe") + query("2", "hat"))
    events = put(tmp_path / "e.json", event("1", "buy", user_id="ann") + event("1", "click", user_id="ann"))
    options = {"user": "user_id", "click": "buy"}
    log = read_log([queries, events], engine=duckdb_engine, options=options)
    assert [row[:2] + row[4:] for row in rows_of(log)] == [("ann", "shoe", "sku-1")]
    assert problems_of(log) == {"query without an event that names its user_id": (1, ())}


def test_ubi_a_repeated_query_id_keeps_its_clicks_once(tmp_path: Path, duckdb_engine: Engine) -> None:
    queries = put(tmp_path / "q.json", query("1", "shoe") + query("1", "shoe", "2024-05-01T12:00:00Z"))
    log = read_log([queries, put(tmp_path / "e.json", event("1"))], engine=duckdb_engine)
    assert [row[4] for row in rows_of(log)] == ["sku-1", None]


def test_ubi_events_alone_are_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    with pytest.raises(InputError, match="events only; name the file with ubi_queries"):
        read_log(put(tmp_path / "e.json", event("1")), engine=duckdb_engine)


# Sogou and Excite

SOGOU = "00:00:00\t2982199073774412\t[360安全卫士]\t8 3\tdownload.it.com.cn/a.html\n"
SOGOU_ROWS = [("2982199073774412", "360安全卫士", datetime(1970, 1, 1), 8, "download.it.com.cn/a.html")]


@pytest.mark.parametrize("encoding", ["gbk", "utf-8"])
def test_sogou(tmp_path: Path, duckdb_engine: Engine, encoding: str) -> None:
    log = read_log(put(tmp_path / "log.txt", SOGOU.encode(encoding)), engine=duckdb_engine)
    assert rows_of(log) == SOGOU_ROWS
    told = read_log(tmp_path / "log.txt", format="sogou", engine=duckdb_engine, options={"encoding": encoding})
    assert rows_of(told) == SOGOU_ROWS


def test_sogou_faults(tmp_path: Path, duckdb_engine: Engine) -> None:
    bad = [
        "25:00:00\tu\t[q]\t1 1\thttp://a",
        "00:00:00\tu\tq\t1 1\thttp://a",
        "00:00:00\tu\t[]\t1 1\thttp://a",
        "00:00:00\tu\t[q]\t1\thttp://a",
        "00:00:00\t\t[q]\t1 1\thttp://a",
        "00:00:00\tu\t[q]\t1 1",
    ]
    text = (SOGOU * 7 + "\n".join(bad) + "\n").encode("gbk") + b"00:00:00\tu\t[\xff\xff]\t1 1\thttp://a\n"
    log = read_log(put(tmp_path / "log.txt", text), engine=duckdb_engine)
    assert log.rows == 7
    assert problems_of(log) == {
        "bad time": (1, ("log.txt:8",)),
        "query without [ ]": (1, ("log.txt:9",)),
        "no query": (1, ("log.txt:10",)),
        "bad rank": (1, ("log.txt:11",)),
        "no user": (1, ("log.txt:12",)),
        "wrong number of columns": (1, ("log.txt:13",)),
        "invalid GB18030": (1, ("log.txt:14",)),
    }


def test_sogou_query_of_brackets(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "log.txt", "00:00:01\tu\t[[a] b]\t1 1\thttp://a\n"), engine=duckdb_engine)
    assert [row[1] for row in rows_of(log)] == ["[a] b"]


def test_excite(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = '2A9EABFB35F5B954\t970916105432\t+md foods +proteins\nB\t970916001949\t"yahoo" chat\nB\t970931001949\tx\n'
    log = read_log(put(tmp_path / "excite.log", text + "B\t970916001949\t\nB\t97091600194\tx\n"), engine=duckdb_engine)
    assert rows_of(log) == [
        ("2A9EABFB35F5B954", "+md foods +proteins", datetime(1997, 9, 16, 10, 54, 32)),
        ("B", '"yahoo" chat', datetime(1997, 9, 16, 0, 19, 49)),
    ]
    assert problems_of(log) == {
        "bad time": (2, ("excite.log:3", "excite.log:5")),
        "no query": (1, ("excite.log:4",)),
    }


@pytest.mark.skipif(not EXCITE_SAMPLE.exists(), reason="the Excite sample is not beside the repository")
def test_excite_sample_survives_the_round_trip(tmp_path: Path, duckdb_engine: Engine) -> None:
    sample = read_log(EXCITE_SAMPLE, engine=duckdb_engine)
    rows = [row[:3] for row in rows_of(sample)]
    text = "".join(f"{user}\t{time:%y%m%d%H%M%S}\t{query}\n" for user, query, time in rows)
    log = read_log(put(tmp_path / "excite.tsv", text), engine=duckdb_engine)
    assert rows_of(log) == [row for row in rows if row[1]]
    assert log.rows + sum(problem.rows for problem in log.problems) == 4501


# TREC

TREC_2012 = """<?xml version="1.0" encoding="UTF-8"?>
<sessiontrack2012>
  <session num="1" starttime="10:00:01.5">
    <topic num="3"><desc>cars & trucks &amp; &nbsp; vans</desc></topic>
    <interaction num="1" starttime="10:00:02.25" type="reformulate">
      <query>at&t phones</query>
      <results><result rank="1"><url>http://a/?x=1&y=2</url></result><result rank="2"><url>http://b</url></result></results>
      <clicked><click num="1" starttime="10:00:05" endtime="-1"><rank>2</rank><docno>d2</docno></click>
               <click num="2" starttime="-1" endtime="-1"><rank>1</rank><docno>d1</docno></click></clicked>
    </interaction>
    <currentquery starttime="-1"><query>phones</query></currentquery>
  </session>
</sessiontrack2012>
"""


def test_trec_clock_times_and_bare_ampersands(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "s.xml", TREC_2012), engine=duckdb_engine, options={"user": "session"})
    at = datetime(1970, 1, 1, 10, 0, 2, 250_000)
    assert rows_of(log) == [
        ("1:1", "at&t phones", at, 1, "http://a/?x=1&y=2"),
        ("1:1", "at&t phones", at, 2, "http://b"),
        ("1:1", "phones", None, None, None),
    ]


def test_trec_2013_seconds_and_users(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = (
        '<sessiontrack2013><session num="1" starttime="0" userid="u7"><interaction num="1" starttime="12.5" type="q">'
        "<query>a</query></interaction><interaction num='2' starttime='NA'><query>b</query></interaction>"
        "<interaction starttime='soon'><query>c</query></interaction><interaction><query/></interaction>"
        '</session><session num="2"><currentquery><query>d</query></currentquery></session></sessiontrack2013>'
    )
    log = read_log(put(tmp_path / "s.xml", text), engine=duckdb_engine)
    assert rows_of(log) == [
        ("u7", "a", datetime(1970, 1, 1, 0, 0, 12, 500_000), None, None),
        ("u7", "b", None, None, None),
    ]
    assert problems_of(log) == {
        "bad time": (1, ("s.xml: session 1",)),
        "no query": (1, ("s.xml: session 1",)),
        "no userid; with the reader option user=session each session is a user of its own": (1, ("s.xml: session 2",)),
    }


def test_trec_broken_xml_is_said(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = put(tmp_path / "s.xml", TREC_2012.replace("</sessiontrack2012>", "<session"))
    log = read_log(path, engine=duckdb_engine, options={"user": "session"})
    assert log.rows == 3
    assert problems_of(log) == {"broken XML; the rest of the file is not read": (1, ("s.xml:13",))}


# Generic


def test_csv_with_guessed_columns_and_quotes(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = 'User ID,search_term,Timestamp\n1,"a, ""b""",2024-05-01 12:00\n2,"two\nlines",2024-05-01T14:00:00+02:00\n'
    log = read_log(put(tmp_path / "log.csv", text), engine=duckdb_engine)
    assert rows_of(log) == [("1", 'a, "b"', NOON), ("2", "two\nlines", NOON)]


def test_csv_with_told_columns(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = "who;what;when;nr\nann;shoe;1.5.2024 12h00;x\nbob;hat;1.5.2024 12h00;2\nann;shoe;never;1\n"
    log = read_log(
        put(tmp_path / "log.csv", text),
        engine=duckdb_engine,
        columns={"user": "who", "query": "what", "time": "when", "rank": "nr"},
        options={"delimiter": ";", "time_format": "%d.%m.%Y %Hh%M"},
    )
    assert rows_of(log) == [("bob", "hat", NOON, 2)]
    assert problems_of(log) == {"bad rank": (1, ("log.csv:2",)), "bad time": (1, ("log.csv:4",))}


def test_csv_faults(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = b'uid,q\n1,good\n2\n3,a,b\n,x\n4,\n5,"a"b\n6,\xff\n7,n\0l\n8,also good\n'
    log = read_log(put(tmp_path / "log.csv", text), engine=duckdb_engine)
    assert rows_of(log) == [("1", "good"), ("8", "also good")]
    assert problems_of(log) == {
        "wrong number of columns": (2, ("log.csv:3", "log.csv:4")),
        "no user": (1, ("log.csv:5",)),
        "no query": (1, ("log.csv:6",)),
        "broken quotes; rows after it may be missing too": (1, ("log.csv:7",)),
        "invalid UTF-8": (1, ("log.csv:8",)),
        "NUL byte": (1, ("log.csv:9",)),
    }


def test_tsv_keeps_quotes_as_they_are(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "log.tsv", 'uid\tq\n1\t"a" b\n'), engine=duckdb_engine)
    assert rows_of(log) == [("1", '"a" b')]


def test_tsv_without_header_by_number(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = put(tmp_path / "log.tsv", "shoe\tx\tann\n")
    log = read_log(path, engine=duckdb_engine, columns={"user": "3", "query": "1"}, options={"header": "no"})
    assert rows_of(log) == [("ann", "shoe")]


def test_files_with_columns_in_another_order(tmp_path: Path, duckdb_engine: Engine) -> None:
    one, two = put(tmp_path / "1.csv", "uid,q\nann,shoe\n"), put(tmp_path / "2.csv", "q,uid\nhat,bob\n")
    assert rows_of(read_log([one, two], engine=duckdb_engine)) == [("ann", "shoe"), ("bob", "hat")]


def test_jsonl(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = (
        '{"session": {"id": 7}, "search": {"query": "é \\u00e9"}, "ts": 1714564800}\n'
        '{"session": {"id": 8}, "search": {}, "ts": 1714564800}\n{"session"\n'
    )
    columns = {"user": "session.id", "query": "search.query"}
    log = read_log(put(tmp_path / "log.jsonl", text), engine=duckdb_engine, columns=columns)
    assert rows_of(log) == [("7", "é é", NOON)]
    assert problems_of(log) == {"no query": (1, ("log.jsonl:2",)), "malformed JSON": (1, ("log.jsonl:3",))}


@pytest.mark.parametrize("key", ["*", 'say "user"', "a\\b", "a/b", "a~b", "a.b", "0", "$"])
def test_jsonl_any_key_may_be_the_user(tmp_path: Path, duckdb_engine: Engine, key: str) -> None:
    path = put(tmp_path / "log.jsonl", json.dumps({key: "ann", "query": "shoe"}) + "\n")
    assert rows_of(read_log(path, engine=duckdb_engine, columns={"user": key})) == [("ann", "shoe")]


@pytest.mark.parametrize(
    "deep", ['{"user": 8, "query": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":' * 100_000, "[" * 900_000]
)
@pytest.mark.parametrize("first", [True, False])
def test_jsonl_nested_deeply_is_that_rows_own(tmp_path: Path, duckdb_engine: Engine, deep: str, first: bool) -> None:
    row = '{"user": 7, "query": "shoe"}\n'
    path = put(tmp_path / "log.jsonl", deep + "\n" + row if first else row + deep + "\n")
    log = read_log(path, engine=duckdb_engine, columns={"user": "user", "query": "query"})
    assert ("7", "shoe") in rows_of(log)
    assert log.rows + sum(problem.rows for problem in log.problems) == 2


def test_csv_names_that_differ_in_case_are_two_columns(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = put(tmp_path / "log.csv", "user,User,query,\n1,2,shoe,\n")
    assert rows_of(read_log(path, engine=duckdb_engine, columns={"user": "User"})) == [("2", "shoe")]


FAR_AWAY = ["10000-01-01 00:00:00", "294247-01-10 04:00:54",
            "0044-03-15 (BC) 00:00:00", "infinity", "-infinity"]  # fmt: skip


@pytest.mark.parametrize("time", FAR_AWAY)
@pytest.mark.parametrize("format", ["aol", "csv", "jsonl"])
def test_times_that_cannot_be_computed_with_are_bad(
    tmp_path: Path, duckdb_engine: Engine, time: str, format: str
) -> None:
    text = {
        "aol": f"7\tshoe\t2006-03-01 07:17:12\t\t\n8\tshoe\t{time}\t\t\n",
        "csv": f"user,query,time\n7,shoe,2006-03-01 07:17:12\n8,shoe,{time}\n",
        "jsonl": '{"user": "7", "query": "shoe", "time": 1}\n'
        + json.dumps({"user": 8, "query": "shoe", "time": time}) + "\n",
    }[format]  # fmt: skip
    log = read_log(put(tmp_path / "log", text), format=format, engine=duckdb_engine)
    assert [row[0] for row in rows_of(log)] == ["7"]
    assert problems_of(log).keys() == {"bad time"}


def test_parquet_in_place(tmp_path: Path, engine: Engine) -> None:
    table = pa.table(
        {"uid": [1, 2, None, None], "q": ["a", None, "c", None], "n": pa.array([1, None, 2, 3], pa.int64())}
    )
    pq.write_table(table, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", engine=engine, columns={"rank": "n"})
    assert rows_of(log) == [(1, "a", 1)]
    assert {p.reason: p.rows for p in log.problems} == {"no user": 2, "no query": 1}


@pytest.mark.parametrize("name", ["log[1].parquet", "log?.parquet", "log{1,2}.parquet"])
def test_parquet_whose_name_looks_like_a_pattern(tmp_path: Path, engine: Engine, name: str) -> None:
    for path, query in (("log1.parquet", "other"), (name, "asked")):
        pq.write_table(pa.table({"user": [1], "query": [query]}), tmp_path / path)
    assert rows_of(read_log(tmp_path / name, engine=engine)) == [(1, "asked")]
    for folder, query in (("log1", "other"), ("log[1]", "asked")):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"user": [1], "query": [query]}), tmp_path / folder / "part.parquet")
    assert rows_of(read_log(tmp_path / "log[1]", engine=engine)) == [(1, "asked")]


def test_parquet_whose_name_cannot_be_escaped(tmp_path: Path, duckdb_engine: Engine) -> None:
    pq.write_table(pa.table({"user": [1], "query": ["a"]}), tmp_path / "log\\[1].parquet")
    with pytest.raises(InputError, match="rename it"):
        read_log(tmp_path / "log\\[1].parquet", engine=duckdb_engine)


def test_parquet_of_another_type_is_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    pq.write_table(pa.table({"user": [1], "query": [2]}), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"holds int64, not text; type columns=\{'query': NAME\}"):
        read_log(tmp_path / "log.parquet", engine=duckdb_engine)
