"""Wrong input gets one clear line; large input gets read; Spark reads the same rows as DuckDB."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.log import read_log
from searchveil.log.readers import READERS

AOL_ROW = b"7\tshoe\t2006-03-01 07:17:12\t1\thttp://a\n"


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def missing_file(folder: Path) -> Any:
    return folder / "absent.tsv"


def glob_of_nothing(folder: Path) -> Any:
    return str(folder / "*.tsv")


def no_paths(folder: Path) -> Any:
    return []


def pipe(folder: Path) -> Any:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def folder_itself(folder: Path) -> Any:
    put(folder / "a.dat", AOL_ROW)
    return folder


def empty_file(folder: Path) -> Any:
    return put(folder / "log.tsv", b"")


def header_alone(folder: Path) -> Any:
    return put(folder / "log.tsv", b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n")


def unknown_format(folder: Path) -> Any:
    return put(folder / "log.bin", b"what is this?\n")


def utf_16(folder: Path) -> Any:
    return put(folder / "log.csv", "user,query\n1,a\n".encode("utf-16"))


def broken_gzip(folder: Path) -> Any:
    return put(folder / "log.tsv.gz", gzip.compress(AOL_ROW * 1000)[:-20])


def damaged_gzip(folder: Path) -> Any:
    packed = bytearray(gzip.compress(b"".join(b"%d" % i + AOL_ROW for i in range(50_000))))
    middle = len(packed) // 2
    packed[middle : middle + 100] = bytes(letter ^ 255 for letter in packed[middle : middle + 100])
    return put(folder / "log.tsv.gz", bytes(packed))


def gzip_damaged_at_once(folder: Path) -> Any:
    return put(folder / "log.tsv.gz", gzip.compress(AOL_ROW)[:10] + b"\xff" * 100)


def no_user_column(folder: Path) -> Any:
    return put(folder / "log.csv", b"who,query,when\n1,a,b\n")


def usual_columns(folder: Path) -> Any:
    return put(folder / "log.csv", b"user,query,when\n1,a,b\n")


def no_header(folder: Path) -> Any:
    return put(folder / "log.csv", b"alice,my secret,2024-05-01\nbob,shoes,2024-05-01\n")


def no_header_but_session(folder: Path) -> Any:
    return put(folder / "log.csv", b"session,my secret,2024-05-01\nbob,shoes,2024-05-01\n")


def one_name_twice_without_header(folder: Path) -> Any:
    return put(folder / "log.csv", b"my secret,my secret\n1,a\n")


def nul_in_header(folder: Path) -> Any:
    return put(folder / "log.csv", b"user,query\0\n1,a\n2,b\n")


def return_in_header(folder: Path) -> Any:
    return put(folder / "log.csv", b"\ruser,query\n1,a\n2,b\n")


def latin_header(folder: Path) -> Any:
    return put(folder / "log.csv", b"user,query,caf\xe9\n1,a,b\n")


def broken_header(folder: Path) -> Any:
    return put(folder / "log.csv", b'user,"query"x\n1,a\n')


def long_header(folder: Path) -> Any:
    return put(folder / "log.csv", b"user,query," + b"x" * 70_000 + b"\n1,a,b\n")


def two_formats(folder: Path) -> Any:
    return [put(folder / "a.tsv", AOL_ROW), put(folder / "b.csv", b"user,query\n1,a\n")]


def repeated_column(folder: Path) -> Any:
    return put(folder / "log.csv", b"user,query,query\n1,a,b\n")


def not_parquet(folder: Path) -> Any:
    return put(folder / "log.parquet", b"PAR1 but not really")


BAD_INPUT: list[tuple[Callable[[Path], Any], dict[str, Any], str]] = [
    (pipe, {}, r"pipe: is a pipe or a device; write it to a file first$"),
    (missing_file, {}, r"absent\.tsv: no such file$"),
    (glob_of_nothing, {}, r"\*\.tsv: no file matches$"),
    (no_paths, {}, "no log was named"),
    (folder_itself, {"format": "aol"}, r"is a folder; name the files in it, for example '.*/\*'"),
    (folder_itself, {}, r"is a folder; name the files in it, for example '.*/\*'"),
    (empty_file, {}, r"log\.tsv: is empty$"),
    (empty_file, {"format": "aol"}, r"no row could be read, it is empty$"),
    (header_alone, {}, "no row could be read"),
    (unknown_format, {}, r"type format with one of aol, ubi, sogou"),
    (unknown_format, {"format": "aoll"}, r"format='aoll': it is one of auto, aol"),
    (utf_16, {}, "is UTF-16; type: iconv"),
    (broken_gzip, {}, r"log\.tsv\.gz: cannot be read to its end \("),
    (damaged_gzip, {}, r"log\.tsv\.gz: cannot be read to its end \("),
    (gzip_damaged_at_once, {}, r"log\.tsv\.gz: cannot be read to its end \("),
    (
        no_user_column,
        {},
        r"log\.csv: which column is it\? type columns=\{'user': NAME\}, a NAME out of the 3 in its first",
    ),
    (
        no_user_column,
        {"columns": {"user": "id"}},
        r"columns=\{'user': 'id'\}: .* has no column 'id'; it has the 3 in its",
    ),
    (
        usual_columns,
        {"columns": {"user": "id"}},
        r"columns=\{'user': 'id'\}: .* has no column 'id'; it has user, query, when$",
    ),
    (
        no_user_column,
        {"columns": {"usr": "who"}},
        r"columns=\{'usr': 'who'\}: 'usr' is not one of user, query, time, rank, url",
    ),
    (
        no_header,
        {},
        r"log\.csv: which column is it\? type columns=\{'user': NAME, 'query': NAME\}, a NAME out of the 3 in",
    ),
    (
        no_header,
        {},
        r"if that line is a row, add options=\{'header': 'no'\} and type numbers: columns=\{'user': '1', 'q",
    ),
    (no_header, {"columns": {"user": "id"}}, r"has no column 'id'; it has the 3 in its first line"),
    (no_header_but_session, {}, r"which column is the user\? .* a NAME out of the 3 in its first line"),
    (one_name_twice_without_header, {}, r"two columns of one name; .* if that line is a row, add options=\{'head"),
    (nul_in_header, {}, r"log\.csv: its first line is no header: it holds NUL"),
    (return_in_header, {}, r"log\.csv: its first line is no header"),
    (latin_header, {}, r"log\.csv: its first line is no header"),
    (broken_header, {}, r"log\.csv: its first line has broken quotes$"),
    (long_header, {}, r"log\.csv: its first line is longer than 64 KiB$"),
    (usual_columns, {"options": {"delimiter": "§"}}, r"options=\{'delimiter': '§'\}: it is one ASCII character"),
    (usual_columns, {"options": {"delimiter": "\n"}}, r"options=\{'delimiter': '\\n'\}: it is one ASCII character"),
    (usual_columns, {"options": {"quote": ","}}, r"options=\{'quote': ','\}: the delimiter cannot be the quote"),
    (usual_columns, {"options": {"time_format": "%s"}}, r"options=\{'time_format': '%s'\}: is no format of times"),
    (two_formats, {}, r"a\.tsv looks like aol but .*b\.csv like csv; name one with format"),
    (header_alone, {"columns": {"user": "x"}}, r"columns: is for csv, tsv, jsonl and parquet"),
    (header_alone, {"options": {"colour": "red"}}, r"options=\{'colour': 'red'\}: aol has no such option; it has none"),
    (repeated_column, {}, "its first line has two columns named 'query'; rename one"),
    (not_parquet, {}, "cannot be read as Parquet"),
]


@pytest.mark.parametrize(
    ("make", "arguments", "message"), BAD_INPUT, ids=[f"{make.__name__}-{kind}" for make, kind, _ in BAD_INPUT]
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, duckdb_engine: Engine, make: Callable[[Path], Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read_log(make(tmp_path), engine=duckdb_engine, **arguments)
    assert str(refused.value).isprintable()
    assert "secret" not in str(refused.value)
    assert refused.value.exit_code == 2


EXAMPLES = {
    "aol": b"7\tshoe\t2006-03-01 07:17:12\t\t\n",
    "ubi": b'{"query_id": "1", "user_query": "a", "client_id": "c", "timestamp": 1}\n',
    "sogou": "00:00:00\t29\t[中]\t1 1\thttp://a\n".encode("gbk"),
    "excite": b"29\t970916105432\tshoe\n",
    "trec": b'<sessions><session num="1" userid="u"><currentquery><query>a</query></currentquery></session></sessions>',
    "jsonl": b'{"user": 1, "query": "a"}\n',
    "tsv": b"user\tquery\n1\ta\n",
    "csv": b"user,query\n1,a\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("format", EXAMPLES)
def test_a_format_is_recognised_by_its_content_alone(
    tmp_path: Path, duckdb_engine: Engine, format: str, packed: bool
) -> None:
    path = put(tmp_path / "log", gzip.compress(EXAMPLES[format]) if packed else EXAMPLES[format])
    log = read_log(path, engine=duckdb_engine)
    assert log.rows == 1
    assert next(name for name, reader in READERS.items() if reader.recognises(EXAMPLES[format], "log")) == format


def test_names_in_files_cannot_write_to_the_terminal(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = put(tmp_path / "a\x1b[2J\u202e.csv", b"user,query\n1,a\n2\n")
    log = read_log(path, engine=duckdb_engine)
    assert log.source == f"{tmp_path}/a\\x1b[2J\\u202e.csv"
    assert log.problems[0].first == ("a\\x1b[2J\\u202e.csv:3",)
    keys = put(tmp_path / "log.jsonl", b'{"user": 1, "query\\u001b[2J": "a"}\n')
    with pytest.raises(InputError, match=r"a NAME out of user, query\\x1b\[2J$"):
        read_log(keys, engine=duckdb_engine)
    told = {"query": "query\x1b[2J", "user": "user"}
    log = read_log(keys, engine=duckdb_engine, columns=told)
    assert log.rows == 1
    columns = put(tmp_path / "log.csv", b"user,query,\x1b[2J\n1,a,b\n")
    with pytest.raises(InputError, match=r"it has user, query, \\x1b\[2J$"):
        read_log(columns, engine=duckdb_engine, columns={"user": "id"})


def test_two_files_of_one_name_are_told_apart(tmp_path: Path, duckdb_engine: Engine) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        put(tmp_path / folder / "log.tsv", AOL_ROW + b"bad\n")
    log = read_log(str(tmp_path / "*" / "log.tsv"), engine=duckdb_engine)
    assert log.problems[0].first == (f"{tmp_path}/a/log.tsv:2", f"{tmp_path}/b/log.tsv:2")


@pytest.mark.slow
def test_a_log_larger_than_memory(tmp_path: Path) -> None:
    rows = 1_500_000
    with (tmp_path / "log.tsv").open("wb") as out:
        for start in range(0, rows, 50_000):
            block = range(start, start + 50_000)
            out.write(b"".join(b"%d\ta query that is number %d\t2006-03-01 07:17:12\t1\thttp://www.site%d.com\n"
                               % (i % 9973, i, i) for i in block))  # fmt: skip
    engine = open_engine(memory="150MB")
    try:
        log = read_log(tmp_path / "log.tsv", engine=engine)
        assert log.rows == rows
        assert log.users == 9973
        spilled = engine.connection.con.execute("select count(*) from duckdb_temporary_files()").fetchall()
        assert spilled[0][0] > 0
        assert engine.value(log.table["query"].nunique()) == rows
    finally:
        engine.close()


@pytest.mark.spark
def test_spark_reads_a_parquet_folder_itself(tmp_path: Path, spark_engine: Engine) -> None:
    (tmp_path / "log").mkdir()
    for part in range(2):
        pq.write_table(pa.table({"user": [part], "query": ["a"]}), tmp_path / "log" / f"{part}.parquet")
    assert read_log(tmp_path / "log", engine=spark_engine).rows == 2
