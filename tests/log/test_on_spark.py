"""Spark reads text in its workers, block by block, and finds the same rows and the same bad rows as DuckDB does."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.log import SearchLog, on_spark, read_log
from searchveil.log.readers import READERS, Request
from searchveil.log.readers.source import Source, find_sources
from searchveil.log.readers.staging import Parser, Part, Staged, Tally

AOL = b"7\tshoe\t2006-03-01 07:17:12\t1\thttp://a"
AOL_HEADER = b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
COLUMNS = {name: name for name in ("user", "query", "time", "rank")}
QUOTE_NONE = {"quote": "none"}


def aol(i: int) -> bytes:
    return b"%d\tsho\xc3\xa9 %d\t2006-03-01 07:17:%02d\t%s\t%s" % (
        i % 7,
        i % 5,
        i % 60,
        *((b"3", b"http://a") if i % 2 else (b"", b"")),
    )


def separated(delimiter: bytes) -> Callable[[int], bytes]:
    return lambda i: delimiter.join(
        [b"u%d" % (i % 7), b'query "%d' % (i % 5), b"2024-05-01 12:%02d:00" % (i % 60), b"%d" % i]
    )


def jsonl(i: int) -> bytes:
    return b'{"user": "u%d", "query": "q \\u00e9 %d", "time": %d, "rank": %d}' % (i % 7, i % 5, 1_700_000_000 + i, i)


def excite(i: int) -> bytes:
    return b"2A9E%d\t9709161054%02d\t+md foods %d" % (i % 7, i % 60, i % 5)


def sogou(i: int) -> bytes:
    return b"00:00:%02d\t298%d\t[\xe5\xae\x89 %d]\t8 %d\tdownload.it.com.cn/%d" % (i % 60, i % 7, i % 5, i, i)


def sogou_gbk(i: int) -> bytes:
    return sogou(i).decode().encode("gb18030")


def access(i: int) -> bytes:
    return b'192.0.2.%d - - [01/May/2024:10:00:%02d +0000] "GET /?q=sho%%C3%%A9+%d HTTP/1.1" 200 1 "-" "curl"' % (
        i % 7,
        i % 60,
        i % 5,
    )


def elastic(i: int) -> bytes:
    return b'{"@timestamp": "2024-05-01T10:00:%02dZ", "user": {"id": "u%d"}, "search.query": "q \\u00e9 %d"}' % (
        i % 60,
        i % 7,
        i % 5,
    )


# format -> header, a row, what to tell the reader
CORPUS: dict[str, tuple[str, bytes | None, Callable[[int], bytes], dict[str, str]]] = {
    "aol": ("aol", None, aol, {}),
    "aol with a header": ("aol", AOL_HEADER, aol, {}),
    "tsv": ("tsv", b"user\tquery\ttime\trank", separated(b"\t"), {}),
    "csv": ("csv", b"user,query,time,rank", separated(b","), QUOTE_NONE),
    "jsonl": ("jsonl", None, jsonl, {}),
    "excite": ("excite", None, excite, {}),
    "access-log": ("access-log", None, access, {}),
    "elastic": ("elastic", None, elastic, {}),
    "sogou": ("sogou", None, sogou, {"encoding": "utf-8"}),
    "sogou in GBK": ("sogou", None, sogou_gbk, {"encoding": "gbk"}),
}
DAMAGE = [
    b"", b"\0", b"\r", b"\n", b"\n\n", b"\r\n", b"\t", b",", b"\xff", b"\xc3", b"\xef\xbb\xbf", b'"', b"\\", b"{", b"}",
    b"\x01", b"\x1a", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x0c", b"infinity", b"\n\xef\xbb\xbf", b"\r\r\n", b" ",
]  # fmt: skip


def damaged(text: bytes, faults: int, chance: random.Random) -> bytes:
    """Some bytes replaced by what readers stumble over, anywhere but in the first line."""
    body = text.index(b"\n") + 1
    for _ in range(faults):
        at = chance.randrange(body, len(text))
        text = text[:at] + chance.choice(DAMAGE) + text[at + chance.randrange(4) :]
    return text


def content(kind: str, rows: int, faults: int, seed: int) -> bytes:
    _, header, row, _ = CORPUS[kind]
    chance = random.Random(seed)
    lines = [*([header] if header else []), *(row(i + seed) for i in range(rows))]
    text = chance.choice([b"\n", b"\n", b"\r\n"]).join(lines) + chance.choice([b"", b"\n", b"\n\n", b"\r"])
    return chance.choice([b"", b"", b"\xef\xbb\xbf"]) + (damaged(text, faults, chance) if faults else text)


def told(format: str) -> dict[str, str]:
    """A damaged row must not make the keys of JSON lines doubtful."""
    return COLUMNS if format == "jsonl" else {}


def rows_of(log: SearchLog) -> list[str]:
    return sorted(map(str, log.engine.fetch(log.table).to_pylist()))


# Without Spark: the same function that its workers run, on blocks cut anywhere


def spark_lines(content: bytes) -> list[bytes]:
    """What Spark makes of a file: a byte order mark at its begin is gone, every line feed ends a line."""
    text = content.removeprefix(on_spark.BOM)
    lines = text.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def blocks(file: int, lines: list[bytes], chance: random.Random) -> Iterator[pa.RecordBatch]:
    """Blocks of a file, and batches that hold a part of a block or parts of two, as Spark hands them over."""
    start, rest = 0, lines
    numbered: list[tuple[bytes, int, int]] = []
    while rest:
        size = chance.randrange(1, len(lines) + 1)
        numbered += [(line, file, start) for line in rest[:size]]
        start, rest = start + size, rest[size:]
    while numbered:
        size = chance.randrange(1, len(lines) + 1)
        line, files, starts = zip(*numbered[:size], strict=True)
        columns: list[Any] = [pa.array(line, pa.binary()), pa.array(files), pa.array(starts)]
        yield pa.RecordBatch.from_arrays(columns, names=["line", "file", "start"])
        numbered = numbered[size:]


def parse_in_blocks(source: Source, kind: str, chance: random.Random) -> tuple[list[str], Any]:
    format, _, _, options = CORPUS[kind]
    reader = READERS[format]
    planned: list[Part] = []

    def plan(parts: Any) -> Staged:
        planned.extend(parts)
        return Staged("none", [], Tally())

    assert reader.parse is not None
    reader.parse(Parser(None, Path(), plan), Request([source], told(format), options))
    (part,) = planned
    marked = {5} if source.head.startswith(on_spark.BOM) else set()
    batches = blocks(5, spark_lines(Path(source.path).read_bytes()), chance)
    chunk = chance.choice([60, 400, 100_000])
    table = pa.Table.from_batches(list(on_spark.parse_blocks(part, marked, chunk, batches)))
    notes = [json.loads(note) for note in table["note"].to_pylist() if note is not None]
    return sorted(str(row) for row in table.to_pylist() if row.pop("note") is None), notes


@pytest.mark.slow
@pytest.mark.parametrize("kind", CORPUS)
def test_blocks_cut_anywhere_are_read_like_the_whole_file(
    tmp_path: Path, kind: str, duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_spark, "DuckDBEngine", lambda threads: open_engine())
    format, _, _, options = CORPUS[kind]
    bad = 0
    for seed in range(20):
        chance = random.Random(seed)
        path = tmp_path / f"{seed}.txt"
        path.write_bytes(content(kind, 20, 8, seed))
        whole = read_log(path, format=format, engine=duckdb_engine, columns=told(format), options=options)
        rows, notes = parse_in_blocks(find_sources(path)[0], kind, chance)
        assert rows == rows_of(whole), seed
        monkeypatch.setattr(on_spark, "_by_hash", lambda engine, sources: {5: sources[0]})
        tally = on_spark._tally(None, notes, find_sources(path))  # type: ignore[arg-type]
        assert set(tally.problems()) == set(whole.problems), seed
        bad += sum(problem.rows for problem in whole.problems)
    assert bad > 20


# On Spark


@pytest.fixture
def small_blocks(spark_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """So small that even the files here are cut."""
    settings = {"spark.sql.files.maxPartitionBytes": "2000", "spark.sql.files.openCostInBytes": "0"}
    conf = spark_engine.session.conf  # type: ignore[attr-defined]
    before = {key: conf.get(key) for key in settings}
    for key, value in settings.items():
        conf.set(key, value)
    monkeypatch.setattr(on_spark, "CHUNK", 700)
    yield spark_engine
    for key, value in before.items():
        conf.set(key, value)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kind", CORPUS)
def test_spark_reads_text_like_duckdb(tmp_path: Path, kind: str, small_blocks: Engine, duckdb_engine: Engine) -> None:
    format, _, _, options = CORPUS[kind]
    for seed in range(3):
        name = f"log {seed} [%20]*.txt"
        (tmp_path / name).write_bytes(content(kind, 120, 6, seed))
    long_line = CORPUS[kind][2](1) + b"x" * (1 << 20) + b"\n"
    (tmp_path / "long.txt.gz").write_bytes(gzip.compress(content(kind, 20, 0, 9) + long_line + CORPUS[kind][2](3)))
    paths = sorted(tmp_path.iterdir())
    here = read_log(paths, format=format, engine=duckdb_engine, columns=told(format), options=options)
    there = read_log(paths, format=format, engine=small_blocks, columns=told(format), options=options)
    assert there.table.columns == here.table.columns
    for column in here.table.columns:
        assert type(there.table[column].type()) is type(here.table[column].type())
    assert rows_of(there) == rows_of(here)
    assert set(there.problems) == set(here.problems)
    assert "line longer than 1 MiB" in {problem.reason for problem in here.problems}
    assert {*there.taken_as_public} == {*here.taken_as_public, on_spark.FITS_IN_MEMORY}
    assert there.unit == here.unit


@pytest.mark.spark
def test_spark_reads_text_by_its_own_paths(tmp_path: Path, spark_engine: Engine) -> None:
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_bytes(content("tsv", 10, 0, 0))
    (tmp_path / "packed.tsv.gz").write_bytes(gzip.compress(content("tsv", 10, 0, 0)))
    assert read_log(f"file://{tmp_path}/*.tsv", engine=spark_engine).rows == 20
    assert read_log(f"file://{tmp_path}/packed.tsv.gz", engine=spark_engine).rows == 10


@pytest.mark.spark
def test_spark_reads_the_file_that_was_named(tmp_path: Path, spark_engine: Engine) -> None:
    (tmp_path / "log[1].tsv").write_bytes(content("tsv", 10, 0, 0))
    (tmp_path / "log1.tsv").write_bytes(content("tsv", 99, 0, 0))
    assert read_log(tmp_path / "log[1].tsv", engine=spark_engine).rows == 10


CUT_OFF = gzip.compress(random.Random(1).randbytes(99_999))[:-40]
REFUSED: dict[str, tuple[str, bytes, dict[str, Any], tuple[str, ...]]] = {
    "quotes": ("log.csv", b"user,query\n1,a\n", {}, ("quoted values may hold line ends", "options={'quote': 'none'}")),
    "xml": ("log.xml", b'<sessiontrack><session num="1"></session></sessiontrack>', {}, ("line by line", "sessions")),
    "ubi": ("q.ndjson", b'{"query_id": "1", "client_id": "c", "user_query": "s"}\n', {}, ("joined", "engine='spark'")),
    "hidden": ("_log.tsv", b"user\tquery\n1\ta\n", {}, ("begin with . or _", "rename")),
    "gzip by another name": ("log.tsv", gzip.compress(b"user\tquery\n1\ta\n"), {}, ("by its name alone", ".gz")),
    "gzip cut off": ("log.tsv.gz", CUT_OFF, {"format": "aol"}, ("Spark",)),
    "no such file": ("file:///no/such/log.tsv", b"", {}, ("no such file",)),
    "no such store": ("gopher://host/log.tsv", b"", {}, ("cannot be read", "gopher")),
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("name", REFUSED)
def test_spark_refuses_what_it_cannot_cut_at_line_ends(tmp_path: Path, name: str, spark_engine: Engine) -> None:
    file, text, more, says = REFUSED[name]
    if "://" not in file:
        file = str(tmp_path / file)
        Path(file).write_bytes(text)
    with pytest.raises(InputError) as refusal:
        read_log(file, engine=spark_engine, **more)
    said = str(refusal.value)
    assert all(part in said for part in says), said
    assert "\n" not in said
    assert file in said or Path(file).name in said
