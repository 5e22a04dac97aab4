"""Logs as people have them: archives, workbooks, arrays, folders, prefaces, texts without a header."""

import gzip
import json
import zipfile
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog, read_log
from searchveil.log.unpack import WHOLE

CSV = "user,query,time\nann,shoes,2024-05-01 10:00\nbob,hats,2024-05-01 11:00\n"
ROWS = [("ann", "shoes", datetime(2024, 5, 1, 10)), ("bob", "hats", datetime(2024, 5, 1, 11))]


def rows_of(log: SearchLog) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in log.engine.fetch(log.table).to_pylist())


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_an_archive_is_its_files(tmp_path: Path, duckdb_engine: Engine) -> None:
    header, *rows = CSV.splitlines(keepends=True)
    path = zipped(tmp_path / "log.zip", **{"a.csv": header + rows[0], "deep__b.csv": header + rows[1], ".hidden": "x"})
    log = read_log(path, engine=duckdb_engine)
    assert rows_of(log) == ROWS
    assert log.source == "log.zip/a.csv and 1 more file"
    assert WHOLE["zip"] in log.taken_as_public


@pytest.mark.parametrize("kind", ["lines", "array", "preface"])
def test_members_of_one_name_are_all_read(tmp_path: Path, duckdb_engine: Engine, kind: str) -> None:
    def member(user: str) -> str:
        rows = [{"user": user, "query": f"q{i}"} for i in range(5)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        return {"lines": lines, "array": json.dumps(rows), "preface": f"exported\n{lines}"}[kind]

    files = {f"{folder}__x.json": member(folder) for folder in "abc"}
    path = zipped(tmp_path / "log.zip", **files)
    log = read_log(path, engine=duckdb_engine, skip_lines=int(kind == "preface"))
    assert rows_of(log) == sorted((user, f"q{i}") for user in "abc" for i in range(5))


def test_a_bad_row_in_an_archive_is_told_by_its_place_there(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(zipped(tmp_path / "log.zip", **{"a.csv": CSV + "eve,x,never\n"}), engine=duckdb_engine)
    assert rows_of(log) == ROWS
    assert [str(problem) for problem in log.problems] == ["1 row: bad time (at log.zip/a.csv:4)"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ({"a.csv": b""}, "log.zip/a.csv: is empty"),
        ({"a.bin": b"\x00\x01"}, "log.zip/a.bin: its format is none I know"),
        ({"a.csv": b"x,y\n1,2\n"}, "log.zip/a.csv: which column is it"),
        ({"a.csv": b"user,query,query\n1,2,3\n"}, "log.zip/a.csv: its first line has two columns"),
        ({"a.csv": b"user,query\n1,2\n", "b.jsonl": b'{"user": 1}\n'}, "log.zip/a.csv looks like csv but log.zip/b"),
        ({"a.csv": "user,query\n".encode("utf-16")}, "log.zip/a.csv: is UTF-16; unpack it first"),
        ({"a.csv.gz": gzip.compress(b"user,query\n" * 99)[:-9]}, "log.zip/a.csv.gz: cannot be read to its end"),
    ],
    ids=["empty", "unknown", "columns", "names", "formats", "utf-16", "gzip"],
)
def test_messages_name_the_member_and_not_its_copy(
    tmp_path: Path, duckdb_engine: Engine, file: dict[str, bytes], said: str
) -> None:
    with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
        for name, content in file.items():
            archive.writestr(name, content)
    with pytest.raises(InputError) as refused:
        read_log(tmp_path / "log.zip", engine=duckdb_engine)
    assert said in str(refused.value)
    assert "unpacked-" not in str(refused.value)


def test_a_workbook_in_an_archive_is_to_be_unpacked_first(tmp_path: Path, duckdb_engine: Engine) -> None:
    with pytest.raises(InputError, match=r"log\.zip: holds a\.xlsx; unpack it first"):
        read_log(zipped(tmp_path / "log.zip", **{"a.xlsx": "PK"}), engine=duckdb_engine)


@pytest.mark.parametrize("files", [{}, {"a.parquet": "PAR1"}, {"a.zip": "PK"}], ids=["empty", "parquet", "nested"])
def test_archives_that_are_refused(tmp_path: Path, duckdb_engine: Engine, files: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"log\.zip"):
        read_log(zipped(tmp_path / "log.zip", **files), engine=duckdb_engine)


def test_a_damaged_archive_is_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = zipped(tmp_path / "log.zip", **{"a.csv": CSV * 50})
    whole = path.read_bytes()
    for length in (10, 60, len(whole) - 30):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"log\.zip"):
            read_log(path, engine=duckdb_engine)
    for place in range(30, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(InputError):  # any other error is a fault of ours
            read_log(path, engine=duckdb_engine)


def workbook(path: Path, *rows: tuple[Any, ...]) -> Path:
    book = openpyxl.Workbook()
    for row in (("user", "query", "time"), *rows):
        book.active.append(row)  # type: ignore[union-attr]
    book.save(path)
    return path


def test_a_workbook_is_its_first_sheet(tmp_path: Path, duckdb_engine: Engine) -> None:
    """Numbers that are ids, times that are times, texts with everything that CSV would quote."""
    odd = 'say "hi", you\nthere'
    path = workbook(tmp_path / "log.xlsx", (7, odd, datetime(2024, 5, 1, 10)), (8.0, "hats", "2024-05-01 11:00"))
    log = read_log(path, engine=duckdb_engine)
    assert rows_of(log) == [("7", odd, datetime(2024, 5, 1, 10)), ("8", "hats", datetime(2024, 5, 1, 11))]
    assert WHOLE["xlsx"] in log.taken_as_public


def test_a_report_with_a_title_dates_numbers_and_empty_rows(tmp_path: Path, duckdb_engine: Engine) -> None:
    """As people save them: a title and an empty row above the names, cells of all kinds, another sheet behind it."""
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.title = "May"
    for row in (
        ("Searches,\nMay 2024",),
        (),
        ("User ID", "Search Term", "Search Timestamp"),
        (17, "red shoes", datetime(2024, 5, 1, 10)),
        (),
        (18, 2024, datetime(2024, 5, 2, 11, 30)),
        (18.0, 3.5, date(2024, 5, 3)),
        (19, True, datetime(2024, 5, 4)),
    ):
        sheet.append(row)
    book.create_sheet("Notes").append(("by hand",))
    book.save(tmp_path / "log.xlsx")
    with pytest.raises(InputError, match=r"log.xlsx \(sheet May\): its first line .* add skip_lines=1"):
        read_log(tmp_path / "log.xlsx", engine=duckdb_engine)
    log = read_log(tmp_path / "log.xlsx", engine=duckdb_engine, skip_lines=2)
    assert rows_of(log) == [
        ("17", "red shoes", datetime(2024, 5, 1, 10)),
        ("18", "2024", datetime(2024, 5, 2, 11, 30)),
        ("18", "3.5", datetime(2024, 5, 3)),
        ("19", "TRUE", datetime(2024, 5, 4)),
    ]
    assert log.source == "log.xlsx (sheet May) (after line 2) (passed over: the sheet Notes)"


def test_another_sheet_by_its_name(tmp_path: Path, duckdb_engine: Engine) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0].append(("Cover",))
    log = book.create_sheet("Log")
    for row in (("user", "query"), ("ann", "shoes")):
        log.append(row)
    book.save(tmp_path / "log.xlsx")
    assert rows_of(read_log(tmp_path / "log.xlsx", engine=duckdb_engine, options={"sheet": "Log"})) == [
        ("ann", "shoes")
    ]
    with pytest.raises(InputError, match=r"log.xlsx has no such sheet; it has Sheet, Log"):
        read_log(tmp_path / "log.xlsx", engine=duckdb_engine, options={"sheet": "Lag"})
    (tmp_path / "log.csv").write_text(CSV)
    with pytest.raises(InputError, match="csv has no such option"):
        read_log(tmp_path / "log.csv", engine=duckdb_engine, options={"sheet": "Log"})


def test_what_is_no_text_in_an_archive_is_passed_over(tmp_path: Path, duckdb_engine: Engine) -> None:
    with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
        for name, text in {"logs/a.csv": CSV, "logs/about.pdf": "%PDF", "__MACOSX/logs/._a.csv": "junk"}.items():
            archive.writestr(name, text)
    log = read_log(tmp_path / "log.zip", engine=duckdb_engine)
    assert rows_of(log) == ROWS
    assert log.source == "log.zip/logs/a.csv (passed over: logs/about.pdf)"


def test_a_bad_cell_of_a_workbook_is_its_rows_matter(tmp_path: Path, duckdb_engine: Engine) -> None:
    bad = [(9, "x", "never"), (None, "x", datetime(2024, 5, 1)), (9, None, datetime(2024, 5, 1)), (9, "=1/0", 1e300)]
    good = [("ann", "shoes", datetime(2024, 5, 1, 10)), ("bob", "hats", datetime(2024, 5, 1, 11))]
    log = read_log(workbook(tmp_path / "log.xlsx", good[0], *bad, good[1]), engine=duckdb_engine)
    assert rows_of(log) == ROWS
    assert sum(problem.rows for problem in log.problems) == len(bad)


def test_without_the_package_the_command_to_type_is_told(
    tmp_path: Path, duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    path = workbook(tmp_path / "log.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"openpyxl missing\); type: .* install"):
        read_log(path, engine=duckdb_engine)


def array(path: Path, value: Any) -> Path:
    text = json.dumps(value, indent=1).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["log.json", "log.json.gz"])
def test_an_array_is_its_elements(tmp_path: Path, duckdb_engine: Engine, name: str) -> None:
    rows = [{"user": user, "query": query, "time": time.isoformat()} for user, query, time in ROWS]
    log = read_log(array(tmp_path / name, [*rows, 3, {"user": "eve"}]), engine=duckdb_engine)
    assert rows_of(log) == ROWS
    assert {problem.reason: problem.rows for problem in log.problems} == {"malformed JSON": 1, "no query": 1}
    assert WHOLE["array"] in log.taken_as_public


def test_a_broken_array_is_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = array(tmp_path / "log.json", [{"user": "ann", "query": "shoes"}])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="cannot be unpacked"):
        read_log(path, engine=duckdb_engine)


def test_the_searches_of_matomo_visits(tmp_path: Path, duckdb_engine: Engine) -> None:
    """As Live.getLastVisitsDetails exports them: searches stand among the other actions of a visit."""

    def visit(visitor: str, *keywords: str) -> dict[str, Any]:
        page = {"type": "action", "url": "https://shop.example/", "timestamp": 1714557600}
        found = [{"type": "search", "siteSearchKeyword": word, "timestamp": 1714557600} for word in keywords]
        return {"idVisit": "1", "visitorId": visitor, "actionDetails": [page, *found]}

    visits = [visit("a1b2", "shoes", "red shoes"), visit("c3d4"), visit("e5f6", "hats")]
    log = read_log(array(tmp_path / "visits.json", visits), engine=duckdb_engine)
    assert [row[:2] for row in rows_of(log)] == [("a1b2", "red shoes"), ("a1b2", "shoes"), ("e5f6", "hats")]
    assert rows_of(log)[0][2] == datetime(2024, 5, 1, 10)
    assert log.unit == "device", "a visitor is a browser"
    without = read_log(array(tmp_path / "fewer.json", visits[1:]), engine=duckdb_engine)
    assert rows_of(without) == [row for row in rows_of(log) if row[0] != "a1b2"], "a visit's rows are its own"


def test_a_folder_of_texts_is_its_files(tmp_path: Path, duckdb_engine: Engine) -> None:
    header, *rows = CSV.splitlines(keepends=True)
    for place, row in zip(("2024/a.csv", "2024/b.csv"), rows, strict=True):
        (tmp_path / "logs" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / place).write_text(header + row)
    (tmp_path / "logs" / ".DS_Store").write_text("x")
    (tmp_path / "logs" / "notes.md").write_text("x")
    log = read_log(tmp_path / "logs", engine=duckdb_engine)
    assert rows_of(log) == ROWS
    assert log.source == f"{tmp_path}/logs/2024/a.csv and 1 more file (passed over: notes.md)"


def test_a_folder_of_rotated_logs_is_read_whole(tmp_path: Path, duckdb_engine: Engine) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    names = ["access.log", "access.log.1", "access.log-20240501", "access.log.2.gz", "access.log.3.old"]
    for i, name in enumerate(names):
        line = f'192.0.2.{i} - - [01/May/2024:10:00:00 +0000] "GET /?q=shoes HTTP/1.1" 200 1\n'.encode()
        (folder / name).write_bytes(gzip.compress(line) if name.endswith(".gz") else line)
    log = read_log(folder, engine=duckdb_engine)
    assert log.rows == 4
    assert log.source == f"{folder}/access.log and 3 more files (passed over: access.log.3.old)"


@pytest.mark.parametrize("packed", [False, True])
def test_lines_before_the_log_are_skipped(tmp_path: Path, duckdb_engine: Engine, packed: bool) -> None:
    text = f'Exported by "somebody\n\n{CSV}eve,x,never\n'.encode()
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    log = read_log(path, engine=duckdb_engine, skip_lines=2)
    assert rows_of(log) == ROWS
    assert "(after line 2):4" in str(log.problems[0])
    with pytest.raises(InputError, match="from 0 on"):
        read_log(path, engine=duckdb_engine, skip_lines=-1)


@pytest.mark.parametrize(("mark", "name"), [("\t", "tsv"), (",", "csv"), (";", "csv"), ("|", "csv")])
def test_a_text_without_a_header(tmp_path: Path, duckdb_engine: Engine, mark: str, name: str) -> None:
    path = tmp_path / "export.txt"
    path.write_text("".join(mark.join(("x", user, f"{time}", query)) + "\n" for user, query, time in ROWS))
    log = read_log(path, engine=duckdb_engine, columns=["-", "user", "time", "query"])
    assert rows_of(log) == ROWS
    assert log.format == name
    assert "what stands between columns, inferred from the first row" in log.taken_as_public
    given = read_log(
        path, engine=duckdb_engine, columns=["-", "user", "time", "query"], format=name,
        options={"delimiter": "tab" if mark == "\t" else mark},
    )  # fmt: skip
    assert rows_of(given) == ROWS
    assert "what stands between columns, inferred from the first row" not in given.taken_as_public


@pytest.mark.parametrize("columns", [["user", "time"], ["user", "query", "who"], ["query"]], ids=" ".join)
def test_columns_that_are_no_log(tmp_path: Path, duckdb_engine: Engine, columns: list[str]) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n")
    with pytest.raises(InputError, match="user and query"):
        read_log(tmp_path / "a.csv", engine=duckdb_engine, columns=columns)


def test_a_column_that_is_listed_twice_is_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    (tmp_path / "log.txt").write_text("1,ann,shoes\n")
    with pytest.raises(InputError, match="'user' stands twice"):
        read_log(tmp_path / "log.txt", engine=duckdb_engine, columns=["user", "user", "query"])
    log = read_log(tmp_path / "log.txt", engine=duckdb_engine, columns=["-", "user", "query"])
    assert rows_of(log) == [("ann", "shoes")]


def test_semicolons_between_columns_and_commas_in_them(tmp_path: Path, duckdb_engine: Engine) -> None:
    (tmp_path / "a.csv").write_text("Visitor ID;Search Term;Search Timestamp\nann;shoes, red;2024-05-01 10:00\n")
    log = read_log(tmp_path / "a.csv", engine=duckdb_engine)
    assert rows_of(log) == [("ann", "shoes, red", datetime(2024, 5, 1, 10))]
    (tmp_path / "b.csv").write_text("user,query\nann;eve,shoes; red\n")
    assert rows_of(read_log(tmp_path / "b.csv", engine=duckdb_engine)) == [("ann;eve", "shoes; red")]


def test_spark_is_not_given_what_its_workers_cannot_see(tmp_path: Path) -> None:
    from searchveil.log.unpack import unpack

    with pytest.raises(InputError, match="Spark's workers cannot see"):
        unpack([zipped(tmp_path / "log.zip", **{"a.csv": CSV})], tmp_path, may_copy=False)
    (tmp_path / "a.csv").write_text(CSV)
    assert unpack([tmp_path / "a.csv"], tmp_path, may_copy=False).paths == [str(tmp_path / "a.csv")]


def test_nothing_stays_behind(tmp_path: Path, duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    read_log(zipped(tmp_path / "log.zip", **{"a.csv": CSV}), engine=duckdb_engine)
    assert list(place.iterdir()) == []
