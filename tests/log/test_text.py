"""Every line of a text log arrives unchanged or is counted, whatever is wrong with it."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import Problem, SearchLog, read_log
from searchveil.log.readers import lines

HEADER = b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
TIME = b"2006-03-01 07:17:12"


def rows_of(log: SearchLog) -> list[dict[str, Any]]:
    return log.engine.fetch(log.table).to_pylist()


def queries_of(log: SearchLog) -> list[str]:
    return sorted(row["query"] for row in rows_of(log))


def problems_of(log: SearchLog) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {problem.reason: (problem.rows, problem.first) for problem in log.problems}


def write(path: Path, *rows: bytes, header: bool = False) -> Path:
    path.write_bytes((HEADER if header else b"") + b"".join(row + b"\n" for row in rows))
    return path


def row(user: bytes = b"7", query: bytes = b"q", time: bytes = TIME, rank: bytes = b"", url: bytes = b"") -> bytes:
    return b"\t".join([user, query, time, rank, url])


FAULTS = {
    "wrong number of columns": b"7\ttoo few\t2006-03-01 07:17:12",
    "bad time": row(time=b"2006-02-30 07:17:12"),
    "bad rank": row(rank=b"first"),
    "invalid UTF-8": row(query=b"caf\xe9"),
    "NUL byte": row(query=b"a\0b"),
    "no user": row(user=b""),
    "no query": row(query=b""),
    "empty line": b"",
    "carriage return inside the line": row(query=b"a\rb"),
    "line longer than 1 MiB": row(query=b"x" * 10_000_000),
}


@pytest.mark.parametrize("reason", FAULTS)
@pytest.mark.parametrize("header", [True, False])
def test_each_fault_is_counted_once_and_located(
    tmp_path: Path, duckdb_engine: Engine, reason: str, header: bool
) -> None:
    good, fault = row(query=b"good"), FAULTS[reason]
    path = write(tmp_path / "log.tsv", good, good, fault, good, fault, good, header=header)
    log = read_log(path, format="aol", engine=duckdb_engine)
    assert queries_of(log) == ["good"] * 4
    assert log.problems == (Problem(reason, 2, (f"log.tsv:{3 + header}", f"log.tsv:{5 + header}")),)


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("wrong number of columns", b"7"),
        ("wrong number of columns", row() + b"\tmore"),
        ("wrong number of columns", row() + b"\t\t\tmore"),
        ("bad time", row(time=b"")),
        ("bad time", row(time=b"infinity")),
        ("bad time", row(time=b"yesterday", rank=b"first")),
        ("invalid UTF-8", row(query=b"\xff", url=b"\xff", rank=b"x")),
        ("invalid UTF-8", b"\xff"),
        ("no user", row(user=b"", query=b"")),
    ],
)
def test_a_row_with_several_faults_is_counted_once(
    tmp_path: Path, duckdb_engine: Engine, reason: str, fault: bytes
) -> None:
    path = write(tmp_path / "log.tsv", row(), fault, row())
    log = read_log(path, format="aol", engine=duckdb_engine)
    assert problems_of(log) == {reason: (1, ("log.tsv:2",))}
    assert log.rows == 2


def test_all_faults_together_over_several_files(tmp_path: Path, duckdb_engine: Engine) -> None:
    write(tmp_path / "a.tsv", *FAULTS.values(), row(), header=True)
    write(tmp_path / "b.tsv", row(), *reversed(FAULTS.values()))
    with gzip.open(tmp_path / "c.tsv.gz", "wb") as packed:
        packed.write(HEADER + b"\n".join([row(), *FAULTS.values(), row()]))
    log = read_log([tmp_path / "a.tsv", tmp_path / "b.tsv", tmp_path / "c.tsv.gz"], engine=duckdb_engine)
    places = {
        reason: (3, (f"a.tsv:{2 + i}", f"b.tsv:{len(FAULTS) - i + 1}", f"c.tsv.gz:{3 + i}"))
        for i, reason in enumerate(FAULTS)
    }
    assert problems_of(log) == places
    assert log.rows == 4


@pytest.mark.parametrize(
    "query",
    [
        *('"', '""', 'say "hi"', "'", ",", ";", "|", "\\", "\\t", "\\N", "#", "# comment", "-", "NULL", "null", "nan"),
        *(" leading", "trailing ", "  both  ", " ", "\u3000", "\u2028", "\u0085", "\x01", "\x0b\x0c", "\x1c", "\x7f"),
        *("ÉCOLE", "e\u0301", "中文查询", "🙂", "\ufeff", "\U0010ffff", "{}", "[a]", "%", "$1", "<b>", "a=b&c=d"),
    ],
)
def test_queries_arrive_as_typed(tmp_path: Path, duckdb_engine: Engine, query: str) -> None:
    path = write(tmp_path / "log.tsv", row(query=query.encode()), row(query=b"x" + query.encode()))
    log = read_log(path, format="aol", engine=duckdb_engine)
    assert queries_of(log) == sorted([query, "x" + query])
    assert not log.problems


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_mark(
    tmp_path: Path, duckdb_engine: Engine, line_end: bytes, last: bool, mark: bytes
) -> None:
    rows = [row(user=b"1", rank=b"2", url=b"http://a"), row(user=b"2"), row(user=b"3", rank=b"1", url=b"http://b")]
    text = line_end.join(rows) + (line_end if last else b"")
    (tmp_path / "log.tsv").write_bytes(mark + text)
    log = read_log(tmp_path / "log.tsv", engine=duckdb_engine)
    found = sorted((r["user"], r["rank"], r["url"]) for r in rows_of(log))
    assert found == [("1", 2, "http://a"), ("2", None, None), ("3", 1, "http://b")]
    assert not log.problems


def test_mixed_line_ends(tmp_path: Path, duckdb_engine: Engine) -> None:
    (tmp_path / "log.tsv").write_bytes(b"\r\n".join([row(query=b"a"), row(query=b"b")]) + b"\n" + row(query=b"c"))
    log = read_log(tmp_path / "log.tsv", engine=duckdb_engine)
    assert queries_of(log) == ["a", "b", "c"]
    assert not log.problems


good_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), min_size=1, max_size=30)
good_rows = st.builds(
    lambda user, query, rank: row(user.encode(), query.encode(), rank=rank, url=b"http://a" if rank else b""),
    good_text,
    good_text,
    st.sampled_from([b"", b"1", b"10"]),
)
short_faults = [fault for reason, fault in FAULTS.items() if "longer" not in reason]
junk = st.binary(max_size=40).filter(lambda junk: b"\n" not in junk)
file_lines = st.lists(st.tuples(st.just(True), good_rows) | st.tuples(st.just(False), st.sampled_from(short_faults)))


def _too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 300)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(file_lines, min_size=1, max_size=3), st.booleans(), st.booleans(), st.booleans())
def test_good_rows_arrive_and_good_plus_bad_is_all(
    duckdb_engine: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    files: list[list[tuple[bool, bytes]]],
    header: bool,
    packed: bool,
    ends_with_newline: bool,
) -> None:
    _too_long(monkeypatch)  # chunks of 300 bytes, so that lines and faults lie across their borders
    folder = tmp_path_factory.mktemp("any")
    paths = []
    for number, file in enumerate(files):
        file = [*file, (True, row(user=b"last", query=b"last"))]
        body = (HEADER if header else b"") + b"\n".join(line for _, line in file) + b"\n" * ends_with_newline
        paths.append(folder / f"{number}.tsv")
        paths[-1].write_bytes(gzip.compress(body) if packed else body)
    log = read_log(paths, format="aol", engine=duckdb_engine)
    wanted = sorted(
        tuple(line.split(b"\t")[:2]) for file in files for good, line in [*file, (True, b"last\tlast")] if good
    )
    found = sorted((r["user"].encode(), r["query"].encode()) for r in rows_of(log))
    assert found == wanted
    bad = [f"{i}.tsv:{j + header}" for i, file in enumerate(files) for j, (good, _) in enumerate(file, 1) if not good]
    assert sum(problem.rows for problem in log.problems) == len(bad)
    assert {place for problem in log.problems for place in problem.first} <= set(bad)
    if len(bad) <= 5:
        assert sorted(place for problem in log.problems for place in problem.first) == sorted(bad)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(junk | good_rows, max_size=20))
def test_junk_is_counted_line_by_line(
    duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory, junk: list[bytes]
) -> None:
    path = write(tmp_path_factory.mktemp("junk") / "log.tsv", row(), *junk)
    log = read_log(path, format="aol", engine=duckdb_engine)
    assert log.rows + sum(problem.rows for problem in log.problems) == len(junk) + 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 700), min_size=1, max_size=12))
def test_lines_of_any_length_around_the_limit(
    duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    _too_long(monkeypatch)
    texts = [row(query=b"x" * (1 + size)) for size in sizes]
    path = write(tmp_path_factory.mktemp("long") / "log.tsv", row(), *texts)
    log = read_log(path, format="aol", engine=duckdb_engine)
    overlong = [i for i, text in enumerate(texts, 2) if len(text) > 300]
    assert log.rows == 1 + len(texts) - len(overlong)
    first = tuple(f"log.tsv:{i}" for i in overlong[:5])
    assert log.problems == ((Problem("line longer than 1 MiB", len(overlong), first),) if overlong else ())


def test_strict_makes_bad_rows_an_error(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = write(tmp_path / "log.tsv", row(), FAULTS["bad time"], FAULTS["bad rank"])
    with pytest.raises(InputError, match=r"1 row: bad time \(at log.tsv:2\); 1 row: bad rank .*log.tsv:3.*strict"):
        read_log(path, format="aol", engine=duckdb_engine, strict=True)
    assert read_log(write(path, row()), engine=duckdb_engine, strict=True).rows == 1


def test_only_bad_rows_is_an_error(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = write(tmp_path / "log.tsv", FAULTS["bad time"], header=True)
    with pytest.raises(InputError, match=r"no row could be read: 1 row: bad time"):
        read_log(path, engine=duckdb_engine)


def test_faults_far_into_a_large_file_have_the_right_line(tmp_path: Path, duckdb_engine: Engine) -> None:
    """Several scanning threads, several buffers: the numbers must still be those of the file."""
    filler = b"".join(row(user=b"%d" % i, query=b"query number %d" % i) + b"\n" for i in range(20_000))
    faults = list(FAULTS.values())
    with (tmp_path / "log.tsv").open("wb") as out:
        for block in range(60):
            out.write(filler)
            out.write(faults[block % len(faults)] + b"\n")
    log = read_log(tmp_path / "log.tsv", format="aol", engine=duckdb_engine)
    assert log.rows == 60 * 20_000
    for i, reason in enumerate(FAULTS):
        lines_at = [20_001 * (block + 1) for block in range(i, 60, len(faults))]
        assert problems_of(log)[reason] == (6, tuple(f"log.tsv:{line}" for line in lines_at[:5]))
