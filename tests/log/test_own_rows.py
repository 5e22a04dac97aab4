"""Which rows a user has is a matter of her own rows; what was inferred from rows is named, and so is what a user is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import Problem, SearchLog, read_log
from searchveil.log.readers.generic import unit_of
from searchveil.log.readers.parquet import TAKEN_AS_PUBLIC as DECODED

AOL_HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
AOL_ROW = "7\tshoe\t2006-03-01 07:17:12\t1\thttp://a\n"
FILES = "which files hold queries and which events, inferred from their first rows"
QUOTES = "that quotes are well-formed: a broken one can swallow rows of others"


def put(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(log: SearchLog, *absent: str) -> list[tuple[Any, ...]]:
    """The rows of everybody but the absent."""
    found = (tuple(row.values()) for row in log.engine.fetch(log.table).to_pylist() if row["user"] not in absent)
    return sorted(found, key=str)


# UBI: query_ids are made by clients

CLIENTS = [f"c{i}" for i in range(30)]


def asked(client: str, query_id: str, text: str = "shoe", hour: int = 10) -> dict[str, Any]:
    time = f"2024-05-01T{hour:02}:00:00Z"
    return {"query_id": query_id, "client_id": client, "user_query": text, "timestamp": time}


def clicked(client: str | None, query_id: str, item: str = "sku-1", **more: str) -> dict[str, Any]:
    attributes = {"object": {"object_id": item}, "position": {"ordinal": 1}}
    fields = {"query_id": query_id, "client_id": client, "action_name": "click", "event_attributes": attributes}
    return fields | more


QUERIES = [asked(client, f"q{client}") for client in CLIENTS]
CLICKS = [clicked(client, f"q{client}", user_id=f"u{client}", session_id=f"s{client}") for client in CLIENTS]
# Everything mallory sends bears her client_id: her history, to add or to remove.
STOLEN_QUERIES = [asked("mallory", f"q{client}", "boots", hour=9) for client in CLIENTS]
STOLEN_CLICKS = [
    clicked("mallory", f"q{client}", "mallory-was-here", user_id="a-mallory", session_id="a-mallory")
    for client in CLIENTS
]


@pytest.mark.parametrize("user", ["client_id", "session_id", "user_id"])
@pytest.mark.parametrize(
    ("more_queries", "more_clicks"),
    [(STOLEN_QUERIES, []), ([], STOLEN_CLICKS), (STOLEN_QUERIES, STOLEN_CLICKS)],
    ids=["queries", "clicks", "both"],
)
@pytest.mark.parametrize("first", [True, False])
def test_ubi_no_client_touches_the_rows_of_another(
    tmp_path: Path,
    duckdb_engine: Engine,
    user: str,
    more_queries: list[dict[str, Any]],
    more_clicks: list[dict[str, Any]],
    first: bool,
) -> None:
    def read(name: str, queries: list[dict[str, Any]], events: list[dict[str, Any]]) -> SearchLog:
        paths = [put(tmp_path / f"q-{name}.json", *queries), put(tmp_path / f"e-{name}.json", *events)]
        return read_log(paths, format="ubi", engine=duckdb_engine, options={"user": user})

    without = read("without", QUERIES, CLICKS)
    queries, events = (QUERIES + more_queries, CLICKS + more_clicks)
    present = read("with", queries[::-1] if first else queries, events[::-1] if first else events)
    assert len(rows_of(without)) == len(CLIENTS)
    assert {row[4] for row in rows_of(without)} == {"sku-1"}
    assert rows_of(present, "mallory", "a-mallory") == rows_of(without)
    assert present.unit == {"client_id": "device", "session_id": "session", "user_id": "user"}[user]
    same = [] if user == "client_id" else [f"that the events of a client's query all name the same {user}"]
    assert present.taken_as_public == without.taken_as_public == (FILES, *same)


def test_ubi_nobody_is_chosen_where_events_name_two_users(tmp_path: Path, duckdb_engine: Engine) -> None:
    queries = put(tmp_path / "q.json", asked("c1", "1"), asked("c1", "2"), asked("c1", "3"))
    events = put(
        tmp_path / "e.json",
        *(clicked("c1", "1", user_id="ann"), clicked("c1", "1", user_id="bob")),
        *(clicked("c1", "2", user_id="ann"), clicked("c1", "2")),
    )
    log = read_log([queries, events], engine=duckdb_engine, options={"user": "user_id"})
    assert [row[:2] for row in rows_of(log)] == [("ann", "shoe")] * 2
    assert set(log.problems) == {
        Problem("query whose events name more than one user_id", 2),
        Problem("query without an event that names its user_id", 1),
    }


def test_ubi_events_without_a_client_are_bad_rows(tmp_path: Path, duckdb_engine: Engine) -> None:
    paths = [put(tmp_path / "q.json", asked("c1", "1")), put(tmp_path / "e.json", clicked(None, "1"))]
    log = read_log(paths, engine=duckdb_engine)
    assert [row[4] for row in rows_of(log)] == [None]
    assert log.problems == (Problem("event without a client_id", 1, ("e.json:1",)),)


# JSON lines: keys are part of the rows


def test_jsonl_a_user_that_only_some_rows_have_is_not_guessed(tmp_path: Path, duckdb_engine: Engine) -> None:
    """One logged-in user among visitors would otherwise decide that nobody else is a user."""
    visits = [{"client_id": f"c{i}", "query": "weather"} for i in range(30)]
    alice = {"user_id": "alice", "client_id": "cA", "query": "hello"}
    log = read_log(put(tmp_path / "without.jsonl", *visits), engine=duckdb_engine)
    assert log.users == 30
    path = put(tmp_path / "with.jsonl", *visits[:5], alice, *visits[5:])
    with pytest.raises(
        InputError, match=r"some of the first rows have 'user_id'.* type columns=\{'user': 'user_id'\}, other"
    ):
        read_log(path, engine=duckdb_engine)
    told = read_log(path, engine=duckdb_engine, columns={"user": "client_id"})
    assert rows_of(told, "cA") == rows_of(log)
    second = put(tmp_path / "second.jsonl", alice)
    with pytest.raises(InputError, match=r"columns=\{'user': 'user_id'\}"):
        read_log([tmp_path / "without.jsonl", second], engine=duckdb_engine)


def test_jsonl_guessed_keys_are_named(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = put(tmp_path / "log.jsonl", {"uid": 1, "q": "a", "ts": 1714564800})
    log = read_log(path, engine=duckdb_engine)
    assert log.taken_as_public == (
        "the format jsonl, inferred from the first rows",
        "which keys hold user (uid), query (q), time (ts), rank (none), url (none), inferred from the first rows",
    )
    columns = {"user": "uid", "query": "q", "time": "ts"}
    told = read_log(path, format="jsonl", engine=duckdb_engine, columns=columns)
    assert told.taken_as_public == ("which keys hold rank (none), url (none), inferred from the first rows",)
    columns |= {"rank": "click.rank", "url": "click.url"}
    assert read_log(path, format="jsonl", engine=duckdb_engine, columns=columns).taken_as_public == ()


def test_jsonl_a_flat_key_in_one_row_decides_nothing_about_others(tmp_path: Path, duckdb_engine: Engine) -> None:
    """Whether session.id is nested or flat is read in each row."""
    columns = {"user": "session.id", "query": "search.query"}
    rows = [{"session": {"id": f"s{i}"}, "search": {"query": "weather"}} for i in range(30)]
    mallory = {"session.id": "mallory", "search.query": "x"}
    log = read_log(put(tmp_path / "without.jsonl", *rows), format="jsonl", engine=duckdb_engine, columns=columns)
    path = put(tmp_path / "with.jsonl", mallory, *rows)
    present = read_log(path, format="jsonl", engine=duckdb_engine, columns=columns)
    assert log.users == 30
    assert present.users == 31
    assert rows_of(present, "mallory") == rows_of(log)


# What is told by the caller or by a header, and what by rows


@pytest.mark.parametrize(
    ("name", "text", "arguments", "public"),
    [
        ("log.tsv", AOL_HEADER + AOL_ROW, {}, ()),
        ("log.tsv", AOL_ROW, {"format": "aol"}, ()),
        ("log.tsv", AOL_ROW, {}, ("the format aol, inferred from the first rows",)),
        ("log.tsv", AOL_HEADER.lower() + AOL_ROW, {}, ()),
        ("log.tsv", "user\tquery\n1\ta\n", {}, ()),
        ("log.csv", "user,query\n1,a\n", {}, (QUOTES,)),
        ("log.csv", "user,query\n1,a\n", {"options": {"quote": "none"}}, ()),
        ("log.csv", "who,what\n1,a\n", {"columns": {"user": "who", "query": "what"}}, (QUOTES,)),
        (
            "log.tsv",
            "1\ta\n",
            {"format": "tsv", "columns": {"user": "1", "query": "2"}, "options": {"header": "no"}},
            ("the number of columns, inferred from the first row",),
        ),
        ("log", "29\t970916105432\tshoe\n", {"format": "excite"}, ()),
        (
            "log",
            "00:00:00\t29\t[中]\t1 1\thttp://a\n",
            {},
            ("the format sogou, inferred from the first rows", "the encoding utf-8, inferred from the first rows"),
        ),
        ("log", "00:00:00\t29\t[中]\t1 1\thttp://a\n", {"format": "sogou", "options": {"encoding": "utf-8"}}, ()),
    ],
)
def test_what_is_taken_as_public(
    tmp_path: Path, duckdb_engine: Engine, name: str, text: str, arguments: dict[str, Any], public: tuple[str, ...]
) -> None:
    log = read_log(put(tmp_path / name, text), engine=duckdb_engine, **arguments)
    assert log.rows == 1
    assert not log.problems
    assert (log.unit, log.taken_as_public) == ("user", public)


def test_csv_without_a_header_has_commas_whatever_its_first_row_is(tmp_path: Path, duckdb_engine: Engine) -> None:
    """A first row with semicolons and no comma would otherwise cut the rows of all others."""
    rows = [f"u{i},weather; rain\n" for i in range(30)]
    how: dict[str, Any] = {"format": "csv", "columns": {"user": "1", "query": "2"}, "options": {"header": "no"}}
    log = read_log(put(tmp_path / "without.csv", *rows), engine=duckdb_engine, **how)
    assert rows_of(log) == sorted((f"u{i}", "weather; rain") for i in range(30))
    with pytest.raises(InputError, match="has no column '2'"):
        read_log(put(tmp_path / "with.csv", "mallory;x\n", *rows), engine=duckdb_engine, **how)
    how["options"] |= {"delimiter": ";"}
    told = read_log(put(tmp_path / "with.csv", "mallory;x\n", *rows), engine=duckdb_engine, **how)
    assert rows_of(told) == sorted([("mallory", "x"), *((f"u{i},weather", " rain") for i in range(30))])


def test_sogou_a_guessed_gbk_is_named(tmp_path: Path, duckdb_engine: Engine) -> None:
    (tmp_path / "log").write_bytes("00:00:00\t29\t[中]\t1 1\thttp://a\n".encode("gbk"))
    log = read_log(tmp_path / "log", format="sogou", engine=duckdb_engine)
    assert log.taken_as_public == ("the encoding gbk, inferred from the first rows",)


def test_parquet_has_a_schema(tmp_path: Path, engine: Engine) -> None:
    pq.write_table(pa.table({"session_id": ["s"], "query": ["a"]}), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"columns=\{'user': 'session_id'\}"):
        read_log(tmp_path / "log.parquet", engine=engine)
    log = read_log(tmp_path / "log.parquet", engine=engine, columns={"user": "session_id"})
    assert (log.unit, log.taken_as_public) == ("session", (DECODED,))


# What a user is


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        *(("user_id", "user"), ("uid", "user"), ("client_id", "device"), ("visitor_id", "device"), ("who", "user")),
        *(("session_id", "session"), ("SessionID", "session"), ("session.id", "session"), ("PHPSESSID", "session")),
        *(("user_session_id", "session"), ("session.user.id", "user"), ("cookie", "cookie"), ("idvisit", "visit")),
        *(("user cookie", "cookie"), ("device-id", "device"), ("idvisitor", "device"), ("", "user")),
    ],
)
def test_the_unit_is_told_by_the_columns_name(column: str, unit: str) -> None:
    assert unit_of(column) == unit


@pytest.mark.parametrize("column", ["Session_ID", "session", "cookie", "cookie-id"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "log"])
def test_sessions_and_cookies_are_no_users_unless_told(
    tmp_path: Path, duckdb_engine: Engine, column: str, kind: str
) -> None:
    separator = "\t" if kind == "tsv" else ","
    table = f"customer{separator}{column}{separator}query\n7{separator}v1{separator}a\n"
    path = put(tmp_path / f"log.{kind}", {"customer": 7, column: "v1", "query": "a"} if kind == "jsonl" else table)
    unit = "session" if column.lower().startswith("session") else "cookie"
    with pytest.raises(
        InputError, match=rf"with columns=\{{'user': '{column}'\}}, a guarantee is per {unit}, not per person"
    ):
        read_log(path, engine=duckdb_engine)
    log = read_log(path, engine=duckdb_engine, columns={"user": column})
    assert (log.unit, rows_of(log)) == (unit, [("v1", "a")])


def test_files_of_different_units_are_read_apart(tmp_path: Path, duckdb_engine: Engine) -> None:
    paths = [put(tmp_path / "a.csv", "user_id,query\n1,a\n"), put(tmp_path / "b.csv", "device_id,query\n1,a\n")]
    assert read_log(paths[1], engine=duckdb_engine).unit == "device"
    with pytest.raises(InputError, match=r"a\.csv is one of users but .*b\.csv is one of devices; read them apart"):
        read_log(paths, engine=duckdb_engine)


# TREC: who is the user is the caller's word, and an id belongs to its kind and its file

WELL_FORMED = "that the XML is well-formed: nothing after a fault is read"
OWN_NUMBERS = "that each session of a file has a number of its own"
SAME_PERSON = "that a userid is the same person's in all files"


def session(num: str | None, userid: str | None, *queries: str) -> str:
    ids = "".join(f' {name}="{value}"' for name, value in (("num", num), ("userid", userid)) if value is not None)
    asked = "".join(f"<interaction><query>{query}</query></interaction>" for query in queries)
    return f"<session{ids}>{asked}</session>\n"


def trec(path: Path, *sessions: str) -> Path:
    return put(path, "<x>\n", *sessions, "</x>\n")


@pytest.mark.parametrize("user", ["userid", "session"])
def test_trec_one_session_decides_nothing_about_another(tmp_path: Path, duckdb_engine: Engine, user: str) -> None:
    """A session without a userid, one whose number is somebody's userid, one of another file with the same number."""
    others = [session("1", "u1", "a"), session("2", "u2", "b"), session("3", "u1", "c")]
    added = [session("4", None, "x"), session("u1", None, "x"), session(None, None, "x"), session("5", "1", "x")]
    first, second = trec(tmp_path / "a.xml", *others), trec(tmp_path / "b.xml", session("1", None, "x"))
    without = read_log([first, trec(tmp_path / "e.xml")], format="trec", engine=duckdb_engine, options={"user": user})
    wanted = {
        "userid": [("u1", "a"), ("u1", "c"), ("u2", "b")],
        "session": [("1:1", "a"), ("1:2", "b"), ("1:3", "c")],
    }
    assert [row[:2] for row in rows_of(without)] == wanted[user]
    for i, more in enumerate(added):
        path = trec(tmp_path / f"{i}.xml", more, *others, more)
        log = read_log([path, second], format="trec", engine=duckdb_engine, options={"user": user})
        assert [row[:2] for row in rows_of(log) if row[1] != "x"] == wanted[user]
        assert not {row[0] for row in rows_of(log) if row[1] == "x"} & {row[0] for row in rows_of(without)}
        assert (log.unit, log.taken_as_public) == (without.unit, without.taken_as_public)
    assert without.unit == {"userid": "user", "session": "session"}[user]
    assert without.taken_as_public == (WELL_FORMED, {"userid": SAME_PERSON, "session": OWN_NUMBERS}[user])


def test_trec_a_session_without_the_id_asked_for_is_bad_rows(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = trec(tmp_path / "s.xml", session("7", None, "a", "b"), session(None, "u", "c"))
    log = read_log(path, format="trec", engine=duckdb_engine)
    assert [row[:2] for row in rows_of(log)] == [("u", "c")]
    reason = "no userid; with the reader option user=session each session is a user of its own"
    assert log.problems == (Problem(reason, 2, ("s.xml: session 7",)),)
    log = read_log(path, format="trec", engine=duckdb_engine, options={"user": "session"})
    assert [row[:2] for row in rows_of(log)] == [("1:7", "a"), ("1:7", "b")]
    assert log.problems == (Problem("session without a num", 1, ("s.xml: session ?",)),)
    with pytest.raises(
        InputError, match="no row could be read: 2 rows: no userid; with the reader option user=session"
    ):
        read_log(trec(tmp_path / "2012.xml", session("7", None, "a", "b")), format="trec", engine=duckdb_engine)


def test_trec_a_session_inside_a_session_is_not_read_twice(tmp_path: Path, duckdb_engine: Engine) -> None:
    path = trec(tmp_path / "s.xml", f'<session num="1">{session("2", None, "b")}</session>')
    log = read_log(path, format="trec", engine=duckdb_engine, options={"user": "session"})
    assert [row[:2] for row in rows_of(log)] == [("1:2", "b")]


# Faults that take other rows with them


def test_an_open_quote_is_not_said_to_be_one_row(tmp_path: Path, duckdb_engine: Engine) -> None:
    crowd = "".join(f"{i},red shoes\n" for i in range(400))
    path = put(tmp_path / "log.csv", 'user,query\n0,hat\nalice,"19 inch\n', crowd)
    log = read_log(path, engine=duckdb_engine)
    assert log.rows < 401
    sound = read_log(put(tmp_path / "sound.csv", "user,query\n0,hat\n", crowd), engine=duckdb_engine)
    assert log.taken_as_public == sound.taken_as_public != (), "or the record would tell that there is such a row"
    said = "at least 1 row: broken quotes; rows after it may be missing too (at log.csv:3)"
    assert [str(problem) for problem in log.problems] == [said]


def test_broken_xml_is_not_said_to_be_one_row(tmp_path: Path, duckdb_engine: Engine) -> None:
    one = session("1", "u", "a")
    log = read_log(put(tmp_path / "s.xml", "<x>\n", one, "<y></z>\n", one, "</x>"), engine=duckdb_engine)
    assert log.rows == 1
    sound = read_log(trec(tmp_path / "sound.xml", one), engine=duckdb_engine)
    assert log.taken_as_public == sound.taken_as_public, "or the record would tell that there is such a row"
    said = "at least 1 row: broken XML; the rest of the file is not read (at s.xml:3)"
    assert [str(problem) for problem in log.problems] == [said]
