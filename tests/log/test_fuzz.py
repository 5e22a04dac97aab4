"""Damaged files of every format: only our own errors come out, and no user's rows depend on another's."""

import gzip
import io
import json
import random
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchveil.engine import Engine
from searchveil.errors import SearchveilError
from searchveil.log import SearchLog, read_log
from searchveil.log.readers import READERS
from searchveil.log.summary import summarize

MUTATIONS = 160  # of each kind of file
MOST_MEMORY = 1 << 30  # bytes that all of a format's mutations may add to the process

Row = tuple[str, int]  # a user and a number that the rest of the row is made of


def query_of(number: int) -> str:
    return ("shoes", "red hats", "café", "中文", "5 inch", "a-b_c")[number % 6] + f" {number}"


@dataclass(frozen=True)
class Kind:
    """A way to write rows to files, one piece of text a row."""

    write: Callable[[Row], str]
    format: str
    header: str = ""
    footer: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    second: Callable[[Row], str] | None = None  # for a second file
    user: Callable[[str], str] = str  # what the reader makes of a user's name

    def files(self, rows: Sequence[Row]) -> list[bytes]:
        writers = [self.write, *([self.second] if self.second else [])]
        return [(self.header + "".join(map(write, rows)) + self.footer).encode(self.encoding) for write in writers]


def clock(number: int) -> str:
    return f"{number % 24:02}:{number % 60:02}:00"


def aol(row: Row) -> str:
    click = f"{row[1] % 9 + 1}\thttp://a/{row[1]}" if row[1] % 2 else "\t"
    return f"{row[0]}\t{query_of(row[1])}\t2006-03-01 {clock(row[1])}\t{click}\n"


def quoted(mark: str) -> Callable[[Row], str]:
    def write(row: Row) -> str:
        text = query_of(row[1]) + (f'{mark}with ""quotes""\nand\r\nlines' if row[1] % 3 else "")
        return f'{row[0]}{mark}"{text}"{mark}2024-05-01 {clock(row[1])}{mark}{row[1]}\n'

    return write


def plain_tsv(row: Row) -> str:
    return f"{row[0]}\t{query_of(row[1])}\t2024-05-01 {clock(row[1])}\t{row[1]}\n"


def jsonl(row: Row) -> str:
    record = {
        "user": row[0],
        "query": query_of(row[1]),
        "time": 1714564800 + row[1],
        "rank": row[1],
        "more": {"a": [1]},
    }
    return json.dumps(record, ensure_ascii=row[1] % 2 == 0) + "\n"


def sogou(row: Row) -> str:
    return f"{clock(row[1])}\t{row[0]}\t[{query_of(row[1])}]\t{row[1] % 9} 1\thttp://a/{row[1]}\n"


def excite(row: Row) -> str:
    return f"{row[0]}\t970916{clock(row[1]).replace(':', '')}\t{query_of(row[1])}\n"


def ubi_query(row: Row) -> str:
    time = f"2024-05-01T{clock(row[1])}Z"
    record = {"query_id": str(row[1] % 7), "client_id": row[0], "user_query": query_of(row[1]), "timestamp": time}
    return json.dumps(record) + "\n"


def ubi_event(row: Row) -> str:
    attributes = {"object": {"object_id": f"sku-{row[1]}"}, "position": {"ordinal": row[1]}}
    record = {"query_id": str(row[1] % 7), "client_id": row[0], "action_name": "click", "event_attributes": attributes}
    return json.dumps(record) + "\n"


def trec(row: Row) -> str:
    return (
        f'<session num="{row[0]}{row[1]}" userid="{row[0]}"><interaction num="1" starttime="{clock(row[1])}">'
        f'<query>{query_of(row[1])}</query><results><result rank="1"><url>http://a/{row[1]}</url></result></results>'
        "<clicked><click><rank>1</rank></click></clicked></interaction></session>\n"
    )


def agent(user: str) -> str:
    return f"Mozilla/5.0 (X11; {user}) Gecko"


def access_log(row: Row) -> str:
    text = quote(query_of(row[1])).replace("%20", "+")
    return (
        f'192.0.2.{row[0][1:]} - - [01/May/2024:{clock(row[1])} +0200] "GET /search?lang=en&q={text}&p=1 HTTP/1.1" '
        f'200 {row[1]} "https://example.org/" "{agent(row[0])}"\n'
    )


def common_log(row: Row) -> str:
    return access_log(row).partition(' "https://')[0] + "\n"


def matomo(row: Row) -> str:
    search = {"type": "search", "siteSearchKeyword": query_of(row[1]), "timestamp": 1714564800 + row[1]}
    other = {"type": "action", "url": f"http://a/{row[1]}", "timestamp": 1714564800}
    return json.dumps({"idVisit": row[1], "visitorId": row[0], "actionDetails": [other, search]}) + ",\n"


def found_by_search(row: Row) -> str:
    """As a search for recorded searches answers: under _source, with flat keys."""
    source = {"@timestamp": f"2024-05-01T{clock(row[1])}Z", "user.id": row[0], "search.query": query_of(row[1])}
    return json.dumps({"_index": "searches", "_id": str(row[1]), "_source": source}) + "\n"


def elastic(row: Row) -> str:
    click = {"document": {"id": f"d{row[1]}"}} if row[1] % 2 else {}
    record = {
        "@timestamp": f"2024-05-01T{clock(row[1])}Z",
        "event": {"action": "search_click" if click else "search"},
        "user": {"id": row[0]},
        "search": {"query": query_of(row[1])},
        **click,
    }
    return json.dumps(record, ensure_ascii=row[1] % 2 == 0) + "\n"


KINDS = {
    "access log": Kind(
        access_log,
        "access-log",
        user=lambda user: sha256(f"192.0.2.{user[1:]} {agent(user)}".encode()).hexdigest(),
    ),
    "access log without agents": Kind(
        common_log,
        "access-log",
        options={"user": "address"},
        user=lambda user: sha256(f"192.0.2.{user[1:]}".encode()).hexdigest(),
    ),
    "matomo": Kind(
        matomo,
        "jsonl",
        "[",
        "null]",
        columns={"user": "visitorId", "query": "siteSearchKeyword", "time": "timestamp"},
    ),
    "elastic": Kind(elastic, "elastic"),
    "hits of opensearch": Kind(found_by_search, "elastic"),
    "csv with semicolons": Kind(quoted(";"), "csv", "user;query;time;rank\n"),
    "json array": Kind(
        lambda row: jsonl(row).rstrip("\n") + ",\n",
        "jsonl",
        "[",
        "null]",  # after the last comma; no object, so a bad row
        columns={name: name for name in ("user", "query", "time", "rank")},
    ),
    "aol": Kind(aol, "aol", "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"),
    "csv": Kind(quoted(","), "csv", "user,query,time,rank\n"),
    "tsv": Kind(plain_tsv, "tsv", "user\tquery\ttime\trank\n"),
    "tsv with quotes": Kind(quoted("\t"), "tsv", "user\tquery\ttime\trank\n", options={"quote": '"'}),
    "jsonl": Kind(jsonl, "jsonl", columns={name: name for name in ("user", "query", "time", "rank")}),
    "sogou": Kind(sogou, "sogou", options={"encoding": "gbk"}, encoding="gb18030"),
    "excite": Kind(excite, "excite"),
    "ubi": Kind(ubi_query, "ubi", second=ubi_event),
    "trec": Kind(trec, "trec", "<sessiontrack2013>\n", "</sessiontrack2013>\n"),
}
ROWS = [(f"u{i * i % 11}", i) for i in range(60)]


def parquet_bytes() -> bytes:
    rows = [
        {"user": user, "query": query_of(number), "time": f"2024-05-01 {clock(number)}", "rank": number}
        for user, number in ROWS
    ]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=20)
    return out.getvalue()


# Mutations: each takes the bytes of a file and gives those of a damaged one

INSERTED = [
    *(
        b"\0",
        b"\r",
        b"\n",
        b"\r\n",
        b'"',
        b'""',
        b'"\n',
        b"'",
        b"\t",
        b",",
        b"\\",
        b"\x1e",
        b"\x1f",
        b"\x01",
        b"\x1b[2J",
    ),
    *(
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"9" * 40,
        b"3000000000",
        b"-1",
        b"1e999",
        b"inf",
        b"nan",
        b"NA",
    ),
    *(
        b"99999-01-01 00:00:00",
        b"294247-01-10 04:00:54",
        b"{",
        b"}",
        b"[" * 3000,
        b'{"a":' * 3000,
        b"<",
        b"&",
        b"</session>",
    ),
    *(b"<session>" * 300, b"x" * 5000, b"\n" * 50, b"PAR1", b"\x1f\x8b"),
]


def flip(text: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 3, 100])):
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)


def truncate(text: bytearray, rng: random.Random) -> None:
    del text[rng.randrange(1, len(text)) :]


def behead(text: bytearray, rng: random.Random) -> None:
    del text[: rng.randrange(1, len(text))]


def insert(text: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 5])):
        at = rng.randrange(len(text) + 1)
        text[at:at] = rng.choice(INSERTED)


def repeat(text: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(text))
    at = rng.randrange(len(text))
    text[at:at] = text[start : start + rng.randrange(1, 800)] * rng.choice([1, 2, 20])


def insert_much(text: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(text) + 1)
    text[at:at] = rng.choice([b"x", b'"', b"\n", b"7,", b"[", b'{"a":', b"\0", b"<a>", b"\r"]) * 1_100_000


CHANGES = [flip, flip, truncate, behead, insert, insert, insert, repeat]


def damaged(text: bytes, number: int) -> bytes:
    """The file's mutation of that number; in every fourth the packed bytes are damaged."""
    rng = random.Random(number)
    packed = number % 4 == 0
    out = bytearray(gzip.compress(text, mtime=0) if packed else text)
    change = insert_much if number % 40 == 5 else rng.choice(CHANGES)
    change(out, rng)
    if not packed and number % 4 == 1:
        return gzip.compress(bytes(out), 1, mtime=0)
    return bytes(out)


def outcome(paths: Sequence[Path], engine: Engine, inspected: bool, **arguments: Any) -> str:
    """What became of reading and perhaps inspecting: an error of any other kind is a fault of ours."""
    try:
        log = read_log(list(paths), engine=engine, **arguments)
        engine.fetch(log.table)
        if inspected:
            summarize(log)
        for problem in log.problems:
            assert str(problem).isprintable()
    except SearchveilError as problem:
        return f"refused: {problem}"
    return "read"


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def damage_and_read(folder: Path, engine: Engine, files: Sequence[bytes], **arguments: Any) -> None:
    before = memory()
    outcomes = []
    for number in range(MUTATIONS):
        hit = number % len(files)
        paths = [folder / f"{number}-{i}.log" for i in range(len(files))]
        for i, path in enumerate(paths):
            path.write_bytes(damaged(files[i], number) if i == hit else files[i])
        try:
            outcomes.append(outcome(paths, engine, number % 7 == 0, **(arguments if number % 8 else {})))
        except Exception as problem:
            raise AssertionError(f"mutation {number}: {type(problem).__name__}: {str(problem)[:300]}") from problem
        for path in paths:
            path.unlink()
    assert all(map(str.isprintable, outcomes)), "one line, and nothing that a terminal would obey"
    assert 0 < outcomes.count("read") < MUTATIONS, "or the mutations are too strong or too weak to show anything"
    assert memory() - before < MOST_MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_text_is_read_or_refused(tmp_path: Path, duckdb_engine: Engine, kind: str) -> None:
    described = KINDS[kind]
    arguments = {"format": described.format, "options": described.options, "columns": described.columns}
    damage_and_read(tmp_path, duckdb_engine, described.files(ROWS), **arguments)


@pytest.mark.slow
def test_damaged_parquet_is_read_or_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    damage_and_read(tmp_path, duckdb_engine, [parquet_bytes()], format="parquet")


def test_every_format_is_damaged() -> None:
    assert {kind.format for kind in KINDS.values()} | {"parquet"} == set(READERS)


# Which rows a user has is a matter of her own rows


def rows_of(log: SearchLog, absent: str) -> list[str]:
    return sorted(map(str, (row for row in log.engine.fetch(log.table).to_pylist() if row["user"] != absent)))


@pytest.mark.parametrize("kind", KINDS)
def test_without_one_user_the_others_have_the_same_rows(tmp_path: Path, duckdb_engine: Engine, kind: str) -> None:
    described = KINDS[kind]

    def read(name: str, rows: Sequence[Row]) -> SearchLog:
        paths = []
        for i, text in enumerate(described.files(rows)):
            paths.append(tmp_path / f"{name}-{i}.log")
            paths[-1].write_bytes(text)
        options, columns = described.options, described.columns
        return read_log(paths, format=described.format, engine=duckdb_engine, options=options, columns=columns)

    everybody = read("all", ROWS)
    users = sorted({user for user, _ in ROWS})
    assert everybody.users == len(users)
    for absent in users:
        others = read(absent, [row for row in ROWS if row[0] != absent])
        assert rows_of(others, described.user(absent)) == rows_of(everybody, described.user(absent))
        assert len(others.problems) <= len(everybody.problems)
