"""Searches in the access logs of web servers, in lines as Apache and nginx write them."""

from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import SearchLog, read_log

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"
CURL = "curl/8.5.0"
COMBINED = f"""\
203.0.113.7 - - [01/May/2024:10:00:00 +0200] "GET /search?q=red+shoes&page=2 HTTP/1.1" 200 5123 "-" "{FIREFOX}"
203.0.113.7 - ann [01/May/2024:10:00:05 +0200] "GET /style.css HTTP/1.1" 200 99 "https://shop.example/" "{FIREFOX}"
203.0.113.7 - - [01/May/2024:10:01:00 +0200] "GET /s?lang=de&q=gr%C3%B6%C3%9Fe+%2242%22 HTTP/2.0" 200 1 "-" "{CURL}"
2001:db8::1 - - [01/May/2024:08:02:00 +0000] "GET /?faq=no&q=%E4%B8%AD%E6%96%87#top HTTP/1.1" 304 - "-" "say \\"hi\\""
"""
COMMON = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /s?query=weather HTTP/1.0" 200 2326\n'


def rows_of(log: SearchLog) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in log.engine.fetch(log.table).to_pylist()), key=lambda row: str(row[2]))


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def person(address: str, agent: str = "") -> str:
    return sha256(f"{address} {agent}".encode()).hexdigest()


def test_combined(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "access.log", COMBINED), engine=duckdb_engine)
    assert rows_of(log) == [
        (person("203.0.113.7", FIREFOX), "red shoes", datetime(2024, 5, 1, 8, 0)),
        (person("203.0.113.7", CURL), 'größe "42"', datetime(2024, 5, 1, 8, 1)),
        (person("2001:db8::1", 'say \\"hi\\"'), "中文", datetime(2024, 5, 1, 8, 2)),
    ]
    assert log.format == "access-log"
    assert log.unit == "address-and-agent"
    assert [problem.rows for problem in log.problems] == [1]
    assert "no search" in log.problems[0].reason


ONE_ADDRESS = sha256(b"127.0.0.1").hexdigest()


def test_common_has_no_agent_and_promises_per_address(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read_log(put(tmp_path / "access.log", COMMON), engine=duckdb_engine)
    assert rows_of(log) == [(ONE_ADDRESS, "weather", datetime(2000, 10, 10, 20, 55, 36))]
    assert log.unit == "address"
    assert any("the first rows do not name agents" in fact for fact in log.taken_as_public)


def test_who_is_a_user_is_one_thing_for_all_rows_and_may_be_said(tmp_path: Path, duckdb_engine: Engine) -> None:
    """Were it decided row by row, the lines of one browser with and without its agent would be two users."""
    with_agents = COMMON * 20 + COMBINED.replace("203.0.113.7", "127.0.0.1")
    log = read_log(put(tmp_path / "access.log", with_agents), engine=duckdb_engine)
    assert {user for user, query, _ in rows_of(log) if query != "中文"} == {ONE_ADDRESS}
    assert log.unit == "address"
    said = read_log(tmp_path / "access.log", engine=duckdb_engine, options={"user": "address-and-agent"})
    assert said.unit == "address-and-agent"
    assert (person("127.0.0.1", CURL), 'größe "42"') in {row[:2] for row in rows_of(said)}
    assert not any("agents" in fact for fact in said.taken_as_public)
    with pytest.raises(InputError, match="it is one of auto, address-and-agent, address"):
        read_log(tmp_path / "access.log", engine=duckdb_engine, options={"user": "browser"})


@pytest.mark.parametrize("host", ["example.com:443", "192.0.2.1:80", "[2001:db8::5]:443", "example.com"])
def test_the_virtual_host_before_the_address_is_not_who_asked(tmp_path: Path, duckdb_engine: Engine, host: str) -> None:
    """As Apache's vhost_combined writes it, and others without the port."""
    text = "".join(f"{host} {line}" for line in COMBINED.splitlines(keepends=True))
    hosted = read_log(put(tmp_path / "hosted.log", text), engine=duckdb_engine)
    alone = read_log(put(tmp_path / "access.log", COMBINED), engine=duckdb_engine)
    assert rows_of(hosted) == rows_of(alone)


@pytest.mark.parametrize("address", ["crawler.example.net", "::1", "203.0.113.7:5512", "2001:db8::1:443"])
def test_addresses_that_look_like_a_host(tmp_path: Path, duckdb_engine: Engine, address: str) -> None:
    line = COMMON.replace("127.0.0.1", address)
    log = read_log(put(tmp_path / "access.log", line), engine=duckdb_engine)
    assert [row[0] for row in rows_of(log)] == [sha256(address.encode()).hexdigest()]
    named = read_log(put(tmp_path / "named.log", f"example.com:443 {line}"), engine=duckdb_engine)
    assert [row[0] for row in rows_of(named)] == [sha256(address.encode()).hexdigest()]


def test_the_parameter_is_an_option(tmp_path: Path, duckdb_engine: Engine) -> None:
    text = COMMON.replace("query=", "suche[text]=") + COMMON
    log = read_log(put(tmp_path / "access.log", text), engine=duckdb_engine, options={"parameter": "suche[text]"})
    assert log.rows == 1
    both = read_log(put(tmp_path / "a.log", text), engine=duckdb_engine, options={"parameter": "query,suche[text]"})
    assert both.rows == 2
    with pytest.raises(InputError, match="the name of a parameter"):
        read_log(tmp_path / "access.log", engine=duckdb_engine, options={"parameter": "q|.*"})


@pytest.mark.parametrize(
    "asked", ["q=red+shoes&s=price", "page=1&q=red+shoes&query=x&s=price", "s=&q=red+shoes", "q=&search=red+shoes&s=x"]
)
def test_the_first_parameter_with_a_value_is_the_search(tmp_path: Path, duckdb_engine: Engine, asked: str) -> None:
    path = put(tmp_path / "access.log", COMMON.replace("query=weather", asked))
    assert [row[1] for row in rows_of(read_log(path, engine=duckdb_engine))] == ["red shoes"]


def test_a_bad_line_is_its_own_matter(tmp_path: Path, duckdb_engine: Engine) -> None:
    """What one visitor sends decides nothing about the rows of others: neither bytes nor quotes nor times."""
    bad = [
        COMMON.replace("weather", "%E4%B8"),  # no UTF-8
        COMMON.replace("weather", "a%00b"),
        COMMON.replace("10/Oct/2000", "31/Feb/2000"),
        COMMON.replace("10/Oct/2000", "10/Oct/99999"),
        COMMON.replace('"GET', "GET"),
        COMMON.replace("weather", ""),
        "nonsense\n",
        "\\x16\\x03\\x01\n",
        f'{"x" * 3000} - - [10/Oct/2000:13:55:36 -0700] "{"A" * 9000}\n',
    ]
    alone = read_log(put(tmp_path / "a.log", COMMON + COMBINED), engine=duckdb_engine, format="access-log")
    among = put(tmp_path / "b.log", "".join([*bad[:4], COMMON, *bad[4:], COMBINED]))
    log = read_log(among, engine=duckdb_engine, format="access-log")
    assert rows_of(log) == rows_of(alone)
    assert sum(problem.rows for problem in log.problems) == len(bad) + 1


def test_a_promise_is_per_address_and_agent(tmp_path: Path, duckdb_engine: Engine) -> None:
    from searchveil.publish.weighted import Weighted

    log = read_log(put(tmp_path / "access.log", COMBINED), engine=duckdb_engine)
    assert "one address-and-agent's whole history" in str(Weighted(1, 1e-6).plan(log).guarantee)
    common = read_log(put(tmp_path / "common.log", COMMON), engine=duckdb_engine)
    assert "one address's whole history" in str(Weighted(1, 1e-6).plan(common).guarantee)
