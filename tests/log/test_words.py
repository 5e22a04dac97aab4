"""Words of scripts without spaces are found by a dictionary, alike in every engine; all others stand between spaces."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import searchveil as sv
from searchveil.collab.agreement import Agreement
from searchveil.collab.joint import plan_for
from searchveil.engine import Engine
from searchveil.items import KEYWORD
from searchveil.items.keyword import different_words
from searchveil.log import SearchLog
from searchveil.log.normalize import Normalization
from searchveil.log.words import WITHOUT_SPACES, joined, joined_texts, segmentation, words, words_of_text

# What a reader of each language sees in these: the parts are words of any dictionary of it.
CUT = {
    "東京の天気": ["東京", "の", "天気"],
    "北京天气预报": ["北京", "天气", "预报"],
    "ราคาทองวันนี้": ["ราคา", "ทอง", "วัน", "นี้"],
    "ພາສາລາວ": ["ພາສາ", "ລາວ"],
    "iphone15ケース": ["iphone15", "ケース"],
    "東京・天気?!": ["東京", "天気"],
    "c++ 入門": ["c++", "入門"],
    "北京 天气": ["北京", "天气"],
    "한국어 검색": ["한국어", "검색"],  # Korean has spaces
    "cheap  flights": ["cheap", "flights"],
    "": [],
}


@pytest.mark.parametrize("text", CUT)
def test_known_words(text: str) -> None:
    assert words_of_text(text) == CUT[text]


def test_the_engine_cuts_as_python_does(engine: Engine) -> None:
    texts = [*CUT, None, "a\tb", "!", "𠮷野家", "ｱﾝﾃﾅ", "မြန်မာဘာသာ", "ភាសាខ្មែរ", "naïve café", "々"]
    table = engine.load(pa.table({"n": range(len(texts)), "text": pa.array(texts, pa.string())}))
    found = engine.fetch(table.select("n", words=words(table["text"])).order_by("n"))["words"].to_pylist()
    for text, cut in zip(texts, found, strict=True):
        assert [word for word in cut or [] if word] == words_of_text(text or "")


@given(st.lists(st.text(st.sampled_from("abé. 東京のはラテ北ไทกยว٣+"), min_size=1), min_size=1).map(" ".join))
def test_nothing_but_marks_is_lost_and_parts_do_not_meet(text: str) -> None:
    """Of a part in such a script every letter and digit is in a word, in its order; other parts are whole words."""
    expected = "".join(
        part if re.search(WITHOUT_SPACES, part) is None else re.sub(r"[^\w]|_", "", part) for part in text.split()
    )
    found = words_of_text(text)
    kept = "".join(
        word if re.search(WITHOUT_SPACES, word) is None and word in text.split() else re.sub(r"[^\w]|_", "", word)
        for word in found
    )
    assert kept == expected
    assert found == [word for part in text.split() for word in words_of_text(part)]


def test_keywords_of_a_log_in_chinese(duckdb_engine: Engine) -> None:
    """Users who typed different sentences share words: before, each sentence was one word of its own."""
    rows = {"user": ["a", "b", "c"], "query": ["北京天气预报", "上海天气", "天气 北京"]}
    log = SearchLog(duckdb_engine.load(pa.table(rows)), duckdb_engine)
    held = duckdb_engine.fetch(KEYWORD.of(log)).to_pylist()
    assert sorted(row["user"] for row in held if row["keyword"] == "天气") == ["a", "b", "c"]
    counted = different_words(duckdb_engine.load(pa.table({"query": ["天气天气"], "count": [7]})), "count")
    assert duckdb_engine.fetch(counted).to_pylist() == [{"count": 7, "keyword": "天气"}]


def test_words_are_put_together_as_they_are_written() -> None:
    assert joined(["cheap", "flights"]) == "cheap flights"
    assert joined(["東京", "の", "天気", "app"]) == "東京の天気 app"
    spaced = ["我 你 他 们", "a b", "東京 の 天気 app"]
    assert joined_texts(pa.array(spaced)).to_pylist() == [joined(text.split()) for text in spaced]


def test_the_record_names_what_cut_the_words(duckdb_engine: Engine, tmp_path: Path) -> None:
    assert re.fullmatch(r"ICU \d+(\.\d+)+", segmentation())
    log = SearchLog(duckdb_engine.load(pa.table({"user": ["a", "b"], "query": ["天气", "天气"]})), duckdb_engine)
    release = sv.KKeyword(k=2).release(log)
    release.write(tmp_path / "keywords")
    assert sv.Release.read(tmp_path / "keywords").plan.words == segmentation()
    assert sv.KQuery(k=2).plan(log).words is None
    assert sv.Zealous(1, 1e-6, item="keyword").plan(1000).to_json()["words"] == segmentation()
    assert "words" not in sv.Zealous(1, 1e-6).plan(1000).to_json()


def test_a_joint_release_of_keywords_names_it_too() -> None:
    digest = "sha256:" + "0" * 63
    parties = {"a": digest + "1", "b": digest + "2"}
    common = {"epsilon": 1, "delta": 1e-6, "parties": parties}
    place = {"address": "localhost:1", "certificate": digest + "3"}
    for item, expected in (("keyword", segmentation()), ("query", None)):
        agreement = Agreement.model_validate({**common, "item": item, "coordinator": place})
        assert plan_for(agreement, "0" * 64).words == expected


def test_punctuation_and_segmentation_together() -> None:
    assert words_of_text(Normalization(punctuation=True).apply_to_text("東京,大阪")) == ["東京", "大阪"]
