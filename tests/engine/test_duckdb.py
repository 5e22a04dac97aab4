"""The embedded engine takes nothing from a parameter or a path for SQL, and nothing from the network."""

from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchveil.engine import open_engine
from searchveil.engine.duckdb import DuckDBEngine
from searchveil.engine.size import memory_in_bytes
from searchveil.errors import InputError
from searchveil.items.pool import QueryPool
from searchveil.log.read import read_log


def setting(engine: DuckDBEngine, name: str) -> object:
    return engine.connection.con.execute("select current_setting(?)", [name]).fetchall()[0][0]


@pytest.mark.parametrize(
    ("text", "size"),
    [("3GB", 3 * 10**9), ("512MB", 512 * 10**6), ("2GiB", 2**31), ("1.5tb", 1500 * 10**9), ("64 mib", 2**26)],
)
def test_a_size_means_the_same_everywhere(text: str, size: int) -> None:
    assert memory_in_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["-5GB", "lots", "", "3", "GB", "3XB", "1e3GB", "nan GB", "٣GB", "1GB'; drop table x; --", "5KB", "0GB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="memory"):
        open_engine(memory=text)


def test_the_size_reaches_the_engine() -> None:
    engine = DuckDBEngine(memory="256MiB", threads=1)
    assert setting(engine, "memory_limit") == "256.0 MiB"
    assert setting(engine, "threads") == 1
    engine.close()


WORDS = st.integers(0, 2**64 - 1)


@pytest.mark.slow
@given(word=st.one_of(WORDS, st.builds(int.__and__, WORDS, WORDS)), n=st.integers(1, 33))
def test_the_place_of_a_bit(duckdb_engine: DuckDBEngine, word: int, n: int) -> None:
    places = [place for place in range(64) if word >> place & 1]
    found = duckdb_engine.connection.con.execute(f"select place_of_bit({word}::ubigint, {n})").fetchall()
    assert found == [(places[n - 1] if n <= len(places) else 64,)]


def test_a_quote_in_the_temporary_folder_is_a_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / 'it\'s; a "folder"'
    odd.mkdir()
    (odd / "log.csv").write_text("user,query\r\n1,a\r\n\r\n2,b\r\n")
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    engine = DuckDBEngine()
    assert str(odd) in str(setting(engine, "temp_directory"))
    assert read_log(odd / "log.csv", engine=engine).rows == 2
    engine.close()
    (odd / "queries.txt").write_text("weather\n")
    assert QueryPool.from_file(odd / "queries.txt", odd / "po'ol.parquet").size == 1
    assert sorted(path.name for path in odd.iterdir()) == ["log.csv", "po'ol.parquet", "queries.txt"]


@pytest.mark.parametrize("path", ["http://h/x.parquet", "https://h/x.parquet", "s3://b/x.parquet", "hf://d/x.parquet"])
def test_no_path_is_fetched_from_the_network(path: str) -> None:
    """Reading such a path would first download an extension, by plain HTTP, and run it."""
    engine = DuckDBEngine()
    with pytest.raises(InputError, match=r"files of this machine only.*engine='spark'"):
        read_log(path, engine=engine)
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert setting(engine, name) is False
    with pytest.raises(duckdb.Error, match=r"(?i)extension"):
        engine.sql(f"select * from read_parquet('{path}')")
    engine.close()
