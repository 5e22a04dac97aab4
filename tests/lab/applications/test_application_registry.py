"""Every application can be had by its name, with parameters that work as they are."""

from dataclasses import is_dataclass

import pytest
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.applications import APPLICATIONS, application_named
from searchveil.lab.testset import TestSession
from searchveil.lab.view import kinds
from searchveil.lab.words import SCORE


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_says_what_it_needs_of_a_view(name: str) -> None:
    application = application_named(name)()
    assert is_dataclass(application)
    assert application.needs
    assert set(application.needs) <= set(kinds())
    assert hash(application) == hash(application_named(name)())


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="no application 'caching'; there are index-caching, query-substitution"):
        application_named("caching")


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_score_of_an_empty_release_is_0_and_of_the_log_more(name: str, duckdb_engine: Engine) -> None:
    """So scores of different methods can stand side by side, whatever part of the questions each answers."""
    application = application_named(name)()
    clicks = [("a b", "x.org", 9), ("a c", "x.org", 8), ("a b", "y.org", 9), ("a c", "y.org", 8), ("d", "z.org", 5)]
    original = tiny_view(
        duckdb_engine,
        click=clicks,
        query=[("a b", 18), ("a c", 16), ("d", 5)],
        keyword=[("a", 34), ("b", 18), ("c", 16), ("d", 5)],
        transition=[("a b", "a c", 40), ("a c", "d", 2), ("d", "a b", 2), ("d", "e", 50)],
        session=[(["a b", "a c"], 40)],
    )
    empty = tiny_view(duckdb_engine, **{table: [] for table in original.tables})
    asked = {"a b": {"x.org": 2, "y.org": 1}, "a c": {"x.org": 3}, "d": {"z.org": 1}}
    test = tiny_test(original, clicks=asked, sessions=[TestSession(("a b", "a c"), ("x.org",))])
    assert application.run(empty, test)[application.score] == 0
    assert 0 < application.run(original, test)[application.score] <= 1
    assert SCORE[name]
