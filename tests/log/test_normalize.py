"""The normal form is the same on every engine, and normalising twice changes nothing."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.log.normalize import AS_TYPED, Normalization

TRICKY = [
    *("", " ", "\t\n", "Google", "  two   words  ", "a\tb\nc", "\x1fx\x1c", "C++ & c#", '"quoted"', "back\\slash"),
    *(
        "ÉCOLE",
        "e\u0301cole",
        "Straße",
        "ＦＵＬＬ　ｗｉｄｔｈ",
        "ﬁne",
        "x²",
        "İstanbul",
        "ΟΔΟΣ",
        "\u00a0nbsp\u2003",
        "ogham\u1680space",
    ),
    *("line\u2028sep", "中文 查询", "\u0085next", "日本　語", "emoji 🙂", "ſharp", "Å", "\u202fa\u205f", "ǅ", "ẞ", "ϓ"),
]
SETTINGS = [
    Normalization(),
    Normalization(punctuation=True),
    Normalization(case=False),
    Normalization(unicode=False),
    Normalization(spaces=False),
    AS_TYPED,
]
settings = st.builds(Normalization, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@pytest.mark.parametrize("normalization", SETTINGS, ids=str)
def test_engine_and_plain_python_agree(engine: Engine, normalization: Normalization) -> None:
    table = engine.load(pa.table({"n": range(len(TRICKY)), "query": TRICKY}))
    found = engine.fetch(table.select("n", normal=normalization.apply(table["query"])).order_by("n"))
    assert found["normal"].to_pylist() == [normalization.apply_to_text(text) for text in TRICKY]


@pytest.mark.slow
def test_any_text_agrees(duckdb_engine: Engine) -> None:
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")

    @given(st.lists(st.text(alphabet) | st.text(st.sampled_from("aB \t-.É\u0301\u3000"))), settings)
    def check(texts: list[str], normalization: Normalization) -> None:
        table = duckdb_engine.load(pa.table({"n": pa.array(range(len(texts))), "query": pa.array(texts, pa.string())}))
        found = duckdb_engine.fetch(table.select("n", normal=normalization.apply(table["query"])).order_by("n"))
        assert found["normal"].to_pylist() == [normalization.apply_to_text(text) for text in texts]

    check()


@pytest.mark.slow
def test_what_is_left_as_it_is(duckdb_engine: Engine) -> None:
    """Texts that the engine says are their own normal form are; and of plain ones it says so."""

    @given(st.lists(st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from("aB 1-@[\t.É"))), settings)
    def check(texts: list[str], normalization: Normalization) -> None:
        table = duckdb_engine.load(pa.table({"query": pa.array([*texts, "a b1", "A"], pa.string())}))
        found = duckdb_engine.fetch(table.select("query", left=normalization.leaves(table["query"]))).to_pylist()
        assert all(normalization.apply_to_text(row["query"]) == row["query"] for row in found if row["left"])
        assert {row["left"] for row in found if row["query"] == "a b1"} == {True}
        assert {row["left"] for row in found if row["query"] == "A"} == {not normalization.case}

    check()


@pytest.mark.slow
@given(st.text(), settings)
def test_normalising_twice_changes_nothing(text: str, normalization: Normalization) -> None:
    once = normalization.apply_to_text(text)
    assert normalization.apply_to_text(once) == once


@given(st.text())
def test_as_typed_changes_nothing(text: str) -> None:
    assert AS_TYPED.apply_to_text(text) == text


def test_white_space_alone_becomes_empty() -> None:
    assert Normalization().apply_to_text(" \u3000\t\u00a0 ") == ""


def test_missing_text_stays_missing(engine: Engine) -> None:
    table = engine.load(pa.table({"query": pa.array([None, "É"], pa.string())}))
    found = engine.fetch(table.select(normal=Normalization().apply(table["query"])))
    assert sorted(found["normal"].to_pylist(), key=str) == [None, "é"]
