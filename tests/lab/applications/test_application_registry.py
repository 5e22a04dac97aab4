"""Every application can be had by its name, with parameters that work as they are."""

from dataclasses import is_dataclass

import pytest

from searchveil.errors import InputError
from searchveil.lab.applications import APPLICATIONS, application_named
from searchveil.lab.view import kinds


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
