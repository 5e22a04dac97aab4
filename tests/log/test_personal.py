"""What looks personal: named examples, check digits, and the engines against plain Python."""

import re
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log.personal import (
    ABROAD,
    EMAIL,
    LONGEST,
    PHONE,
    SSN,
    check_patterns,
    check_patterns_on,
    has_card_number,
    looks_personal,
)

PERSONAL = {
    "e-mail": ["jane.doe@mail.example", "write to j_d+x@sub.mail.example now", "jane at mail dot example", "a@b.co"],
    "phone": [
        "555-123-4567",
        "(555) 123-4567",
        "call 555.123.4567 now",
        "5551234567",
        "+1 555 123 4567",
        "1-800-555-1234",
        "who is 555 123 4567?",
        "+44 20 7946 0958",
        "call +49 (0)30 901820 today",
        "0033 1 99 00 12 34",
        "+919876543210",
    ],
    "ssn": ["123-45-6789", "ssn 123 45 6789", "123456789"],
    # Numbers that payment networks publish for testing.
    "card": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "visa 5500-0055-5555-5559 stolen",
        "378282246310005",
        "4222222222222",
        "6304000000000000000",
    ],
}
HARMLESS = [
    "weather berlin",
    "4111111111111112",  # the check digit is wrong
    "4111 1111 1111 1113",
    "route 66",
    "2024-05-01 12:30",
    "windows 95 98 2000",
    "12345678",  # eight digits are neither
    "meet at noon",
    "me @ home",
    "c++ 2017",
    "1+1 12345678",
    "@handle",
    "192.168.100.200",
    "",
]


def flags(engine: Engine, texts: Sequence[str | None], patterns: Sequence[str] = ()) -> list[bool | None]:
    table = pa.table({"place": list(range(len(texts))), "text": pa.array(texts, pa.string())})
    rows = engine.load(table)
    found = engine.fetch(rows.mutate(flag=looks_personal(rows["text"], own=patterns))).sort_by("place")
    return found["flag"].to_pylist()


def in_plain_python(text: str, patterns: Sequence[str] = ()) -> bool:
    return any(re.search(pattern, text) for pattern in (EMAIL, PHONE, ABROAD, SSN, *patterns)) or has_card_number(text)


def with_check_digit(digits: str) -> str:
    """Luhn: double every second digit from the right, beginning beside the check digit."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value // 10 + value % 10
    return digits + str(-total % 10)


@pytest.mark.parametrize("kind", PERSONAL)
def test_personal_queries_are_found(duckdb_engine: Engine, kind: str) -> None:
    assert dict(zip(PERSONAL[kind], flags(duckdb_engine, PERSONAL[kind]), strict=True)) == dict.fromkeys(
        PERSONAL[kind], True
    )


def test_harmless_queries_are_kept(duckdb_engine: Engine) -> None:
    assert dict(zip(HARMLESS, flags(duckdb_engine, HARMLESS), strict=True)) == dict.fromkeys(HARMLESS, False)


def test_the_filter_works_on_every_engine(engine: Engine) -> None:
    """It is on unless told otherwise, so an engine without it has no SafeLog."""
    texts = [text for examples in PERSONAL.values() for text in examples] + HARMLESS
    assert flags(engine, texts, ["noon$"]) == [in_plain_python(text, ["noon$"]) for text in texts]


pieces = st.one_of(
    st.text("0123456789", min_size=1, max_size=20),
    st.sampled_from([" ", "-", ".", "@", "(", ")", "+", " at ", " dot ", "x", "me", "mail", "example", "ä", "4111"]),
    st.text("0123456789", min_size=11, max_size=18).map(with_check_digit),
)
texts_of_pieces = st.lists(st.lists(pieces, max_size=9).map("".join), min_size=1, max_size=60)


@pytest.mark.slow
@given(texts=texts_of_pieces, patterns=st.sampled_from([(), ("^x", "me+ ?mail"), ("ä|e$",)]))
@settings(max_examples=25, deadline=None)
def test_the_engine_says_what_plain_python_says(
    duckdb_engine: Engine, texts: list[str], patterns: tuple[str, ...]
) -> None:
    assert flags(duckdb_engine, texts, patterns) == [in_plain_python(text, patterns) for text in texts]


@given(digits=st.text("0123456789", min_size=12, max_size=18), change=st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_only_the_right_check_digit_makes_a_card_number(digits: str, change: int) -> None:
    number = with_check_digit(digits)
    wrong = number[:-1] + str((int(number[-1]) + change) % 10)
    assert has_card_number(number)
    assert not has_card_number(wrong)
    in_fours = " ".join(number[i : i + 4] for i in range(0, len(number), 4))
    assert has_card_number(f"my card {in_fours} please")


@pytest.mark.parametrize("length", [1, 11])
def test_short_numbers_are_no_cards(length: int) -> None:
    assert not has_card_number(with_check_digit("4" * length))


def test_a_missing_text_is_not_personal(duckdb_engine: Engine) -> None:
    missing, address = flags(duckdb_engine, [None, "a@b.example"])
    assert (bool(missing), address) == (False, True)


def test_patterns_of_ones_own_are_added_to_ours(duckdb_engine: Engine) -> None:
    texts = ["case a-17", "case b-17", "a@b.example", "plain"]
    assert flags(duckdb_engine, texts, ["^case a-[0-9]+$", "b-1"]) == [True, True, True, False]
    assert flags(duckdb_engine, texts) == [False, False, True, False]


def test_alternatives_in_a_pattern_stay_within_it(duckdb_engine: Engine) -> None:
    assert flags(duckdb_engine, ["x1", "y1", "x", "1"], ["^(x|y)1$", "^q|^r$"]) == [True, True, False, False]


@pytest.mark.parametrize("pattern", ["(", "[a", "*x", "a{3,1}"])
def test_a_pattern_that_is_none_is_refused_by_its_text(pattern: str) -> None:
    with pytest.raises(InputError, match="is not a regular expression") as refusal:
        check_patterns(["fine", pattern])
    assert repr(pattern) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("pattern", ["foo(?=bar)", r"(a)\1", "(?<!x)y"])
def test_a_pattern_that_the_engine_does_not_know_is_refused_before_anything_is_paid(
    duckdb_engine: Engine, pattern: str
) -> None:
    """Python knows looking ahead and back and repeating a group; DuckDB's expressions do not."""
    with pytest.raises(InputError, match="is not one that duckdb knows"):
        check_patterns_on(duckdb_engine, [pattern])


@pytest.mark.parametrize("text", ["4111 1111 1111 1111 2025", "4111111111111111 12/25 123", "99 4111111111111111"])
def test_a_card_number_is_found_beside_other_digits(text: str) -> None:
    """An expiry date, a check code or a number before it must not hide the card."""
    assert has_card_number(text)


@pytest.mark.parametrize("text", ["li.wei@vip.163.com", "joe@mail.1und1.de", "ann@cs.u.edu"])
def test_an_address_is_found_whatever_the_parts_of_its_domain(duckdb_engine: Engine, text: str) -> None:
    assert flags(duckdb_engine, [text]) == [True]


LONG = {
    "parts of a domain": "me@" + "a." * 50_000,
    "no address in the end": "a" * 500_000 + " 1",
    "one number": "1" * 500_000,
    "groups of digits": "4 " * 250_000,
    "letters outside ASCII": "\N{GRINNING FACE}" * 250_000 + "7",
}


def test_a_very_long_query_is_left_out_and_ends_no_run(engine: Engine) -> None:
    """Java's regular expressions have a stack: at a hundred thousand parts of a domain it was full."""
    texts = [*LONG.values(), "x" * (LONGEST + 1), "x" * LONGEST, "a" * (LONGEST - 10) + " a@b.co"]
    assert flags(engine, texts, ["(q|a)+$"]) == [True] * 6 + [False, True]


def test_a_very_long_query_is_left_out_whatever_is_asked_for(duckdb_engine: Engine) -> None:
    rows = duckdb_engine.load(pa.table({"text": ["x" * (LONGEST + 1), "a@b.co"]}))
    found = duckdb_engine.fetch(rows.select(flag=looks_personal(rows["text"], ours=False))).to_pydict()
    assert found == {"flag": [True, False]}
