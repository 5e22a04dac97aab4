"""Text with quotes: every record is read as Python's csv reads it, wherever the file is cut into chunks."""

import csv
import gzip
import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from searchveil.engine import Engine
from searchveil.log import Problem, SearchLog, read_log
from searchveil.log.readers import lines, records
from searchveil.log.readers.source import find_sources

LIMIT = 200  # bytes of a chunk and of the longest record in the tests below


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", LIMIT)


@dataclass
class Copied:
    rows: list[list[str]]
    left_out: dict[str, list[int]]  # reason -> line numbers
    begins: list[int]  # the line in which each row begins


def copied(folder: Path, text: bytes, quote: str = '"', delimiter: str = ",") -> Copied:
    """What the copy holds that DuckDB is given."""
    path = folder / "log.csv"
    path.write_bytes(text)
    (source,) = find_sources(path)
    clean = lines.clean_text(source, folder, quote=quote, delimiter=delimiter)
    assert clean.encoded
    written = Path(clean.path).read_bytes()
    rows = [line.split(records.UNIT_SEPARATOR) for line in written.decode("latin-1").split("\n")[:-1]]
    begins = [clean.original_line(number) for number in range(1, len(rows) + 1)]
    left_out = {reason: found.first for reason, found in clean.left_out.items()}
    assert clean.rows == len(rows) + sum(found.rows for found in clean.left_out.values())
    for made in (clean.path, clean.shifts):
        Path(str(made)).unlink()
    return Copied([[_decoded(value) for value in row] for row in rows], left_out, begins)


def _decoded(value: str) -> str:
    for character, code in reversed(records.CODES.items()):
        value = value.replace(records.ESCAPE + code, character)
    return value


def by_csv(text: bytes, quote: str = '"', delimiter: str = ",") -> list[list[str]]:
    stream = io.StringIO(text.decode("latin-1"), newline="")
    return [row for row in csv.reader(stream, quotechar=quote, delimiter=delimiter, strict=True) if row]


@dataclass
class Expected:
    values: list[str]
    line: int
    fault: str | None


def letter_by_letter(text: str, quote: str, delimiter: str, longest: int) -> Iterator[Expected]:  # noqa: C901
    """The rules of docs/formats.md, one letter after the other."""
    at, line = 0, 1
    text += "" if text.endswith("\n") or not text else "\n"
    while at < len(text):
        values: list[str] = []
        start, value, state, fault = at, "", "begin", None
        while True:
            if at == len(text):
                fault = lines.BROKEN_QUOTES
                break
            letter = text[at]
            at += 1
            if state == "broken":
                if letter == "\n":
                    break
            elif state == "quoted":
                if letter != quote:
                    value += letter
                elif text[at : at + 1] == quote:
                    value += quote
                    at += 1
                elif text[at : at + 1] in (delimiter, "\n", "\r"):
                    state = "plain"
                else:
                    fault, state = lines.BROKEN_QUOTES, "broken"
            elif letter == quote and state == "begin":
                state = "quoted"
            elif letter == delimiter:
                values, value, state = [*values, value], "", "begin"
            elif letter == "\n":
                break
            elif letter == "\r" and text[at] == "\n":
                pass
            else:
                if letter == "\r":
                    fault = lines.STRAY_RETURN
                value, state = value + letter, "plain"
        raw = text[start:at]
        if fault != lines.BROKEN_QUOTES:
            if len(raw) - 1 > longest:
                fault = lines.TOO_LONG
            elif "\0" in raw:
                fault = lines.NUL
            elif not values and not value:
                fault = lines.EMPTY_LINE
        yield Expected([*values, value], line, fault)
        line += raw.count("\n")


def agrees(found: Copied, expected: Sequence[Expected]) -> bool:
    good = [row for row in expected if row.fault is None]
    bad: dict[str, list[int]] = {}
    for row in expected:
        if row.fault is not None:
            bad.setdefault(row.fault, []).append(row.line)
    first = {reason: places[: lines.SHOWN] for reason, places in bad.items()}
    return (found.rows, found.begins, found.left_out) == ([r.values for r in good], [r.line for r in good], first)


VALUES = [
    *("", "shoe", 'say "hi"', '"', '""', "'", "it's", "a,b;c\td", " x ", "x" * 60, "caf\xe9"),
    *("two\nlines", "dos\r\nlines", "mac\rlines", "\n", "\n,\n,\n", "u9,my secret\nu8,my secret\n"),
    *("\x1e", "\x1f", "\x1e1\x1f\x1e"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("quote", "delimiter", "line_end"),
    [('"', ",", "\n"), ('"', "\t", "\r\n"), ("'", ";", "\n"), ("|", "\x1f", "\r\n"), ("\x1e", " ", "\n")],
)
def test_well_formed_text_is_read_as_by_csv(
    tmp_path: Path, seed: int, quote: str, delimiter: str, line_end: str
) -> None:
    rng = random.Random(seed)
    written = io.StringIO()
    rows = []
    for _ in range(300):
        row = [f"u{rng.randrange(9)}", *rng.choices(VALUES, k=rng.randrange(1, 4))]
        style: Any = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]) if "\r" not in "".join(row) else csv.QUOTE_ALL
        rows.append(row)
        csv.writer(written, quotechar=quote, delimiter=delimiter, quoting=style, lineterminator=line_end).writerow(row)
    text = written.getvalue().encode("latin-1")
    expected = by_csv(text, quote, delimiter)
    assert expected == rows
    assert copied(tmp_path, text, quote, delimiter).rows == expected
    unfinished = copied(tmp_path, text.removesuffix(line_end.encode()), quote, delimiter)
    assert unfinished.rows == expected
    assert not unfinished.left_out


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_chunk_may_end_at_any_byte_of_a_record(tmp_path: Path, line_end: bytes) -> None:
    record = b'"A","a ""quoted"" and\n\nu1,my secret\n,""","5\'11"",""tall",x"y,""' + line_end
    after = line_end.join([b'"B",plain', b"C,19\" monitor", b'D,"last"']) + line_end  # fmt: skip
    for before in range(1, LIMIT + len(record)):
        text = b"u" * (before % 90) + b",y" + line_end
        text += b"v,z\n" * ((before - len(text)) // 4)
        text += b"w" * (before - len(text)) + b",first" + line_end + record + after
        found = copied(tmp_path, text)
        assert found.rows == by_csv(text)
        assert not found.left_out


ALPHABET = [
    '"',
    '"',
    '""',
    ",",
    ",",
    "\n",
    "\n",
    "\r\n",
    "\r",
    "\0",
    "a",
    "bc",
    "\x1e",
    "\x1f",
    "'",
    "\xe9",
    "\xff",
    "x" * 70,
]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("seed", range(8))
def test_any_text_is_cut_as_the_rules_say(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        text = '"' + "".join(rng.choices(ALPHABET, k=rng.randrange(1, 300)))
        expected = [*letter_by_letter(text, '"', ",", LIMIT)]
        assert agrees(copied(tmp_path, text.encode("latin-1")), expected), repr(text)


@pytest.mark.usefixtures("small_chunks")
def test_a_byte_order_mark_is_no_part_of_the_first_value(tmp_path: Path) -> None:
    assert copied(tmp_path, b'\xef\xbb\xbf"user",query\n').rows == [["user", "query"]]


# By read_log, at the sizes of DuckDB's own buffers


def users_of(log: SearchLog, query: str) -> int:
    return int(log.engine.value(log.table.filter(log.table["query"] == query)["user"].nunique()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv"])
def test_a_value_with_line_ends_across_the_border_of_a_buffer(tmp_path: Path, duckdb_engine: Engine, kind: str) -> None:
    border, rows = 8_000_000, 340_000  # where DuckDB 2.0 cuts a file in parts
    mark = b"\t" if kind == "tsv" else b","
    hidden = b"".join(b"f%04d%bmy secret\n" % (i, mark) for i in range(400))
    value = b'A%b"hello\n%bbye"\n' % (mark, hidden)
    filler = b"".join(b"v%07d%bshoes number %07d\n" % (i, mark, i) for i in range(rows))
    cut = filler.rfind(b"\n", 0, border - len(value) // 2) + 1
    text = b"user%bquery\n" % mark + filler[:cut] + value + filler[cut:]
    path = tmp_path / f"log.{kind}"
    path.write_bytes(gzip.compress(text, 1) if kind == "csv.gz" else text)
    log = read_log(path, format=kind[:3], engine=duckdb_engine, options={"quote": '"'})
    assert users_of(log, "my secret") == 0
    assert (log.rows, log.users, log.problems) == (rows + 1, rows + 1, ())
    assert users_of(log, f"hello\n{hidden.decode()}bye") == 1


CROWD = b"".join(b'u%d,"red, shoes"\n' % i for i in range(120))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"a\0b", lines.NUL),
        (b"first line\nwith \0 inside\nlast line", lines.NUL),
        (b"x" * 3_000_000, lines.TOO_LONG),
        (b"f1,my secret\n" * 700_000, lines.TOO_LONG),
        (b'""' * 600_000, lines.TOO_LONG),
        (b"\n" * (1 << 20), lines.TOO_LONG),
    ],
)
def test_a_fault_inside_of_quotes_is_that_records_own(
    tmp_path: Path, duckdb_engine: Engine, value: bytes, reason: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"user,query\n" + CROWD + b'A,"' + value + b'"\n' + CROWD.replace(b"u", b"v"))
    log = read_log(path, engine=duckdb_engine)
    assert (log.rows, users_of(log, "red, shoes")) == (240, 240)
    assert log.problems == (Problem(reason, 1, ("log.csv:122",)),)


@pytest.mark.parametrize(
    "value", [b"mac\rlines", b"\r", b"dos\r\nlines", b"\n" * ((1 << 20) - 9), b"\x1e\x1f" * 500_000]
)
def test_what_is_unusual_but_well_formed_arrives_as_typed(tmp_path: Path, duckdb_engine: Engine, value: bytes) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"user,query\n" + CROWD + b'A,"' + value + b'"\n' + CROWD)
    log = read_log(path, engine=duckdb_engine)
    (row,) = log.engine.fetch(log.table.filter(log.table.user == "A")).to_pylist()
    assert row["query"].encode() == value
    assert (log.rows, log.problems) == (241, ())


@pytest.mark.parametrize("row", [b'A,"a"\rb\n', b"A,a\rb\n", b'A,"a"\r,"b"\n'])
def test_a_lone_return_outside_of_quotes_is_that_rows_own(tmp_path: Path, duckdb_engine: Engine, row: bytes) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"user,query\n" + CROWD + row + CROWD)
    log = read_log(path, engine=duckdb_engine)
    assert log.rows == 240
    assert log.problems == (Problem(lines.STRAY_RETURN, 1, ("log.csv:122",)),)


@pytest.mark.parametrize(
    ("opened", "rows"),
    [
        (b'A,"19 inch\n', 0),  # never closed
        (b'A,"19 inch\n' + b"u,plain\n" * 1_200_000, 120),  # 9 MB later a quote closes it, before a letter
        (b'A,"a"b\n', 120),
    ],
    ids=["never", "far away", "at once"],
)
def test_a_quote_that_takes_rows_of_others_with_it_is_told(
    tmp_path: Path, duckdb_engine: Engine, opened: bytes, rows: int
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"user,query\n" + CROWD + opened + (b'B,"next"\n' + CROWD if rows else b"u,plain\n" * 1_200_000))
    log = read_log(path, engine=duckdb_engine)
    assert log.rows == 120 + rows + (opened == b'A,"a"b\n')
    assert log.problems == (Problem(lines.BROKEN_QUOTES, 1, ("log.csv:122",), and_more=True),)


def test_places_are_lines_of_the_file(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b'user,query\n1,"a\n\nb"\n\n2,c\n3\n"4","d\ne"\n,f\n5,\xff\n6,"g"\n')
    log = read_log(path, engine=duckdb_engine)
    assert {problem.reason: problem.first for problem in log.problems} == {
        "empty line": ("log.csv:5",),
        "wrong number of columns": ("log.csv:7",),
        "no user": ("log.csv:10",),
        "invalid UTF-8": ("log.csv:11",),
    }
    assert log.rows == 4
